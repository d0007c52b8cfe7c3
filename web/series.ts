/** From logged metrics to the lines of charts: which charts a run shows, smoothing, and the mean of several runs. */
import type { Maybe, Series } from "../src/viewer/api.ts";
import { isNumber } from "./format.ts";

export type ChartPlan = {
  readonly title: string;
  /** Metrics drawn; those that were never logged are left out. A name that ends in `/*` stands for its family. */
  readonly metrics: readonly string[];
  /** Shaded between these two. */
  readonly interval?: readonly [string, string];
  /** Shows floor, random and ceiling beside the curve, on an axis from 0 to 1. */
  readonly success?: boolean;
  /** On an axis from 0 to 1. */
  readonly share?: boolean;
  readonly zero?: boolean;
  /** A family of one member is left out: it says what the whole says. */
  readonly several?: boolean;
  /** Values of one small batch each: smoothed unless the link says otherwise. */
  readonly noisy?: boolean;
};

export type Section = { readonly title: string; readonly charts: readonly ChartPlan[] };

export const CHARTS_A_SECTION = 4;

/** The first `CHARTS_A_SECTION` of each section that have data are drawn: at most 20 charts. */
export const SECTIONS: readonly Section[] = [
  {
    title: "Learning",
    charts: [
      { title: "Training success", metrics: ["train/success", "train/solved_groups"], success: true },
      { title: "Reward and its parts", metrics: ["train/reward", "reward/*"], several: true },
      { title: "Replies not understood", metrics: ["train/parse_failures", "train/invalid_actions"] },
      { title: "Demonstrations, nats per token", metrics: ["sft/nll"] },
      { title: "Demonstrations, nats a reply", metrics: ["sft/nll_reply"] },
      { title: "Spread of reward in a group", metrics: ["train/reward_std"] },
      { title: "Turns an episode", metrics: ["train/turns"] },
      { title: "Tokens a reply", metrics: ["train/reply_tokens"] },
    ],
  },
  {
    title: "Evaluation",
    charts: [
      {
        title: "Success on fixed seeds",
        metrics: ["eval/success", "eval/success_greedy"],
        interval: ["eval/success_low", "eval/success_high"],
        success: true,
      },
      { title: "By environment", metrics: ["eval/success/*"], success: true, several: true },
      {
        title: "Sight: own frames over others'",
        metrics: ["sight/gap"],
        interval: ["sight/gap_low", "sight/gap_high"],
        zero: true,
      },
      { title: "Seeing against grey", metrics: ["sight/success", "sight/success_grey"], success: true },
      { title: "Turns an episode", metrics: ["eval/turns"] },
      { title: "Replies not understood", metrics: ["eval/parse_failures"] },
    ],
  },
  {
    title: "Decisions",
    charts: [
      { title: "Nats a decision, and of a blind choice", metrics: ["decisions/nll", "decisions/chance"] },
      {
        title: "Probability of the taught move, by distance",
        metrics: ["decisions/probability_by_distance/*"],
        share: true,
        noisy: true,
      },
      { title: "As good as the oracle, by distance", metrics: ["decisions/accuracy_by_distance/*"], share: true },
      { title: "As good as the oracle, by ways to go", metrics: ["decisions/accuracy_by_ways/*"], share: true },
      { title: "As good as the oracle, by turn", metrics: ["decisions/accuracy_by_turn/*"], share: true },
      {
        title: "Probability of the taught move, by ways to go",
        metrics: ["decisions/probability_by_ways/*"],
        share: true,
        noisy: true,
      },
      {
        title: "Probability of the taught move, by turn",
        metrics: ["decisions/probability_by_turn/*"],
        share: true,
        noisy: true,
      },
    ],
  },
  {
    title: "Stability",
    charts: [
      { title: "Entropy", metrics: ["policy/entropy"] },
      { title: "Learner against sampler", metrics: ["drift/mean"] },
      { title: "KL", metrics: ["policy/kl_old", "policy/kl_reference"] },
      { title: "Gradient norm", metrics: ["optimizer/grad_norm", "critic/grad_norm"] },
      { title: "Groups without signal", metrics: ["groups/zero_variance"] },
      { title: "Clipped tokens", metrics: ["policy/clip_low", "policy/clip_high"] },
    ],
  },
  {
    title: "Performance",
    charts: [
      { title: "Seconds a step", metrics: ["time/step", "time/sample", "time/learn"] },
      { title: "Sampled tokens a second", metrics: ["speed/sampled_tokens"] },
      { title: "Trained tokens a second", metrics: ["speed/trained_tokens"] },
      { title: "Memory", metrics: ["memory/resident"] },
      { title: "Episodes a second", metrics: ["speed/episodes"] },
    ],
  },
];

