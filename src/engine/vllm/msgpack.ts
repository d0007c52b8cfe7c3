/**
 * MessagePack, as much of it as servers put into image features. Shortest forms on the way out, as Python's encoder writes them, so what is decoded
 * encodes to the same bytes. Lengths are checked against what is left before anything is allocated: these bytes come from elsewhere.
 */
import { DataError } from "../../core/errors.ts";

/** Bytes with an application's own type number. */
export class Extension {
  readonly type: number;
  readonly data: Uint8Array;
  constructor(type: number, data: Uint8Array) {
    this.type = type;
    this.data = data;
  }
}

/** A float on the wire stays one, though its value be whole. */
export class Float {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

export type Packed =
  | null
  | boolean
  | number
  | bigint
  | string
  | Float
  | Uint8Array
  | Extension
  | readonly Packed[]
  | ReadonlyMap<string, Packed>;

/** Deeper than any honest item. */
const MAX_DEPTH = 32;
/** More than any honest item; a body of empty lists would take fifty times its length. */
const MAX_VALUES = 65_536;

export function unpack(bytes: Uint8Array): Packed {
  const reader = new Reader(bytes);
  const value = reader.value(0);
  if (!reader.done) throw new DataError("MessagePack: there are bytes after the end.");
  return value;
}

class Reader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;
  #values = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get done(): boolean {
    return this.#at === this.#bytes.length;
  }

  value(depth: number): Packed {
    if (depth > MAX_DEPTH) throw new DataError(`MessagePack: nested deeper than ${MAX_DEPTH}.`);
    this.#values += 1;
    if (this.#values > MAX_VALUES) throw new DataError(`MessagePack: it has more than ${MAX_VALUES} values.`);
    const head = this.#uint(1);
    if (head < 0x80) return head;
    if (head < 0x90) return this.#map(head & 15, depth);
    if (head < 0xa0) return this.#array(head & 15, depth);
    if (head < 0xc0) return this.#text(head & 31);
    if (head >= 0xe0) return head - 256;
    switch (head) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return this.#take(this.#uint(1 << (head - 0xc4)));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return this.#extension(this.#uint(1 << (head - 0xc7)));
      case 0xca:
        return new Float(this.#view.getFloat32(this.#skip(4)));
      case 0xcb:
        return new Float(this.#view.getFloat64(this.#skip(8)));
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#uint(1 << (head - 0xcc));
      case 0xcf:
        return whole(this.#view.getBigUint64(this.#skip(8)));
      case 0xd0:
        return this.#view.getInt8(this.#skip(1));
      case 0xd1:
        return this.#view.getInt16(this.#skip(2));
      case 0xd2:
        return this.#view.getInt32(this.#skip(4));
      case 0xd3:
        return whole(this.#view.getBigInt64(this.#skip(8)));
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return this.#extension(1 << (head - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#text(this.#uint(1 << (head - 0xd9)));
      case 0xdc:
      case 0xdd:
        return this.#array(this.#uint(2 << (head - 0xdc)), depth);
      case 0xde:
      case 0xdf:
        return this.#map(this.#uint(2 << (head - 0xde)), depth);
      default:
        throw new DataError(`MessagePack: the byte 0x${head.toString(16)} begins nothing.`);
    }
  }

  #skip(count: number): number {
    const at = this.#at;
    if (count > this.#bytes.length - at) throw new DataError("MessagePack: it ends too early.");
    this.#at += count;
    return at;
  }

  #take(count: number): Uint8Array {
    const at = this.#skip(count);
    return this.#bytes.subarray(at, at + count);
  }

  #uint(width: number): number {
    const at = this.#skip(width);
    if (width === 1) return this.#view.getUint8(at);
    return width === 2 ? this.#view.getUint16(at) : this.#view.getUint32(at);
  }

  #text(length: number): string {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.#take(length));
    } catch (error) {
      if (error instanceof DataError) throw error;
      throw new DataError("MessagePack: a text is not UTF-8.");
    }
  }

  #extension(length: number): Extension {
    const type = this.#view.getInt8(this.#skip(1));
    return new Extension(type, this.#take(length));
  }

  /** Every element takes a byte at least. */
  #checkCount(count: number): void {
    if (count > this.#bytes.length - this.#at) throw new DataError("MessagePack: it ends too early.");
  }

  #array(count: number, depth: number): Packed[] {
    this.#checkCount(count);
    const list: Packed[] = [];
    for (let i = 0; i < count; i++) list.push(this.value(depth + 1));
    return list;
  }

  #map(count: number, depth: number): Map<string, Packed> {
    this.#checkCount(count);
    const map = new Map<string, Packed>();
    for (let i = 0; i < count; i++) {
      const key = this.value(depth + 1);
      if (typeof key !== "string") throw new DataError("MessagePack: a map's key is no text.");
      map.set(key, this.value(depth + 1));
    }
    return map;
  }
}

