/**
 * Playing in the browser: sessions of real environments, started fresh from a seed or taken over from a saved episode by replaying its
 * replies. Only registered environments and files named on the command line can be played: a request never loads code.
 */
import { randomUUID } from "node:crypto";
import { ConfigError, DataError, EnvError } from "../core/errors.ts";
import { isJsonObject, type JsonObject } from "../core/json.ts";
import { assistant, type Message } from "../core/message.ts";
import type { ModelInput } from "../core/model-input.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { checkSeed, mixSeed } from "../core/seed.ts";
import { commandsOf } from "../envs/args.ts";
import {
  type Action,
  type ActionSpec,
  actionText,
  DemoWriter,
  type Env,
  isElsewhere,
  isPath,
  listEnvs,
  makeEnv,
  makeProtocol,
  playedWords,
  type Span,
  type Step,
  sumRewards,
  WorldEnv,
} from "../envs/index.ts";
import { encodePng } from "../images/png.ts";
import type { Manifest } from "../run/manifest.ts";
import type { TrajectoryRecord } from "../run/trajectories.ts";
import type { ActRequest, EnvChoice, PlayPart, PlayState, PlayTurn, ThinkRequest, Thought } from "./api.ts";
import type { ModelRoom, Played } from "./models.ts";
import type { LocalPlayer, Said } from "./player.ts";

const MAX_SESSIONS = 16;
/** Turns of a session that keep their images. */
const MAX_TURNS = 1000;

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
  /** What is shown now, and the turns before with what was said: what a model is given, and what a demonstration is made of. */
  seen: readonly Message[];
  readonly played: Played[];
  /** What a model would say now, until somebody moves. */
  thought?: { readonly name: string; readonly said: Said; readonly prompt: ModelInput };
  last: Step | undefined;
  warning?: string;
  /** One reply at a time. */
  busy: Promise<unknown>;
};

export class PlayRoom {
  readonly #files: readonly string[];
  readonly #sessions = new Map<string, Session>();

  readonly models: ModelRoom;

  /** `files`: environments by path that may be played. */
  constructor(files: readonly string[], models: ModelRoom) {
    this.#files = files;
    this.models = models;
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

  async start(envId: string, seed: number, options: JsonObject = {}, model?: string): Promise<PlayState> {
    const trained = model === undefined ? {} : await this.models.optionsFor(model, envId);
    return stateOf(await this.#open(envId, seed, { ...trained, ...options }));
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
      await step(session, reply, "saved");
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

  /** What a model of ours would do now, and why as far as numbers tell. */
  async think(id: string, { model, greedy, look = false }: ThinkRequest, signal: AbortSignal): Promise<Thought> {
    const session = this.#find(id);
    return this.#inTurn(session, async () => {
      const began = performance.now();
      const open = await this.models.open(model);
      if (open.kind === "hosted" || isOver(session)) return { actions: [], likely: [], ms: 0 };
      const { said, prompt } = await this.#thought(session, model, greedy, open.player, signal);
      const told = await thoughtOf(session, open.player, prompt, said, look);
      return { ...told, ms: performance.now() - began };
    });
  }

  /** The episode as it was played so far, for `saccade sft`. */
  demonstration(id: string): { line: string; file: string } {
    const { envId, seed, options, played, turns, last } = this.#find(id);
    if (played.length === 0) throw new DataError("Nothing was played yet, so there is nothing to learn from.");
    const messages = played.flatMap(({ seen, reply }) => [...seen, assistant(reply)]);
    const reward = turns.reduce((sum, turn) => sum + turn.reward, 0);
    const demo = { env: envId, seed, options, messages, reward, success: last?.success === true, turns: turns.length };
    // Frames stand in the row: no file is written.
    const line = `${new DemoWriter("", true).row(demo)}\n`;
    return { line, file: `${envId.replace(/[^A-Za-z0-9_-]+/g, "-")}-${seed}.jsonl` };
  }

  /** Says it once for each state: what was shown is what is then played. */
  async #thought(session: Session, name: string, greedy: boolean, player: LocalPlayer, signal: AbortSignal) {
    const key = `${name} ${greedy}`;
    if (session.thought?.name === key) return session.thought;
    const prompt = await player.prompt(session.played, session.seen);
    const said = await player.reply(prompt, { greedy, seed: mixSeed(session.seed, session.turns.length) }, signal);
    session.thought = { name: key, said, prompt };
    return session.thought;
  }

