/**
 * Episodes as trajectories of Harbor's ATIF 1.8, out and in. A trajectory is one JSON file; images are stored next to it, each once, as `images/<hash>.png`.
 * What a message says and shows, who says it, rewards and success survive the way there and back. Logs of other agents come in as demonstrations: their tool
 * calls are written the way Qwen's chat template writes them, and results are what the user says next.
 */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { z } from "zod";
import { DataError, errorMessage } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import type { JsonObject } from "../core/json.ts";
import { image, type Message, type Part, text } from "../core/message.ts";
import { decodeImage } from "../images/decode.ts";
import { encodePng } from "../images/png.ts";
import type { Demo } from "./demos.ts";
import { resultParts, writeCall } from "./protocols/tool-text.ts";

const VERSION = "ATIF-v1.8";
const MAX_PIXELS = 16 * 1024 * 1024;

const source = z.object({ media_type: z.string(), path: z.string() });
const content = z.union([
  z.string(),
  z.array(z.looseObject({ type: z.string(), text: z.string().nullish(), source: source.nullish() })),
]);
const stepSchema = z.looseObject({
  source: z.enum(["system", "user", "agent"]),
  message: content,
  reasoning_content: z.string().nullish(),
  tool_calls: z
    .array(z.looseObject({ function_name: z.string(), arguments: z.record(z.string(), z.json()).default({}) }))
    .nullish(),
  observation: z.looseObject({ results: z.array(z.looseObject({ content: content.nullish() })) }).nullish(),
  is_copied_context: z.boolean().nullish(),
});
const schema = z.looseObject({
  schema_version: z.string().regex(/^ATIF-v1\.\d+$/, "must be ATIF-v1.x"),
  steps: z.array(stepSchema).min(1),
  extra: z.record(z.string(), z.json()).nullish(),
  subagent_trajectories: z.array(z.unknown()).nullish(),
});
type Content = z.output<typeof content>;

/** Writes trajectories into a folder. */
export class AtifWriter {
  readonly folder: string;
  readonly #stored = new Set<string>();
  #count = 0;

  constructor(folder: string) {
    this.folder = folder;
    mkdirSync(join(folder, "images"), { recursive: true });
  }

  get images(): number {
    return this.#stored.size;
  }

