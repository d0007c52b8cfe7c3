/**
 * Seed plans: how many episodes get which seeds, in VAGEN's forms. Ranges include both ends.
 *   [x]           `count` draws from 0..2^31-1; x only chooses the stream of draws
 *   [lo, hi]      `count` draws from lo..hi, repeats allowed
 *   [lo, hi, k]   `count` draws from lo..hi, each seed at most k times
 *   seed_list     the first `count` of the list; it wins over `seed`
 * The same plan, count and rngSeed give the same seeds everywhere. (VAGEN hashes the split's name into its stream, so that
 * training and evaluation read one plan differently; here they read it alike, and `checkDisjoint` finds the overlap.)
 */
import { ConfigError } from "../core/errors.ts";
import { PythonRandom } from "../core/random-python.ts";
import { checkSeed, mixSeed } from "../core/seed.ts";

export type SeedPlan = {
  /** Default [0]. */
  readonly seed?: readonly number[] | null;
  readonly seed_list?: readonly number[] | null;
};

export function expandSeeds(plan: SeedPlan, count: number, rngSeed = 0): number[] {
  if (!Number.isSafeInteger(count) || count < 0) {
    throw new ConfigError(`The number of seeds must be a whole number of at least 0, got ${count}.`);
  }
  const unknown = Object.keys(plan).filter((key) => key !== "seed" && key !== "seed_list");
  if (unknown.length > 0)
    throw new ConfigError(`A seed plan has "seed" or "seed_list", not "${unknown.join('", "')}".`);
  if (plan.seed_list != null) return fromList(plan.seed_list, count);

  const directive = plan.seed ?? [0];
  if (!Array.isArray(directive) || directive.length < 1 || directive.length > 3) {
    throw new ConfigError(`"seed" is [x], [lo, hi] or [lo, hi, k], got ${JSON.stringify(directive)}.`);
  }
  for (const part of directive) checkSeed(part, `Each number of "seed"`);
  const random = new PythonRandom(mixSeed("seeds", checkSeed(rngSeed, "rngSeed"), ...directive));
  const [lo, hi, most] = directive.length === 1 ? [0, 2 ** 31 - 1] : (directive as [number, number, number?]);
  if (lo > hi) throw new ConfigError(`"seed" [${directive.join(", ")}] is empty: write the lower end first.`);
  if (most === undefined) return Array.from({ length: count }, () => random.randint(lo, hi));

  const places = (hi - lo + 1) * most;
  if (places < count) {
    throw new ConfigError(
      `"seed" [${directive.join(", ")}] holds ${hi - lo + 1} seeds, each at most ${most} times, but ${count} are wanted: ` +
        "widen the range, raise the last number or ask for fewer.",
    );
  }
  if (!Number.isSafeInteger(places)) throw new ConfigError(`"seed" [${directive.join(", ")}] is too wide a range.`);
  // Every seed has `most` places; with one place each this is Python's sample(range(lo, hi + 1), count).
  return random.sample(places, count).map((place) => lo + Math.floor(place / most));
}

function fromList(list: readonly number[], count: number): number[] {
  if (!Array.isArray(list)) throw new ConfigError(`"seed_list" must be a list of seeds, got ${JSON.stringify(list)}.`);
  if (list.length < count) {
    throw new ConfigError(`"seed_list" has ${list.length} seeds but ${count} are wanted: add seeds or ask for fewer.`);
  }
  return list.slice(0, count).map((seed) => checkSeed(seed, `Each number of "seed_list"`));
}
