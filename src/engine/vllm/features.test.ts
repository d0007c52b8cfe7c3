/** Processed pictures as real servers sent them: they decode, and encode to the same bytes; what is broken is refused. */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DataError } from "../../core/errors.ts";
import type { Features } from "../../core/model-input.ts";
import { decodeFeatures, encodeFeatures } from "./features.ts";
import { Extension, Float, type Packed, pack, unpack } from "./msgpack.ts";

const golden = <T>(name: string) =>
  JSON.parse(readFileSync(new URL(`golden/${name}.json`, import.meta.url), "utf8")) as T;
type Rendered = { features: { kwargs_data: { image: string[] }; mm_placeholders: { image: { length: number }[] } } };

const vectors = Object.entries(golden<Record<string, { b64: string; hex: string }>>("mm_serde_golden"));
const renders = ["render_chat_mm", "nonorm_render_chat_mm"].flatMap((name) =>
  golden<Rendered>(name).features.kwargs_data.image.map((b64, i) => [`${name} ${i}`, { b64 }] as const),
);

describe("recorded bytes", () => {
  test.each([...vectors, ...renders])("%s decodes and encodes to the same bytes", (_, { b64 }) => {
    const bytes = Buffer.from(b64, "base64");
    expect(Buffer.from(pack(unpack(bytes))).equals(bytes)).toBe(true);
  });

  test.each([
    { name: "render_chat_mm", dtype: "uint8", width: 1 },
    { name: "nonorm_render_chat_mm", dtype: "bfloat16", width: 2 },
  ])("$name: pictures of $dtype whose grids announce their tokens", ({ name, dtype, width }) => {
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

  test("whole numbers that were floats stay floats, and extensions keep their type", () => {
    const value: Packed = [new Float(2), new Extension(3, new Uint8Array(5)), 2 ** 53 - 1, -1, -(2n ** 63n)];
    expect(unpack(pack(value))).toEqual(value);
  });
});

test("any picture comes back as it was sent", () => {
  const picture = fc
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
    fc.property(picture, (features) => {
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
  // An array of four billion in six bytes.
  expect(() => unpack(Buffer.from("ddffffffff01", "hex"))).toThrow(/too early/);
  expect(() => unpack(Buffer.alloc(100, 0x91))).toThrow(/deeper/);
});
