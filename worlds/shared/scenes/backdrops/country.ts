/** Places in the open: fields, snow, the sea, a pond, the desert. */
import { type Color, deepen, lift, mix } from "../brush.ts";
import { moods } from "../moods.ts";
import { ridge } from "../noise.ts";
import { Pen } from "../pen.ts";
import { COLORS, plain } from "../thing.ts";
import {
  type Backdrop,
  FLOWERS,
  fence,
  hills,
  landscape,
  litter,
  meadow,
  path,
  plant,
  polygon,
  sky,
  water,
} from "./land.ts";

export const country: Backdrop = {
  name: "country",
  paint(brush, dice) {
    const { width: W, height: H } = brush;
    const mood = dice.pick(moods);
    const autumn = dice.chance(0.25);
    const grass = autumn ? mix(mood.grass, [196, 160, 70], 0.5) : mood.grass;
    const horizon = landscape(brush, dice, mood, grass, grass);
    const wood = dice.fork("wood");
    const back = hills(brush, dice.fork("field"), horizon + H * 0.1, H * 0.07, 8, {
      color: mix(lift(grass, 0.1), mood.haze, 0.25),
      to: grass,
      grain: 0.1,
    });
    const foliage: readonly Color[] = autumn
      ? [
          [206, 120, 48],
          [190, 84, 44],
          [214, 168, 66],
          [120, 140, 60],
        ]
      : [
          [70, 130, 66],
          [92, 150, 70],
          [54, 112, 72],
        ];
    brush.haze = { color: mood.haze, amount: 0.28 };
    for (let i = 0; i < 22; i++) {
      const x = W * wood.between(0, 1);
      const size = H * wood.between(0.06, 0.11);
      plant(brush, wood, wood.chance(0.35) ? "pine" : "tree", x, back(x) + H * 0.015, size, wood.pick(foliage));
    }
    brush.haze = { color: mood.haze, amount: 0.14 };
    if (wood.chance(0.6))
      plant(
        brush,
        wood,
        "house",
        W * wood.between(0.12, 0.88),
        horizon + H * 0.1,
        H * 0.17,
        COLORS[wood.pick(["white", "yellow", "red", "pink"])],
      );
    else if (wood.chance(0.5))
      plant(brush, wood, "windmill", W * wood.between(0.12, 0.88), horizon + H * 0.1, H * 0.24, COLORS.white);
    const ground = horizon + H * 0.13;
    hills(brush, dice.fork("near"), ground, H * 0.05, 4, {
      color: lift(grass, 0.1),
      to: deepen(grass, 0.28),
      grain: 0.22,
      stretch: [0.8, 2],
    });
    brush.haze = undefined;
    if (dice.chance(0.55)) path(brush, dice.fork("path"), ground, [196, 164, 118]);
    if (dice.chance(0.5)) fence(brush, dice.fork("fence"), ground + H * 0.03, H * 0.06, [176, 140, 104]);
    litter(brush, dice.fork("litter"), ground, 14, [168, 160, 150], deepen(grass, 0.2));
    const side = dice.fork("side");
    for (let i = side.whole(1, 2); i > 0; i--) {
      const x = W * (side.chance(0.5) ? side.between(-0.04, 0.16) : side.between(0.84, 1.04));
      plant(
        brush,
        side,
        side.chance(0.3) ? "pine" : "tree",
        x,
        ground + H * side.between(0.02, 0.12),
        H * side.between(0.34, 0.5),
        side.pick(foliage),
      );
    }
    meadow(brush, dice.fork("meadow"), ground, grass, FLOWERS);
    return {
      mood,
      stages: [
        { habitat: "ground", top: ground + H * 0.03, bottom: H * 0.97, far: H * 0.1, near: H * 0.24 },
        { habitat: "sky", top: H * 0.06, bottom: horizon - H * 0.1, far: H * 0.1, near: H * 0.12 },
      ],
    };
  },
};

