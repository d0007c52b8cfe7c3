/**
 * What tries at seeds add up to: rates with 95 % intervals, pass@k, means over environments, and the metrics of an evaluation. Runs and
 * `saccade eval` both count here, so the same episodes have the same figures under the same names. Episodes of one seed are alike, so
 * with several tries at each an interval counts seeds and not episodes. An episode that failed for our reasons was not solved: it counts
 * against success and pass@k, and is in no other mean.
 */
import { rangeOf } from "../core/numbers.ts";
import { bucketOf } from "../envs/decisions.ts";

/** A share with its 95 % Wilson interval. */
export type Rate = {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly count: number;
  readonly total: number;
};

export function wilson(count: number, total: number, z = 1.959964): Rate {
  if (total === 0) return { value: Number.NaN, low: 0, high: 1, count, total };
  const value = count / total;
  const centre = value + (z * z) / (2 * total);
  const half = z * Math.sqrt((value * (1 - value)) / total + (z * z) / (4 * total * total));
  const scale = 1 + (z * z) / total;
  // At the ends the interval reaches them exactly, whatever rounding says.
  return {
    value,
    low: count === 0 ? 0 : Math.max(0, (centre - half) / scale),
    high: count === total ? 1 : Math.min(1, (centre + half) / scale),
    count,
    total,
  };
}

/** An episode that was asked for. `failed`: for our reasons. */
export type Try = { readonly seed: number; readonly success: boolean; readonly failed?: boolean };

/** Of the episodes that were asked for (`total`), those that succeeded (`count`); `failed` of them for our reasons, the others were played. */
export type SuccessRate = Rate & { readonly failed: number };

/** Of all tries; its interval is that of as many episodes as there are seeds. */
export function successRate(tries: readonly Try[]): SuccessRate {
  const count = tries.filter(({ success }) => success).length;
  const seeds = new Set(tries.map(({ seed }) => seed)).size;
  const { low, high } = wilson((count / Math.max(1, tries.length)) * seeds, seeds);
  return { ...wilson(count, tries.length), low, high, failed: tries.filter(({ failed }) => failed === true).length };
}

/** Of the episodes that came to a turn, the share solved in it: where every turn is a try, how often the second succeeds beside the first. Turns count from 1 and are shown together as decisions are. */
export function successByTurn(
  tries: readonly { readonly success: boolean; readonly turns: number }[],
): Record<string, number> {
  const most = Math.max(0, rangeOf(tries.map(({ turns }) => turns)).max);
  const shares: Record<string, number> = {};
  for (let first = 1, last = 1; first <= most; first = last + 1, last = first === 2 ? 2 : 2 * (first - 1)) {
    const came = tries.filter(({ turns }) => turns >= first);
    shares[bucketOf(last)] = came.filter(({ success, turns }) => success && turns <= last).length / came.length;
  }
  return shares;
}

export type PassAtK = { readonly k: number; readonly value: number; readonly seeds: number };

/** For k = 1, 2, 4, … and the most tries of any seed: seeds solved by at least one of k tries, over seeds with at least k. */
export function passTable(tries: readonly Try[]): PassAtK[] {
  const bySeed = new Map<number, Try[]>();
  for (const one of tries) {
    const list = bySeed.get(one.seed);
    if (list === undefined) bySeed.set(one.seed, [one]);
    else list.push(one);
  }
  const most = Math.max(0, rangeOf([...bySeed.values()].map((list) => list.length)).max);
  const ks = Array.from({ length: 10 }, (_, i) => 2 ** i).filter((k) => k < most);
  return [...ks, ...(most > 0 ? [most] : [])].map((k) => {
    const enough = [...bySeed.values()].filter((list) => list.length >= k);
    const sum = enough.reduce(
      (total, list) => total + passAtK(list.length, list.filter(({ success }) => success).length, k),
      0,
    );
    return { k, value: sum / enough.length, seeds: enough.length };
  });
}

/** The chance that at least one of k tries, drawn without repetition from n of which c succeeded, is a success. */
export function passAtK(n: number, c: number, k: number): number {
  let allFail = 1;
  for (let i = 0; i < k; i++) allFail *= Math.max(0, n - c - i) / (n - i);
  return 1 - allFail;
}

/** The mean of rates, all weighing the same, its interval put together from theirs (Zou and Donner's recovery of variances). */
export function meanRate(rates: readonly Rate[]): Pick<Rate, "value" | "low" | "high"> {
  const n = rates.length;
  const value = rates.reduce((sum, rate) => sum + rate.value, 0) / n;
  const spread = (end: "low" | "high") => Math.hypot(...rates.map((rate) => rate.value - rate[end])) / n;
  return { value, low: Math.max(0, value - spread("low")), high: Math.min(1, value + spread("high")) };
}

