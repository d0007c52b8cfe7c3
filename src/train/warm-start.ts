/**
 * The supervised warm start of a run: episodes of a (noisy) oracle, or demonstration files, in batches that the recipe's seed decides. The next batch is
 * played while the learner works on this one, or several of them in threads.
 */
import { DataError } from "../core/errors.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import type { Learner } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import { readDemos } from "../envs/demos.ts";
import { readJsonLines } from "../envs/jsonl.ts";
import { type ChatModel, speaksQwen } from "../model/chat.ts";
import { checkDemos, EpisodeOrder, type RunData } from "./data.ts";
import { DemoCache } from "./demo-cache.ts";
import { DemoPlayer, imitatedOf } from "./demo-player.ts";
import { DemoThreads } from "./demo-threads.ts";
import type { SourceWeights } from "./mixture.ts";
import { scheduled } from "./policy-loss.ts";
import type { Recipe } from "./recipe.ts";
import { type SequenceLayout, sequencesOf, sftBatch } from "./sft.ts";
import { type Imitated, TaughtDecisions } from "./taught-decisions.ts";
import { MAX_SKIPPED } from "./update.ts";

export type WarmStartOptions = {
  readonly recipe: Recipe;
  readonly plan: NonNullable<Recipe["warmStart"]>;
  readonly data: RunData;
  readonly model: ChatModel;
  /** Of that model. */
  readonly folder: string;
  readonly policy: Learner;
  /** How the sources are drawn; absent: by the recipe's weights, or from files. */
  readonly weights?: SourceWeights;
  /** Updates that were made already. */
  readonly from: number;
  readonly signal?: AbortSignal;
  readonly onUpdate: (done: number, total: number, metrics: Record<string, number>) => Promise<void>;
  readonly onStop: () => Promise<void>;
};

/** True when it is done, false when it was interrupted. */
export async function warmStart(options: WarmStartOptions): Promise<boolean> {
  const source = await sourceOf(options);
  try {
    return await learnFrom(source, options);
  } finally {
    await source.close();
  }
}

async function learnFrom(source: Source, options: WarmStartOptions): Promise<boolean> {
  const { plan, policy, signal, weights } = options;
  const perEpoch = Math.ceil(source.count / plan.batch);
  const total = perEpoch * plan.epochs;
  // A short warm start must not spend itself on warming up.
  const schedule = { ...plan.schedule, warmupSteps: Math.min(plan.schedule.warmupSteps, Math.floor(total / 5)) };
  const batchAt = (update: number) => source.batch(Math.floor(update / perEpoch), update % perEpoch);
  const decisions = new TaughtDecisions(options.model);
  let skipped = 0;
  const played: Promise<Imitated[]>[] = [];
  let asked = options.from;
  const prepare = async () => {
    // Each thread has one in hand while the others' wait here.
    while (asked < total && played.length <= source.ahead) {
      const batch = batchAt(asked++);
      // Its error is met where it is awaited.
      batch.catch(() => undefined);
      played.push(batch);
    }
    const imitated = await (played.shift() as Promise<Imitated[]>);
    const sequences = imitated.map(({ sequence }) => sequence);
    const data = sftBatch(sequences);
    policy.ahead?.(data);
    return { imitated, sequences, data };
  };
  let next = options.from < total ? prepare() : undefined;
  // Who is interrupted before the first update never waits for it.
  next?.catch(() => undefined);
  for (let done = options.from; done < total; done++) {
    if (signal?.aborted) {
      // Weights that can't be trained any more are nothing to go back to.
      if (skipped === 0) await options.onStop();
      return false;
    }
    const idle = performance.now();
    const { imitated, sequences, data } = await (next as ReturnType<typeof prepare>);
    const started = performance.now();
    const waited = (started - idle) / 1000;
    const work = policy.forwardBackward(data, { name: "cross-entropy" });
    // Submitted together: an engine that is far away is waited for once.
    const moving = policy.step(scheduled(plan.optimizer, { schedule, steps: total }, done + 1));
    moving.catch(() => undefined);
    next = done + 1 < total ? prepare() : undefined;
    // Its error is met where it is awaited.
    next?.catch(() => undefined);
    const report = await work;
    const { gradNorm, applied } = await moving;
    const seconds = (performance.now() - started) / 1000;
    const tokens = sequences.reduce((sum, { ids }) => sum + ids.length, 0);
    const learned = sequences.reduce((sum, { sampled }) => sum + sampled.reduce((a, b) => a + b, 0), 0);
    const replies = sequences.reduce(
      (sum, { sampled, replies }) => sum + replies.filter(({ start }) => sampled[start] === 1).length,
      0,
    );
    const losses = lossByLabel(imitated, report.outputs);
    // A second pass over the same demonstrations draws nothing new.
    if (weights !== undefined && done < perEpoch) {
      for (const [label, { nats, tokens }] of losses) weights.add(label, nats, tokens);
      if ((done + 1) % options.recipe.mixture.every === 0) weights.close();
    }
    await options.onUpdate(done + 1, total, {
      "sft/nll": report.loss,
      "sft/nll_reply": (report.loss * learned) / Math.max(1, replies),
      "sft/tokens": learned,
      ...decisions.metrics(imitated, report.outputs),
      ...(!Number.isNaN(gradNorm) && { "optimizer/grad_norm": gradNorm }),
      "optimizer/skipped": applied ? 0 : 1,
      "optimizer/learning_rate": scheduled(plan.optimizer, { schedule, steps: total }, done + 1).learningRate,
      "speed/trained_tokens": tokens / seconds,
      ...(losses.size > 1 &&
        Object.fromEntries([...losses].map(([label, { nats, tokens }]) => [`sft/nll/${label}`, nats / tokens]))),
      ...weights?.metrics(),
      "time/step": seconds,
      "time/wait": waited,
    });
    skipped = applied ? 0 : skipped + 1;
    if (skipped >= MAX_SKIPPED) {
      throw new EngineError(
        `${MAX_SKIPPED} updates in a row of the warm start were not finite and were skipped. Lower warmStart.optimizer.learningRate, then resume.`,
      );
    }
  }
  return true;
}

