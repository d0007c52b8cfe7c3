/**
 * The kernels in WebAssembly, from the same C++ as the compiled ones (native/wasm/): 128-bit vectors, no fused multiply-add. They give the
 * same bits on every machine and with any number of threads, but not those of the compiled kernels.
 *
 * A kernel takes addresses in its memory. Arrays that `floats` made are there; any other array is copied in before the call and, if the kernel writes
 * it, out again. Weights, gradients and optimizer state stay outside, where 4 GiB are no limit: next to the matrix products over
 * them the copies cost a few per cent.
 */
import type { F32, I32, Kernels } from "./api.ts";
import { enter, MemoryExhausted, Views, type WasmThread } from "./wasm-memory.ts";

type Functions = Omit<Kernels, "name" | "isa" | "crew" | "floats" | "free">;
type Argument = Float32Array | Int32Array | Uint8Array | number | null;
type Arrays = Float32Array | Int32Array | Uint8Array;

/** Doubles that the arguments of one call take at most. */
const MAX_ARGUMENTS = 64;
const LINE = 64;

const kernelNames = [
  "matmul",
  "gram",
  "packedSize",
  "pack",
  "matmulPacked",
  "attention",
  "attentionBackward",
  "cacheSize",
  "cacheWrite",
  "cacheCopy",
  "attentionCached",
  "rmsNorm",
  "rmsNormBackward",
  "layerNorm",
  "layerNormBackward",
  "rope",
  "siluMul",
  "siluMulBackward",
  "gelu",
  "geluBackward",
  "gatherRows",
  "scatterAddRows",
  "scatterRows",
  "mixRows",
  "mixRowsBackward",
  "sumRows",
  "axpy",
  "scale",
  "sumSquares",
  "logSoftmax",
  "tokenLogprobs",
  "tokenLogprobsBackward",
  "adamw",
  "peak",
] as const satisfies readonly (keyof Functions)[];

/** What a kernel takes, by the letters of native/wasm/bind.h. */
const arrayTypes = { F: Float32Array, f: Float32Array, i: Int32Array, u: Uint8Array } as const;
const isArray = (letter: string): letter is keyof typeof arrayTypes => letter in arrayTypes;

/** Bytes outside that a call needs, with the places of its arguments that point into them. */
type Stretch = { buffer: ArrayBufferLike; start: number; end: number; written: boolean; at: number };

