/** A street: a row of houses with windows, shops and doors, pavement and road. */
import { type Brush, type Color, deepen, lift, mix } from "../brush.ts";
import type { Dice } from "../dice.ts";
import { type Mood, moods } from "../moods.ts";
import { grain } from "../noise.ts";
import { bricks, planks, stripes, tiles } from "../patterns.ts";
import { Pen } from "../pen.ts";
import { COLORS, DARK, LIGHT, plain, STEEL } from "../thing.ts";
import { type Backdrop, FLOWERS, plant, polygon, sky } from "./land.ts";

function facade(brush: Brush, dice: Dice, x: number, base: number, width: number, height: number, mood: Mood): void {
  const wall = dice.pick<Color>([
    [214, 120, 92],
    [236, 206, 150],
    [168, 196, 206],
    [226, 170, 150],
    [200, 204, 170],
    [190, 140, 120],
    [232, 224, 208],
    [150, 170, 150],
  ]);
  const size = width;
  const pen = Pen.at(brush, { x, y: base, size });
  const tall = height / size;
  const brick = dice.chance(0.5);
  pen.rect(
    0,
    0,
    1,
    tall,
    brick ? { color: wall, pattern: bricks(9, 26), accent: lift(wall, 0.5) } : { color: wall, grain: 0.08 },
  );
  const roof: Color = dice.pick<Color>([
    [120, 72, 60],
    [92, 88, 100],
    [150, 84, 62],
  ]);
  if (dice.chance(0.5))
    pen.shape(`-.04,${tall} .1,${tall + 0.24} .9,${tall + 0.24} 1.04,${tall}`, {
      color: roof,
      pattern: tiles(13),
      accent: deepen(roof, 0.4),
    });
  else
    pen.shape(`-.04,${tall} .5,${tall + 0.34} 1.04,${tall}`, {
      color: roof,
      pattern: tiles(13),
      accent: deepen(roof, 0.4),
    });
  pen.rect(-0.03, tall - 0.05, 1.06, 0.06, plain(lift(wall, 0.4)));
  const columns = dice.whole(2, 3);
  const floors = Math.max(1, Math.floor((tall - 0.62) / 0.42));
  const trim = dice.pick<Color>([LIGHT, [90, 70, 60], [70, 96, 110]]);
  const night = mood.name === "dusk" || mood.name === "sunset";
  const shutters = dice.chance(0.5) ? COLORS[dice.pick(["green", "blue", "brown", "teal"])] : undefined;
  for (let floor = 0; floor < floors; floor++) {
    for (let column = 0; column < columns; column++) {
      const [w, h] = [0.17, 0.27];
      const [u, v] = [(column + 0.5) / columns - w / 2, 0.62 + floor * 0.42];
      pen.rect(u - 0.025, v - 0.025, w + 0.05, h + 0.05, plain(trim));
      const lit = night && dice.chance(0.6);
      pen.rect(
        u,
        v,
        w,
        h,
        lit
          ? { color: [255, 226, 140], to: [246, 176, 84] }
          : { color: [150, 190, 210], to: [70, 100, 124], along: [1, 1] },
      );
      pen.rect(u + w / 2 - 0.008, v, 0.016, h, plain(trim, 0));
      pen.rect(u, v + h * 0.55, w, 0.016, plain(trim, 0));
      if (shutters !== undefined) {
        for (const side of [u - 0.085, u + w + 0.02])
          pen.rect(side, v - 0.02, 0.065, h + 0.04, {
            color: shutters,
            pattern: planks(22),
            accent: deepen(shutters, 0.4),
          });
      }
      if (dice.chance(0.5)) {
        pen.rect(u - 0.03, v - 0.06, w + 0.06, 0.05, [140, 92, 62]);
        for (let i = 0; i < 5; i++) pen.disc(u + (i * w) / 4, v - 0.005, 0.028, dice.pick(FLOWERS));
      }
    }
  }
  const shop = dice.chance(0.6);
  const door = COLORS[dice.pick(["red", "green", "blue", "brown", "teal", "yellow"])];
  pen.rect(0.08, 0, 0.2, 0.4, { color: door, pattern: planks(12, true), accent: deepen(door, 0.3) }, 0.02);
  pen.rect(0.115, 0.24, 0.13, 0.11, plain([180, 206, 214]));
  pen.disc(0.25, 0.18, 0.014, plain([240, 206, 110]));
  pen.rect(0.05, 0, 0.26, 0.025, STEEL);
  pen.rect(0.38, 0.1, 0.54, 0.3, plain(trim));
  pen.rect(
    0.4,
    0.12,
    0.5,
    0.26,
    night
      ? { color: [255, 232, 160], to: [240, 180, 100] }
      : { color: [176, 206, 220], to: [86, 116, 140], along: [1, 1] },
  );
  for (let i = 0; i < 4; i++)
    pen.oval(
      0.47 + i * 0.12,
      0.15,
      0.04,
      0.05,
      COLORS[dice.pick(["red", "orange", "yellow", "green", "purple", "pink"])],
    );
  pen.rect(0.64, 0.12, 0.02, 0.26, plain(trim));
  if (shop) {
    const cloth = COLORS[dice.pick(["red", "green", "blue", "orange", "teal"])];
    pen.shape(".34,.5 .96,.5 1,.39 .3,.39", { color: cloth, pattern: stripes(12), accent: LIGHT });
    for (let i = 0; i < 7; i++) pen.oval(0.35 + i * 0.1, 0.39, 0.05, 0.03, i % 2 ? LIGHT : cloth);
  }
}

