/**
 * `npm run prove -- families`: the quickstart learns on three families that TypeScript does not know, shortened, with random weights and the quickstart's
 * tokenizer, on the CPU; `saccade model check` finds nothing wrong with the tiny folder of any family; and where SACCADE_VLLM_PYTHON names an environment with
 * vLLM, what the real vLLM samples from the families that TypeScript renders is what the PyTorch worker computes (`-t vLLM`: three minutes). An hour on two quiet cores.
 */
import { execFileSync } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { JsonObject } from "../core/json.ts";
import type { TorchEngine } from "../engine/torch/engine.ts";
import { CPU_SETTINGS, cpuEngine } from "../engine/torch/test-worker.ts";
import { startVllm } from "../engine/vllm/launch.ts";
import { createFolder } from "../model/folder.ts";
import { temporaryFolder } from "../model/test-folder.ts";
import { checkModel } from "./check-model.ts";
import { loadRecipe } from "./recipes.ts";
import { train } from "./train.ts";

const python = fileURLToPath(new URL("../../python", import.meta.url));
const EVALUATED = 96;
const KINDS = ["gemma3", "internvl", "glm4v"];
const TINY_KINDS = `
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/tests"]
from pathlib import Path
from test_families import NEEDS
from tiny_families import MAKERS, UNDESCRIBED, make_family
import importlib.util
for kind in MAKERS | UNDESCRIBED:
    if importlib.util.find_spec(NEEDS.get(kind, "torch")):
        make_family(Path(sys.argv[2]) / kind, kind)
        print(kind)
`;

let root: string;
let engine: TorchEngine;
beforeAll(async () => {
  root = await temporaryFolder();
  ({ engine } = cpuEngine());
  await createFolder(join(root, "quickstart"), { preset: "quickstart" });
});
afterAll(async () => {
  await engine?.close();
  await rm(root, { recursive: true, force: true });
});

/** A folder of this family in the quickstart's shape. */
function make(kind: string): string {
  const model = join(root, kind);
  execFileSync("python3", [join(python, "tests/quickstart_families.py"), join(root, "quickstart"), kind, model], {
    env: { ...process.env, PYTHONPATH: python },
    stdio: "pipe",
  });
  return model;
}

test.each(KINDS)("the quickstart learns with %s", async (kind) => {
  const model = make(kind);
  const run = async (name: string, settings: Record<string, unknown>) => {
    const success: number[] = [];
    const drift: number[] = [];
    const recipe = await loadRecipe("quickstart", {
      ...{ model, engine: { name: "torch", ...CPU_SETTINGS }, groups: 32, siblings: 4, minibatch: 64 },
      evaluate: { every: 8, before: true, seeds: [1_000_000_000, 1_000_000_000 + EVALUATED - 1] },
      ...{ sight: { every: 8 }, checkpoint: { every: 8 }, rollout: { live: 128 } },
      ...settings,
    });
    await train({
      recipe,
      folder: join(root, name),
      engine,
      onEvent: ({ kind, metrics }) => {
        if (kind === "eval") success.push(metrics["eval/success"] as number);
        if (kind === "train") drift.push(metrics["drift/max"] as number);
      },
    });
    return { success, drift };
  };
  const { success, drift } = await run(`${kind}-run`, { warmStart: { episodes: 4000 }, steps: 24 });
  const [before, after] = [success[0] as number, success.at(-1) as number];
  // Two standard errors of each side.
  const error = (share: number) => 2 * Math.sqrt(Math.max(share * (1 - share), 1 / EVALUATED) / EVALUATED);
  console.log(`${kind}: success ${success.join(" → ")}, drift at most ${Math.max(...drift)}`);
  expect(after - error(after)).toBeGreaterThan(before + error(before));
  expect(Math.max(...drift)).toBeLessThan(1e-3);
});

test("nothing is wrong with the tiny folder of any family", async () => {
  const folder = join(root, "tiny");
  const made = String(
    execFileSync("python3", ["-c", TINY_KINDS, python, folder], { stdio: ["pipe", "pipe", "ignore"] }),
  );
  for (const kind of made.trim().split("\n")) {
    for await (const { about, verdict, text } of checkModel(engine, join(folder, kind))) {
      console.log(`${kind}: ${verdict} ${about}: ${text}`);
      expect({ kind, about, verdict }).not.toEqual({ kind, about, verdict: "bad" });
    }
  }
});

const coin = (id: string) => [...id].reduce((sum, letter) => sum + (letter.codePointAt(0) ?? 0), 0) % 2;
const vllm = process.env.SACCADE_VLLM_PYTHON;
test.runIf(vllm).each(["qwen2_vl", "qwen2_5_vl", "qwen3_vl_moe"])(
  "what the real vLLM samples from %s is what the learner computes, turn by turn, also after updates",
  async (kind) => {
    const model = make(kind);
    const server = await startVllm({ python: vllm as string, model, contextTokens: 512, images: 16 });
    try {
      const learner = { name: "torch", ...CPU_SETTINGS } as JsonObject;
      const { warmStart: _, ...recipe } = loadRecipe("quickstart", {
        ...{
          model,
          engine: { learner, sampler: { vllm: [server.url] } },
          groups: 8,
          siblings: 4,
          minibatch: 32,
          steps: 3,
        },
        evaluate: { every: 1000, before: false, greedy: false, decisions: false },
        ...{ sight: { every: 0 }, optimizer: { name: "adamw", learningRate: 1e-3 }, schedule: { name: "constant" } },
      });
      const largest: number[] = [];
      const updates: number[] = [];
      await train({
        // Every group is trained, whatever its episodes earn: a coin pays.
        recipe: {
          ...recipe,
          judge: async ({ id, turns }) =>
            turns.map((_, turn) => (turn === turns.length - 1 ? [{ name: "coin", value: coin(id) }] : [])),
        },
        folder: join(root, `${kind}-vllm`),
        onEvent: ({ kind, metrics }) => {
          if (kind !== "train") return;
          updates.push(metrics["optimizer/grad_norm"] ?? 0);
          for (let turn = 0; turn < 8; turn++)
            largest[turn] = Math.max(largest[turn] ?? 0, metrics[`drift/turn/${turn}`] ?? Number.NaN);
        },
      });
      console.log(`${kind}: largest drift by turn ${largest.map((drift) => drift.toExponential(1)).join(" ")}`);
      expect(largest.length).toBe(8);
      for (const drift of largest) expect(drift).toBeLessThan(1e-3);
      // Rounding differs between two programs: exact zeros would mean that nothing was compared.
      expect(Math.max(...largest)).toBeGreaterThan(0);
      expect(updates.filter((norm) => norm > 0).length).toBe(3);
    } finally {
      await server.close();
    }
  },
);
