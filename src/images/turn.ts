/**
 * Turning a round picture about its middle as OpenCV does, bilinear in whole numbers (places in 1/32 of a pixel), the same bits on
 * every machine. The loop over pixels is a few hundred bytes of WebAssembly, which takes the channels of a pixel at once and a quarter of
 * the time that JavaScript takes; they are put together here, instruction by instruction.
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

/** First and last column of the picture in a row; none where the first is beyond the last. */
type Span = readonly [number, number];
/** What is turned (four 16-bit channels a pixel, with a black rim), and the frame with it on the left. */
export type Turnable = { readonly texels: Int16Array; readonly panels: Uint8Array };

/** A turned pixel may come from so far outside. */
const RIM = 2;

/** Pictures of `side` pixels within `spans`. One is shared by all worlds: each reserves much address space. */
export class Turner {
  readonly #side: number;
  readonly #spans: readonly Span[];
  readonly #row: Row;
  /** How far each column moves a pixel's origin. */
  readonly #across: Int32Array;
  readonly #down: Int32Array;
  readonly #texels: Int16Array;
  readonly #panels: Uint8Array;
  #loaded: Turnable | undefined;

  constructor(side: number, spans: readonly Span[]) {
    this.#side = side;
    this.#spans = spans;
    const stride = side + 2 * RIM;
    const place = { across: 0, down: 4 * side, texels: 8 * side, panels: 8 * side + 8 * stride * stride };
    const code = assemble(place, 8 * stride, place.panels + 6 * side * side);
    const { memory, row } = new WebAssembly.Instance(new WebAssembly.Module(code)).exports;
    this.#row = row;
    this.#across = new Int32Array(memory.buffer, place.across, side);
    this.#down = new Int32Array(memory.buffer, place.down, side);
    this.#texels = new Int16Array(memory.buffer, place.texels, 4 * stride * stride);
    this.#panels = new Uint8Array(memory.buffer, place.panels, 6 * side * side);
  }

  /** Of an RGB picture that is black outside its spans. */
  prepare(pixels: Uint8Array): Turnable {
    const side = this.#side;
    const texels = new Int16Array(this.#texels.length);
    const panels = new Uint8Array(this.#panels.length);
    for (let y = 0, i = 0; y < side; y++) {
      panels.set(pixels.subarray(y * side * 3, (y + 1) * side * 3), y * side * 6);
      for (let x = 0; x < side; x++, i += 3) {
        texels.set(pixels.subarray(i, i + 3), ((y + RIM) * (side + 2 * RIM) + x + RIM) * 4);
      }
    }
    return { texels, panels };
  }

  /** The frame with the picture on the left, and turned clockwise on the right. */
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

type Places = { readonly across: number; readonly down: number; readonly texels: number; readonly panels: number };

/** The module: a memory of so many bytes, and the function `row`. `stride` is a row of texels in bytes. */
function assemble({ across, down, texels, panels }: Places, stride: number, bytes: number): Uint8Array {
  const get = (local: number) => [0x20, local];
  const set = (local: number) => [0x21, local];
  const tee = (local: number) => [0x22, local];
  const number = (value: number) => [0x41, ...leb(value)];
  const load32 = (at: number) => [0x28, 2, ...leb(at)];
  const vector = (code: number, ...more: number[]) => [0xfd, ...(code < 128 ? [code] : [code, 1]), ...more];
  const loadVector = (at: number) => vector(0x00, 3, ...leb(at));
  const [add, sub, mul, and, or, shl, shr] = [0x6a, 0x6b, 0x6c, 0x71, 0x72, 0x74, 0x75] as const;
  const [x0, y0, column, last, at, u, v, word, pixels] = [0, 1, 2, 3, 4, 5, 6, 7, 8] as const;
  const body = [
    ...[0x03, 0x40], // loop
    // u, v = the origin in 1/32 of a pixel
    ...[...get(x0), ...get(column), ...load32(across), add, ...number(5), shr, ...set(u)],
    ...[...get(y0), ...get(column), ...load32(down), add, ...number(5), shr, ...set(v)],
    ...[...get(v), ...number(5), shr, ...number(stride), mul, ...get(u), ...number(5), shr, ...number(3), shl, add],
    // pixels = upper · 32 + (lower − upper) · (v mod 32), for two neighbours in 16-bit lanes
    ...[...tee(word), ...loadVector(texels), ...tee(pixels), ...number(5), ...vector(0x8b)],
    ...[...get(word), ...loadVector(texels + stride), ...get(pixels), ...vector(0x91)],
    ...[...get(v), ...number(31), and, ...vector(0x10), ...vector(0x95), ...vector(0x8e), ...tee(pixels)],
    // left · (32 − u mod 32) + right · (u mod 32): neighbours side by side, multiplied and added in pairs
    ...[...get(pixels), ...vector(0x0d, 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)],
    ...[...get(u), ...number(31), and, ...tee(u), ...number(16), shl, ...number(32), ...get(u), sub, or],
    ...[...vector(0x11), ...vector(0xba)],
    // rounded, and narrowed to bytes
    ...[...number(512), ...vector(0x11), ...vector(0xae), ...number(10), ...vector(0xad)],
    ...[...get(pixels), ...vector(0x86), ...get(pixels), ...vector(0x66), ...vector(0x1b, 0), ...set(word)],
    ...[...get(at), ...get(word), 0x3b, 0, ...leb(panels)],
    ...[...get(at), ...get(word), ...number(16), shr, 0x3a, 0, ...leb(panels + 2)],
    ...[...get(at), ...number(3), add, ...set(at)],
    // on to the next column, if there is one
    ...[...get(column), ...number(4), add, ...tee(column), ...get(last), 0x4c, 0x0d, 0, 0x0b, 0x0b],
  ];
  const section = (id: number, content: readonly number[]) => [id, ...leb(content.length), ...content];
  const name = (text: string) => [text.length, ...Buffer.from(text)];
  const code = [2, 3, 0x7f, 1, 0x7b, ...body];
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
