/** `saccade train --kit` as a stranger meets it, run from the build, with a tiny folder in the place of a real model. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { resolveRecipe } from "../train/index.ts";
import { Kit } from "./kit.ts";

const bin = resolve(import.meta.dirname, "../../dist/cli.js");
const folder = mkdtempSync(join(tmpdir(), "saccade-kit-"));

function saccade(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [bin, ...args], { cwd: folder, encoding: "utf8", maxBuffer: 1 << 26 });
}

const SETTINGS = [
  ...[
    "model=tiny",
    "engine=native",
    "steps=2",
    "groups=2",
    "siblings=2",
    "minibatch=4",
    "sight.every=1",
    "sight.episodes=2",
  ],
  ...[
    "evaluate.seeds=[1000000000,1000000003]",
    "evaluate.greedy=false",
    "sampling.maxTokens=8",
    "filters=[]",
    "warmStart.episodes=8",
  ],
].flatMap((setting) => ["--set", setting]);

beforeAll(() => {
  expect(saccade("model", "create", "tiny", "--preset", "nano").status).toBe(0);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("it checks download, sight and drift, and leaves a folder with figures, curve, episode and the whole run", () => {
  const { status, stderr } = saccade("train", "quickstart", "--kit", ...SETTINGS, "--out", "run");
  expect(stderr).toContain("✓ download: one file of weights");
  // Random weights look at nothing.
  expect(stderr).toContain("✗ sight: own frames make a reply");
  expect(stderr).toContain("✓ drift: mean 0.0e+0");
  expect(stderr).toContain("run-report (send the whole folder)");
  expect(status).toBe(0);
  const found = readdirSync(join(folder, "run-report"));
  for (const file of ["REPORT.md", "kit.json", "run.html", "curve.png", "episode.gif"]) expect(found).toContain(file);
  const report = readFileSync(join(folder, "run-report", "REPORT.md"), "utf8");
  expect(report).toContain("The run finished. 2 steps");
  expect(report).toMatch(/- passed: download: .*\n- FAILED: sight: .*\n- passed: drift/);
  const about = JSON.parse(readFileSync(join(folder, "run-report", "kit.json"), "utf8")) as Record<string, unknown>;
  expect(about).toMatchObject({ finished: true, recipe: { steps: 2 }, machine: { node: process.version } });
  // A folder that is taken is refused, and the report of its run stays.
  const again = saccade("train", "quickstart", "--kit", ...SETTINGS, "--new", "--out", "run");
  expect(again.stderr).toContain("already holds a run");
  expect(readFileSync(join(folder, "run-report", "REPORT.md"), "utf8")).toBe(report);
  // A finished run is reported with what was found in it.
  const finished = saccade("train", "quickstart", "--kit", ...SETTINGS, "--out", "run");
  expect(finished.stderr).toContain("is finished, and the recipe is the same");
  expect(readFileSync(join(folder, "run-report", "REPORT.md"), "utf8")).toBe(report);
});

test("a list of weights that is none is found before anything is loaded", () => {
  saccade("model", "create", "listed", "--preset", "nano");
  for (const list of ["{broken", '{"weight_map": 3}', "{}"]) {
    writeFileSync(join(folder, "listed", "model.safetensors.index.json"), list);
    const settings = [...SETTINGS, "--set", "model=listed", "--out", "never"];
    const { status, stderr } = saccade("train", "quickstart", "--kit", ...settings);
    expect(status).toBe(2);
    expect(stderr).toMatch(/model\.safetensors\.index\.json is not a list of weights: download the model again/);
  }
});

test("a download that broke off is found before anything is loaded", () => {
  saccade("model", "create", "short", "--preset", "nano");
  truncateSync(join(folder, "short", "model.safetensors"), 5000);
  const { status, stderr } = saccade(
    "train",
    "quickstart",
    "--kit",
    ...SETTINGS,
    "--set",
    "model=short",
    "--out",
    "never",
  );
  expect(status).not.toBe(0);
  expect(stderr).toMatch(
    /model\.safetensors has 5000 bytes, and (its head is not whole|should have \d+): download the model again/,
  );
  expect(readdirSync(folder)).not.toContain("never");
});

test.skipIf(process.platform === "win32")(
  "a plan that is too large for a GPU is refused, unless the GPU is not used",
  async () => {
    const gib = 2 ** 30;
    const python = join(folder, "python");
    const open = (memories: readonly number[], settings: Record<string, unknown>) => {
      const install = {
        executable: python,
        torch: "2",
        transformers: "5",
        devices: memories.map(() => "GPU"),
        memories,
      };
      writeFileSync(python, `#!/bin/sh\necho '${JSON.stringify(install)}'\n`, { mode: 0o755 });
      return Kit.open(
        resolveRecipe({
          name: "fit",
          model: join(folder, "tiny"),
          envs: [{ env: "frozen_lake" }],
          steps: 1,
          optimizer: { learningRate: 1e-3 },
          engine: { name: "torch", python, ...settings },
        }),
      );
    };
    // A context on CUDA takes two by itself.
    await expect(open([gib], {})).rejects.toThrow(/The plan needs .* and the GPU has 1\.0/);
    await expect(open([80 * gib], { processes: 2 })).rejects.toThrow(/wants 2 GPUs, and there are 1/);
    await open([80 * gib], {});
    await open([gib], { device: "cpu" });
  },
);