/** A number where it is exact. */
function whole(value: bigint): number | bigint {
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

export function pack(value: Packed): Uint8Array {
  const parts: Uint8Array[] = [];
  write(value, parts);
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

function write(value: Packed, out: Uint8Array[]): void {
  if (value === null) out.push(Uint8Array.of(0xc0));
  else if (typeof value === "boolean") out.push(Uint8Array.of(value ? 0xc3 : 0xc2));
  else if (typeof value === "number" || typeof value === "bigint") out.push(integer(BigInt(value)));
  else if (value instanceof Float) {
    const bytes = new DataView(new ArrayBuffer(9));
    bytes.setUint8(0, 0xcb);
    bytes.setFloat64(1, value.value);
    out.push(new Uint8Array(bytes.buffer));
  } else if (typeof value === "string") {
    const text = Buffer.from(value);
    out.push(text.length < 32 ? Uint8Array.of(0xa0 | text.length) : head(text.length, [0xd9, 0xda, 0xdb], 1), text);
  } else if (value instanceof Uint8Array) out.push(head(value.length, [0xc4, 0xc5, 0xc6], 1), value);
  else if (value instanceof Extension) {
    const { length } = value.data;
    const fixed = [1, 2, 4, 8, 16].indexOf(length);
    out.push(fixed >= 0 ? Uint8Array.of(0xd4 + fixed) : head(length, [0xc7, 0xc8, 0xc9], 1));
    out.push(Uint8Array.of(value.type & 255), value.data);
  } else if (isMap(value)) {
    out.push(value.size < 16 ? Uint8Array.of(0x80 | value.size) : head(value.size, [0xde, 0xdf], 2));
    for (const [key, inner] of value) {
      write(key, out);
      write(inner, out);
    }
  } else {
    out.push(value.length < 16 ? Uint8Array.of(0x90 | value.length) : head(value.length, [0xdc, 0xdd], 2));
    for (const inner of value) write(inner, out);
  }
}

function isMap(value: readonly Packed[] | ReadonlyMap<string, Packed>): value is ReadonlyMap<string, Packed> {
  return value instanceof Map;
}

/** A length in the narrowest field; `codes` are for fields of `width` bytes and its doubles. */
function head(length: number, codes: readonly number[], width: number): Uint8Array {
  const at = codes.findIndex((_, i) => length < 2 ** (8 * width * 2 ** i));
  const bytes = Buffer.alloc(1 + width * 2 ** at);
  bytes[0] = codes[at] as number;
  bytes.writeUIntBE(length, 1, bytes.length - 1);
  return bytes;
}

function integer(value: bigint): Uint8Array {
  if (value >= -32n && value < 128n) return Uint8Array.of(Number(value) & 255);
  const signed = value < 0n;
  const width = [1, 2, 4, 8].find((bytes) =>
    signed ? value >= -(1n << BigInt(8 * bytes - 1)) : value < 1n << BigInt(8 * bytes),
  );
  if (width === undefined) throw new DataError(`MessagePack: ${value} takes more than 64 bits.`);
  const bytes = Buffer.alloc(9);
  bytes[0] = (signed ? 0xd0 : 0xcc) + Math.log2(width);
  bytes.writeBigUInt64BE(BigInt.asUintN(64, value), 1);
  return Buffer.concat([bytes.subarray(0, 1), bytes.subarray(9 - width)]);
}
