/**
 * Demonstrations: what the oracle says in an episode, as conversations for supervised training. On disk a row is JSON in
 * the OpenAI form; each distinct frame is stored once, as `<file>.frames/<hash>.png`, and rows name it by that relative
 * path, or (embedded) carry it as a data URI.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, isAbsolute, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { ConfigError, DataError, EnvError, errorMessage, SaccadeError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import type { Awaitable, Json, JsonObject } from "../core/json.ts";
import { assistant, imagesOf, type Message } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import { given } from "../core/words.ts";
import { decodeImage } from "../images/decode.ts";
import { fromOpenAI, readDataUri, toOpenAI } from "../images/openai.ts";
import { encodePng } from "../images/png.ts";
import { failureLines, stackAtUser } from "../run/failures.ts";
import { type Env, sumRewards } from "./env.ts";
import { readJsonLines } from "./jsonl.ts";
import type { Options } from "./registry.ts";

export type Noise = {
  /** How often a random action is played instead of the oracle's; never one that ends the episode. */
  readonly probability: number;
  /** What the conversation says on such a turn: what was played, or what the oracle would have played. `agreed` says what was played and learns it only where the oracle agrees. Where the oracle knows no way on, only `played` learns. */
  readonly labels: Labels;
};

export const LABELS = ["played", "oracle", "agreed"] as const;
export type Labels = (typeof LABELS)[number];

export type Demo = {
  readonly env: string;
  readonly seed: number;
  readonly options?: Options;
  readonly messages: readonly Message[];
  readonly reward: number;
  readonly success: boolean;
  readonly turns: number;
  /** Absent: the oracle played every turn. */
  readonly noise?: Noise;
  /** Which replies are to be learned, in order; absent: all. */
  readonly learn?: readonly boolean[];
  /** What the chat template reads beside the messages, such as `tools`: of conversations of agents that bring their own loop. */
  readonly variables?: JsonObject;
};

/**
 * Plays one episode with the oracle, or with a noisy one; the seed decides the noise too. An episode without success, or one that runs
 * out of turns, comes back with `success: false`. What the environment throws is told with its seed, reply and line.
 */
export async function playDemo(
  name: string,
  env: Env,
  seed: number,
  options?: Options,
  noise: Noise = { probability: 0, labels: "played" },
  /** Before each turn: what its reply will be in the conversation, and whether the oracle says the same. */
  onTurn?: (taught: string, agreed: boolean) => Awaitable<void>,
): Promise<Demo> {
  let said: string | undefined;
  try {
    const messages: Message[] = [...(await env.reset(seed))];
    const random = new NumpyRandom(mixSeed("demo", seed));
    const learn: boolean[] = [];
    let reward = 0;
    for (let turns = 1; ; turns++) {
      const noisy = noise.probability > 0 && random.random() < noise.probability;
      // After a mistake that can't be mended (a box in a corner) the oracle has nothing to say: play on at random.
      const oracle =
        noisy && noise.labels === "played" ? undefined : ((await oracleReply(name, env, seed)) ?? undefined);
      const reply = noisy || oracle === undefined ? await slip(name, env, random, noisy) : oracle;
      const taught = noise.labels === "oracle" && oracle !== undefined ? oracle : reply;
      await onTurn?.(taught, taught === oracle);
      said = reply;
      const step = await env.step(reply);
      messages.push(assistant(taught));
      learn.push(noise.labels === "played" || taught === oracle);
      reward += sumRewards(step.rewards);
      if (step.terminated || step.truncated) {
        const success = step.success === true;
        return {
          env: name,
          seed,
          ...(options && { options }),
          ...(noise.probability > 0 && { noise }),
          ...(learn.includes(false) && { learn }),
          messages,
          reward,
          success,
          turns,
        };
      }
      messages.push(...step.observation);
    }
  } catch (error) {
    throw error instanceof SaccadeError ? error : failed(name, seed, error, said);
  }
}

/** What an environment threw, as its author needs it. */
function failed(env: string, seed: number, thrown: unknown, reply?: string): EnvError {
  const stack = stackAtUser(thrown);
  const error = `The environment failed in a demonstration: ${errorMessage(thrown)}`;
  const said = { ...(reply !== undefined && { reply }), ...(stack !== undefined && { stack }) };
  const failure = { env, seed, end: "env_error", error, agent: "oracle", ...said };
  return new EnvError(failureLines(failure).join("\n"), { cause: thrown });
}

/** A random action in the oracle's place. */
async function slip(name: string, env: Env, random: NumpyRandom, noisy: boolean): Promise<string> {
  const seed = random.integers(0, 2 ** 31);
  const reply = (await env.builtinReply?.("slip", seed)) ?? (await env.builtinReply?.("random", seed));
  if (reply !== undefined) return reply ?? "";
  throw new EnvError(
    noisy
      ? `${name}: ${noSlip("noise")}`
      : `${name}: the oracle has no plan from here, and there is no random agent to continue in its place.`,
  );
}

/** Why `setting` (`noise`, `warmStart.noise`) has nothing to play. */
export function noSlip(setting: string): string {
  return `${setting} plays a wrong reply now and then, and this environment has none: give a task slip(row, random), an environment builtinReply("slip", seed), or leave ${setting} at 0.`;
}

