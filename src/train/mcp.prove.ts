/**
 * `npm run prove -- mcp`: a training run whose tools are those of the protocol's own test server, `@modelcontextprotocol/server-everything`, which returns an
 * image. A short warm start teaches a tiny model to ask for it; the run then plays and learns with the server's results. One server process per environment,
 * and none is left when the run ends.
 */
import { readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import { register } from "../envs/registry.ts";
import { defineTask } from "../envs/task.ts";
import { createFolder } from "../model/folder.ts";
import { temporaryFolder } from "../model/test-folder.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { TINY, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

const EVERYTHING = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js"));
const CALL = '<tool_call>\n{"name": "get-tiny-image", "arguments": {}}\n</tool_call>';
/** Nothing says which is wanted: the warm start learns all of them, and the reward decides. */
const ANSWERS = ["ok", "halt halt", "turn turn turn"];
const STEPS = 3;
const EPISODES = 16;

register(
  defineTask({
    id: "tiny_image",
    data: Array.from({ length: 64 }, (_, i) => ({ i })),
    mcp: { command: ["node", EVERYTHING], tools: ["get-tiny-image"] },
    maxTurns: 2,
    prompt: () => "Look.",
    // A second turn comes after a call alone; the shorter the answer, the better.
    reward: (reply, _, turn) => (turn === 2 ? 1 / (1 + reply.length) : 0),
    answer: ({ i }, turn) => (turn === 1 ? CALL : (ANSWERS[i % ANSWERS.length] as string)),
  }),
);
const engine = new NativeEngine({ threads: 2 });
let root: string;
beforeAll(async () => {
  root = await temporaryFolder();
  const corpus = [...(TINY.corpus ?? []), CALL, CALL, "Look.", ...ANSWERS];
  await createFolder(join(root, "model"), {
    ...TINY,
    corpus,
    vocab_size: 420,
    text: { ...TINY.text, max_position_embeddings: 2048 },
  });
});
afterAll(async () => {
  await engine.close();
  await rm(root, { recursive: true, force: true });
});

/** Processes of the test server that are alive. */
function servers(): number {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const [command, script] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
        return command?.endsWith("node") && script === EVERYTHING;
      } catch {
        return false;
      }
    }).length;
}

test("a run trains with the images that a tool server returns, and leaves no server behind", async () => {
  const before = servers();
  const steps: Readonly<Record<string, number>>[] = [];
  const numbers: number[] = [];
  const folder = join(root, "run");
  const recipe = tinyRecipe(join(root, "model"), {
    envs: [{ env: "tiny_image" }],
    steps: STEPS,
    warmStart: { episodes: 1600, batch: 16, optimizer: { name: "muon", learningRate: 0.02, adamLearningRate: 0.01 } },
    sampling: { maxTokens: 64, contextTokens: 2048 },
    optimizer: { name: "adamw", learningRate: 0.001 },
    rollout: { live: 4 },
    evaluate: { every: 100, before: false, greedy: false, seeds: [48, 63] },
  });
  await train({
    recipe,
    folder,
    engine,
    onEvent: ({ kind, step, metrics }) => {
      if (kind !== "train") return;
      steps.push(metrics);
      numbers.push(step);
    },
  });
  expect(steps).toHaveLength(STEPS);
  for (const metrics of steps) {
    expect([metrics["train/episodes"], metrics["train/failed"]]).toEqual([EPISODES, 0]);
    expect([metrics["drift/max"], metrics["sight/hash_mismatches"] ?? 0]).toEqual([0, 0]);
  }
  expect(steps.some((metrics) => (metrics["optimizer/grad_norm"] ?? 0) > 0)).toBe(true);
  let [calls, images] = [0, 0];
  for (const step of numbers) {
    for (const { turns } of await readTrajectories(folder, step)) {
      if (turns[0]?.reply.includes("get-tiny-image")) calls += 1;
      if ((turns[1]?.frames.length ?? 0) > 0) images += 1;
    }
  }
  expect(calls).toBeGreaterThan(0);
  expect(images).toBe(calls);
  expect(servers()).toBe(before);
  console.log(
    `${STEPS} steps of ${EPISODES} episodes; ${calls} of those on record called the tool and saw its image; mean reward ${steps.map((metrics) => metrics["train/reward"]?.toFixed(3)).join(", ")}`,
  );
});
