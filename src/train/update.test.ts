/** What an update hands to the engine, seen by a learner that only writes it down. */
import { describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import type { CustomLoss, Datum, Learner, Loss, OptimizerParams, Sampler } from "../engine/engine.ts";
import { type PolicyLoss, policyLoss } from "../engine/losses.ts";
import type { Sequence, Trajectory } from "../rollout/trajectory.ts";
import { type Learners, survivingGroups } from "./examples.ts";
import type { Recipe, RecipeInput } from "./recipe.ts";
import { registerLoss } from "./registry.ts";
import { type PlayedTurn, playedEpisode, tinyRecipe } from "./test-run.ts";
import { type UpdateReport, update } from "./update.ts";

type Call = { readonly data: readonly Datum[]; readonly loss: Loss };

/** What a model says of an id: no two ids, and no two models, say the same. */
const said = (model: number, id: number) => Math.fround(-(model + id / 1000));
const [LEARNER, REFERENCE, VALUE] = [1, 2, 3];

class Notebook implements Learner {
  readonly calls: Call[] = [];
  readonly steps: OptimizerParams[] = [];
  readonly asked: (readonly Datum[])[] = [];
  readonly #head: "lm" | "value";
  applies = true;

  constructor(head: "lm" | "value" = "lm") {
    this.#head = head;
  }

  #outputs(data: readonly Datum[]): Float32Array[] {
    const model = (this.#head === "lm" ? LEARNER : VALUE) as number;
    return data.map(({ targets }) => Float32Array.from(targets, (target) => (target < 0 ? 0 : said(model, target))));
  }

  async forward(data: readonly Datum[]) {
    this.asked.push(data);
    const outputs = this.#outputs(data);
    return outputs.map((numbers) => (this.#head === "lm" ? { logprobs: numbers } : { values: numbers }));
  }

  async forwardBackward(data: readonly Datum[], loss: Loss) {
    this.calls.push({ data, loss });
    if (loss.name === "custom") {
      loss.compute(data.map((datum, i) => ({ datum, logprobs: this.#outputs(data)[i] as Float32Array })));
    }
    return {
      loss: 0.5,
      finite: true,
      metrics: { tokens: 1, ratio: 1, share_of_mine: 2 },
      outputs: this.#outputs(data),
    };
  }

  async step(optimizer: OptimizerParams) {
    this.steps.push(optimizer);
    return { gradNorm: this.applies ? 1 : Number.NaN, applied: this.applies, step: this.steps.length };
  }

  discards = 0;
  discard() {
    this.discards += 1;
  }
  async publish(): Promise<Sampler> {
    throw new Error("An update publishes nothing.");
  }
  async freshOptimizer() {}
  async export() {}
  async checkpoint() {}
  async restore() {}
  async close() {}
}

const reference = {
  version: 0,
  score: async (data: readonly Datum[]) =>
    data.map(({ targets }) => ({
      logprobs: Float32Array.from(targets, (target) => (target < 0 ? 0 : said(REFERENCE as number, target))),
    })),
} as unknown as Sampler;

/** Ids are unique over the batch, and a sampler's log-probability is that of its id. */
let nextId = 1;
const SAMPLER = 0;
function turn(reward: number, tokens: number): PlayedTurn {
  return { reward, said: Array.from({ length: tokens }, () => [nextId, said(SAMPLER, nextId++)] as const) };
}

/** Two groups of three, of one to three turns each. */
function batch(split = false): Trajectory[] {
  nextId = 1;
  return ["a", "b"].flatMap((group, g) =>
    [0, 1, 2].map((sibling) =>
      playedEpisode(
        group,
        sibling,
        Array.from({ length: sibling + 1 }, (_, t) => turn(t === sibling ? (sibling === g ? 1 : 0.25) : 0.125, 2 + t)),
        { split },
      ),
    ),
  );
}

type Options = { readonly recipe?: Partial<RecipeInput>; readonly step?: number; readonly kl?: number };

async function run(trajectories: readonly Trajectory[], options: Options = {}) {
  const recipe: Recipe = tinyRecipe("none", {
    advantage: { normalizeStd: false },
    siblings: 3,
    ...options.recipe,
  });
  const policy = new Notebook();
  const critic = new Notebook("value");
  const learners: Learners = {
    policy,
    exact: true,
    ...(recipe.critic && { critic }),
    ...(recipe.kl && { reference }),
  };
  const report = await update(learners, trajectories, recipe, options.step ?? 1, options.kl ?? 0.5);
  return { policy, critic, report, recipe };
}

/** Every trained prediction of a batch, by the id it predicts. */
function byId(data: readonly Datum[]): Map<number, { datum: Datum; at: number }> {
  const found = new Map<number, { datum: Datum; at: number }>();
  for (const datum of data) {
    datum.targets.forEach((target, at) => {
      if ((datum.weights[at] as number) === 0) return;
      expect(found.has(target), `id ${target} is trained twice`).toBe(false);
      found.set(target, { datum, at });
    });
  }
  return found;
}

const idsOf = (trajectory: Trajectory) =>
  trajectory.sequences.flatMap(({ ids, sampled }) => [...ids].filter((_, i) => sampled[i] === 1));
const total = (trajectory: Trajectory) => trajectory.turns.reduce((sum, { reward }) => sum + reward, 0);

/** GRPO without the standard deviation, from the rewards as people count them. */
function advantagesOf(trajectories: readonly Trajectory[], reward = total): Map<number, number> {
  return new Map(
    trajectories.flatMap((trajectory) => {
      const siblings = trajectories.filter(({ group }) => group === trajectory.group);
      const mean = siblings.reduce((sum, other) => sum + reward(other), 0) / siblings.length;
      return idsOf(trajectory).map((id): [number, number] => [id, reward(trajectory) - mean]);
    }),
  );
}

const dataOf = ({ calls }: Notebook) => calls.flatMap(({ data }) => data);

describe.each([false, true])("Credit reaches the predictions of the ids it belongs to (split turns: %s)", (split) => {
  test("weights, advantages and anchors stand on exactly the sampled ids", async () => {
    const trajectories = batch(split);
    const { policy, report } = await run(trajectories, { recipe: split ? { turns: "split" } : {} });
    const trained = byId(dataOf(policy));
    const wanted = advantagesOf(trajectories);
    expect([...trained.keys()].sort((a, b) => a - b)).toEqual([...wanted.keys()]);
    for (const [id, { datum, at }] of trained) {
      expect(datum.input.ids[at + 1]).toBe(id);
      expect(datum.advantages?.[at]).toBeCloseTo(wanted.get(id) as number, 6);
      expect(datum.oldLogprobs?.[at]).toBe(said(SAMPLER, id));
      expect(datum.temperature).toBe(0.7);
    }
    expect(report.metrics["groups/trained"]).toBe(2);
    // Frames travel with their ids.
    const images = new Map(trajectories.flatMap(({ sequences }) => sequences.map((s) => [s.ids, s.images] as const)));
    for (const { input } of dataOf(policy)) expect(input.images).toBe(images.get(input.ids));
  });

  test("a critic learns the return of each id, from its value before it", async () => {
    const trajectories = batch(split);
    const critic = { optimizer: { learningRate: 0.25 }, clip: 0.3 };
    const { critic: learned, policy } = await run(trajectories, {
      recipe: { advantage: { name: "gae" }, critic, ...(split && { turns: "split" as const }) },
    });
    const togo = new Map<number, number>();
    for (const { turns, ...trajectory } of trajectories) {
      const ids = idsOf({ turns, ...trajectory });
      const ends = trajectory.sequences.flatMap(({ ids, replies }) =>
        replies.map(({ turn, end }) => ({ id: ids[end - 1] as number, reward: turns[turn]?.reward as number })),
      );
      for (const id of ids)
        togo.set(
          id,
          ends.reduce((sum, end) => sum + (end.id >= id ? end.reward : 0), 0),
        );
    }
    for (const [id, { datum, at }] of byId(dataOf(learned))) {
      expect(datum.returns?.[at]).toBeCloseTo(togo.get(id) as number, 5);
      expect(datum.oldValues?.[at]).toBe(said(VALUE as number, id));
      expect(datum.oldLogprobs ?? datum.advantages).toBeUndefined();
    }
    // With γ = λ = 1 the advantage is what the return has over the value.
    for (const [id, { datum, at }] of byId(dataOf(policy))) {
      expect(datum.advantages?.[at]).toBeCloseTo((togo.get(id) as number) - said(VALUE as number, id), 5);
    }
    expect(learned.calls.map(({ loss }) => loss)).toEqual([{ name: "value", clip: 0.3 }]);
    expect(learned.steps[0]?.learningRate).toBe(0.25);
  });
});

describe("Groups", () => {
  test("with fewer than two survivors are dropped and counted, and change nothing for the others", async () => {
    const trajectories = batch();
    const alone = trajectories.filter(({ group, sibling }) => group === "a" || sibling === 1);
    const { policy, report } = await run(alone);
    expect(report.metrics).toMatchObject({ "groups/trained": 1, "groups/too_small": 1 });
    expect([...byId(dataOf(policy)).keys()]).toEqual(trajectories.slice(0, 3).flatMap(idsOf));
    expect(survivingGroups(alone, tinyRecipe("none"))).toBe(1);
  });

  test("of two survivors are compared with each other alone", async () => {
    const trajectories = batch().filter(({ sibling }) => sibling !== 2);
    const { policy, report } = await run(trajectories);
    const wanted = advantagesOf(trajectories);
    for (const [id, { datum, at }] of byId(dataOf(policy))) {
      expect(datum.advantages?.[at]).toBeCloseTo(wanted.get(id) as number, 6);
    }
    expect(report.metrics["groups/too_small"]).toBe(0);
  });

  test("without variance are filtered, counted, and leave an update without data alone", async () => {
    nextId = 1;
    const same = [0, 1].map((sibling) => playedEpisode("a", sibling, [turn(1, 2)]));
    const { policy, report } = await run(same, { recipe: { filters: [{ name: "zero-variance" }] } });
    expect(policy.calls).toHaveLength(0);
    expect(policy.steps).toHaveLength(0);
    expect(report).toMatchObject({ applied: true, metrics: { "groups/trained": 0, "filter/zero-variance": 1 } });
  });

  test("keep siblings whose reply was cut in their baseline and out of the loss when these are masked", async () => {
    const trajectories = cutOff(batch(), 2);
    const { policy, report } = await run(trajectories, { recipe: { filters: [{ name: "over-long" }] } });
    expect(report.metrics).toMatchObject({ "episodes/masked": 2, "episodes/unpaid": 0 });
    const wanted = advantagesOf(trajectories);
    const trained = byId(dataOf(policy));
    expect([...trained.keys()]).toEqual(trajectories.filter(({ sibling }) => sibling !== 2).flatMap(idsOf));
    for (const [id, { datum, at }] of trained) expect(datum.advantages?.[at]).toBeCloseTo(wanted.get(id) as number, 6);
    expect([...trained.values()].reduce((sum, { datum, at }) => sum + (datum.weights[at] as number), 0)).toBeCloseTo(1);
  });
});

/** The last reply of this sibling met its token limit; its world ended the episode all the same. */
function cutOff(trajectories: readonly Trajectory[], sibling: number): Trajectory[] {
  return trajectories.map((trajectory) => ({
    ...trajectory,
    turns: trajectory.turns.map((turn, t) =>
      trajectory.sibling === sibling && t === trajectory.turns.length - 1 ? { ...turn, stopReason: "length" } : turn,
    ),
  }));
}

describe("No reward unless it stopped", () => {
  test("takes what an episode earned whose last reply was cut, and its siblings are compared with nothing", async () => {
    const trajectories = cutOff(batch(), 1);
    const filters = [{ name: "over-long", replies: "zero", which: "last", context: "zero" }];
    const { policy, report } = await run(trajectories, { recipe: { filters } });
    const wanted = advantagesOf(trajectories, (t) => (t.sibling === 1 ? 0 : total(t)));
    const trained = byId(dataOf(policy));
    expect([...trained.keys()].sort((a, b) => a - b)).toEqual([...wanted.keys()]);
    for (const [id, { datum, at }] of trained) expect(datum.advantages?.[at]).toBeCloseTo(wanted.get(id) as number, 6);
    expect(report.metrics).toMatchObject({ "episodes/unpaid": 2, "episodes/masked": 0 });
  });
});

describe("KL to the reference", () => {
  test("as loss is a term of the loss, with the reference's log-probabilities on every datum", async () => {
    const kl = { as: "loss", coefficient: 0.005, estimator: "k3" } as const;
    const trajectories = batch();
    const { policy } = await run(trajectories, { recipe: { kl } });
    expect(policy.calls[0]?.loss).toMatchObject({ name: "ppo", kl: { coefficient: 0.005, estimator: "k3" } });
    const wanted = advantagesOf(trajectories);
    for (const [id, { datum, at }] of byId(dataOf(policy))) {
      expect(datum.referenceLogprobs?.[at]).toBe(said(REFERENCE as number, id));
      expect(datum.advantages?.[at]).toBeCloseTo(wanted.get(id) as number, 6);
    }
  });

  test("as reward is taken from what an episode earned, and its coefficient follows the target", async () => {
    const trajectories = batch();
    const kl = { as: "reward", coefficient: 0.5, estimator: "k1", target: 0.1, horizon: 60 } as const;
    const { policy, report } = await run(trajectories, { recipe: { kl } });
    expect(policy.calls[0]?.loss).not.toHaveProperty("kl");
    // Sampler and reference are 2 nats apart on every id.
    const wanted = advantagesOf(trajectories, (trajectory) => total(trajectory) - 0.5 * 2 * idsOf(trajectory).length);
    for (const [id, { datum, at }] of byId(dataOf(policy))) {
      expect(datum.advantages?.[at]).toBeCloseTo(wanted.get(id) as number, 4);
    }
    expect(report.metrics).toMatchObject({ "policy/kl_coefficient": 0.5 });
    expect(report.metrics["policy/kl_reference"]).toBeCloseTo(2, 5);
    // Six episodes, the error clipped to 0.2.
    expect(report.klCoefficient).toBeCloseTo(0.5 * (1 + (0.2 * 6) / 60), 9);
  });
});

describe("Mini-batches", () => {
  /** `count` groups of `size` episodes of different lengths, one of which wins. */
  const groupsOf = (count: number, size: number, split = false) => {
    nextId = 1;
    return Array.from({ length: count * size }, (_, i) => {
      const [g, s] = [Math.floor(i / size), i % size];
      const turns = Array.from({ length: 1 + (s % 2) }, (_, t) => turn(t === 0 && s === g % size ? 1 : 0, 1 + s + t));
      return playedEpisode(`g${g}`, s, turns, { split });
    });
  };
  const namesIn = (trajectories: readonly Trajectory[], { data }: Call, name: (t: Trajectory) => string) => {
    const owner = new Map(trajectories.flatMap((t) => t.sequences.map(({ ids }) => [ids, name(t)] as const)));
    return [...new Set(data.map(({ input }) => owner.get(input.ids) as string))];
  };

  test.each(["joined", "split"] as const)(
    "partition the groups in every epoch, siblings and rows together (%s)",
    async (turns) => {
      const trajectories = groupsOf(6, 3, turns === "split");
      const recipe = { turns, minibatch: 6, epochs: 3 };
      const { policy } = await run(trajectories, { recipe });
      expect(policy.calls).toHaveLength(9);
      expect(policy.steps).toHaveLength(9);
      const epochs = [0, 3, 6].map((first) => policy.calls.slice(first, first + 3));
      const orders = epochs.map((calls) => {
        const groups = calls.map((call) => namesIn(trajectories, call, (t) => t.group));
        expect(groups.map((part) => part.length)).toEqual([2, 2, 2]);
        expect(groups.flat().sort()).toEqual(["g0", "g1", "g2", "g3", "g4", "g5"]);
        expect(calls.flatMap(({ data }) => data)).toHaveLength(trajectories.flatMap((t) => t.sequences).length);
        return groups.flat().join();
      });
      expect(new Set(orders).size).toBe(3);
      const again = await run(trajectories, { recipe });
      expect(again.policy.calls).toEqual(policy.calls);
      const later = await run(trajectories, { recipe, step: 2 });
      expect(later.policy.calls).not.toEqual(policy.calls);
    },
  );

  test.each([
    ["five groups of two by five episodes are parts of two and three groups", 5, 2, 5, [2, 3]],
    ["an odd number of episodes is rounded to whole groups", 4, 3, 5, [2, 2]],
    ["less than a group is one group", 3, 4, 1, [1, 1, 1]],
    ["more than there is is all of it", 3, 2, 64, [3]],
  ] as const)("%s", async (_, count, size, minibatch, wanted) => {
    const trajectories = groupsOf(count, size);
    const { policy } = await run(trajectories, { recipe: { minibatch, siblings: size } });
    const parts = policy.calls.map((call) => namesIn(trajectories, call, (t) => t.group).length);
    expect(parts.sort()).toEqual(wanted);
  });

  test("under prompt-mean no sibling weighs more than the others of its group", async () => {
    const trajectories = groupsOf(4, 8);
    const { policy } = await run(trajectories, {
      recipe: { minibatch: 7, siblings: 8, reduction: { name: "prompt-mean" } },
    });
    for (const trajectory of trajectories) {
      const siblings = trajectories.filter(({ group }) => group === trajectory.group);
      const [own, all] = [idsOf(trajectory).length, siblings.flatMap(idsOf).length];
      const data = dataOf(policy).filter(({ input }) => trajectory.sequences.some(({ ids }) => ids === input.ids));
      const weight = data.reduce((sum, { weights }) => sum + weights.reduce((a, b) => a + b, 0), 0);
      expect(weight).toBeCloseTo(own / all, 6);
    }
  });

  test.each(["token-mean", "sequence-mean", "prompt-mean"] as const)(
    "share a loss of weight 1 under %s",
    async (name) => {
      const { policy } = await run(batch(), { recipe: { minibatch: 3, reduction: { name } } });
      expect(policy.calls).toHaveLength(2);
      for (const { data } of policy.calls) {
        const sum = data.reduce((all, { weights }) => all + weights.reduce((a, b) => a + b, 0), 0);
        expect(sum).toBeCloseTo(1, 5);
      }
    },
  );

  test("of constant length weigh every token the same, whatever it is with", async () => {
    const { policy } = await run(batch(), { recipe: { reduction: { name: "constant-length", length: 20 } } });
    for (const { datum, at } of byId(dataOf(policy)).values()) expect(datum.weights[at]).toBeCloseTo(1 / (6 * 20), 8);
  });
});

describe("Anchors", () => {
  const anchorOf = async (recipe: Partial<RecipeInput>) => {
    const { policy } = await run(batch(), { recipe });
    const anchors = [...byId(dataOf(policy))].map(
      ([id, { datum, at }]) => (datum.oldLogprobs?.[at] as number) + id / 1000,
    );
    expect(Math.max(...anchors) - Math.min(...anchors)).toBeLessThan(1e-5);
    return Math.round(-(anchors[0] as number));
  };
  const truncate = { level: "token", cap: 2 } as const;

  test.each<[string, Partial<RecipeInput>, number]>([
    ["ppo", {}, SAMPLER],
    ["ppo on stale episodes", { maxStaleness: 2 }, SAMPLER],
    ["ppo with a correction, which compares sampler and learner", { correction: { truncate } }, LEARNER as number],
    ["a registered loss against the learner", { loss: { name: "sapo" } }, SAMPLER],
    ["the same with a correction", { loss: { name: "sapo" }, correction: { truncate } }, LEARNER as number],
    ["a registered loss against the sampler", { loss: { name: "dppo" } }, SAMPLER],
    ["rollout-is", { loss: { name: "rollout-is" } }, SAMPLER],
  ])("are right for %s", async (_, recipe, anchor) => {
    expect(await anchorOf(recipe)).toBe(anchor);
  });

  test("the learner is only asked beforehand when a correction needs it", async () => {
    expect((await run(batch(), { recipe: { maxStaleness: 2 } })).policy.asked).toHaveLength(0);
    expect((await run(batch(), { recipe: { correction: { truncate } } })).policy.asked).toHaveLength(1);
  });

  test("a loss against the sampler refuses a correction on top", async () => {
    const recipe = { loss: { name: "dppo" }, correction: { truncate } };
    await expect(run(batch(), { recipe })).rejects.toThrow(ConfigError);
  });

  test("a correction's factors are folded into the advantages", async () => {
    const trajectories = batch();
    const { policy } = await run(trajectories, { recipe: { correction: { truncate: { level: "token", cap: 0.25 } } } });
    const wanted = advantagesOf(trajectories);
    // Learner minus sampler is −1 nat on every id: exp(−1) is capped at 0.25.
    for (const [id, { datum, at }] of byId(dataOf(policy))) {
      expect(datum.advantages?.[at]).toBeCloseTo(0.25 * (wanted.get(id) as number), 5);
    }
  });

  test("a custom loss gets what the engine's own losses get", async () => {
    const seen: Datum[] = [];
    registerLoss({
      name: "seen",
      anchor: "learner",
      make: () => (sequences) => {
        seen.push(...sequences.map(({ datum }) => datum));
        return { loss: 0, gradients: sequences.map(({ datum }) => new Float32Array(datum.weights.length)) };
      },
    });
    const custom = await run(batch(), { recipe: { loss: { name: "seen" } } });
    const own = await run(batch());
    expect(seen).toEqual(dataOf(own.policy));
    // What a loss reports under a name of its own is the user's metric.
    expect(custom.report.metrics).toMatchObject({ "policy/ratio": 1, "custom/share_of_mine": 2 });
  });
});

describe("The optimizer", () => {
  test("follows the schedule, rates and all", async () => {
    const optimizer = { learningRate: 0.1, rates: { vision: 0.01 }, weightDecay: 0.5 };
    const schedule = { name: "linear", warmupSteps: 2, floor: 0.5 } as const;
    const rates = await Promise.all(
      [1, 2, 3, 6].map(async (step) => {
        const { policy } = await run(batch(), { recipe: { optimizer, schedule, steps: 6 }, step });
        const { learningRate, rates, weightDecay } = policy.steps[0] as OptimizerParams;
        expect(weightDecay).toBe(0.5);
        return [learningRate, rates?.vision];
      }),
    );
    const expected = [0.5, 1, 1, 1 - 0.5 * 0.75].map((factor) => [0.1 * factor, 0.01 * factor]);
    rates.flat().forEach((rate, i) => {
      expect(rate).toBeCloseTo(expected.flat()[i] as number, 9);
    });
  });

  test("a warming critic learns while the policy stands still", async () => {
    const critic = { optimizer: { learningRate: 0.25 }, warmupSteps: 2, epochs: 3 };
    const recipe = { advantage: { name: "gae" }, critic };
    const warm = await run(batch(), { recipe, step: 2 });
    expect([warm.policy.calls.length, warm.critic.steps.length]).toEqual([0, 3]);
    const after = await run(batch(), { recipe, step: 3 });
    expect([after.policy.calls.length, after.critic.steps.length]).toEqual([1, 3]);
  });

  test("where log-probabilities are not exact the learner scores what was played, and the ratio is anchored there", async () => {
    const recipe = tinyRecipe("none", { advantage: { normalizeStd: false }, siblings: 3 });
    for (const [exact, model] of [
      [true, SAMPLER],
      [false, LEARNER],
    ] as const) {
      const policy = new Notebook();
      await update({ policy, exact }, batch(), recipe, 1, 0);
      const data = policy.calls[0]?.data ?? [];
      const anchors = data.flatMap(({ weights, targets, oldLogprobs }) =>
        [...weights].flatMap((weight, i) =>
          weight === 0 ? [] : [[oldLogprobs?.[i], said(model as number, targets[i] as number)]],
        ),
      );
      expect(anchors.length).toBeGreaterThan(0);
      for (const [anchor, expected] of anchors) expect(anchor).toBe(expected);
    }
  });

  test("skipped updates are said and counted", async () => {
    const policy = new Notebook();
    policy.applies = false;
    const recipe = tinyRecipe("none", { minibatch: 3, siblings: 3 });
    const report: UpdateReport = await update({ policy, exact: true }, batch(), recipe, 1, 0);
    expect(report.applied).toBe(false);
    expect(report.metrics).toMatchObject({ "optimizer/skipped": 2, "optimizer/updates": 0, "optimizer/idle": 0 });
  });
});

test("GSPO's ratio is over an episode, though its turns are sequences of their own", async () => {
  const current = (id: number) => said(SAMPLER, id) + ((id * 7) % 5) / 10;
  const ratios = async (split: boolean) => {
    const turns = split ? ("split" as const) : ("joined" as const);
    const recipe = { turns, loss: { name: "gspo", clipLow: 0, clipHigh: 100 } };
    const { policy } = await run(batch(split), { recipe });
    const { data, loss } = policy.calls[0] as Call;
    const contexts = data.map((datum) => ({
      datum,
      logprobs: Float32Array.from(datum.targets, (target) => (target < 0 ? 0 : current(target))),
    }));
    const slopes =
      loss.name === "custom"
        ? loss.compute(contexts).gradients
        : contexts.map(({ datum, logprobs }) => policyLoss(loss as PolicyLoss, datum, logprobs).slopes);
    return new Map(
      [...byId(data)].flatMap(([id, { datum, at }]) => {
        const size = (datum.weights[at] as number) * ((datum.advantages as Float32Array)[at] as number);
        const slope = (slopes[data.indexOf(datum)] as Float32Array)[at] as number;
        return size === 0 ? [] : [[id, -slope / size] as const];
      }),
    );
  };
  const [joined, split] = [await ratios(false), await ratios(true)];
  expect(new Set([...joined.values()].map((ratio) => ratio.toFixed(4))).size).toBeGreaterThan(3);
  expect([...split.keys()]).toEqual([...joined.keys()]);
  for (const [id, ratio] of split) expect(ratio).toBeCloseTo(joined.get(id) as number, 5);
});

test("a loss that an engine does not know by name goes to it as a function", async () => {
  const recipe = tinyRecipe("none", { siblings: 3, loss: { name: "dro" } });
  for (const [losses, name] of [
    [["ppo", "custom"], "custom"],
    [["dro", "custom"], "dro"],
  ] as const) {
    const policy = new Notebook();
    await update({ policy, exact: true, losses }, batch(), recipe, 1, 0);
    expect(policy.calls[0]?.loss.name).toBe(name);
  }
});

describe("No gradient, no step", () => {
  /** All siblings of a group earn the same, and what sampled is what learns. */
  const flat = () => {
    nextId = 1;
    return ["a", "b"].flatMap((group) => [0, 1].map((sibling) => playedEpisode(group, sibling, [learnt(1, 3)])));
  };
  const learnt = (reward: number, tokens: number): PlayedTurn => ({
    reward,
    said: Array.from({ length: tokens }, () => [nextId, said(LEARNER as number, nextId++)] as const),
  });
  const still = { name: "still", anchor: "learner", make: () => silent } as const;
  const silent: CustomLoss = (sequences) => ({
    loss: 0,
    gradients: sequences.map(({ datum }) => new Float32Array(datum.weights.length)),
  });
  registerLoss(still);
  const kl = { as: "loss", coefficient: 0.1 } as const;

  test.each<[string, Partial<RecipeInput>]>([
    ["ppo", {}],
    ["dro, whose pull to the old policy is 0 at the old policy", { loss: { name: "dro" } }],
    ["sapo", { loss: { name: "sapo" } }],
    ["kl-cov", { loss: { name: "kl-cov" } }],
    ["a registered loss that pulls at nothing", { loss: { name: "still" } }],
    ["reinforce++, whose whitening leaves nothing", { advantage: { name: "reinforce++" } }],
  ])("without variance the weights stay under %s", async (_, recipe) => {
    const { policy, report } = await run(flat(), { recipe: { ...recipe, siblings: 2, minibatch: 2 } });
    expect(policy.calls).toHaveLength(2);
    expect(policy.steps).toHaveLength(0);
    expect(policy.discards).toBe(2);
    expect(report).toMatchObject({
      applied: true,
      metrics: { "optimizer/idle": 2, "optimizer/updates": 0, "optimizer/skipped": 0, "optimizer/grad_norm": 0 },
    });
  });

  test.each<[string, Partial<RecipeInput>]>([
    ["an entropy bonus", { loss: { name: "ppo", entropy: 0.01 } }],
    ["KL as a loss, away from the reference", { kl }],
    ["the same beside a registered loss", { kl, loss: { name: "still" } }],
  ])("%s pulls without variance too", async (_, recipe) => {
    const { policy, report } = await run(flat(), { recipe: { ...recipe, siblings: 2, minibatch: 2 } });
    expect([policy.steps.length, policy.discards]).toEqual([2, 0]);
    expect(report.metrics).toMatchObject({ "optimizer/idle": 0, "optimizer/updates": 2 });
  });

  test("a mini-batch that pulls moves the weights, beside one that does not", async () => {
    nextId = 1;
    const one = [0, 1].map((sibling) => playedEpisode("a", sibling, [learnt(1, 2)]));
    const two = [0, 1].map((sibling) => playedEpisode("b", sibling, [learnt(sibling, 2)]));
    const { policy, report } = await run([...one, ...two], { recipe: { siblings: 2, minibatch: 2 } });
    expect([policy.steps.length, policy.discards]).toEqual([1, 1]);
    // The norm is of the gradients that there were.
    expect(report.metrics).toMatchObject({ "optimizer/idle": 1, "optimizer/updates": 1, "optimizer/grad_norm": 1 });
  });

  test("maxrl leaves out a group with a negative reward, counts it, and goes on", async () => {
    nextId = 1;
    const rewards = { a: [1, -0.5], b: [1, 0], c: [-1, -2] };
    const trajectories = Object.entries(rewards).flatMap(([group, list]) =>
      list.map((reward, sibling) => playedEpisode(group, sibling, [learnt(reward, 2)])),
    );
    const { policy, report } = await run(trajectories, { recipe: { siblings: 2, advantage: { name: "maxrl" } } });
    expect(report.metrics["groups/unfit"]).toBe(2);
    for (const trajectory of trajectories) {
      const wanted = trajectory.group !== "b" ? 0 : trajectory.sibling === 0 ? 1 : -1;
      for (const id of idsOf(trajectory)) {
        const { datum, at } = byId(dataOf(policy)).get(id) as { datum: Datum; at: number };
        expect(datum.advantages?.[at]).toBeCloseTo(wanted, 5);
      }
    }
  });
});

test("drift is what sampler and learner disagree by, per turn, and credit is kept for the log", async () => {
  const trajectories = batch();
  const { report } = await run(trajectories);
  for (const name of ["drift/max", "drift/mean", "drift/turn/0", "drift/turn/2"]) {
    expect(report.metrics[name]).toBeCloseTo(1, 5);
  }
  const wanted = advantagesOf(trajectories);
  for (const { id, sequences } of trajectories) {
    const credit = report.credit.get(id);
    const { ids, sampled } = sequences[0] as Sequence;
    ids.forEach((token, i) => {
      expect(credit?.[0]?.advantages[i]).toBeCloseTo(sampled[i] === 1 ? (wanted.get(token) as number) : 0, 6);
      expect(credit?.[0]?.seen?.logprobs[i]).toBe(sampled[i] === 1 ? said(LEARNER as number, token) : 0);
    });
  }
});

test("what needs no reward is computed while a judge still reads, and what it pays is trained as if it had been there", async () => {
  const settings = {
    recipe: {
      advantage: { name: "gae" },
      critic: { optimizer: { learningRate: 0.25 } },
      kl: { as: "reward" as const, coefficient: 0.5 },
    },
  };
  const paid = batch();
  const unpaid = paid.map((episode) => ({
    ...episode,
    turns: episode.turns.map((one) => ({ ...one, reward: 0, rewards: [] })),
  }));
  const plain = await run(paid, settings);
  const critic = new Notebook("value");
  const policy = new Notebook();
  // It answers only once the critic was asked about every episode.
  let answer = (_: Trajectory[]) => {};
  const judged = new Promise<Trajectory[]>((resolve) => {
    answer = resolve;
  });
  const forward = critic.forward.bind(critic);
  critic.forward = async (data) => {
    if (data.length === paid.length) answer(paid);
    return forward(data);
  };
  const report = await update({ policy, critic, reference, exact: true }, unpaid, plain.recipe, 1, 0.5, judged);
  expect(policy.calls.map(({ data }) => data)).toEqual(plain.policy.calls.map(({ data }) => data));
  expect(critic.calls.map(({ data }) => data)).toEqual(plain.critic.calls.map(({ data }) => data));
  expect(critic.asked).toHaveLength(1);
  expect(report.metrics["time/judge"]).toBeGreaterThanOrEqual(0);
  expect(plain.report.metrics["time/judge"]).toBeUndefined();
});
