/** What backdrops are made of: skies, hills, water, meadows, paths and plants in the distance. */
import { type Brush, type Color, deepen, lift, mix, type Paint } from "../brush.ts";
import type { Dice } from "../dice.ts";
import type { Mood } from "../moods.ts";
import { cloud, ease, ridge, smoothstep } from "../noise.ts";
import { Pen } from "../pen.ts";
import { type Habitat, inkOf, LIGHT, plain } from "../thing.ts";
import { thingNamed } from "../things/index.ts";

/** A band of the image where things of a habitat may stand; rows in pixels from far to near. */
export type Stage = {
  readonly habitat: Habitat;
  readonly top: number;
  readonly bottom: number;
  /** Pixels that a height of 1 has at the far and at the near edge. */
  readonly far: number;
  readonly near: number;
  /** Boards of a shelf: things stand on these rows only. */
  readonly rows?: readonly number[];
};
export type Place = { readonly mood: Mood; readonly stages: readonly Stage[] };
export type Backdrop = { readonly name: string; paint(brush: Brush, dice: Dice): Place };

export function polygon(points: readonly number[], brush: Brush): number[] {
  return [...points, brush.width + 2, brush.height + 2, -2, brush.height + 2];
}

export function sky(brush: Brush, dice: Dice, mood: Mood, horizon: number): void {
  const { width } = brush;
  const cover = dice.between(-0.2, 0.35);
  const [ox, oy] = [dice.whole(0, 255), dice.whole(0, 255)];
  const scale = 110 / width;
  brush.wash(0, horizon, (x, y, out) => {
    const t = y / horizon;
    const down = ease(t);
    // Clouds flatten towards the horizon.
    const flat = 1 + 2.2 * t * t;
    const thick =
      cloud(x * scale + ox, y * scale * flat * 1.5 + oy) + 0.3 * cloud(x * scale * 3.1, y * scale * 5 * flat);
    const puff = smoothstep(cover, cover + 0.42, thick) * (0.92 - 0.45 * t);
    const under = smoothstep(cover + 0.1, cover + 0.7, thick) * 0.16;
    for (let c = 0 as 0 | 1 | 2; c < 3; c++) {
      const air = mood.zenith[c] + (mood.horizon[c] - mood.zenith[c]) * down;
      const white = mood.cloud[c] + (mood.zenith[c] - mood.cloud[c]) * under;
      out[c] = air + (white - air) * puff;
    }
  });
  if (mood.name === "dusk") {
    for (let i = 0; i < 60; i++) {
      const [x, y] = [dice.roll() * width, dice.roll() * horizon * 0.7];
      brush.glow(x, y, 1.6, 1.6, LIGHT, dice.between(0.3, 0.9));
    }
  }
  if (mood.sunHeight < 0) return;
  const [x, y] = [
    width * (brush.light < 0 ? dice.between(0.1, 0.35) : dice.between(0.65, 0.9)),
    horizon * (1 - mood.sunHeight),
  ];
  const r = width * 0.045;
  brush.glow(x, y, r * 7, r * 6, mood.sun, 0.6);
  Pen.at(brush, { x, y, size: r }).disc(0, 0, 1, { color: mood.sun, flat: true, grain: 0.02 });
}

/** A line of hills; returns its height at a column. */
export function hills(
  brush: Brush,
  dice: Dice,
  base: number,
  height: number,
  roughness: number,
  paint: Paint,
): (x: number) => number {
  const [line, shift] = [dice.whole(0, 250), dice.roll() * 256];
  const scale = roughness / brush.width;
  const top = (x: number) => base - height * (0.5 + 0.5 * ridge(x * scale + shift, line));
  const points: number[] = [];
  const step = Math.max(1, brush.width / 160);
  for (let x = -2; x <= brush.width + 2 + step; x += step) points.push(x, top(x));
  brush.fill(polygon(points, brush), { ...paint, along: [0, 1] });
  return top;
}

