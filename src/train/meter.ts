/** The numbers of an update: means over its mini-batches, and what its credit says. */
import type { LossReport } from "../engine/engine.ts";
import { metricInfo } from "../run/metrics.ts";
import { episodesOf, gather } from "./episodes.ts";
import type { TokenRow } from "./tokens.ts";

/** Means over the updates of a step, weighted by their sequences. */
export class Meter {
  readonly #sums = new Map<string, { sum: number; count: number }>();

  count(name: string, value: number): void {
    const entry = this.#sums.get(name) ?? { sum: 0, count: 1 };
    this.#sums.set(name, { sum: entry.sum + value, count: 1 });
  }

  mean(name: string, value: number, count = 1): void {
    const entry = this.#sums.get(name) ?? { sum: 0, count: 0 };
    this.#sums.set(name, { sum: entry.sum + value * count, count: entry.count + count });
  }

  add(prefix: string, report: LossReport, count: number): void {
    this.mean(`${prefix}/loss`, report.loss, count);
    for (const [name, value] of Object.entries(report.metrics)) {
      const known = metricInfo(`${prefix}/${name}`) !== undefined;
      // A registered loss may report what it likes.
      if (name !== "tokens") this.mean(known ? `${prefix}/${name}` : `custom/${name}`, value, count);
    }
  }

  values(): Record<string, number> {
    return Object.fromEntries([...this.#sums].map(([name, { sum, count }]) => [name, count === 0 ? 0 : sum / count]));
  }
}

/** Mean absolute advantage of a sampled token. */
export function meanAdvantage(rows: readonly TokenRow[], advantages: readonly Float32Array[]): number {
  const all = episodesOf(rows).map((episode) => gather(episode, advantages));
  const tokens = all.reduce((sum, numbers) => sum + numbers.length, 0);
  const size = all.reduce((sum, numbers) => sum + numbers.reduce((a, b) => a + Math.abs(b), 0), 0);
  return tokens === 0 ? 0 : size / tokens;
}

/** How much of the returns' variance the critic's values knew before the update; nothing where there is no critic or no variance. */
export function explainedVariance(
  rows: readonly TokenRow[],
  returns: readonly Float32Array[] | undefined,
): Record<string, number> {
  if (returns === undefined) return {};
  const wanted = new Spread();
  const missed = new Spread();
  rows.forEach(({ sampled, values }, r) => {
    sampled.forEach((flag, i) => {
      if (flag === 0 || values === undefined) return;
      const target = (returns[r] as Float32Array)[i] as number;
      wanted.add(target);
      missed.add(target - (values[i] as number));
    });
  });
  return wanted.variance > 0 ? { "critic/explained_variance": 1 - missed.variance / wanted.variance } : {};
}

/** Variance of a stream, without the cancellation of Σx². */
class Spread {
  #count = 0;
  #mean = 0;
  #squares = 0;

  add(value: number): void {
    this.#count += 1;
    const from = value - this.#mean;
    this.#mean += from / this.#count;
    this.#squares += from * (value - this.#mean);
  }

  get variance(): number {
    return this.#count === 0 ? 0 : this.#squares / this.#count;
  }
}
