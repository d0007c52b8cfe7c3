/**
 * Demonstrations: what the oracle says in an episode, as conversations for supervised training. On disk a row is JSON in
 * the OpenAI form; each distinct frame is stored once, as `<file>.frames/<hash>.png`, and rows name it by that relative
 * path, or (embedded) carry it as a data URI.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { ConfigError, DataError, EnvError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import type { Awaitable, Json } from "../core/json.ts";
import { assistant, imagesOf, type Message } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import { fromOpenAI, toOpenAI } from "../images/openai.ts";
import { encodePng } from "../images/png.ts";
import { type BuiltinAgent, type Env, sumRewards } from "./env.ts";
import { readJsonLines } from "./jsonl.ts";
import type { Options } from "./registry.ts";

export type Noise = {
  /** How often a random action is played instead of the oracle's; never one that ends the episode. */
  readonly probability: number;
  /** What the conversation says on such a turn: what was played, or what the oracle would have played. `agreed` says what was played and learns it only where the oracle agrees. */
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
};

/**
 * Plays one episode with the oracle, or with a noisy one; the seed decides the noise too. An episode that fails or runs
 * out of turns comes back with `success: false`.
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
  const messages: Message[] = [...(await env.reset(seed))];
  const random = new NumpyRandom(mixSeed("demo", seed));
  const learn: boolean[] = [];
  let reward = 0;
  for (let turns = 1; ; turns++) {
    const noisy = noise.probability > 0 && random.random() < noise.probability;
    // After a mistake that can't be mended (a box in a corner) the oracle has nothing to say: play on at random.
    const oracle = noisy && noise.labels === "played" ? undefined : ((await said(env, "oracle", seed)) ?? undefined);
    const reply = noisy || oracle === undefined ? await slip(env, random) : oracle;
    const taught = noise.labels === "oracle" && oracle !== undefined ? oracle : reply;
    await onTurn?.(taught, taught === oracle);
    const step = await env.step(reply);
    messages.push(assistant(taught));
    learn.push(noise.labels !== "agreed" || reply === oracle);
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
}

/** A random action in the oracle's place. */
async function slip(env: Env, random: NumpyRandom): Promise<string> {
  const seed = random.integers(0, 2 ** 31);
  return (await env.builtinReply?.("slip", seed)) ?? (await said(env, "random", seed)) ?? "";
}

/** Null where the agent has nothing to say. */
async function said(env: Env, agent: BuiltinAgent, seed: number): Promise<string | null> {
  const reply = await env.builtinReply?.(agent, seed);
  if (reply !== undefined) return reply;
  const how = agent === "oracle" ? " (a world's is solve(), an environment's builtinReply())" : "";
  throw new EnvError(`This environment has no ${agent} agent${how}, so it has no demonstrations.`);
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
        `${file}:${line} has ${key} ${JSON.stringify(found[key])}, this command plays ${JSON.stringify(wanted[key])}: ` +
          "go on with the arguments the file was begun with, or choose another --out.",
      );
    }
    count += 1;
  }
  return count;
}

/** Reads what `DemoWriter` wrote, or any JSON lines with `messages` in the OpenAI form. */
export async function* readDemos(file: string): AsyncGenerator<Demo> {
  const frames = new Map<string, string>();
  for await (const { value, line } of readJsonLines(file)) {
    const row = value as { messages?: Json } & Record<string, unknown>;
    if (!Array.isArray(row.messages)) throw new DataError(`${file}:${line}: a demonstration needs \`messages\`.`);
    const messages = await fromOpenAI(await inlineFrames(row.messages, dirname(file), frames));
    yield { reward: 0, success: true, turns: 0, env: "", seed: 0, ...row, messages } as Demo;
  }
}

const framesFolder = (file: string) => `${file.replace(/\.jsonl$/, "")}.frames`;

/** Replaces relative frame paths by data URIs, each file read once. */
async function inlineFrames(messages: readonly Json[], folder: string, seen: Map<string, string>): Promise<Json[]> {
  const text = JSON.stringify(messages);
  const urls = new Set([...text.matchAll(/"url":"([^":]+\.png)"/g)].map((match) => match[1] as string));
  let inlined = text;
  for (const url of urls) {
    if (url.startsWith("/") || url.split("/").includes("..")) {
      throw new EnvError(
        `The frame path ${url} leaves the folder of its file; frames lie beside their demonstrations.`,
      );
    }
    let data = seen.get(url);
    if (data === undefined) {
      const bytes = await readFile(join(folder, url)).catch(() => {
        throw new DataError(`The frame ${join(folder, url)} is missing: keep the .frames folder beside its file.`);
      });
      data = `data:image/png;base64,${bytes.toString("base64")}`;
      seen.set(url, data);
    }
    inlined = inlined.replaceAll(`"url":"${url}"`, `"url":"${data}"`);
  }
  return JSON.parse(inlined) as Json[];
}
