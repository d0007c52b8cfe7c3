/**
 * The safetensors file format: eight bytes of header length, a JSON header that names each tensor with dtype, shape and
 * byte range, then the bytes. Reading turns F32, F16 and BF16 into Float32Array; writing gives F32, through a temporary
 * file that is renamed, so a reader never sees half a file.
 *
 * A header is data from outside: every number in it is checked against the size of the file before memory is spent.
 */
import { randomBytes } from "node:crypto";
import { type FileHandle, open, readFile, rm, stat } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { DataError, errorMessage } from "../core/errors.ts";
import { isJsonObject } from "../core/json.ts";
import { move } from "../core/move.ts";

export type Tensor = { readonly shape: readonly number[]; readonly data: Float32Array };
export type Tensors = Map<string, Tensor>;

const DTYPE_BYTES = { F32: 4, F16: 2, BF16: 2 } as const;
type Dtype = keyof typeof DTYPE_BYTES;
/** Where a tensor lies, `begin` and `end` counted from the end of the header. */
type Entry = {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly end: number;
};

/** The format's own limit. */
const MAX_HEADER_BYTES = 100_000_000;
/** Bytes are written and read in pieces of at most this size. */
const CHUNK_BYTES = 1 << 26;
const HOW_TO_FIX = "Copy or download the file again.";

/** Every tensor of one file, as 32-bit floats, in the order of their bytes. */
export async function readSafetensors(file: string): Promise<Tensors> {
  const handle = await open(file, "r").catch((error: unknown) => {
    throw new DataError(`Can't open the weights ${file}: ${errorMessage(error)}. Check the path.`);
  });
  try {
    const size = (await handle.stat()).size;
    const { entries, dataStart } = await readHeader(handle, size, file);
    const tensors: Tensors = new Map();
    for (const entry of entries) tensors.set(entry.name, await readTensor(handle, entry, dataStart, file));
    return tensors;
  } finally {
    await handle.close();
  }
}

/** The weights of a model folder: `model.safetensors`, or the files that `model.safetensors.index.json` lists. */
export async function readShardedSafetensors(folder: string): Promise<Tensors> {
  const single = join(folder, "model.safetensors");
  if (await exists(single)) return readSafetensors(single);
  const index = join(folder, "model.safetensors.index.json");
  if (!(await exists(index))) {
    throw new DataError(
      `${folder} has no weights: expected model.safetensors or model.safetensors.index.json. ` +
        "Name a Hugging Face model folder, or make one with `saccade model create`.",
    );
  }
  const fileOf = await readIndex(index);
  const tensors: Tensors = new Map();
  for (const shard of [...new Set(fileOf.values())].sort()) {
    for (const [name, tensor] of await readSafetensors(join(folder, shard))) {
      const wanted = fileOf.get(name);
      if (wanted !== shard) {
        const said = wanted === undefined ? "does not list it" : `says it is in ${wanted}`;
        throw new DataError(`${index}: the tensor "${name}" is in ${shard}, but the index ${said}. ${HOW_TO_FIX}`);
      }
      tensors.set(name, tensor);
    }
  }
  for (const [name, shard] of fileOf) {
    if (!tensors.has(name)) throw new DataError(`${join(folder, shard)} lacks the tensor "${name}". ${HOW_TO_FIX}`);
  }
  return tensors;
}

