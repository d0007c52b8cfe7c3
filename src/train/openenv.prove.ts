/**
 * `npm run prove -- openenv`, second half: our client trains a step on other people's OpenEnv servers. One is what `openenv init` makes, which has a single
 * session that all episodes share; one is on `openenv.core` and returns screenshots as nested lists, which the model must see as images.
 * SACCADE_OPENENV_PYTHON: see `python/neighbours/install.py`.
 */
import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { imagesOf, textOf } from "../core/message.ts";
import { NativeEngine } from "../engine/index.ts";
import { makeEnv } from "../envs/index.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { startPython } from "./test-python-server.ts";
import { type TestFolder, testFolder, tinyRecipe, weightsUnder } from "./test-run.ts";
import { train } from "./train.ts";

const python = process.env.SACCADE_OPENENV_PYTHON;
const SIGNALS = fileURLToPath(new URL("../../python/neighbours/signals_server.py", import.meta.url));
const STEPS = 2;
const EPISODES = 16;
const engine = new NativeEngine({ threads: 2 });
let folder: TestFolder;
beforeAll(async () => {
  folder = await testFolder();
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

/** Two steps of 16 episodes, eight at a time: every one is played, and the weights move. */
async function trains(url: string, name: string, options: object) {
  const steps: Readonly<Record<string, number>>[] = [];
  const path = join(folder.root, name);
  const recipe = tinyRecipe(folder.model, {
    envs: [{ env: "openenv", options: { url, ...options } }],
    steps: STEPS,
    sampling: { maxTokens: 8, contextTokens: 512 },
    rollout: { live: 8 },
    optimizer: { name: "adamw", learningRate: 0.01 },
  });
  const { model } = await train({
    recipe,
    folder: path,
    engine,
    onEvent: ({ kind, metrics }) => {
      if (kind === "train") steps.push(metrics);
    },
  });
  expect(steps).toHaveLength(STEPS);
  for (const metrics of steps) {
    expect([metrics["train/episodes"], metrics["train/failed"]]).toEqual([EPISODES, 0]);
    expect(metrics["drift/max"]).toBe(0);
    expect(metrics["optimizer/grad_norm"]).toBeGreaterThan(0);
    expect(metrics["sight/hash_mismatches"] ?? 0).toBe(0);
  }
  expect(weightsUnder(model)).not.toEqual(weightsUnder(folder.model));
  const rewards = steps.map((metrics) => metrics["train/reward"]?.toFixed(3)).join(", ");
  console.log(`${name}: ${STEPS} steps of ${EPISODES} episodes, mean reward ${rewards}`);
  return readTrajectories(path, 1);
}

test.runIf(python)(
  "a server that `openenv init` made has one session, and a training step is played on it",
  async () => {
    execFileSync(join(dirname(python as string), "openenv"), ["init", "echoes"], { cwd: folder.root, stdio: "ignore" });
    const server = await startPython(
      (port) => [
        python as string,
        "-m",
        "uvicorn",
        "echoes.server.app:app",
        "--port",
        String(port),
        "--log-level",
        "warning",
      ],
      { cwd: folder.root },
    );
    try {
      const records = await trains(server.url, "echo", { maxTurns: 1 });
      for (const { turns, reward } of records) {
        // The environment pays a tenth for each letter that it echoes.
        const letters = [...(turns[0]?.reply.trim() ?? "")].length;
        expect(reward).toBeCloseTo(Math.min(letters * 0.1, 1), 6);
      }
    } finally {
      server.close();
    }
  },
);

test.runIf(python)("screenshots that a server returns as lists are seen as images and trained on", async () => {
  const server = await startPython((port) => [python as string, SIGNALS, String(port)]);
  try {
    const env = await makeEnv("openenv", { url: server.url });
    const first = await env.reset(1);
    const [shown] = first.flatMap(imagesOf);
    expect([shown?.width, shown?.height]).toEqual([32, 32]);
    expect(first.map(textOf).join()).toContain("Signal?");
    expect(first.map(textOf).join()).not.toContain("[[");
    await env.close?.();
    const records = await trains(server.url, "lists", {});
    expect(records.length).toBeGreaterThan(0);
    for (const { turns } of records) expect(turns[0]?.frames).toHaveLength(1);
  } finally {
    server.close();
  }
});
