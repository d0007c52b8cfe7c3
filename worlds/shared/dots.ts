/** Dots that an agent puts on an image: what counting and referring_dot_pointing share. */
import type { Image } from "../../src/core/index.ts";
import type { ArgSpec, Fact } from "../../src/envs/index.ts";
import type { Scene } from "./scenes/index.ts";

export type Dot = readonly [x: number, y: number];
type Size = { readonly width: number; readonly height: number };

const share = (name: string): ArgSpec => ({ type: "real", name, min: 0, max: 1 });
/** A place as shares of the picture's width and height. */
export const PLACE: ArgSpec = { type: "tuple", items: [share("x"), share("y")] };

/** The pixel that a place means: cut off, not rounded, as in VisGym. */
export function pixelAt([x, y]: readonly [number, number], { width, height }: Size): Dot {
  return [Math.trunc(x * (width - 1)), Math.trunc(y * (height - 1))];
}

/** A place of four decimals that means this pixel. */
export function placeOf([x, y]: Dot, { width, height }: Size): [number, number] {
  const along = (at: number, length: number) =>
    length === 1 ? 0 : Math.min(1, Number(((at + 0.5) / (length - 1)).toFixed(4)));
  return [along(x, width), along(y, height)];
}

export function paintDot(
  bytes: Uint8Array,
  { width, height }: Size,
  [cx, cy]: Dot,
  radius: number,
  [red, green, blue]: readonly [number, number, number],
): void {
  for (let y = Math.max(0, cy - radius); y <= Math.min(height - 1, cy + radius); y++) {
    const half = Math.floor(Math.sqrt(radius * radius - (y - cy) * (y - cy)));
    for (let x = Math.max(0, cx - half); x <= Math.min(width - 1, cx + half); x++) {
      const i = (y * width + x) * 3;
      bytes[i] = red;
      bytes[i + 1] = green;
      bytes[i + 2] = blue;
    }
  }
}

/** Whether the image is bright around a pixel. */
export function isBright({ width, height, data }: Image, [cx, cy]: Dot): boolean {
  let [sum, count] = [0, 0];
  for (let y = Math.max(0, cy - 1); y <= Math.min(height - 1, cy + 1); y++) {
    for (let x = Math.max(0, cx - 1); x <= Math.min(width - 1, cx + 1); x++, count++) {
      const i = (y * width + x) * 3;
      sum += 0.299 * (data[i] as number) + 0.587 * (data[i + 1] as number) + 0.114 * (data[i + 2] as number);
    }
  }
  return sum / count > 127;
}

/** What is in a scene and where, top to bottom: "red mug at (0.31, 0.52)". */
export function listThings({ objects, picture }: Scene): string {
  return [...objects]
    .sort((a, b) => a.centre[1] - b.centre[1] || a.centre[0] - b.centre[0])
    .map(({ kind, color, pattern, centre, height }) => {
      const [x, y] = [centre[0] / (picture.width - 1), centre[1] / (picture.height - 1)];
      const looks = pattern === "plain" ? color : `${pattern} ${color}`;
      return `${kind} (${looks}, ${Math.round(height)} pixels high) at (${x.toFixed(2)}, ${y.toFixed(2)})`;
    })
    .join("\n");
}

/** Where things are, seen from the middle of the image. */
export function factsOf({ objects, picture }: Scene): Fact[] {
  return objects.map(({ kind, color, centre: [x, y] }) => ({
    subject: `${color} ${kind}`,
    relations: [y < picture.height / 2 ? "above" : "below", x < picture.width / 2 ? "left" : "right"],
    object: "centre",
  }));
}
