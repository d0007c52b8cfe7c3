/**
 * The loop of a run: warm start, then rollouts and updates until the recipe's steps are done, with evaluations, sight probes, logs and checkpoints. One loop
 * serves synchronous and asynchronous runs: the groups of step s may be played once version s − 1 − maxStaleness of the policy is out, so with
 * staleness 0 nothing overlaps. Everything that is played follows from the recipe's seed and the step, so a resumed run is the run that was killed.
 */
import { join } from "node:path";
import type { Engine, Learner, Sampler } from "../engine/engine.ts";
import { EngineError } from "../engine/errors.ts";
import { nameOfEngine } from "../engine/registry.ts";
import type { OpenSource } from "../envs/sources.ts";
import type { ChatModel } from "../model/chat.ts";
import { tokenAgent } from "../rollout/agents.ts";
import { type PlayedGroup, playGroups } from "../rollout/groups.ts";
import type { EnvHost } from "../rollout/hosts.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import type { RecordContext } from "../rollout/trajectory-records.ts";
import type { EventKind, Metrics, RunEvent } from "../run/events.ts";
import type { RunFolder } from "../run/folder.ts";
import { inEachEnvironment } from "../run/metrics.ts";
import type { TrajectoryRecord } from "../run/trajectories.ts";
import { Clock, Lanes } from "./clock.ts";
import { EpisodeOrder, type RunData, sourceLabels } from "./data.ts";
import { evaluate } from "./evaluate.ts";
import { survivingGroups } from "./examples.ts";
import { checkFailed, type FailedEpisodes, failedIn, TooManyFailed, tooMany } from "./failed.ts";
import type { Journal } from "./journal.ts";
import { type MixturePhase, SourceWeights } from "./mixture.ts";
import { replaceFolder } from "./model-folder.ts";
import { type RunParts, tooLate } from "./parts.ts";
import { lastFrame, type Phase } from "./phase.ts";
import { probe } from "./probe.ts";
import type { Progress } from "./progress.ts";
import type { Reference } from "./reference.ts";
import { getMixture } from "./registry.ts";
import { groupRequest, RequestQueue } from "./requests.ts";
import { Saver, type Score } from "./saver.ts";
import { rewardCounts, stepMetrics } from "./step-metrics.ts";
import type { TrainOptions } from "./train.ts";
import { MAX_SKIPPED, type UpdateReport, update } from "./update.ts";
import { warmStart } from "./warm-start.ts";

export class Trainer {
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
  readonly #saver: Saver;

  constructor(parts: RunParts) {
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
    this.#saver = new Saver(parts);
  }