/** The kernels of one thread. */
export function attachWasm(thread: WasmThread): Kernels {
  let running = "";
  const { exports, rewind } = enter(thread, {
    lack(name, need, have) {
      throw new RangeError(`${running}: ${name} needs ${need} elements, has ${have}`);
    },
    refuse(name, found) {
      throw new RangeError(`${running}: ${name} is out of range (${found})`);
    },
  });
  const views = new Views(thread.memory);

  function allocate(bytes: number): number {
    const at = exports.allocate(bytes) >>> 0;
    if (at === 0) throw new MemoryExhausted();
    return at;
  }
  const slots = allocate(MAX_ARGUMENTS * 8);
  const slotView = new Float64Array(views.buffer(slots + MAX_ARGUMENTS * 8), slots, MAX_ARGUMENTS);

  const staging = { at: 0, bytes: 0 };
  function stage(bytes: number): number {
    if (bytes > staging.bytes) {
      if (staging.at !== 0) exports.release(staging.at);
      staging.bytes = 0;
      staging.at = allocate(bytes + bytes / 4);
      staging.bytes = bytes + bytes / 4;
    }
    return staging.at;
  }

  function copyIn(stretches: readonly Stretch[]): void {
    let at = stage(stretches.reduce((sum, { start, end }) => sum + end - start + 2 * LINE, 0));
    for (const stretch of stretches) {
      // The same place in a cache line, so that every element lies as it did.
      stretch.at = at + (stretch.start % LINE);
      const { buffer, start, end } = stretch;
      new Uint8Array(views.buffer(stretch.at + end - start), stretch.at, end - start).set(
        new Uint8Array(buffer, start, end - start),
      );
      at = Math.ceil((stretch.at + end - start) / LINE) * LINE;
    }
  }

  function copyOut(stretches: readonly Stretch[]): void {
    for (const { buffer, start, end, written, at } of stretches) {
      if (written)
        new Uint8Array(buffer, start, end - start).set(new Uint8Array(views.buffer(at + end - start), at, end - start));
    }
  }

  function bind(name: string): (...args: Argument[]) => number {
    const kernel = exports[name] as (args: number) => number;
    const letters = readLetters(views, (exports[`${name}_takes`] as unknown as () => number)());
    return (...args) => {
      let slot = 0;
      let outside: { array: Arrays; slot: number; written: boolean }[] | undefined;
      for (let i = 0; i < letters.length; i++) {
        const letter = letters[i] as string;
        const value = args[i];
        if (isArray(letter)) {
          if (value === null && letter !== "i") {
            slotView[slot] = slotView[slot + 1] = 0;
          } else {
            if (!(value instanceof arrayTypes[letter]))
              throw new TypeError(`${name}: argument ${i + 1} must be ${wanted[letter]}`);
            if (views.holds(value)) slotView[slot] = value.byteOffset;
            else if (value.length === 0) slotView[slot] = LINE;
            else {
              outside ??= [];
              outside.push({ array: value, slot, written: letter === "F" });
            }
            slotView[slot + 1] = value.length;
          }
          slot += 2;
        } else {
          const isWhole =
            letter !== "s" || (Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 31);
          if (typeof value !== "number" || !isWhole)
            throw new TypeError(
              `${name}: argument ${i + 1} must be ${letter === "s" ? "a whole number from 0 to 2^31-1" : "a number"}`,
            );
          slotView[slot++] = letter === "b" ? +(value !== 0) : value;
        }
      }
      running = name;
      if (outside === undefined) return call(kernel);
      const stretches = stretchesOf(outside.map(({ array, written }) => ({ array, written })));
      copyIn(stretches);
      for (const { array, slot: to } of outside) {
        const home = stretches.find((one) => lies(array, one)) as Stretch;
        slotView[to] = home.at + array.byteOffset - home.start;
      }
      const result = call(kernel);
      copyOut(stretches);
      return result;
    };
  }

  function call(kernel: (args: number) => number): number {
    try {
      return kernel(slots);
    } catch (error) {
      rewind();
      throw error;
    }
  }

  const bound = Object.fromEntries(kernelNames.map((name) => [name, bind(name)])) as unknown as Functions;
  const checkRows = (kernel: string, ids: I32, rows: number, limit: number) => {
    for (let r = 0; r < rows; r++) {
      const id = ids[r] as number;
      if (!(id >= 0 && id < limit)) throw new RangeError(`${kernel}: ids is out of range (${id})`);
    }
  };
  return {
    ...bound,
    // A table may be the embedding of a whole vocabulary: only the rows in question are touched.
    gatherRows(out, table, ids, rows, dim) {
      if (views.holds(table)) return bound.gatherRows(out, table, ids, rows, dim);
      checkRows("gatherRows", ids, rows, table.length / dim);
      for (let r = 0; r < rows; r++) {
        const from = (ids[r] as number) * dim;
        out.set(table.subarray(from, from + dim), r * dim);
      }
    },
    scatterAddRows(table, x, ids, rows, dim) {
      if (views.holds(table)) return bound.scatterAddRows(table, x, ids, rows, dim);
      checkRows("scatterAddRows", ids, rows, table.length / dim);
      for (let r = 0; r < rows; r++) {
        const to = (ids[r] as number) * dim;
        for (let i = 0; i < dim; i++) table[to + i] = (table[to + i] as number) + (x[r * dim + i] as number);
      }
    },
    name: "wasm",
    isa: "simd128",
    crew: {
      join: (_, threads) => exports.join(thread.number, threads),
      begin: () => exports.begin(),
      end: () => exports.end(),
      helped: () => exports.helped(),
    },
    floats(count) {
      const at = allocate(count * 4);
      return new Float32Array(views.buffer(at + count * 4), at, count).fill(0) as F32;
    },
    free(array) {
      if (views.holds(array)) exports.release(array.byteOffset);
    },
  };
}

/** A thread that does nothing but help the others; never returns. */
export function helpWasm(thread: WasmThread): never {
  const refuse = (): never => {
    throw new Error("A helper checks no arguments.");
  };
  return enter(thread, { lack: refuse, refuse }).exports.help(thread.number);
}

const wanted = { F: "a Float32Array", f: "a Float32Array", i: "an Int32Array", u: "a Uint8Array" } as const;

function readLetters(views: Views, at: number): string {
  const bytes = new Uint8Array(views.buffer(at + MAX_ARGUMENTS), at, MAX_ARGUMENTS);
  return String.fromCharCode(...bytes.subarray(0, bytes.indexOf(0)));
}

function lies(array: Arrays, { buffer, start, end }: Stretch): boolean {
  return array.buffer === buffer && array.byteOffset >= start && array.byteOffset + array.byteLength <= end;
}

/** The bytes of these arrays; arrays that overlap share a stretch, as they share their elements. */
function stretchesOf(arrays: readonly { readonly array: Arrays; readonly written: boolean }[]): Stretch[] {
  const stretches: Stretch[] = [];
  for (const { array, written } of arrays) {
    const { buffer, byteOffset, byteLength } = array;
    let merged: Stretch = { buffer, start: byteOffset, end: byteOffset + byteLength, written, at: 0 };
    for (let i = stretches.length - 1; i >= 0; i--) {
      const other = stretches[i] as Stretch;
      if (other.buffer !== buffer || other.end <= merged.start || merged.end <= other.start) continue;
      const start = Math.min(other.start, merged.start);
      merged = { ...merged, start, end: Math.max(other.end, merged.end), written: merged.written || other.written };
      stretches.splice(i, 1);
      // The longer one may touch what it did not before.
      i = stretches.length;
    }
    stretches.push(merged);
  }
  return stretches;
}