  async #modelReply(session: Session, model: string, greedy: boolean, signal: AbortSignal): Promise<Said> {
    const open = await this.models.open(model);
    if (open.kind === "local") return (await this.#thought(session, model, greedy, open.player, signal)).said;
    const messages = session.played.flatMap(({ seen, reply }) => [...seen, assistant(reply)]);
    return { text: await open.player.reply([...messages, ...session.seen], signal), ids: new Int32Array() };
  }

  #inTurn<T>(session: Session, work: () => Promise<T>): Promise<T> {
    const turn = session.busy.then(work);
    session.busy = turn.catch(() => {});
    return turn;
  }

  async act(id: string, request: ActRequest, signal = new AbortController().signal): Promise<PlayState> {
    const session = this.#find(id);
    await this.#inTurn(session, async () => {
      if (isOver(session)) throw new EnvError("This episode is over; start another.");
      if (session.turns.length >= MAX_TURNS)
        throw new EnvError(`A session ends after ${MAX_TURNS} turns; start another.`);
      if ("model" in request) {
        const { text, ids } = await this.#modelReply(session, request.model, request.greedy, signal);
        await step(session, text, request.model.replace(/^\w+:/, ""), ids.length > 0 ? ids : undefined);
      } else await step(session, await replyOf(session, request), "auto" in request ? request.auto : "you");
    });
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
    await this.models.close();
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
      seen: [],
      played: [],
      last: undefined,
      busy: Promise.resolve(),
    };
    session.seen = await env.reset(seed);
    session.observation = partsOf(session, session.seen);
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

async function step(session: Session, reply: string, by: string, ids?: Int32Array): Promise<void> {
  const done = await session.env.step(reply);
  session.played.push({ seen: session.seen, reply, ...(ids && { ids }) });
  session.seen = done.observation;
  delete session.thought;
  const { feedback, parsed, valid } = done.info;
  session.turns.push({
    observation: session.observation,
    reply,
    actions: playedWords(done.info),
    parsed,
    valid,
    ...(feedback !== undefined && { feedback }),
    reward: sumRewards(done.rewards),
    by,
  });
  session.observation = partsOf(session, done.observation);
  session.last = done;
}

/** Most actions whose probability is told. */
const MAX_LIKELY = 32;

async function thoughtOf(
  { env }: Session,
  player: LocalPlayer,
  prompt: ModelInput,
  said: Said,
  look: boolean,
): Promise<Omit<Thought, "ms">> {
  if (!(env instanceof WorldEnv)) return { reply: said.text, actions: [], likely: [] };
  const { world, protocol } = env;
  const parsed = protocol.parse(said.text, world.actions);
  const actions = parsed.actions.map((action) => actionText(action, specOf(world.actions, action)));
  const choices = world.actions.flatMap((spec) => actionsOf(spec)).slice(0, MAX_LIKELY);
  const replies = choices.map(({ action }) => replyWith(env, said.text, parsed.span, action));
  const chances = replies.length === 0 ? [] : await player.probabilities(prompt, replies);
  const likely = choices.map(({ command }, i) => ({ command, probability: chances[i] ?? 0 }));
  const told = { reply: said.text, actions, likely: likely.sort((a, b) => b.probability - a.probability) };
  if (!look) return told;
  const from = replies.length < 2 ? 0 : await player.sharedStart([said.text, ...replies]);
  const seen = await player.occlusion(prompt, said.ids, from);
  return { ...told, ...(seen && { look: seen }) };
}

/** The reply that was said with another action in it; where none was read, the plainest that says the action. */
function replyWith({ world, protocol }: WorldEnv, said: string, span: Span | undefined, action: Action): string {
  const plain = protocol.print([action], world.actions);
  const own = protocol.parse(plain, world.actions).span;
  if (span === undefined || own === undefined) return plain;
  return said.slice(0, span[0]) + plain.slice(own[0], own[1]) + said.slice(span[1]);
}

function specOf(actions: readonly ActionSpec[], { name }: Action): ActionSpec {
  return actions.find((spec) => spec.name === name) as ActionSpec;
}

async function replyOf({ env, random }: Session, request: Exclude<ActRequest, { model: string }>): Promise<string> {
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
export function optionsOf(env: string, manifest: Manifest | undefined): { options: JsonObject; found: boolean } {
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
    ...(last?.info.ending !== undefined && { ending: last.info.ending }),
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

/** The actions that can be listed, each with its command. */
function actionsOf(spec: ActionSpec): { action: Action; command: string }[] {
  return commandsOf(spec).flatMap((command) => {
    const { actions } = makeProtocol("keyword", { lenient: true }).parse(command, [spec]);
    return actions[0] === undefined ? [] : [{ action: actions[0], command }];
  });
}
