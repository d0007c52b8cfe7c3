/**
 * Turning a round image about its middle as OpenCV does, bilinear in whole numbers (places in 1/32 of a pixel), the same bits on
 * every machine. The loop over pixels is a few hundred bytes of WebAssembly, which takes the channels of a pixel at once and less than a quarter
 * of the time that JavaScript takes; they are put together here, instruction by instruction.
 */
import { cos, sin } from "../core/exact-math.ts";
import { copyBytes } from "./canvas.ts";

/** Node has it; its types are a browser's. */
declare const WebAssembly: {
  readonly Module: new (code: Uint8Array) => object;
  readonly Instance: new (
    module: object,
  ) => {
    readonly exports: { readonly memory: { readonly buffer: ArrayBuffer }; readonly row: Row };
  };
};
/** Writes a row of pixels: where its origin lies (in 1/1024), first and last column (times 4), and the byte it begins at. */
type Row = (x: number, y: number, first: number, last: number, at: number) => void;

/** First and last column of the image in a row; none where the first is beyond the last. */
type Span = readonly [number, number];
/** What is turned, with a black rim (eight bytes a pixel: each channel of it and of its right neighbour), and the frame with it on the left. */
export type Turnable = { readonly texels: Uint8Array; readonly panels: Uint8Array };
/** Where things lie in the memory. */
type Places = Readonly<Record<"across" | "down" | "shares" | "texels" | "panels", number>>;

/** A turned pixel may come from so far outside. */
const RIM = 2;

/** Images of `side` pixels within `spans`. One is shared by all worlds: each reserves much address space. */
export class Turner {
  readonly #side: number;
  readonly #spans: readonly Span[];
  readonly #row: Row;
  /** How far each column moves a pixel's origin. */
  readonly #across: Int32Array;
  readonly #down: Int32Array;
  readonly #texels: Uint8Array;
  readonly #panels: Uint8Array;
  #loaded: Turnable | undefined;

  constructor(side: number, spans: readonly Span[]) {
    this.#side = side;
    this.#spans = spans;
    const stride = side + 2 * RIM;
    const place = { shares: 0, across: 8192, down: 8192 + 4 * side, texels: 8192 + 8 * side, panels: 0 };
    place.panels = place.texels + 8 * stride * stride;
    const code = assemble(place, 8 * stride, place.panels + 6 * side * side);
    const { memory, row } = new WebAssembly.Instance(new WebAssembly.Module(code)).exports;
    this.#row = row;
    this.#across = new Int32Array(memory.buffer, place.across, side);
    this.#down = new Int32Array(memory.buffer, place.down, side);
    this.#texels = new Uint8Array(memory.buffer, place.texels, 8 * stride * stride);
    this.#panels = new Uint8Array(memory.buffer, place.panels, 6 * side * side);
    // For a place that lies so many 32nds down and right of a pixel: what it takes of the four around it, of 1024.
    const shares = new Int16Array(memory.buffer, place.shares, 4096);
    for (let i = 0; i < 1024; i++) {
      const [down, right] = [i >> 5, i & 31];
      shares.set([(32 - down) * (32 - right), (32 - down) * right, down * (32 - right), down * right], 4 * i);
    }
  }

