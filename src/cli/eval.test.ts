/** The command: its grammar, what it prints and how it ends. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import "../index.ts";
import { makeWorldEnv } from "../envs/index.ts";
import type { Report } from "../evaluate/index.ts";
import { TestServer } from "../evaluate/test-server.ts";
import { EXIT } from "./common.ts";
import { evalCommand, parsePrice, parseSeeds } from "./eval.ts";

let root: string;
let server: TestServer;
let printed: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "saccade-eval-cli-"));
  server = await new TestServer(() => ({ text: "<action>left</action>" })).start();
  printed = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    printed += String(text);
    return true;
  });
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
});
afterEach(async () => {
  vi.restoreAllMocks();
  process.exitCode = 0;
  expect(server.complaints).toEqual([]);
  await server.stop();
  await rm(root, { recursive: true, force: true });
});

async function saccadeEval(...args: string[]): Promise<typeof process.exitCode> {
  const { model } = server.model("server");
  await evalCommand()
    .exitOverride()
    .parseAsync([model, "--out", join(root, "out"), ...args], { from: "user" });
  return process.exitCode;
}

const LAKE = [
  "--env",
  "frozen_lake",
  "--seeds",
  "200..203",
  "--protocol",
  "keyword",
  "--max-turns",
  "3",
  "--set",
  "cellSize=16",
];

describe("saccade eval", () => {
  test("plays what a model was trained on, as it was asked then, when nothing else is named", async () => {
    const flags = ["maze-2d", "--seeds", "1000000..1000011", "--greedy", "--out", join(root, "own")];
    await evalCommand().exitOverride().parseAsync(flags, { from: "user" });
    expect(process.exitCode).toBe(EXIT.ok);
    expect(printed).toContain("12 seeds · temperature 0 · maxTokens 32");
    expect(printed).toContain("cellSize 16");
    const { envs } = JSON.parse(await readFile(join(root, "own", "report.json"), "utf8")) as Report;
    // Nearly all that can be done within its fifteen turns, which random play never does.
    expect(envs[0]?.success.count).toBeGreaterThanOrEqual((envs[0]?.against.oracle?.count ?? 13) - 2);
  });

  test("prints the report and leaves it in the folder", async () => {
    expect(await saccadeEval(...LAKE, "--price", "1/2", "--greedy", "--max-tokens", "50")).toBe(EXIT.ok);
    expect(printed).toMatch(/\| frozen_lake \| \d+\.\d % \| .*\| 0\.0 % \|/);
    expect(printed).toContain("4 seeds · maxTokens 50 · temperature 0 · whole history");
    expect(await readFile(join(root, "out", "report.md"), "utf8")).toBe(printed);
    expect(server.asked.every(({ temperature, maxTokens }) => temperature === 0 && maxTokens === 50)).toBe(true);
  });

  test("says how many turns were as good as the oracle's, by distance, turn and ways to go", async () => {
    await saccadeEval(...LAKE);
    expect(printed).toMatch(
      /Turns that were as good as the oracle's:\n- frozen_lake: \d+\.\d % of \d+; by actions to the goal 1: .*; by turn 1: .*; by ways to go \d: /,
    );
    // Who always goes left is right exactly where the oracle's way is to the left, whatever the distance.
    const env = await makeWorldEnv("frozen_lake", { protocol: "keyword", maxTurns: 3 });
    let [right, count] = [0, 0];
    for (let seed = 200; seed <= 203; seed++) {
      await env.reset(seed);
      for (let turn = 0, over = false; turn < 3 && !over; turn++) {
        const before = (await env.world.solve?.())?.length ?? 0;
        over = (await env.step("<action>left</action>")).terminated;
        const after = (await env.world.solve?.())?.length ?? 0;
        count += 1;
        right += (over ? await env.world.success() : after === before - 1) ? 1 : 0;
      }
    }
    const report = JSON.parse(await readFile(join(root, "out", "report.json"), "utf8")) as Report;
    expect(report.envs[0]?.decisions).toMatchObject({ count, value: right / count });
  });

  test("--json prints the same numbers for programs", async () => {
    await saccadeEval(...LAKE, "--json");
    const report = JSON.parse(printed) as Report & { folder: string };
    expect(report).toMatchObject({ seeds: 4, repeats: 1, complete: true, folder: join(root, "out") });
    expect(report.envs[0]).toMatchObject({ env: "frozen_lake", maxTurns: 3, success: { total: 4 } });
    const { folder: _, ...rest } = report;
    expect(JSON.parse(await readFile(join(root, "out", "report.json"), "utf8"))).toEqual(rest);
  });

  test("episodes that failed for our reasons make it end with 1", async () => {
    server.script = () => ({ status: 400, message: "unknown parameter" });
    expect(await saccadeEval(...LAKE)).toBe(EXIT.failed);
    expect(printed).toContain("**Not complete**: of 4 episodes 4 failed for our reasons");
    expect(printed).toContain("4 × The agent failed in turn 1: HTTP 400: unknown parameter");
  });

  test("an interrupt keeps what was played, says so, and ends with 130; the same command plays the rest", async () => {
    server.script = (_, call) => {
      if (call === 4) process.emit("SIGINT");
      return { text: "<action>left</action>" };
    };
    expect(await saccadeEval(...LAKE, "--concurrency", "1")).toBe(EXIT.interrupted);
    expect(printed).toContain("**Not complete**");
    expect(process.listenerCount("SIGINT")).toBe(0);
    printed = "";
    server.script = () => ({ text: "<action>left</action>" });
    expect(await saccadeEval(...LAKE)).toBe(EXIT.ok);
    expect(printed).not.toContain("Not complete");
  });

  test("the time left goes by the episodes of this run, the first one and no older ones included", async () => {
    let clock = 0;
    vi.spyOn(performance, "now").mockImplementation(() => clock);
    const said = vi.mocked(process.stderr.write);
    const left = () =>
      said.mock.calls.map(([text]) => /eval: episodes \d+\/4, .* s left/.exec(String(text))?.[0]).find(Boolean);
    const play = (last: number) => {
      let calls = 0;
      server.script = () => {
        clock += 5000;
        calls += 1;
        if (calls === last) process.emit("SIGINT");
        return { text: "<action>left</action>" };
      };
      return saccadeEval(...LAKE, "--max-turns", "1", "--concurrency", "1");
    };
    expect(await play(2)).toBe(EXIT.interrupted);
    // Something is said before anything is played.
    expect(String(said.mock.calls[0]?.[0])).toBe("eval: opening environments 0 s\n");
    expect(left()).toMatch(/1\/4, .*about 15 s left$/);
    said.mockClear();
    expect(await play(Number.POSITIVE_INFINITY)).toBe(EXIT.ok);
    expect(left()).toMatch(/2\/4, .*about 10 s left$/);
  });

  test("files of episodes are played row by row: tickets, a plan, and records with the environment that plays them", async () => {
    const lake = { protocol: "keyword", maxTurns: 1 };
    const tickets = join(root, "val.jsonl");
    const rows = [
      { env: "frozen_lake", seed: 3, options: { ...lake, size: 3 } },
      { env: "frozen_lake", seed: 3, options: { ...lake, size: 5 } },
      { env: "frozen_lake", seed: 4, options: { ...lake, size: 3 } },
      { env: "frozen_lake", seed: 3, options: lake, data_source: "plain" },
    ];
    await writeFile(tickets, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    const plan = join(root, "plan.yaml");
    await writeFile(plan, "envs:\n  - {name: FrozenLake, n_envs: 5, seed: [1, 9, 1], max_turns: 1}\n");
    expect(await saccadeEval("--tickets", tickets, "--plan", plan, "--json", "--out", join(root, "files"))).toBe(
      EXIT.ok,
    );
    const report = JSON.parse(printed) as Report;
    expect(report.envs.map(({ env, success }) => [env, success.total])).toEqual([
      ["frozen_lake", 2],
      ["frozen_lake~2", 1],
      ["plain", 1],
      ["frozen_lake~3", 5],
    ]);
    // What is asked is what the rows say: two of them differ in nothing but the size of their lake.
    expect(new Set(report.envs.map(({ against }) => against.oracle?.total))).toEqual(new Set([1, 2, 5]));

    const env = join(root, "task.mjs");
    const data = join(root, "rows.jsonl");
    await writeFile(data, [1, 2, 3].map((n) => `${JSON.stringify({ n })}\n`).join(""));
    await writeFile(
      env,
      `import { defineTask, text, user } from "saccade";
       const prompt = ({ n }) => [user(text("n" + n))];
       export default defineTask({ id: "count", data: [{ n: 0 }], prompt, reward: (_, { n }) => n === 2 ? 1 : 0 });`,
    );
    printed = "";
    expect(await saccadeEval("--records", data, "--env", env, "--json", "--out", join(root, "records"))).toBe(EXIT.ok);
    expect((JSON.parse(printed) as Report).envs).toMatchObject([{ success: { count: 1, total: 3 } }]);
    printed = "";
    await saccadeEval("--records", data, "--env", env, "--seeds", "1..2", "--json", "--out", join(root, "two"));
    expect((JSON.parse(printed) as Report).envs).toMatchObject([{ success: { count: 1, total: 2 } }]);
  });

  test("wrong flags are named", async () => {
    await expect(saccadeEval("--records", "x.jsonl")).rejects.toThrow(/exactly one --env/);
    await expect(saccadeEval("--tickets", join(root, "none.jsonl"))).rejects.toThrow(/There is no file/);
    await expect(saccadeEval("--env", "frozen_lake", "--seeds", "9..1")).rejects.toThrow(/--seeds takes/);
    await expect(saccadeEval(...LAKE, "--greedy", "--temperature", "1")).rejects.toThrow(/one of --greedy/);
    await expect(saccadeEval("--seeds", "1..2")).rejects.toThrow(/name an environment/);
    await expect(saccadeEval("--env", "frozen_lake")).rejects.toThrow(/give seeds/);
    expect(server.asked).toEqual([]);
  });
});

describe("Values of flags", () => {
  test("seeds are numbers and ranges with both ends, each once", () => {
    expect(parseSeeds("0..3")).toEqual([0, 1, 2, 3]);
    expect(parseSeeds("7, 1..2,2")).toEqual([7, 1, 2]);
    for (const wrong of ["", "a", "1..", "-1", "3..1", "1.5"]) expect(() => parseSeeds(wrong)).toThrow(/--seeds/);
  });

  test("a price is two numbers", () => {
    expect(parsePrice("2.5/10")).toEqual({ input: 2.5, output: 10 });
    for (const wrong of ["", "1", "1/", "a/b", "1/2/3", "-1/2"]) expect(() => parsePrice(wrong)).toThrow(/--price/);
  });
});
