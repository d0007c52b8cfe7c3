/**
 * The lab's trainer: a warm start, then reinforcement learning without end, with evaluations on held-out lakes in between. World, ledger, advantages,
 * losses and learner are the framework's own. It knows neither Node nor the page, so tests run it in both.
 */
import type { Image } from "../../src/core/image.ts";
import { imagesOf } from "../../src/core/message.ts";
import { soon } from "../../src/core/platform.ts";
import { mixSeed } from "../../src/core/seed.ts";
import type { Learner, Sampler } from "../../src/engine/engine.ts";
import type { Machine } from "../../src/engine/native/machine.ts";
import { playDemo } from "../../src/envs/demos.ts";
import type { ChatModel } from "../../src/model/chat.ts";
import { tokenAgent } from "../../src/rollout/agents.ts";
import { builtinAgent } from "../../src/rollout/builtin-agents.ts";
import { type GroupRequest, playGroups } from "../../src/rollout/groups.ts";
import { successRate } from "../../src/rollout/scores.ts";
import type { Sequence, Trajectory } from "../../src/rollout/trajectory.ts";
import { scheduled } from "../../src/train/policy-loss.ts";
import type { Recipe } from "../../src/train/recipe.ts";
import { sequencesOf, sftBatch } from "../../src/train/sft.ts";
import { probeSight } from "../../src/train/sight.ts";
import { update } from "../../src/train/update.ts";
import { LAKE, LakeLender } from "./lakes.ts";
import { GREY, HELD_OUT, type LabEvent, type LabSettings, type Phase, type PlayedLake, SHOWN } from "./messages.ts";
import { makeModel } from "./model.ts";
import { EVALUATE, labRecipe, lakeOptions } from "./recipe.ts";

export type LearningOptions = {
  readonly machine: Machine;
  readonly seed: number;
  readonly tell: (event: LabEvent) => void;
  /** What the sliders say now. */
  readonly settings: () => LabSettings;
  /** Resolves at once, or when a pause is over; false: no more is wanted. */
  readonly goOn: () => Promise<boolean>;
};

const HELD_OUT_SEEDS = Array.from({ length: HELD_OUT.count }, (_, i) => HELD_OUT.first + i);

/** Learns until `goOn` says no. */
export async function learnInLab(options: LearningOptions): Promise<void> {
  const { machine, seed, settings, goOn } = options;
  const { model, loaded, parameters } = await makeModel(settings().size, seed);
  const learner = machine.learner(loaded);
  const lab = new Lab(options, model, learner);
  const random = await lab.random();
  options.tell({ kind: "ready", parameters, threads: machine.pool.threads, random });
  await lab.evaluate("imitate");
  if (!(await lab.imitate())) return;
  // Moments of imitation say nothing about rewards.
  await learner.freshOptimizer();
  for (let step = 1; await goOn(); step++) {
    await lab.reinforce(step);
    if (step % EVALUATE.reinforce === 0) await lab.evaluate("reinforce");
  }
}

class Lab {
  readonly #options: LearningOptions;
  readonly #model: ChatModel;
  readonly #learner: Learner;
  readonly #lender = new LakeLender();
  readonly #size: number;
  #updates = 0;
  #episodes = 0;

  constructor(options: LearningOptions, model: ChatModel, learner: Learner) {
    this.#options = options;
    this.#model = model;
    this.#learner = learner;
    this.#size = options.settings().size;
  }

