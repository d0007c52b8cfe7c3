/**
 * The supervised warm start of a run: episodes of a (noisy) oracle, or demonstration files, in batches that the recipe's seed decides. The next batch is
 * played while the learner works on this one.
 */
import { DataError } from "../core/errors.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import type { Learner } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import { type Noise, playDemo, readDemos } from "../envs/demos.ts";
import type { Env } from "../envs/env.ts";
import { readJsonLines } from "../envs/jsonl.ts";
import { makeEnv } from "../envs/registry.ts";
import { envKey } from "../envs/sources.ts";
import { WorldEnv } from "../envs/world-env.ts";
import type { ChatModel } from "../model/chat.ts";
import type { EnvSpec } from "../rollout/hosts.ts";
import type { Sequence } from "../rollout/trajectory.ts";
import { checkDemos, EpisodeOrder, type RunData } from "./data.ts";
import { type Imitated, type TaughtDecision, TaughtDecisions, taughtDecision } from "./decisions.ts";
import type { Recipe } from "./recipe.ts";
import { type SequenceLayout, sequencesOf, sftBatch } from "./sft.ts";
import { MAX_SKIPPED, scheduled } from "./update.ts";

export type WarmStartOptions = {
  readonly recipe: Recipe;
  readonly plan: NonNullable<Recipe["warmStart"]>;
  readonly data: RunData;
  readonly model: ChatModel;
  readonly policy: Learner;
  /** Updates that were made already. */
  readonly from: number;
  readonly signal?: AbortSignal;
  readonly onUpdate: (done: number, total: number, metrics: Record<string, number>) => Promise<void>;
  readonly onStop: () => Promise<void>;
};

/** True when it is done, false when it was interrupted. */
export async function warmStart(options: WarmStartOptions): Promise<boolean> {
  const { plan, policy, signal } = options;
  const source = await sourceOf(options);
  const perEpoch = Math.ceil(source.count / plan.batch);
  const total = perEpoch * plan.epochs;
  // A short warm start must not spend itself on warming up.
  const schedule = { ...plan.schedule, warmupSteps: Math.min(plan.schedule.warmupSteps, Math.floor(total / 5)) };
  const batchAt = (update: number) => source.batch(Math.floor(update / perEpoch), update % perEpoch);
  const decisions = new TaughtDecisions(options.model);
  let skipped = 0;
  const prepare = async (update: number) => {
    const imitated = await batchAt(update);
    const sequences = imitated.map(({ sequence }) => sequence);
    const data = sftBatch(sequences);
    policy.ahead?.(data);
    return { imitated, sequences, data };
  };
  let next = options.from < total ? prepare(options.from) : undefined;
  for (let done = options.from; done < total; done++) {
    if (signal?.aborted) {
      await options.onStop();
      return false;
    }
    const { imitated, sequences, data } = await (next as ReturnType<typeof prepare>);
    const started = performance.now();
    const work = policy.forwardBackward(data, { name: "cross_entropy" });
    // Submitted together: an engine that is far away is waited for once.
    const moving = policy.step(scheduled(plan.optimizer, { schedule, steps: total }, done + 1));
    moving.catch(() => undefined);
    next = done + 1 < total ? prepare(done + 1) : undefined;
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
    await options.onUpdate(done + 1, total, {
      "sft/nll": report.loss,
      "sft/nll_reply": (report.loss * learned) / Math.max(1, replies),
      "sft/tokens": learned,
      ...decisions.metrics(imitated, report.outputs),
      ...(!Number.isNaN(gradNorm) && { "optimizer/grad_norm": gradNorm }),
      "optimizer/skipped": applied ? 0 : 1,
      "optimizer/learning_rate": scheduled(plan.optimizer, { schedule, steps: total }, done + 1).learningRate,
      "speed/trained_tokens": tokens / seconds,
      "time/step": seconds,
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

/** How many updates a warm start will take. */
export async function warmStartUpdates(plan: Recipe["warmStart"]): Promise<number> {
  if (plan === undefined) return 0;
  let count = plan.files.length === 0 ? plan.episodes : 0;
  for (const file of plan.files) for await (const _ of readJsonLines(file)) count += 1;
  return Math.ceil(count / plan.batch) * plan.epochs;
}

type Source = { readonly count: number; batch(epoch: number, index: number): Promise<Imitated[]> };

async function sourceOf({ recipe, plan, model, data }: WarmStartOptions): Promise<Source> {
  const layout: SequenceLayout = {
    contextLength: Math.min(recipe.sampling.contextTokens, model.maxPositions),
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
      async batch(epoch, index) {
        const order = new NumpyRandom(mixSeed("sft", recipe.seed, epoch)).permutation(demos.length);
        return order.slice(index * plan.batch, (index + 1) * plan.batch).flatMap((i) => demos[i] as Imitated[]);
      },
    };
  }
  const order = new EpisodeOrder(data.warm, mixSeed("warm", recipe.seed), data.reserved);
  const worlds = new Map<string, Promise<Env>>();
  const worldOf = ({ id, options = {} }: EnvSpec): Promise<Env> => {
    const key = envKey({ env: id, options });
    const world = worlds.get(key) ?? makeEnv(id, options);
    worlds.set(key, world);
    return world;
  };
  const noise = { probability: plan.noise, labels: plan.labels };
  return {
    count: plan.episodes,
    async batch(_, index) {
      const count = Math.min(plan.batch, plan.episodes - index * plan.batch);
      const imitated: Imitated[] = [];
      for (let i = 0; i < count; i++) {
        const { env, seed } = order.at(index * plan.batch + i);
        const { demo, decisions } = await playTaught(env.id, await worldOf(env), seed, noise, i < WATCHED);
        imitated.push(...imitatedOf(await sequencesOf(demo, model, layout), decisions));
        // The main thread also answers environments and the terminal.
        if (i % 8 === 7) await new Promise((resolve) => setImmediate(resolve));
      }
      return imitated;
    },
  };
}

/** Episodes of a batch whose decisions are looked at: looking costs as much as a third of playing. */
const WATCHED = 8;

/** A demonstration and, when it is watched, the decisions in it that are the oracle's. */
async function playTaught(name: string, env: Env, seed: number, noise: Noise, watched: boolean) {
  const decisions: TaughtDecision[] = [];
  let turn = 0;
  const demo = await playDemo(name, env, seed, undefined, noise, async (taught, agreed) => {
    const decision = watched && agreed && env instanceof WorldEnv ? await taughtDecision(env, taught, turn) : undefined;
    if (decision !== undefined) decisions.push(decision);
    turn += 1;
  });
  return { demo, decisions };
}

function imitatedOf(sequences: readonly Sequence[], decisions: readonly TaughtDecision[] = []): Imitated[] {
  return sequences.map((sequence) => ({ sequence, decisions }));
}
