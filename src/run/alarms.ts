/**
 * What goes wrong in training runs without an error, found in the metrics and said in words with what to do. `findAlarms` is a pure
 * function of events; `AlarmWatch` feeds it as a run goes on and reports each trouble once, until it has passed.
 */

import { mean } from "../core/numbers.ts";
import type { Metrics, RunEvent } from "./events.ts";

export type AlarmKind =
  | "blind"
  | "entropy"
  | "repetition"
  | "no-variance"
  | "idle"
  | "drift"
  | "non-finite"
  | "plateau"
  | "ceiling"
  | "controls";

export type Alarm = {
  readonly kind: AlarmKind;
  /** `stop`: nothing learned from here on can be trusted. */
  readonly level: "warning" | "stop";
  readonly step: number;
  readonly message: string;
  readonly advice: string;
};

export type Thresholds = {
  /** Training steps that must agree before an alarm about them is raised. */
  readonly window: number;
  /** Entropy has collapsed below this share of what it was in the first steps, or below this many nats. */
  readonly entropyShare: number;
  readonly entropyNats: number;
  readonly repeatedTokens: number;
  readonly topReply: number;
  /** Mean nats between learner and sampler. */
  readonly drift: number;
  /** With this success a quiet policy and equal siblings are a solved task, not a collapse. */
  readonly solved: number;
  /** Updates of a warm start that are compared with as many before them. */
  readonly plateau: number;
  /** A plateau this near to a blind choice among the possible actions (its nats a decision over theirs) means that nothing is decided. */
  readonly chanceShare: number;
  /** Failed episodes of the oracle, of random play or of stopping at once, above this share of those asked for, of all or of one environment. */
  readonly failedControls: number;
};

export const DEFAULT_THRESHOLDS: Thresholds = {
  window: 3,
  entropyShare: 0.05,
  entropyNats: 1e-4,
  repeatedTokens: 0.3,
  topReply: 0.98,
  drift: 0.05,
  solved: 0.95,
  plateau: 100,
  chanceShare: 0.8,
  failedControls: 0.05,
};

type Finder = (history: History, limits: Thresholds) => Alarm | undefined;

/** `train`: training events, oldest first; `sight`: the newest event that probed sight; `evaluation`: the newest one that evaluated. */
type History = {
  readonly train: readonly RunEvent[];
  /** Updates of the warm start, as long as it goes on. */
  readonly sft: readonly RunEvent[];
  readonly sight?: RunEvent;
  readonly evaluation?: RunEvent;
  readonly newest?: RunEvent;
};

/** The troubles that the newest events show. `events`: oldest first, best from the start of the run; other kinds are ignored. */
export function findAlarms(events: readonly RunEvent[], thresholds: Partial<Thresholds> = {}): Alarm[] {
  const limits = { ...DEFAULT_THRESHOLDS, ...thresholds };
  const train = events.filter(({ kind }) => kind === "train");
  const sight = events.findLast(({ metrics }) => "sight/gap" in metrics || "sight/hash_mismatches" in metrics);
  const evaluation = events.findLast(({ kind }) => kind === "eval");
  const newest = events.findLast(({ kind }) => kind === "train" || kind === "sft");
  const sft = newest?.kind === "sft" ? events.filter(({ kind }) => kind === "sft") : [];
  const history: History = {
    train,
    sft,
    ...(sight && { sight }),
    ...(evaluation && { evaluation }),
    ...(newest && { newest }),
  };
  return FINDERS.flatMap((find) => find(history, limits) ?? []);
}

export class AlarmWatch {
  readonly #thresholds: Thresholds;
  readonly #first: RunEvent[] = [];
  readonly #recent: RunEvent[] = [];
  readonly #sft: RunEvent[] = [];
  #sight: RunEvent | undefined;
  #evaluation: RunEvent | undefined;
  #active = new Set<AlarmKind>();

  constructor(thresholds: Partial<Thresholds> = {}) {
    this.#thresholds = { ...DEFAULT_THRESHOLDS, ...thresholds };
  }

