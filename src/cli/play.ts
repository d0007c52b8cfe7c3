/**
 * `saccade play`: an episode by a person, a model, the oracle, at random, or from replies on standard input. In a terminal a world is played in place
 * (`play-live.ts`); elsewhere, and for other environments, turn by turn in lines. `--gif` keeps it as an animation; `--json` prints one line per turn.
 */
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { Command } from "commander";
import {
  ConfigError,
  EnvError,
  type Image,
  imagesOf,
  isImage,
  type Message,
  NumpyRandom,
  textOf,
} from "../core/index.ts";
import { printable, printableJson } from "../core/printable.ts";
import { type Env, makeEnv, makeProtocol, type Options, type Step, sumRewards, WorldEnv } from "../envs/index.ts";
import { isSite, registerSite } from "../envs/pages/site.ts";
import { captioned, type Frame } from "../images/captions.ts";
import { encodeGif, halfBlocks, shades } from "../images/index.ts";
import { checkWritable, collect, drawsPanels, envOptions, hasColor, sizeOf, wholeNumber } from "./common.ts";
import { playLive, verdictOf } from "./play-live.ts";
import type { Player } from "./play-model.ts";
import { boardCells } from "./play-screen.ts";

type Flags = {
  seed: number;
  protocol?: string;
  maxTurns?: number;
  oracle?: boolean;
  random?: boolean;
  agent?: string;
  greedy?: boolean;
  engine?: string;
  gif?: string;
  json?: boolean;
  goal?: string;
  allowNetwork?: boolean;
  set: string[];
};

/** Where replies to what is newly seen come from; undefined ends the episode early. */
type Replies = (turn: number, seen: readonly Message[]) => Promise<string | undefined>;

export function playCommand(): Command {
  return new Command("play")
    .description("play an episode")
    .argument("<env>", "environment id or path, or the address of a site: http://localhost:3000")
    .option("--goal <text>", "for a site: the task, in words")
    .option("--allow-network", "for a site: allow other machines and any requests of the page")
    .option("--seed <n>", "seed of the episode", wholeNumber("--seed"), 0)
    .option("--protocol <name>", "tuple, keyword, think, world-model or tool-call")
    .option("--max-turns <n>", "turn limit", wholeNumber("--max-turns", 1))
    .option("--oracle", "let the oracle play")
    .option("--random", "play at random")
    .option("--agent <model>", "let a model play: any model that `saccade eval` takes")
    .option("--greedy", "with --agent: decode greedily instead of sampling")
    .option("--engine <name>", "with --agent: the model's engine, as for `saccade eval`")
    .option("--gif <file>", "save the episode as an animation")
    .option(
      "--json",
      "print one JSON line per turn; without --oracle, --random or --agent, read replies from standard input, one per line",
    )
    .option("--set <key=value>", "option of the environment (repeat), for example --set size=8", collect, [])
    .action(runPlay);
}

async function runPlay(named: string, flags: Flags): Promise<void> {
  const name = isSite(named) ? registerSite(named, flags.goal ?? "Look around.", flags.allowNetwork === true) : named;
  for (const flag of ["goal", "allowNetwork"] as const) {
    if (flags[flag] !== undefined && name === named)
      throw new ConfigError(
        `--${flag === "goal" ? flag : "allow-network"} is for a site: name one by its address, http://…; got "${named}".`,
      );
  }
  const players = [flags.oracle && "--oracle", flags.random && "--random", flags.agent !== undefined && "--agent"];
  const chosen = players.filter((player) => typeof player === "string");
  if (chosen.length > 1) throw new ConfigError(`Choose one of ${chosen.join(" and ")}.`);
  for (const flag of ["greedy", "engine"] as const) {
    if (flags[flag] !== undefined && flags.agent === undefined)
      throw new ConfigError(`--${flag} is for a model: name one with --agent.`);
  }
  if (flags.gif !== undefined) checkWritable(flags.gif, "--gif");
  const { agent } = flags;
  const player =
    agent === undefined ? undefined : await (await import("./play-model.ts")).openPlayer({ ...flags, agent });
  try {
    const own = envOptions(flags);
    const options = (await player?.options(name, own)) ?? own;
    const made = await makeEnv(name, options);
    const byKeys = chosen.length === 0 && flags.maxTurns === undefined && isLive(flags);
    const env = byKeys ? await withTurnsForKeys(made, name, options) : made;
    try {
      await playWith(env, named, player, chosen.length === 0, flags);
    } finally {
      await env.close?.();
    }
  } finally {
    await player?.close();
  }
}