export const street: Backdrop = {
  name: "street",
  paint(brush, dice) {
    const { width: W, height: H } = brush;
    const mood = dice.pick(moods);
    const base = H * dice.between(0.6, 0.66);
    sky(brush, dice.fork("sky"), mood, base);
    const far = dice.fork("far");
    for (let x = -0.02; x < 1; ) {
      const w = far.between(0.05, 0.12);
      const h = far.between(0.3, 0.56) * H;
      const color = mix(
        far.pick<Color>([
          [120, 120, 150],
          [150, 130, 140],
          [130, 150, 150],
        ]),
        mood.haze,
        0.55,
      );
      brush.fill([x * W, base, x * W, base - h, (x + w) * W, base - h, (x + w) * W, base], {
        color,
        to: mood.haze,
        along: [0, 1],
        grain: 0.04,
        pattern: (u, v) => ((Math.floor(u / 3.5) & 1) + (Math.floor(v / 5) & 1) === 2 ? 0.35 : 0),
        accent: mood.name === "dusk" ? [255, 226, 150] : lift(color, 0.4),
      });
      x += w + far.between(0, 0.02);
    }
    const row = dice.fork("row");
    for (let x = -W * row.between(0, 0.1); x < W; ) {
      const w = W * row.between(0.2, 0.3);
      facade(brush, row, x, base, w, H * row.between(0.32, 0.5), mood);
      x += w * 1.01;
    }
    const pave: Color = mix([196, 190, 182], mood.haze, 0.15);
    const kerb = base + H * 0.1;
    brush.fill([-2, base, W + 2, base, W + 2, kerb, -2, kerb], {
      color: lift(pave, 0.1),
      to: deepen(pave, 0.1),
      along: [0, 1],
      grain: 0.08,
      pattern: (u, v) =>
        v - base < 1 ? 0.6 : grain(Math.floor(u / 9), Math.floor((v - base) / (H * 0.034))) > 0.1 ? 0.12 : 0,
      accent: DARK,
    });
    const asphalt: Color = mix([92, 94, 104], mood.haze, 0.12);
    brush.fill(polygon([-2, kerb, W + 2, kerb], brush), {
      color: lift(asphalt, 0.08),
      to: deepen(asphalt, 0.18),
      along: [0, 1],
      grain: 0.16,
    });
    brush.fill([-2, kerb - H * 0.008, W + 2, kerb - H * 0.008, W + 2, kerb + H * 0.006, -2, kerb + H * 0.006], {
      color: lift(pave, 0.3),
      flat: true,
    });
    const shift = dice.roll() * 0.1;
    for (let i = -1; i < 8; i++) {
      const x = (i * 0.16 + shift) * W;
      brush.fill([x, H * 0.865, x + W * 0.085, H * 0.865, x + W * 0.08, H * 0.885, x - W * 0.005, H * 0.885], {
        color: [238, 232, 210],
        flat: true,
        alpha: 0.85,
      });
    }
    const side = dice.fork("side");
    for (let i = side.whole(2, 3); i > 0; i--) {
      const x = W * side.between(0.04, 0.96);
      if (side.chance(0.55))
        plant(brush, side, "tree", x, kerb - H * 0.02, H * side.between(0.3, 0.4), mix(mood.grass, COLORS.green, 0.5));
      else lampPost(brush, x, kerb - H * 0.015, H * 0.4, mood);
    }
    return {
      mood,
      stages: [
        { habitat: "ground", top: kerb + H * 0.05, bottom: H * 0.97, far: H * 0.16, near: H * 0.22 },
        { habitat: "sky", top: H * 0.05, bottom: H * 0.16, far: H * 0.1, near: H * 0.1 },
      ],
    };
  },
};

function lampPost(brush: Brush, x: number, y: number, size: number, mood: Mood): void {
  const pen = Pen.at(brush, { x, y, size });
  pen.shadow(0.2, 0.3);
  pen.rect(-0.04, 0, 0.08, 0.06, [56, 60, 66]);
  pen.rect(-0.014, 0, 0.028, 0.84, [64, 70, 76]);
  pen.shape("-.05,.82 .05,.82 .07,.96 -.07,.96", { color: [255, 240, 190], to: [250, 214, 140] });
  pen.shape("-.08,.96 0,1.03 .08,.96", [56, 60, 66]);
  if (mood.name === "dusk" || mood.name === "sunset")
    brush.glow(pen.x(0, 0.9), pen.y(0, 0.9), size * 0.32, size * 0.32, [255, 226, 150], 0.55);
}
