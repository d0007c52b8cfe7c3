/** As much of protobuf as the Tinker API uses. Readers skip unknown fields; writers leave out zeros. */
import { DataError } from "../core/errors.ts";

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

/** Of a message and everything inside it. A batch of 1,000 datums has about 100,000; an empty field takes two bytes, and a hundred in memory. */
const MAX_FIELDS = 2 ** 19;

/**
 * A field's raw values in the order they came. Bytes are kept as their place in the message until they are asked for, and sizes are plain numbers: a
 * message at its limit is half a million values, and a server reads it on its main thread.
 */
export class Fields {
  readonly #bytes: Uint8Array;
  /** Numbers as they are; of bytes, start and end. */
  readonly #values = new Map<number, (bigint | readonly [start: number, end: number])[]>();
  readonly #room: { left: number };

  /** `inside`: the message that this one is part of. */
  constructor(bytes: Uint8Array, inside?: Fields) {
    this.#bytes = bytes;
    this.#room = inside === undefined ? { left: MAX_FIELDS } : inside.#room;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let at = 0;
    const need = (count: number) => {
      if (count > bytes.length - at) throw new DataError("Protobuf: the message ends too early.");
    };
    const varint = (): bigint => {
      let value = 0n;
      for (let shift = 0n; shift < 70n; shift += 7n) {
        need(1);
        const byte = bytes[at++] as number;
        value |= BigInt(byte & 127) << shift;
        if (byte < 128) return value;
      }
      throw new DataError("Protobuf: a number takes more than ten bytes.");
    };
    /** Of a tag or a length, most of which take one byte. */
    const size = (): number => {
      const byte = bytes[at];
      if (byte === undefined || byte >= 128) return Number(varint());
      at += 1;
      return byte;
    };
    while (at < bytes.length) {
      this.#spend();
      const tag = size();
      const [field, type] = [Math.floor(tag / 8), tag % 8];
      let value: bigint | readonly [number, number];
      if (type === VARINT) value = varint();
      else if (type === FIXED64) {
        need(8);
        value = view.getBigUint64(at, true);
        at += 8;
      } else if (type === FIXED32) {
        need(4);
        value = BigInt(view.getUint32(at, true));
        at += 4;
      } else if (type === BYTES) {
        const length = size();
        need(length);
        value = [at, at + length];
        at += length;
      } else throw new DataError(`Protobuf: unknown wire type ${type}.`);
      const list = this.#values.get(field);
      if (list === undefined) this.#values.set(field, [value]);
      else list.push(value);
    }
  }

  has(field: number): boolean {
    return this.#values.has(field);
  }

  integer(field: number): number {
    const value = this.#values.get(field)?.at(-1) ?? 0n;
    if (typeof value !== "bigint") throw new DataError(`Protobuf: field ${field} is not a number.`);
    return Number(BigInt.asIntN(64, value));
  }

  bytes(field: number): Uint8Array {
    const value = this.#values.get(field)?.at(-1) ?? ([0, 0] as const);
    if (typeof value === "bigint") throw new DataError(`Protobuf: field ${field} has no bytes.`);
    return this.#bytes.subarray(...value);
  }

  /** How many values a field has; nothing is made of them. */
  count(field: number): number {
    return this.#values.get(field)?.length ?? 0;
  }

  text(field: number): string {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(this.bytes(field));
    } catch (error) {
      if (error instanceof DataError) throw error;
      throw new DataError(`Protobuf: field ${field} is not UTF-8.`);
    }
  }

  double(field: number): number {
    const value = this.#values.get(field)?.at(-1) ?? 0n;
    if (typeof value !== "bigint") throw new DataError(`Protobuf: field ${field} is not a number.`);
    return new Float64Array(BigUint64Array.of(value).buffer)[0] as number;
  }

  messages(field: number): Fields[] {
    return [...this.each(field)];
  }

  /** Messages one by one, each read when it is asked for. */
  *each(field: number): Generator<Fields> {
    for (const value of this.#values.get(field) ?? []) {
      if (typeof value === "bigint") throw new DataError(`Protobuf: field ${field} is not a message.`);
      yield new Fields(this.#bytes.subarray(...value), this);
    }
  }

  /** The message of a field that has one. */
  message(field: number): Fields {
    return new Fields(this.bytes(field), this);
  }

  #spend(): void {
    this.#room.left -= 1;
    if (this.#room.left < 0)
      throw new DataError(`Protobuf: the message has more than ${MAX_FIELDS} fields; send less at a time.`);
  }

  /** Packed or one by one. */
  integers(field: number): number[] {
    return (this.#values.get(field) ?? []).flatMap((value) => {
      if (typeof value === "bigint") return [Number(BigInt.asIntN(64, value))];
      const found: number[] = [];
      const [start, end] = value;
      for (let at = start, number = 0n, shift = 0n; at < end; at++) {
        const byte = this.#bytes[at] as number;
        number |= BigInt(byte & 127) << shift;
        shift += 7n;
        if (byte >= 128) continue;
        this.#spend();
        found.push(Number(BigInt.asIntN(64, number)));
        [number, shift] = [0n, 0n];
      }
      return found;
    });
  }

  /** A map with text keys; a missing value is empty. */
  map(field: number): [string, Fields][] {
    return this.messages(field).map((entry) => [entry.text(1), entry]);
  }
}

export class Writer {
  readonly #parts: Uint8Array[] = [];

  integer(field: number, value: number): this {
    if (value !== 0) this.#tag(field, VARINT).#varint(BigInt.asUintN(64, BigInt(value)));
    return this;
  }

  double(field: number, value: number): this {
    this.#tag(field, FIXED64).#parts.push(new Uint8Array(Float64Array.of(value).buffer));
    return this;
  }

  /** Written even if empty. */
  bytes(field: number, value: Uint8Array): this {
    this.#tag(field, BYTES).#varint(BigInt(value.length)).#parts.push(value);
    return this;
  }

  text(field: number, value: string): this {
    return value === "" ? this : this.bytes(field, Buffer.from(value));
  }

  message(field: number, value: Writer): this {
    return this.bytes(field, value.finish());
  }

  integers(field: number, values: readonly number[]): this {
    if (values.length === 0) return this;
    const inner = new Writer();
    for (const value of values) inner.#varint(BigInt.asUintN(64, BigInt(value)));
    return this.message(field, inner);
  }

  finish(): Uint8Array {
    return Buffer.concat(this.#parts);
  }

  #tag(field: number, type: number): this {
    return this.#varint(BigInt(field * 8 + type));
  }

  #varint(value: bigint): this {
    const bytes: number[] = [];
    let rest = value;
    for (; rest >= 128n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
    bytes.push(Number(rest));
    this.#parts.push(Uint8Array.from(bytes));
    return this;
  }
}
