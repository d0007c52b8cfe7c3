/** Patterns for paint: how much of the accent colour lies at a place of the pen's frame. */

import type { Pattern } from "./brush.ts";
import { hash32 } from "./dice.ts";
import { smoothstep } from "./noise.ts";

const wrap = (x: number) => x - Math.floor(x);
/** 1 within `half` of the middle of each unit, with soft edges. */
const band = (x: number, half: number, soft: number) =>
  1 - smoothstep(half - soft, half + soft, Math.abs(wrap(x) - 0.5));

/** Bands across, `count` to the unit; upright when `upright`. */
export function stripes(count: number, upright = true): Pattern {
  return (u, v) => band((upright ? u : v) * count, 0.25, 0.08);
}

export function dots(count: number): Pattern {
  return (u, v) => {
    const row = Math.floor(v * count);
    const [a, b] = [wrap(u * count + (row & 1) * 0.5) - 0.5, wrap(v * count) - 0.5];
    return 1 - smoothstep(0.22, 0.32, Math.sqrt(a * a + b * b));
  };
}

export function checks(count: number): Pattern {
  return (u, v) => ((Math.floor(u * count) + Math.floor(v * count)) & 1) * 0.85;
}

/** Irregular patches, as on a cow. */
export function patches(count: number, seed: number): Pattern {
  return (u, v) => {
    const [x, y] = [u * count, v * count];
    let nearest = 9;
    for (let j = -1; j <= 1; j++) {
      for (let i = -1; i <= 1; i++) {
        const [cx, cy] = [Math.floor(x) + i, Math.floor(y) + j];
        const h = hash32(cx, cy, seed);
        if ((h & 3) === 0) continue;
        const dx = cx + ((h >>> 4) & 255) / 255 - x;
        const dy = cy + ((h >>> 12) & 255) / 255 - y;
        nearest = Math.min(nearest, (dx * dx + dy * dy) / (0.1 + ((h >>> 20) & 15) / 60));
      }
    }
    return 1 - smoothstep(0.65, 0.85, nearest);
  };
}

/** Mortar between bricks. */
export function bricks(across: number, rows: number): Pattern {
  return (u, v) => {
    const row = Math.floor(v * rows);
    const joint = Math.max(
      1 - smoothstep(0.04, 0.12, 0.5 - Math.abs(wrap(v * rows) - 0.5)),
      1 - smoothstep(0.02, 0.06, 0.5 - Math.abs(wrap(u * across + (row & 1) * 0.5) - 0.5)),
    );
    const tone = (hash32(Math.floor(u * across + (row & 1) * 0.5), row, 7) & 15) / 15;
    return Math.max(joint * 0.55, tone * 0.18);
  };
}

/** Planks with dark seams, `count` to the unit. */
export function planks(count: number, upright = false): Pattern {
  return (u, v) => 1 - smoothstep(0.02, 0.06, 0.5 - Math.abs(wrap((upright ? u : v) * count) - 0.5));
}

/** Overlapping scales or tiles. */
export function tiles(count: number): Pattern {
  return (u, v) => {
    const row = Math.floor(v * count);
    const [a, b] = [wrap(u * count + (row & 1) * 0.5) - 0.5, wrap(v * count)];
    const rim = Math.abs(Math.sqrt(a * a * 1.6 + (1 - b) * (1 - b)) - 0.85);
    return (1 - smoothstep(0.03, 0.12, rim)) * 0.8;
  };
}
