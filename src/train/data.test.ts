/** What a run plays: in which order, how often, and never what is evaluated. */
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { text, user } from "../core/message.ts";
import { NativeEngine } from "../engine/index.ts";
import { defineEnv } from "../envs/define.ts";
import { register } from "../envs/registry.ts";
import type { OpenSource, SourceRow } from "../envs/sources.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { checkSources } from "./check-sources.ts";
import { EpisodeOrder, openData } from "./data.ts";
import { resolveRecipe } from "./recipe.ts";
import { type TestFolder, testFolder, tinyRecipe, weightsUnder } from "./test-run.ts";
import { train } from "./train.ts";

let folder: TestFolder;
let engine: NativeEngine;
beforeAll(async () => {
  engine = new NativeEngine({ threads: 2 });
  folder = await testFolder();
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

/** Rows that say a word, and whoever says it back is right. */
register(
  defineEnv({
    id: "echo",
    options: z.strictObject({ data: z.string().optional() }),
    rows: () => 10,
    create: () => ({
      reset: (seed) => [user(text(`Signal? ${seed}`))],
      step: (reply) => ({
        observation: [],
        rewards: [{ name: "task", value: reply.length % 2 }],
        terminated: true,
        truncated: false,
        success: reply.length % 2 === 1,
        info: { actions: [], parsed: true, wellFormed: true, valid: true },
      }),
      builtinReply: (agent) => (agent === "oracle" ? "go" : undefined),
    }),
  }),
);

function put(name: string, rows: readonly object[]): string {
  const place = mkdtempSync(join(folder.root, "data-"));
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, name), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return join(place, name);
}

const rows = (count: number): SourceRow[] =>
  Array.from({ length: count }, (_, i) => ({ env: "signals", options: { side: i + 1 }, where: `row ${i}` }));
const source = (count: number, weight = 1): OpenSource => ({ kind: "tickets", weight, envs: [], rows: rows(count) });
const rowOf = (episode: { env: { options?: Readonly<Record<string, unknown>> } }) =>
  (episode.env.options?.side as number) - 1;

describe("The order of episodes", () => {
  test("plays every row once in an epoch, each epoch in another order, with seeds of its own", () => {
    const order = new EpisodeOrder([source(7)], 3, new Set());
    const epochs = [0, 1, 2].map((epoch) => Array.from({ length: 7 }, (_, i) => order.at(7 * epoch + i)));
    for (const [number, epoch] of epochs.entries()) {
      expect(epoch.map(rowOf).toSorted()).toEqual([0, 1, 2, 3, 4, 5, 6]);
      expect(new Set(epoch.map((episode) => episode.epoch))).toEqual(new Set([number]));
    }
    expect(epochs[1]?.map(rowOf)).not.toEqual(epochs[0]?.map(rowOf));
    expect(new Set(epochs.flat().map(({ seed }) => seed)).size).toBe(21);
    expect(new EpisodeOrder([source(7)], 4, new Set()).at(0)).not.toEqual(order.at(0));
  });

  test("is the same wherever one begins to ask", () => {
    const sources = [
      source(5, 3),
      source(4),
      { kind: "env", weight: 2, envs: [{ env: "signals", options: {} }] } as const,
    ];
    const straight = new EpisodeOrder(sources, 1, new Set());
    const all = Array.from({ length: 60 }, (_, i) => straight.at(i));
    for (const from of [1, 17, 42]) {
      const resumed = new EpisodeOrder(sources, 1, new Set());
      expect(Array.from({ length: 60 - from }, (_, i) => resumed.at(from + i))).toEqual(all.slice(from));
    }
  });

  test("draws sources by weight, and each of them goes through its own rows", () => {
    const order = new EpisodeOrder([source(10, 3), source(4)], 0, new Set());
    const epochs = Array.from({ length: 4000 }, (_, i) => order.at(i)).filter((episode) => rowOf(episode) === 9).length;
    // Three quarters of the episodes are the first source's, and a tenth of those its last row.
    expect(Math.abs(epochs - 300)).toBeLessThan(20);
  });

  test("names entries of one environment apart by their options, and rows as their file does", () => {
    const entry = (side: number) =>
      ({ kind: "env", weight: 1, envs: [{ env: "signals", options: { side } }] }) as const;
    const named: OpenSource = { ...source(1), rows: [{ ...(rows(1)[0] as SourceRow), label: "easy" }] };
    const order = new EpisodeOrder([entry(1), entry(2), entry(1), source(1), named], 0, new Set());
    const found = Array.from({ length: 80 }, (_, i) => order.at(i));
    const labels = (side: number) => new Set(found.filter((one) => rowOf(one) === side - 1).map(({ label }) => label));
    expect(labels(1)).toEqual(new Set(["signals", "easy"]));
    expect(labels(2)).toEqual(new Set(["signals~2"]));
  });

  test("uses each demonstration of a source as often as it says, spread out, and each episode of reinforcement learning once", () => {
    const slow = { kind: "env", weight: 1, reuse: 3, envs: [{ env: "signals", options: {} }] } as const;
    const seedsOf = (order: EpisodeOrder) => Array.from({ length: 3 * 1024 * 2 }, (_, i) => order.at(i).seed);
    const seeds = seedsOf(new EpisodeOrder([slow], 0, new Set(), "demonstrations"));
    const counts = new Map<number, number>();
    for (const seed of seeds) counts.set(seed, (counts.get(seed) ?? 0) + 1);
    expect(new Set(counts.values())).toEqual(new Set([3]));
    expect(counts.size).toBe(2 * 1024);
    expect(new Set(seeds.slice(0, 16)).size).toBeGreaterThan(12);
    expect(new Set(seedsOf(new EpisodeOrder([slow], 0, new Set()))).size).toBe(seeds.length);
  });

  test("draws no seed that is evaluated", () => {
    const first = new EpisodeOrder([source(1)], 0, new Set()).at(0).seed;
    expect(new EpisodeOrder([source(1)], 0, new Set([first])).at(0).seed).not.toBe(first);
  });
});

describe("What is evaluated is not trained on", () => {
  const recipe = (changes: object) => tinyRecipe(folder.model, changes);
  const evaluate = (more: object) => ({ every: 100, before: false, ...more });

  test("tickets that name an evaluated seed are refused", async () => {
    const tickets = put("train.jsonl", [{ env: "frozen_lake", seed: 3 }, { env: "frozen_lake" }]);
    const val = put("val.jsonl", [{ env: "frozen_lake", seed: 3 }]);
    const overlap = recipe({ envs: [{ tickets }], evaluate: evaluate({ envs: [{ tickets: val }] }) });
    await expect(openData(overlap)).rejects.toThrow(
      "1 training episodes are also validation episodes: frozen_lake seed 3",
    );
    await expect(openData(recipe({ envs: [{ tickets }], evaluate: evaluate({ seeds: [0, 3] }) }))).rejects.toThrow(
      "seed 3",
    );
    await expect(train({ recipe: overlap, folder: join(folder.root, "refused"), engine })).rejects.toThrow("seed 3");
    const warm = { episodes: 4, envs: [{ tickets }], optimizer: { learningRate: 0.01 } };
    const imitated = recipe({
      envs: [{ env: "sokoban" }],
      warmStart: warm,
      evaluate: evaluate({ envs: [{ tickets: val }] }),
    });
    await expect(openData(imitated)).rejects.toThrow("frozen_lake seed 3");
  });

  test("seeds of plans and tickets are reserved, so that none is drawn", async () => {
    const val = put("val.jsonl", [
      { env: "sokoban", seed: 11 },
      { env: "sokoban", seed: 12 },
    ]);
    const { reserved, evaluation } = await openData(recipe({ evaluate: evaluate({ envs: [{ tickets: val }] }) }));
    expect([...reserved]).toEqual([11, 12]);
    expect(evaluation).toEqual([{ env: "sokoban", options: {}, label: "sokoban", seeds: [11, 12] }]);
  });

  test("rows of data that are held out are left out of training", async () => {
    const held = await openData(recipe({ envs: [{ env: "echo" }], evaluate: evaluate({ seeds: [2, 4] }) }));
    expect(held.train[0]?.rows?.map(({ seed }) => seed)).toEqual([0, 1, 5, 6, 7, 8, 9]);
    expect(held.evaluation).toMatchObject([{ env: "echo", seeds: [2, 3, 4] }]);
    // Rows are no seeds: another environment may draw 2.
    expect(held.reserved.size).toBe(0);
    await expect(openData(recipe({ envs: [{ env: "echo" }], evaluate: evaluate({ seeds: [0, 9] }) }))).rejects.toThrow(
      "Every row of echo is evaluated",
    );
    await expect(openData(recipe({ envs: [{ env: "echo" }] }))).rejects.toThrow(
      "there is no row 1000000000 to evaluate",
    );
  });

  test("rows that are not there are no error of a run that never evaluates; those that are there stay held out", async () => {
    const never = async (seeds: [number, number]) => {
      const evaluate = { every: 0, seeds };
      return (await openData(tinyRecipe(folder.model, { envs: [{ env: "echo" }], evaluate }))).train[0]?.rows?.length;
    };
    expect(await never([1_000_000_000, 1_000_000_009])).toBe(10);
    expect(await never([2, 4])).toBe(7);
    expect(await never([8, 11])).toBe(8);
  });

  test("two files that share a row are refused, whatever its place", async () => {
    const numbered = (from: number) => Array.from({ length: 10 }, (_, i) => ({ question: from + i }));
    const files = [put("train.jsonl", numbered(0)), put("near.jsonl", numbered(9)), put("far.jsonl", numbered(10))];
    const [records = "", near = "", far = ""] = files;
    const against = (file: string) =>
      openData(
        recipe({ envs: [{ records, env: "echo" }], evaluate: evaluate({ envs: [{ records: file, env: "echo" }] }) }),
      );
    await expect(against(near)).rejects.toThrow(`${records}:10 is ${near}:1`);
    await expect(against(records)).rejects.toThrow("Every row of");
    expect((await against(far)).train[0]?.rows).toHaveLength(10);
  });

  test("demonstrations of evaluated episodes are refused", async () => {
    const files = [put("demos.jsonl", [{ env: "signals", seed: 1_000_000_001, messages: [] }])];
    const shown = recipe({ warmStart: { files, optimizer: { learningRate: 0.01 } }, steps: 0 });
    await expect(checkSources(shown)).rejects.toThrow("signals seed 1000000001");
    await expect(train({ recipe: shown, folder: join(folder.root, "shown"), engine })).rejects.toThrow("signals seed");
  });
});

describe("Recipes", () => {
  test.each([
    [{ env: "a", weight: -1 }, /envs\.0\.weight \(-1\): /],
    [{ tickets: 5 }, /envs\.0\.tickets \(5\): /],
    [{ ticket: "a.jsonl" }, /envs\.0 \(\{"ticket":"a.jsonl"\}\): a source is \{ env, options \}, \{ tickets \}/],
    [{ records: "a.jsonl" }, /envs\.0\.env: /],
  ])("with a source like %o are refused by field", (wrong, message) => {
    expect(() =>
      resolveRecipe({ name: "x", model: "m", steps: 1, optimizer: { learningRate: 1 }, envs: [wrong] }),
    ).toThrow(message);
  });

  test("are tried before they run: every environment of every file, and an oracle where one must play", async () => {
    const wrong = put("wrong.jsonl", [{ env: "frozen_lake" }, { env: "frozen_lake", options: { sise: 3 } }]);
    await expect(checkSources(tinyRecipe(folder.model, { envs: [{ tickets: wrong }] }))).rejects.toThrow(
      'unknown option "sise"',
    );
    const val = put("val.jsonl", [{ env: "frozen_lake", seed: 1, options: { sise: 3 } }]);
    const evaluated = tinyRecipe(folder.model, { evaluate: { envs: [{ tickets: val }] } });
    await expect(checkSources(evaluated)).rejects.toThrow('unknown option "sise"');
    const faulty = new URL("../rollout/test-faulty-env.ts", import.meta.url).pathname;
    const warmStart = { episodes: 4, optimizer: { learningRate: 0.01 } };
    await expect(checkSources(tinyRecipe(folder.model, { envs: [{ env: faulty }], warmStart }))).rejects.toThrow(
      "no oracle",
    );
    const echo = { envs: [{ env: "echo" }], evaluate: { seeds: [0, 1] as [number, number] } };
    await checkSources(tinyRecipe(folder.model, { ...echo, warmStart }));
  });
});

test("a run that is stopped in the middle of an epoch goes on with the row it had not played, to the same bits", {
  timeout: 120_000,
}, async () => {
  const tickets = put(
    "mixed.jsonl",
    Array.from({ length: 5 }, (_, i) => ({
      env: "frozen_lake",
      options: { size: 3 + (i % 2), protocol: "keyword", prompt: "brief", maxTurns: 1 },
    })),
  );
  const recipe = tinyRecipe(folder.model, {
    envs: [{ env: "echo", weight: 2 }, { tickets }],
    evaluate: { every: 100, before: false, greedy: false, seeds: [0, 1] },
    warmStart: { episodes: 12, batch: 4, envs: [{ env: "echo" }], optimizer: { learningRate: 0.01 } },
    steps: 6,
    groups: 4,
    siblings: 2,
    checkpoint: { every: 1, keep: 20 },
    sampling: { maxTokens: 4, contextTokens: 512 },
  });
  const played = async (run: string) => {
    const found: string[] = [];
    for (let step = 4; step <= 9; step++) {
      for (const { group, seed, split } of await readTrajectories(run, step))
        if (split === "train") found.push(`${group} ${seed}`);
    }
    return [...new Set(found)];
  };
  const straight = join(folder.root, "straight");
  await train({ recipe, folder: straight, engine });
  const stopped = join(folder.root, "stopped");
  for (let part = 1; part <= 6; part++) {
    const stop = new AbortController();
    const onStep = () => {
      stop.abort();
      return undefined;
    };
    await train({ recipe, folder: stopped, engine, signal: stop.signal, onStep });
  }
  expect(await played(stopped)).toEqual(await played(straight));
  expect(weightsUnder(join(stopped, "checkpoints/step-9"))).toEqual(weightsUnder(join(straight, "checkpoints/step-9")));
  // 24 groups, two thirds of them from 8 rows: those were begun again, and none was played twice in an epoch.
  const echoed = (await played(straight)).filter((name) => name.startsWith("echo")).map((name) => name.split(" ")[1]);
  expect(echoed.length).toBeGreaterThan(8);
  expect(new Set(echoed.slice(0, 8))).toEqual(new Set(["2", "3", "4", "5", "6", "7", "8", "9"]));
});
