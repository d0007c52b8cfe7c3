/** The commands as a shell sees them, run from the build. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { makeWorldEnv, readDemos, readTickets, WorldEnv } from "../envs/index.ts";
import { recipeNames } from "../train/index.ts";
import { Progress, parseSettings } from "./common.ts";
import { demosCommand } from "./demos.ts";
import { sftRecipe } from "./sft.ts";
import { ticketsCommand } from "./tickets.ts";

const bin = resolve(import.meta.dirname, "../../dist/cli.js");
const folder = mkdtempSync(join(tmpdir(), "saccade-cli-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function saccade(args: string[], input = ""): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [bin, ...args], { cwd: folder, encoding: "utf8", input, maxBuffer: 1 << 26 });
}
const lines = (text: string) =>
  text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe("saccade play", () => {
  test("prints one JSON line per turn, the last one with the verdict", () => {
    const turns = lines(saccade(["play", "maze_2d/easy", "--seed", "4", "--oracle", "--json"]).stdout);
    expect(turns.at(-1)).toMatchObject({ terminated: true, truncated: false, success: true, reward: 1 });
    for (const turn of turns) expect(turn.frame).toMatch(/^[0-9a-f]{32}$/);
    expect(turns.slice(1).map((turn) => turn.seen)).toEqual(turns.slice(0, -1).map((turn) => turn.frame));
  });

  test("reads replies from standard input, and a malformed one costs a turn and gets feedback", () => {
    const [first, second] = lines(saccade(["play", "maze_2d/easy", "--json"], "what?\n('move', 0)\n").stdout);
    expect(first).toMatchObject({ turn: 1, parsed: false, reward: 0, terminated: false });
    expect(first?.feedback).toMatch(/\w/);
    expect(second).toMatchObject({ turn: 2, parsed: true });
  });

  test("plays at random to the turn limit", () => {
    const turns = lines(saccade(["play", "sokoban", "--random", "--json", "--max-turns", "3", "--seed", "11"]).stdout);
    expect(turns.at(-1)).toMatchObject({ turn: 3, truncated: true, success: false });
  });

  test("takes a bare command from a person and draws the image", () => {
    const { stdout } = saccade(["play", "frozen_lake", "--seed", "0"], "left\n");
    // A pipe gets no colours, so the image is drawn in shades.
    expect(stdout).toMatch(/[.:=+*#%@-]{20}/);
    expect(stdout).not.toContain("\x1b");
    expect(stdout).toContain("Success");
  });

  test("shows control characters of an environment instead of obeying them, also in its errors", () => {
    writeFileSync(
      join(folder, "evil.ts"),
      `import { assistant, defineEnv, text, user } from "saccade";
const evil = "\\x1b]0;owned\\x07\\x1b[2J\\x9b2Jhello";
export default defineEnv({ id: "evil", summary: "", create: () => ({
  reset: (seed) => { if (seed === 1) throw new Error(evil); return [user(text(evil))]; },
  step: () => ({ observation: [user(text(evil))], rewards: [], terminated: true, truncated: false, info: { parsed: false, actions: [], executed: 0 } }),
}) });`,
    );
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be printed
    const control = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;
    for (const args of [[], ["--json"], ["--seed", "1"]]) {
      const { stdout, stderr } = saccade(["play", "./evil.ts", ...args], "x\n");
      expect([args, stdout + stderr]).toEqual([args, expect.stringContaining("hello")]);
      expect([args, control.exec(stdout + stderr)]).toEqual([args, null]);
    }
  });

  test("lets the model that comes with Saccade play, with the options it was trained with", () => {
    const ends = [0, 1, 2, 3, 4, 5].map((seed) => {
      const args = ["play", "maze_2d/easy", "--agent", "maze-2d", "--greedy", "--seed", `${seed}`];
      return lines(saccade([...args, "--max-turns", "24", "--json"]).stdout).at(-1);
    });
    // At random nobody arrives.
    expect(ends.filter((end) => end?.success).length).toBeGreaterThanOrEqual(5);
    expect(ends[0]?.reply).toContain("<justification>");
  });

  test("lets the generalist play several worlds", () => {
    const ends = ["sokoban", "sliding_block/easy"].flatMap((world) =>
      [0, 1].map((seed) => {
        const args = ["play", world, "--agent", "generalist", "--greedy", "--seed", `${1_000_000_000 + seed}`];
        return lines(saccade([...args, "--json"]).stdout).at(-1);
      }),
    );
    expect(ends.filter((end) => end?.success).length).toBeGreaterThanOrEqual(3);
  });

  test.each([
    [["--oracle", "--agent", "maze-2d"], "Choose one of --oracle and --agent."],
    [["--greedy"], "--greedy is for a model: name one with --agent."],
    [["--agent", "maze-3d"], "maze-2d"],
  ])("%s is refused with what to do instead", (flags, words) => {
    const { status, stderr } = saccade(["play", "maze_2d/easy", ...flags]);
    expect(status).toBe(2);
    expect(stderr).toContain(words);
  });

  test("loads no package that its world does without", () => {
    const loaded = (env: string) => {
      const debug = { ...process.env, NODE_DEBUG: "esm" };
      const run = [bin, "play", env, "--random", "--json", "--max-turns", "1"];
      const { stderr } = spawnSync(process.execPath, run, { encoding: "utf8", env: debug, maxBuffer: 1 << 28 });
      const names = stderr.matchAll(/\/node_modules\/((?:@[\w-]+\/)?[\w-]+)\//g);
      return [...new Set([...names].map(([, name]) => name))].sort();
    };
    expect(loaded("frozen_lake")).toEqual(["commander", "jiti", "zod"]);
    expect(loaded("fetch_reach/easy")).toEqual(["@mujoco/mujoco", "commander", "jiti", "zod"]);
  });
});

describe("saccade data demos", () => {
  test("writes conversations that read back with their frames, and resumes a file that was cut", async () => {
    const whole = saccade(["data", "demos", "sokoban", "--episodes", "6", "--out", "whole.jsonl", "--seed", "20"]);
    expect(whole.status).toBe(0);
    const expected = readFileSync(join(folder, "whole.jsonl"), "utf8");
    expect(saccade(["data", "demos", "sokoban", "--episodes", "3", "--out", "cut.jsonl", "--seed", "20"]).status).toBe(
      0,
    );
    truncateSync(join(folder, "cut.jsonl"), readFileSync(join(folder, "cut.jsonl")).length - 40);
    expect(saccade(["data", "demos", "sokoban", "--episodes", "6", "--out", "cut.jsonl", "--seed", "20"]).status).toBe(
      2,
    );
    const resumed = ["data", "demos", "sokoban", "--episodes", "6", "--out", "cut.jsonl", "--seed", "20", "--resume"];
    expect(saccade(resumed).status).toBe(0);
    expect(readFileSync(join(folder, "cut.jsonl"), "utf8")).toBe(expected.replaceAll("whole.frames", "cut.frames"));

    const env = await makeWorldEnv("sokoban");
    for await (const demo of readDemos(join(folder, "whole.jsonl"))) {
      expect(demo.success).toBe(true);
      const [first] = await env.reset(demo.seed);
      expect(demo.messages[0]).toEqual({
        ...first,
        ...("form" in demo.messages[0]! ? { form: demo.messages[0].form } : {}),
      });
    }
  });

  test("embeds frames as data URIs on request", async () => {
    expect(saccade(["data", "demos", "maze_2d/easy", "--episodes", "1", "--out", "e.jsonl", "--embed"]).status).toBe(0);
    expect(existsSync(join(folder, "e.frames"))).toBe(false);
    for await (const demo of readDemos(join(folder, "e.jsonl")))
      expect(demo.messages[0]?.content[1]?.type).toBe("image");
  });
});

describe("saccade data tickets", () => {
  test("gives validation rows fixed seeds and training rows none", async () => {
    expect(
      saccade([
        "data",
        "tickets",
        "maze_2d/easy",
        "--rows",
        "4",
        "--split",
        "val",
        "--seed",
        "100",
        "--out",
        "val.jsonl",
      ]).status,
    ).toBe(0);
    expect(
      saccade(["data", "tickets", "maze_2d/easy", "--rows", "2", "--split", "train", "--out", "train.jsonl"]).status,
    ).toBe(0);
    expect((await readTickets(join(folder, "val.jsonl"))).map((ticket) => ticket.seed)).toEqual([100, 101, 102, 103]);
    expect((await readTickets(join(folder, "train.jsonl"))).map((ticket) => ticket.seed)).toEqual([
      undefined,
      undefined,
    ]);
  });

  test("never overwrites a file", () => {
    writeFileSync(join(folder, "mine.jsonl"), "precious");
    const { status, stderr } = saccade([
      "data",
      "tickets",
      "sokoban",
      "--rows",
      "1",
      "--split",
      "val",
      "--out",
      "mine.jsonl",
    ]);
    expect(status).toBe(2);
    expect(stderr).toContain("exists already");
    expect(readFileSync(join(folder, "mine.jsonl"), "utf8")).toBe("precious");
  });
});

describe("saccade", () => {
  test.each([
    ["--help"],
    ["envs", "--help"],
    ["play", "--help"],
    ["data", "demos", "--help"],
    ["data", "tickets", "--help"],
    ["recipes", "--help"],
    ["run", "--help"],
    ["doctor", "--help"],
  ])("%s %s explains itself with exit code 0", (...args) => {
    const { status, stdout } = saccade(args);
    expect(status).toBe(0);
    expect(stdout).toContain("Usage: saccade");
  });

  test("doctor says what the machine has", () => {
    const { status, stdout } = saccade(["doctor", "--json"]);
    expect(status).toBe(0);
    expect((JSON.parse(stdout) as { part: string }[]).map((finding) => finding.part)).toContain("Node");
  });

  test("--set builds nested options and refuses a key without a value", () => {
    expect(parseSettings(["size=8", "protocol.tags=true", "name=x y"])).toEqual({
      size: 8,
      protocol: { tags: true },
      name: "x y",
    });
    expect(() => parseSettings(["size"])).toThrow("key=value");
  });

  test("demos, tickets and sft close the environments they make", async () => {
    const [data, rows] = [join(folder, "closed.jsonl"), join(folder, "closed-rows.jsonl")];
    const close = vi.spyOn(WorldEnv.prototype, "close");
    const said = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    try {
      await demosCommand().parseAsync(["frozen_lake", "--episodes", "1", "--out", data], { from: "user" });
      expect(close).toHaveBeenCalledTimes(1);
      // A file that is there already is refused, once the environment was made.
      await expect(
        demosCommand().parseAsync(["frozen_lake", "--episodes", "1", "--out", data], { from: "user" }),
      ).rejects.toThrow("exists already");
      expect(close).toHaveBeenCalledTimes(2);
      const args = ["frozen_lake", "--rows", "1", "--split", "val", "--out", rows];
      await ticketsCommand().parseAsync(args, { from: "user" });
      expect(close).toHaveBeenCalledTimes(3);
      await sftRecipe("preset:nano", [data]);
      expect(close).toHaveBeenCalledTimes(4);
    } finally {
      close.mockRestore();
      said.mockRestore();
    }
  });

  test("progress counts what is left by what this run has done, since it began", () => {
    const now = vi.spyOn(performance, "now").mockReturnValue(12_000);
    const said = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    try {
      const progress = new Progress("x", 10, { before: 6, started: 2000 });
      progress.update(8);
      expect(said).toHaveBeenLastCalledWith(expect.stringContaining("8/10, 10 s left"));
    } finally {
      now.mockRestore();
      said.mockRestore();
    }
  });
});

describe("saccade vllm", () => {
  test("start says what is missing in one line", () => {
    const nowhere = saccade(["vllm", "start", "nowhere"]);
    expect(nowhere.status).not.toBe(0);
    expect(nowhere.stderr).toMatch(/no model in nowhere/);
    const none = saccade([
      "vllm",
      "start",
      join(import.meta.dirname, "../../models/maze-2d"),
      "--python",
      process.execPath,
    ]);
    expect(none.status).not.toBe(0);
    expect(none.stderr.trim().split("\n").length).toBe(1);
    expect(none.stderr).toMatch(/is not a working Python/);
  });
});

describe("saccade recipes", () => {
  test("says what each recipe teaches and needs, in 80 columns", () => {
    const { status, stdout } = saccade(["recipes"]);
    expect(status).toBe(0);
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    expect(stdout).toMatch(/^quickstart +cross a frozen lake.*\n +2 CPU cores, 5 minutes$/m);
  });

  test("--json has every recipe with its fields", () => {
    const recipes = JSON.parse(saccade(["recipes", "--json"]).stdout) as Record<string, string>[];
    expect(recipes.map(({ name }) => name)).toEqual(recipeNames());
    for (const { teaches, hardware } of recipes)
      expect([teaches, hardware]).toEqual([expect.stringMatching(/\w/), expect.stringMatching(/\w/)]);
  });
});
