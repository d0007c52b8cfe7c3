/**
 * Processed pictures on vLLM's wire: one MessagePack map per picture, in base64, whose fields carry tensors as [type, shape, raw bytes]. Here they
 * become `Features`, which any engine takes, and the other way round.
 */
import { DataError } from "../../core/errors.ts";
import type { Features } from "../../core/model-input.ts";
import { Extension, type Packed, pack, unpack } from "./msgpack.ts";

/** Raw bytes of a tensor. Types 1 and 2 are pickles, which nobody should open. */
const RAW_VIEW = 3;
const WIDTHS: Readonly<Record<string, number>> = { uint8: 1, bfloat16: 2, float32: 4, int64: 8 };
const PIXEL_TYPES: readonly string[] = ["uint8", "bfloat16", "float32"] satisfies Features["dtype"][];

type Tensor = { readonly dtype: string; readonly shape: readonly number[]; readonly data: Uint8Array };

/** A picture of a Qwen-VL server. */
export function decodeFeatures(base64: string, hash: string): Features {
  const item = unpack(Buffer.from(base64, "base64"));
  const pixels = tensorOf(item, "pixel_values");
  const grid = tensorOf(item, "image_grid_thw");
  if (grid.dtype !== "int64" || grid.data.length !== 24) throw new DataError("A picture's grid is no three int64.");
  const view = new DataView(grid.data.buffer, grid.data.byteOffset, 24);
  const [time, height, width] = [0, 8, 16].map((at) => Number(view.getBigInt64(at, true))) as [number, number, number];
  if (!PIXEL_TYPES.includes(pixels.dtype)) {
    throw new DataError(`The server sends pixels as ${pixels.dtype}; uint8, bfloat16 and float32 are known.`);
  }
  if (pixels.shape.length !== 2 || pixels.shape[0] !== time * height * width) {
    throw new DataError(`A picture of ${time} × ${height} × ${width} patches has pixels of [${pixels.shape}].`);
  }
  // A copy: the rest of the message need not stay in memory.
  return {
    hash,
    grid: [time, height, width],
    dtype: pixels.dtype as Features["dtype"],
    data: new Uint8Array(pixels.data),
  };
}

export function encodeFeatures({ grid, dtype, data }: Features): string {
  const rows = grid[0] * grid[1] * grid[2];
  const columns = data.length / rows / (WIDTHS[dtype] as number);
  if (!Number.isInteger(columns)) throw new DataError(`${data.length} bytes are no ${rows} patches of ${dtype}.`);
  const sides = Buffer.alloc(24);
  for (const [i, side] of grid.entries()) sides.writeBigInt64LE(BigInt(side), i * 8);
  const field = (tensor: Packed, ...how: Packed[]) =>
    new Map<string, Packed>([
      ["data", tensor],
      ["field", how],
    ]);
  const item = new Map<string, Packed>([
    [
      "pixel_values",
      field(
        [dtype, [rows, columns], new Extension(RAW_VIEW, data)],
        "flat",
        new Map<string, Packed>([
          ["keep_on_cpu", false],
          ["slices", [[[0, rows, null]]]],
          ["dim", 0],
        ]),
      ),
    ],
    [
      "image_grid_thw",
      field(["int64", [3], new Extension(RAW_VIEW, sides)], "batched", new Map([["keep_on_cpu", true]])),
    ],
  ]);
  return Buffer.from(pack(item)).toString("base64");
}

function tensorOf(item: Packed, name: string): Tensor {
  const elem = item instanceof Map ? item.get(name) : undefined;
  const tensor = elem instanceof Map ? elem.get("data") : undefined;
  if (!Array.isArray(tensor) || tensor.length !== 3) {
    throw new DataError(`A processed picture has no ${name}: this is no server of the Qwen-VL family.`);
  }
  const [dtype, shape, bytes] = tensor as Packed[];
  const sized = Array.isArray(shape) && shape.every((side) => typeof side === "number" && side >= 0);
  if (typeof dtype !== "string" || !sized || !(bytes instanceof Extension) || bytes.type !== RAW_VIEW) {
    throw new DataError(`A processed picture's ${name} is no tensor of raw bytes.`);
  }
  const sides = shape as number[];
  const width = WIDTHS[dtype];
  if (width !== undefined && sides.reduce((all, side) => all * side, width) !== bytes.data.length) {
    throw new DataError(`A processed picture's ${name} says [${sides}] ${dtype} and has ${bytes.data.length} bytes.`);
  }
  return { dtype, shape: sides, data: bytes.data };
}