  /** The file that was written. */
  write(demo: Demo): string {
    const { messages, env, seed, turns, reward, success, ...more } = demo;
    const name = `trajectory-${String(this.#count++).padStart(6, "0")}`;
    const trajectory = {
      schema_version: VERSION,
      session_id: name,
      trajectory_id: name,
      agent: { name: "saccade", version: "0.1.0", ...(env !== "" && { extra: { env } }) },
      steps: messages.map((message, i) => this.#step(message, i + 1)),
      final_metrics: { total_steps: messages.length, extra: { reward, success } },
      extra: { env, seed, turns, reward, success, ...(JSON.parse(JSON.stringify(more)) as JsonObject) },
    };
    const file = join(this.folder, `${name}.json`);
    writeFileSync(file, `${JSON.stringify(trajectory)}\n`);
    return file;
  }

  #step({ role, content: parts }: Message, id: number) {
    const from = role === "assistant" ? "agent" : role === "system" || role === "developer" ? "system" : "user";
    return { step_id: id, source: from, message: this.#content(parts) };
  }

  #content(parts: readonly Part[]): string | object[] {
    const [only] = parts;
    if (parts.length === 1 && only?.type === "text") return only.text;
    return parts.map((part) =>
      part.type === "text"
        ? { type: "text", text: part.text }
        : { type: "image", source: { media_type: "image/png", path: this.#store(part.image) } },
    );
  }

  #store(shown: Image): string {
    const path = `images/${shown.hash}.png`;
    const file = join(this.folder, path);
    if (!this.#stored.has(shown.hash) && !existsSync(file)) writeFileSync(file, encodePng(shown));
    this.#stored.add(shown.hash);
    return path;
  }
}

/** Every trajectory of a folder (its `.json` files, in the order of their names) or of one file. */
export async function* readAtif(path: string): AsyncGenerator<Demo> {
  const files = path.endsWith(".json")
    ? [path]
    : readdirSync(path)
        .filter((name) => name.endsWith(".json"))
        .sort()
        .map((name) => join(path, name));
  if (files.length === 0) throw new DataError(`${path} has no .json file, so it holds no trajectory.`);
  for (const file of files) yield readTrajectory(file);
}

export async function readTrajectory(file: string): Promise<Demo> {
  const bytes = await readFile(file, "utf8").catch((error: unknown) => {
    throw new DataError(`${file} can't be read: ${errorMessage(error)}`);
  });
  let given: unknown;
  try {
    given = JSON.parse(bytes);
  } catch {
    throw new DataError(`${file} is not JSON.`);
  }
  const read = schema.safeParse(given);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new DataError(
      `${file} is not an ATIF trajectory: ${issue?.path.join(".") || "the file"}: ${issue?.message}.`,
    );
  }
  const { steps, extra } = read.data;
  const messages: Message[] = [];
  const learn: boolean[] = [];
  for (const [i, step] of steps.entries()) {
    const where = `${file}: steps[${i}]`;
    const parts = await partsOf(step.message, file, where);
    if (step.source !== "agent") {
      messages.push({ role: step.source, content: parts });
      continue;
    }
    const thought = step.reasoning_content ? [text(`<think>\n${step.reasoning_content}\n</think>\n\n`)] : [];
    const calls = (step.tool_calls ?? []).map((call) =>
      text(`\n${writeCall(call.function_name, call.arguments, "qwen")}`),
    );
    messages.push({ role: "assistant", content: joined([...thought, ...parts, ...calls]) });
    // What was copied from an earlier trajectory was learned there.
    learn.push(step.is_copied_context !== true);
    const results: Part[][] = [];
    for (const result of step.observation?.results ?? []) {
      if (result.content) results.push(await partsOf(result.content, file, where));
    }
    if (results.length > 0) {
      const seen = calls.length > 0 ? resultParts(results, "qwen") : results.flat();
      messages.push({ role: "user", content: [...seen] });
    }
  }
  if (learn.length === 0)
    throw new DataError(`${file} has no step of the agent, so there is nothing to learn from it.`);
  const { env = "", seed = 0, turns = learn.length, reward = 0, success = true, ...more } = extra ?? {};
  const known = more as Partial<Demo>;
  return { ...known, ...(learn.includes(false) && { learn }), env, seed, turns, reward, success, messages } as Demo;
}

/** An agent's message is one text where it shows nothing. */
function joined(parts: readonly Part[]): readonly Part[] {
  if (parts.some((part) => part.type === "image")) return parts;
  return [
    text(
      parts
        .map((part) => (part.type === "text" ? part.text : ""))
        .join("")
        .trim(),
    ),
  ];
}

async function partsOf(given: Content, file: string, where: string): Promise<Part[]> {
  if (typeof given === "string") return given === "" ? [] : [text(given)];
  const parts: Part[] = [];
  for (const part of given) {
    if (part.type === "text") parts.push(text(part.text ?? ""));
    else if (part.type === "image" && part.source) parts.push(image(await readImage(part.source.path, file, where)));
    else throw new DataError(`${where} has content of type ${part.type}, but Saccade reads only text and images.`);
  }
  return parts;
}

async function readImage(path: string, file: string, where: string): Promise<Image> {
  if (/^[a-z]+:\/\//i.test(path)) {
    throw new DataError(
      `${where} names an image by a web address, but Saccade downloads nothing: store the image next to the file.`,
    );
  }
  if (isAbsolute(path) || path.split(/[/\\]/).includes("..")) {
    throw new DataError(`${where}: the path ${path} leads out of the trajectory's folder.`);
  }
  try {
    return await decodeImage(await readFile(join(dirname(file), path)), MAX_PIXELS);
  } catch (error) {
    throw new DataError(`${where}: the image ${path} can't be read: ${errorMessage(error)}`);
  }
}