  #recipe(): Recipe {
    return labRecipe({ ...this.#options.settings(), size: this.#size }, this.#options.seed);
  }

  /** Clones noisy play. The next batch is played while the learner works on this one. False: no more is wanted. */
  async imitate(): Promise<boolean> {
    const { tell, goOn } = this.#options;
    const plan = this.#plan();
    const batches = plan.episodes / plan.batch;
    let next = this.#demonstrations(0);
    for (let batch = 0; batch < batches; batch++) {
      if (!(await goOn())) return false;
      const sequences = await next;
      next = batch + 1 < batches ? this.#demonstrations(batch + 1) : Promise.resolve([]);
      const { loss } = await this.#learner.forwardBackward(sftBatch(sequences), { name: "cross-entropy" });
      const { optimizer, schedule } = this.#plan();
      await this.#learner.step(scheduled(optimizer, { schedule, steps: batches }, batch + 1));
      this.#updates += 1;
      this.#episodes += plan.batch;
      const counts = { updates: this.#updates, phaseUpdates: batch + 1, episodes: this.#episodes };
      tell({ kind: "update", phase: "imitate", ...counts, loss });
      if ((batch + 1) % EVALUATE.imitate === 0) await this.evaluate("imitate");
    }
    return true;
  }

  #plan(): NonNullable<Recipe["warmStart"]> {
    return this.#recipe().warmStart as NonNullable<Recipe["warmStart"]>;
  }

  async #demonstrations(batch: number): Promise<Sequence[]> {
    const plan = this.#plan();
    const { contextTokens } = this.#recipe().sampling;
    const env = await this.#lender.acquire({ id: LAKE, options: lakeOptions(this.#size) });
    const sequences: Sequence[] = [];
    for (let i = 0; i < plan.batch; i++) {
      const noise = { probability: plan.noise, labels: plan.labels };
      const demo = await playDemo(LAKE, env, this.#seed("demo", batch, i), undefined, noise);
      sequences.push(...(await sequencesOf(demo, this.#model, { contextTokens })));
    }
    this.#lender.release(env);
    return sequences;
  }

  /** Siblings play the same lakes, and each is compared with the others: one step of GRPO. */
  async reinforce(step: number): Promise<void> {
    const recipe = this.#recipe();
    const sampler = await this.#learner.publish();
    const env = { id: LAKE, options: lakeOptions(this.#size) };
    const requests = Array.from({ length: recipe.groups }, (_, group) => ({
      env,
      seed: this.#seed("lake", step, group),
      siblings: recipe.siblings,
    }));
    const played = await this.#play(sampler, requests, recipe.sampling.temperature, mixSeed("step", step));
    await sampler.close();
    const { metrics } = await update({ policy: this.#learner, exact: true }, played, recipe, step, 0);
    this.#updates += metrics["optimizer/updates"] ?? 0;
    this.#episodes += played.length;
    this.#options.tell({
      kind: "update",
      phase: "reinforce",
      updates: this.#updates,
      phaseUpdates: step,
      episodes: this.#episodes,
      success: successRate(played).value,
      ...(metrics["drift/max"] !== undefined && { drift: metrics["drift/max"] }),
    });
  }

  /** Success on held-out lakes, with their frames and with grey ones. */
  async evaluate(phase: Phase): Promise<void> {
    const sampler = await this.#learner.publish();
    const lakes = (blindfold: boolean, count: number): GroupRequest[] =>
      HELD_OUT_SEEDS.slice(0, count).map((seed) => ({
        env: { id: LAKE, options: { ...lakeOptions(this.#size), blindfold } },
        seed,
        siblings: 1,
      }));
    const seen = await this.#play(sampler, lakes(false, HELD_OUT.count), 1, 0);
    const grey = await this.#play(sampler, lakes(true, GREY), 1, 0);
    const sight = await probeSight(sampler, seen.slice(0, GREY));
    await sampler.close();
    const { value, low, high } = successRate(seen);
    this.#options.tell({
      kind: "evaluation",
      phase,
      updates: this.#updates,
      success: value,
      low,
      high,
      grey: successRate(grey).value,
      gap: sight.metrics["sight/gap"] ?? 0,
      lakes: seen.slice(0, SHOWN).map(filmOf),
    });
  }

  /** Success of random moves on the held-out lakes. */
  async random(): Promise<number> {
    const env = { id: LAKE, options: lakeOptions(this.#size) };
    const requests = HELD_OUT_SEEDS.map((seed) => ({ env, seed, siblings: 1 }));
    const options = { host: this.#lender, agent: builtinAgent("random"), samplingSeed: 0, live: 16 };
    const played: Trajectory[] = [];
    for await (const group of playGroups(requests, options)) played.push(...group.trajectories);
    return successRate(played).value;
  }

  async #play(
    sampler: Sampler,
    requests: readonly GroupRequest[],
    temperature: number,
    samplingSeed: number,
  ): Promise<Trajectory[]> {
    const { sampling, rollout } = this.#recipe();
    const { maxTokens, contextTokens } = sampling;
    const agent = tokenAgent({ model: this.#model, sampler: () => sampler, temperature, maxTokens, contextTokens });
    const options = { host: this.#lender, agent, samplingSeed, live: rollout.live };
    const played: Trajectory[] = [];
    for await (const group of playGroups(requests, options)) {
      const [lost] = group.dropped;
      if (lost !== undefined) throw new Error(`An episode failed: ${lost.error ?? lost.end}`);
      played.push(...group.trajectories);
      // Commands of the page come in between.
      await new Promise<void>((resolve) => soon(resolve));
    }
    return played;
  }

  /** A seed that is not held out. */
  #seed(...parts: readonly (string | number)[]): number {
    for (let draw = 0; ; draw++) {
      const seed = mixSeed("lab", this.#options.seed, ...parts, draw);
      if (seed < HELD_OUT.first || seed >= HELD_OUT.first + HELD_OUT.count) return seed;
    }
  }
}

function filmOf({ seed, turns, final, success, end }: Trajectory): PlayedLake {
  const images = [...turns.map(({ observation }) => observation), final].flatMap((messages) =>
    messages.flatMap(imagesOf).slice(-1),
  );
  const frames = images.map(({ width, height, data }: Image) => ({ width, height, data: data.slice() }));
  const outcome = success ? "goal" : end === "done" ? "fell" : "out of turns";
  return { seed, frames, moves: turns.map(({ reply }) => reply), end: outcome };
}