  /** Of an RGB image that is black outside its spans. */
  prepare(pixels: Uint8Array): Turnable {
    const side = this.#side;
    const texels = new Uint8Array(this.#texels.length);
    const panels = new Uint8Array(this.#panels.length);
    for (let y = 0, i = 0; y < side; y++) {
      panels.set(pixels.subarray(y * side * 3, (y + 1) * side * 3), y * side * 6);
      for (let x = 0; x < side; x++, i += 3) {
        const at = ((y + RIM) * (side + 2 * RIM) + x + RIM) * 8;
        for (let k = 0; k < 3; k++) {
          const value = pixels[i + k] as number;
          texels[at + 2 * k] = value;
          texels[at - 8 + 2 * k + 1] = value;
        }
      }
    }
    return { texels, panels };
  }

  /** The frame with the image on the left, and turned clockwise on the right. */
  turn(what: Turnable, degrees: number): Uint8Array {
    if (this.#loaded !== what) {
      this.#texels.set(what.texels);
      this.#panels.set(what.panels);
      this.#loaded = what;
    }
    const side = this.#side;
    const centre = side / 2;
    const angle = (degrees * Math.PI) / 180;
    // A turned pixel comes from where turning back leads.
    const c = cos(angle) * 1024;
    const s = sin(angle) * 1024;
    for (let x = 0; x < side; x++) {
      this.#across[x] = Math.round(c * (x - centre));
      this.#down[x] = Math.round(-s * (x - centre));
    }
    this.#spans.forEach(([from, to], y) => {
      if (from > to) return;
      const middle = (centre + RIM) * 1024;
      const [x0, y0] = [Math.round(middle + s * (y - centre)) + 16, Math.round(middle + c * (y - centre)) + 16];
      this.#row(x0, y0, 4 * from, 4 * to, ((2 * y + 1) * side + from) * 3);
    });
    return copyBytes(this.#panels);
  }
}

/**
 * The module: a memory of so many bytes, and the function `row`. `stride` is a row of texels in bytes. A list of bytes below pushes its result on
 * WebAssembly's stack, so that lists in a row read like the arguments and then the operation.
 */
function assemble(place: Places, stride: number, bytes: number): Uint8Array {
  const [x0, y0, column, last, at, u, v, origin, share, half, done] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10] as const;
  const get = (local: number) => [0x20, local];
  const set = (local: number) => [0x21, local];
  const tee = (local: number) => [0x22, local];
  const number = (value: number) => [0x41, ...leb(value)];
  const load = (address: number) => [0x28, 2, ...leb(address)];
  const [add, mul, and, or, shl, shr, equal, atLeast] = [0x6a, 0x6c, 0x71, 0x72, 0x74, 0x75, 0x46, 0x4e] as const;
  const [block, loop, when, end] = [[0x02, 0x40], [0x03, 0x40], [0x04, 0x40], 0x0b] as const;
  const again = [0x0c, 0];
  const leaveIf = [0x0d, 1];
  // Four 32-bit or eight 16-bit numbers at once.
  const vector = (code: number, ...more: readonly number[]) => [0xfd, ...leb(code), ...more];
  const [splat, addAll, shrAll] = [vector(0x11), vector(0xae), vector(0xad)];
  /** Sums of two products each; two lists of 32-bit numbers as one of 16-bit numbers. */
  const [dot, narrow] = [vector(0xba), vector(0x85)];
  /** Eight bytes as 16-bit numbers; 32 bits in all four places. */
  const widened = (address: number) => vector(0x02, 0, ...leb(address));
  const repeated = (address: number) => vector(0x09, 0, ...leb(address));
  /** Some bytes of a vector; the operation takes two. */
  const bytesAt = (...which: number[]) => [
    ...[...tee(done), ...get(done)],
    ...vector(0x0d, ...Array.from({ length: 16 }, (_, i) => which[i] ?? 0)),
  ];
  const store = (code: number, offset: number, lane: number) => vector(code, 0, ...leb(place.panels + offset), lane);
  const [byte, two, four] = [0x58, 0x59, 0x5a] as const;

  /** The channels of the pixel so many columns on: upper and lower neighbours by their shares, rounded. */
  const pixel = (on: number) => [
    // u, v = where it comes from, in 1/32 of a pixel
    ...[...get(x0), ...get(column), ...load(place.across + 4 * on), add, ...number(5), shr, ...set(u)],
    ...[...get(y0), ...get(column), ...load(place.down + 4 * on), add, ...number(5), shr, ...set(v)],
    // origin = the texel there; share = its shares, by what is left over
    ...[...get(v), ...number(5), shr, ...number(stride), mul],
    ...[...get(u), ...number(5), shr, ...number(3), shl, add, ...set(origin)],
    ...[...get(v), ...number(31), and, ...number(5), shl, ...get(u), ...number(31), and, or],
    ...[...number(3), shl, ...set(share)],
    ...[...get(origin), ...widened(place.texels), ...get(share), ...repeated(place.shares), ...dot],
    ...[...get(origin), ...widened(place.texels + stride), ...get(share), ...repeated(place.shares + 4), ...dot],
    ...[...addAll, ...get(half), ...addAll, ...number(10), ...shrAll],
  ];
  const body = [
    ...[...number(512), ...splat, ...set(half)],
    // Two pixels at a time, which are six bytes,
    ...[...block, ...loop, ...get(column), ...get(last), atLeast, ...leaveIf],
    ...[...get(at), ...get(at), ...pixel(0), ...pixel(1), ...narrow, ...bytesAt(0, 2, 4, 8, 10, 12)],
    ...[...tee(done), ...store(four, 0, 0), ...get(done), ...store(two, 4, 2)],
    ...[...get(at), ...number(6), add, ...set(at), ...get(column), ...number(8), add, ...set(column)],
    ...[...again, end, end],
    // and the last one, where their number is odd.
    ...[...get(column), ...get(last), equal, ...when],
    ...[...get(at), ...get(at), ...pixel(0), ...bytesAt(0, 4, 8)],
    ...[...tee(done), ...store(two, 0, 0), ...get(done), ...store(byte, 2, 2), end],
    end,
  ];
  const section = (id: number, content: readonly number[]) => [id, ...leb(content.length), ...content];
  const name = (text: string) => [text.length, ...Buffer.from(text)];
  // Beside its five arguments: four whole numbers and two vectors.
  const code = [2, 4, 0x7f, 2, 0x7b, ...body];
  return new Uint8Array([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 5, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0]),
    ...section(3, [1, 0]),
    ...section(5, [1, 0, ...leb(Math.ceil(bytes / 65_536))]),
    ...section(7, [2, ...name("memory"), 2, 0, ...name("row"), 0, 0]),
    ...section(10, [1, ...leb(code.length), ...code]),
  ]);
}

/** A number of at least 0 as WebAssembly writes it, seven bits a byte; a bit to spare, so that it reads the same with a sign. */
function leb(value: number): number[] {
  const out: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    if (rest < 64) return [...out, rest];
    out.push((rest & 127) | 128);
  }
}
