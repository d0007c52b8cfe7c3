/** Processed images as real servers sent them: they decode, and encode to the same bytes; what is broken is refused. */
import { readFileSync } from "node:fs";
import { decode } from "@msgpack/msgpack";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DataError } from "../core/errors.ts";
import type { Features } from "../core/model-input.ts";
import { decodeFeatures, encodeFeatures, encodeMetadata } from "./features.ts";

const golden = <T>(name: string) =>
  JSON.parse(readFileSync(new URL(`vllm/golden/${name}.json`, import.meta.url), "utf8")) as T;
type Rendered = { features: { kwargs_data: { image: string[] }; mm_placeholders: { image: { length: number }[] } } };

const vectors = Object.entries(golden<Record<string, { b64: string; hex: string }>>("mm_serde_golden"));
const images = vectors.filter(([name]) => name.startsWith("qwen_like_image"));
const renders = ["render_chat_mm", "nonorm_render_chat_mm"].flatMap((name) =>
  golden<Rendered>(name).features.kwargs_data.image.map((b64, i) => [`${name} ${i}`, { b64 }] as const),
);

describe("recorded bytes", () => {
  test.each([...images, ...renders])("%s decodes and encodes to the same fields, alone", (_, { b64 }) => {
    const features = decodeFeatures(b64, "h");
    const [item, again] = [b64, encodeFeatures(features)].map(
      (text) => decode(Buffer.from(text, "base64")) as { pixel_values: { field: [string, object] } },
    );
    // Servers name the rows of every image of the prompt.
    const slices = [[[0, features.grid[0] * features.grid[1] * features.grid[2], null]]];
    const [layout, settings] = item?.pixel_values.field ?? ["", {}];
    const pixels = { ...item?.pixel_values, field: [layout, { ...settings, slices }] };
    expect(again).toEqual({ ...item, pixel_values: pixels });
  });

  test("an item of every type is read to its end, and refused for what it lacks", () => {
    const [, { b64 }] = vectors.find(([name]) => name === "kitchen_sink") as (typeof vectors)[number];
    expect(() => decodeFeatures(b64, "h")).toThrow(/no pixel_values/);
  });

  test("metadata is the item without its pixels", () => {
    const [, { b64 }] = renders[0] as (typeof renders)[number];
    const metadata = encodeMetadata(decodeFeatures(b64, "h"));
    expect(() => decodeFeatures(metadata, "h")).toThrow(/no pixel_values/);
    const [item, kept] = [b64, metadata].map((text) => decode(Buffer.from(text, "base64")) as Record<string, unknown>);
    expect(kept).toEqual({ image_grid_thw: item?.image_grid_thw });
  });

  test.each([
    { name: "render_chat_mm", dtype: "uint8", width: 1 },
    { name: "nonorm_render_chat_mm", dtype: "bfloat16", width: 2 },
  ])("$name: images of $dtype whose grids announce their tokens", ({ name, dtype, width }) => {
    const { features } = golden<Rendered>(name);
    for (const [i, b64] of features.kwargs_data.image.entries()) {
      const found = decodeFeatures(b64, "h");
      const [time, height, across] = found.grid;
      expect(found.dtype).toBe(dtype);
      expect((time * height * across) / 4).toBe(features.mm_placeholders.image[i]?.length);
      expect(found.data.length).toBe(time * height * across * 1176 * width);
      expect(decodeFeatures(encodeFeatures(found), "h")).toEqual(found);
    }
  });
});

test("any image comes back as it was sent", () => {
  const image = fc
    .record({
      dtype: fc.constantFrom("uint8", "bfloat16", "float32"),
      height: fc.integer({ min: 1, max: 6 }),
      width: fc.integer({ min: 1, max: 6 }),
      columns: fc.integer({ min: 1, max: 40 }),
      seed: fc.integer({ min: 0, max: 255 }),
    })
    .map(({ dtype, height, width, columns, seed }): Features => {
      const bytes = height * width * columns * { uint8: 1, bfloat16: 2, float32: 4 }[dtype];
      const data = new Uint8Array(bytes).map((_, i) => (i * 7 + seed) % 256);
      return { hash: "h", grid: [1, height, width], dtype: dtype as Features["dtype"], data };
    });
  fc.assert(
    fc.property(image, (features) => {
      expect(decodeFeatures(encodeFeatures(features), "h")).toEqual(features);
    }),
  );
});

test("broken bytes are an error of ours, never a crash or a huge allocation", () => {
  const [, { b64 }] = vectors[0] as [string, { b64: string }];
  const bytes = [...Buffer.from(b64, "base64")];
  const broken = fc
    .tuple(fc.nat(bytes.length - 1), fc.integer({ min: 0, max: 255 }), fc.boolean())
    .map(([at, byte, cut]) => Buffer.from(cut ? bytes.slice(0, at) : bytes.toSpliced(at, 1, byte)));
  const noise = fc.uint8Array({ maxLength: 64 }).map((found) => Buffer.from(found));
  fc.assert(
    fc.property(fc.oneof(broken, noise), (found) => {
      try {
        decodeFeatures(found.toString("base64"), "h");
      } catch (error) {
        expect(error).toBeInstanceOf(DataError);
      }
    }),
    { numRuns: 5000 },
  );
  const read = (bytes: Buffer) => () => decodeFeatures(bytes.toString("base64"), "h");
  // An array of four billion in six bytes.
  expect(read(Buffer.from("ddffffffff01", "hex"))).toThrow(/more than 65536 values/);
  // Empty lists, which would take fifty times their length.
  expect(read(Buffer.concat([Buffer.from("dd00020000", "hex"), Buffer.alloc(2 ** 17, 0x90)]))).toThrow(/65536/);
  expect(read(Buffer.alloc(100_000, 0x91))).toThrow(DataError);
});
