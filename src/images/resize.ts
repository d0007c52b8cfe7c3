/**
 * Resampling that gives the very bytes Pillow's `Image.resize` gives: a separable convolution whose window widens when
 * shrinking (so it anti-aliases), horizontal pass first, 22-bit fixed-point weights, rounded and clipped to 8 bits after
 * each pass. Models were trained on frames made that way, so equal bytes matter more than speed here.
 */
import { ConfigError } from "../core/errors.ts";
import { checkSize, Image } from "../core/image.ts";

export type ResizeFilter = "nearest" | "bilinear" | "bicubic" | "lanczos";

type Kernel = { readonly support: number; weight(x: number): number };

const KERNELS: Readonly<Record<Exclude<ResizeFilter, "nearest">, Kernel>> = {
  bilinear: { support: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { support: 2, weight: (x) => cubic(Math.abs(x)) },
  lanczos: { support: 3, weight: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

/** Keys' cubic with a = -1/2. */
function cubic(x: number): number {
  const a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);
}

/** 8 bits of a sample and 2 bits of overshoot leave this many for a weight. */
const PRECISION_BITS = 32 - 8 - 2;
const HALF = 1 << (PRECISION_BITS - 1);

/** The image at a new size; the same image when the size is the same. */
export function resize(image: Image, width: number, height: number, filter: ResizeFilter = "bicubic"): Image {
  checkSize(width, height);
  if (width === image.width && height === image.height) return image;
  if (filter === "nearest") return pickNearest(image, width, height);
  const kernel = KERNELS[filter];
  if (kernel === undefined) {
    throw new ConfigError(`Unknown resize filter '${filter}': use nearest, bilinear, bicubic or lanczos.`);
  }
  const wide = width === image.width ? image : resampleRows(image, width, kernel);
  return height === image.height ? wide : resampleColumns(wide, height, kernel);
}

/** Shrinks so that the longer side is at most `max` pixels (Lanczos); smaller images stay as they are. */
export function fitLongSide(image: Image, max: number): Image {
  const long = Math.max(image.width, image.height);
  if (long <= max) return image;
  const width = Math.max(1, Math.floor((image.width * max) / long));
  const height = Math.max(1, Math.floor((image.height * max) / long));
  return resize(image, width, height, "lanczos");
}

/** The image with its right and lower edge extended, in the colour of its lower right corner, to a multiple of `step` pixels. */
export function extendTo(image: Image, step: number): Image {
  const [width, height] = [image.width, image.height].map((side) => Math.ceil(side / step) * step) as [number, number];
  if (width === image.width && height === image.height) return image;
  checkSize(width, height);
  const corner = image.data.subarray(image.data.length - 3);
  const data = new Uint8Array(width * height * 3);
  for (let i = 0; i < data.length; i += 3) data.set(corner, i);
  const row = image.width * 3;
  for (let y = 0; y < image.height; y++) data.set(image.data.subarray(y * row, (y + 1) * row), y * width * 3);
  return new Image(width, height, data);
}

type Weights = {
  /** Taps reserved for each output position in `values`. */
  readonly taps: number;
  /** First source position and number of taps, per output position. */
  readonly starts: Int32Array;
  readonly counts: Int32Array;
  readonly values: Int32Array;
};

function weightsFor(from: number, to: number, kernel: Kernel): Weights {
  const scale = from / to;
  const stretch = Math.max(1, scale);
  const support = kernel.support * stretch;
  const taps = Math.ceil(support) * 2 + 1;
  const starts = new Int32Array(to);
  const counts = new Int32Array(to);
  const values = new Int32Array(to * taps);
  const row = new Float64Array(taps);
  const inverse = 1 / stretch;
  for (let i = 0; i < to; i++) {
    const center = (i + 0.5) * scale;
    const start = Math.max(0, Math.trunc(center - support + 0.5));
    const count = Math.min(from, Math.trunc(center + support + 0.5)) - start;
    let sum = 0;
    for (let k = 0; k < count; k++) {
      const weight = kernel.weight((k + start - center + 0.5) * inverse);
      row[k] = weight;
      sum += weight;
    }
    for (let k = 0; k < count; k++) {
      const weight = (row[k] as number) / (sum === 0 ? 1 : sum);
      values[i * taps + k] = Math.trunc(weight * (1 << PRECISION_BITS) + (weight < 0 ? -0.5 : 0.5));
    }
    starts[i] = start;
    counts[i] = count;
  }
  return { taps, starts, counts, values };
}

function resampleRows(image: Image, width: number, kernel: Kernel): Image {
  const { taps, starts, counts, values } = weightsFor(image.width, width, kernel);
  const { data, height } = image;
  const out = new Uint8Array(width * height * 3);
  let to = 0;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let red = HALF;
      let green = HALF;
      let blue = HALF;
      let from = (y * image.width + (starts[x] as number)) * 3;
      const end = x * taps + (counts[x] as number);
      for (let k = x * taps; k < end; k++) {
        const weight = values[k] as number;
        red += (data[from++] as number) * weight;
        green += (data[from++] as number) * weight;
        blue += (data[from++] as number) * weight;
      }
      out[to++] = clip(red >> PRECISION_BITS);
      out[to++] = clip(green >> PRECISION_BITS);
      out[to++] = clip(blue >> PRECISION_BITS);
    }
  }
  return new Image(width, height, out);
}

function resampleColumns(image: Image, height: number, kernel: Kernel): Image {
  const { taps, starts, counts, values } = weightsFor(image.height, height, kernel);
  const { data } = image;
  const stride = image.width * 3;
  const out = new Uint8Array(stride * height);
  for (let y = 0; y < height; y++) {
    const start = (starts[y] as number) * stride;
    const count = counts[y] as number;
    for (let i = 0; i < stride; i++) {
      let sum = HALF;
      for (let k = 0; k < count; k++)
        sum += (data[start + k * stride + i] as number) * (values[y * taps + k] as number);
      out[y * stride + i] = clip(sum >> PRECISION_BITS);
    }
  }
  return new Image(image.width, height, out);
}

function clip(value: number): number {
  return Math.max(0, Math.min(255, value));
}

function pickNearest(image: Image, width: number, height: number): Image {
  const columns = nearestPositions(image.width, width);
  const rows = nearestPositions(image.height, height);
  const out = new Uint8Array(width * height * 3);
  let to = 0;
  for (const row of rows) {
    for (const column of columns) {
      const from = (row * image.width + column) * 3;
      out[to++] = image.data[from] as number;
      out[to++] = image.data[from + 1] as number;
      out[to++] = image.data[from + 2] as number;
    }
  }
  return new Image(width, height, out);
}

function nearestPositions(from: number, to: number): Int32Array {
  const positions = new Int32Array(to);
  const scale = from / to;
  // Summed step by step, as Pillow does: a product would round differently on some sizes.
  for (let i = 0, at = scale * 0.5; i < to; i++, at += scale) positions[i] = Math.min(from - 1, Math.floor(at));
  return positions;
}
