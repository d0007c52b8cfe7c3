/** Sweeps: what is planned, what is reported, and that a sweep which was killed reports what one that ran straight reports. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, describe, expect, test, vi } from "vitest";
import { isLocked, listRuns } from "../run/index.ts";
import { planSweep } from "./sweep.ts";
import { meanInterval, reportTable } from "./sweep-report.ts";
import { writeTinyRecipe } from "./test-tiny.ts";

const bin = resolve(import.meta.dirname, "../../dist/cli.js");
const folder = mkdtempSync(join(tmpdir(), "saccade-sweep-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the plan of a sweep", () => {
  test("has every combination of the listed values with every seed, in folders with names that tell", () => {
    const runs = planSweep(["optimizer.learningRate=[1e-3,3e-3]", 'loss.name=["ppo"]', "steps=4"], 3, 7);
    expect(runs.map(({ name }) => name)).toEqual([
      ...[7, 8, 9].map((seed) => `learningRate=0.001,name=ppo,seed=${seed}`),
      ...[7, 8, 9].map((seed) => `learningRate=0.003,name=ppo,seed=${seed}`),
    ]);
    expect(runs[4]).toMatchObject({
      setting: "optimizer.learningRate=0.003 loss.name=ppo",
      pairs: ["optimizer.learningRate=0.003", 'loss.name="ppo"', "steps=4", "seed=8"],
    });
  });

  test("keeps values apart that a file name can't tell apart", () => {
    const names = planSweep(['model=["a/b","a:b"]'], 1, 0).map(({ name }) => name);
    expect(new Set(names).size).toBe(2);
  });

  test.each([
    [["steps"], "takes key=value"],
    [["steps=[]"], "the list is empty"],
    [["seed=[1,2]"], "use --seeds"],
    [["steps=[1]", "steps=[2]"], "is there twice"],
  ])("refuses %j", (sets, words) => {
    expect(() => planSweep(sets, 1, 0)).toThrow(words);
  });
});

test.each([59, 79, 119])("the report names every setting apart in %i columns", (width) => {
  const setting = (name: string) => ({ setting: name, mean: 0.5, low: 0.4, high: 0.6, runs: [] });
  const table = (...names: string[]) => reportTable("eval/success", { settings: names.map(setting) }, width);
  const [, ...rows] = table("optimizer.learningRate=0.001", "optimizer.learningRate=0.003");
  expect(rows.map((row) => row.split("  ")[0])).toEqual(["learningRate=0.001", "learningRate=0.003"]);
  expect(Math.max(...rows.map((row) => row.length))).toBeLessThanOrEqual(width);
  // Two fields that end alike keep their paths.
  const both = "optimizer.learningRate=0.001 warmStart.optimizer.learningRate=0.001";
  expect(table(both)[1]).toContain("optimizer.learningRate=0.001 warm");
});

test("the interval of a mean is Student's", () => {
  // R: t.test(c(0.2, 0.4, 0.9))
  const { mean, low, high } = meanInterval([0.2, 0.4, 0.9]);
  expect([mean, low, high].map((x) => x?.toFixed(3))).toEqual(["0.500", "-0.396", "1.396"]);
  expect(meanInterval([0.3])).toEqual({ mean: 0.3 });
  expect(meanInterval([])).toEqual({});
});

describe("saccade sweep", () => {
  writeTinyRecipe(folder, {
    steps: 2,
    evaluate: { every: 2, before: false, greedy: false, seeds: [1_000_000_000, 1_000_000_015] },
    sight: { every: 0 },
  });
  const words = [
    "sweep",
    "./tiny.ts",
    "--set",
    "warmStart.optimizer.learningRate=[0.001,0.01]",
    "--seeds",
    "3",
    "--jobs",
    "2",
  ];

  /** Kills the sweep when `when` holds; the exit code, or the signal. */
  async function sweep(out: string, when?: () => Promise<boolean>): Promise<number | string | null> {
    const child = spawn(process.execPath, [bin, ...words, "--out", out], {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (said += data.toString()));
    const ended = new Promise<number | string | null>((done) =>
      child.once("exit", (code, signal) => done(signal ?? code)),
    );
    if (when !== undefined) {
      while (child.exitCode === null && !(await when())) await delay(50);
      child.kill("SIGKILL");
    }
    const how = await ended;
    if (how !== 0 && how !== "SIGKILL") throw new Error(said);
    return how;
  }

  test("that is killed twice goes on with what is missing and reports the same numbers", {
    timeout: 300_000,
  }, async () => {
    const [straight, killed] = [join(folder, "straight"), join(folder, "killed")];
    expect(await sweep(straight)).toBe(0);
    const finished = async () => (await listRuns(killed)).filter(({ status }) => status === "finished").length;
    const steps = async () => (await listRuns(killed)).map(({ step }) => step).reduce((sum, step) => sum + step, 0);
    // In the midst of the first runs, and when some are done.
    expect(await sweep(killed, async () => (await steps()) >= 3)).toBe("SIGKILL");
    // Runs end with their sweep.
    const writing = async () => {
      for (const { path } of await listRuns(killed)) if (await isLocked(path)) return true;
      return false;
    };
    await vi.waitFor(async () => expect(await writing()).toBe(false), 5000);
    expect(await finished()).toBeLessThan(2);
    expect(await sweep(killed, async () => (await finished()) >= 2)).toBe("SIGKILL");
    expect(existsSync(join(killed, "report.md"))).toBe(false);
    await vi.waitFor(async () => expect(await writing()).toBe(false), 5000);
    expect(await sweep(killed)).toBe(0);
    const report = (path: string, file: string) => readFileSync(join(path, file), "utf8");
    expect(report(killed, "report.md")).toBe(report(straight, "report.md"));
    expect(report(killed, "report.json")).toBe(report(straight, "report.json"));
    expect(report(straight, "report.md")).toContain("| 3 of 3 |");
    // A third time there is nothing to do, and another sweep is refused.
    expect(await sweep(killed)).toBe(0);
    words.push("--set", "steps=1");
    await expect(sweep(killed)).rejects.toThrow("holds another sweep");
  });
});