  /** True when the recipe is done, false when it was interrupted (and saved). */
  async run(): Promise<boolean> {
    try {
      const finished = await this.#train();
      if (finished) await this.#saver.finish();
      return finished;
    } catch (error) {
      // What was learned so far is sound: a mended environment goes on from here.
      if (error instanceof TooManyFailed && error.sound && this.#skipped === 0) await this.#save();
      throw error;
    } finally {
      await this.#saver.settled();
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
      const due = recipe.evaluate.every > 0 && this.#data.evaluation.length > 0;
      const measured = !due || (await this.#unlessStopped(() => this.#evaluate())) !== STOPPED;
      await this.#save();
      return measured;
    }
    await this.#enter("reinforce", recipe.optimizer.name);
    await this.#enterCritic();
    await this.#openReference(this.progress.step === 0);
    if (this.progress.step === 0) {
      await this.#renewCritic();
      // The next process begins where this one did.
      if ((await this.#unlessStopped(() => this.#measureStart())) === STOPPED) return false;
    } else if (this.progress.unmeasured) {
      const score = await this.#measure();
      if (this.progress.unmeasured) return false;
      // The checkpoint of this step says that it is still to be measured.
      this.#saver.forget();
      await this.#offerBest(score);
    }
    await this.#reinforce();
    const done = this.progress.step >= recipe.steps && !this.progress.unmeasured;
    if (done || this.#skipped === 0) await this.#save();
    else this.say("The last update was not finite, so nothing was saved: the run continues from its last checkpoint.");
    return done;
  }

  say(message: string): void {
    this.#journal.note(message, this.#globalStep);
  }

  /** Where the trained model is. */
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
    // From files nothing is drawn.
    const weights = recipe.warmStart.files.length > 0 ? undefined : this.#weightsOf("warm", this.#data.warm);
    return warmStart({
      recipe,
      plan: recipe.warmStart,
      data: this.#data,
      model: this.#model,
      folder: this.#start,
      policy: this.#learners.policy,
      ...(weights && { weights }),
      from: this.progress.warm,
      ...(signal && { signal }),
      onUpdate: async (warm, total, metrics) => {
        this.progress = { ...this.progress, warm, mixture: weights?.state() ?? null };
        this.#enterPhase({ name: "warm start", done: warm, total });
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

  #weightsOf(phase: MixturePhase, sources: readonly OpenSource[]): SourceWeights {
    const { name, every: _, ...options } = this.#options.recipe.mixture;
    return new SourceWeights({
      phase,
      mixture: getMixture(name),
      options,
      recipe: sources.map(({ weight }) => weight),
      labels: sourceLabels(sources),
      state: this.progress.mixture,
    });
  }

  async #reinforce(): Promise<void> {
    const { recipe, signal } = this.#options;
    const weights = this.#weightsOf("reinforce", this.#data.train);
    const order = new EpisodeOrder(this.#data.train, recipe.seed, this.#data.reserved, "episodes", (group) =>
      weights.at(group),
    );
    const queue = new RequestQueue();
    const issueStep = () => {
      weights.decide(this.progress.groups, weights.blocks);
      issue(recipe.groups);
    };
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
      for (let step = 0; step < lead; step++) issueStep();
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
        for (const { trajectories } of groups) {
          for (const { label, env, reward } of trajectories) weights.add(label ?? env, reward, 1);
        }
        weights.close();
        if (step + recipe.maxStaleness < recipe.steps) issueStep();
        this.progress = { ...this.progress, mixture: weights.state() };
        await this.#logStep(groups, report, clock, version, weights.metrics());
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
    this.#enterPhase({ name: "playing", done: 0, total: wanted });
    for (let round = 1; ; round++) {
      while (groups.length < wanted) {
        const next = await played.next();
        if (next.done) throw new EngineError("The rollout ended before the step had its groups.");
        // Only rewards tell which groups are worth training.
        groups.push((recipe.refill && (await next.value.judged)) || next.value);
        const frame = lastFrame(next.value.trajectories[0]);
        this.#enterPhase({ name: "playing", done: groups.length, total: wanted, ...(frame && { frame }) });
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
    this.#enterPhase({ name: "learning", done: 0, total: 1 });
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
      `In ${MAX_SKIPPED} steps in a row ${why}. Lower the learning rate or fix the environment, then resume: the run continues from its last checkpoint.`,
    );
  }

  /** `trained`: the version of the weights before the update. */
  async #logStep(
    groups: readonly PlayedGroup[],
    report: UpdateReport,
    clock: Clock,
    trained: number,
    more: Metrics,
  ): Promise<void> {
    const { onStep } = this.#options;
    const trajectories = groups.flatMap((group) => group.trajectories);
    const lanes = this.#lanes.see(trajectories);
    const metrics = { ...lanes.times, ...stepMetrics(groups, report, clock, trained), ...more };
    const own = await onStep?.({ step: this.progress.step, metrics, policy: this.#learners.policy });
    for (const [name, value] of Object.entries(own ?? {})) metrics[`custom/${name}`] = value;
    this.#noteJudge(trajectories);
    const spans = [...lanes.spans, ...clock.spans()];
    this.#log("train", metrics, { spans, data: { rewards: rewardCounts(trajectories) } });
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
    const { maxTokens, contextTokens, clientLimits } = recipe.sampling;
    return {
      model: this.#model,
      maxTokens,
      clientLimits,
      contextTokens: Math.min(contextTokens, this.#model.maxPositions),
      contextFrom: this.#isLowered
        ? `the limit of the engine's model or its server's max_model_len, below sampling.contextTokens, ${contextTokens}`
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

  /**
   * The probe and the evaluation that are due after this step; the score, where there was one. Who stops the run does not wait for them: they are made up by
   * the next process.
   */
  async #measure(): Promise<Score | undefined> {
    const { sight, evaluate: plan, steps } = this.#options.recipe;
    const { step } = this.progress;
    const due = (every: number) => every > 0 && (step % every === 0 || step === steps);
    this.progress = { ...this.progress, unmeasured: true };
    const score = await this.#unlessStopped(async () => {
      if (due(sight.every) && this.progress.probed !== step) await this.#probe();
      return due(plan.every) ? await this.#evaluate() : undefined;
    });
    if (score === STOPPED) return undefined;
    this.progress = { ...this.progress, unmeasured: false };
    return score;
  }

  /** Before the first step. */
  async #measureStart(): Promise<void> {
    const { sight, evaluate: plan } = this.#options.recipe;
    if (plan.every > 0 && plan.before) await this.#offerBest(await this.#evaluate());
    if (sight.every > 0) await this.#probe();
  }

  /** `STOPPED` where the run's signal cut the work short. */
  async #unlessStopped<T>(work: () => Promise<T>): Promise<T | typeof STOPPED> {
    const { signal } = this.#options;
    try {
      return await work();
    } catch (error) {
      if (signal?.aborted && error === signal.reason) return STOPPED;
      throw error;
    }
  }

  /** Success on the fixed seeds; the score that the best checkpoint is chosen by. */
  async #evaluate(): Promise<Score | undefined> {
    const { recipe } = this.#options;
    const clock = new Clock();
    this.#enterPhase({ name: "evaluating", done: 0, total: 1 });
    const { signal } = this.#options;
    const { metrics, trajectories, failed } = await evaluate({
      recipe,
      sampler: this.#newest,
      host: this.#host,
      agent: this.#agentOptions(),
      entries: this.#data.evaluation,
      ...(signal && { signal }),
      onPlayed: (trajectory, done, total) => this.#showPlayed("evaluating", trajectory, done, total),
    });
    clock.mark("time/eval");
    this.#log("eval", { ...metrics, ...clock.times() });
    this.#keep("eval", trajectories, 24);
    this.#meet(failed, `the evaluation at step ${this.progress.step}`);
    return scoreOf(metrics);
  }

  async #probe(): Promise<void> {
    const { recipe } = this.#options;
    const clock = new Clock();
    this.#enterPhase({ name: "checking sight", done: 0, total: 1 });
    const { signal } = this.#options;
    const { metrics, gaps, trajectories, failed } = await probe({
      recipe,
      sampler: this.#newest,
      exact: this.#engine.capabilities.exactLogprobs,
      host: this.#host,
      agent: this.#agentOptions(),
      entries: this.#data.evaluation,
      ...(signal && { signal }),
      onPlayed: (trajectory, done, total) => this.#showPlayed("checking sight", trajectory, done, total),
    });
    clock.mark("time/sight");
    this.#log("sight", { ...metrics, ...clock.times() });
    this.#keep("sight", trajectories, 24, ({ id }) => {
      const sight = gaps.get(id);
      return sight && { sight };
    });
    this.#meet(failed, `the sight probe at step ${this.progress.step}`);
    this.progress = { ...this.progress, probed: this.progress.step };
  }

  #showPlayed(name: Phase["name"], trajectory: Trajectory | undefined, done: number, total: number): void {
    const frame = lastFrame(trajectory);
    this.#enterPhase({ name, done, total, ...(frame && { frame }) });
  }

  #enterPhase(phase: Phase): void {
    this.#options.onPhase?.(phase);
  }

  #log(kind: EventKind, metrics: Metrics, more?: Pick<RunEvent, "spans" | "data">): void {
    this.#journal.log(kind, this.#globalStep, metrics, more);
  }

  #save(groups = this.progress.groups): Promise<void> {
    return this.#saver.save({ ...this.progress, groups });
  }

  /** The best weights so far are always saved, whether or not a checkpoint is due. */
  async #offerBest(score: Score | undefined, groups = this.progress.groups): Promise<void> {
    // Nothing was evaluated at this step.
    if (score !== undefined) await this.#saver.offerBest({ ...this.progress, groups }, score);
  }
}

/** What measuring comes to when the run's signal cuts it short. */
const STOPPED = Symbol("stopped");

function scoreOf(metrics: Metrics): Score | undefined {
  const { "eval/success": success } = metrics;
  const environments = inEachEnvironment(metrics, "eval/success");
  if (success === undefined) return undefined;
  return { success, ...(environments.length > 0 && { environments: Object.fromEntries(environments) }) };
}

/** Those that failed, too: they are kept for who wants to look. */
function episodesOf(groups: readonly PlayedGroup[]): Trajectory[] {
  return [...groups.flatMap((group) => group.trajectories), ...groups.flatMap((group) => group.dropped)];
}
