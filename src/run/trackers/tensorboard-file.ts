/**
 * TensorBoard's event files: TFRecord frames (length, masked CRC-32C, payload, masked CRC-32C) around `Event` messages in protocol
 * buffer form. Only what we log is written: scalars, images, text and histograms, in the fields that every version of TensorBoard reads.
 */
import { randomBytes } from "node:crypto";
import { appendFile, mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import type { Tracked, TrackedValue } from "./tracker.ts";

/** Appends events to one file of a folder; TensorBoard reads all files of a folder as one run, in the order of their names. */
export class TensorBoardFile {
  readonly path: string;
  #waiting: Uint8Array[] = [];

  private constructor(path: string) {
    this.path = path;
  }

  static async create(folder: string, time: number): Promise<TensorBoardFile> {
    await mkdir(folder, { recursive: true });
    const seconds = String(Math.floor(time / 1000)).padStart(10, "0");
    const name = `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${randomBytes(3).toString("hex")}`;
    const file = new TensorBoardFile(join(folder, name));
    file.#waiting.push(frame(fileVersion(time)));
    return file;
  }

  add(event: Tracked): void {
    this.#waiting.push(frame(encodeEvent(event)));
  }

  /** A run goes on at `step`: TensorBoard forgets what earlier files say of this step and later ones. */
  restart(step: number, time: number): void {
    this.#waiting.push(frame(sessionStart(step, time)));
  }

  async flush(): Promise<void> {
    const bytes = Buffer.concat(this.#waiting.splice(0));
    if (bytes.length > 0) await appendFile(this.path, bytes);
  }
}

export function fileVersion(time: number): Uint8Array {
  return message(double(1, time / 1000), text(3, "brain.Event:2"));
}

export function sessionStart(step: number, time: number): Uint8Array {
  return message(double(1, time / 1000), integer(2, step), nested(7, integer(1, 1)));
}

export function encodeEvent({ step, time, values }: Tracked): Uint8Array {
  const summary = values.map((value) => nested(1, encodeValue(value)));
  return message(double(1, time / 1000), integer(2, step), nested(5, ...summary));
}

function encodeValue(value: TrackedValue): Uint8Array {
  const tag = text(1, value.tag);
  if ("scalar" in value) return message(tag, float(2, value.scalar));
  if ("png" in value) {
    const RGB = 3;
    return message(
      tag,
      nested(4, integer(1, value.height), integer(2, value.width), integer(3, RGB), bytes(4, value.png)),
    );
  }
  if ("histogram" in value) {
    const { min, max, count, sum, sumOfSquares, edges, counts } = value.histogram;
    const numbers = [double(1, min), double(2, max), double(3, count), double(4, sum), double(5, sumOfSquares)];
    return message(tag, nested(5, ...numbers, doubles(6, edges), doubles(7, counts)));
  }
  // Text has no field of its own: it is a tensor of one string that names the plugin which shows it.
  const STRING = 7;
  const tensor = nested(8, integer(1, STRING), nested(2, nested(2, integer(1, 1))), bytes(8, Buffer.from(value.text)));
  return message(tag, tensor, nested(9, nested(1, text(1, "text"))));
}

// Protocol buffers: a field is its number and wire type as one varint, then its value. Zeros are defaults and stay away, as in proto3.

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

function message(...fields: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(fields);
}

function varint(value: number): Uint8Array {
  const out: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    out.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  return Uint8Array.from([...out, rest]);
}

function key(field: number, wireType: number): Uint8Array {
  return varint(field * 8 + wireType);
}

function integer(field: number, value: number): Uint8Array {
  return value === 0 ? new Uint8Array() : Buffer.concat([key(field, VARINT), varint(value)]);
}

function double(field: number, value: number): Uint8Array {
  return Object.is(value, 0) ? new Uint8Array() : Buffer.concat([key(field, FIXED64), littleEndian(value)]);
}

/** Members of a choice (`simple_value`) are written even when they are 0. */
function float(field: number, value: number): Uint8Array {
  const four = Buffer.alloc(4);
  four.writeFloatLE(value);
  return Buffer.concat([key(field, FIXED32), four]);
}

function bytes(field: number, value: Uint8Array): Uint8Array {
  return Buffer.concat([key(field, LENGTH), varint(value.length), value]);
}

function text(field: number, value: string): Uint8Array {
  return bytes(field, Buffer.from(value));
}

function nested(field: number, ...fields: readonly Uint8Array[]): Uint8Array {
  return bytes(field, message(...fields));
}

function doubles(field: number, values: readonly number[]): Uint8Array {
  return values.length === 0 ? new Uint8Array() : bytes(field, Buffer.concat(values.map(littleEndian)));
}

function littleEndian(value: number): Uint8Array {
  const eight = Buffer.alloc(8);
  eight.writeDoubleLE(value);
  return eight;
}

// TFRecord

export function frame(payload: Uint8Array): Uint8Array {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(BigInt(payload.length));
  head.writeUInt32LE(maskedCrc(head.subarray(0, 8)), 8);
  const tail = Buffer.alloc(4);
  tail.writeUInt32LE(maskedCrc(payload));
  return Buffer.concat([head, payload, tail]);
}

const CASTAGNOLI = 0x82f63b78;
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ CASTAGNOLI : crc >>> 1;
  return crc;
});

function maskedCrc(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) crc = (TABLE[(crc ^ byte) & 0xff] as number) ^ (crc >>> 8);
  crc = (crc ^ 0xffffffff) >>> 0;
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
