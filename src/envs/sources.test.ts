/** What sources play. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError, SaccadeError } from "../core/errors.ts";
import "../index.ts";
import { makeEnv } from "./registry.ts";
import { evaluationEntries, openSource, rowDigests, type Source } from "./sources.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-sources-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes a file and says where it is. */
function put(name: string, content: string | readonly object[]): string {
  const file = join(folder, name);
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(
    file,
    typeof content === "string" ? content : content.map((row) => `${JSON.stringify(row)}\n`).join(""),
  );
  return file;
}

/** An environment whose episodes are the rows of the file in its option `data`. */
const TASK = put(
  "task.mjs",
  `import { readFileSync } from "node:fs";
   import { defineEnv, z } from "saccade";
   const rows = ({ data }) => data === undefined ? [{ q: "1+1" }, { q: "2+2" }, { q: "3+3" }] : readFileSync(data, "utf8").trim().split("\\n").map((line) => JSON.parse(line));
   export default defineEnv({
     id: "sums", options: z.strictObject({ data: z.string().optional() }),
     rows: (options) => rows(options).length,
     create: (options) => ({ reset: (seed) => [{ role: "user", content: [{ type: "text", text: rows(options)[seed].q }] }], step: () => { throw new Error("unused"); } }),
   });`,
);

describe("Tickets", () => {
  test("name episodes, with a seed or without, and their environments lie beside their file", async () => {
    const file = put("sub/train.jsonl", [
      { env: "../task.mjs", seed: 1 },
      { env: "frozen_lake", options: { size: 3 }, data_source: "small lakes" },
      { env: "frozen_lake", options: { size: 3 }, seed: 4 },
    ]);
    const { rows, envs, weight } = await openSource({ tickets: file, weight: 2 });
    expect(weight).toBe(2);
    expect(rows).toEqual([
      { env: TASK, options: {}, seed: 1, where: `${file}:1` },
      { env: "frozen_lake", options: { size: 3 }, label: "small lakes", where: `${file}:2` },
      { env: "frozen_lake", options: { size: 3 }, seed: 4, where: `${file}:3` },
    ]);
    expect(envs).toEqual([
      { env: TASK, options: {} },
      { env: "frozen_lake", options: { size: 3 } },
    ]);
  });
});

describe("Plans", () => {
  const plan = (text: string) => openSource({ plan: put("plan.yaml", text) });

  test("of VAGEN are read as they are: both of its worlds, seeds, limits and options", async () => {
    const { rows, envs } = await plan(
      `envs:
  - name: FrozenLake
    n_envs: 256
    data_source: frozenlake
    seed: [10001, 10256, 1]
    max_turns: 5
    response_length_per_turn: 512
    config: { size: 4, p: 0.8, is_slippery: false, render_mode: vision, max_actions_per_step: 5, prompt_format: wm, format_reward: 0.02 }
`,
    );
    expect(rows).toHaveLength(256);
    expect(new Set(rows?.map(({ seed }) => seed)).size).toBe(256);
    expect(rows?.every(({ seed = 0 }) => seed >= 10_001 && seed <= 10_256)).toBe(true);
    expect(rows?.[0]).toMatchObject({ env: "frozen_lake", label: "frozenlake" });
    expect(envs[0]?.options).toEqual({
      protocol: "world-model",
      observation: "image",
      size: 4,
      p: 0.8,
      slippery: false,
      maxActions: 5,
      formatReward: { kind: "bonus", bonus: 0.02 },
      maxTurns: 5,
    });
    const boxes = await plan(`envs:
  - name: Sokoban
    n_envs: 2
    seed_list: [7, 3, 9]
    config: { dim_room: [6, 7], num_boxes: 1, min_solution_steps: [1, 5], render_mode: vision, max_steps: 100 }
`);
    expect(boxes.rows?.map(({ seed }) => seed)).toEqual([7, 3]);
    const sokoban = (config: string) =>
      plan(`envs:\n  - { name: Sokoban, n_envs: 1, seed_list: [7], config: { ${config} } }\n`);
    const free = await sokoban('prompt_format: free_wm, action_sep: ","');
    expect(free.envs[0]?.options.protocol).toEqual({ name: "world-model", thinking: "free" });
    await makeEnv("sokoban", free.envs[0]?.options);
    await expect(sokoban("prompt_format: no_think")).rejects.toThrow(
      /prompt_format.*"free_think" or "wm" or "free_wm"/,
    );
    await expect(sokoban('action_sep: "|"')).rejects.toThrow("action_sep");
    await expect(sokoban("dim_room: 6")).rejects.toThrow("dim_room: 6 must be a list of two numbers");
    expect(boxes.envs[0]?.options).toMatchObject({ height: 6, width: 7, boxes: 1, minSolution: 1, maxSolution: 5 });
    // Options that our environments do not have would be refused here.
    for (const { env, options } of [...envs, ...boxes.envs]) await makeEnv(env, options);
  });

  test("may name environments of ours, with their own options, in JSON too", async () => {
    const { rows } = await plan(
      '{ "envs": [{ "name": "maze_2d/easy", "n_envs": 2, "seed": [5, 5], "config": { "width": 7 } }] }',
    );
    expect(rows).toMatchObject(Array(2).fill({ env: "maze_2d/easy", options: { width: 7 }, seed: 5 }));
  });

  test.each([
    ["seeds: [1]", "it has a list `envs` of"],
    ["envs: []", "it has a list `envs` of"],
    ["envs:\n  - name: FrozenLake\n", "envs.0.n_envs"],
    ["envs:\n  - {name: FrozenLake, n_envs: 1, weight: 3}", 'Unrecognized key: "weight"'],
    ["envs:\n  - {name: FrozenLake, n_envs: 1, config: {hole: 2}}", 'no option "hole"'],
    ["envs:\n  - {name: frozen_lake, n_envs: 9, seed: [1, 2, 1]}", 'envs[0]: "seed" [1, 2, 1] holds 2 seeds'],
    ["envs:\n  - {name: Navigation, n_envs: 1}", 'envs[0]: There is no environment "Navigation"'],
    ["envs: [", "can't be read as YAML"],
  ])("that can't be used are refused in one line: %s", async (text, message) => {
    const error = await plan(text).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(SaccadeError);
    expect((error as Error).message).toContain(message);
    expect((error as Error).message).not.toContain("\n");
  });
});

