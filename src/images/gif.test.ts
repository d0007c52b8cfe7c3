import { describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { encodeGif } from "./gif.ts";

type Frame = { width: number; height: number; delay: number; rgb: number[] };

/** A plain reading of the GIF89a text, for full frames with a local colour table. */
function readGif(bytes: Uint8Array): { width: number; height: number; loops: boolean; frames: Frame[] } {
  const word = (at: number) => bytes[at]! | (bytes[at + 1]! << 8);
  const gif = { width: word(6), height: word(8), loops: false, frames: [] as Frame[] };
  let delay = 0;
  let at = 13;
  const readBlocks = () => {
    const body: number[] = [];
    for (; bytes[at] !== 0; at += 1 + bytes[at]!) body.push(...bytes.subarray(at + 1, at + 1 + bytes[at]!));
    at++;
    return body;
  };
  while (bytes[at] !== 0x3b) {
    if (bytes[at] === 0x21) {
      const label = bytes[at + 1];
      at += 2;
      const body = readBlocks();
      if (label === 0xf9) delay = body[1]! | (body[2]! << 8);
      if (label === 0xff) gif.loops = Buffer.from(body.slice(0, 11)).toString() === "NETSCAPE2.0";
      continue;
    }
    expect(bytes[at]).toBe(0x2c);
    const [width, height] = [word(at + 5), word(at + 7)];
    const tableSize = 2 << (bytes[at + 9]! & 7);
    const table = bytes.subarray(at + 10, at + 10 + tableSize * 3);
    at += 10 + tableSize * 3;
    const bits = bytes[at++]!;
    const pixels = unpack(readBlocks(), bits);
    gif.frames.push({ width, height, delay, rgb: pixels.flatMap((p) => [...table.subarray(p * 3, p * 3 + 3)]) });
  }
  expect(at).toBe(bytes.length - 1);
  return gif;
}

function unpack(bytes: number[], bits: number): number[] {
  const clear = 1 << bits;
  const out: number[] = [];
  let table: number[][] = [];
  let width = bits + 1;
  let previous: number[] | undefined;
  for (let bit = 0; ; ) {
    let code = 0;
    for (let i = 0; i < width; i++, bit++) code |= ((bytes[bit >> 3]! >> (bit & 7)) & 1) << i;
    if (code === clear + 1) return out;
    if (code === clear) {
      table = Array.from({ length: clear + 2 }, (_, i) => [i]);
      width = bits + 1;
      previous = undefined;
      continue;
    }
    const entry: number[] = table[code] ?? [...previous!, previous![0]!];
    if (previous !== undefined && table.length < 4096) table.push([...previous, entry[0]!]);
    if (table.length === 1 << width && width < 12) width++;
    out.push(...entry);
    previous = entry;
  }
}

function testImage(width: number, height: number, colors: number): Image {
  let state = 1;
  const data = new Uint8Array(width * height * 3);
  for (let i = 0; i < width * height; i++) {
    state = (state * 48271) % 2147483647;
    const color = state % colors;
    data.set([color % 256, (color * 7) % 256, color >> 8], i * 3);
  }
  return new Image(width, height, data);
}

describe("encodeGif", () => {
  test.each([1, 2, 3, 4, 5, 16, 17, 128, 129, 256])("keeps %i colours exactly", (colors) => {
    const image = testImage(61, 47, colors);
    const { width, height, frames } = readGif(encodeGif([image]));
    expect([width, height, frames.length]).toEqual([61, 47, 1]);
    expect(frames[0]!.rgb).toEqual([...image.data]);
  });

  test("survives the LZW table filling up many times, at every length near it", () => {
    for (const width of [1, 2, 5000, 5001, 30000]) {
      const image = testImage(width, 1, 256);
      expect(readGif(encodeGif([image])).frames[0]!.rgb).toEqual([...image.data]);
    }
    for (let width = 1; width < 80; width++) {
      const image = testImage(width, 1, 3);
      expect(readGif(encodeGif([image])).frames[0]!.rgb).toEqual([...image.data]);
    }
  });

  test("stays near the original when there are more than 256 colours", () => {
    const [width, height] = [64, 64];
    const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => {
      const [x, y] = [Math.floor(i / 3) % width, Math.floor(i / 3 / width)];
      return [x * 4, y * 4, (x + y) * 2][i % 3]!;
    });
    const [frame] = readGif(encodeGif([new Image(width, height, data)])).frames;
    const error = frame!.rgb.reduce((sum, value, i) => sum + Math.abs(value - data[i]!), 0) / data.length;
    expect(error).toBeLessThan(6);
    expect(new Set(frame!.rgb.map((_, i) => (i % 3 === 0 ? frame!.rgb.slice(i, i + 3).join() : ""))).size).toBe(257);
  });

  test("pads smaller frames with white to the largest width and height", () => {
    const red = new Image(1, 2, Uint8Array.of(255, 0, 0, 255, 0, 0));
    const blue = new Image(2, 1, Uint8Array.of(0, 0, 255, 0, 0, 255));
    const { width, height, frames } = readGif(encodeGif([red, blue]));
    expect([width, height]).toEqual([2, 2]);
    expect(frames[0]!.rgb).toEqual([255, 0, 0, 255, 255, 255, 255, 0, 0, 255, 255, 255]);
    expect(frames[1]!.rgb).toEqual([0, 0, 255, 0, 0, 255, 255, 255, 255, 255, 255, 255]);
  });

  test("writes delays in hundredths of a second and loops unless told not to", () => {
    const frames = [testImage(2, 2, 2), testImage(2, 2, 3)];
    const gif = readGif(encodeGif(frames, { delayMs: [40, 1000] }));
    expect(gif.frames.map((frame) => frame.delay)).toEqual([4, 100]);
    expect(gif.loops).toBe(true);
    expect(readGif(encodeGif(frames, { delayMs: 250, loop: false }))).toMatchObject({
      loops: false,
      frames: [{ delay: 25 }, { delay: 25 }],
    });
  });

  test("refuses no frames, delays that do not match, and delays that can't be", () => {
    expect(() => encodeGif([])).toThrow(ConfigError);
    expect(() => encodeGif([testImage(1, 1, 1)], { delayMs: [1, 2] })).toThrow(/one for each of the 1 frames/);
    expect(() => encodeGif([testImage(1, 1, 1)], { delayMs: -100 })).toThrow(ConfigError);
    expect(() => encodeGif([testImage(1, 1, 1)], { delayMs: Number.NaN })).toThrow(ConfigError);
  });
});