  /** Takes the next event; returns the alarms that were not there before. */
  see(event: RunEvent): Alarm[] {
    if ("sight/gap" in event.metrics || "sight/hash_mismatches" in event.metrics) this.#sight = event;
    if (event.kind === "eval") this.#evaluation = event;
    if (event.kind === "train" || event.kind === "sft") {
      const first = event.kind === "train" && this.#first.length < this.#thresholds.window;
      if (event.kind === "train") this.#sft.length = 0;
      (event.kind === "sft" ? this.#sft : first ? this.#first : this.#recent).push(event);
      if (this.#recent.length > this.#thresholds.window) this.#recent.shift();
      if (this.#sft.length > 2 * this.#thresholds.plateau) this.#sft.shift();
    } else if (this.#sight !== event && this.#evaluation !== event) return [];
    const seen = [...this.#first, ...this.#recent, ...this.#sft];
    if (this.#sight !== undefined) seen.push({ ...this.#sight, kind: "sight" });
    if (this.#evaluation !== undefined) seen.push(this.#evaluation);
    const alarms = findAlarms(seen, this.#thresholds);
    const fresh = alarms.filter(({ kind }) => !this.#active.has(kind));
    this.#active = new Set(alarms.map(({ kind }) => kind));
    return fresh;
  }
}

const blind: Finder = ({ sight }) => {
  if (sight === undefined) return undefined;
  const { step, metrics } = sight;
  const mismatches = metrics["sight/hash_mismatches"] ?? 0;
  if (mismatches > 0) {
    return {
      kind: "blind",
      level: "stop",
      step,
      message: `${mismatches} frames differed between rendering, sampling and training.`,
      advice:
        "Stop: the model learns from frames it did not see. Check the renderer and image processor of this engine.",
    };
  }
  const gap = metrics["sight/gap"];
  const low = metrics["sight/gap_low"];
  if (gap === undefined || low === undefined || !(low <= 0)) return undefined;
  const high = metrics["sight/gap_high"] ?? gap;
  return {
    kind: "blind",
    level: "warning",
    step,
    message: `The model is blind: another episode's frames make its replies as likely as its own (gap ${number(gap)} nats, interval ${number(low)} to ${number(high)}).`,
    advice:
      "Look at the frames in the viewer, check that the vision part is not frozen or starved (freeze, rates.vision), and warm start on demonstrations. If the interval is wide, measure more episodes (sight.episodes).",
  };
};

const entropy: Finder = ({ train }, limits) => {
  const recent = lastValues(train, "policy/entropy", limits.window);
  if (recent === undefined || isSolved(train, limits)) return undefined;
  const first = train.slice(0, limits.window).flatMap(({ metrics }) => metrics["policy/entropy"] ?? []);
  const [now, before] = [mean(recent), mean(first)];
  // Every step of the window, so that one odd batch raises nothing.
  const floor = Math.max(limits.entropyNats, before * limits.entropyShare);
  if (!recent.every((value) => value < floor)) return undefined;
  return {
    kind: "entropy",
    level: "warning",
    step: stepOf(train),
    message: `Entropy has collapsed to ${number(now)} nats per token (${number(before)} at first): the policy no longer explores.`,
    advice:
      "Go back to an earlier checkpoint with a lower learning rate, an entropy bonus, a higher clipHigh or a KL to the reference.",
  };
};

const repetition: Finder = ({ train }, limits) => {
  const tokens = lastValues(train, "policy/repeated_tokens", limits.window);
  const replies = lastValues(train, "policy/top_reply", limits.window);
  const repeats = tokens?.every((value) => value >= limits.repeatedTokens);
  const same = replies?.every((value) => value >= limits.topReply) && !isSolved(train, limits);
  if (!repeats && !same) return undefined;
  return {
    kind: "repetition",
    level: "warning",
    step: stepOf(train),
    message: repeats
      ? `The model repeats itself: ${percent(mean(tokens as number[]))} of sampled tokens equal the token before them.`
      : `The model gives the same reply in ${percent(mean(replies as number[]))} of all turns.`,
    advice:
      "Go back to an earlier checkpoint with a lower learning rate; check that replies end with the closing token and that the reward does not pay for length.",
  };
};

const noVariance: Finder = ({ train }, limits) => {
  const shares = lastValues(train, "groups/zero_variance", limits.window);
  if (!shares?.every((value) => value >= 1)) return undefined;
  const solved = isSolved(train, limits);
  return {
    kind: "no-variance",
    level: "warning",
    step: stepOf(train),
    message: solved
      ? `In ${limits.window} steps every sibling earned the same, and nearly all succeed: there is nothing left to learn here.`
      : `In ${limits.window} steps all siblings of every group earned the same: there is no signal, and nothing is learned.`,
    advice: solved
      ? "Stop, or continue with a harder environment."
      : "Use easier seeds or a warm start so that some siblings succeed, more siblings per group, a higher temperature, or a denser reward.",
  };
};

/** Siblings differ, and yet nothing is learned: filters or the estimator leave every group out. */
const idle: Finder = ({ train }, limits) => {
  const updates = lastValues(train, "optimizer/updates", limits.window);
  const batches = lastValues(train, "optimizer/idle", limits.window);
  const alike = lastValues(train, "groups/zero_variance", limits.window);
  if (!updates?.every((count) => count === 0) || !batches?.every((count) => count > 0)) return undefined;
  if (alike?.every((value) => value >= 1)) return undefined;
  const unfit = (train.at(-1)?.metrics["groups/unfit"] ?? 0) > 0;
  return {
    kind: "idle",
    level: "warning",
    step: stepOf(train),
    message: `In ${limits.window} steps every gradient was zero: no update was made.`,
    advice: unfit
      ? "maxrl compares only groups whose rewards are all 0 or more (groups/unfit): use grpo, or rewards without penalties."
      : "Check which groups the filters keep (groups/trained, filter/*, episodes/masked), and sampling.maxTokens if replies are cut.",
  };
};

const drift: Finder = ({ train }, limits) => {
  const values = lastValues(train, "drift/mean", limits.window);
  if (!values?.every((value) => value > limits.drift)) return undefined;
  const stale = (train.at(-1)?.metrics["staleness/mean"] ?? 0) > 0;
  return {
    kind: "drift",
    level: "warning",
    step: stepOf(train),
    message: `Learner and sampler disagree by ${number(mean(values))} nats per token: training does not match what was sampled.`,
    advice: stale
      ? "Episodes are older than the weights: lower maxStaleness, or set an off-policy correction."
      : "On policy they must agree. Compare temperature, precision and image preprocessing of the two; sort the step's tokens by drift in the viewer.",
  };
};

const nonFinite: Finder = ({ newest }) => {
  if (newest === undefined) return undefined;
  const names = Object.entries(newest.metrics).flatMap(([name, value]) => (Number.isFinite(value) ? [] : [name]));
  const skipped = newest.metrics["optimizer/skipped"] ?? 0;
  if (names.length === 0 && !(skipped > 0)) return undefined;
  return {
    kind: "non-finite",
    level: "warning",
    step: newest.step,
    message:
      names.length > 0
        ? `Not a finite number: ${names.slice(0, 4).join(", ")}${names.length > 4 ? ` and ${names.length - 4} more` : ""}.`
        : `${skipped} update(s) were skipped because a gradient was not finite.`,
    advice:
      "The weights did not change. If it happens again, go back to an earlier checkpoint, lower the learning rate and look for an infinite reward.",
  };
};

/** Averaged over all tokens of its replies a model that knows only their format looks taught; what its decisions cost shows that it is not. */
const plateau: Finder = ({ sft }, limits) => {
  const values = lastValues(sft, "decisions/nll", 2 * limits.plateau);
  const chance = mean(sft.slice(-limits.plateau).flatMap(({ metrics }) => metrics["decisions/chance"] ?? []));
  if (values === undefined || chance === 0) return undefined;
  const [before, now] = [mean(values.slice(0, limits.plateau)), mean(values.slice(limits.plateau))];
  if (now < 0.97 * before || now < limits.chanceShare * chance) return undefined;
  return {
    kind: "plateau",
    level: "warning",
    step: stepOf(sft),
    message: `The warm start has learned the format but not the decisions: ${number(now)} nats per decision for ${limits.plateau} updates; a blind choice among the possible actions costs ${number(chance)}.`,
    advice:
      "Such plateaus can end suddenly: give it more episodes or a higher learning rate, draw cells as whole tokens, and look at decisions/* in the viewer.",
  };
};

/** Who knows the answer and solves nothing says that nothing can be solved: then no success rate means anything. */
const ceiling: Finder = ({ evaluation }) => {
  if (evaluation === undefined) return undefined;
  const { step, metrics } = evaluation;
  const named = Object.keys(metrics).filter((name) => name.startsWith("eval/ceiling/") && metrics[name] === 0);
  if (named.length === 0 && metrics["eval/ceiling"] !== 0) return undefined;
  const where = named.map((name) => name.slice("eval/ceiling/".length)).join(", ");
  const failed = metrics["eval/ceiling_failed"] ?? 0;
  return {
    kind: "ceiling",
    level: "warning",
    step,
    message: `The oracle solves no episode${where && ` of ${where}`}${failed > 0 ? `; ${failed} of its episodes failed` : ""}: no model can win there.`,
    advice:
      "Play an episode yourself (saccade play). Check success() and solve() of the world, that its act() does not throw, and that maxTurns leaves room for the answer.",
  };
};

const CONTROLS = [
  ["the oracle", "eval/ceiling_failed"],
  ["random play", "eval/random_failed"],
  ["stopping at once", "eval/floor_failed"],
] as const;

/** A policy that never acts right may never meet the fault that the oracle and random play meet. */
const controls: Finder = ({ evaluation }, limits) => {
  // With repeats the model plays a seed several times, and these agents once. Older runs have no `eval/seeds`.
  const asked = evaluation?.metrics["eval/seeds"] ?? evaluation?.metrics["eval/asked"] ?? 0;
  if (evaluation === undefined || asked === 0) return undefined;
  const failed = CONTROLS.flatMap(([name, metric]) => {
    const count = evaluation.metrics[metric] ?? 0;
    const places = failedIn(evaluation.metrics, metric).filter(({ share }) => share > limits.failedControls);
    if (places.length === 0 && count <= limits.failedControls * asked) return [];
    return [`${count} of ${asked} episodes of ${name}${named(places)}`];
  });
  if (failed.length === 0) return undefined;
  return {
    kind: "controls",
    level: "warning",
    step: evaluation.step,
    message: `The environment failed in ${failed.join(" and ")}: they count as lost, so these controls are too low.`,
    advice:
      "Run saccade check on the environment, or play an episode yourself (saccade play): its act() may throw, or its rewards may not be finite.",
  };
};

type Place = { readonly env: string; readonly count: number; readonly seeds: number; readonly share: number };

/** One environment of many may fail wholly and be a small share of all. The worst first; runs of older versions do not say. */
function failedIn(metrics: Metrics, metric: string): Place[] {
  const prefix = `${metric}/`;
  const places = Object.entries(metrics).flatMap(([name, count]): Place[] => {
    if (!name.startsWith(prefix)) return [];
    const env = name.slice(prefix.length);
    const seeds = metrics[`eval/seeds/${env}`] ?? 0;
    return seeds > 0 ? [{ env, count, seeds, share: count / seeds }] : [];
  });
  return places.sort((a, b) => b.share - a.share);
}

const MOST_NAMED = 3;

function named(places: readonly Place[]): string {
  if (places.length === 0) return "";
  const first = places.slice(0, MOST_NAMED).map(({ env, count, seeds }) => `${env}: ${count} of ${seeds}`);
  const more = places.length - first.length;
  return ` (${first.join(", ")}${more > 0 ? ` and ${more} more environment${more > 1 ? "s" : ""}` : ""})`;
}

const FINDERS: readonly Finder[] = [
  blind,
  nonFinite,
  ceiling,
  controls,
  drift,
  entropy,
  repetition,
  noVariance,
  idle,
  plateau,
];

/** The metric in each of the last `count` training events; undefined unless all of them have it. */
function lastValues(train: readonly RunEvent[], name: string, count: number): number[] | undefined {
  const values = train.slice(-count).flatMap(({ metrics }: { metrics: Metrics }) => metrics[name] ?? []);
  return values.length === count ? values : undefined;
}

function isSolved(train: readonly RunEvent[], limits: Thresholds): boolean {
  return lastValues(train, "train/success", limits.window)?.every((value) => value >= limits.solved) ?? false;
}

function stepOf(train: readonly RunEvent[]): number {
  return train.at(-1)?.step ?? 0;
}

function number(value: number): string {
  return String(Number(value.toPrecision(2)));
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
