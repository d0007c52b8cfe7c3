/** What a run consists of, opened in order and restored from its last checkpoint. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import type { Engine, Learner, LoraSpec } from "../engine/engine.ts";
import type { ChatModel } from "../model/chat.ts";
import type { EnvHost } from "../rollout/hosts.ts";
import type { RunFolder } from "../run/folder.ts";
import { openData, type RunData } from "./data.ts";
import { Journal } from "./journal.ts";
import { dropUnfinished, modelFolder } from "./model-folder.ts";
import { type Progress, progressFrom } from "./progress.ts";
import { Reference } from "./reference.ts";
import type { TrainOptions } from "./train.ts";

export type RunParts = {
  readonly run: RunFolder;
  readonly engine: Engine;
  readonly host: EnvHost;
  readonly options: TrainOptions;
  /** The model as it was before training. */
  readonly start: string;
  readonly model: ChatModel;
  readonly data: RunData;
  readonly learners: { policy: Learner; critic?: Learner };
  readonly reference: Reference;
  readonly journal: Journal;
  readonly progress: Progress;
  readonly lastSaved: number;
};

export async function openParts(
  run: RunFolder,
  engine: Engine,
  host: EnvHost,
  options: TrainOptions,
): Promise<RunParts> {
  const { recipe } = options;
  const data = await openData(recipe);
  const reference = new Reference(engine, run.path);
  await dropUnfinished(run.path);
  await reference.dropUnfinished();
  const start = await modelFolder(run, recipe);
  const model = await engine.chat(start);
  const common = {
    folder: start,
    seed: recipe.seed,
    ...(recipe.freeze && { freeze: recipe.freeze }),
    ...(recipe.lora && { lora: recipe.lora as LoraSpec }),
  };
  const policy = await engine.learner(common);
  const critic = recipe.critic && (await engine.learner({ folder: start, seed: recipe.seed, head: "value" }));
  const checkpoint = await run.begin();
  const journal = new Journal(run, options.onEvent);
  for (const note of run.notes) journal.note(note, checkpoint?.step ?? 0);
  const progress = progressFrom(checkpoint?.state, recipe);
  if (checkpoint !== undefined) {
    await policy.restore(join(checkpoint.path, "policy"));
    const saved = join(checkpoint.path, "critic");
    if (existsSync(saved)) await critic?.restore(saved);
    // Before the first step a critic begins anew anyway.
    else if (critic !== undefined && progress.step > 0) throw tooLate("critic");
  }
  return {
    run,
    engine,
    host,
    options,
    start,
    model,
    data,
    learners: { policy, ...(critic && { critic }) },
    reference,
    journal,
    progress,
    lastSaved: checkpoint?.step ?? -1,
  };
}

export function tooLate(field: string): ConfigError {
  return new ConfigError(
    `This run started without ${field}, which can't be added later: leave it out, or start another run (--out) from this run's policy (--set model=…).`,
  );
}
