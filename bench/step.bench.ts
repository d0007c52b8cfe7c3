/**
 * Where the time of a whole step goes: 32 × 8 episodes of `maze_2d/easy` with 15 turns of 64 tokens, four updates, through the trainer. `npm run bench -- step`.
 * Rewards are a coin's, so that every group is trained. The first step warms up (kernels are compiled, caches grow); each step is printed as it ends.
 * BENCH_ENGINE: the recipe's engine, JSON ("native"); BENCH_MODEL: its model, JSON, or "2b" or "7m" for random weights in the shape of Qwen3-VL-2B or of the
 * recipe maze-2d-gpu ({"preset":"nano"}); BENCH_FOLDER: where that model is made, and left for the next time; BENCH_STEPS (4); BENCH_GROUPS (32); BENCH_TURNS
 * (15); BENCH_TOKENS (64); BENCH_CELL: pixels of a cell of the maze (25, frames of 225×225).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { benchModel, earned, Gpu, median, trainUnsaved } from "./gpu.ts";
import { table } from "./peer.ts";
import {
  defineEnv,
  type Env,
  type Metrics,
  makeEnv,
  openEngine,
  type RecipeInput,
  register,
  resolveRecipe,
  TorchEngine,
} from "./saccade.ts";

const setting = (name: string, otherwise: number) => Number(process.env[`BENCH_${name}`] ?? otherwise);
const STEPS = setting("STEPS", 4);
const GROUPS = setting("GROUPS", 32);
const TURNS = setting("TURNS", 15);
const TOKENS = setting("TOKENS", 64);
const CELL = setting("CELL", 25);
const SIBLINGS = 8;
const EPISODES = GROUPS * SIBLINGS;
const asked: RecipeInput["engine"] = JSON.parse(process.env.BENCH_ENGINE ?? '"native"');
const scratch = mkdtempSync(join(tmpdir(), "saccade-step-"));

register(
  defineEnv({
    id: "bench_maze",
    options: z.strictObject({}),
    async create(): Promise<Env> {
      const maze = await makeEnv("maze_2d/easy", { cellSize: CELL, maxTurns: TURNS });
      return {
        reset: (seed) => maze.reset(seed),
        async step(reply) {
          const step = await maze.step(reply);
          const over = step.terminated || step.truncated;
          return { ...step, rewards: [{ name: "task", value: over ? earned(reply) : 0 }] };
        },
      };
    },
  }),
);

const PARTS = ["wait", "sample", "encode", "env", "learn", "score", "publish", "other"] as const;
const MEANS: Readonly<Record<string, string>> = {
  step: "the whole step",
  wait: "waiting for episodes",
  sample: "in it, at least one reply is sampled",
  encode: "in it, images are prepared",
  env: "in it, worlds work",
  learn: "learning",
  score: "in it, scoring",
  publish: "publishing",
};
type Row = {
  readonly metrics: Metrics;
  readonly sampled: number;
  readonly trained: number;
  readonly cpu: number;
  readonly prompt: number | undefined;
  readonly idle: number | undefined;
};

const recipe = resolveRecipe({
  name: "step",
  model: await benchModel(process.env.BENCH_MODEL ?? '{"preset":"nano"}', scratch),
  engine: asked,
  envs: [{ env: "bench_maze" }],
  steps: STEPS + 1,
  groups: GROUPS,
  siblings: SIBLINGS,
  minibatch: EPISODES / 4,
  sampling: { maxTokens: TOKENS, contextTokens: 8192 },
  evaluate: { every: 0 },
  sight: { every: 0 },
  optimizer: { name: "adamw", learningRate: 1e-6 },
  rollout: { live: EPISODES },
});
const engine = await openEngine(recipe.engine);
const gpu = new Gpu();
try {
  /** Ids of prompts that the sampler computed, so far. */
  const prompts = async () => {
    const { stats } = engine instanceof TorchEngine ? await engine.health() : {};
    return (stats as { prefilledTokens?: number } | undefined)?.prefilledTokens;
  };
  const rows: Row[] = [];
  let used = process.cpuUsage();
  let before = 0;
  await trainUnsaved({ recipe, folder: join(scratch, "run"), engine }, async (metrics) => {
    const { user, system } = process.cpuUsage(used);
    used = process.cpuUsage();
    const now = await prompts();
    const seconds = metrics["time/step"] ?? Number.NaN;
    const row: Row = {
      metrics,
      sampled: (metrics["speed/sampled_tokens"] ?? Number.NaN) * seconds,
      trained: (metrics["speed/trained_tokens"] ?? Number.NaN) * seconds,
      cpu: (user + system) / 1e6,
      prompt: now === undefined ? undefined : now - before,
      idle: gpu.idle,
    };
    before = now ?? 0;
    gpu.forget();
    rows.push(row);
    console.error(
      `step ${rows.length} of ${STEPS}: ${seconds.toFixed(2)} s (${PARTS.map((part) => `${part} ${time(row, part).toFixed(2)}`).join(", ")}), ` +
        `sampled ${row.sampled.toFixed(0)} of ${row.trained.toFixed(0)} ids, prompts computed ${row.prompt ?? "–"}, drift ${(metrics["drift/mean"] ?? Number.NaN).toExponential(1)}, ` +
        `${row.cpu.toFixed(2)} s of CPU, GPU idle ${row.idle?.toFixed(0) ?? "–"} %`,
    );
    return rows.length === STEPS;
  });
  const warm = rows.length > 1 ? rows.slice(1) : rows;
  const of = (figure: (row: Row) => number) => median(warm.map(figure));
  const whole = of((row) => time(row, "step"));
  table(
    ["", "seconds", "share of the step"],
    (["step", ...PARTS] as const).map((part) => {
      const seconds = of((row) => time(row, part));
      return [MEANS[part] ?? part, seconds.toFixed(2), `${((100 * seconds) / whole).toFixed(0)} %`];
    }),
  );
  const idle = of((row) => row.idle ?? Number.NaN);
  const prompt = of((row) => row.prompt ?? Number.NaN);
  console.log(
    `Sampled ${of((row) => row.sampled / time(row, "sample")).toFixed(0)} tokens/s while at least one reply was sampled, learned ${of((row) => row.trained / time(row, "learn")).toFixed(0)} tokens/s. ` +
      `Of ${of((row) => row.trained - row.sampled).toFixed(0)} ids of prompts the sampler computed ${Number.isNaN(prompt) ? "–" : prompt.toFixed(0)} (siblings share theirs; more than all: it computed some again). ` +
      `Drift ${of((row) => row.metrics["drift/mean"] ?? Number.NaN).toExponential(1)}. GPU idle ${Number.isNaN(idle) ? "–" : `${idle.toFixed(0)} %`}, ` +
      `${of((row) => row.cpu).toFixed(1)} s of CPU in this process. Median of ${warm.length} steps; the first took ${time(rows[0], "step").toFixed(1)} s. ${cpus().length} cores, load ${loadavg()[0]?.toFixed(1)}.`,
  );
} finally {
  gpu.close();
  await engine.close();
  rmSync(scratch, { recursive: true, force: true });
}

function time(row: Row | undefined, part: string): number {
  return row?.metrics[`time/${part}`] ?? Number.NaN;
}