/** The negative log-probability of the taught tokens, and how many there were, for each environment. */
function lossByLabel(imitated: readonly Imitated[], outputs: readonly Float32Array[]) {
  const sums = new Map<string, { nats: number; tokens: number }>();
  for (const [i, { sequence, label }] of imitated.entries()) {
    const logprobs = outputs[i];
    if (label === undefined || logprobs === undefined) continue;
    const sum = sums.get(label) ?? { nats: 0, tokens: 0 };
    sums.set(label, sum);
    // Outputs are aligned to predictions: what predicts an id stands one place before it.
    sequence.sampled.forEach((flag, at) => {
      if (flag !== 1 || at === 0) return;
      sum.nats -= logprobs[at - 1] as number;
      sum.tokens += 1;
    });
  }
  return sums;
}

/** How many updates a warm start will take. */
export async function warmStartUpdates(plan: Recipe["warmStart"]): Promise<number> {
  if (plan === undefined) return 0;
  let count = plan.files.length === 0 ? plan.episodes : 0;
  for (const file of plan.files) for await (const _ of readJsonLines(file)) count += 1;
  return Math.ceil(count / plan.batch) * plan.epochs;
}

type Source = {
  readonly count: number;
  /** Batches that may be asked for before the one that is waited for. */
  readonly ahead: number;
  batch(epoch: number, index: number): Promise<Imitated[]>;
  close(): Promise<void>;
};

async function sourceOf({ recipe, plan, model, folder, data, weights }: WarmStartOptions): Promise<Source> {
  const layout: SequenceLayout = {
    contextTokens: Math.min(recipe.sampling.contextTokens, model.maxPositions),
    turns: recipe.turns,
    ...(recipe.turns === "split" && { history: recipe.history }),
  };
  if (plan.files.length > 0) {
    await checkDemos(plan.files, data.evaluation);
    const demos: Imitated[][] = [];
    for (const file of plan.files) {
      for await (const demo of readDemos(file)) demos.push(imitatedOf(await sequencesOf(demo, model, layout)));
    }
    if (demos.length === 0) throw new DataError(`There are no demonstrations in ${plan.files.join(", ")}.`);
    return {
      count: demos.length,
      ahead: plan.threads,
      async batch(epoch, index) {
        const order = new NumpyRandom(mixSeed("sft", recipe.seed, epoch)).permutation(demos.length);
        return order.slice(index * plan.batch, (index + 1) * plan.batch).flatMap((i) => demos[i] as Imitated[]);
      },
      close: async () => {},
    };
  }
  const order = new EpisodeOrder(
    data.warm,
    mixSeed("warm", recipe.seed),
    data.reserved,
    "demonstrations",
    weights && ((episode) => weights.at(episode)),
  );
  const { every } = recipe.mixture;
  const style = { noise: { probability: plan.noise, labels: plan.labels }, layout };
  // Where the engine's worker renders, threads have nothing to render with.
  const threads = (await speaksQwen(folder)) ? plan.threads : 0;
  const player = threads > 0 ? new DemoThreads(threads, { folder, style }) : new DemoPlayer(model, style);
  const demos = new DemoCache(player);
  const noisyFrom = plan.noiseAfter * plan.episodes;
  const episode = (i: number) => ({ ...order.at(i), ...(i < noisyFrom && { clean: true }) });
  return {
    count: plan.episodes,
    ahead: threads,
    batch(_, index) {
      // Batches are asked for ahead, so the newest block may not be over yet; the one before it is.
      if (index > 0 && index % every === 0) weights?.decide(index * plan.batch, index / every - 1);
      const count = Math.min(plan.batch, plan.episodes - index * plan.batch);
      return demos.play(Array.from({ length: count }, (_, i) => episode(index * plan.batch + i)));
    },
    close: () => demos.close(),
  };
}
