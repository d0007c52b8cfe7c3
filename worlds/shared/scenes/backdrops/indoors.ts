/** Rooms: shelves against a papered wall, and a table by the window. */
import { type Brush, type Color, deepen, lift, mix } from "../brush.ts";
import type { Dice } from "../dice.ts";
import { type Mood, moods } from "../moods.ts";
import { cloud, ridge, smoothstep } from "../noise.ts";
import { checks, dots, planks, stripes } from "../patterns.ts";
import { Pen } from "../pen.ts";
import { COLORS, LIGHT, WOOD } from "../thing.ts";
import { type Backdrop, polygon } from "./land.ts";

const WALLS: readonly Color[] = [
  [206, 190, 168],
  [170, 190, 186],
  [204, 172, 160],
  [182, 190, 206],
  [222, 208, 170],
  [164, 176, 150],
  [120, 140, 158],
];

function wallpaper(brush: Brush, dice: Dice, bottom: number): Color {
  const { width: W, height: H } = brush;
  const wall = dice.pick(WALLS);
  const scale = 1 / (H * 0.09);
  const flowers = dots(1);
  const bars = stripes(0.9);
  const diamonds = dice.whole(0, 2);
  brush.fill([-2, -2, W + 2, -2, W + 2, bottom, -2, bottom], {
    color: lift(wall, 0.1),
    to: deepen(wall, 0.16),
    along: [-brush.light, 0.6],
    grain: 0.06,
    pattern: (x, y) =>
      diamonds === 0 ? bars(x * scale, y * scale) * 0.25 : diamonds === 1 ? flowers(x * scale, y * scale) * 0.3 : 0,
    accent: lift(wall, 0.55),
  });
  brush.glow(brush.light < 0 ? W * 0.15 : W * 0.85, H * 0.1, W * 0.7, H * 0.7, [255, 246, 220], 0.28);
  return wall;
}

export const shelf: Backdrop = {
  name: "shelf",
  paint(brush, dice) {
    const { width: W, height: H } = brush;
    wallpaper(brush, dice, H + 2);
    const wood = mix(dice.pick<Color>([WOOD, [190, 140, 90], [110, 74, 52], [222, 214, 200]]), WOOD, 0.15);
    const count = 3;
    const gap = H / count;
    const rows: number[] = [];
    for (let i = 0; i < count; i++) {
      const y = gap * (i + 1) - H * 0.055;
      brush.glow(W / 2, y + H * 0.05, W * 0.62, H * 0.09, [40, 30, 40], 0.35);
      const board = {
        color: lift(wood, 0.1),
        to: deepen(wood, 0.15),
        along: [0, 1] as const,
        grain: 0.26,
        stretch: [0.25, 2.2] as const,
      };
      brush.fill(
        [W * -0.01, y - H * 0.012, W * 1.01, y - H * 0.012, W * 1.01, y + H * 0.008, W * -0.01, y + H * 0.008],
        { ...board, color: lift(wood, 0.3), to: lift(wood, 0.18) },
      );
      brush.fill(
        [W * -0.01, y + H * 0.008, W * 1.01, y + H * 0.008, W * 1.01, y + H * 0.042, W * -0.01, y + H * 0.042],
        board,
      );
      rows.push(y - H * 0.002);
    }
    for (const x of [-0.01, 0.965])
      brush.fill([x * W, -2, (x + 0.045) * W, -2, (x + 0.045) * W, H + 2, x * W, H + 2], {
        color: wood,
        along: [1, 0],
        grain: 0.26,
        stretch: [2.2, 0.25],
      });
    return {
      mood: moods[0] as Mood,
      stages: [
        { habitat: "table", top: rows[0] as number, bottom: rows[2] as number, far: gap * 0.5, near: gap * 0.5, rows },
      ],
    };
  },
};