/** Writes tensors in the given order; the file appears whole or not at all. */
export async function writeSafetensors(
  file: string,
  tensors: Iterable<readonly [string, Tensor]>,
  metadata: Readonly<Record<string, string>> = { format: "pt" },
): Promise<void> {
  const list = [...tensors];
  const header: Record<string, unknown> = { __metadata__: metadata };
  let offset = 0;
  for (const [name, { shape, data }] of list) {
    const bytes = elements(shape) * 4;
    if (bytes !== data.byteLength) {
      throw new DataError(`The tensor "${name}" has ${data.length} values, but its shape is [${shape.join(", ")}].`);
    }
    if (Object.hasOwn(header, name)) throw new DataError(`The tensor "${name}" was given twice.`);
    header[name] = { dtype: "F32", shape, data_offsets: [offset, offset + bytes] };
    offset += bytes;
  }
  const json = Buffer.from(JSON.stringify(header));
  // Tensors start on an eight-byte border; the header is filled up with spaces, as the format allows.
  const start = Buffer.alloc(8 + Math.ceil(json.length / 8) * 8, " ");
  start.writeBigUInt64LE(BigInt(start.length - 8));
  json.copy(start, 8);

  const temporary = join(dirname(file), `.${randomBytes(6).toString("hex")}.tmp`);
  const handle = await open(temporary, "wx");
  try {
    await writeAll(handle, start);
    for (const [, { data }] of list) await writeAll(handle, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    await handle.sync();
    await handle.close();
    await move(temporary, file);
  } catch (error) {
    await handle.close().catch(() => {});
    await rm(temporary, { force: true });
    throw error;
  }
}

async function readHeader(handle: FileHandle, size: number, file: string) {
  const fail = (what: string): never => {
    throw new DataError(`${file} is not a whole safetensors file: ${what}. ${HOW_TO_FIX}`);
  };
  if (size < 8) fail(`it has ${size} bytes, too few for a header`);
  const length = (await readBytes(handle, 0, 8, file)).readBigUInt64LE();
  if (length > BigInt(Math.min(MAX_HEADER_BYTES, size - 8))) {
    fail(`its header says to be ${length} bytes long, and the file has ${size}`);
  }
  const dataStart = 8 + Number(length);
  let header: unknown;
  try {
    const bytes = await readBytes(handle, 8, Number(length), file);
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    fail(`its header is not JSON (${errorMessage(error)})`);
  }
  if (!isJsonObject(header)) return fail("its header is not a JSON object");
  const entries = Object.entries(header)
    .filter(([name]) => name !== "__metadata__")
    .map(([name, value]) => checkEntry(name, value, fail))
    .sort((a, b) => a.begin - b.begin || a.end - b.end);
  let reached = 0;
  for (const { name, begin, end } of entries) {
    if (begin < reached) fail(`the bytes of "${name}" overlap those of another tensor`);
    if (begin > reached) fail(`${begin - reached} bytes before "${name}" belong to no tensor`);
    reached = end;
  }
  if (dataStart + reached > size) {
    fail(`its tensors need ${dataStart + reached} bytes, and the file has ${size} (it was cut off)`);
  }
  if (dataStart + reached < size) fail(`${size - dataStart - reached} bytes at its end belong to no tensor`);
  return { entries, dataStart };
}

function checkEntry(name: string, value: unknown, fail: (what: string) => never): Entry {
  if (!isJsonObject(value)) return fail(`the entry of "${name}" is not an object`);
  const { dtype, shape, data_offsets: offsets } = value;
  const isCount = (x: unknown): x is number => Number.isSafeInteger(x) && (x as number) >= 0;
  const areCounts = (x: unknown): x is number[] => Array.isArray(x) && x.every(isCount);
  if (typeof dtype !== "string") return fail(`"${name}" has no dtype`);
  if (!areCounts(shape)) return fail(`"${name}" has no valid shape`);
  if (!areCounts(offsets) || offsets.length !== 2) return fail(`"${name}" has no valid data_offsets`);
  if (!Object.hasOwn(DTYPE_BYTES, dtype)) {
    throw new DataError(
      `The tensor "${name}" is ${dtype}; only F32, F16 and BF16 can be read. ` +
        "Save the model in one of those (in Python: model.to(torch.bfloat16).save_pretrained(…)).",
    );
  }
  const [begin = 0, end = 0] = offsets;
  const needed = elements(shape) * DTYPE_BYTES[dtype as Dtype];
  if (end - begin !== needed) {
    fail(`"${name}" of shape [${shape.join(", ")}] in ${dtype} needs ${needed} bytes but has ${end - begin}`);
  }
  return { name, dtype: dtype as Dtype, shape, begin, end };
}

async function readTensor(handle: FileHandle, entry: Entry, dataStart: number, file: string): Promise<Tensor> {
  const { shape, dtype, begin, end } = entry;
  const data = new Float32Array(elements(shape));
  const width = DTYPE_BYTES[dtype];
  for (let at = begin; at < end; at += CHUNK_BYTES) {
    const bytes = await readBytes(handle, dataStart + at, Math.min(CHUNK_BYTES, end - at), file);
    const part = data.subarray((at - begin) / width, (at - begin + bytes.length) / width);
    if (dtype === "F32") Buffer.from(part.buffer, part.byteOffset, part.byteLength).set(bytes);
    else widen(new Uint16Array(bytes.buffer, bytes.byteOffset, part.length), part, dtype);
  }
  return { shape, data };
}

/** 16-bit floats to 32-bit ones; both conversions are exact. */
function widen(from: Uint16Array, to: Float32Array, dtype: "F16" | "BF16"): void {
  const bits = new Uint32Array(to.buffer, to.byteOffset, to.length);
  if (dtype === "BF16") {
    for (let i = 0; i < bits.length; i++) bits[i] = (from[i] as number) << 16;
    return;
  }
  for (let i = 0; i < bits.length; i++) bits[i] = halfToSingle(from[i] as number);
}

/** The bits of a half-precision number as single precision. */
function halfToSingle(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 31) return sign | 0x7f800000 | (fraction << 13);
  if (exponent !== 0) return sign | ((exponent + 112) << 23) | (fraction << 13);
  if (fraction === 0) return sign;
  // Subnormal: fraction · 2^-24, made normal by moving its leading bit to position 10.
  const shift = Math.clz32(fraction) - 21;
  return sign | ((113 - shift) << 23) | (((fraction << shift) & 1023) << 13);
}

async function readIndex(index: string): Promise<Map<string, string>> {
  const fail = (what: string): never => {
    throw new DataError(`${index}: ${what}. ${HOW_TO_FIX}`);
  };
  let json: unknown;
  try {
    json = JSON.parse(await readFile(index, "utf8"));
  } catch (error) {
    fail(`it is not JSON (${errorMessage(error)})`);
  }
  const map = isJsonObject(json) ? json.weight_map : undefined;
  if (!isJsonObject(map)) return fail("it has no `weight_map` object");
  for (const [name, shard] of Object.entries(map)) {
    if (typeof shard !== "string" || isAbsolute(shard) || shard.split(/[\\/]/).includes("..")) {
      fail(`the file of "${name}" must be a name inside the folder, got ${JSON.stringify(shard)}`);
    }
  }
  return new Map(Object.entries(map) as [string, string][]);
}

/** A buffer of its own, so that 16-bit views of it are aligned. */
async function readBytes(handle: FileHandle, position: number, length: number, file: string): Promise<Buffer> {
  const bytes = Buffer.from(new ArrayBuffer(length));
  for (let done = 0; done < length; ) {
    const { bytesRead } = await handle.read(bytes, done, length - done, position + done);
    if (bytesRead === 0) throw new DataError(`${file} became shorter while it was read; try again.`);
    done += bytesRead;
  }
  return bytes;
}

async function writeAll(handle: FileHandle, bytes: Buffer): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, Math.min(CHUNK_BYTES, bytes.length - done));
    done += bytesWritten;
  }
}

function elements(shape: readonly number[]): number {
  return shape.reduce((product, side) => product * side, 1);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
