/** Reads a saved episode field by field; what does not fit is refused by the field's name, with what it should be. */
import { EnvError, isJsonObject, type Json } from "../../src/core/index.ts";

type Range = { readonly min?: number; readonly max?: number; readonly fallback?: number };

export class Saved {
  readonly #fields: Readonly<Record<string, Json | undefined>>;

  constructor(state: Json, world: string, example: string) {
    if (!isJsonObject(state)) throw new EnvError(`A saved ${world} must be an object with ${example}, …`);
    this.#fields = state;
  }

  has(field: string): boolean {
    return this.#fields[field] !== undefined && this.#fields[field] !== null;
  }

  get(field: string): Json | undefined {
    return this.#fields[field];
  }

  string(field: string, fallback?: string): string {
    const value = this.#fields[field] ?? fallback;
    if (typeof value !== "string" || value === "") throw new EnvError(`${field} must be a string.`);
    return value;
  }

  boolean(field: string): boolean {
    const value = this.#fields[field] ?? false;
    if (typeof value !== "boolean") throw new EnvError(`${field} must be true or false.`);
    return value;
  }

  number(field: string, { min = -Infinity, max = Infinity, fallback }: Range = {}): number {
    const value = this.#fields[field] ?? fallback;
    if (typeof value !== "number" || !Number.isFinite(value) || value < min || value > max) {
      throw new EnvError(`${field} must be ${described("a number", min, max)}.`);
    }
    return value;
  }

  integer(field: string, { min = -Infinity, max = Infinity, fallback }: Range = {}): number {
    const value = this.#fields[field] ?? fallback;
    if (!Number.isSafeInteger(value) || Number(value) < min || Number(value) > max) {
      throw new EnvError(`${field} must be ${described("a whole number", min, max)}.`);
    }
    return value as number;
  }

  numbers(field: string, count?: number): number[] {
    const value = this.#fields[field];
    const fits = Array.isArray(value) && value.every((one) => typeof one === "number" && Number.isFinite(one));
    if (!fits || (count !== undefined && value.length !== count)) {
      throw new EnvError(`${field} must be a list of${count === undefined ? "" : ` ${count}`} numbers.`);
    }
    return value as number[];
  }

  /** Every number `start..start+size-1` once. */
  order(field: string, start: number, size: number): number[] {
    const value = this.#fields[field];
    const fits =
      Array.isArray(value) &&
      value.length === size &&
      Array.from({ length: size }, (_, i) => start + i).every((wanted) => value.includes(wanted));
    if (!fits) throw new EnvError(`${field} must hold the numbers ${start} to ${start + size - 1}, each once.`);
    return value as number[];
  }
}

function described(what: string, min: number, max: number): string {
  if (min === -Infinity && max === Infinity) return what;
  if (max === Infinity) return `${what} of at least ${min}`;
  return min === -Infinity ? `${what} of at most ${max}` : `${what} from ${min} to ${max}`;
}
