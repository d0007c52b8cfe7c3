/**
 * Animated GIF out, to show an episode wherever an image can be shown. Each frame has its own colour table: exact when
 * it has at most 256 colours (worlds do), otherwise a median cut of its colours. Our own rather than `gifenc`, whose
 * default palette shifts a few colours even of flat frames, and which took 2 to 4 times as long on 225×225 ones.
 */
import { ConfigError, ImageError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { Canvas } from "./canvas.ts";

export type GifOptions = {
  /** How long a frame shows, for all or for each; kept in hundredths of a second. Default 500. */
  readonly delayMs?: number | readonly number[];
  /** Start over at the end. Default true. */
  readonly loop?: boolean;
};

/** Frames smaller than the largest are padded with white at the right and bottom. */
export function encodeGif(frames: readonly Image[], options: GifOptions = {}): Uint8Array {
  const { delayMs = 500, loop = true } = options;
  if (frames.length === 0) throw new ConfigError("A GIF needs at least one frame.");
  const delays = typeof delayMs === "number" ? frames.map(() => delayMs) : delayMs;
  if (delays.length !== frames.length) {
    throw new ConfigError(`Give one delay or one for each of the ${frames.length} frames, not ${delays.length}.`);
  }
  const width = Math.max(...frames.map((frame) => frame.width));
  const height = Math.max(...frames.map((frame) => frame.height));
  if (width > 65535 || height > 65535) throw new ImageError("A GIF is at most 65535 pixels wide and high: shrink it.");
  const bytes: number[] = [...Buffer.from("GIF89a"), ...word(width), ...word(height), 0, 0, 0];
  // Application extension that every viewer knows: repeat for ever.
  if (loop) bytes.push(0x21, 0xff, 11, ...Buffer.from("NETSCAPE2.0"), 3, 1, 0, 0, 0);
  const chunks: Uint8Array[] = [Uint8Array.from(bytes)];
  for (const [i, frame] of frames.entries()) {
    const delay = Math.round((delays[i] as number) / 10);
    if (!(delay >= 0 && delay <= 65535))
      throw new ConfigError(`A frame can't show for ${delays[i]} ms: use 0 to 655350.`);
    const { palette, pixels } = indexColors(pad(frame, width, height));
    const bits = Math.max(1, Math.ceil(Math.log2(palette.length / 3)));
    const table = new Uint8Array(3 << bits);
    table.set(palette);
    const control = [0x21, 0xf9, 4, 0x04, ...word(delay), 0, 0];
    const descriptor = [0x2c, 0, 0, 0, 0, ...word(width), ...word(height), 0x80 | (bits - 1)];
    chunks.push(Uint8Array.from([...control, ...descriptor]), table, compress(pixels, Math.max(2, bits)));
  }
  return Buffer.concat([...chunks, Uint8Array.of(0x3b)]);
}

function word(value: number): [number, number] {
  return [value & 255, value >> 8];
}

function pad(frame: Image, width: number, height: number): Image {
  if (frame.width === width && frame.height === height) return frame;
  const canvas = new Canvas(width, height);
  canvas.draw(frame, 0, 0);
  return canvas.toImage();
}

type Indexed = {
  /** RGB of each entry, at most 256. */
  readonly palette: Uint8Array;
  readonly pixels: Uint8Array;
};

function indexColors(image: Image): Indexed {
  const { data } = image;
  const pixels = new Uint8Array(data.length / 3);
  const entries = new Map<number, number>();
  for (let i = 0; i < pixels.length; i++) {
    const color = colorAt(data, i);
    let entry = entries.get(color);
    if (entry === undefined) {
      if (entries.size === 256) return quantize(data, pixels);
      entry = entries.size;
      entries.set(color, entry);
    }
    pixels[i] = entry;
  }
  return { palette: Uint8Array.from([...entries.keys()].flatMap((c) => [c >> 16, (c >> 8) & 255, c & 255])), pixels };
}

function colorAt(data: Uint8Array, pixel: number): number {
  return ((data[pixel * 3] as number) << 16) | ((data[pixel * 3 + 1] as number) << 8) | (data[pixel * 3 + 2] as number);
}

/** Colours that agree in the upper 5 bits of each channel; `sum` is over their pixels. */
type Bin = { readonly key: number; count: number; readonly sum: [number, number, number] };

/** Median cut: halves the box of colours with the widest spread until there are 256 boxes. */
function quantize(data: Uint8Array, pixels: Uint8Array): Indexed {
  const bins = new Map<number, Bin>();
  for (let i = 0; i < pixels.length; i++) {
    const key = binOf(colorAt(data, i));
    const bin: Bin = bins.get(key) ?? { key, count: 0, sum: [0, 0, 0] };
    if (bin.count++ === 0) bins.set(key, bin);
    for (let c = 0; c < 3; c++) bin.sum[c as 0] += data[i * 3 + c] as number;
  }
  const boxes = [measure([...bins.values()])];
  while (boxes.length < 256) {
    const widest = boxes.reduce((best, box) => (box.spread > best.spread ? box : best));
    if (widest.spread === 0) break;
    const sorted = widest.bins.toSorted((a, b) => mean(a, widest.channel) - mean(b, widest.channel));
    let half = sorted.reduce((sum, bin) => sum + bin.count, 0) / 2;
    let cut = 0;
    while (cut < sorted.length - 1 && (cut === 0 || half > 0)) half -= (sorted[cut++] as Bin).count;
    boxes.splice(boxes.indexOf(widest), 1, measure(sorted.slice(0, cut)), measure(sorted.slice(cut)));
  }
  const entries = new Uint8Array(1 << 15);
  const palette = new Uint8Array(boxes.length * 3);
  for (const [entry, box] of boxes.entries()) {
    const count = box.bins.reduce((sum, bin) => sum + bin.count, 0);
    for (let c = 0; c < 3; c++) {
      palette[entry * 3 + c] = Math.round(box.bins.reduce((sum, bin) => sum + bin.sum[c as 0], 0) / count);
    }
    for (const bin of box.bins) entries[bin.key] = entry;
  }
  for (let i = 0; i < pixels.length; i++) pixels[i] = entries[binOf(colorAt(data, i))] as number;
  return { palette, pixels };
}

function binOf(color: number): number {
  return ((color >> 9) & 0x7c00) | ((color >> 6) & 0x3e0) | ((color >> 3) & 0x1f);
}

function mean(bin: Bin, channel: 0 | 1 | 2): number {
  return bin.sum[channel] / bin.count;
}

function measure(bins: readonly Bin[]): { bins: readonly Bin[]; channel: 0 | 1 | 2; spread: number } {
  const spreads = ([0, 1, 2] as const).map((channel) => {
    const means = bins.map((bin) => mean(bin, channel));
    const low = means.reduce((a, b) => Math.min(a, b), Infinity);
    return { bins, channel, spread: bins.length < 2 ? 0 : means.reduce((a, b) => Math.max(a, b), 0) - low };
  });
  return spreads.reduce((best, one) => (one.spread > best.spread ? one : best));
}

/** GIF's LZW: codes grow from `bits + 1` to 12 bits, then the table starts over. In blocks of 255 bytes. */
function compress(pixels: Uint8Array, bits: number): Uint8Array {
  const clear = 1 << bits;
  const packed: number[] = [];
  let [pending, pendingBits] = [0, 0];
  let [codeBits, next] = [bits + 1, clear + 2];
  let codes = new Map<number, number>();
  const write = (code: number) => {
    pending |= code << pendingBits;
    pendingBits += codeBits;
    for (; pendingBits >= 8; pendingBits -= 8, pending >>>= 8) packed.push(pending & 255);
  };
  write(clear);
  let prefix = pixels[0] as number;
  for (let i = 1; i < pixels.length; i++) {
    const key = (prefix << 8) | (pixels[i] as number);
    const known = codes.get(key);
    if (known !== undefined) {
      prefix = known;
      continue;
    }
    write(prefix);
    if (next < 4096) {
      // The decoder learns each code one step later, so the width grows once the code itself no longer fits.
      if (next === 1 << codeBits) codeBits++;
      codes.set(key, next++);
    } else {
      write(clear);
      [codeBits, next, codes] = [bits + 1, clear + 2, new Map()];
    }
    prefix = pixels[i] as number;
  }
  write(prefix);
  if (next === 1 << codeBits && codeBits < 12) codeBits++;
  write(clear + 1);
  if (pendingBits > 0) packed.push(pending & 255);
  const out: number[] = [bits];
  for (let at = 0; at < packed.length; at += 255) {
    const block = packed.slice(at, at + 255);
    out.push(block.length, ...block);
  }
  out.push(0);
  return Uint8Array.from(out);
}
