/** From logged metrics to the lines of charts: which charts a run shows, and smoothing. */
import type { Maybe, Series } from "../src/viewer/api.ts";
import type { Line } from "./chart.tsx";
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
};

export type Section = { readonly title: string; readonly charts: readonly ChartPlan[] };

export const CHARTS_A_SECTION = 4;

/** The first `CHARTS_A_SECTION` of each section that have data are drawn: at most 20 charts. */
export const SECTIONS: readonly Section[] = [
  {
    title: "Learning",
    charts: [
      { title: "Training success", metrics: ["train/success", "train/solved_groups"], success: true },
      { title: "Reward and its parts", metrics: ["train/reward", "reward/*"] },
      { title: "Replies not understood", metrics: ["train/parse_failures", "train/invalid_actions"] },
      { title: "Demonstrations, nats a token", metrics: ["sft/nll"] },
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
      { title: "By environment", metrics: ["eval/success/*"], success: true },
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
      },
      { title: "As good as the oracle, by distance", metrics: ["decisions/accuracy_by_distance/*"], share: true },
      { title: "As good as the oracle, by ways to go", metrics: ["decisions/accuracy_by_ways/*"], share: true },
      { title: "As good as the oracle, by turn", metrics: ["decisions/accuracy_by_turn/*"], share: true },
      {
        title: "Probability of the taught move, by ways to go",
        metrics: ["decisions/probability_by_ways/*"],
        share: true,
      },
      { title: "Probability of the taught move, by turn", metrics: ["decisions/probability_by_turn/*"], share: true },
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
    // Members that are numbers (a distance, a turn) come in their order, others as they were logged.
    return family.toSorted((a, b) => leading(a.name.slice(prefix.length)) - leading(b.name.slice(prefix.length)));
  });
  return found.slice(0, 6);
}

const leading = (member: string) => Number(/^\d+/.exec(member)?.[0] ?? 0);

export function lineOf(series: Series, colour: number, label = shortName(series.name)): Line {
  return { label, x: series.steps, y: series.values, colour };
}

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
