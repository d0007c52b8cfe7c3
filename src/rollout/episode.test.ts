import { describe, expect, test } from "vitest";
import type { Step } from "../envs/env.ts";
import { makeWorldEnv } from "../envs/registry.ts";
import "../envs/index.ts";
import { type Agent, tokenAgent } from "./agents.ts";
import { playEpisode } from "./episode.ts";
import { ScriptedSampler, testModel } from "./test-model.ts";

const tagged = { protocol: { name: "tuple", tags: true }, observation: "text", maxTurns: 50 } as const;
const SAID = "<observation>o</observation><justification>j</justification><action>('move', 9)</action>";

async function playTagged(contextTokens: number, said: (call: number) => string, maxTurns?: number) {
  const env = await makeWorldEnv("maze_2d/easy", tagged);
  const sampler = new ScriptedSampler((_, call) => said(call));
  const options = { model: testModel, sampler: () => sampler, temperature: 1, maxTokens: 200, contextTokens };
  const agent: Agent = tokenAgent(options)({ env, seed: 0, sibling: 0, samplingSeed: 0 });
  return playEpisode({ name: "maze_2d/easy", env, agent, seed: 0, ...(maxTurns && { maxTurns }) });
}

describe("an episode that the environment did not end", () => {
  test.each([
    ["the context overflows", 2000, undefined, "max_tokens"],
    ["the caller's turn limit is met", 4096, 3, "max_turns"],
  ] as const)("is paid its format reward when %s", async (_, context, maxTurns, end) => {
    const played = await playTagged(context, (call) => (call === 1 ? "I would rather not." : SAID), maxTurns);
    expect(played.end).toBe(end);
    expect(played.error).toBeUndefined();
    const { turns } = played;
    expect(turns.length).toBeGreaterThan(2);
    expect(turns.slice(0, -1).map(({ reward }) => reward)).toEqual(turns.slice(1).map(() => 0));
    const formed = turns.filter(({ info }) => info.wellFormed).length;
    expect(formed).toBeGreaterThan(1);
    const format = 0.2 * (formed / turns.length);
    expect(turns.at(-1)?.rewards).toEqual([
      { name: "task", value: 0 },
      { name: "format", value: format },
    ]);
    expect(turns.at(-1)?.reward).toBe(format);
    expect(played.reward).toBe(format);
  });

  test("fails, and says by how much, when not even the first prompt fits", async () => {
    const played = await playTagged(20, () => SAID);
    expect(played).toMatchObject({ end: "engine_error", turns: [], reward: 0, sequences: [] });
    expect(played.error).toMatch(/^The first prompt has \d+ tokens, and the context has 20 /);
  });
});

describe("what a user's environment returns is checked", () => {
  const agent = (): Agent => ({ reply: async () => "four" });
  const info = { actions: [], parsed: true, wellFormed: true, valid: true };
  const end = { observation: [], terminated: true, truncated: false, info };

  test.each([
    ["no list", undefined, "a list of parts"],
    ["a part without a name", [{ value: 1 }], "rewards[0].name must be letters"],
    ["a name that can't be a metric", [{ name: "my reward", value: 1 }], "letters, digits"],
    [
      "a value that is no number",
      [{ name: "task", value: Number.NaN }],
      'x, seed 0: step().rewards[0].value ("task") must be a finite number; got NaN',
    ],
    ["an infinite one", [{ name: "task", value: Number.NEGATIVE_INFINITY }], "must be a finite number; got -Infinity"],
    ["a sum that is not finite", [1, 2].map((i) => ({ name: `part${i}`, value: 1e308 })), "their sum is Infinity"],
    ["a span outside the reply", [{ name: "task", value: 1, span: [2, 5] }], "0..4; got [2,5]"],
    ["a claim outside the reply", [{ name: "task", value: 1, claims: [{ span: [0, 9], right: true }] }], "got [0,9]"],
    ["a span that ends before it starts", [{ name: "task", value: 1, span: [2, 1] }], "got [2,1]"],
  ])("%s", async (_, rewards, hint) => {
    const env = { reset: () => [], step: () => ({ ...end, rewards }) as unknown as Step };
    const played = await playEpisode({ name: "x", env, agent: agent(), seed: 0 });
    expect(played.end).toBe("env_error");
    expect(played.error).toContain(hint);
  });
});
