import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DataError } from "../core/errors.ts";
import { readSafetensors, readShardedSafetensors, type Tensors, writeSafetensors } from "./safetensors.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "saccade-safetensors-"));
});
afterAll(() => rm(folder, { recursive: true }));

function sample(): Tensors {
  return new Map([
    ["b", { shape: [2, 3], data: Float32Array.from([1, -2, 3.5, 0, Number.NaN, 1e-40]) }],
    ["a", { shape: [], data: Float32Array.from([7]) }],
    ["empty", { shape: [0, 4], data: new Float32Array(0) }],
  ]);
}

/** A file with this header object and these data bytes. */
async function fileOf(header: unknown, data: Uint8Array = new Uint8Array(0), length?: bigint): Promise<string> {
  const json = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(length ?? BigInt(json.length));
  const file = join(folder, `case-${Math.random().toString(36).slice(2)}.safetensors`);
  await writeFile(file, Buffer.concat([size, json, data]));
  return file;
}

describe("safetensors", () => {
  test("what was written is read back bit for bit, in the same order", async () => {
    const file = join(folder, "round.safetensors");
    await writeSafetensors(file, sample());
    const read = await readSafetensors(file);
    expect([...read.keys()].sort()).toEqual(["a", "b", "empty"]);
    for (const [name, tensor] of sample()) {
      expect(read.get(name)?.shape).toEqual(tensor.shape);
      expect(Buffer.from(read.get(name)!.data.buffer)).toEqual(Buffer.from(tensor.data.buffer));
    }
  });

  test("half and brain floats widen to the exact single-precision numbers", async () => {
    const half = Uint16Array.from([0x3c00, 0xc000, 0x7bff, 0x0001, 0x03ff, 0x0400, 0x7c00, 0x8000, 0x7e00]);
    const brain = Uint16Array.from([0x3f80, 0xc000, 0x7f80]);
    const file = await fileOf(
      {
        half: { dtype: "F16", shape: [9], data_offsets: [0, 18] },
        brain: { dtype: "BF16", shape: [3], data_offsets: [18, 24] },
      },
      Buffer.concat([Buffer.from(half.buffer), Buffer.from(brain.buffer)]),
    );
    const read = await readSafetensors(file);
    expect([...read.get("half")!.data]).toEqual([
      1,
      -2,
      65504,
      2 ** -24,
      1023 * 2 ** -24,
      2 ** -14,
      Number.POSITIVE_INFINITY,
      -0,
      Number.NaN,
    ]);
    expect([...read.get("brain")!.data]).toEqual([1, -2, Number.POSITIVE_INFINITY]);
  });

  const f32 = (shape: unknown, data_offsets: unknown, dtype: unknown = "F32") => ({ dtype, shape, data_offsets });
  const data = new Uint8Array(16);
  test.each<[string, unknown, RegExp, Uint8Array?, bigint?]>([
    ["a header longer than the file", {}, /header says to be 99999999999999 bytes/, data, 99_999_999_999_999n],
    ["a header that is not JSON", "{nope", /header is not JSON/],
    ["a header that is no object", "[1]", /not a JSON object/],
    ["an entry that is no object", { a: 3 }, /entry of "a" is not an object/],
    ["a missing dtype", { a: f32([1], [0, 4], 5) }, /"a" has no dtype/],
    ["an unknown dtype", { a: f32([2], [0, 16], "I64") }, /"a" is I64; only F32, F16 and BF16/, data],
    ["a negative side", { a: f32([-1], [0, 4]) }, /"a" has no valid shape/],
    ["a fractional side", { a: f32([1.5], [0, 4]) }, /"a" has no valid shape/],
    ["missing offsets", { a: f32([1], [0]) }, /"a" has no valid data_offsets/],
    ["offsets that run backwards", { a: f32([1], [4, 0]) }, /needs 4 bytes but has -4/],
    ["a shape that disagrees with the offsets", { a: f32([3], [0, 16]) }, /needs 12 bytes but has 16/, data],
    ["a gigantic shape", { a: f32([2 ** 40, 2 ** 40], [0, 16]) }, /needs .* bytes but has 16/, data],
    ["tensors that overlap", { a: f32([2], [0, 8]), b: f32([3], [4, 16]) }, /"b" overlap/, data],
    ["a gap between tensors", { a: f32([1], [0, 4]), b: f32([2], [8, 16]) }, /4 bytes before "b"/, data],
    ["bytes that are cut off", { a: f32([5], [0, 20]) }, /it was cut off/, data],
    ["bytes left over", { a: f32([3], [0, 12]) }, /4 bytes at its end/, data],
  ])("%s is an error that says so", async (_, header, message, bytes, length) => {
    const file = await fileOf(header, bytes, length);
    await expect(readSafetensors(file)).rejects.toThrow(DataError);
    await expect(readSafetensors(file)).rejects.toThrow(message);
  });

  test("a file that is missing or too short is an error", async () => {
    await expect(readSafetensors(join(folder, "nowhere"))).rejects.toThrow(/Can't open the weights/);
    const short = join(folder, "short.safetensors");
    await writeFile(short, "abc");
    await expect(readSafetensors(short)).rejects.toThrow(/it has 3 bytes/);
  });

  test("a write that fails leaves the old file and nothing else", async () => {
    const place = await mkdtemp(join(folder, "atomic-"));
    const file = join(place, "model.safetensors");
    await writeSafetensors(file, sample());
    const before = await readFile(file);
    const broken = {
      shape: [1],
      get data(): Float32Array {
        return new Float32Array(2);
      },
    };
    await expect(writeSafetensors(file, [["a", broken]])).rejects.toThrow(/has 2 values, but its shape is \[1\]/);
    await expect(writeSafetensors(join(place, "no", "such"), sample())).rejects.toThrow();
    expect(await readFile(file)).toEqual(before);
    expect(await readdir(place)).toEqual(["model.safetensors"]);
  });

  test("shards are read as one model, and an index that lies is an error", async () => {
    const place = await mkdtemp(join(folder, "shards-"));
    const [first, ...others] = [...sample()];
    await writeSafetensors(join(place, "one.safetensors"), [first!]);
    await writeSafetensors(join(place, "two.safetensors"), others);
    const index = (map: Record<string, string>) =>
      writeFile(join(place, "model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
    await expect(readShardedSafetensors(place)).rejects.toThrow(/has no weights/);
    await index({ b: "one.safetensors", a: "two.safetensors", empty: "two.safetensors" });
    expect([...(await readShardedSafetensors(place)).keys()].sort()).toEqual(["a", "b", "empty"]);
    await index({ b: "one.safetensors", a: "two.safetensors" });
    await expect(readShardedSafetensors(place)).rejects.toThrow(
      /"empty" is in two.safetensors, but the index does not/,
    );
    await index({ b: "one.safetensors", c: "one.safetensors" });
    await expect(readShardedSafetensors(place)).rejects.toThrow(/lacks the tensor "c"/);
    await index({ b: "../one.safetensors" });
    await expect(readShardedSafetensors(place)).rejects.toThrow(/must be a name inside the folder/);
  });
});
