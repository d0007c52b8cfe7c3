/** `saccade model check`: on folders that are whole, and on folders that are broken in one way each; and that a recipe trains a whole one. */
import { execFileSync } from "node:child_process";
import { cp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import type { TorchEngine } from "../engine/torch/engine.ts";
import { CPU_SETTINGS, cpuEngine, TORCH } from "../engine/torch/test-worker.ts";
import { createFolder } from "../model/folder.ts";
import { temporaryFolder } from "../model/test-folder.ts";
import { checkModel } from "./check-model.ts";
import type { Finding } from "./finding.ts";
import { loadRecipe } from "./recipes.ts";
import { TINY } from "./test-run.ts";
import { train } from "./train.ts";

const python = fileURLToPath(new URL("../../python", import.meta.url));
const PYTHON = `
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/tests"]
from pathlib import Path
import torch
from safetensors.torch import load_file, save_file
def change(folder, how):
    file = Path(folder) / "model.safetensors"
    tensors = load_file(file)
    how(tensors)
    save_file(tensors, file, {"format": "pt"})
`;
const run = (code: string, ...args: string[]) =>
  execFileSync("python3", ["-c", PYTHON + code, python, ...args], { stdio: "pipe" });

async function findings(...[engine, folder]: Parameters<typeof checkModel>): Promise<Finding[]> {
  const found: Finding[] = [];
  for await (const finding of checkModel(engine, folder)) found.push(finding);
  return found;
}
const said = (found: readonly Finding[], verdict: Finding["verdict"]) =>
  found.filter((one) => one.verdict === verdict).map(({ about, text }) => `${about}: ${text}`);
const ALL = ["template", "prefix", "thinking", "images", "tool images", "round trip", "weights", "sampling", "sight"];

test("a folder that TypeScript reads passes with the built-in engine", async () => {
  const folder = await temporaryFolder();
  const engine = new NativeEngine({ threads: 1 });
  try {
    await createFolder(folder, TINY);
    const found = await findings(engine, folder);
    expect(found.filter(({ verdict }) => verdict === "bad")).toEqual([]);
    expect(found.map(({ about }) => about)).toEqual(ALL);
  } finally {
    await engine.close();
    await rm(folder, { recursive: true });
  }
}, 60_000);

describe.skipIf(!TORCH)("a folder of another family", { timeout: 300_000 }, () => {
  let base = "";
  let whole = "";
  let engine: TorchEngine;
  beforeAll(async () => {
    base = await temporaryFolder();
    whole = join(base, "internvl");
    run("from tiny_families import make_family; make_family(Path(sys.argv[2]), 'internvl')", whole);
    ({ engine } = cpuEngine());
  }, 300_000);
  afterAll(async () => {
    await engine?.close();
    await rm(base, { recursive: true });
  });
  const broken = async (name: string, change: (folder: string) => Promise<unknown> | unknown) => {
    const folder = join(base, name);
    await cp(whole, folder, { recursive: true });
    await change(folder);
    return findings(engine, folder);
  };
  const edit = (file: string, how: (text: string) => string) => async (folder: string) =>
    writeFile(join(folder, file), how(await readFile(join(folder, file), "utf8")));
  const weights = (how: string) => (folder: string) => run(`change(sys.argv[2], ${how})`, folder);

  test("passes when it is whole", async () => {
    const found = await findings(engine, whole);
    expect(found.filter(({ verdict }) => verdict !== "good")).toEqual([]);
    expect(found.map(({ about }) => about)).toEqual(ALL);
  });

  test.each([
    [
      "a template that no one knows",
      async (folder: string) => {
        await rm(join(folder, "chat_template.jinja"));
        await edit("tokenizer.json", (text) => text.replaceAll("<|im_start|>", "<|begin|>"))(folder);
      },
      /^chat: .*no chat template.*Add the chat_template.jinja/,
    ],
    [
      "a template that rewrites history",
      edit("chat_template.jinja", (text) =>
        text.replace("{{ part.text }}", "{{ part.text if loop.last and m is sameas messages[-1] else 'cut' }}"),
      ),
      /^(chat: .*chat template|prefix: the template writes earlier turns otherwise)/,
    ],
    [
      "a tokenizer of another model",
      edit("tokenizer.json", (text) => text.replace(/"m": ?76/, '"m": 900')),
      /^chat: .*ids up to 900.*must come from the same model/,
    ],
    [
      "half a file of weights",
      (folder: string) => truncate(join(folder, "model.safetensors"), 5000),
      /^weights: .*can't open it/,
    ],
    [
      "a tensor less",
      weights("lambda t: t.pop(next(name for name in t if name.endswith('q_proj.weight')))"),
      /^weights: .*its weights lack .*q_proj\.weight/,
    ],
    [
      "weights that are no numbers",
      weights("lambda t: next(iter(t.values())).fill_(float('nan'))"),
      /^weights: .*not finite/,
    ],
    [
      "no way from sight to words",
      weights("lambda t: [t[name].zero_() for name in t if 'multi_modal_projector' in name or 'mlp1' in name]"),
      /^sight: .*does not see its images/,
    ],
  ] as const)("is found to have %s", async (name, change, words) => {
    const bad = said(await broken(name.replaceAll(" ", "-"), change), "bad");
    expect(bad).toHaveLength(1);
    expect(bad[0]).toMatch(words);
  });

  test("without a template has one of ours, and that is said", async () => {
    const found = await broken("without", (folder) => rm(join(folder, "chat_template.jinja")));
    expect(said(found, "bad")).toEqual([]);
    expect(said(found, "note")).toEqual([expect.stringMatching(/^template: .*unverified/)]);
  });

  test("is trained by a recipe, whose warm start asks for threads that could not render it", async () => {
    const recipe = await loadRecipe("quickstart", {
      ...{ model: whole, engine: { name: "torch", ...CPU_SETTINGS }, steps: 1, groups: 1, siblings: 2, minibatch: 2 },
      sampling: { maxTokens: 4, contextTokens: 1024 },
      warmStart: { episodes: 6, batch: 2, threads: 2 },
      ...{ evaluate: { every: 1, seeds: [1_000_000_000, 1_000_000_001] }, sight: { every: 0 } },
    });
    const { finished, step } = await train({ recipe, folder: join(base, "run"), engine });
    expect({ finished, step }).toEqual({ finished: true, step: 1 });
  });
});
