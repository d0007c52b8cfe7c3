import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { ConfigError, ImageError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { extendTo, fitLongSide, type ResizeFilter, resize } from "./resize.ts";

/** The image the Pillow vectors were made from: byte i is floor((31 i² + 17 i) / 64) mod 256. */
function synthetic(width: number, height: number): Image {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => Math.floor((i * i * 31 + i * 17) / 64) % 256);
  return new Image(width, height, data);
}

const digest = (image: Image) => createHash("sha256").update(image.data).digest("hex").slice(0, 16);

/** From width and height, to width and height, filter, start of SHA-256 over the pixels; Pillow 13.0.0. */
const PILLOW: [number, number, number, number, ResizeFilter, string][] = [
  [40, 30, 17, 11, "nearest", "80bba02729a4b59b"],
  [40, 30, 17, 11, "lanczos", "7e8c6f5de84c6f6c"],
  [40, 30, 17, 11, "bilinear", "c9c91043742a8a10"],
  [40, 30, 17, 11, "bicubic", "af8dabbc21b1fa2d"],
  [40, 30, 97, 71, "nearest", "04b7737ef651a709"],
  [40, 30, 97, 71, "lanczos", "9ae4af885936fb29"],
  [40, 30, 97, 71, "bilinear", "a4173f5d9250d1e0"],
  [40, 30, 97, 71, "bicubic", "eca3af693e35bac1"],
  [31, 45, 31, 20, "nearest", "277ab5db3e3e3c31"],
  [31, 45, 31, 20, "lanczos", "c5be27eb1ff7f7e3"],
  [31, 45, 31, 20, "bilinear", "a7b701764728caa4"],
  [31, 45, 31, 20, "bicubic", "6d258296394f4e64"],
  [31, 45, 64, 45, "nearest", "c39a460410a861cd"],
  [31, 45, 64, 45, "lanczos", "3df5eaa407bd237e"],
  [31, 45, 64, 45, "bilinear", "180c4e0c29a6031d"],
  [31, 45, 64, 45, "bicubic", "aacf85242cac682a"],
  [7, 5, 1, 1, "nearest", "464dafc2e0074a3c"],
  [7, 5, 1, 1, "lanczos", "3f32c2afe5dcb0c5"],
  [7, 5, 1, 1, "bilinear", "35d0da494b29ced1"],
  [7, 5, 1, 1, "bicubic", "076dcdbc91c6228d"],
  [1, 1, 9, 4, "nearest", "e3221e8d05a14c5e"],
  [1, 1, 9, 4, "lanczos", "e3221e8d05a14c5e"],
  [1, 1, 9, 4, "bilinear", "e3221e8d05a14c5e"],
  [1, 1, 9, 4, "bicubic", "e3221e8d05a14c5e"],
  [225, 225, 224, 224, "nearest", "5145e2e0e8f6dbed"],
  [225, 225, 224, 224, "lanczos", "bbc440525637bc7a"],
  [225, 225, 224, 224, "bilinear", "5670f3683ff2b823"],
  [225, 225, 224, 224, "bicubic", "8d9b05034ed12f80"],
  [50, 3, 7, 200, "nearest", "ca6e58b42611d812"],
  [50, 3, 7, 200, "lanczos", "ad67ee3288bead5d"],
  [50, 3, 7, 200, "bilinear", "88eb4ca103a40490"],
  [50, 3, 7, 200, "bicubic", "451244356d84b252"],
];

describe("resize", () => {
  test.each(PILLOW)("gives Pillow's bytes: %i×%i to %i×%i, %s", (fromW, fromH, width, height, filter, expected) => {
    const image = resize(synthetic(fromW, fromH), width, height, filter);
    expect([image.width, image.height]).toEqual([width, height]);
    expect(digest(image)).toBe(expected);
  });

  test("leaves the source untouched and returns it when the size is the same", () => {
    const image = synthetic(20, 10);
    const before = image.data.slice();
    resize(image, 7, 9, "lanczos");
    expect(image.data).toEqual(before);
    expect(resize(image, 20, 10)).toBe(image);
  });

  test("refuses sizes and filters that do not exist", () => {
    expect(() => resize(synthetic(2, 2), 0, 2)).toThrow(ImageError);
    expect(() => resize(synthetic(2, 2), 3, 3, "hamming" as ResizeFilter)).toThrow(ConfigError);
  });
});

describe("fitLongSide", () => {
  test.each([
    [1000, 600, 336, 336, 201],
    [481, 640, 336, 252, 336],
    [700, 2, 336, 336, 1],
    [336, 336, 336, 336, 336],
    [20, 10, 336, 20, 10],
  ])("%i×%i within %i is %i×%i", (width, height, max, expectedWidth, expectedHeight) => {
    const image = fitLongSide(new Image(width, height, new Uint8Array(width * height * 3)), max);
    expect([image.width, image.height]).toEqual([expectedWidth, expectedHeight]);
  });

  test("extends to whole steps with the colour of the corner, and leaves whole images alone", () => {
    const image = new Image(
      3,
      2,
      Uint8Array.from({ length: 18 }, (_, i) => i),
    );
    const wide = extendTo(image, 4);
    expect([wide.width, wide.height]).toEqual([4, 4]);
    expect([...wide.data.subarray(0, 12)]).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17]);
    expect([...wide.data.subarray(36)]).toEqual([15, 16, 17, 15, 16, 17, 15, 16, 17, 15, 16, 17]);
    expect(extendTo(wide, 2)).toBe(wide);
  });

  test("shrinks with Lanczos", () => {
    const image = synthetic(40, 30);
    expect(fitLongSide(image, 20).data).toEqual(resize(image, 20, 15, "lanczos").data);
  });
});
