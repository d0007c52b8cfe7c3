/**
 * A training run: warm start, then rollouts and updates until the recipe's steps are done, with evaluations, sight probes, logs and checkpoints. One loop
 * serves synchronous and asynchronous runs: the groups of step s may be played once version s − 1 − maxStaleness of the policy is out, so with
 * staleness 0 nothing overlaps. Everything that is played follows from the recipe's seed and the step, so a resumed run is the run that was killed.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import type { Engine, Learner, LoraSpec, Sampler } from "../engine/engine.ts";
import { EngineError, EngineLost } from "../engine/errors.ts";
import { checkEngineConfig, nameOfEngine, openEngine } from "../engine/registry.ts";
import type { ChatModel } from "../model/chat.ts";
import { writeTrained } from "../model/trained.ts";
import { tokenAgent } from "../rollout/agents.ts";
import { type PlayedGroup, playGroups } from "../rollout/groups.ts";
import { EnvHost } from "../rollout/hosts.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import type { RecordContext } from "../rollout/trajectory-records.ts";
import type { EventKind, Metrics, RunEvent } from "../run/events.ts";
import { openRun, type RunFolder } from "../run/folder.ts";
import type { TrajectoryRecord } from "../run/trajectories.ts";
import { checkEngine } from "./check-engine.ts";
import { checkRecipe } from "./check-recipe.ts";
import { Clock, Lanes } from "./clock.ts";
import { checkContinuation, runName } from "./continue.ts";
import { billed, mostTokens } from "./cost.ts";
import { EpisodeOrder, openData, type RunData } from "./data.ts";
import { evaluate, evaluationKey } from "./evaluate.ts";
import { checkFailed, type FailedEpisodes, failedIn, TooManyFailed, tooMany } from "./failed.ts";
import { CheckpointUploads } from "./hub.ts";
import { Journal } from "./journal.ts";
import { dropUnfinished, modelFolder, pinModel, replaceFolder, trainedBy } from "./model-folder.ts";
import { probe } from "./probe.ts";
import { type Progress, progressFrom } from "./progress.ts";
import { type Recipe, recipeConfig } from "./recipe.ts";
import { Reference } from "./reference.ts";
import { groupRequest, RequestQueue } from "./requests.ts";
import { stepMetrics } from "./step-metrics.ts";
import { MAX_SKIPPED, survivingGroups, type UpdateReport, update } from "./update.ts";
import { warmStart, warmStartUpdates } from "./warm-start.ts";

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
      note = `${error.message} The run goes on from its last checkpoint.`;
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
  try {
    engine ??= await openEngine(recipe.engine);
    checkEngine(recipe, engine.capabilities, nameOfEngine(recipe.engine));
    trainer = await Trainer.open(run, engine, host, options);
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
    await run.close(finished ? "finished" : "stopped");
    return { folder: run.path, finished, step: trainer.progress.step, model };
  } catch (error) {
    await run.close("failed", error instanceof Error ? error.message : String(error));
    throw error;
  } finally {
    await host.close();
    await trainer?.close();
    if (options.engine === undefined) await engine?.close();
  }
}

class Trainer {
  progress: Progress;
  readonly #run: RunFolder;
  readonly #engine: Engine;
  readonly #host: EnvHost;
  readonly #options: TrainOptions;
  /** The model as it was before training. */
  readonly #start: string;
  readonly #model: ChatModel;
  readonly #data: RunData;
  readonly #learners: { policy: Learner; critic?: Learner };
  readonly #reference: Reference;
  readonly #journal: Journal;
  readonly #lanes = new Lanes();
  /** The newest weights last; older ones while episodes may still play with them. */
  #samplers: Sampler[] = [];
  #skipped = 0;
  #judgeFailed = false;
  #lastSaved: number;
  readonly #uploads: CheckpointUploads | undefined;

  private constructor(parts: {
    run: RunFolder;
    engine: Engine;
    host: EnvHost;
    options: TrainOptions;
    start: string;
    model: ChatModel;
    data: RunData;
    learners: { policy: Learner; critic?: Learner };
    reference: Reference;
    journal: Journal;
    progress: Progress;
    lastSaved: number;
  }) {
    this.#run = parts.run;
    this.#engine = parts.engine;
    this.#host = parts.host;
    this.#options = parts.options;
    this.#start = parts.start;
    this.#model = parts.model;
    this.#data = parts.data;
    this.#learners = parts.learners;
    this.#reference = parts.reference;
    this.#journal = parts.journal;
    this.progress = parts.progress;
    this.#lastSaved = parts.lastSaved;
    const { recipe, signal } = parts.options;
    const note = (message: string, step: number) => this.#journal.note(message, step);
    this.#uploads = recipe.hub && new CheckpointUploads(recipe.hub, { note, ...(signal && { signal }) });
  }

  static async open(run: RunFolder, engine: Engine, host: EnvHost, options: TrainOptions): Promise<Trainer> {
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
    return new Trainer({
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
    });
  }

  /** True when the recipe is done, false when it was interrupted (and saved). */
  async run(): Promise<boolean> {
    try {
      const finished = await this.#train();
      if (finished) await this.#uploads?.finish();
      return finished;
    } catch (error) {
      // What was learned so far is sound: a mended environment goes on from here.
      if (error instanceof TooManyFailed && error.sound && this.#skipped === 0) await this.#save();
      throw error;
    } finally {
      await this.#uploads?.settled();
    }
  }

  async #train(): Promise<boolean> {
    const { recipe } = this.#options;
    if (this.#isLowered) {
      this.say(
        `sampling.contextTokens is ${recipe.sampling.contextTokens}, and ${nameOfEngine(recipe.engine)} takes at most ${this.#model.maxPositions} ` +
          "(the model's context, or its server's max_model_len): episodes have that many tokens.",
      );
    }
    const warmed = await this.#warmStart();
    if (!warmed) return false;
    this.#samplers.push(await this.#learners.policy.publish());
    if (recipe.steps === 0) {
      if (this.#data.evaluation.length > 0) await this.#evaluate();
      await this.#save();
      return true;
    }
    await this.#enter("reinforce", recipe.optimizer.name);
    await this.#enterCritic();
    await this.#openReference(this.progress.step === 0);
    if (this.progress.step === 0) {
      await this.#renewCritic();
      if (recipe.evaluate.before) await this.#offerBest(await this.#evaluate());
      if (recipe.sight.every > 0) await this.#probe();
    } else if (this.progress.unmeasured) {
      const score = await this.#measure();
      // The checkpoint of this step says that it is still to be measured.
      this.#lastSaved = -1;
      await this.#offerBest(score);
    }
    await this.#reinforce();
    const done = this.progress.step >= recipe.steps;
    if (done || this.#skipped === 0) await this.#save();
    else this.say("The last update was not finite, so nothing was saved: the run goes on from its last checkpoint.");
    return done;
  }

  /** Where the trained model is. */
  say(message: string): void {
    this.#journal.note(message, this.#globalStep);
  }

  async modelPath(): Promise<string> {
    const latest = await this.#run.checkpoints.latest();
    return latest === undefined ? this.#start : join(latest.path, "policy");
  }

  /** The engine may be the caller's and live on. */
  async close(): Promise<void> {
    const { policy, critic } = this.#learners;
    for (const part of [...this.#samplers, this.#reference, policy, critic]) await part?.close();
  }

  get #globalStep(): number {
    return this.progress.warm + this.progress.step;
  }

  async #warmStart(): Promise<boolean> {
    const { recipe, signal } = this.#options;
    // What was reinforced since is not taught again, however much longer a changed recipe makes its warm start.
    if (recipe.warmStart === undefined || this.progress.step > 0) return true;
    await this.#enter("warm", recipe.warmStart.optimizer.name);
    return warmStart({
      recipe,
      plan: recipe.warmStart,
      data: this.#data,
      model: this.#model,
      folder: this.#start,
      policy: this.#learners.policy,
      from: this.progress.warm,
      ...(signal && { signal }),
      onUpdate: async (warm, total, metrics) => {
        this.progress = { ...this.progress, warm };
        this.#log("sft", metrics);
        const every = Math.max(recipe.checkpoint.every, Math.ceil(total / 4));
        // Weights that can't be trained any more are nothing to go back to.
        if ((warm === total || warm % every === 0) && metrics["optimizer/skipped"] === 0) await this.#save();
      },
      onStop: () => this.#save(),
    });
  }

  /**
   * Moments of supervised gradients say nothing about rewarded ones, and Muon's momentum read as Adam's first moment beside an empty second one
   * destroys a policy in one step. So an optimizer meets only state of its own making.
   */
  async #enter(phase: "warm" | "reinforce", optimizer: string): Promise<void> {
    const wanted = `${phase}:${optimizer}`;
    if (this.progress.optimizer === wanted) return;
    await this.#learners.policy.freshOptimizer();
    this.progress = { ...this.progress, optimizer: wanted };
  }

  /** The same for the critic, which has one phase. */
  async #enterCritic(): Promise<void> {
    const wanted = this.#options.recipe.critic?.optimizer.name;
    if (wanted === undefined || this.progress.criticOptimizer === wanted) return;
    await this.#learners.critic?.freshOptimizer();
    this.progress = { ...this.progress, criticOptimizer: wanted };
  }

  async #openReference(write: boolean): Promise<void> {
    if (this.#options.recipe.kl === undefined) return;
    if (!write && !this.#reference.has(this.progress.reference)) throw tooLate("kl");
    await this.#reference.open(this.progress.reference, write ? this.#learners.policy : undefined);
  }

  /** A critic sees what the policy sees: it begins with the weights that the warm start left, not with those before it. */
  async #renewCritic(): Promise<void> {
    const { recipe } = this.#options;
    if (recipe.critic === undefined || recipe.lora !== undefined || this.progress.warm === 0) return;
    const path = join(this.#run.path, "critic-start");
    await replaceFolder(path, (folder) => this.#learners.policy.export(folder));
    await this.#learners.critic?.close();
    this.#learners.critic = await this.#engine.learner({ folder: path, seed: recipe.seed, head: "value" });
  }

  async #reinforce(): Promise<void> {
    const { recipe, signal } = this.#options;
    const order = new EpisodeOrder(this.#data.train, recipe.seed, this.#data.reserved);
    const queue = new RequestQueue();
    const issue = (count: number) => {
      const first = this.progress.groups;
      queue.push(Array.from({ length: count }, (_, i) => groupRequest(recipe, order, first + i)));
      this.progress = { ...this.progress, groups: first + count };
    };
    const played = playGroups(queue, {
      agent: tokenAgent({
        ...this.#agentOptions(),
        temperature: recipe.sampling.temperature,
        sampler: () => this.#newest,
      }),
      host: this.#host,
      samplingSeed: recipe.seed,
      live: recipe.rollout.live,
      ahead: recipe.groups * (recipe.maxStaleness + 1) * recipe.refillLimit,
      retries: recipe.rollout.retries,
      stepTimeoutMs: recipe.rollout.stepTimeoutMs,
      episodeTimeoutMs: recipe.rollout.episodeTimeoutMs,
      judgeTimeoutMs: recipe.rollout.judgeTimeoutMs,
      ...(recipe.judge && { judge: recipe.judge, judgeBehind: true }),
    });
    // Groups that are issued and not yet trained when a run stops are issued again by the next one.
    let trained = this.progress.groups;
    try {
      const lead = Math.min(recipe.maxStaleness + 1, recipe.steps - this.progress.step);
      for (let step = 0; step < lead; step++) issue(recipe.groups);
      while (this.progress.step < recipe.steps && !signal?.aborted) {
        const clock = new Clock();
        const collected = await this.#collect(played, issue);
        trained += collected.length;
        clock.mark("time/wait");
        const { version } = this.#newest;
        const { groups, report } = await this.#update(collected);
        clock.mark("time/learn");
        this.progress = { ...this.progress, step: this.progress.step + 1, klCoefficient: report.klCoefficient };
        const { step } = this.progress;
        // Groups of later steps began with one of the newest maxStaleness versions. Older ones go before another comes: a copy of large weights is dear.
        while (this.#samplers.length > recipe.maxStaleness) await this.#samplers.shift()?.close();
        this.#samplers.push(await this.#learners.policy.publish());
        clock.mark("time/publish");
        if (step + recipe.maxStaleness < recipe.steps) issue(recipe.groups);
        await this.#logStep(groups, report, clock, version);
        this.#checkHealth(groups, report);
        // Weights that can't be trained any more are nothing to go back to.
        const sound = this.#skipped === 0;
        const refresh = sound && recipe.referenceEvery !== undefined && step % recipe.referenceEvery === 0;
        if (refresh) {
          this.progress = { ...this.progress, reference: step };
          await this.#openReference(true);
        }
        const score = await this.#measure();
        const save = sound && (step % recipe.checkpoint.every === 0 || signal?.aborted === true);
        if (save || refresh || step === recipe.steps) await this.#save(trained);
        if (sound) await this.#offerBest(score, trained);
      }
    } finally {
      queue.close();
      await played.return();
      this.progress = { ...this.progress, groups: trained };
    }
  }

  /** The groups of a step, with refills until enough of them are worth training. */
  async #collect(
    played: AsyncGenerator<PlayedGroup, void, void>,
    issue: (count: number) => void,
  ): Promise<PlayedGroup[]> {
    const { recipe } = this.#options;
    const groups: PlayedGroup[] = [];
    const what = `step ${this.progress.step + 1}`;
    let wanted = recipe.groups;
    for (let round = 1; ; round++) {
      while (groups.length < wanted) {
        const next = await played.next();
        if (next.done) throw new EngineError("The rollout ended before the step had its groups.");
        // Only rewards tell which groups are worth training.
        groups.push((recipe.refill && (await next.value.judged)) || next.value);
      }
      const failed = failedIn(groups);
      if (tooMany(failed, recipe.rollout.maxFailed)) this.#keep("train", episodesOf(groups), 16);
      this.#meet(failed, what);
      const missing =
        recipe.groups -
        survivingGroups(
          groups.flatMap((group) => group.trajectories),
          recipe,
        );
      if (!recipe.refill || missing <= 0 || round >= recipe.refillLimit) return groups;
      issue(missing);
      wanted += missing;
    }
  }

  /** Shows the first episode that failed for our reasons, and stops the run where there are too many. */
  #meet(failed: FailedEpisodes, what: string): void {
    if (failed.first !== undefined) this.#journal.failure(failed.first, this.#globalStep);
    checkFailed(failed, this.#options.recipe.rollout.maxFailed, what);
  }

  /** The groups come back as the judge paid them. */
  async #update(
    groups: readonly PlayedGroup[],
  ): Promise<{ readonly groups: readonly PlayedGroup[]; readonly report: UpdateReport }> {
    const { recipe } = this.#options;
    const episodes = (some: readonly PlayedGroup[]) => some.flatMap((group) => group.trajectories);
    const { sampler: reference } = this.#reference;
    const { exactLogprobs: exact, discard, losses } = this.#engine.capabilities;
    const waits = groups.some((group) => group.judged !== undefined);
    const judged = waits ? Promise.all(groups.map((group) => group.judged ?? group)) : undefined;
    const report = await update(
      { ...this.#learners, ...(reference && { reference }), exact, together: !discard, losses },
      episodes(groups),
      recipe,
      this.progress.step + 1,
      this.progress.klCoefficient,
      judged?.then(episodes),
    );
    return { groups: (await judged) ?? groups, report };
  }

  /** A run whose updates are all skipped, or whose episodes all fail, does not mend itself. */
  #checkHealth(groups: readonly PlayedGroup[], report: UpdateReport): void {
    const empty = groups.every((group) => group.trajectories.length === 0);
    this.#skipped = report.applied && !empty ? 0 : this.#skipped + 1;
    if (this.#skipped < MAX_SKIPPED) return;
    const why = empty
      ? `no episode could be played (${groups.at(-1)?.dropped.at(-1)?.error})`
      : "the updates were not finite and were skipped";
    throw new EngineError(
      `In ${MAX_SKIPPED} steps in a row ${why}. Lower the learning rate, or mend the environment, then resume: the run goes on from its last checkpoint.`,
    );
  }

  /** `trained`: the version of the weights before the update. */
  async #logStep(groups: readonly PlayedGroup[], report: UpdateReport, clock: Clock, trained: number): Promise<void> {
    const { onStep } = this.#options;
    const trajectories = groups.flatMap((group) => group.trajectories);
    const lanes = this.#lanes.see(trajectories);
    const metrics = { ...lanes.times, ...stepMetrics(groups, report, clock, trained) };
    const own = await onStep?.({ step: this.progress.step, metrics, policy: this.#learners.policy });
    for (const [name, value] of Object.entries(own ?? {})) metrics[`custom/${name}`] = value;
    this.#noteJudge(trajectories);
    this.#log("train", metrics, [...lanes.spans, ...clock.spans()]);
    this.#keep("train", episodesOf(groups), 16, ({ id }) => {
      const credit = report.credit.get(id);
      return credit && { credit };
    });
  }

  /** The first failure of a judge is said in words; how many there are is a metric. */
  #noteJudge(trajectories: readonly Trajectory[]): void {
    const failed = trajectories.find(({ judge }) => judge?.error !== undefined);
    if (failed === undefined || this.#judgeFailed) return;
    this.#judgeFailed = true;
    const message = `The judge failed on ${failed.id}, which is paid nothing by it: ${failed.judge?.error}. Further failures are counted in judge/failures.`;
    this.#journal.note(message, this.#globalStep);
  }

  #keep(
    split: TrajectoryRecord["split"],
    episodes: readonly Trajectory[],
    maxGroups: number,
    known?: (trajectory: Trajectory) => Pick<RecordContext, "credit" | "sight"> | undefined,
  ): void {
    const { recipe } = this.#options;
    this.#journal.keep({ split, step: this.#globalStep, maxGroups }, episodes, { model: this.#model, recipe }, known);
  }

  #agentOptions() {
    const { recipe } = this.#options;
    const { maxTokens, contextTokens } = recipe.sampling;
    return {
      model: this.#model,
      maxTokens,
      contextLength: Math.min(contextTokens, this.#model.maxPositions),
      contextFrom: this.#isLowered
        ? `the limit of the engine's model or server, below sampling.contextTokens, ${contextTokens}`
        : "sampling.contextTokens",
      turns: recipe.turns,
      ...(recipe.turns === "split" && { history: recipe.history }),
    };
  }

  /** Whether the model, or the server that it is on, takes fewer tokens than the recipe asks for. */
  get #isLowered(): boolean {
    return this.#model.maxPositions < this.#options.recipe.sampling.contextTokens;
  }

  get #newest(): Sampler {
    return this.#samplers.at(-1) as Sampler;
  }

  /** The probe and the evaluation that are due after this step; the score, where there was one. */
  async #measure(): Promise<number | undefined> {
    const { sight, evaluate: plan, steps } = this.#options.recipe;
    const { step } = this.progress;
    const due = (every: number) => step % every === 0 || step === steps;
    this.progress = { ...this.progress, unmeasured: true };
    if (sight.every > 0 && due(sight.every)) await this.#probe();
    const score = due(plan.every) ? await this.#evaluate() : undefined;
    this.progress = { ...this.progress, unmeasured: false };
    return score;
  }

  /** Success on the fixed seeds; the score that the best checkpoint is chosen by. */
  async #evaluate(): Promise<number | undefined> {
    const { recipe } = this.#options;
    const clock = new Clock();
    const { metrics, trajectories, failed } = await evaluate({
      recipe,
      sampler: this.#newest,
      host: this.#host,
      agent: this.#agentOptions(),
      entries: this.#data.evaluation,
    });
    clock.mark("time/eval");
    this.#log("eval", { ...metrics, ...clock.times() });
    this.#keep("eval", trajectories, 24);
    this.#meet(failed, `the evaluation at step ${this.progress.step}`);
    return metrics["eval/success"];
  }

  async #probe(): Promise<void> {
    const { recipe } = this.#options;
    const clock = new Clock();
    const { metrics, gaps, trajectories, failed } = await probe({
      recipe,
      sampler: this.#newest,
      exact: this.#engine.capabilities.exactLogprobs,
      host: this.#host,
      agent: this.#agentOptions(),
      entries: this.#data.evaluation,
    });
    clock.mark("time/sight");
    this.#log("sight", { ...metrics, ...clock.times() });
    this.#keep("sight", trajectories, 24, ({ id }) => {
      const sight = gaps.get(id);
      return sight && { sight };
    });
    this.#meet(failed, `the sight probe at step ${this.progress.step}`);
  }

  #log(kind: EventKind, metrics: Metrics, spans?: NonNullable<RunEvent["spans"]>): void {
    this.#journal.log(kind, this.#globalStep, metrics, spans);
  }

  async #save(groups = this.progress.groups): Promise<void> {
    const step = this.#globalStep;
    if (step === this.#lastSaved) return;
    const { policy, critic } = this.#learners;
    // Saving may remove an older checkpoint, which must not be one that is being uploaded.
    await this.#uploads?.settled();
    const checkpoint = await this.#run.saveCheckpoint(
      step,
      async (folder) => {
        await policy.checkpoint(join(folder, "policy"));
        await writeTrained(join(folder, "policy"), trainedBy(this.#options.recipe));
        await critic?.checkpoint(join(folder, "critic"));
      },
      { ...this.progress, groups },
    );
    this.#lastSaved = step;
    this.#uploads?.saved(checkpoint);
    const { referenceEvery, checkpoint: kept } = this.#options.recipe;
    if (referenceEvery !== undefined) await this.#reference.drop(this.progress.reference, kept.keep);
  }

  /** The best weights so far are always saved, whether or not a checkpoint is due. A best of another evaluation is no rival. */
  async #offerBest(score: number | undefined, groups = this.progress.groups): Promise<void> {
    // Nothing was evaluated at this step.
    if (score === undefined) return;
    const best = await this.#run.checkpoints.bestScore();
    const evaluation = evaluationKey(this.#options.recipe, this.#data.evaluation);
    if (best !== undefined && best.evaluation !== evaluation) {
      this.say(`The best so far (step ${best.step}, ${best.score}) is of another evaluation, and no longer compared.`);
    } else if (best !== undefined && best.score >= score) return;
    await this.#save(groups);
    await this.#run.checkpoints.offerBest(this.#globalStep, score, "eval/success", evaluation);
  }
}

/** Those that failed, too: they are kept for who wants to look. */
function episodesOf(groups: readonly PlayedGroup[]): Trajectory[] {
  return [...groups.flatMap((group) => group.trajectories), ...groups.flatMap((group) => group.dropped)];
}

function tooLate(field: string): ConfigError {
  return new ConfigError(
    `This run began without ${field}, which can't be added on the way: leave it out, or begin another run (--out) from this one's policy (--set model=…).`,
  );
}