/** Whether noise has something to play in the episode that is on. */
export async function canSlip(env: Env): Promise<boolean> {
  return ((await env.builtinReply?.("slip", 0)) ?? (await env.builtinReply?.("random", 0))) !== undefined;
}

/** Null where it has nothing to say. */
async function oracleReply(name: string, env: Env, seed: number): Promise<string | null> {
  const reply = await env.builtinReply?.("oracle", seed);
  if (reply !== undefined) return reply;
  throw new EnvError(
    `${name} has no oracle (a world's is solve(), a task's answer(row), an environment's builtinReply("oracle", seed)), so it has no demonstrations.`,
  );
}

/** Writes demonstrations as JSON lines, frames beside them unless `embed`. */
export class DemoWriter {
  readonly file: string;
  readonly embed: boolean;
  readonly #stored = new Set<string>();

  constructor(file: string, embed: boolean) {
    this.file = file;
    this.embed = embed;
    if (!embed) mkdirSync(framesFolder(file), { recursive: true });
  }

  /** Distinct frames stored so far. */
  get frames(): number {
    return this.#stored.size;
  }

  /** The row of a demonstration, its frames stored. */
  row(demo: Demo): string {
    const { messages, ...rest } = demo;
    const wire = this.embed ? toOpenAI(messages) : toOpenAI(messages, { imageUrl: (image) => this.#store(image) });
    if (this.embed) for (const message of messages) for (const image of imagesOf(message)) this.#stored.add(image.hash);
    return JSON.stringify({ ...rest, messages: wire });
  }

  #store(image: Image): string {
    const name = `${image.hash}.png`;
    const folder = framesFolder(this.file);
    if (!this.#stored.has(image.hash)) {
      const path = join(folder, name);
      if (!existsSync(path)) writeFileSync(path, encodePng(image));
      this.#stored.add(image.hash);
    }
    return `${basename(folder)}/${name}`;
  }
}

/** What decides the rows of a file, as the command that writes it says. */
export type DemoPlan = {
  readonly env: string;
  /** Of the first row; the others follow. */
  readonly seed: number;
  readonly options?: Options;
  readonly noise?: Noise;
};

/** How many episodes of the plan are in the file. Throws where a row is another plan's: a file that mixes them trains on both. */
export async function countDemos(file: string, plan: DemoPlan): Promise<number> {
  let count = 0;
  for await (const { value, line } of readJsonLines(file)) {
    const wanted = { env: plan.env, seed: plan.seed + count, options: plan.options ?? {}, noise: plan.noise ?? null };
    const found = { env: value.env, seed: value.seed, options: value.options ?? {}, noise: value.noise ?? null };
    for (const key of ["env", "seed", "options", "noise"] as const) {
      if (isDeepStrictEqual(JSON.parse(JSON.stringify(wanted[key])), found[key])) continue;
      throw new ConfigError(
        `${file}:${line} has ${key} ${JSON.stringify(found[key])}, but this command plays ${JSON.stringify(wanted[key])}: ` +
          "use the arguments that the file was started with, or choose another --out.",
      );
    }
    count += 1;
  }
  return count;
}

/** Reads what `DemoWriter` wrote, or any JSON lines with `messages` in the OpenAI form, whose images are data URIs or files beside them. */
export async function* readDemos(file: string): AsyncGenerator<Demo> {
  const frames = new Map<string, Promise<Buffer>>();
  for await (const { value, line } of readJsonLines(file)) {
    const where = `${file}:${line}`;
    const row = value as { messages?: Json } & Record<string, unknown>;
    if (!Array.isArray(row.messages)) {
      throw new DataError(`${where}: a demonstration needs \`messages\`, a list; got ${given(row.messages)}.`);
    }
    const messages = await fromOpenAI(row.messages, (url) => readFrame(url, dirname(file), frames)).catch((error) => {
      throw error instanceof DataError ? new DataError(`${where}: ${error.message}`, { cause: error }) : error;
    });
    if (!messages.some(({ role }) => role === "assistant")) {
      throw new DataError(`${where}: a demonstration needs at least one assistant message to learn from.`);
    }
    yield { reward: 0, success: true, turns: 0, env: "", seed: 0, ...row, messages } as Demo;
  }
}

const framesFolder = (file: string) => `${file.replace(/\.jsonl$/, "")}.frames`;

/** The image of a data URI, or of a file beside its demonstrations; each file is read once. */
async function readFrame(url: string, folder: string, seen: Map<string, Promise<Buffer>>): Promise<Image> {
  if (/^(data|https?):/i.test(url)) return readDataUri(url);
  if (isAbsolute(url) || url.split(/[/\\]/).includes("..")) {
    throw new DataError(
      `the path ${url} leads out of the folder of its file; frames must be stored next to their demonstrations.`,
    );
  }
  const path = join(folder, url);
  const bytes = seen.get(url) ?? readFile(path);
  seen.set(url, bytes);
  const read = await bytes.catch(() => {
    throw new DataError(`the frame ${path} can't be read: keep the .frames folder next to its file.`);
  });
  return decodeImage(read).catch((error: unknown) => {
    throw new DataError(`${path}: ${errorMessage(error)}`);
  });
}
