/**
 * A run that is killed goes on as if nothing had happened: its last weights and optimizer states are those of the run that was left alone, bit for bit. CI kills
 * a few times; SACCADE_THOROUGH=1 kills twenty times each.
 */
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PythonRandom } from "../core/random-python.ts";
import { NativeEngine } from "../engine/index.ts";
import { loadEvents, type RunEvent } from "../run/events.ts";
import type { Recipe } from "./recipe.ts";
import type { Ending } from "./test-process.ts";
import { resumeRecipe, type TestFolder, warmFolder, weightsUnder } from "./test-run.ts";
import { train } from "./train.ts";

const JITI = join(import.meta.dirname, "../../node_modules/jiti/lib/jiti-cli.mjs");
const KILLS = process.env.SACCADE_THOROUGH ? 20 : 3;
const LAST = "checkpoints/step-16";

let folder: TestFolder;
let engine: NativeEngine;
const straight: Record<string, Record<string, string>> = {};
const newFolder = () => mkdtempSync(join(folder.root, "run-"));

beforeAll(async () => {
  engine = new NativeEngine({ threads: 2 });
  folder = await warmFolder(engine);
  for (const variant of ["kl", "critic"] as const) {
    const run = newFolder();
    await train({ recipe: resumeRecipe(folder.model, variant), folder: run, engine });
    straight[variant] = weightsUnder(join(run, LAST));
  }
}, 300_000);
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

/** Runs until it ends by itself (true) or is killed. */
async function runUntil(ending: Ending, run: string, variant: string): Promise<boolean> {
  const script = join(import.meta.dirname, "test-process.ts");
  const args = [JITI, script, folder.model, run, variant, JSON.stringify(ending)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  child.stdout.on("data", (data: Buffer) => {
    printed += data.toString();
  });
  await new Promise((resolve) => child.once("close", resolve));
  if (child.signalCode === "SIGKILL") return false;
  expect(printed).toBe("finished\n");
  return true;
}

/** Where a kill fell, for whoever runs the thorough version. */
function describeKill(ending: Ending, run: string): string {
  const names = readdirSync(join(run, "checkpoints"));
  const half = names.filter((name) => /tmp-|old-/.test(name)).length;
  const steps = names.flatMap((name) => /^step-(\d+)$/.exec(name)?.[1] ?? []).map(Number);
  const last = readFileSync(join(run, "events.jsonl"), "utf8").trim().split("\n").at(-1) ?? "{}";
  const { kind, step } = JSON.parse(/}$/.test(last) ? last : '{"kind":"half an event"}');
  return `${JSON.stringify(ending)} after ${kind} ${step ?? ""}, checkpoints ${steps.sort((a, b) => a - b)}${half > 0 ? `, ${half} half made` : ""}`;
}

async function expectWhole(run: string, variant: string): Promise<void> {
  expect(weightsUnder(join(run, LAST))).toEqual(straight[variant]);
  const { events, missing } = await loadEvents(run);
  expect(missing).toEqual([]);
  const steps = (kind: string) => events.flatMap((event) => (event.kind === kind ? [event.step] : []));
  expect(steps("sft")).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(steps("train")).toEqual([9, 10, 11, 12, 13, 14, 15, 16]);
  const left = readdirSync(run, { recursive: true, encoding: "utf8" });
  expect(left.filter((name) => /tmp-|old-|making/.test(name))).toEqual([]);
}

describe.each(["kl", "critic"] as const)("A run with %s", (variant) => {
  test("has weights, optimizers and a critic to compare", () => {
    const critic = ["critic.state.safetensors", "critic.value_head.safetensors", "critic/model.safetensors"];
    const policy = ["policy.state.safetensors", "policy/model.safetensors"];
    expect(Object.keys(straight[variant] ?? {})).toEqual(variant === "critic" ? [...critic, ...policy] : policy);
  });

  test(`killed at ${KILLS} instants and resumed each time ends in the same bits`, { timeout: 900_000 }, async () => {
    const random = new PythonRandom(variant === "kl" ? 1 : 2);
    let run = newFolder();
    for (let kills = 0; kills < KILLS; ) {
      // Every third one falls into the saving of a checkpoint; the others anywhere, the warm start included.
      const ending: Ending =
        kills % 3 === 2
          ? { kind: "changes", count: random.randrange(1, 40) }
          : { kind: "events", count: random.randrange(1, 9), ms: random.randrange(0, 120) };
      if (await runUntil(ending, run, variant)) {
        await expectWhole(run, variant);
        run = newFolder();
      } else {
        kills += 1;
        if (process.env.SACCADE_THOROUGH) console.log(`${variant} kill ${kills}: ${describeKill(ending, run)}`);
      }
    }
    await runUntil({ kind: "never" }, run, variant);
    await expectWhole(run, variant);
  });
});

