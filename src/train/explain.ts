/**
 * A recipe in words, with what it takes: tokens are counted in demonstrations that are played, time and memory are measured in a short run of the same recipe on this
 * machine (a few updates, two small steps), corrected for what other programs took of the processors, and scaled to its length. Episodes of the short run are an untrained model's, so only its rates are used: tokens sampled
 * and learned per second. The estimate takes episodes to be as long as the oracle's.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SaccadeError } from "../core/errors.ts";
import { nameOfEngine } from "../engine/index.ts";
import { loadChat } from "../model/chat.ts";
import { chatModel, createFolder, parameterCount } from "../model/index.ts";
import type { Metrics, RunEvent } from "../run/events.ts";
import { DemoPlayer } from "./demo-player.ts";
import { type ProcessorReading, processorShare, readProcessor } from "./processor-share.ts";
import type { Recipe } from "./recipe.ts";
import { train } from "./train.ts";
import { warmStartUpdates } from "./warm-start.ts";

const DEMOS = 16;
const [PROBE_UPDATES, PROBE_STEPS, PROBE_GROUPS] = [12, 2, 16];

/** Means over demonstrations. */
export type EpisodeSize = { readonly tokens: number; readonly sampled: number; readonly replies: number };
export type Costs = {
  readonly episode?: EpisodeSize;
  /** Why tokens are not counted. */
  readonly uncounted?: string;
  readonly parameters?: number;
  readonly warmTokens?: number;
  readonly playedTokens?: number;
  /** Of the whole run on this machine, when no other program uses its processors. */
  readonly seconds?: {
    readonly warm: number;
    readonly step: number;
    readonly evaluation: number;
    readonly all: number;
  };
  /** How much of its speed the short run had, next to other programs. */
  readonly processorShare?: number;
  /** Highest memory of this process during the short run. */
  readonly peakBytes?: number;
};

