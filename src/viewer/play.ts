/**
 * Playing in the browser: sessions of real environments, started fresh from a seed or taken over from a saved episode by replaying its
 * replies. Only registered environments and files named on the command line can be played: a request never loads code.
 */
import { randomUUID } from "node:crypto";
import { ConfigError, DataError, EnvError } from "../core/errors.ts";
import { isJsonObject, type JsonObject } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { checkSeed } from "../core/seed.ts";
import {
  type ActionSpec,
  actionText,
  type Env,
  isElsewhere,
  isPath,
  listEnvs,
  makeEnv,
  makeProtocol,
  playedWords,
  type Step,
  shorthandLabels,
  sumRewards,
  WorldEnv,
} from "../envs/index.ts";
import { encodePng } from "../images/png.ts";
import type { Manifest } from "../run/manifest.ts";
import type { TrajectoryRecord } from "../run/trajectories.ts";
import type { ActRequest, EnvChoice, PlayPart, PlayState, PlayTurn } from "./api.ts";

const MAX_SESSIONS = 16;
/** Turns of a session that keep their images. */
const MAX_TURNS = 1000;
/** Whole numbers with at most so many values become buttons. */
const MAX_BUTTONS = 12;

type Session = {
  readonly id: string;
  readonly envId: string;
  readonly seed: number;
  readonly options: JsonObject;
  readonly env: Env;
  readonly random: NumpyRandom;
  hasOracle: boolean;
  /** PNG by hash. */
  readonly frames: Map<string, Uint8Array>;
  readonly turns: PlayTurn[];
  observation: readonly PlayPart[];
  last: Step | undefined;
  warning?: string;
  /** One reply at a time. */
  busy: Promise<unknown>;
};

export class PlayRoom {
  readonly #files: readonly string[];
  readonly #sessions = new Map<string, Session>();

  /** `files`: environments by path that may be played. */
  constructor(files: readonly string[] = []) {
    this.#files = files;
  }

  async envs(): Promise<EnvChoice[]> {
    const own = this.#files.map((id): EnvChoice => ({ id, summary: "A file named on the command line.", options: {} }));
    const here = (await listEnvs()).filter(({ id }) => !isElsewhere(id));
    const known = here.map(({ id, summary, maxTurns, variants, options }): EnvChoice => {
      const plain = JSON.parse(JSON.stringify(options)) as JsonObject;
      return { id, summary, ...(maxTurns && { maxTurns }), ...(variants && { variants }), options: plain };
    });
    return [...own, ...known];
  }

