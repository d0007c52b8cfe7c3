/**
 * Any model on any environment: every environment × seed × repeat once, several at a time, each written down the moment it ends. The
 * folder is a run folder, so the viewer shows the episodes; `results.jsonl` beside them is the truth of what was played. Run again, an
 * evaluation plays what is missing or failed for our reasons, and nothing else. The same seeds under the same limits are played by
 * agents that stop at once, play at random and know the answer: no number stands alone.
 */
import { setMaxListeners } from "node:events";
import { join } from "node:path";
import { ConfigError, errorMessage } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { findModel } from "../model/find.ts";
import { readTrained, type Trained } from "../model/trained.ts";
import { attemptEpisode } from "../rollout/attempt.ts";
import { builtinAgent } from "../rollout/builtin-agents.ts";
import { OracleReplay } from "../rollout/decisions.ts";
import { EnvHost, type Workers } from "../rollout/hosts.ts";
import { playSeeds, type Yardsticks } from "../rollout/play.ts";
import { isOurFault, type Trajectory } from "../rollout/trajectory.ts";
import { framesOf, recordOf } from "../rollout/trajectory-records.ts";
import { findAlarms } from "../run/alarms.ts";
import { failureData, failureLines } from "../run/failures.ts";
import { writeAtomic } from "../run/files.ts";
import { openRun, type RunFolder } from "../run/folder.ts";
import { differences, type RunStatus, readManifest } from "../run/manifest.ts";
import { reportMarkdown } from "./markdown.ts";
import { type EvalModel, type ModelOptions, openModel, parseModel } from "./models.ts";
import { type EnvPlan, type Job, type PlanOptions, planEnvs, planJobs } from "./plan.ts";
import { type EvaluationPresetName, evaluationPreset } from "./presets.ts";
import { makeReport, type Report, reportMetrics } from "./report.ts";
import { digest, type EpisodeResult, ResultLog, resultOf, type Setting } from "./results.ts";
import { samplingDifferences, type Training, trainedAs } from "./training.ts";
import { addUsage, noUsage, type Price } from "./usage.ts";

export type EvaluationOptions = ModelOptions &
  PlanOptions & {
    /** A folder, `provider:name` or `url#name`. */
    readonly model: string;
    readonly preset?: EvaluationPresetName;
    /** Most episodes at a time; default 8. */
    readonly concurrency?: number;
    readonly price?: Price;
    /** The run folder; default `evals/<model>-<digest of the setting>`. */
    readonly out?: string;
    readonly workers?: Workers;
    /** Ends the evaluation early: what was played is kept, and the report says what is missing. */
    readonly signal?: AbortSignal;
    /** What it is doing, from the first moment on: how much of a phase is done. Episodes of earlier runs are done when theirs begins. */
    readonly onProgress?: (phase: EvaluationPhase, done: number, total: number) => void;
    readonly onEpisode?: (result: EpisodeResult, progress: { done: number; total: number }) => void;
  };

/** Environments are opened, the model is opened, its yardsticks are played, it plays. */
export type EvaluationPhase = "envs" | "model" | "floors" | "play";

export type Evaluation = { readonly report: Report; readonly markdown: string; readonly folder: string };

export const REPORT_FILES = { json: "report.json", markdown: "report.md" } as const;

/** How often an episode is played again on a fresh environment after one broke. */
const ENV_RETRIES = 1;
/** Bytes of frames a folder may hold. */
const FRAME_BYTES = 8 * 1024 ** 3;

