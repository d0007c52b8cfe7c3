/**
 * The reward lands on the token that earned it, from the environment to the advantages: an episode over the real renderer, joined and split, under every
 * estimator, with the numbers worked out by hand.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { makeWorldEnv } from "../envs/registry.ts";
import "../envs/index.ts";
import { tokenAgent } from "../rollout/agents.ts";
import { playEpisode } from "../rollout/episode.ts";
import { ScriptedSampler, testModel, tokenizer } from "../rollout/test-model.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import { ESTIMATORS } from "./advantages.ts";
import { rowsOf } from "./batch.ts";
import type { EstimatorOptions, TokenRow } from "./tokens.ts";

/** A lake whose goal is below and right of the player, and so is its hole until the player has moved right. */
const SEED = 187;
const SEEN = "goal: below, right; hole: below, right";
const EXPECTED = "goal: below, right; hole: below, same column";
const REPLIES = [
  `<observation>${SEEN}</observation><answer>right</answer><prediction>${EXPECTED}</prediction>`,
  `<observation>${EXPECTED}</observation><answer>up</answer><prediction>No idea.</prediction>`,
];
const OPTIONS: EstimatorOptions = { gamma: 1, lambda: 1, turnGamma: 1, turnLambda: 1, normalizeStd: false };

async function play(turns: "joined" | "split", sibling: number, pay: { state: number; transition: number }) {
  const env = await makeWorldEnv("frozen_lake", {
    size: 3,
    cellSize: 8,
    protocol: { name: "world-model", thinking: "free", bonus: 0 },
    worldModel: pay,
    prompt: "brief",
    maxTurns: 2,
  });
  const sampler = new ScriptedSampler((_, call) => REPLIES[call] as string);
  const agent = tokenAgent({
    model: testModel,
    sampler: () => sampler,
    temperature: 1,
    maxTokens: 400,
    turns,
    ...(turns === "split" && { history: 1 }),
  });
  const context = { env, seed: SEED, sibling, samplingSeed: 0 };
  return playEpisode({ name: "frozen_lake", env, agent: agent(context), seed: SEED, group: "g", sibling });
}

/** Numbers of the sampled tokens of the episode, in order. */
const sampledOf = (rows: readonly TokenRow[], arrays: readonly Float32Array[]) =>
  rows.flatMap((row, r) => Array.from(arrays[r] as Float32Array).filter((_, i) => row.sampled[i] === 1));

/** By the tokenizer alone: of a reply's ids, the first after which this much of it is written. */
function tokenThatWrites(reply: string, words: string): number {
  const ids = testModel.renderer.reply(reply);
  const end = reply.indexOf(words) + words.length;
  for (let k = 0; k < ids.length; k++) {
    if (tokenizer.decode(ids.slice(0, k + 1), { skipSpecial: true }).length >= end) return k;
  }
  throw new Error("never written");
}

describe.each(["joined", "split"] as const)("turns %s", (turns) => {
  // State and prediction are wholly right in turn 1 (2 and 0.5), the state in turn 2 (2); "No idea." claims nothing.
  const pay = { state: 2, transition: 0.5 };
  const first = testModel.renderer.reply(REPLIES[0] as string).length;
  const second = testModel.renderer.reply(REPLIES[1] as string).length;
  const at = {
    seen: tokenThatWrites(REPLIES[0] as string, SEEN),
    expected: tokenThatWrites(REPLIES[0] as string, EXPECTED),
    again: first + tokenThatWrites(REPLIES[1] as string, EXPECTED),
  };
  let episode: Trajectory;
  let rows: TokenRow[];
  beforeAll(async () => {
    episode = await play(turns, 0, pay);
    rows = rowsOf(episode);
  });

  test("each part stands on the token that ends what earned it", () => {
    expect(rows).toHaveLength(turns === "joined" ? 1 : 2);
    const paid = sampledOf(
      rows,
      rows.map((row) => row.rewards),
    );
    expect(paid).toHaveLength(first + second);
    expect(at.seen).toBeLessThan(at.expected);
    expect(at.expected).toBeLessThan(first - 1);
    const where = paid.flatMap((value, k) => (value === 0 ? [] : [[k, value]]));
    expect(where).toEqual([
      [at.seen, 2],
      [at.expected, 0.5],
      [at.again, 2],
    ]);
  });

  /** What is still to come, the token's own pay included. */
  const ahead = (k: number) => (k <= at.seen ? 4.5 : k <= at.expected ? 2.5 : k <= at.again ? 2 : 0);
  const credit = async (name: string) => {
    const estimator = ESTIMATORS.find((one) => one.name === name);
    // A sibling that is paid nothing for its words, for those that compare.
    const other = rowsOf(await play(turns, 1, { state: 0, transition: 0 }));
    const all = [...rows, ...other].map((row) => ({ ...row, values: new Float32Array(row.sampled.length) }));
    const advantages = estimator?.compute(all, OPTIONS).advantages ?? [];
    return sampledOf(rows, advantages.slice(0, rows.length));
  };

  test.each(["gae", "bi-level-gae"])("%s credits a token with what is paid from it on, by the token", async (name) => {
    (await credit(name)).forEach((value, k) => {
      expect(value).toBeCloseTo(ahead(k), 5);
    });
  });

  test("reinforce++ does the same, whitened over the batch", async () => {
    const got = await credit("reinforce++");
    const [high, low] = [got[0] as number, got.at(-1) as number];
    got.forEach((value, k) => {
      expect((value - low) / (high - low)).toBeCloseTo(ahead(k) / 4.5, 4);
    });
  });

  test("turn-gae gives a turn one number: all it pays and all that follows", async () => {
    (await credit("turn-gae")).forEach((value, k) => {
      expect(value).toBeCloseTo(k < first ? 4.5 : 2, 5);
    });
  });

  test.each(["grpo", "rloo", "maxrl"])("%s gives the episode one number, wherever it was earned", async (name) => {
    const got = await credit(name);
    expect(new Set(got).size).toBe(1);
    expect(got[0]).toBeGreaterThan(0);
  });
});

test("every estimator says how finely it gives credit", () => {
  expect(Object.fromEntries(ESTIMATORS.map(({ name, credits }) => [name, credits]))).toEqual({
    grpo: "episode",
    rloo: "episode",
    maxrl: "episode",
    "turn-gae": "turn",
    "reinforce++": "token",
    gae: "token",
    "bi-level-gae": "token",
  });
});
