/**
 * `npm run prove -- trl`: TRL's `GRPOTrainer` trains one step on our lake through OpenEnv's official client, with a tiny model. Every episode that TRL
 * reports is one that our server played, and the step moves the weights. SACCADE_TRL_PYTHON: see `python/neighbours/install.py`.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { serveTiny } from "./test-serve.ts";

const python = process.env.SACCADE_TRL_PYTHON;
const STEP = fileURLToPath(new URL("../../python/neighbours/trl_step.py", import.meta.url));
const EPISODES = 16;

type Said = {
  readonly episodes: readonly { seed: number; turns: number; reward: number; success: boolean }[];
  readonly moved: number;
  readonly logged: Readonly<Record<string, number>>;
};

test.runIf(python)("TRL trains a step on the lake", async () => {
  const served = await serveTiny({ environments: { names: ["frozen_lake"], openenv: true } });
  try {
    const args = [STEP, served.url, served.folder, join(served.root, "trl")];
    const { stdout } = await promisify(execFile)(python as string, args, { maxBuffer: 1 << 26 });
    const { episodes, moved, logged } = JSON.parse(stdout.trim().split("\n").at(-1) as string) as Said;
    expect(episodes).toHaveLength(EPISODES);
    const mean = episodes.reduce((sum, { reward }) => sum + reward, 0) / EPISODES;
    expect(logged.reward).toBeCloseTo(mean, 5);
    // Siblings earned different things, so there was something to learn.
    expect(logged.reward_std).toBeGreaterThan(0);
    expect(logged.grad_norm).toBeGreaterThan(0);
    expect(moved).toBeGreaterThan(0);
    const won = episodes.filter(({ success }) => success).length;
    console.log(
      `TRL: ${EPISODES} episodes, ${won} won, mean reward ${mean.toFixed(3)}, grad norm ${logged.grad_norm?.toFixed(3)}, largest change of a weight ${moved.toExponential(1)}`,
    );
  } finally {
    await served.close();
  }
});
