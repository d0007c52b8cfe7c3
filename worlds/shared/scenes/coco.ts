/** Annotations in COCO's form, as LVIS and RefCOCO+ have them: rows out of large JSON files, and polygons as masks. */
import { closeSync, openSync, readSync } from "node:fs";
import { ConfigError, DataError, type Json } from "../../../src/core/index.ts";

const CHUNK = 1 << 20;

/**
 * Calls `use` with every object in the lists `lists` of a JSON file's top object, in the file's order. The file is read piece by
 * piece: LVIS's has a gigabyte, more than a string can hold.
 */
export function readRows(
  file: string,
  lists: readonly string[],
  use: (list: string, row: Record<string, Json>) => void,
): void {
  let handle: number;
  try {
    handle = openSync(file, "r");
  } catch (error) {
    throw new ConfigError(`${file} can't be read: check its path.`, { cause: error });
  }
  try {
    const chunk = Buffer.alloc(CHUNK);
    // Depth 1 is the top object, 2 a list in it, 3 a row. `text` collects the present key or row.
    let [depth, quoted, escaped] = [0, false, false];
    let [key, list] = ["", ""];
    let parts: Buffer[] = [];
    for (let size = readSync(handle, chunk); size > 0; size = readSync(handle, chunk)) {
      let from = 0;
      for (let i = 0; i < size; i++) {
        const code = chunk[i] as number;
        if (quoted) {
          if (escaped) escaped = false;
          else if (code === 0x5c) escaped = true;
          else if (code === 0x22) {
            quoted = false;
            if (depth === 1) key = Buffer.concat([...parts, chunk.subarray(from, i)]).toString();
          }
          continue;
        }
        if (code === 0x22) {
          quoted = true;
          if (depth === 1) {
            parts = [];
            from = i + 1;
          }
        } else if (code === 0x7b || code === 0x5b) {
          depth += 1;
          if (depth === 2 && code === 0x5b) list = key;
          if (depth === 3) {
            parts = [];
            from = i;
          }
        } else if (code === 0x7d || code === 0x5d) {
          if (depth === 3 && code === 0x7d && lists.includes(list)) {
            use(list, parseRow(Buffer.concat([...parts, chunk.subarray(from, i + 1)]).toString(), file));
          }
          if (depth === 2) list = "";
          depth -= 1;
        }
      }
      if ((depth >= 3 && lists.includes(list)) || (depth === 1 && quoted))
        parts.push(Buffer.from(chunk.subarray(from, size)));
    }
    if (depth !== 0) throw new DataError(`${file} ends in the middle: download it again.`);
  } finally {
    closeSync(handle);
  }
}

function parseRow(text: string, file: string): Record<string, Json> {
  try {
    return JSON.parse(text) as Record<string, Json>;
  } catch (error) {
    throw new DataError(`${file} is not JSON near ${text.slice(0, 60)}`, { cause: error });
  }
}

/** Whether each pixel's centre lies in one of the polygons (`[x, y, x, y, …]` each); other forms of masks are none. */
export function maskOf(segmentation: Json | undefined, width: number, height: number): Uint8Array {
  const mask = new Uint8Array(width * height);
  for (const polygon of Array.isArray(segmentation) ? segmentation : []) {
    if (Array.isArray(polygon) && polygon.length >= 6) fill(mask, width, height, polygon as number[]);
  }
  return mask;
}

function fill(mask: Uint8Array, width: number, height: number, polygon: readonly number[]): void {
  const corners = polygon.length >> 1;
  for (let row = 0; row < height; row++) {
    const y = row + 0.5;
    const crossings: number[] = [];
    for (let i = 0, j = corners - 1; i < corners; j = i++) {
      const [ax, ay] = [polygon[2 * j] as number, polygon[2 * j + 1] as number];
      const [bx, by] = [polygon[2 * i] as number, polygon[2 * i + 1] as number];
      if (ay <= y !== by <= y) crossings.push(ax + ((y - ay) * (bx - ax)) / (by - ay));
    }
    crossings.sort((a, b) => a - b);
    for (let i = 0; i + 1 < crossings.length; i += 2) {
      const from = Math.max(0, Math.ceil((crossings[i] as number) - 0.5));
      const to = Math.min(width, Math.ceil((crossings[i + 1] as number) - 0.5));
      if (from < to) mask.fill(1, row * width + from, row * width + to);
    }
  }
}

/** The mean of a mask's pixels; undefined when it has none. */
export function centreOf(mask: Uint8Array, width: number): readonly [number, number] | undefined {
  let [count, sx, sy] = [0, 0, 0];
  mask.forEach((inside, i) => {
    if (inside === 0) return;
    count += 1;
    sx += i % width;
    sy += Math.floor(i / width);
  });
  return count === 0 ? undefined : [sx / count, sy / count];
}
