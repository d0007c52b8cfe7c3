/**
 * Options of registered algorithms arrive as plain bags (a recipe, `--set key=value`). They are read here once, against the defaults,
 * so that a misspelt key or a wrong type is refused with the list of what there is and never silently ignored.
 */
import { ConfigError } from "../core/errors.ts";

export type OptionValue = number | string | boolean;
export type OptionBag = Readonly<Record<string, OptionValue | undefined>>;

type Widened<T> = { readonly [K in keyof T]: T[K] extends number ? number : T[K] extends boolean ? boolean : string };

/** `defaults` with what was given on top. `what` begins the messages: `Filter "over-long"`. */
export function readOptions<T extends Readonly<Record<string, OptionValue>>>(
  what: string,
  given: OptionBag,
  defaults: T,
): Widened<T> {
  const result: Record<string, OptionValue> = { ...defaults };
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined) continue;
    const fallback = Object.hasOwn(defaults, key) ? defaults[key] : undefined;
    if (fallback === undefined) {
      const known = Object.keys(defaults);
      throw new ConfigError(
        `${what} has no option "${key}"; ${known.length === 0 ? "it takes none" : `it takes ${known.join(", ")}`}.`,
      );
    }
    if (typeof value !== typeof fallback || (typeof value === "number" && Number.isNaN(value))) {
      throw new ConfigError(`${what}: ${key} must be a ${typeof fallback} such as ${fallback}, got ${value}.`);
    }
    result[key] = value;
  }
  return result as Widened<T>;
}

/** Throws unless `low ≤ value ≤ high`. */
export function checkRange(what: string, name: string, value: number, low: number, high: number): void {
  if (!(value >= low && value <= high)) {
    throw new ConfigError(`${what}: ${name} must be from ${low} to ${high}, got ${value}.`);
  }
}

/** Throws unless `value` is one of `choices`. */
export function checkChoice<T extends string>(what: string, name: string, value: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === value);
  if (found === undefined) throw new ConfigError(`${what}: ${name} must be ${choices.join(" or ")}, got "${value}".`);
  return found;
}