/** Blades and flowers on the ground between two rows, nearer ones larger. */
export function meadow(
  brush: Brush,
  dice: Dice,
  top: number,
  grass: Color,
  flowers: readonly Color[],
  density = 1,
): void {
  const { width, height } = brush;
  const count = Math.round(220 * density);
  for (let i = 0; i < count; i++) {
    const depth = Math.sqrt(i / count);
    const [x, y] = [dice.roll() * width, top + (height + 4 - top) * depth];
    const size = height * (0.012 + 0.03 * depth);
    const lean = dice.between(-0.5, 0.5);
    const tone = dice.chance(0.5) ? lift(grass, dice.between(0, 0.25)) : deepen(grass, dice.between(0, 0.3));
    const points = [x - size * 0.1, y, x + lean * size, y - size, x + size * 0.1, y];
    brush.fill(points, { color: tone, flat: true, grain: 0 });
    if (flowers.length > 0 && i % 6 === 0 && depth > 0.2) {
      const flower = Pen.at(brush, { x: x + lean * size, y: y - size, size: size * 0.55 });
      const petal = dice.pick(flowers);
      for (const [u, v] of [
        [0, 0.3],
        [0.3, 0],
        [0, -0.3],
        [-0.3, 0],
      ] as const)
        flower.disc(u, v, 0.26, plain(petal, 0));
      flower.disc(0, 0, 0.2, plain([250, 214, 90], 0));
    }
  }
}

export function plant(brush: Brush, dice: Dice, name: string, x: number, y: number, size: number, color?: Color): void {
  const thing = thingNamed(name);
  const pen = Pen.at(brush, { x, y, size, mirrored: dice.chance(0.5) });
  pen.shadow(thing.width * 0.8, 0.3);
  const ink = inkOf({ color: "green", pattern: "plain" }, dice);
  thing.draw(pen, color === undefined ? ink : { ...ink, color, coat: { color } });
}

export function water(brush: Brush, dice: Dice, top: number, bottom: number, mood: Mood): void {
  const [ox, oy] = [dice.whole(0, 255), dice.whole(0, 255)];
  const deep = deepen(mood.water, 0.18);
  brush.wash(top, bottom, (x, y, out) => {
    const t = Math.max(0, y - top) / (bottom - top);
    // Waves come nearer and grow: the far rows of the tile are squeezed.
    const row = 60 * Math.sqrt(t) * 2 + oy;
    const wave = cloud((x * 70) / brush.width / (0.25 + t) + ox, row * 1.4) + 0.4 * cloud(x * 0.3, row * 4);
    const crest = smoothstep(0.25, 0.6, wave) * (0.5 - 0.2 * t);
    const sheen = (1 - t) * 0.55;
    for (let c = 0 as 0 | 1 | 2; c < 3; c++) {
      const body = deep[c] + (mood.water[c] - deep[c]) * (0.5 + 0.5 * wave);
      const base = body + (mood.horizon[c] - body) * sheen;
      out[c] = base + (255 - base) * crest * 0.7;
    }
  });
}

export function path(brush: Brush, dice: Dice, top: number, color: Color): void {
  const { width, height } = brush;
  const start = width * dice.between(0.3, 0.7);
  const sway = width * dice.between(0.12, 0.25) * dice.sign();
  const left: number[] = [];
  const right: number[] = [];
  for (let i = 0; i <= 20; i++) {
    const t = i / 20;
    const y = top + (height + 4 - top) * t * t;
    const x = start + sway * (ridge(t * 3 + 0.5, 7) + t);
    const half = width * (0.008 + 0.09 * t * t);
    left.push(x - half, y);
    right.unshift(y);
    right.unshift(x + half);
  }
  brush.fill([...left, ...right], { color: lift(color, 0.25), to: color, along: [0, 1], grain: 0.16 });
}

