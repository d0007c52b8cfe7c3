/**
 * `npm run prove -- atif`: 1,000 episodes of three worlds as ATIF trajectories. Harbor's own validator passes each of them; read in again, they train a
 * model to the same losses and the same weights as the demonstrations that they came from, bit for bit. SACCADE_HARBOR_PYTHON: see
 * `python/neighbours/install.py`.
 */
import { execFileSync } from "node:child_process";
import { appendFileSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import { AtifWriter, readAtif } from "../envs/atif.ts";
import { type Demo, DemoWriter, playDemo, readDemos } from "../envs/demos.ts";
import { makeEnv } from "../envs/index.ts";
import { createFolder } from "../model/folder.ts";
import { temporaryFolder } from "../model/test-folder.ts";
import { TINY, tinyRecipe, weightsUnder } from "./test-run.ts";
import { train } from "./train.ts";

const python = process.env.SACCADE_HARBOR_PYTHON;
const EPISODES = 1000;
const SMALL = { prompt: "brief", maxLongSide: 64 } as const;
const PLAYED = [
  { env: "frozen_lake", options: SMALL },
  { env: "sokoban", options: SMALL },
  { env: "frozen_lake", options: { ...SMALL, protocol: { name: "tool-call", form: "qwen" } } },
];
/** Some actions are slips, which are shown and not learned. */
const NOISE = { probability: 0.2, labels: "agreed" } as const;
const VALIDATE = `
import json, pathlib, sys
from harbor.utils.trajectory_validator import TrajectoryValidator
wrong = {}
files = sorted(pathlib.Path(sys.argv[1]).glob("*.json"))
for file in files:
    validator = TrajectoryValidator()
    if not validator.validate(file):
        wrong[file.name] = validator.get_errors()
print(json.dumps({"valid": len(files) - len(wrong), "wrong": wrong}))
`;
const engine = new NativeEngine({ threads: 2 });
let root: string;
beforeAll(async () => {
  root = await temporaryFolder();
  await createFolder(join(root, "model"), { ...TINY, text: { ...TINY.text, max_position_embeddings: 4096 } });
});
afterAll(async () => {
  await engine.close();
  await rm(root, { recursive: true, force: true });
});

function validate(folder: string): { valid: number; wrong: Record<string, string[]> } {
  const said = execFileSync(python as string, ["-c", VALIDATE, folder], { maxBuffer: 1 << 26 });
  return JSON.parse(String(said)) as ReturnType<typeof validate>;
}

/** The loss of every update, and the weights at the end. */
async function imitated(file: string, name: string) {
  const losses: number[] = [];
  const recipe = tinyRecipe(join(root, "model"), {
    steps: 0,
    warmStart: { files: [file], batch: 50, optimizer: { name: "adamw", learningRate: 0.003 } },
    sampling: { maxTokens: 4, contextTokens: 4096 },
  });
  const { model } = await train({
    recipe,
    folder: join(root, name),
    engine,
    onEvent: ({ metrics }) => {
      const loss = metrics["sft/nll"];
      if (loss !== undefined) losses.push(loss);
    },
  });
  return { losses, weights: weightsUnder(model) };
}

async function save(file: string, demos: AsyncIterable<Demo>): Promise<number> {
  const writer = new DemoWriter(file, false);
  let count = 0;
  for await (const demo of demos) {
    appendFileSync(file, `${writer.row(demo)}\n`);
    count += 1;
  }
  return count;
}

async function* played(): AsyncGenerator<Demo> {
  for (const [i, { env, options }] of PLAYED.entries()) {
    const made = await makeEnv(env, options);
    for (let seed = i; seed < EPISODES; seed += PLAYED.length) yield await playDemo(env, made, seed, options, NOISE);
    await made.close?.();
  }
}

test.runIf(python)("1,000 episodes are valid ATIF, and train the same after the way there and back", async () => {
  const [first, folder, again] = [join(root, "first.jsonl"), join(root, "atif"), join(root, "again.jsonl")];
  expect(await save(first, played())).toBe(EPISODES);
  const writer = new AtifWriter(folder);
  for await (const demo of readDemos(first)) writer.write(demo);
  const { valid, wrong } = validate(folder);
  expect([valid, wrong]).toEqual([EPISODES, {}]);
  expect(await save(again, readAtif(folder))).toBe(EPISODES);
  const [near, back] = [await imitated(first, "near"), await imitated(again, "back")];
  expect(near.losses.length).toBeGreaterThan(10);
  expect(back).toEqual(near);
  const [from, to] = [near.losses[0], near.losses.at(-1)].map((loss) => loss?.toFixed(4));
  console.log(
    `${valid} of ${EPISODES} valid, ${readdirSync(join(folder, "images")).length} images; loss ${from} to ${to} in ${near.losses.length} updates, equal`,
  );
});

test.runIf(python)("the validator is no rubber stamp: a trajectory with a step too many is refused", async () => {
  const folder = join(root, "wrong");
  const env = await makeEnv("frozen_lake", SMALL);
  const writer = new AtifWriter(folder);
  const file = writer.write(await playDemo("frozen_lake", env, 1));
  appendFileSync(file, "{}");
  expect(validate(folder).valid).toBe(0);
});