describe("Records", () => {
  test("are rows of a file that their environment plays, the seed being the row", async () => {
    const records = put("records.jsonl", [{ q: "1+2" }, { q: "2+3" }]);
    const { rows, data, envs } = await openSource({ records, env: TASK });
    expect(data).toEqual({ file: records });
    expect(rows?.map(({ seed, where }) => [seed, where])).toEqual([
      [0, `${records} row 1`],
      [1, `${records} row 2`],
    ]);
    const env = await makeEnv(TASK, envs[0]?.options);
    expect(await env.reset(1)).toMatchObject([{ content: [{ text: "2+3" }] }]);
  });

  test("of SkyRL's shape are played from Parquet, images and all", async () => {
    const env = put(
      "colours.mjs",
      `import { defineTask } from "saccade";
       import { fromOpenAI } from "saccade/images";
       const prompt = (row) => fromOpenAI(row.prompt);
       const reward = (reply, row) => (reply === row.reward_spec.ground_truth ? 1 : 0);
       export default defineTask({ id: "colours", data: [{}], prompt, reward });`,
    );
    const records = new URL("./golden/records.parquet", import.meta.url).pathname;
    const { rows, envs } = await openSource({ records, env });
    expect(rows).toHaveLength(3);
    const made = await makeEnv(env, envs[0]?.options);
    const [, asked] = await made.reset(2);
    expect(asked?.content).toMatchObject([{ type: "image", image: { width: 4, height: 2 } }, { type: "text" }]);
    expect(await made.step("red")).toMatchObject({ success: true, rewards: [{ name: "task", value: 1 }] });
  });

  test("an environment that has rows of its own is such a source without a file", async () => {
    expect(await openSource({ env: TASK })).toMatchObject({ kind: "env", rows: { length: 3 }, data: {} });
    expect(await openSource({ env: "frozen_lake" })).toEqual({
      kind: "env",
      weight: 1,
      envs: [{ env: "frozen_lake", options: {} }],
    });
  });

  test("rows are the same whatever the order of their fields", async () => {
    const a = await rowDigests(put("a.jsonl", [{ q: 1, a: { x: 1, y: 2 } }, { q: 2 }]));
    const b = await rowDigests(put("b.jsonl", [{ q: 3 }, { a: { y: 2, x: 1 }, q: 1 }]));
    expect([...a.keys()].filter((digest) => b.has(digest))).toHaveLength(1);
  });
});

test.each([
  [{ tickets: "none.jsonl" }, "There is no file"],
  [{ plan: "none.yaml" }, "There is no file"],
  [{ records: "none.jsonl", env: "frozen_lake" }, "frozen_lake has no rows"],
  [{ tickets: put("empty.jsonl", "\n") }, "has no rows"],
  [{ tickets: put("lost.jsonl", [{ env: "frozen_leak" }]) }, 'lost.jsonl:1: There is no environment "frozen_leak"'],
  [{ tickets: put("row.jsonl", [{ env: TASK, seed: 3 }]) }, "one of its rows, 0 to 2, but this row has 3"],
  [{ tickets: put("seedless.jsonl", [{ env: TASK }]) }, "this row has none"],
] as [Source, string][])("%o is refused", async (source, message) => {
  await expect(openSource(source)).rejects.toThrow(message);
});

describe("An evaluation", () => {
  test("plays rows of files as they are, each once, and environments on its seeds", async () => {
    const tickets = put("val.jsonl", [
      { env: "frozen_lake", seed: 1 },
      { env: "sokoban", seed: 1 },
      { env: "frozen_lake", seed: 2 },
      { env: "frozen_lake", seed: 1 },
      { env: "frozen_lake", seed: 1, data_source: "again" },
    ]);
    const sources = [await openSource({ tickets }), await openSource({ env: "sokoban" })];
    expect(evaluationEntries(sources, [8, 9])).toEqual([
      { env: "frozen_lake", options: {}, label: "frozen_lake", seeds: [1, 2] },
      { env: "sokoban", options: {}, label: "sokoban", seeds: [1] },
      { env: "frozen_lake", options: {}, label: "again", seeds: [1] },
      { env: "sokoban", options: {}, label: "sokoban", seeds: [8, 9] },
    ]);
  });

  test("wants a seed in each row, and seeds that are rows where there are rows", async () => {
    const tickets = await openSource({ tickets: put("noseed.jsonl", [{ env: "sokoban" }]) });
    expect(() => evaluationEntries([tickets], [1])).toThrow("noseed.jsonl:1: rows of an evaluation need a seed");
    const task = await openSource({ env: TASK });
    expect(() => evaluationEntries([task], [0, 3])).toThrow(ConfigError);
    expect(() => evaluationEntries([task], [0, 3])).toThrow("there is no row 3 to evaluate");
    expect(evaluationEntries([task], [0, 2])).toMatchObject([{ seeds: [0, 2] }]);
  });
});
