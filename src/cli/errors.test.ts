/** How the commands fail: at once, in one line that says what to do, with an exit code, and never with a stack unless asked. Run from the build. */
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { EXIT } from "./common.ts";
import { explainFailure, fileRefusal } from "./failure.ts";
import { modelCommand } from "./model.ts";
import { scaleCommand } from "./scale.ts";
import { torchCommand } from "./torch.ts";
import { viewCommand } from "./view.ts";
import { vllmCommand } from "./vllm.ts";

const bin = resolve(import.meta.dirname, "../../dist/cli.js");
const folder = mkdtempSync(join(tmpdir(), "saccade-errors-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Long enough for any of these; a command that waits for ever is killed, and has no exit code. */
const options = { cwd: folder, encoding: "utf8", input: "", timeout: 60_000, killSignal: "SIGKILL" } as const;
const saccade = (...args: string[]) => spawnSync(process.execPath, [bin, ...args], options);

const world = (members: string) => `import { defineWorld, z } from "saccade";
export default defineWorld({
  id: "mine", summary: "mine", options: z.strictObject({}), protocol: "keyword", maxTurns: 3, create: () => (${members}) as never,
});
`;

beforeAll(() => {
  const rest = 'actions: [], act() {}, observe() {}, task: () => "", success: () => false';
  writeFileSync(join(folder, "a-file"), "");
  writeFileSync(join(folder, "throws.ts"), world(`{ ${rest}, reset() { throw new TypeError("my bug"); } }`));
  writeFileSync(join(folder, "broken.ts"), "export default {{{");
  writeFileSync(join(folder, "d.jsonl"), "not json\n");
  mkdirSync(join(folder, "empty"));
  mkdirSync(join(folder, "run"));
  writeFileSync(join(folder, "run/events.jsonl"), '{"step":1,"time":1,"kind":"eval","metrics":{"eval/success":0.5}}\n');
});

test("a bug in the user's own file is told with its line there, and none of ours", () => {
  const { status, stderr } = saccade("play", "./throws.ts");
  expect(status).toBe(EXIT.failed);
  expect(stderr).toMatch(/^saccade: my bug\n {2}at .*throws\.ts:3:\d+\)?\n$/);
});

describe("An error is one line", () => {
  const lake = ["frozen_lake", "--oracle"];
  test.each<[string, number, RegExp, ...string[]]>([
    ["a missing recipe file", 2, /no recipe ".\/nope.ts"/, "train", "./nope.ts"],
    ["a folder for a recipe", 2, /no recipe ".\/empty"/, "train", "./empty"],
    ["a recipe that can't be read", 2, /broken.ts could not be loaded/, "train", "./broken.ts"],
    ["an unknown recipe", 2, /no recipe "nope"/, "train", "nope"],
    ["a recipe's name misspelt", 2, /no recipe "quikstart"\. Did you mean "quickstart"\?/, "train", "quikstart"],
    ["curves of what is no run", 2, /empty is not a run folder/, "run", "plot", "empty"],
    [
      "curves of a metric that a run has not",
      2,
      /run has no eval\/none. It has: eval\/success\./,
      "run",
      "plot",
      "run",
      "--metrics",
      "eval/none",
    ],
    [
      "a film in no folder",
      2,
      /--gif no\/x.gif can't be written: there is no folder/,
      "play",
      ...lake,
      "--gif",
      "no/x.gif",
    ],
    ["a film that is a folder", 2, /--gif empty is a folder/, "play", ...lake, "--gif", "empty"],
    ["a film inside a file", 2, /there is no folder/, "play", ...lake, "--gif", "a-file/x.gif"],
    [
      "tickets in no folder",
      2,
      /--out no\/t.jsonl/,
      "data",
      "tickets",
      "frozen_lake",
      "--rows",
      "1",
      "--split",
      "val",
      "--out",
      "no/t.jsonl",
    ],
    [
      "demos in no folder",
      2,
      /--out no\/d.jsonl/,
      "data",
      "demos",
      "frozen_lake",
      "--episodes",
      "1",
      "--out",
      "no/d.jsonl",
    ],
    ["a page in no folder", 2, /--out no\/x.html/, "run", "pack", "empty", "--out", "no/x.html"],
    [
      "a run inside a file",
      1,
      /a-file\/run: a part of the path is a file/,
      "train",
      "quickstart",
      "--out",
      "a-file/run",
    ],
    ["a model inside a file", 1, /a part of the path is a file/, "model", "create", "a-file/m", "--preset", "nano"],
    [
      "an evaluation inside a file",
      1,
      /a part of the path is a file/,
      "eval",
      "http://127.0.0.1:9/v1#x",
      "--env",
      "frozen_lake",
      "--seeds",
      "0",
      "--out",
      "a-file/e",
    ],
    ["a missing world", 2, /There is no file .*nope.ts/, "play", "./nope.ts"],
    ["no model", 2, /There is no model in nope/, "model", "info", "nope"],
    ["no demonstrations", 2, /There is no file nope.jsonl/, "sft", "preset:nano", "--data", "nope.jsonl"],
    ["demonstrations that are none", 1, /d.jsonl:1: not JSON/, "sft", "preset:nano", "--data", "d.jsonl"],
    ["no folder of runs", 2, /There is no folder nope/, "runs", "nope"],
    ["no folder to view", 2, /There is no folder nope/, "view", "nope"],
    ["no model to upload", 2, /There is no model in/, "run", "upload", "nope", "me/x"],
    ["no model to evaluate", 2, /There is no model "nope"/, "eval", "nope", "--env", "frozen_lake", "--seeds", "0"],
    ["a wrong number", 2, /--seed takes a whole number/, "play", "frozen_lake", "--seed", "x"],
  ])("%s: exit code %i", (_, code, said, ...args) => {
    const { status, stderr, stdout } = saccade(...args);
    expect({ status, stderr: stderr.replace(/^.*\nrun folder: .*\n/, "") }).toEqual({
      status: code,
      stderr: expect.stringMatching(said),
    });
    expect(stderr).toMatch(/^saccade: .*\n$/m);
    expect(stderr + stdout).not.toMatch(/^\s+at |node:internal/m);
  });

  test("--debug shows where it comes from, before or after the command", () => {
    for (const args of [
      ["--debug", "play", "./throws.ts"],
      ["play", "./throws.ts", "--debug"],
    ]) {
      const { status, stderr } = saccade(...args);
      expect(status).toBe(EXIT.failed);
      expect(stderr).toMatch(/my bug\n.*\n\s+at .*throws\.ts/);
    }
  });

  test("what the file system refuses is told in words, with the path", () => {
    const refused = (code: string) => Object.assign(new Error(code), { code, syscall: "open", path: "/x/y" });
    expect(fileRefusal(refused("EACCES"))).toBe("Can't open /x/y: you have no right to.");
    expect(fileRefusal(refused("ENOSPC"))).toBe("Can't open /x/y: the disk is full.");
    expect(fileRefusal(new Error("something else"))).toBeUndefined();
  });
});

describe("Wrong usage", () => {
  test.each([
    ["model info", modelCommand],
    ["scale memory", scaleCommand],
    ["scale samplers", scaleCommand],
    ["torch setup", torchCommand],
    ["torch serve", torchCommand],
    ["vllm start", vllmCommand],
  ])("an unknown flag of %s is thrown, for exit code 2", async (words, make) => {
    const said = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    try {
      const args = [...words.split(" ").slice(1), "--nope"];
      const error: unknown = await make()
        .exitOverride()
        .parseAsync(args, { from: "user" })
        .catch((thrown: unknown) => thrown);
      expect(explainFailure(error, false)).toEqual({ text: "", code: EXIT.usage });
      expect(said).toHaveBeenCalledWith(expect.stringContaining("--nope"));
    } finally {
      said.mockRestore();
    }
  });

  test("view refuses a short key", async () => {
    const file = join(folder, "short-key");
    writeFileSync(file, "short\n");
    const view = viewCommand().exitOverride().parseAsync([folder, "--api-key-file", file], { from: "user" });
    await expect(view).rejects.toThrow("A key (--api-key-file or SACCADE_API_KEY) has at least 16 characters.");
  });

  test.each([
    ["demos", "data demos"],
    ["upload", "run upload"],
    ["trian", "train"],
    ["polt", "run plot"],
  ])("an unknown command names the nearest: %s, %s", (called, near) => {
    const { status, stderr, stdout } = saccade(called);
    expect({ status, stdout }).toEqual({ status: EXIT.usage, stdout: "" });
    expect(stderr).toBe(
      `saccade: There is no command "${called}". Did you mean: saccade ${near}? saccade --help lists the commands.\n`,
    );
  });
});

describe("saccade train --dry-run", () => {
  const dry = (...set: string[]) =>
    saccade("train", "quickstart", "--dry-run", ...set.flatMap((pair) => ["--set", pair]));
  test.each<[string, string, RegExp]>([
    ["an unknown environment", 'envs=[{"env":"froze_lake"}]', /no environment "froze_lake"/],
    ["an unknown option", 'envs=[{"env":"frozen_lake","options":{"sise":8}}]', /unknown option "sise"/],
    ["a wrong value of an option", 'envs=[{"env":"frozen_lake","options":{"maxTurns":0}}]', /"maxTurns"/],
    ["a missing environment file", 'envs=[{"env":"./nope.ts"}]', /no file .*nope\.ts/],
    ["a model that is not there", "model=nope", /no model in .*nope/],
    ["demonstrations that are not there", 'warmStart.files=["nope.jsonl"]', /no file .*nope\.jsonl/],
  ])("refuses %s", (_, set, said) => {
    const { status, stdout, stderr } = dry(set);
    expect({ status, stdout }).toEqual({ status: EXIT.usage, stdout: "" });
    expect(stderr).toMatch(said);
  });

  test("prints a recipe that can be used, and leaves nothing behind", () => {
    const before = readdirSync(folder);
    const { status, stdout } = dry("steps=3");
    expect(status).toBe(EXIT.ok);
    expect(JSON.parse(stdout)).toMatchObject({ name: "quickstart", steps: 3 });
    expect(readdirSync(folder)).toEqual(before);
  });
});

/** Runs a command whose standard input stays open, as a terminal's does; null: it had to be killed. */
function withOpenInput(
  args: string[],
  env: Record<string, string> = {},
): Promise<{ code: number | null; out: string }> {
  return new Promise((done) => {
    const child = spawn(process.execPath, [bin, ...args], { cwd: folder, env: { ...process.env, ...env } });
    const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
    let out = "";
    const listen = (chunk: Buffer) => {
      out += chunk.toString();
    };
    child.stdout.on("data", listen);
    child.stderr.on("data", listen);
    child.on("close", (code) => {
      clearTimeout(timer);
      done({ code, out });
    });
  });
}

describe("saccade play at a terminal", () => {
  test("ends after an error, though its input is still open", async () => {
    const { code, out } = await withOpenInput(["play", "./throws.ts"]);
    expect(code).toBe(EXIT.failed);
    expect(out).toContain("my bug");
  });

  test("draws on a terminal that says it has no columns", () => {
    const narrow = "data:text/javascript,process.stdout.columns=0";
    const { NO_COLOR: _, ...env } = process.env;
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ["--import", narrow, bin, "play", "frozen_lake", "--oracle"],
      { ...options, env: { ...env, FORCE_COLOR: "1" } },
    );
    expect({ status, stderr }).toEqual({ status: EXIT.ok, stderr: "" });
    expect(stdout).toContain("▀");
  });
});

describe("saccade eval", () => {
  test("against a port where nobody listens says why at once and gives up within seconds", async () => {
    const server = createServer();
    await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
    const address = server.address() as { port: number };
    await new Promise((closed) => server.close(closed));
    const { status, stderr, stdout } = saccade(
      "eval",
      `http://127.0.0.1:${address.port}/v1#x`,
      "--env",
      "frozen_lake",
      "--seeds",
      "0..9",
      "--out",
      "dead",
    );
    expect(status).toBe(EXIT.usage);
    const said = stderr.trim().split("\n");
    expect(said.filter((line) => line.includes("trying again"))).toHaveLength(1);
    expect(stderr).toMatch(/ECONNREFUSED.*trying again/);
    expect(said.at(-1)).toMatch(/^saccade: http.* can't be asked: .*ECONNREFUSED/);
    expect(stdout).toBe("");
  });
});
