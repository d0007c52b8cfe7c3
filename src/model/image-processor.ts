/**
 * Images to patches, equal to the PIL backend of Hugging Face's `Qwen2VLImageProcessor`: sides rounded (half to even) to
 * whole tokens within a range of pixels, bicubic resize, rescale and normalise in 32-bit floats, patches in the order of
 * merge blocks. A pixel has 256 values, so rescaling and normalising is one table look-up per channel.
 */
import { z } from "zod";
import { ConfigError, ImageError } from "../core/errors.ts";
import { checkSize, Image } from "../core/image.ts";
import type { JsonObject } from "../core/json.ts";
import type { Features } from "../core/model-input.ts";
import { resize } from "../images/resize.ts";
import type { VisionConfig } from "./config.ts";

/** `patches` is [gridH · gridW, 3 · temporal · patch · patch], rows in merge-block order. */
export type Patches = { readonly patches: Float32Array; readonly gridH: number; readonly gridW: number };

/** Longer side over shorter side. */
const MAX_ASPECT = 200;
const BICUBIC = 3;

const yes = z.literal(true).default(true);
const schema = z.looseObject({
  do_resize: yes,
  do_rescale: yes,
  do_normalize: yes,
  resample: z.literal(BICUBIC).default(BICUBIC),
  rescale_factor: z
    .number()
    .positive()
    .default(1 / 255),
  image_mean: z.tuple([z.number(), z.number(), z.number()]).default([0.5, 0.5, 0.5]),
  image_std: z.tuple([z.number(), z.number(), z.number()]).default([0.5, 0.5, 0.5]),
  patch_size: z.int().min(1).default(16),
  temporal_patch_size: z.int().min(1).default(2),
  merge_size: z.int().min(1).default(2),
  min_pixels: z.int().min(1).nullish(),
  max_pixels: z.int().min(1).nullish(),
  size: z.looseObject({ shortest_edge: z.int().min(1).nullish(), longest_edge: z.int().min(1).nullish() }).nullish(),
});

const views = new WeakMap<Image, Image>();
/** An image was resized elsewhere, in another thread. */
export function rememberView(image: Image, view: Image): void {
  views.set(image, view);
}

const sizes = new WeakMap<Image, { readonly width: number; readonly height: number }>();
/** Stands for an image of that size whose pixels were not read yet: its ids can be counted, and nothing else. */
export function standIn(width: number, height: number): Image {
  const image = new Image(1, 1, new Uint8Array(3));
  sizes.set(image, { width, height });
  return image;
}

export class ImageProcessor {
  readonly patchSize: number;
  readonly temporalPatchSize: number;
  readonly mergeSize: number;
  readonly minPixels: number;
  readonly maxPixels: number;
  /** The value of byte v in channel c, at c · 256 + v. */
  readonly #table: Float32Array;

  /** Takes the JSON of `preprocessor_config.json`; `file` begins the messages. */
  constructor(json: unknown, file = "preprocessor_config.json") {
    const result = schema.safeParse(json);
    if (!result.success) {
      const problems = result.error.issues.map((issue) => `${issue.path.join(".") || "the file"}: ${issue.message}`);
      throw new ConfigError(`${file} asks for preprocessing that is not supported: ${problems.join("; ")}.`);
    }
    const { size, ...options } = result.data;
    this.patchSize = options.patch_size;
    this.temporalPatchSize = options.temporal_patch_size;
    this.mergeSize = options.merge_size;
    // `shortest_edge` and `longest_edge` are numbers of pixels, in spite of their names.
    this.minPixels = options.min_pixels ?? size?.shortest_edge ?? 56 * 56;
    this.maxPixels = options.max_pixels ?? size?.longest_edge ?? 28 * 28 * 1280;
    if (this.minPixels > this.maxPixels) {
      throw new ConfigError(
        `${file}: the minimum number of pixels (${this.minPixels}) is above the maximum (${this.maxPixels}).`,
      );
    }
    this.#table = new Float32Array(3 * 256);
    for (let channel = 0; channel < 3; channel++) {
      const mean = Math.fround(options.image_mean[channel] as number);
      const deviation = Math.fround(options.image_std[channel] as number);
      for (let value = 0; value < 256; value++) {
        const centred = Math.fround(Math.fround(value * options.rescale_factor) - mean);
        this.#table[channel * 256 + value] = centred / deviation;
      }
    }
  }

  /** Width and height after resizing, both multiples of patch · merge. */
  targetSize(width: number, height: number): { width: number; height: number } {
    checkSize(width, height);
    const aspect = Math.max(width, height) / Math.min(width, height);
    if (aspect > MAX_ASPECT) {
      throw new ImageError(
        `A ${width}×${height} image is ${aspect.toFixed(0)} times longer than wide; ` +
          `the model takes at most ${MAX_ASPECT}. Crop or pad it first.`,
      );
    }
    const factor = this.patchSize * this.mergeSize;
    const rounded = { width: roundHalfEven(width / factor) * factor, height: roundHalfEven(height / factor) * factor };
    const pixels = rounded.width * rounded.height;
    if (pixels > this.maxPixels) {
      const shrink = Math.sqrt((height * width) / this.maxPixels);
      const toFactor = (side: number) => Math.max(factor, Math.floor(side / shrink / factor) * factor);
      return { width: toFactor(width), height: toFactor(height) };
    }
    if (pixels < this.minPixels) {
      const grow = Math.sqrt(this.minPixels / (height * width));
      const toFactor = (side: number) => Math.ceil((side * grow) / factor) * factor;
      return { width: toFactor(width), height: toFactor(height) };
    }
    return rounded;
  }