export const winter: Backdrop = {
  name: "winter",
  paint(brush, dice) {
    const { width: W, height: H } = brush;
    const mood = dice.pick(moods.filter(({ name }) => name !== "noon"));
    const snow = mix([240, 246, 255], mood.horizon, 0.15);
    const horizon = landscape(brush, dice, mood, snow, [96, 120, 130]);
    const wood = dice.fork("wood");
    const back = hills(brush, dice.fork("field"), horizon + H * 0.08, H * 0.06, 8, {
      color: mix(snow, mood.haze, 0.3),
      to: snow,
      grain: 0.04,
    });
    brush.haze = { color: mood.haze, amount: 0.25 };
    for (let i = 0; i < 26; i++) {
      const x = W * wood.roll();
      plant(brush, wood, "pine", x, back(x) + H * 0.015, H * wood.between(0.07, 0.13), [60, 104, 88]);
    }
    brush.haze = { color: mood.haze, amount: 0.1 };
    plant(
      brush,
      wood,
      "house",
      W * wood.between(0.15, 0.85),
      horizon + H * 0.11,
      H * 0.19,
      COLORS[wood.pick(["red", "yellow", "blue"])],
    );
    brush.haze = undefined;
    const ground = horizon + H * 0.13;
    hills(brush, dice.fork("near"), ground, H * 0.04, 4, {
      color: lift(snow, 0.3),
      to: deepen(snow, 0.16),
      grain: 0.05,
    });
    for (let i = 0; i < 3; i++) {
      hills(brush, dice.fork(`drift${i}`), ground + H * (0.1 + 0.13 * i), H * 0.05, 3, {
        color: lift(snow, 0.4),
        to: deepen(snow, 0.2),
        grain: 0.06,
      });
    }
    const side = dice.fork("side");
    if (side.chance(0.6)) fence(brush, side, ground + H * 0.06, H * 0.07, [150, 120, 100]);
    litter(brush, side, ground, 26, [214, 222, 236], [170, 160, 130]);
    for (const x of [-0.02, 0.98])
      plant(
        brush,
        side,
        "pine",
        W * (x + side.between(-0.03, 0.06)),
        ground + H * side.between(0.02, 0.1),
        H * side.between(0.36, 0.5),
        [52, 100, 82],
      );
    const flakes = dice.fork("flakes");
    for (let i = 0; i < 130; i++)
      brush.glow(
        flakes.roll() * W,
        flakes.roll() * H,
        flakes.between(1, 2.6),
        flakes.between(1, 2.6),
        [255, 255, 255],
        0.9,
      );
    return {
      mood,
      stages: [
        { habitat: "ground", top: ground + H * 0.03, bottom: H * 0.96, far: H * 0.1, near: H * 0.24 },
        { habitat: "sky", top: H * 0.06, bottom: horizon - H * 0.1, far: H * 0.1, near: H * 0.12 },
      ],
    };
  },
};