/** What success is measured against; absent where an environment has no such agent. */
export type Against = {
  readonly stop: SuccessRate;
  readonly random?: SuccessRate;
  readonly oracle?: SuccessRate;
};

/** One environment of an evaluation. */
export type EnvScores = {
  /** Its name in metrics: the environment's, and another where two entries share one. */
  readonly label: string;
  readonly success: SuccessRate;
  readonly passAtK: readonly PassAtK[];
  readonly against: Against;
  /** Means over played episodes, and the share of their replies from which no action could be read. */
  readonly reward: number;
  readonly turns: number;
  readonly byTurn: Readonly<Record<string, number>>;
  readonly unparsed: number;
  /** How played episodes ended. */
  readonly ended: Readonly<Partial<Record<string, number>>>;
};

/** Means over environments weigh each the same. What was not measured has no metric: a mean needs its number from every environment. */
export function evaluationMetrics(envs: readonly EnvScores[]): Record<string, number> {
  const scored = envs.filter(({ success }) => success.total > 0);
  const played = scored.filter(({ success }) => success.total > success.failed);
  const asked = scored.reduce((sum, { success }) => sum + success.total, 0);
  const failed = scored.reduce((sum, { success }) => sum + success.failed, 0);
  const metrics: Record<string, number> = {
    "eval/asked": asked,
    "eval/seeds": scored.reduce((sum, { against }) => sum + against.stop.total, 0),
    "eval/episodes": asked - failed,
    "eval/failed": failed,
  };
  if (scored.length === 0) return metrics;
  const put = (name: string, values: readonly (number | undefined)[]) => {
    const known = values.filter((value): value is number => value !== undefined && Number.isFinite(value));
    if (known.length === values.length && known.length > 0)
      metrics[name] = known.reduce((a, b) => a + b, 0) / known.length;
  };
  const mean = meanRate(scored.map(({ success }) => success));
  put("eval/success", [mean.value]);
  put("eval/success_low", [mean.low]);
  put("eval/success_high", [mean.high]);
  for (const [name, agent] of YARDSTICKS) {
    const rates = scored.map(({ against }) => against[agent]);
    put(
      `eval/${name}`,
      rates.map((rate) => rate?.value),
    );
    for (const { label, against } of scored) put(`eval/${name}/${label}`, [against[agent]?.value]);
    const lost = rates.reduce((sum, rate) => sum + (rate?.failed ?? 0), 0);
    if (lost > 0) metrics[`eval/${name}_failed`] = lost;
    for (const { label, against } of scored) {
      const { failed, total } = against[agent] ?? { failed: 0, total: 0 };
      if (failed > 0)
        Object.assign(metrics, { [`eval/seeds/${label}`]: total, [`eval/${name}_failed/${label}`]: failed });
    }
  }
  put(
    "eval/reward",
    played.map(({ reward }) => reward),
  );
  put(
    "eval/turns",
    played.map(({ turns }) => turns),
  );
  put(
    "eval/parse_failures",
    played.map(({ unparsed }) => unparsed),
  );
  for (const { label, success, reward } of scored) {
    put(`eval/success/${label}`, [success.value]);
    put(`eval/reward/${label}`, [reward]);
    if (success.failed > 0) metrics[`eval/failed/${label}`] = success.failed;
  }
  // pass@1 is the success rate again.
  for (const k of new Set(scored.flatMap(({ passAtK }) => passAtK.map((pass) => pass.k)).filter((k) => k > 1))) {
    put(
      `eval/pass_at/${k}`,
      scored.map(({ passAtK }) => passAtK.find((pass) => pass.k === k)?.value),
    );
  }
  for (const turn of new Set(played.flatMap(({ byTurn }) => Object.keys(byTurn)))) {
    put(
      `eval/success_by_turn/${turn}`,
      played.map(({ byTurn }) => byTurn[turn]),
    );
  }
  for (const end of new Set(played.flatMap(({ ended }) => Object.keys(ended)))) {
    metrics[`eval/end/${end}`] = played.reduce((sum, { ended }) => sum + (ended[end] ?? 0), 0) / (asked - failed);
  }
  return metrics;
}

const YARDSTICKS = [
  ["floor", "stop"],
  ["random", "random"],
  ["ceiling", "oracle"],
] as const;

/** Names for entries of an evaluation: two that share one get `~2`, `~3`, … as groups of one seed do. */
export function distinctLabels(names: readonly string[]): string[] {
  const times = new Map<string, number>();
  return names.map((name) => {
    const count = (times.get(name) ?? 0) + 1;
    times.set(name, count);
    return count === 1 ? name : `${name}~${count}`;
  });
}
