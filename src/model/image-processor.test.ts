import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ConfigError, ImageError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { ImageProcessor } from "./image-processor.ts";

type Golden = {
  width: number;
  height: number;
  minPixels: number;
  maxPixels: number;
  gridH: number;
  gridW: number;
  sha256: string;
  values: Record<string, number>;
};
const golden = JSON.parse(readFileSync(new URL("golden/image-patches.json", import.meta.url), "utf8")) as {
  cases: Golden[];
};

/** The formula of golden/make-image-patches.py. */
function testImage(width: number, height: number): Image {
  const data = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      for (let c = 0; c < 3; c++) data[(y * width + x) * 3 + c] = (x * 7 + y * 13 + c * 29 + x * y) % 256;
    }
  }
  return new Image(width, height, data);
}

const sized = (least: number, most: number) =>
  new ImageProcessor({ size: { shortest_edge: least, longest_edge: most } });

describe("image processor", () => {
  test.each(golden.cases)("$width×$height gives the very bits of Hugging Face's PIL backend", (known) => {
    const image = testImage(known.width, known.height);
    const processor = sized(known.minPixels, known.maxPixels);
    const { patches, gridH, gridW } = processor.preprocess(image);
    expect({ gridH, gridW }).toEqual({ gridH: known.gridH, gridW: known.gridW });
    for (const [at, value] of Object.entries(known.values)) expect(patches[Number(at)]).toBe(value);
    expect(createHash("sha256").update(new Uint8Array(patches.buffer)).digest("hex")).toBe(known.sha256);
    expect(processor.tokenCount(image) * 4).toBe(gridH * gridW);
  });

  test("an image too long for the model, or too large to hold, is an error that says what to do", () => {
    const processor = sized(1024, 262144);
    expect(() => processor.targetSize(4000, 10)).toThrow(ImageError);
    expect(() => processor.targetSize(4000, 10)).toThrow(/400 times longer than wide.*Crop or pad/);
    expect(() => processor.targetSize(100_000, 100_000)).toThrow(/make it smaller/);
  });

  test("preprocessing that we do not do is refused", () => {
    expect(() => new ImageProcessor({ do_normalize: false })).toThrow(ConfigError);
    expect(() => new ImageProcessor({ resample: 2 })).toThrow(/resample/);
    expect(() => sized(2048, 1024)).toThrow(/is above the maximum/);
  });

  test("older files name the range of pixels min_pixels and max_pixels", () => {
    expect(new ImageProcessor({ min_pixels: 5000, max_pixels: 6000 })).toMatchObject({
      minPixels: 5000,
      maxPixels: 6000,
    });
  });
});
