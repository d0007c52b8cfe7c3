/**
 * The quickstart (AdamW, no entropy bonus) over the Tinker API to a server of ours in another process, beside the same run in this process: the same losses,
 * bit for bit, the same success; and how much of the throughput is left, on `micro`. `npm run prove -- src/train/tinker`; needs `npm run build`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createFolder } from "../model/folder.ts";
import { loadEvents } from "../run/events.ts";
import { type Recipe, resolveRecipe } from "./recipe.ts";
import { loadRecipe } from "./recipes.ts";
import { train } from "./train.ts";

let root = "";
let served: ChildProcess | undefined;
beforeEach(async () => {
  process.env.TINKER_API_KEY = "tml-prove";
  root = await mkdtemp(join(tmpdir(), "saccade-tinker-"));
});
afterEach(async () => {
  served?.kill();
  await rm(root, { recursive: true, force: true });
});

/** `saccade serve` on a free port; its address. */
async function serve(model: string, engine: object): Promise<string> {
  const store = join(root, "store");
  await mkdir(store);
  const cli = fileURLToPath(new URL("../../dist/cli.js", import.meta.url));
  const options = ["--model", model, "--store", store, "--port", "0", "--engine", JSON.stringify(engine)];
  const child = spawn(process.execPath, [cli, "serve", ...options], { stdio: ["ignore", "pipe", "inherit"] });
  served = child;
  return new Promise((up, failed) => {
    child.stdout.once("data", (line: Buffer) => up(line.toString().trim()));
    child.once("exit", (code) => failed(new Error(`saccade serve ended with ${code}`)));
  });
}

async function twice(recipe: Recipe, model: string, threads?: number) {
  const engine = { name: "native", ...(threads !== undefined && { threads }) };
  const url = await serve(model, engine);
  const here = { ...recipe, model, engine };
  await train({ recipe: here, folder: join(root, "here") });
  await train({ recipe: { ...here, engine: { name: "tinker", url } }, folder: join(root, "there") });
  const [mine, theirs] = await Promise.all(["here", "there"].map((name) => loadEvents(join(root, name))));
  return [mine?.events ?? [], theirs?.events ?? []] as const;
}

test("the quickstart over the Tinker API has the losses of the one in this process, and its success", async () => {
  // A part of the run, where time is short.
  const share = Number(process.env.SACCADE_QUICKSTART_SHARE ?? 1);
  const { warmStart, steps, evaluate } = loadRecipe("quickstart");
  const adamw = { name: "adamw", adamLearningRate: undefined } as const;
  const whole = loadRecipe("quickstart", {
    steps: Math.round(share * steps),
    evaluate: { every: Math.round(share * evaluate.every) },
    warmStart: {
      episodes: Math.round(share * (warmStart?.episodes ?? 0)),
      optimizer: { ...adamw, learningRate: 0.0004 },
    },
    optimizer: { ...adamw, learningRate: 0.0005 },
    loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.28, entropy: 0 },
  });
  const model = join(root, "model");
  if (typeof whole.model === "string") throw new Error("this recipe makes its model");
  const { preset, set } = whole.model;
  await createFolder(model, { preset, seed: whole.seed, ...set });
  const [mine, theirs] = await twice(whole, model);
  for (const [kind, metric] of [
    ["sft", "sft/nll"],
    ["train", "policy/loss"],
    ["train", "optimizer/grad_norm"],
  ] as const) {
    const of = (events: typeof mine) => events.flatMap((event) => (event.kind === kind ? [event.metrics[metric]] : []));
    const [ours, wire] = [of(mine), of(theirs)];
    const same = ours.findIndex((value, i) => value !== wire[i]);
    console.log(`${metric}: ${ours.length} values, ${same < 0 ? "all equal bit for bit" : `equal up to ${same}`}`);
    expect(ours.length).toBeGreaterThanOrEqual(20);
    expect(wire.slice(0, 20)).toEqual(ours.slice(0, 20));
  }
  const last = (events: typeof mine) =>
    events.filter(({ kind }) => kind === "eval").at(-1)?.metrics["eval/success"] ?? -1;
  const first = mine.find(({ kind }) => kind === "eval")?.metrics["eval/success"] ?? 1;
  console.log(`success: ${first} → ${last(mine)} in this process, ${last(theirs)} over the Tinker API`);
  expect(Math.abs(last(mine) - last(theirs))).toBeLessThanOrEqual(0.03);
  // Two runs that learn nothing would agree as well.
  expect(last(mine)).toBeGreaterThan(first + 0.1 * share);
});

test("`micro` on two threads trains at 0.7 of the speed in this process, or more", async () => {
  const quick = loadRecipe("quickstart");
  const model = join(root, "model");
  await createFolder(model, { preset: "micro", seed: 0 });
  const recipe = resolveRecipe({
    name: "micro",
    model,
    envs: quick.envs,
    steps: 6,
    groups: 8,
    siblings: 8,
    sampling: { maxTokens: 12, contextTokens: 512 },
    filters: [],
    loss: { name: "ppo" },
    optimizer: { learningRate: 1e-5 },
    evaluate: { every: 100, before: false, greedy: false, seeds: [1_000_000_000, 1_000_000_001], decisions: false },
    sight: { every: 0 },
    rollout: { live: 64 },
  });
  const [mine, theirs] = await twice(recipe, model, 2);
  // The first step compiles and fills caches.
  const seconds = (events: typeof mine) => {
    const steps = events.filter(({ kind }) => kind === "train");
    return ((steps.at(-1)?.time as number) - (steps[0]?.time as number)) / 1000;
  };
  const tokens = (events: typeof mine) =>
    events
      .filter(({ kind }) => kind === "train")
      .slice(1)
      .reduce((sum, { metrics }) => sum + (metrics["train/tokens"] ?? 0), 0);
  const [ours, wire] = [seconds(mine), seconds(theirs)];
  console.log(
    `${ours.toFixed(1)} s in this process, ${wire.toFixed(1)} s over the Tinker API: ${(ours / wire).toFixed(2)} of the throughput`,
  );
  expect(tokens(theirs)).toBe(tokens(mine));
  expect(ours / wire).toBeGreaterThanOrEqual(0.7);
});
