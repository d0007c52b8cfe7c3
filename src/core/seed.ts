/** What a seed may be, everywhere in Saccade: a whole number that JSON and JavaScript hold exactly. */
import { ConfigError } from "./errors.ts";
import { sha256 } from "./platform.ts";

/** Returns the seed, or throws when it is not a whole number in `0..2^53-1`. `what` begins the message. */
export function checkSeed(seed: unknown, what = "A seed"): number {
  if (typeof seed === "number" && Number.isSafeInteger(seed) && seed >= 0) return seed;
  const given = typeof seed === "string" ? `"${seed}"` : String(seed);
  throw new ConfigError(
    `${what} must be a whole number from 0 to ${Number.MAX_SAFE_INTEGER}, got ${given}. ` +
      "Give a plain non-negative integer such as 42.",
  );
}

/** The 32-bit words of a seed, lowest first; 0 is one word. */
export function seedWords(seed: number): number[] {
  const high = Math.floor(seed / 0x1_0000_0000);
  return high === 0 ? [seed] : [seed % 0x1_0000_0000, high];
}

/** A seed in `0..2^31-1` (what every simulator accepts), well mixed from its parts: close parts give unrelated seeds. */
export function mixSeed(...parts: readonly (number | string)[]): number {
  const [a = 0, b = 0, c = 0, d = 0] = sha256(JSON.stringify(parts));
  return ((a << 24) | (b << 16) | (c << 8) | d) >>> 1;
}
