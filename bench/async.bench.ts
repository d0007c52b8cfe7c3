/**
 * What asynchronous rollouts are worth when environments are slow: the same tiny recipe with environments that take 30–80 ms a step, synchronous
 * (`maxStaleness` 0) and with rollouts up to 2 updates old, in turns. `npm run bench -- async`; BENCH_ROUNDS is how many runs each makes (3),
 * BENCH_STEPS how many updates each run has (12; the first four, in which the pipeline fills, are not counted), BENCH_LATENCY the milliseconds ("30-80").
 */
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { Metrics } from "../src/run/events.ts";
import { costsOfRun, simulateLoop } from "../src/train/simulate.ts";
import { table } from "./peer.ts";
import { defineEnv, type Env, makeEnv, NumpyRandom, register, resolveRecipe, train } from "./saccade.ts";

const STEPS = Number(process.env.BENCH_STEPS ?? 12);
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const UNCOUNTED = 4;
const [MIN_MS = 30, MAX_MS = 80] = (process.env.BENCH_LATENCY ?? "30-80").split("-").map(Number);

/** A frozen lake behind a slow wire. */
const slowLake = defineEnv({
  id: "bench_slow_lake",
  options: z.strictObject({}),
  async create(): Promise<Env> {
    const lake = await makeEnv("frozen_lake", { prompt: "brief", maxTurns: 4, cellSize: 16 });
    let delays = new NumpyRandom(0);
    const wire = () => new Promise((resolve) => setTimeout(resolve, MIN_MS + (MAX_MS - MIN_MS) * delays.random()));
    return {
      async reset(seed) {
        delays = new NumpyRandom(seed);
        await wire();
        return lake.reset(seed);
      },
      async step(reply) {
        await wire();
        return lake.step(reply);
      },
    };
  },
});
register(slowLake);

type Figures = { perMinute: number; wait: number; learn: number; stale: number };
/** The steps of each run that are counted, for the simulator. */
const logged = new Map<number, Metrics[]>();
const SHAPE = { groups: 8, siblings: 8 };
const live = (maxStaleness: number) => 64 * (maxStaleness + 1);

async function measure(maxStaleness: number, folder: string): Promise<Figures> {
  const recipe = resolveRecipe({
    name: `async-${maxStaleness}`,
    model: { preset: "nano" },
    envs: [{ env: slowLake.id }],
    steps: STEPS,
    ...SHAPE,
    sampling: { maxTokens: 8, contextTokens: 512 },
    // Every group is learned from, whatever it earned: the work of a step must not depend on luck.
    filters: [],
    optimizer: { learningRate: 1e-4 },
    maxStaleness,
    evaluate: { every: 1_000_000, before: false, seeds: [1_000_000_000, 1_000_000_000], greedy: false },
    sight: { every: 0 },
    checkpoint: { every: 1_000_000 },
    rollout: { live: live(maxStaleness) },
  });
  const ends: number[] = [];
  const seen = { wait: 0, learn: 0, stale: 0 };
  await train({
    recipe,
    folder,
    onStep: ({ step, metrics }) => {
      ends.push(performance.now());
      if (step <= UNCOUNTED) return undefined;
      logged.set(maxStaleness, [...(logged.get(maxStaleness) ?? []), { ...metrics }]);
      seen.wait += metrics["time/wait"] ?? 0;
      seen.learn += metrics["time/learn"] ?? 0;
      seen.stale += metrics["staleness/mean"] ?? 0;
      return undefined;
    },
  });
  const counted = STEPS - UNCOUNTED;
  const minutes = (ends[STEPS - 1]! - ends[UNCOUNTED - 1]!) / 60_000;
  return {
    perMinute: counted / minutes,
    wait: seen.wait / counted,
    learn: seen.learn / counted,
    stale: seen.stale / counted,
  };
}

const scratch = mkdtempSync(join(tmpdir(), "saccade-bench-"));
try {
  const [load = 0] = loadavg();
  if (load > 0.5) console.log(`The machine is busy (load ${load.toFixed(1)}): these figures mean little.`);
  const found = new Map<number, Figures[]>([0, 2].map((staleness) => [staleness, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [staleness, runs] of found) {
      runs.push(await measure(staleness, join(scratch, `${staleness}-${round}`)));
    }
  }
  const median = (runs: readonly Figures[], name: keyof Figures) =>
    runs.map((run) => run[name]).sort((a, b) => a - b)[runs.length >> 1]!;
  const base = median(found.get(0)!, "perMinute");
  console.log(
    `### Environments that take ${MIN_MS}–${MAX_MS} ms a step: \`nano\`, 64 episodes of up to 4 turns a step; median of ${ROUNDS} runs of ${STEPS - UNCOUNTED} steps\n`,
  );
  table(
    ["maxStaleness", "steps a minute", "ratio", "waiting s a step", "learning s a step", "staleness, mean"],
    [...found].map(([staleness, runs]) => [
      staleness,
      median(runs, "perMinute").toFixed(1),
      `${(median(runs, "perMinute") / base).toFixed(2)}×`,
      median(runs, "wait").toFixed(3),
      median(runs, "learn").toFixed(3),
      median(runs, "stale").toFixed(2),
    ]),
  );
  // What the synchronous runs cost, played through with the other staleness: sampler and learner share no core there, as they do here.
  const env = (MIN_MS + MAX_MS) / 2000;
  const costs = costsOfRun(logged.get(0)!, { ...SHAPE, maxStaleness: 0, live: live(0) }, env);
  const step = (maxStaleness: number) => simulateLoop({ ...costs, maxStaleness, live: live(maxStaleness) }).step;
  console.log(
    `\nThe simulator of \`saccade scale samplers\`, told the synchronous runs alone, says ${(step(0) / step(2)).toFixed(2)}× for maxStaleness 2.`,
  );
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