  async start(envId: string, seed: number, options: JsonObject = {}): Promise<PlayState> {
    return stateOf(await this.#open(envId, seed, options));
  }

  /** Replays the replies before `turn`; says so when the episode does not come out as it was saved. */
  async takeOver(record: TrajectoryRecord, turn: number, manifest: Manifest | undefined): Promise<PlayState> {
    if (!Number.isInteger(turn) || turn < 0 || turn > record.turns.length) {
      throw new DataError(
        `This episode has ${record.turns.length} turns; take over at turn 0 to ${record.turns.length}.`,
      );
    }
    const { options, found } = optionsOf(record.env, manifest);
    const session = await this.#open(record.env, record.seed, options);
    for (const [t, { reply, frames }] of record.turns.slice(0, turn).entries()) {
      noteDifference(session, t, frames);
      if (isOver(session)) break;
      await step(session, reply);
    }
    const next = record.turns[turn]?.frames ?? record.final?.frames;
    if (next !== undefined) noteDifference(session, session.turns.length, next);
    if (!found) {
      session.warning =
        `The run does not say how ${record.env} was set up; it was made with its defaults. ${session.warning ?? ""}`.trim();
    }
    return stateOf(session);
  }

  state(id: string): PlayState {
    return stateOf(this.#find(id));
  }

  async act(id: string, request: ActRequest): Promise<PlayState> {
    const session = this.#find(id);
    const turn = session.busy.then(async () => {
      if (isOver(session)) throw new EnvError("This episode is over; start another.");
      if (session.turns.length >= MAX_TURNS)
        throw new EnvError(`A session ends after ${MAX_TURNS} turns; start another.`);
      await step(session, await replyOf(session, request));
    });
    session.busy = turn.catch(() => {});
    await turn;
    return stateOf(session);
  }

  frame(id: string, hash: string): Uint8Array | undefined {
    return this.#find(id).frames.get(hash);
  }

  async stop(id: string): Promise<void> {
    const session = this.#sessions.get(id);
    this.#sessions.delete(id);
    await session?.env.close?.();
  }

  async close(): Promise<void> {
    for (const id of [...this.#sessions.keys()]) await this.stop(id);
  }

  async #open(envId: string, seed: number, options: JsonObject): Promise<Session> {
    checkSeed(seed);
    if (isPath(envId) && !this.#files.includes(envId)) {
      throw new ConfigError(`${envId} is a file; start the viewer with --env ${envId} to play it.`);
    }
    // Its options say where to send which key, and they may be those of somebody else's run.
    if (isElsewhere(envId)) throw new ConfigError("A remote environment is played with saccade play remote, not here.");
    const env = await makeEnv(envId, options);
    const session: Session = {
      id: randomUUID(),
      envId,
      seed,
      options,
      env,
      random: new NumpyRandom(seed),
      hasOracle: false,
      frames: new Map(),
      turns: [],
      observation: [],
      last: undefined,
      busy: Promise.resolve(),
    };
    session.observation = partsOf(session, await env.reset(seed));
    session.hasOracle = (await env.builtinReply?.("oracle", 0)) !== undefined;
    this.#sessions.set(session.id, session);
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > MAX_SESSIONS && oldest !== undefined) await this.stop(oldest);
    return session;
  }

  #find(id: string): Session {
    const session = this.#sessions.get(id);
    if (session === undefined) throw new DataError("This session has ended; start another.");
    // The one used last is given up last.
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    return session;
  }
}

async function step(session: Session, reply: string): Promise<void> {
  const done = await session.env.step(reply);
  const { feedback, parsed, valid } = done.info;
  session.turns.push({
    observation: session.observation,
    reply,
    actions: playedWords(done.info),
    parsed,
    valid,
    ...(feedback !== undefined && { feedback }),
    reward: sumRewards(done.rewards),
  });
  session.observation = partsOf(session, done.observation);
  session.last = done;
}

async function replyOf({ env, random }: Session, request: ActRequest): Promise<string> {
  if ("reply" in request) return String(request.reply);
  if ("auto" in request) {
    const reply = await env.builtinReply?.(request.auto, random.integers(0, 2 ** 31));
    if (reply === undefined) throw new ConfigError(`This environment has no ${request.auto} agent: play it yourself.`);
    if (reply === null) throw new EnvError(`The ${request.auto} agent finds no way to succeed from here.`);
    return reply;
  }
  if (!(env instanceof WorldEnv)) return String(request.command);
  const { world, protocol } = env;
  const command = String(request.command);
  if (protocol.parse(command, world.actions).actions.length > 0) return command;
  const { actions } = makeProtocol("keyword", { lenient: true }).parse(command, world.actions);
  return actions.length > 0 ? protocol.print(actions, world.actions) : command;
}

function partsOf(session: Session, messages: readonly Message[]): PlayPart[] {
  return messages.flatMap(({ content }) =>
    content.map((part): PlayPart => {
      if (part.type === "text") return { type: "text", text: part.text };
      const { hash, width, height } = part.image;
      if (!session.frames.has(hash)) session.frames.set(hash, encodePng(part.image));
      return { type: "image", hash, width, height };
    }),
  );
}

function isOver({ last }: Session): boolean {
  return last !== undefined && (last.terminated || last.truncated);
}

/** The first difference between what is shown and what was saved. */
function noteDifference(session: Session, turn: number, saved: readonly string[]): void {
  const shown = session.observation.flatMap((part) => (part.type === "image" ? [part.hash] : []));
  if (session.warning !== undefined || shown.join() === saved.join()) return;
  session.warning = `From turn ${turn} on the frames are not the saved ones: the environment or its options have changed.`;
}

/** How the run made this environment: training runs list them under `envs`, evaluations have one `env`. */
function optionsOf(env: string, manifest: Manifest | undefined): { options: JsonObject; found: boolean } {
  const config = manifest?.config ?? {};
  const listed = Array.isArray(config.envs) ? config.envs : [];
  for (const one of [...listed, config]) {
    if (!isJsonObject(one) || one.env !== env) continue;
    return { options: isJsonObject(one.options) ? one.options : {}, found: true };
  }
  return { options: {}, found: false };
}

function stateOf(session: Session): PlayState {
  const { id, envId, seed, options, env, turns, observation, last, warning } = session;
  const world = env instanceof WorldEnv ? env.world : undefined;
  const end = last?.terminated ? "terminated" : last?.truncated ? "truncated" : undefined;
  return {
    session: id,
    env: envId,
    seed,
    options,
    ...(env instanceof WorldEnv && { maxTurns: env.options.maxTurns }),
    turns,
    observation,
    reward: turns.reduce((sum, { reward }) => sum + reward, 0),
    over: isOver(session),
    ...(end && { end }),
    success: last?.success === true,
    commands: world === undefined ? [] : world.actions.flatMap(commandsOf),
    actions: (world?.actions ?? []).map((spec) => ({
      name: spec.name,
      description: spec.description,
      example: actionText({ name: spec.name, payload: spec.example }, spec),
    })),
    hasOracle: session.hasOracle,
    ...(warning !== undefined && { warning }),
  };
}

function commandsOf(spec: ActionSpec): string[] {
  const { name, arg } = spec;
  if (arg.type === "word") return [name];
  const labels = shorthandLabels(spec);
  if (labels.length > 0) return [...labels];
  if (arg.type !== "int" || arg.max - arg.min >= MAX_BUTTONS) return [];
  const count = arg.max - arg.min + 1;
  return Array.from({ length: count }, (_, i) => actionText({ name, payload: arg.min + i }, spec));
}
