/** For tests: what is seen in an image, as connected patches of pixels that have something in common. */
import type { Image } from "../../src/core/index.ts";

export type Blob = {
  readonly pixels: number;
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
};

/** Patches of at least `least` pixels that touch each other along a side. */
export function blobs(
  { width, height, data }: Image,
  wanted: (red: number, green: number, blue: number) => boolean,
  least = 1,
): Blob[] {
  const open = new Uint8Array(width * height);
  for (let i = 0; i < open.length; i++) {
    if (wanted(data[i * 3] as number, data[i * 3 + 1] as number, data[i * 3 + 2] as number)) open[i] = 1;
  }
  const found: Blob[] = [];
  for (let start = 0; start < open.length; start++) {
    if (open[start] !== 1) continue;
    const queue = [start];
    open[start] = 0;
    let [left, top, right, bottom] = [width, height, -1, -1];
    for (let next = 0; next < queue.length; next++) {
      const at = queue[next] as number;
      const [x, y] = [at % width, Math.floor(at / width)];
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
      const beside = [x > 0 ? at - 1 : -1, x < width - 1 ? at + 1 : -1, at - width, at + width];
      for (const other of beside) {
        if (other < 0 || open[other] !== 1) continue;
        open[other] = 0;
        queue.push(other);
      }
    }
    if (queue.length >= least) found.push({ pixels: queue.length, left, top, right, bottom });
  }
  return found;
}

/** As the ball of the robot's tasks, a red cube or an apple is, in light or in shade. */
export function isRed(red: number, green: number, blue: number): boolean {
  return red > 60 && green < red * 0.4 && blue < red * 0.4;
}
