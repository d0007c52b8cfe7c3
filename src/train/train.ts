/** A training run from its recipe: opens the folder and the engine, and goes on from the last checkpoint where the engine is lost. */
import type { Engine, Learner } from "../engine/engine.ts";
import { EngineLost } from "../engine/errors.ts";
import { checkEngineConfig, nameOfEngine, openEngine } from "../engine/registry.ts";
import { EnvHost } from "../rollout/hosts.ts";
import type { Metrics, RunEvent } from "../run/events.ts";
import { openRun } from "../run/folder.ts";
import { LiveTrackers } from "../run/trackers/follow.ts";
import { openTrackers } from "../run/trackers/open.ts";
import { checkEngine } from "./check-engine.ts";
import { checkRecipe } from "./check-recipe.ts";
import { checkContinuation, runName } from "./continue.ts";
import { billed, mostTokens } from "./cost.ts";
import { pinModel } from "./model-folder.ts";
import { openParts } from "./parts.ts";
import type { Phase } from "./phase.ts";
import { type Recipe, recipeConfig } from "./recipe.ts";
import { Trainer } from "./trainer.ts";
import { warmStartUpdates } from "./warm-start.ts";

export type StepContext = { readonly step: number; readonly metrics: Metrics; readonly policy: Learner };

export type TrainOptions = {
  readonly recipe: Recipe;
  /** The run folder. */
  readonly folder: string;
  readonly mode?: "new" | "resume" | "either";
  readonly engine?: Engine;
  /** Finish the step, save and return. */
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: RunEvent) => void;
  /** What is under way, often: a step plays, then learns. */
  readonly onPhase?: (phase: Phase) => void;
  /** After each step; what it returns is logged as `custom/…`. */
  readonly onStep?: (context: StepContext) => Promise<Metrics | undefined> | Metrics | undefined;
};

export type TrainResult = {
  readonly folder: string;
  readonly finished: boolean;
  readonly step: number;
  readonly model: string;
};

/** An engine whose process died is lost at most so often before the run gives up. */
const MAX_LOST = 5;

/** An engine that lost its weights is no reason to end: the run goes on from its last checkpoint, as it would after a crash of its own. */
export async function train(options: TrainOptions): Promise<TrainResult> {
  checkRecipe(options.recipe);
  checkEngineConfig(options.recipe.engine);
  let note: string | undefined;
  for (let lost = 0; ; lost++) {
    try {
      return await attempt(lost === 0 ? options : { ...options, mode: "resume" }, note);
    } catch (error) {
      if (!(error instanceof EngineLost) || lost === MAX_LOST || options.signal?.aborted) throw error;
      note = `${error.message} The run continues from its last checkpoint.`;
    }
  }
}

async function attempt(given: TrainOptions, note?: string): Promise<TrainResult> {
  const recipe = await pinModel(given.recipe);
  const options = { ...given, recipe };
  await checkContinuation(options.folder, recipe);
  const run = await openRun(options.folder, {
    config: recipeConfig(recipe),
    name: runName(recipe, options.folder),
    seeds: { run: recipe.seed, evaluation: [...recipe.evaluate.seeds] },
    keepCheckpoints: recipe.checkpoint.keep,
    frames: { maxBytes: recipe.log.frameBudgetMB * 2 ** 20 },
    ...(options.mode && { mode: options.mode }),
  });
  const host = new EnvHost(recipe.rollout.workers);
  let engine = options.engine;
  let trainer: Trainer | undefined;
  const live = openTrackers(recipe.trackers);
  const trackers = live.length > 0 ? new LiveTrackers(run.path, live, (problem) => trainer?.say(problem)) : undefined;
  const endTrackers = async (status: "finished" | "stopped" | "failed") => {
    if (trackers === undefined) return;
    await run.events.flush();
    await trackers.close(status);
  };
  try {
    engine ??= await openEngine(recipe.engine);
    checkEngine(recipe, engine.capabilities, nameOfEngine(recipe.engine));
    trainer = new Trainer(await openParts(run, engine, host, options));
    if (note !== undefined) trainer.say(note);
    const { bill } = engine;
    if (bill) {
      const warm = await warmStartUpdates(recipe.warmStart);
      trainer.say(billed("The whole run takes at most", await mostTokens(recipe, engine.capabilities, warm), bill));
    }
    const finished = await trainer.run().finally(() => {
      if (bill) trainer?.say(billed("This process used", bill.used(), bill));
    });
    const model = await trainer.modelPath();
    const status = finished ? "finished" : "stopped";
    await endTrackers(status);
    await run.close(status);
    return { folder: run.path, finished, step: trainer.progress.step, model };
  } catch (error) {
    await endTrackers("failed").catch(() => {}); // the run's own error is the one to tell
    await run.close("failed", error instanceof Error ? error.message : String(error));
    throw error;
  } finally {
    await host.close();
    await trainer?.close();
    if (options.engine === undefined) await engine?.close();
  }
}
