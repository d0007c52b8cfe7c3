/** For benchmarks of whole steps: shapes with random weights, how long the GPU had nothing to do, and a run that ends without saving what it learned. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createFolder, type RecipeInput, type TrainOptions, train } from "./saccade.ts";

type Model = RecipeInput["model"];

const QWEN3_VL_2B = {
  text: {
    hidden_size: 2048,
    intermediate_size: 6144,
    num_hidden_layers: 28,
    num_attention_heads: 16,
    num_key_value_heads: 8,
    head_dim: 128,
    mrope_section: [24, 20, 20] as [number, number, number],
  },
  vision: {
    hidden_size: 1024,
    intermediate_size: 4096,
    depth: 24,
    num_heads: 16,
    deepstack_visual_indexes: [5, 11, 17],
  },
};

/** Shapes by name; all with a small vocabulary. */
const SHAPES: Readonly<Record<string, Model>> = {
  /** Qwen3-VL-2B's: 1.8 billion parameters. */
  "2b": { preset: "mini", set: QWEN3_VL_2B },
  /** The recipe maze-2d-gpu's: 7 million. */
  "7m": {
    preset: "micro",
    set: {
      text: {
        hidden_size: 256,
        intermediate_size: 704,
        num_hidden_layers: 8,
        num_attention_heads: 8,
        num_key_value_heads: 4,
      },
      vision: { depth: 2, hidden_size: 128, intermediate_size: 384, num_heads: 4 },
    },
  },
};

/**
 * The folder of a model: BENCH_MODEL is the name of a shape, or a recipe's model as JSON. With BENCH_FOLDER it is made there once and left for the next time: writing
 * random weights of a large shape takes a minute.
 */
export async function benchModel(asked: string, scratch: string): Promise<string> {
  const model: Model = SHAPES[asked] ?? JSON.parse(asked);
  if (typeof model === "string") return model;
  const folder = process.env.BENCH_FOLDER ?? join(scratch, "model");
  if (!existsSync(join(folder, "config.json")))
    await createFolder(folder, { preset: model.preset, seed: 0, ...model.set });
  return folder;
}

class Enough extends Error {}

/** A run whose last step is not saved: the optimizer's state of a large shape takes longer to write than the step took. `onStep` says whether it was the last. */
export async function trainUnsaved(
  options: Omit<TrainOptions, "onStep">,
  onStep: (metrics: Metrics) => Promise<boolean>,
) {
  await train({
    ...options,
    onStep: async ({ metrics }) => {
      if (await onStep(metrics)) throw new Enough();
      return undefined;
    },
  }).catch((error) => {
    if (!(error instanceof Enough)) throw error;
  });
}
type Metrics = Parameters<NonNullable<TrainOptions["onStep"]>>[0]["metrics"];

/** How long the GPU had nothing to do, in percent, sampled five times a second. */
export class Gpu {
  readonly #samples: number[] = [];
  readonly #process: ChildProcess;

  constructor() {
    const flags = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200", "-i", "0"];
    this.#process = spawn("nvidia-smi", flags, { stdio: ["ignore", "pipe", "ignore"] });
    this.#process.on("error", () => {}); // no NVIDIA GPU
    this.#process.stdout?.on("data", (data) => {
      for (const line of String(data).split("\n")) if (/^\s*\d+\s*$/.test(line)) this.#samples.push(Number(line));
    });
  }

  forget(): void {
    this.#samples.length = 0;
  }

  get idle(): number | undefined {
    if (this.#samples.length === 0) return undefined;
    return 100 - this.#samples.reduce((sum, one) => sum + one, 0) / this.#samples.length;
  }

  close(): void {
    this.#process.kill();
  }
}

export const median = (values: readonly number[]) => {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
};

/** So that siblings differ: random replies earn as a coin falls. */
export const earned = (text: string) =>
  [...text].reduce((sum, character) => sum + (character.codePointAt(0) ?? 0), 0) % 2;