export async function evaluateModel(given: EvaluationOptions): Promise<Evaluation> {
  checkNumbers(given);
  given.onProgress?.("envs", 0, 1);
  const { options, trained } = await withTrained(given);
  const preset = options.preset === undefined ? undefined : await evaluationPreset(options.preset);
  const stop = new Stop(options.signal);
  const host = new EnvHost(options.workers);
  const oracles = new Oracles();
  let model: EvalModel | undefined;
  try {
    // First, so that a wrong name or option is found before a model is loaded or asked.
    const plans = await planEnvs({ ...options, ...(trained && { trained }) }, preset, host, (done, total) =>
      options.onProgress?.("envs", done, total),
    );
    options.onProgress?.("model", 0, 1);
    model = await openModel(options.model, {
      ...preset?.sampling,
      ...options,
      onHopeless: (error) => stop.now(new ConfigError(`${options.model} can't be asked: ${error.message}`)),
    });
    const setting: Setting = {
      model: model.identity,
      sampling: model.sampling,
      history: options.history ?? null,
      options: JSON.parse(
        JSON.stringify({
          ...options.options,
          preset: options.preset,
          ...(options.maxTurns && { maxTurns: options.maxTurns }),
        }),
      ) as JsonObject,
    };
    const jobs = planJobs(plans, options.repeats ?? 1, setting);
    const training = trained && {
      recipe: trained.recipe,
      differences: [...plans.flatMap(({ differs = [] }) => differs), ...samplingDifferences(trained, setting)],
    };
    return await playAll({ options, model, host, stop, plans, jobs, setting, oracles, ...(training && { training }) });
  } finally {
    stop.release();
    await oracles.close();
    await model?.close();
    await host.close();
  }
}

/** A model that was trained here plays, unless something else is named, what it was trained on; and wherever it plays that, it is asked as it was then. */
async function withTrained(
  given: EvaluationOptions,
): Promise<{ readonly options: EvaluationOptions; readonly trained?: Trained }> {
  const spec = parseModel(given.model);
  const trained = spec.kind === "folder" ? await readTrained((await findModel(spec.path)).path) : undefined;
  if (trained === undefined) return { options: given };
  const named = given.envs ?? (given.sources === undefined ? [...new Set(trained.envs.map(({ env }) => env))] : []);
  const matches = await Promise.all(named.map((env) => trainedAs(trained, env)));
  const known = given.sources === undefined && matches.every((match) => match.length > 0);
  if (given.preset !== undefined || !known) return { options: given, trained };
  const { sampling, history } = trained;
  return { options: { ...sampling, ...(history !== undefined && { history }), ...given, envs: named }, trained };
}

type Session = {
  readonly options: EvaluationOptions;
  readonly model: EvalModel;
  readonly host: EnvHost;
  readonly stop: Stop;
  readonly plans: readonly EnvPlan[];
  readonly jobs: readonly Job[];
  readonly setting: Setting;
  readonly oracles: Oracles;
  readonly training?: Training;
};

/** An oracle for each environment, when its first episode is over. */
class Oracles {
  readonly #replays = new Map<EnvPlan, OracleReplay>();

  of(plan: EnvPlan): OracleReplay {
    const { id: env, options = {} } = plan.spec;
    const replay = this.#replays.get(plan) ?? new OracleReplay({ env, options });
    this.#replays.set(plan, replay);
    return replay;
  }