test("a run that is stopped after any step, with a reference that is renewed, goes on to the same bits", {
  timeout: 300_000,
}, async () => {
  const recipe = resumeRecipe(folder.model, "kl");
  const run = newFolder();
  // Steps 4 and 8 are evaluated: whoever stops there does not wait for it, and the next process makes it up.
  for (let process = 1; process <= 9; process++) {
    const stop = new AbortController();
    const onStep = () => {
      stop.abort();
      return undefined;
    };
    const { finished, step } = await train({ recipe, folder: run, engine, signal: stop.signal, onStep });
    expect([finished, step]).toEqual([process === 9, Math.min(process, 8)]);
  }
  await expectWhole(run, "kl");
  // Only references that a kept checkpoint may name are left.
  expect(readdirSync(join(run, "references")).sort()).toEqual(["step-3", "step-6"]);
});

test.each(["before the first step", "after a step"] as const)(
  "an evaluation %s that is cut short costs nothing: the run stops at once and goes on to the same bits",
  { timeout: 300_000 },
  async (when) => {
    // Two at a time: all eight episodes could end together. The bits do not depend on it.
    const recipe = resumeRecipe(folder.model, "kl", { rollout: { live: 2 } });
    const run = newFolder();
    const stop = new AbortController();
    let [steps, played] = [0, 0];
    const { finished } = await train({
      recipe,
      folder: run,
      engine,
      signal: stop.signal,
      onEvent: ({ kind }) => void (kind === "train" && steps++),
      onPhase({ name, done }) {
        if (name !== "evaluating" || done === 0 || steps !== (when === "after a step" ? 4 : 0)) return;
        played += 1;
        stop.abort();
      },
    });
    // Of eight episodes, those that had not begun were not waited for.
    expect(finished).toBe(false);
    expect(played).toBeLessThan(8);
    await train({ recipe, folder: run, engine });
    await expectWhole(run, "kl");
  },
);

/** Two steps, then the third with another recipe: the coefficient that it paid. */
async function thirdCoefficient(first: Recipe, then: Recipe): Promise<number | undefined> {
  const run = newFolder();
  const stop = new AbortController();
  const onStep = ({ step }: { step: number }) => {
    if (step === 2) stop.abort();
    return undefined;
  };
  await train({ recipe: first, folder: run, engine, signal: stop.signal, onStep });
  const paid: (number | undefined)[] = [];
  const onEvent = ({ kind, metrics }: RunEvent) => {
    if (kind === "train") paid.push(metrics["policy/kl_coefficient"]);
  };
  await train({ recipe: then, folder: run, engine, mode: "resume", onEvent });
  expect(paid.length).toBe(1);
  return paid[0];
}

test.each([
  ["fixed", {}],
  ["adaptive", { target: 0.01, horizon: 100 }],
])("a KL coefficient that was changed before a resume is the one that is paid (%s)", async (_, controller) => {
  const recipe = (coefficient: number) =>
    resumeRecipe(folder.model, "kl", {
      warmStart: undefined,
      steps: 3,
      kl: { as: "reward", coefficient, ...controller },
    });
  expect(await thirdCoefficient(recipe(0.05), recipe(0.4))).toBe(0.4);
  // Unchanged, an adaptive one goes on from where it was.
  const kept = await thirdCoefficient(recipe(0.05), recipe(0.05));
  if ("target" in controller) expect(kept).not.toBe(0.05);
  else expect(kept).toBe(0.05);
});

test("resuming a finished run changes nothing", async () => {
  const recipe: Recipe = resumeRecipe(folder.model, "critic", { steps: 3, warmStart: undefined });
  const run = newFolder();
  const first = await train({ recipe, folder: run, engine });
  const again = newFolder();
  cpSync(run, again, { recursive: true });
  const second = await train({ recipe, folder: again, engine, mode: "resume" });
  expect(second).toMatchObject({ finished: true, step: first.step });
  expect(weightsUnder(again)).toEqual(weightsUnder(run));
  expect(existsSync(join(again, "run.lock"))).toBe(false);
});