async function playWith(
  env: Env,
  name: string,
  player: Player | undefined,
  byPerson: boolean,
  flags: Flags,
): Promise<void> {
  if (isLive(flags) && env instanceof WorldEnv) {
    const model = await player?.open(env, flags.seed);
    const machine = byPerson
      ? undefined
      : {
          name: flags.oracle ? "the oracle" : flags.random ? "chance" : (flags.agent ?? ""),
          reply: model ?? oneAfterAnother(machineReplies(env, flags)),
        };
    const { last, total, seen } = await playLive({ env, name, seed: flags.seed, ...(machine && { machine }) });
    const [image] = seen.flatMap(imagesOf).slice(-1);
    if (machine && image)
      process.stdout.write(`${drawImage(image, boardCells(image, sizeOf(process.stdout)).columns)}\n`);
    process.stdout.write(`${summary(last, total)}\n`);
    return;
  }
  if (byPerson) {
    const input = createInterface({ input: process.stdin });
    // An open input would keep the process waiting after an error.
    return playOne(env, linesOf(input, env, flags), flags).finally(() => input.close());
  }
  const model = await player?.open(env, flags.seed);
  return playOne(env, model ? (_turn, seen) => model(seen) : machineReplies(env, flags), flags);
}

const isLive = (flags: Flags) =>
  !flags.json && flags.gif === undefined && process.stdin.isTTY === true && drawsPanels(process.stdout);

/** A key is one action, and a reply may hold several: a person gets as many turns as a model has actions. */
async function withTurnsForKeys(env: Env, name: string, options: Options): Promise<Env> {
  if (!(env instanceof WorldEnv)) return env;
  const { maxActions } = env.protocol;
  if (maxActions <= 1 || !Number.isFinite(maxActions)) return env;
  await env.close();
  return makeEnv(name, { ...options, maxTurns: env.options.maxTurns * maxActions });
}

const oneAfterAnother = (replies: Replies) => (seen: readonly Message[]) => replies(0, seen);

async function playOne(env: Env, replies: Replies, flags: Flags): Promise<void> {
  const quiet = flags.json === true;
  const byMachine = flags.oracle || flags.random || flags.agent !== undefined;
  const film: Frame[] = [];
  const show = (messages: readonly Message[], caption?: string) => {
    const [image] = messages.flatMap(imagesOf);
    if (image !== undefined && caption !== undefined) film.push({ image, caption });
    if (!quiet) process.stdout.write(`${draw(messages)}\n`);
  };
  if (flags.gif !== undefined) filmActions(env, film);
  let seen = await env.reset(flags.seed);
  show(seen, "start");
  let last: Step | undefined;
  let total = 0;
  for (let turn = 1; ; turn++) {
    const reply = await replies(turn, seen);
    if (reply === undefined) break;
    if (!quiet && byMachine) process.stdout.write(`> ${printable(reply)}\n`);
    last = await env.step(reply);
    total += sumRewards(last.rewards);
    if (quiet) process.stdout.write(`${printableJson(jsonLine(turn, flags.seed, reply, seen, last))}\n`);
    // What was played is on film already, action by action; a reply without an action is shown as it left things.
    show(last.observation, env instanceof WorldEnv && last.info.parsed ? undefined : `${turn}: (no action)`);
    seen = last.observation;
    if (last.terminated || last.truncated) break;
  }
  if (!quiet) process.stdout.write(`${summary(last, total)}\n`);
  if (flags.gif !== undefined) writeFilm(flags.gif, film, last);
}