/** The series a plan draws, in its order; as many as there are colours. */
export function seriesFor(plan: ChartPlan, all: ReadonlyMap<string, Series>): Series[] {
  const found = plan.metrics.flatMap((name) => {
    if (!name.endsWith("/*")) return all.get(name) ?? [];
    const prefix = name.slice(0, -1);
    const family = [...all.values()].filter((series) => series.name.startsWith(prefix));
    if (plan.several && family.length < 2) return [];
    // Members that are numbers (a distance, a turn) come in their order, others as they were logged.
    return family.toSorted((a, b) => leading(a.name.slice(prefix.length)) - leading(b.name.slice(prefix.length)));
  });
  return found.slice(0, 6);
}

const leading = (member: string) => Number(/^\d+/.exec(member)?.[0] ?? 0);

/** `train/success/maze_2d/easy` → `maze_2d/easy`, `policy/kl_old` → `kl old`. */
export function shortName(name: string): string {
  const family =
    /^(?:train|eval)\/(?:success|reward|success_greedy|parse_failures)\/(.+)$/.exec(name) ??
    /^decisions\/\w+_by_\w+\/(.+)$/.exec(name);
  return family?.[1] ?? name.slice(name.indexOf("/") + 1).replaceAll("_", " ");
}

/** Exponential moving average that starts unbiased; `weight` 0 leaves the values as they are. */
export function smooth(values: readonly Maybe[], weight: number): Maybe[] {
  let [mean, mass] = [0, 0];
  return values.map((value) => {
    if (!isNumber(value)) return null;
    mean = mean * weight + value * (1 - weight);
    mass = mass * weight + (1 - weight);
    return mean / mass;
  });
}

/** Smooths over about a twentieth of a curve; short ones stay as they are. */
export function autoWeight(points: number): number {
  return points < 60 ? 0 : Math.min(0.99, 1 - 20 / points);
}

type Points = { readonly x: readonly number[]; readonly y: readonly Maybe[] };

/** Student's t for a 95 % interval, by degrees of freedom from 1; beyond the table about 2. */
const T95 = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/**
 * The mean of several curves and its 95 % interval, at every place that all of them have reached: between its points a curve is read off in
 * proportion, so that runs which were measured at other steps can be averaged.
 */
export function meanOf(curves: readonly Points[], range: readonly [number, number] = [-Infinity, Infinity]) {
  const known = curves.map(({ x, y }) => x.flatMap((at, i) => (isNumber(y[i]) ? [[at, y[i] as number] as const] : [])));
  const full = known.filter((points) => points.length > 0);
  const from = Math.max(...full.map((points) => points[0]?.[0] ?? 0));
  const to = Math.min(...full.map((points) => points.at(-1)?.[0] ?? 0));
  const x = [...new Set(full.flatMap((points) => points.map(([at]) => at)))]
    .filter((at) => at >= from && at <= to)
    .sort((a, b) => a - b);
  const [mean, low, high]: [number[], number[], number[]] = [[], [], []];
  const places = full.map(() => 0);
  for (const at of x) {
    const values = full.map((points, i) => {
      while ((points[(places[i] as number) + 1]?.[0] ?? Infinity) <= at) places[i] = (places[i] as number) + 1;
      return between(points[places[i] as number], points[(places[i] as number) + 1], at);
    });
    const count = values.length;
    const middle = values.reduce((sum, value) => sum + value, 0) / count;
    const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / Math.max(1, count - 1));
    const half = count < 2 ? 0 : ((T95[count - 2] ?? 2) * spread) / Math.sqrt(count);
    mean.push(middle);
    low.push(Math.max(range[0], middle - half));
    high.push(Math.min(range[1], middle + half));
  }
  return { x, mean, low, high };
}

function between(
  a: readonly [number, number] | undefined,
  b: readonly [number, number] | undefined,
  at: number,
): number {
  if (a === undefined) return b?.[1] ?? Number.NaN;
  if (b === undefined || at <= a[0]) return a[1];
  return a[1] + ((b[1] - a[1]) * (at - a[0])) / (b[0] - a[0]);
}
