/** Against transformers and PEFT in Python. Runs where `python3` has torch; SACCADE_REQUIRE=torch makes its absence a failure. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { parseConfig } from "../../model/config.ts";
import { readSafetensors, type Tensors } from "../../model/safetensors.ts";
import { byName, fastVariants } from "./kernels/test-variants.ts";
import { type Adapter, createAdapter, loadAdapter, saveAdapter } from "./lora.ts";
import { Network, type PackedBatch, type PackedSequence } from "./network.ts";
import { modelLayout, Parameters } from "./parameters.ts";
import { Arena, Tape } from "./tape.ts";
import { noise } from "./test-tiny.ts";

const found = (() => {
  try {
    execFileSync("python3", ["-c", "import torch, transformers, safetensors, peft"], { stdio: "pipe" });
    return true;
  } catch {
    return false;
  }
})();
const required = (process.env.SACCADE_REQUIRE ?? "").split(",").includes("torch");
const python = (script: string, ...args: string[]) =>
  execFileSync("python3", [fileURLToPath(new URL(`../../../python/parity/${script}`, import.meta.url)), ...args], {
    stdio: "pipe",
  });

type Case = {
  sequences: { ids: number[]; spans: PackedSequence["spans"]; targets: number[]; weights: number[] }[];
  grids: { gridH: number; gridW: number }[];
  loss: number;
};

async function readCase(folder: string) {
  const config = parseConfig(JSON.parse(readFileSync(join(folder, "config.json"), "utf8")));
  const description = JSON.parse(readFileSync(join(folder, "case.json"), "utf8")) as Case;
  const expected = await readSafetensors(join(folder, "expected.safetensors"));
  const parameters = new Parameters(modelLayout(config, { head: "lm" }));
  parameters.load(await readSafetensors(join(folder, "model.safetensors")));
  const batch: PackedBatch = {
    sequences: description.sequences.map(({ ids, spans }) => ({ ids: Int32Array.from(ids), spans })),
    images: description.grids.map((grid, i) => ({ ...grid, patches: expected.get(`patches.${i}`)!.data })),
  };
  return { ...description, config, expected, parameters, batch };
}

/** Runs the batch; the largest difference of its logits from those expected. */
function forward(network: Network, batch: PackedBatch, expected: Tensors) {
  const tape = new Tape(network.kernels, new Arena(), "training");
  const hidden = network.forward(tape, batch);
  const logits = network.logits(tape, hidden, Int32Array.from(Array(hidden.rows).keys())).data;
  const wanted = batch.sequences.flatMap((_, i) => [...expected.get(`logits.${i}`)!.data]);
  expect(logits.length).toBe(wanted.length);
  const worst = wanted.reduce((most, value, i) => Math.max(most, Math.abs(value - logits[i]!)), 0);
  return { tape, hidden, worst };
}

test.runIf(required)("Python with torch, transformers and peft is there when it is required", () => {
  expect(found).toBe(true);
});

describe.runIf(found)("parity with transformers", () => {
  let root = "";
  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), "saccade-parity-"));
    python("qwen3vl.py", root);
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  describe.each(byName)("$which kernels", ({ kernels }) => {
    test.each(["text-only", "one-image", "untied", "deep", "no-deepstack", "six-images"])(
      "%s: logits within 1e-4, every gradient within 1e-3 in norm",
      async (name) => {
        const { config, parameters, batch, expected, sequences, loss } = await readCase(join(root, name));
        const network = new Network(config, kernels, parameters, { head: "lm" });
        const gradient = parameters.like();
        network.setGradient(gradient);
        const { tape, hidden, worst } = forward(network, batch, expected);
        expect(worst).toBeLessThan(1e-4);

        const targets = Int32Array.from(sequences.flatMap((sequence) => [...sequence.targets, -1]));
        const weights = sequences.flatMap((sequence) => [...sequence.weights, 0]);
        const scores = network.logprobs(tape, hidden, targets, new Float32Array(targets.length).fill(1), null);
        let ours = 0;
        for (const [i, weight] of weights.entries()) {
          ours -= weight * scores.logprobs[i]!;
          scores.logprobGradients[i] = -weight;
        }
        expect(Math.abs(ours - loss)).toBeLessThan(1e-4 * Math.max(1, Math.abs(loss)));
        tape.backward();

        const bad: string[] = [];
        for (const parameter of parameters.layout) {
          const want = expected.get(`gradient.${parameter.name}`)!.data;
          const got = parameters.view(parameter.name, gradient);
          let difference = 0;
          let norm = 0;
          for (const [i, value] of want.entries()) {
            difference += (value - got[i]!) ** 2;
            norm += value ** 2;
          }
          // Without images the vision tower's gradient is zero on both sides.
          if (!(Math.sqrt(difference) <= 1e-3 * Math.sqrt(norm)))
            bad.push(`${parameter.name}: ${difference} of ${norm}`);
        }
        expect(bad).toEqual([]);
      },
    );
  });

  test.each(["untied", "six-images"])(
    "%s: our adapter in PEFT and PEFT's adapter here give the same logits",
    async (name) => {
      const folder = join(root, name);
      const { config, parameters, batch } = await readCase(folder);
      const out = join(root, `${name}-adapters`);
      mkdirSync(out);
      const adapter = createAdapter(config, { rank: 4, alpha: 6 }, { head: "lm", seed: 1 });
      for (const { name: matrix, size } of adapter.parameters.layout) {
        adapter.parameters.view(matrix).set(noise(new NumpyRandom(size), size, 0.1));
      }
      await saveAdapter(join(out, "mine"), adapter, folder);
      python("adapters.py", folder, join(out, "mine"), out);
      const logitsWith = async (lora: Adapter, file: string) => {
        const network = new Network(config, fastVariants[0]!, parameters, { head: "lm", lora });
        return forward(network, batch, await readSafetensors(join(out, file))).worst;
      };
      expect(await logitsWith(adapter, "ours.safetensors")).toBeLessThan(1e-4);
      const theirs = await loadAdapter(join(out, "adapter"), config, { head: "lm" });
      expect(await logitsWith(theirs, "theirs.safetensors")).toBeLessThan(1e-4);
      // The comparison is worth something: without the adapter the logits are far away.
      const plain = new Network(config, fastVariants[0]!, parameters, { head: "lm" });
      expect(forward(plain, batch, await readSafetensors(join(out, "theirs.safetensors"))).worst).toBeGreaterThan(1e-2);
    },
  );
});
