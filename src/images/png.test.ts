import { crc32, deflateSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ImageError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { decodePng, encodePng } from "./png.ts";

type Spec = {
  width: number;
  height: number;
  colorType: number;
  depth: number;
  interlaced: boolean;
  /** Row-major samples, `channels` a pixel. */
  samples: number[];
  palette?: number[];
  transparency?: number[];
};

const CHANNELS: Record<number, number> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

function chunk(type: string, body: Uint8Array | number[]): Buffer {
  const tagged = Buffer.concat([Buffer.from(type, "latin1"), Buffer.from(body)]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(tagged.length - 4);
  checksum.writeUInt32BE(crc32(tagged));
  return Buffer.concat([length, tagged, checksum]);
}

function header(width: number, height: number, depth: number, colorType: number, interlace: number): Buffer {
  const body = Buffer.alloc(13);
  body.writeUInt32BE(width, 0);
  body.writeUInt32BE(height, 4);
  body.set([depth, colorType, 0, 0, interlace], 8);
  return chunk("IHDR", body);
}

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
const WHOLE = [[0, 0, 1, 1]] as const;
const PASSES = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

/** A PNG of any kind, its rows filtered by all five filters in turn. */
function writePng(spec: Spec): Buffer {
  const { width, height, colorType, depth, interlaced, samples } = spec;
  const channels = CHANNELS[colorType]!;
  const back = Math.max(1, (depth * channels) >> 3);
  const rows: number[] = [];
  for (const [x0, y0, stepX, stepY] of interlaced ? PASSES : WHOLE) {
    let above: number[] | undefined;
    for (let y = y0, n = 0; y < height; y += stepY, n++) {
      const bits: string[] = [];
      for (let x = x0; x < width; x += stepX) {
        for (let c = 0; c < channels; c++) {
          bits.push(samples[(y * width + x) * channels + c]!.toString(2).padStart(depth, "0"));
        }
      }
      if (bits.length === 0) continue;
      const line = bits
        .join("")
        .match(/.{1,8}/g)!
        .map((byte) => Number.parseInt(byte.padEnd(8, "0"), 2));
      const filter = n % 5;
      const up = (i: number) => above?.[i] ?? 0;
      const guess = (i: number) => {
        const [a, b, c] = [line[i - back] ?? 0, up(i), i < back ? 0 : up(i - back)];
        if (filter < 4) return [0, a, b, Math.floor((a + b) / 2)][filter]!;
        const p = a + b - c;
        return [a, b, c].reduce((best, v) => (Math.abs(p - v) < Math.abs(p - best) ? v : best));
      };
      rows.push(filter, ...line.map((byte, i) => (byte - guess(i)) & 255));
      above = line;
    }
  }
  const packed = deflateSync(Uint8Array.from(rows));
  return Buffer.concat([
    SIGNATURE,
    header(width, height, depth, colorType, interlaced ? 1 : 0),
    ...(spec.palette ? [chunk("PLTE", spec.palette)] : []),
    ...(spec.transparency ? [chunk("tRNS", spec.transparency)] : []),
    chunk("tEXt", Buffer.from("Comment\0ignored")),
    chunk("IDAT", packed.subarray(0, 5)),
    chunk("IDAT", packed.subarray(5)),
    chunk("IEND", []),
  ]);
}

const overWhite = (value: number, alpha: number) => Math.round((value * alpha + 255 * (255 - alpha)) / 255);
const toByte = (value: number, depth: number) =>
  depth === 16 ? value >> 8 : Math.round((value * 255) / (2 ** depth - 1));

/** What the decoder must give, pixel by pixel, straight from the standard. */
function expectedRgb({ samples, colorType, depth, palette = [], transparency = [] }: Spec): number[] {
  const channels = CHANNELS[colorType]!;
  const out: number[] = [];
  for (let i = 0; i < samples.length; i += channels) {
    const pixel = samples.slice(i, i + channels);
    if (colorType === 3) {
      const entry = pixel[0]!;
      out.push(...[0, 1, 2].map((c) => overWhite(palette[entry * 3 + c]!, transparency[entry] ?? 255)));
      continue;
    }
    const colors = channels < 3 ? [pixel[0]!, pixel[0]!, pixel[0]!] : pixel.slice(0, 3);
    const isClear =
      channels % 2 === 1 &&
      transparency.length > 0 &&
      pixel.every((v, c) => v === transparency[c * 2]! * 256 + transparency[c * 2 + 1]!);
    const alpha = isClear ? 0 : channels % 2 === 0 ? toByte(pixel.at(-1)!, depth) : 255;
    out.push(...colors.map((v) => overWhite(toByte(v, depth), alpha)));
  }
  return out;
}

const kinds = [
  ...[1, 2, 4, 8, 16].map((depth) => ({ name: "grey", colorType: 0, depth })),
  ...[8, 16].map((depth) => ({ name: "RGB", colorType: 2, depth })),
  ...[1, 2, 4, 8].map((depth) => ({ name: "palette", colorType: 3, depth })),
  ...[8, 16].map((depth) => ({ name: "grey with alpha", colorType: 4, depth })),
  ...[8, 16].map((depth) => ({ name: "RGBA", colorType: 6, depth })),
];

function specOf(colorType: number, depth: number, interlaced: boolean, width: number, height: number): Spec {
  const channels = CHANNELS[colorType]!;
  const samples = Array.from(
    { length: width * height * channels },
    (_, i) => (i * 40503 + (i >> 3) * 977) % 2 ** depth,
  );
  const spec: Spec = { width, height, colorType, depth, interlaced, samples };
  if (colorType === 3) {
    spec.palette = Array.from({ length: 3 << depth }, (_, i) => (i * 89) % 256);
    spec.transparency = Array.from({ length: (1 << depth) - 1 }, (_, i) => (i * 53) % 256);
  } else if (channels % 2 === 1) {
    spec.transparency = samples.slice(channels, channels * 2).flatMap((v) => [v >> 8, v & 255]);
  }
  return spec;
}

describe("decodePng", () => {
  for (const { name, colorType, depth } of kinds) {
    for (const interlaced of [false, true]) {
      test(`reads ${name} at ${depth} bits${interlaced ? ", interlaced" : ""}, laid over white`, () => {
        for (const [width, height] of [
          [1, 1],
          [3, 2],
          [13, 11],
        ] as const) {
          const spec = specOf(colorType, depth, interlaced, width, height);
          const image = decodePng(writePng(spec));
          expect([image.width, image.height]).toEqual([width, height]);
          expect([...image.data]).toEqual(expectedRgb(spec));
        }
      });
    }
  }

  test("gives back what encodePng was given", () => {
    const images = fc
      .tuple(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 20 }), fc.constantFrom(1, 7, 255))
      .chain(([width, height, max]) =>
        fc
          .uint8Array({ minLength: width * height * 3, maxLength: width * height * 3, max })
          .map((data) => new Image(width, height, data)),
      );
    fc.assert(
      fc.property(images, fc.integer({ min: 0, max: 9 }), (image, level) => {
        expect(decodePng(encodePng(image, { level }))).toEqual(image);
      }),
      { numRuns: 50 },
    );
  });

  test("reads a part of it as the whole cut to it, whatever its rows' filters", () => {
    for (const [colorType, channels] of [
      [2, 3],
      [6, 4],
      [0, 1],
    ] as const) {
      const [width, height] = [9, 10];
      const row = (y: number) => [
        y % 5,
        ...Array.from({ length: width * channels }, (_, i) => (i * 37 + y * 101) & 255),
      ];
      const rows = Buffer.from(Array.from({ length: height }, (_, y) => row(y)).flat());
      const png = Buffer.concat([
        SIGNATURE,
        header(width, height, 8, colorType, 0),
        chunk("IDAT", deflateSync(rows)),
        chunk("IEND", []),
      ]);
      const whole = decodePng(png);
      const part = { x: 2, y: 3, width: 5, height: 6 };
      const wanted = Array.from({ length: part.height }, (_, y) => {
        const from = ((y + part.y) * width + part.x) * 3;
        return [...whole.data.subarray(from, from + part.width * 3)];
      }).flat();
      expect([...decodePng(png, part).data], `colour type ${colorType}`).toEqual(wanted);
      expect(() => decodePng(png, { ...part, x: 5 })).toThrow(/5×6 at 5, 3 of 9×10/);
    }
  });

  test("reads past a broken chunk that it does not use, such as a colour profile", () => {
    const png = Buffer.from(
      encodePng(
        new Image(
          2,
          2,
          Uint8Array.from({ length: 12 }, (_, i) => i),
        ),
      ),
    );
    const profile = chunk("iCCP", [1, 2, 3]);
    profile[profile.length - 1] = (profile.at(-1) as number) ^ 1;
    const afterHeader = 8 + 25;
    const odd = Buffer.concat([png.subarray(0, afterHeader), profile, png.subarray(afterHeader)]);
    expect(decodePng(odd).data).toEqual(decodePng(png).data);
  });

  test("refuses every truncation", () => {
    const png = encodePng(new Image(4, 3, new Uint8Array(36).fill(7)));
    for (let length = 0; length < png.length; length++) {
      expect(() => decodePng(png.subarray(0, length))).toThrow(ImageError);
    }
  });

  test("refuses any single flipped bit", () => {
    const png = encodePng(
      new Image(
        4,
        3,
        Uint8Array.from({ length: 36 }, (_, i) => i * 7),
      ),
    );
    for (let bit = 0; bit < png.length * 8; bit++) {
      const bad = Uint8Array.from(png);
      bad[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => decodePng(bad)).toThrow(ImageError);
    }
  });

  const build = (width: number, height: number, rows: Uint8Array, depth = 8, colorType = 2, extra: Buffer[] = []) =>
    Buffer.concat([
      SIGNATURE,
      header(width, height, depth, colorType, 0),
      ...extra,
      chunk("IDAT", deflateSync(rows)),
      chunk("IEND", []),
    ]);

  test.each([
    ["a size of zero", build(0, 4, new Uint8Array(4)), /at least 1/],
    ["a size beyond what we hold", build(60000, 60000, new Uint8Array(4)), /more than \d+ pixels/],
    ["fewer pixels than announced", build(4, 4, new Uint8Array(20)), /20 of 52 bytes/],
    ["more pixels than announced", build(2, 2, new Uint8Array(1_000_000)), /can't be unpacked/],
    ["a bit depth its colour type lacks", build(1, 1, new Uint8Array(4), 4, 2), /header is not valid/],
    ["an unknown row filter", build(1, 1, Uint8Array.of(9, 0, 0, 0)), /unknown filter 9/],
    ["no palette", build(1, 1, Uint8Array.of(0, 0), 8, 3), /palette lacks/],
    ["an unknown chunk it needs", build(1, 1, new Uint8Array(4), 8, 2, [chunk("ABCD", [1])]), /unknown chunk ABCD/],
    ["no pixel data", Buffer.concat([SIGNATURE, header(1, 1, 8, 2, 0), chunk("IEND", [])]), /broken/],
    ["no header", Buffer.concat([SIGNATURE, chunk("IEND", [])]), /start with a header/],
    ["another format", Buffer.from("GIF89a"), /not a PNG/],
  ])("refuses a PNG with %s, saying so", (_, bytes, message) => {
    expect(() => decodePng(bytes)).toThrow(ImageError);
    expect(() => decodePng(bytes)).toThrow(message);
  });
});

describe("encodePng", () => {
  test("packs a flat frame to a small fraction of its pixels", () => {
    expect(encodePng(new Image(225, 225, new Uint8Array(225 * 225 * 3).fill(200))).length).toBeLessThan(2000);
  });

  test("writes the same bytes for the same pixels", () => {
    const make = () =>
      encodePng(
        new Image(
          5,
          5,
          Uint8Array.from({ length: 75 }, (_, i) => i),
        ),
      );
    expect(make()).toEqual(make());
  });
});