function writeFilm(file: string, film: readonly Frame[], last: Step | undefined): void {
  if (film.length === 0) throw new EnvError("--gif: this episode has no images (text observations).");
  const delayMs = film.map((_, at) => (at < film.length - 1 ? 500 : 2000));
  writeFileSync(file, encodeGif(captioned(film, last), { delayMs }));
  process.stderr.write(`${film.length} frames in ${file}\n`);
}

function machineReplies(env: Env, flags: Flags): Replies {
  const agent = flags.oracle ? "oracle" : "random";
  const random = new NumpyRandom(flags.seed);
  return async () => {
    const reply = await env.builtinReply?.(agent, random.integers(0, 2 ** 31));
    if (reply === undefined) throw new ConfigError(`--${agent}: this environment has no ${agent} agent.`);
    if (reply === null) throw new EnvError(`The ${agent} finds no way to succeed from here.`);
    return reply;
  };
}

/** Lines a person or a script writes. A bare command (`left`) is put into the protocol's form for them. */
function linesOf(input: ReturnType<typeof createInterface>, env: Env, flags: Flags): Replies {
  const lines = input[Symbol.asyncIterator]();
  const bare = makeProtocol("keyword", { lenient: true });
  return async (turn) => {
    if (!flags.json) process.stdout.write(`turn ${turn}> `);
    const { value, done } = await lines.next();
    if (done) return undefined;
    const line = value as string;
    if (flags.json || !(env instanceof WorldEnv)) return line;
    const { world, protocol } = env;
    if (protocol.parse(line, world.actions).actions.length > 0) return line;
    const { actions } = bare.parse(line, world.actions);
    return actions.length > 0 ? protocol.print(actions, world.actions) : line;
  };
}

function draw(messages: readonly Message[]): string {
  const columns = Math.min(sizeOf(process.stdout).columns, 96);
  return messages
    .flatMap((message) => message.content)
    .map((part) => (part.type === "text" ? printable(part.text) : drawImage(part.image, columns)))
    .join("\n");
}

function drawImage(image: Image, columns: number): string {
  return hasColor(process.stdout) ? halfBlocks(image, { columns }) : shades(image, Math.min(columns, 48));
}

function jsonLine(turn: number, seed: number, reply: string, seen: readonly Message[], step: Step) {
  return {
    turn,
    seed,
    reply,
    reward: sumRewards(step.rewards),
    rewards: step.rewards,
    terminated: step.terminated,
    truncated: step.truncated,
    feedback: step.info.feedback ?? null,
    success: step.success ?? null,
    parsed: step.info.parsed,
    valid: step.info.valid,
    /** The image after the reply, and the one the reply answered. */
    frame: frameHash(step.observation),
    seen: frameHash(seen),
    text: step.observation.map(textOf).join("\n"),
  };
}

function frameHash(messages: readonly Message[]): string | null {
  return messages.flatMap(imagesOf)[0]?.hash ?? null;
}

/** A turn may hold several actions; the film has a frame for each. */
function filmActions(env: Env, film: Frame[]): void {
  if (!(env instanceof WorldEnv)) return;
  const { world } = env;
  const play = world.act.bind(world);
  world.act = async (action) => {
    const outcome = await play(action);
    const seen = await world.observe("image");
    const frame = Array.isArray(seen) ? seen.find((part) => part.type === "image")?.image : seen;
    if (isImage(frame)) film.push({ image: frame, caption: `${env.turn + 1}: ${env.describe([action])}` });
    return outcome;
  };
}

function summary(step: Step | undefined, total: number): string {
  return step === undefined ? verdictOf(step) : `${verdictOf(step)} Reward ${Number(total.toFixed(4))}.`;
}