export const seaside: Backdrop = {
  name: "seaside",
  paint(brush, dice) {
    const { width: W, height: H } = brush;
    const mood = dice.pick(moods);
    const horizon = H * dice.between(0.34, 0.42);
    sky(brush, dice.fork("sky"), mood, horizon + 1);
    const isle = dice.fork("isle");
    if (isle.chance(0.7)) {
      const [cx, half] = [W * isle.between(0.1, 0.9), W * isle.between(0.1, 0.22)];
      const points: number[] = [];
      for (let i = 0; i <= 30; i++) {
        const t = i / 30;
        points.push(
          cx - half + 2 * half * t,
          horizon + 2 - H * 0.09 * Math.max(0, t * (1 - t) * 4) * (0.7 + 0.3 * ridge(t * 9, isle.whole(0, 40) * 0 + 5)),
        );
      }
      brush.fill(points, {
        color: mix([96, 122, 96], mood.haze, 0.5),
        to: mix([70, 92, 92], mood.haze, 0.45),
        along: [0, 1],
        grain: 0.15,
      });
    }
    const shore = H * dice.between(0.66, 0.72);
    water(brush, dice.fork("sea"), horizon, shore + H * 0.06, mood);
    const sand: Color = mix([236, 210, 158], mood.haze, 0.12);
    const line = dice.fork("shore");
    const beach = hills(brush, line, shore + H * 0.045, H * 0.05, 9, {
      color: mix(sand, [170, 140, 110], 0.35),
      to: sand,
      grain: 0.06,
    });
    const foam: number[] = [];
    for (let x = -2; x <= W + 4; x += 3) foam.push(x, beach(x) - H * 0.012);
    for (let x = W + 4; x >= -2; x -= 3) foam.push(x, beach(x) + H * (0.004 + 0.008 * (0.5 + 0.5 * ridge(x / 9, 3))));
    brush.fill(foam, { color: [250, 252, 252], flat: true, alpha: 0.85 });
    const dry = polygon(
      [-2, shore + H * 0.075, W * 0.3, shore + H * 0.065, W * 0.7, shore + H * 0.08, W + 2, shore + H * 0.068],
      brush,
    );
    brush.fill(dry, { color: lift(sand, 0.2), to: deepen(sand, 0.12), along: [0, 1], grain: 0.13 });
    const bits = dice.fork("bits");
    for (let i = 0; i < 110; i++) {
      const [x, y] = [bits.roll() * W, shore + H * (0.09 + 0.24 * bits.roll())];
      Pen.at(brush, { x, y, size: H * bits.between(0.004, 0.012) }).oval(0, 0, 1, 0.6, {
        color: bits.pick<Color>([
          [206, 176, 130],
          [246, 232, 206],
          [170, 140, 112],
          [236, 190, 180],
        ]),
      });
    }
    if (bits.chance(0.7))
      plant(brush, bits, "palm", W * (bits.chance(0.5) ? 0.03 : 0.8), H * 0.94, H * bits.between(0.5, 0.64));
    return {
      mood,
      stages: [
        { habitat: "sky", top: H * 0.05, bottom: horizon - H * 0.08, far: H * 0.1, near: H * 0.11 },
        { habitat: "water", top: horizon + H * 0.07, bottom: shore - H * 0.02, far: H * 0.09, near: H * 0.2 },
        { habitat: "ground", top: shore + H * 0.13, bottom: H * 0.97, far: H * 0.17, near: H * 0.24 },
      ],
    };
  },
};

export const pond: Backdrop = {
  name: "pond",
  paint(brush, dice) {
    const { width: W, height: H } = brush;
    const mood = dice.pick(moods);
    const horizon = landscape(brush, dice, mood, mood.grass, mood.grass);
    const wood = dice.fork("wood");
    const bank = horizon + H * 0.08;
    hills(brush, dice.fork("field"), bank, H * 0.05, 6, {
      color: mix(mood.grass, mood.haze, 0.2),
      to: mood.grass,
      grain: 0.14,
    });
    brush.haze = { color: mood.haze, amount: 0.15 };
    for (let i = 0; i < 14; i++)
      plant(
        brush,
        wood,
        wood.chance(0.4) ? "pine" : "tree",
        W * wood.roll(),
        bank + H * 0.01,
        H * wood.between(0.1, 0.2),
        mix(mood.grass, [60, 120, 60], wood.roll()),
      );
    brush.haze = undefined;
    water(brush, dice.fork("water"), bank + H * 0.02, H * 0.9, mood);
    const lily = dice.fork("lily");
    for (let i = 0; i < 26; i++) {
      const t = lily.roll();
      const pen = Pen.at(brush, { x: lily.roll() * W, y: bank + H * (0.06 + 0.36 * t), size: H * (0.02 + 0.035 * t) });
      pen.oval(0, 0, 1, 0.38, { color: lily.chance(0.5) ? [92, 150, 78] : [120, 170, 90] });
      pen.shape("0,0 1,.12 .9,-.22", plain(mood.water, 0));
      if (lily.chance(0.3))
        for (const u of [-0.22, 0, 0.22])
          pen.oval(u, 0.22, 0.16, 0.28, lily.chance(0.5) ? [250, 190, 210] : [255, 246, 240], u * 80);
    }
    hills(brush, dice.fork("near"), H * 0.94, H * 0.05, 5, {
      color: lift(mood.grass, 0.1),
      to: deepen(mood.grass, 0.3),
      grain: 0.22,
    });
    meadow(brush, dice.fork("meadow"), H * 0.9, mood.grass, FLOWERS, 0.5);
    const reeds = dice.fork("reeds");
    for (let i = 0; i < 26; i++) {
      const x = W * (reeds.chance(0.5) ? reeds.between(0, 0.2) : reeds.between(0.8, 1));
      const pen = Pen.at(brush, { x, y: H * 0.97, size: H * reeds.between(0.14, 0.26) });
      pen.line(`0,0 ~.02,.5 ${reeds.between(-0.12, 0.12)},.9`, 0.03, [96, 130, 66]);
      if (reeds.chance(0.4)) pen.limb(0, 0.7, 0.07, 0, 0.9, 0.07, [120, 78, 46]);
    }
    return {
      mood,
      stages: [
        { habitat: "water", top: bank + H * 0.08, bottom: H * 0.86, far: H * 0.11, near: H * 0.22 },
        { habitat: "sky", top: H * 0.06, bottom: horizon - H * 0.1, far: H * 0.1, near: H * 0.12 },
      ],
    };
  },
};