export const table: Backdrop = {
  name: "table",
  paint(brush, dice) {
    const { width: W, height: H } = brush;
    const mood = dice.pick(moods);
    const edge = H * dice.between(0.5, 0.56);
    wallpaper(brush, dice.fork("wall"), edge + 2);
    const view = dice.fork("view");
    const [x0, x1, y0, y1] = [W * view.between(0.1, 0.4), 0, H * 0.05, edge - H * 0.1].map(Math.round) as [
      number,
      number,
      number,
      number,
    ];
    const right = Math.round(x0 + W * 0.42 + x1);
    const outside = (x: number, y: number) => y > y1 - (y1 - y0) * (0.3 + 0.12 * ridge(x / 30, 4));
    brush.fill([x0, y0, right, y0, right, y1, x0, y1], {
      color: mood.zenith,
      to: mood.horizon,
      along: [0, 1],
      grain: 0.04,
      pattern: (x, y) => (outside(x, y) ? 1 : smoothstep(0.05, 0.5, cloud(x * 0.4, y * 0.7)) * 0.7),
      accent: mix(mood.cloud, LIGHT, 0.3),
    });
    const green = mix(mood.grass, mood.haze, 0.2);
    const hillside: number[] = [];
    for (let x = x0; x <= right; x += 3) hillside.push(x, y1 - (y1 - y0) * (0.3 + 0.12 * ridge(x / 30, 4)));
    brush.fill([...hillside, right, y1, x0, y1], {
      color: lift(green, 0.1),
      to: deepen(green, 0.1),
      along: [0, 1],
      grain: 0.2,
    });
    const frame = Pen.at(brush, { x: x0, y: y1, size: right - x0 });
    const high = (y1 - y0) / (right - x0);
    for (const u of [-0.04, 0.485, 0.98]) frame.rect(u, -0.04, 0.045, high + 0.08, LIGHT);
    for (const v of [-0.05, high * 0.5 - 0.015, high]) frame.rect(-0.04, v, 1.065, 0.04, LIGHT);
    const curtain = COLORS[view.pick(["red", "green", "blue", "teal", "orange", "pink"])];
    const folds = (u: number) => 0.5 + 0.5 * ridge(u * 40, 9);
    frame.shape(`-.16,${high + 0.08} .2,${high + 0.08} ~.14,${high * 0.5} -.02,${high * 0.3} -.04,-.12 -.18,-.12`, {
      color: curtain,
      pattern: folds,
      accent: deepen(curtain, 0.35),
    });
    frame.shape(`1.16,${high + 0.08} .8,${high + 0.08} ~.86,${high * 0.5} 1.02,${high * 0.3} 1.04,-.12 1.18,-.12`, {
      color: curtain,
      pattern: folds,
      accent: deepen(curtain, 0.35),
    });
    frame.line(`-.22,${high + 0.09} 1.22,${high + 0.09}`, 0.03, WOOD);
    const cloth = dice.fork("cloth");
    const base = cloth.pick<Color>([
      [150, 100, 62],
      [236, 232, 222],
      [120, 82, 56],
      [190, 150, 104],
    ]);
    const woven = base[0] > 200;
    const second = COLORS[cloth.pick(["red", "blue", "green", "teal"])];
    const squares = checks(1);
    brush.fill(polygon([-2, edge, W + 2, edge], brush), {
      color: lift(base, 0.08),
      to: deepen(base, 0.24),
      along: [0, 1],
      grain: woven ? 0.05 : 0.3,
      stretch: woven ? [1, 1] : [0.2, 2.4],
      // A checked cloth in perspective: rows lie closer together the farther they are.
      pattern: woven
        ? (x, y) => squares(((x - W / 2) / (y - edge + H * 0.5)) * 9 + 50, (H * 0.5 * 11) / (y - edge + H * 0.5)) * 0.45
        : (_, y) => planks(1)(0, Math.sqrt(Math.max(0, y - edge) / H) * 6) * 0.5,
      accent: woven ? second : [60, 38, 24],
    });
    brush.glow(W / 2, edge + H * 0.01, W * 0.7, H * 0.05, [40, 30, 40], 0.3);
    return {
      mood: { ...(moods[0] as Mood) },
      stages: [{ habitat: "table", top: edge + H * 0.1, bottom: H * 0.96, far: H * 0.16, near: H * 0.26 }],
    };
  },
};
