/**
 * An adapter over `models/maze-2d` learns over a base of 4 bits as over the base as it is. The task is one move of a maze, drawn at a temperature that spoils
 * most replies: the model knows the way, and reward teaches it to say so. Three seeds each; `npm run prove -- quantized` prints the table of docs/results/maze-2d.md.
 *
 * The yardstick, chosen before the first run: at every evaluation the mean of the three seeds over 4 bits lies in the 95 % interval of the mean over the base as it is
 * (Student's t, two degrees of freedom).
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cpuEngine, TORCH } from "../src/engine/torch/test-worker.ts";
import { defineWorld, register } from "../src/envs/index.ts";
import { defineRecipe, resolveRecipe, train } from "../src/train/index.ts";
import "../src/index.ts";
import { maze2d } from "../worlds/maze-2d/maze-2d.ts";

const SEEDS = [1, 2, 3];
const STEPS = 8;
const EVERY = 2;
const STUDENT = 4.303;

/** The first move alone, right if it leads nearer to the goal. */
register(
  defineWorld({
    ...maze2d,
    id: "maze_2d_move",
    async create(options) {
      const world = await maze2d.create(options);
      let right = false;
      return {
        actions: world.actions,
        reset: (seed) => world.reset(seed),
        async act(action) {
          const before = (await world.solve?.())?.length ?? 0;
          const { valid } = await world.act(action);
          right = valid && ((await world.solve?.())?.length ?? 0) < before;
          return { valid, reward: right ? 1 : 0, ended: true };
        },
        observe: (mode) => world.observe(mode),
        task: (style, mode) => world.task(style, mode),
        success: () => right,
      };
    },
  }),
);

function recipe(seed: number) {
  return resolveRecipe(
    defineRecipe({
      name: "quantized",
      model: "models/maze-2d",
      seed,
      lora: { rank: 8, alpha: 16 },
      envs: [
        {
          env: "maze_2d_move",
          options: {
            ...maze2d.difficulties?.easy,
            cellSize: 16,
            padTo: 32,
            protocol: { name: "tuple", tags: true, pick: "first" },
            prompt: "brief",
            feedback: false,
            maxTurns: 1,
          },
        },
      ],
      steps: STEPS,
      groups: 8,
      siblings: 8,
      minibatch: 64,
      sampling: { temperature: 2.4, maxTokens: 32, contextTokens: 256 },
      loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2 },
      optimizer: { name: "adamw", learningRate: 4e-3 },
      evaluate: { every: EVERY, before: true, greedy: false, temperature: 2.4, seeds: [1_000_000_000, 1_000_000_127] },
      sight: { every: 0 },
      checkpoint: { every: STEPS },
      rollout: { live: 64 },
    }),
  );
}

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "saccade-quantized-"));
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

test.runIf(TORCH)(
  "an adapter's curve over 4 bits lies in the interval of the one over the base as it is",
  { timeout: 4 * 3_600_000 },
  async () => {
    const curves = new Map<string, number[][]>();
    let drift = 0;
    for (const base of [undefined, "nf4"] as const) {
      const { engine } = cpuEngine({ base });
      const found: number[][] = [];
      for (const seed of SEEDS) {
        const curve: number[] = [];
        await train({
          recipe: recipe(seed),
          folder: join(scratch, `${base ?? "16-bit"}-${seed}`),
          engine,
          onEvent: ({ kind, metrics }) => {
            if (kind === "eval") curve.push(metrics["eval/success"] as number);
            if (kind === "train") drift = Math.max(drift, metrics["drift/max"] as number);
          },
        });
        found.push(curve);
        process.stderr.write(
          `${base ?? "16-bit"}, seed ${seed}: ${curve.map((value) => value.toFixed(3)).join(" ")}\n`,
        );
      }
      await engine.close();
      curves.set(base ?? "16-bit", found);
    }
    const columns = Array.from({ length: STEPS / EVERY + 1 }, (_, i) => i);
    const of = (base: string, column: number) => (curves.get(base) ?? []).map((curve) => curve[column] ?? Number.NaN);
    const interval = (column: number) => {
      const values = of("16-bit", column);
      const centre = mean(values);
      const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1));
      const half = (STUDENT * spread) / Math.sqrt(values.length);
      return [centre - half, centre + half] as const;
    };
    const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
    const lines = [
      row(["base", "seed", ...columns.map((column) => `step ${EVERY * column}`)]),
      row(["---", "--:", ...columns.map(() => "--:")]),
      ...[...curves].flatMap(([base, found]) => [
        ...found.map((curve, i) => row([base, String(SEEDS[i]), ...curve.map((value) => value.toFixed(3))])),
        row([base, "mean", ...columns.map((column) => mean(of(base, column)).toFixed(3))]),
      ]),
      row([
        "16-bit",
        "95 % of the mean",
        ...columns.map((column) =>
          interval(column)
            .map((value) => value.toFixed(3))
            .join("–"),
        ),
      ]),
    ];
    process.stdout.write(`${lines.join("\n")}\nlargest drift ${drift.toExponential(1)}\n`);
    // It learns something in the first place.
    expect(mean(of("16-bit", columns.length - 1)) - mean(of("16-bit", 0))).toBeGreaterThan(0.1);
    expect(drift).toBeLessThan(1e-3);
    for (const column of columns) {
      const [low, high] = interval(column);
      expect(mean(of("nf4", column))).toBeGreaterThanOrEqual(low);
      expect(mean(of("nf4", column))).toBeLessThanOrEqual(high);
    }
  },
);