export const FLOWERS: readonly Color[] = [
  [240, 90, 100],
  [252, 220, 110],
  [246, 246, 250],
  [170, 120, 214],
  [244, 150, 180],
];

/** Far mountains, perhaps with snow, and the hills before them; returns where the land begins. */
export function landscape(brush: Brush, dice: Dice, mood: Mood, grass: Color, near: Color): number {
  const { height: H } = brush;
  const horizon = H * dice.between(0.4, 0.5);
  sky(brush, dice.fork("sky"), mood, horizon + H * 0.06);
  const rock = mix([104, 112, 140], mood.haze, 0.4);
  const height = H * dice.between(0.14, 0.38);
  const snowline = horizon - height * dice.between(0.45, 0.7);
  const [ox, oy] = [dice.whole(0, 255), dice.whole(0, 255)];
  hills(brush, dice.fork("far"), horizon, height, dice.between(10, 26), {
    color: mix(rock, LIGHT, 0.12),
    to: mood.haze,
    grain: 0.1,
    // Snow above a ragged line, and the shaded side of every fold below it.
    pattern: (x, y) => {
      const fold = cloud(x * 0.5 + y * 0.35 + ox, y * 0.3 + oy);
      const snow = smoothstep(-2, 3, snowline - y + fold * height * 0.5);
      return snow * (0.75 + 0.25 * fold) + smoothstep(0.1, 0.4, fold) * 0.12;
    },
    accent: mix([250, 252, 255], mood.horizon, 0.2),
  });
  hills(brush, dice.fork("mid"), horizon + H * 0.03, H * dice.between(0.06, 0.14), 18, {
    color: mix(mix(near, rock, 0.5), mood.haze, 0.3),
    to: mix(grass, mood.haze, 0.45),
    grain: 0.14,
  });
  return horizon;
}

/** Posts and rails across the image, between two columns. */
export function fence(brush: Brush, dice: Dice, y: number, size: number, color: Color): void {
  const { width } = brush;
  const start = dice.chance(0.5) ? -size : width * dice.between(0.2, 0.6);
  const end = start < 0 ? width * dice.between(0.3, 0.7) : width + size;
  const wood = { color, grain: 0.2, stretch: [0.5, 1.5] as const };
  for (const rail of [0.42, 0.72]) {
    const [upper, lower] = [y - size * rail, y - size * (rail - 0.11)];
    brush.fill([start, upper, end, upper, end, lower, start, lower], wood);
  }
  for (let x = start; x <= end; x += size * 0.95) {
    const pen = Pen.at(brush, { x, y, size, tilt: dice.between(-3, 3) });
    pen.shadow(0.2, 0.25);
    pen.shape("-.07,0 -.07,.9 0,1 .07,.9 .07,0", wood);
  }
}

/** Stones and tufts that break up an empty ground. */
export function litter(brush: Brush, dice: Dice, top: number, count: number, stone: Color, tuft: Color): void {
  const { width, height } = brush;
  for (let i = 0; i < count; i++) {
    const depth = dice.roll();
    const size = height * (0.012 + 0.03 * depth) * dice.between(0.5, 1);
    const pen = Pen.at(brush, { x: dice.roll() * width, y: top + (height - top) * depth, size });
    if (dice.chance(0.4)) {
      pen.shadow(1.4, 0.3);
      const grey = mix(stone, [120, 116, 124], dice.roll() * 0.6);
      pen.shape("-.7,0 ~-.7,.6 -.2,.66 ~.5,.72 .7,0", { color: grey, grain: 0.2 });
      continue;
    }
    for (const lean of [-0.5, -0.2, 0.1, 0.4]) {
      const blade = mix(tuft, lean > 0 ? LIGHT : [60, 70, 60], 0.15);
      pen.shape(`-.1,0 ${lean},${dice.between(0.7, 1.2)} .1,0`, plain(blade, 0));
    }
  }
}
