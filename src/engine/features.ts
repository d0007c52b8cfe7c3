/**
 * Processed images on vLLM's wire: one MessagePack map per image, in base64, whose fields hold tensors as [type, shape, raw bytes]. Servers and clients
 * turn them into `Features`, which any engine takes, and back.
 */
import { decode, ExtData, encode } from "@msgpack/msgpack";
import { DataError, errorMessage } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import type { Features } from "../core/model-input.ts";
import type { ImageProcessor } from "../model/image-processor.ts";

/** The extension type of raw tensor bytes. Types 1 and 2 are pickles, which run code when they are opened. */
const RAW_VIEW = 3;
const WIDTHS: Readonly<Record<string, number>> = { uint8: 1, bfloat16: 2, float32: 4, int64: 8 };
const PIXEL_TYPES: readonly string[] = ["uint8", "bfloat16", "float32"] satisfies Features["dtype"][];
/** More than any real image has. Without it, a body of empty lists would need fifty times its size in memory. */
const MAX_VALUES = 65_536;

type Tensor = { readonly dtype: string; readonly shape: readonly number[]; readonly data: Uint8Array };

/** An image as our own processor makes it. */
export function processedFeatures(image: Image, processor: ImageProcessor, hash = image.hash): Features {
  const { patches, gridH, gridW } = processor.preprocess(image);
  const data = new Uint8Array(patches.buffer, patches.byteOffset, patches.byteLength);
  return { hash, grid: [1, gridH, gridW], dtype: "float32", data };
}

/** Reads an image of the Qwen-VL family. */
export function decodeFeatures(base64: string, hash: string): Features {
  const item = unpack(Buffer.from(base64, "base64"));
  const pixels = tensorOf(item, "pixel_values");
  const grid = tensorOf(item, "image_grid_thw");
  if (grid.dtype !== "int64" || grid.data.length !== 24) throw new DataError("An image's grid must be three int64.");
  const view = new DataView(grid.data.buffer, grid.data.byteOffset, 24);
  const [time, height, width] = [0, 8, 16].map((at) => Number(view.getBigInt64(at, true))) as [number, number, number];
  if (!PIXEL_TYPES.includes(pixels.dtype)) {
    throw new DataError(`Pixels must be uint8, bfloat16 or float32, got ${pixels.dtype}.`);
  }
  if (pixels.shape.length !== 2 || pixels.shape[0] !== time * height * width) {
    throw new DataError(`An image of ${time} × ${height} × ${width} patches has pixels of [${pixels.shape}].`);
  }
  // A copy, so that the rest of the message can be freed.
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
  if (!Number.isInteger(columns)) throw new DataError(`${data.length} bytes can't hold ${rows} patches of ${dtype}.`);
  const slices = [[[0, rows, null]]];
  const pixels = {
    data: [dtype, [rows, columns], new ExtData(RAW_VIEW, data)],
    field: ["flat", { keep_on_cpu: false, slices, dim: 0 }],
  };
  return packed({ pixel_values: pixels, image_grid_thw: gridField(grid) });
}

/** All fields but the pixels. */
export function encodeMetadata({ grid }: Pick<Features, "grid">): string {
  return packed({ image_grid_thw: gridField(grid) });
}

function gridField(grid: Features["grid"]) {
  const sides = new Uint8Array(BigInt64Array.from(grid, BigInt).buffer);
  return { data: ["int64", [3], new ExtData(RAW_VIEW, sides)], field: ["batched", { keep_on_cpu: true }] };
}

function packed(item: object): string {
  return Buffer.from(encode(item)).toString("base64");
}

function unpack(bytes: Uint8Array): unknown {
  checkValues(bytes);
  try {
    return decode(bytes);
  } catch (error) {
    throw new DataError(`A processed image can't be read as MessagePack: ${errorMessage(error)}`);
  }
}

/** Counts the values of a message before any of them takes memory. */
function checkValues(bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const uint = (width: number) => {
    if (at + width > bytes.length) throw new DataError("A processed image ends too early.");
    at += width;
    return width === 1 ? view.getUint8(at - 1) : width === 2 ? view.getUint16(at - 2) : view.getUint32(at - 4);
  };
  let values = 1;
  for (let seen = 0; seen < values; seen++) {
    const head = uint(1);
    let [inside, skipped] = [0, 0];
    if (head < 0x80 || head >= 0xe0) continue;
    if (head < 0x90) inside = 2 * (head & 15);
    else if (head < 0xa0) inside = head & 15;
    else if (head < 0xc0) skipped = head & 31;
    else if (head < 0xc4) continue;
    else if (head < 0xc7) skipped = uint(1 << (head - 0xc4));
    else if (head < 0xca) skipped = uint(1 << (head - 0xc7)) + 1;
    else if (head < 0xcc) skipped = 4 << (head - 0xca);
    else if (head < 0xd4) skipped = 1 << (head & 3);
    else if (head < 0xd9) skipped = (1 << (head - 0xd4)) + 1;
    else if (head < 0xdc) skipped = uint(1 << (head - 0xd9));
    else if (head < 0xde) inside = uint(2 << (head - 0xdc));
    else inside = 2 * uint(2 << (head - 0xde));
    at += skipped;
    values += inside;
    if (values > MAX_VALUES) throw new DataError(`A processed image has more than ${MAX_VALUES} values.`);
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function tensorOf(item: unknown, name: string): Tensor {
  const field = isObject(item) ? item[name] : undefined;
  const tensor = isObject(field) ? field.data : undefined;
  if (!Array.isArray(tensor) || tensor.length !== 3) {
    throw new DataError(`A processed image has no ${name}: the server's model is not of the Qwen-VL family.`);
  }
  const [dtype, shape, bytes] = tensor as unknown[];
  const isSized = Array.isArray(shape) && shape.every((side) => typeof side === "number" && side >= 0);
  if (typeof dtype !== "string" || !isSized || !(bytes instanceof ExtData) || bytes.type !== RAW_VIEW) {
    throw new DataError(`A processed image's ${name} must be a tensor of raw bytes.`);
  }
  const data = bytes.data as Uint8Array;
  const width = WIDTHS[dtype];
  if (width !== undefined && shape.reduce((all: number, side: number) => all * side, width) !== data.length) {
    throw new DataError(`A processed image's ${name} says [${shape}] ${dtype} and has ${data.length} bytes.`);
  }
  return { dtype, shape: shape as number[], data };
}
