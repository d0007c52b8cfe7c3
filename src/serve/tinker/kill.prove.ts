/** A Tinker server killed twenty times under sixty clients of ours and four of the official SDK: `SACCADE_TINKER_PYTHON=… npm run prove -- kill`. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { PythonRandom } from "../../core/random-python.ts";
import { temporaryFolder } from "../../model/test-folder.ts";
import { createServable } from "../test-serve.ts";
import { live } from "./test-kill.ts";

const python = process.env.SACCADE_TINKER_PYTHON ?? "";
const KILLS = 20;
const seed = Number(process.env.SACCADE_SEED ?? 1);

test("sixty-four clients of a server that is killed twenty times lose no step, and no checkpoint is broken", async () => {
  expect(python, "SACCADE_TINKER_PYTHON names a Python with tinker").toBeTruthy();
  const root = await temporaryFolder();
  try {
    const model = join(root, "model");
    await createServable(model);
    const random = new PythonRandom(seed);
    const kills = Array.from({ length: KILLS }, () => random.random() * 1500);
    const plan = { model, clients: 60, sdks: 4, python, steps: 16, kills: [] };
    const calm = await live({ ...plan, store: join(root, "calm") });
    const killed = await live({ ...plan, store: join(root, "killed"), kills });
    const steps = killed.clients.reduce((sum, { losses }) => sum + losses.length, 0);
    const story = `${killed.kills} kills, each ${kills.map((ms) => Math.round(ms)).join(", ")} ms after a twentieth of the steps`;
    process.stdout.write(`${story}; ${steps} steps, ${killed.seen} checkpoints read after kills\n`);
    expect(killed.kills).toBe(KILLS);
    expect(killed.broken).toEqual([]);
    const said = ({ clients }: typeof calm) => clients.map(({ losses, tokens }) => ({ losses, tokens }));
    expect(said(killed)).toEqual(said(calm));
    expect(killed.files).toEqual(calm.files);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});