  async close(): Promise<void> {
    for (const replay of this.#replays.values()) await replay.close();
  }
}

async function playAll(session: Session): Promise<Evaluation> {
  const { options, model, stop, plans, jobs, setting } = session;
  const run = await openFolder(session);
  let log: ResultLog | undefined;
  let status: Exclude<RunStatus, "running"> = "failed";
  let message: string | undefined;
  try {
    log = await ResultLog.open(run.path);
    const against = new Map<string, Yardsticks>();
    for (const [i, plan] of plans.entries()) {
      options.onProgress?.("floors", i, plans.length);
      against.set(plan.label, await yardsticks(plan, session));
    }
    await playMissing(session, run, log);
    const made = makeReport({
      model: model.name,
      setting,
      ...(options.preset && { preset: options.preset }),
      ...(options.price && { price: options.price }),
      plans,
      jobs,
      against,
      attempts: log.attempts,
      ...(session.training && { training: session.training }),
      notes: [...log.notes, ...said(run.lossNote()), ...model.notes()],
    });
    const event = { step: 0, time: 0, kind: "eval", metrics: reportMetrics(made) } as const;
    const alarms = findAlarms([event]).map(({ message: what, advice }) => `${what} ${advice}`);
    const report = { ...made, notes: [...made.notes, ...alarms] };
    run.log("eval", 0, { ...event.metrics, ...run.counts });
    if (report.failure !== undefined) {
      const told = { message: failureLines(report.failure).join("\n"), data: failureData(report.failure) };
      run.log("failure", 0, {}, told);
    }
    await writeAtomic(join(run.path, REPORT_FILES.json), `${JSON.stringify(report, null, 2)}\n`);
    await writeAtomic(join(run.path, REPORT_FILES.markdown), reportMarkdown(report));
    if (stop.cause !== undefined) throw stop.cause;
    status = stop.signal.aborted ? "stopped" : "finished";
    return { report, markdown: reportMarkdown(report), folder: run.path };
  } catch (error) {
    status = stop.cause === undefined && stop.signal.aborted ? "stopped" : "failed";
    message = errorMessage(error);
    throw error;
  } finally {
    await log?.close();
    await run.close(status, message);
  }
}

/** The folder holds one setting; its environments, seeds and repeats may grow. */
async function openFolder({ options, model, setting, plans, jobs }: Session): Promise<RunFolder> {
  const slug = model.name
    .replace(/^https?:\/\//, "")
    .replace(/[^\w.-]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "");
  const path = options.out ?? join("evals", `${slug.slice(-60)}-${digest(setting).slice(0, 8)}`);
  const { manifest } = await readManifest(path);
  if (manifest !== undefined) {
    const before = manifest.config.setting;
    if (manifest.config.kind !== "eval" || before === undefined) {
      throw new ConfigError(`${path} contains a run that is not an evaluation: choose another --out.`);
    }
    const changed = differences(before as JsonObject, setting).map(
      ({ key, before: a, after: b }) => `${key} was ${JSON.stringify(a)}, is ${JSON.stringify(b)}`,
    );
    if (changed.length > 0) {
      throw new ConfigError(
        `${path} holds an evaluation with another setting (${changed.join("; ")}): choose another --out, or leave it out.`,
      );
    }
  }
  // As in a training run: the viewer makes an episode's environment anew from it.
  const envs = plans.map(({ spec: { id: env }, identity: { options = {} }, label }) => ({
    env,
    options,
    ...(label !== env && { label }),
  }));
  const run = await openRun(path, {
    config: { kind: "eval", model: model.name, setting, envs },
    seeds: { eval: [...new Set(jobs.map(({ seed }) => seed))] },
    frames: { maxBytes: FRAME_BYTES },
  });
  // Not `begin`, which would discard the episodes of a run without checkpoints.
  if (run.resumed) run.log("note", 0, {}, { message: "The evaluation continues." });
  else run.log("start", 0, {});
  return run;
}

async function yardsticks({ spec, seeds, maxTurns, protocol }: EnvPlan, { host, stop }: Session): Promise<Yardsticks> {
  // These agents look at no image, so none is shrunk for them and no goal is drawn; the limits and rules are the same.
  const { maxLongSide: _, finalGoal: __, ...rules } = spec.options ?? {};
  const { against } = await playSeeds({
    agent: builtinAgent("stop"),
    env: protocol === undefined ? spec : { ...spec, options: rules },
    seeds,
    host,
    signal: stop.signal,
    // Worlds on this thread wait for nothing, so playing many at a time would only hold the frames of many.
    ...(protocol !== undefined && host.workers === "inline" && { live: 1 }),
    ...(maxTurns !== undefined && { maxTurns }),
  });
  return against;
}

async function playMissing(session: Session, run: RunFolder, log: ResultLog): Promise<void> {
  const { options, jobs, stop } = session;
  const missing = jobs.filter(({ key }) => !log.has(key));
  let done = jobs.length - missing.length;
  options.onProgress?.("play", done, jobs.length);
  const queue = missing.values();
  const work = async () => {
    for (const job of queue) {
      if (stop.signal.aborted) return;
      const result = await playJob(job, session, run, log);
      if (result === undefined) return;
      done += result.scored ? 1 : 0;
      options.onEpisode?.(result, { done, total: jobs.length });
    }
  };
  const workers = Array.from({ length: Math.min(options.concurrency ?? 8, missing.length) }, () =>
    work().catch((error: unknown) => stop.now(error)),
  );
  await Promise.all(workers);
}

/** Plays an episode and writes it down; undefined when it was stopped before anything was asked. */
async function playJob(job: Job, session: Session, run: RunFolder, log: ResultLog): Promise<EpisodeResult | undefined> {
  const { model, stop } = session;
  const { plan, seed, repeat } = job;
  const started = performance.now();
  const usage = noUsage();
  let trajectory: Trajectory;
  for (let attempt = 0; ; attempt++) {
    const played = await attemptEpisode(session.host, plan.spec, (context) => model.agent(context), {
      group: `${plan.label}#${seed}`,
      seed,
      sibling: repeat,
      samplingSeed: 0,
      retries: attempt,
      signal: stop.signal,
      // Requests have their own limits, and waiting for a rate limit is nobody's fault.
      episodeTimeoutMs: Number.POSITIVE_INFINITY,
      ...(plan.maxTurns !== undefined && { maxTurns: plan.maxTurns }),
    });
    addUsage(usage, played.agent.usage());
    trajectory = played.trajectory;
    const broken = trajectory.end === "env_error" || trajectory.end === "env_timeout";
    if (!broken || attempt >= ENV_RETRIES || stop.signal.aborted) break;
  }
  if (trajectory.end === "aborted" && usage.requests === 0) return undefined;
  const { textOf, view } = model;
  for (const frame of framesOf(trajectory, view)) run.frames.put(frame);
  const context = { split: "eval", step: 0, ...(textOf && { textOf }), ...(view && { view }) } as const;
  run.trajectories.append(0, [() => recordOf(trajectory, context)]);
  // Its result stands only when the episode can be seen.
  await Promise.all([run.frames.flush(), run.trajectories.flush()]);
  const ms = performance.now() - started;
  const decisions = isOurFault(trajectory) ? [] : await session.oracles.of(job.plan).decisions(trajectory);
  const result = resultOf(trajectory, { key: job.key, model: model.name, repeat: job.repeat, ms, usage, decisions });
  await log.append(result);
  return result;
}

const said = (note: string | undefined) => (note === undefined ? [] : [note]);

/** The caller's signal, and our own reasons to stop. */
class Stop {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #onAbort = () => this.#controller.abort(this.#outer?.reason);
  /** Why we stopped ourselves, where it was not the caller. */
  cause: unknown;

  constructor(outer?: AbortSignal) {
    this.#outer = outer;
    setMaxListeners(0, this.#controller.signal);
    if (outer?.aborted) this.#onAbort();
    outer?.addEventListener("abort", this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  now(cause: unknown): void {
    this.cause ??= cause;
    this.#controller.abort(cause);
  }

  release(): void {
    this.#outer?.removeEventListener("abort", this.#onAbort);
  }
}

function checkNumbers({
  repeats,
  concurrency,
  maxTurns,
  history,
  ratePerMinute,
  temperature,
  price,
}: EvaluationOptions): void {
  const whole = {
    repeats: [repeats, 1],
    concurrency: [concurrency, 1],
    maxTurns: [maxTurns, 1],
    history: [history, 0],
  } as const;
  for (const [name, [value, least]] of Object.entries(whole)) {
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= least)) {
      throw new ConfigError(`${name} must be a whole number of at least ${least}, got ${value}.`);
    }
  }
  if (ratePerMinute !== undefined && !(ratePerMinute > 0))
    throw new ConfigError(`The rate must be above 0, got ${ratePerMinute}.`);
  if (temperature !== undefined && !(temperature >= 0))
    throw new ConfigError(`The temperature must be 0 (greedy) or more, got ${temperature}.`);
  if (price !== undefined && !(price.input >= 0 && price.output >= 0))
    throw new ConfigError("Prices must be 0 or more.");
}