export const desert: Backdrop = {
  name: "desert",
  paint(brush, dice) {
    const { width: W, height: H } = brush;
    const mood = dice.pick(moods.filter(({ name }) => name !== "overcast"));
    const horizon = H * dice.between(0.42, 0.5);
    sky(brush, dice.fork("sky"), mood, horizon + H * 0.05);
    const sand: Color = mix([228, 178, 112], mood.haze, 0.12);
    const rock: Color = mix([186, 104, 76], mood.haze, 0.25);
    const mesa = dice.fork("mesa");
    for (let i = 0; i < 3; i++) {
      const [x, w, h] = [W * mesa.roll(), W * mesa.between(0.08, 0.2), H * mesa.between(0.1, 0.24)];
      brush.fill(
        [
          x - w,
          horizon + H * 0.04,
          x - w * 0.6,
          horizon - h,
          x + w * 0.5,
          horizon - h * 0.96,
          x + w * 0.9,
          horizon + H * 0.04,
        ],
        {
          color: lift(rock, 0.1),
          to: mix(rock, mood.haze, 0.3),
          grain: 0.2,
          stretch: [1, 0.3],
          pattern: (_, y) => (Math.floor(y / (H * 0.03)) & 1) * 0.14,
          accent: deepen(rock, 0.5),
        },
      );
    }
    for (let i = 0; i < 4; i++) {
      hills(brush, dice.fork(`dune${i}`), horizon + H * (0.06 + 0.1 * i), H * 0.09, 5, {
        color: lift(sand, 0.22 - i * 0.03),
        to: deepen(sand, 0.1 + i * 0.04),
        grain: 0.08 + i * 0.03,
        stretch: [0.5, 3],
      });
    }
    const bits = dice.fork("bits");
    for (let i = 0; i < 60; i++) {
      const t = bits.roll();
      const pen = Pen.at(brush, {
        x: bits.roll() * W,
        y: horizon + H * (0.3 + 0.24 * t),
        size: H * (0.006 + 0.02 * t * bits.roll()),
      });
      pen.oval(0, 0.4, 1, 0.6, { color: mix(rock, sand, bits.roll()) });
    }
    for (let i = 0; i < 3; i++)
      plant(
        brush,
        bits,
        "cactus",
        W * bits.roll(),
        horizon + H * bits.between(0.2, 0.3),
        H * bits.between(0.14, 0.24),
        [84, 138, 92],
      );
    return {
      mood,
      stages: [
        { habitat: "ground", top: horizon + H * 0.3, bottom: H * 0.97, far: H * 0.14, near: H * 0.24 },
        { habitat: "sky", top: H * 0.06, bottom: horizon - H * 0.1, far: H * 0.11, near: H * 0.13 },
      ],
    };
  },
};
