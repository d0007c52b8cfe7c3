/**
 * Records: rows that bring their own prompt, in the shape of SkyRL's VLM data sets. The prompt stays in the OpenAI wire
 * form until `promptMessages` is asked, so images are decoded only for rows that are played; columns that Saccade does
 * not know are kept. They are read from JSON lines or Parquet, one at a time, and written as JSON lines.
 */
import { DataError } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import { fromOpenAI } from "../images/openai.ts";
import { writeJsonLines } from "./jsonl.ts";
import { readRows } from "./rows.ts";

export type PromptRecord = {
  /** Messages in the OpenAI form; images are `image_url` parts. */
  readonly prompt: readonly JsonObject[];
  readonly env_class?: string;
  /** Groups the metrics of an evaluation. */
  readonly data_source?: string;
  /** How the answer is judged: `{ method, ground_truth, … }`. */
  readonly reward_spec?: JsonObject;
  readonly extra_info?: JsonObject;
  /** Further columns, for the environment. */
  readonly [column: string]: Json | undefined;
};

export async function* readRecords(file: string): AsyncGenerator<PromptRecord> {
  for await (const { value, where } of readRows(file)) yield parseRecord(value, where);
}

export function writeRecords(
  file: string,
  records: Iterable<PromptRecord> | AsyncIterable<PromptRecord>,
): Promise<void> {
  return writeJsonLines(file, records);
}

/** The prompt with its images decoded. */
export function promptMessages(record: PromptRecord): Promise<Message[]> {
  return fromOpenAI(record.prompt);
}

export function parseRecord(row: JsonObject, where: string): PromptRecord {
  const { prompt, env_class, data_source, reward_spec, extra_info, ...extra } = row;
  if (!Array.isArray(prompt) || prompt.length === 0) {
    throw new DataError(`${where}: "prompt" must be a list of messages like {"role": "user", "content": "…"}.`);
  }
  for (const [i, message] of prompt.entries()) {
    if (!isJsonObject(message) || typeof message.role !== "string") {
      throw new DataError(`${where}: message ${i + 1} of the prompt needs a "role", such as "user".`);
    }
    const { content } = message;
    if (content != null && typeof content !== "string" && !(Array.isArray(content) && content.every(isPart))) {
      throw new DataError(
        `${where}: message ${i + 1} of the prompt: "content" is text or a list of {"type": …} parts.`,
      );
    }
  }
  return {
    prompt,
    ...optional("env_class", env_class, "a string", isString, where),
    ...optional("data_source", data_source, "a string", isString, where),
    ...optional("reward_spec", reward_spec, "an object", isJsonObject, where),
    ...optional("extra_info", extra_info, "an object", isJsonObject, where),
    ...extra,
  };
}

const isString = (value: unknown): value is string => typeof value === "string";
const isPart = (value: unknown) => isJsonObject(value) && typeof value.type === "string";

/** The column, or nothing where it is absent or null (Parquet has no absent columns). */
function optional<K extends string, T extends Json>(
  name: K,
  value: Json | undefined,
  expected: string,
  fits: (value: unknown) => value is T,
  where: string,
): { [key in K]?: T } {
  if (value === undefined || value === null) return {};
  if (!fits(value)) throw new DataError(`${where}: "${name}" must be ${expected}, got ${JSON.stringify(value)}.`);
  return { [name]: value } as { [key in K]?: T };
}