export async function recipeCosts(recipe: Recipe, { measure = true } = {}): Promise<Costs> {
  if (typeof recipe.model === "string") return {};
  const folder = await mkdtemp(join(tmpdir(), "saccade-explain-"));
  try {
    const config = await createFolder(folder, { preset: recipe.model.preset, seed: recipe.seed, ...recipe.model.set });
    const parameters = parameterCount(config);
    const episode = await episodeSize(recipe, folder).catch((error) => {
      // There is no oracle, or the environment needs what is not installed here.
      if (error instanceof SaccadeError) return error.message;
      throw error;
    });
    if (episode === undefined || typeof episode === "string")
      return { parameters, ...(episode !== undefined && { uncounted: episode }) };
    const { steps, groups, siblings, warmStart } = recipe;
    const warmTokens = (warmStart?.episodes ?? 0) * (warmStart?.epochs ?? 0) * episode.tokens;
    const sizes = { parameters, episode, warmTokens, playedTokens: steps * groups * siblings * episode.tokens };
    if (!measure || nameOfEngine(recipe.engine) !== "native") return sizes;
    return { ...sizes, ...(await measured(recipe, episode, join(folder, "run"))) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function episodeSize(recipe: Recipe, folder: string): Promise<EpisodeSize | undefined> {
  const sources = recipe.envs.flatMap((source) => ("env" in source && !("records" in source) ? [source] : []));
  const [first] = sources;
  if (first === undefined) return undefined;
  const { turns, history } = recipe;
  const noise = { probability: recipe.warmStart?.noise ?? 0, labels: "played" } as const;
  const layout = turns === "split" ? { turns, history } : { turns };
  const player = new DemoPlayer(chatModel(await loadChat(folder)), { noise, layout });
  try {
    const episodes = Array.from({ length: DEMOS }, (_, seed) => {
      const { env, options } = sources[seed % sources.length] ?? first;
      return { env: { id: env, options }, seed };
    });
    const sequences = (await player.play(episodes)).map(({ sequence }) => sequence);
    const mean = (of: (sequence: (typeof sequences)[number]) => number) =>
      sequences.reduce((sum, sequence) => sum + of(sequence), 0) / episodes.length;
    const sampled = mean(({ replies }) => replies.reduce((sum, { start, end }) => sum + end - start, 0));
    return { tokens: mean(({ ids }) => ids.length), sampled, replies: mean(({ replies }) => replies.length) };
  } finally {
    await player.close();
  }
}

/** The same recipe, made short. */
function shortened(recipe: Recipe): Recipe {
  const { warmStart } = recipe;
  const groups = Math.min(recipe.groups, PROBE_GROUPS);
  const { hub: _, ...rest } = recipe;
  return {
    ...rest,
    name: "explain",
    ...(warmStart && {
      warmStart: { ...warmStart, episodes: Math.min(warmStart.episodes, PROBE_UPDATES * warmStart.batch), epochs: 1 },
    }),
    steps: PROBE_STEPS,
    groups,
    minibatch: Math.min(recipe.minibatch ?? groups * recipe.siblings, groups * recipe.siblings),
    filters: [],
    refill: false,
    evaluate: { ...recipe.evaluate, every: 0, before: false },
    sight: { ...recipe.sight, every: 0 },
    checkpoint: { ...recipe.checkpoint, every: PROBE_STEPS },
  };
}

async function measured(
  recipe: Recipe,
  episode: EpisodeSize,
  folder: string,
): Promise<Pick<Costs, "seconds" | "processorShare" | "peakBytes">> {
  const events: { event: RunEvent; at: ProcessorReading }[] = [];
  await train({
    recipe: shortened(recipe),
    folder,
    onEvent: (event) => events.push({ event, at: readProcessor() }),
  });
  const of = (kind: RunEvent["kind"]) => events.filter(({ event }) => event.kind === kind);
  const metricsOf = (kind: RunEvent["kind"]) => of(kind).map(({ event }) => event.metrics);
  /** From the first event of a kind to its last. */
  const shareOf = (kind: RunEvent["kind"]) => {
    const [first, last] = [of(kind).at(0)?.at, of(kind).at(-1)?.at];
    return first === undefined || last === undefined ? undefined : processorShare(first, last);
  };
  const [warmShare, share] = [shareOf("sft"), shareOf("train")];
  const update = (warmShare ?? 1) * median(metricsOf("sft").map((metrics) => metrics["time/step"] ?? 0));
  const rate = (tokens: string, time: string) =>
    median(metricsOf("train").map((metrics) => rateOf(metrics, tokens, time))) / (share ?? 1);
  const [sampledPerSecond, learnedPerSecond] = [
    rate("speed/sampled_tokens", "time/sample"),
    rate("speed/trained_tokens", "time/learn"),
  ];
  const { steps, groups, siblings, epochs, evaluate } = recipe;
  const play = (count: number) => (sampledPerSecond === 0 ? 0 : (count * episode.sampled) / sampledPerSecond);
  const played = groups * siblings;
  const warm = (await warmStartUpdates(recipe.warmStart)) * update;
  const step = play(played) + (learnedPerSecond === 0 ? 0 : (played * episode.tokens * epochs) / learnedPerSecond);
  const tries = (evaluate.seeds[1] - evaluate.seeds[0] + 1) * (evaluate.repeats + Number(evaluate.greedy));
  const evaluations = evaluate.every > 0 ? Math.ceil(steps / evaluate.every) + Number(evaluate.before) : 0;
  const evaluation = play(tries);
  const seconds = { warm, step, evaluation, all: warm + steps * step + evaluations * evaluation };
  const had = share ?? warmShare;
  const peakBytes = process.resourceUsage().maxRSS * 1024;
  return { seconds, ...(had !== undefined && { processorShare: had }), peakBytes };
}

/** Tokens per second of the part of a step that handles them. */
function rateOf(metrics: Metrics, tokens: string, time: string): number {
  const part = metrics[time] ?? 0;
  return part === 0 ? 0 : ((metrics[tokens] ?? 0) * (metrics["time/step"] ?? 0)) / part;
}

/** Of the later half: the first ones also start threads and fill caches. */
function median(values: readonly number[]): number {
  const later = values.slice(Math.floor(values.length / 2)).sort((a, b) => a - b);
  return later[Math.floor(later.length / 2)] ?? 0;
}