  /** Ids an image takes in a sequence. */
  tokenCount(image: Image): number {
    const size = sizes.get(image) ?? image;
    const { width, height } = this.targetSize(size.width, size.height);
    return (width * height) / (this.patchSize * this.mergeSize) ** 2;
  }

  /** The image as the model gets it, before its pixels become numbers: the same one where its size fits. */
  view(image: Image): Image {
    const { width, height } = this.targetSize(image.width, image.height);
    if (width === image.width && height === image.height) return image;
    const known = views.get(image);
    return known?.width === width && known.height === height ? known : resizeAsPillow(image, width, height);
  }

  /** Patches that a renderer cut, checked and as 32-bit floats; `uint8` are pixels, which are rescaled and normalised here. */
  unpack({ grid: [time, gridH, gridW], dtype, data }: Features): Patches {
    const { patchSize, temporalPatchSize, mergeSize } = this;
    const row = 3 * temporalPatchSize * patchSize ** 2;
    const count = time * gridH * gridW * row;
    const width = { uint8: 1, bfloat16: 2, float32: 4 }[dtype];
    if (time !== 1 || gridH % mergeSize !== 0 || gridW % mergeSize !== 0 || data.byteLength !== count * width) {
      throw new ImageError(
        `A processed image of ${time} × ${gridH} × ${gridW} patches in ${dtype} has ${data.byteLength} bytes; this model takes ` +
          `stills of whole ${mergeSize} × ${mergeSize} blocks, ${row} numbers a patch. Render it with this model's processor.`,
      );
    }
    const patches = new Float32Array(count);
    const bytes = new DataView(data.buffer, data.byteOffset, data.byteLength);
    if (dtype === "float32") for (let i = 0; i < count; i++) patches[i] = bytes.getFloat32(i * 4, true);
    if (dtype === "bfloat16") {
      const bits = new Uint32Array(patches.buffer);
      for (let i = 0; i < count; i++) bits[i] = bytes.getUint16(i * 2, true) << 16;
    }
    if (dtype === "uint8") {
      const area = temporalPatchSize * patchSize ** 2;
      for (let i = 0; i < count; i++) {
        const channel = Math.floor(i / area) % 3;
        patches[i] = this.#table[channel * 256 + (data[i] as number)] as number;
      }
    }
    return { patches, gridH, gridW };
  }

  preprocess(image: Image): Patches {
    const { width, height, data } = this.view(image);
    const { patchSize, mergeSize, temporalPatchSize } = this;
    const gridH = height / patchSize;
    const gridW = width / patchSize;
    const area = patchSize * patchSize;
    const patches = new Float32Array(gridH * gridW * 3 * temporalPatchSize * area);
    const table = this.#table;
    let at = 0;
    for (let blockY = 0; blockY < gridH; blockY += mergeSize) {
      for (let blockX = 0; blockX < gridW; blockX += mergeSize) {
        for (let inner = 0; inner < mergeSize * mergeSize; inner++) {
          const top = (blockY + Math.floor(inner / mergeSize)) * patchSize;
          const left = (blockX + (inner % mergeSize)) * patchSize;
          for (let channel = 0; channel < 3; channel++) {
            const first = at;
            for (let y = top; y < top + patchSize; y++) {
              for (let x = left; x < left + patchSize; x++) {
                patches[at++] = table[channel * 256 + (data[(y * width + x) * 3 + channel] as number)] as number;
              }
            }
            // A still image shows in every frame of the patch.
            for (let frame = 1; frame < temporalPatchSize; frame++, at += area) {
              patches.copyWithin(at, first, first + area);
            }
          }
        }
      }
    }
    return { patches, gridH, gridW };
  }
}

/** `preprocessor_config.json` for a model; the range of pixels is the model maker's choice. */
export function preprocessorJson(
  vision: VisionConfig,
  minPixels: number,
  maxPixels: number,
  mean: readonly number[] = [0.5, 0.5, 0.5],
): JsonObject {
  return {
    do_convert_rgb: true,
    do_normalize: true,
    do_rescale: true,
    do_resize: true,
    image_mean: [...mean],
    image_processor_type: "Qwen2VLImageProcessor",
    image_std: [0.5, 0.5, 0.5],
    merge_size: vision.mergeSize,
    patch_size: vision.patchSize,
    processor_class: "Qwen3VLProcessor",
    resample: BICUBIC,
    rescale_factor: 1 / 255,
    size: { shortest_edge: minPixels, longest_edge: maxPixels },
    temporal_patch_size: vision.temporalPatchSize,
  };
}

/**
 * Pillow 13 (what transformers 5 runs on) shrinks columns before rows when the height loses more than twice what the
 * width does; Pillow 12 and `resize` always begin with rows. Each pass rounds to bytes, so the order shows.
 */
function resizeAsPillow(image: Image, width: number, height: number): Image {
  const columnsFirst = height < image.height && image.height - height > 2 * (image.width - width);
  return resize(columnsFirst ? resize(image, image.width, height, "bicubic") : image, width, height, "bicubic");
}

/** Python's `round`. */
function roundHalfEven(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  if (rest !== 0.5) return Math.round(x);
  return floor % 2 === 0 ? floor : floor + 1;
}
