/**
 * JSON lines: one JSON object a line. Read as a stream, so that a file of images need not fit in memory; what is wrong
 * is reported with file and line, a last line that was cut off included. Blank lines are skipped.
 */
import { createReadStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import { ConfigError, DataError, errorMessage } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { missingFile } from "../core/missing.ts";
import { given } from "../core/words.ts";

/** `line` counts from 1. */
export type JsonLine = { readonly value: JsonObject; readonly line: number };

export async function* readJsonLines(file: string): AsyncGenerator<JsonLine> {
  let line = 0;
  for await (const { text, closed } of readLines(file)) {
    line += 1;
    if (text.trim() === "") continue;
    yield { value: parseLine(text, closed, `${file}:${line}`), line };
  }
}

/** Writes rows as JSON lines, replacing the file. */
export async function writeJsonLines(file: string, rows: Iterable<object> | AsyncIterable<object>): Promise<void> {
  async function* lines() {
    for await (const row of rows) yield jsonLine(row);
  }
  await writeFile(file, lines());
}

export function jsonLine(row: object): string {
  return `${JSON.stringify(row)}\n`;
}

const ONE_LIST =
  "the file is one JSON list, and each line must hold one JSON object. jq -c '.[]' in.json > out.jsonl makes it so.";

function parseLine(text: string, closed: boolean, where: string): JsonObject {
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (/^\s*\[\s*(\{|$)/.test(text)) throw new DataError(`${where}: ${ONE_LIST}`);
    throw new DataError(
      closed
        ? `${where}: not JSON (${errorMessage(error)}). Each line must hold one JSON object.`
        : `${where}: the last line is cut off: the file is not complete. Write it again, or remove that line.`,
    );
  }
  if (isJsonObject(value)) return value;
  if (Array.isArray(value) && isJsonObject(value[0])) throw new DataError(`${where}: ${ONE_LIST}`);
  throw new DataError(
    `${where}: a row must be a JSON object, such as {"question": "2 + 3", "answer": 5}; got ${given(value)}.`,
  );
}

/** Lines without their newline; `closed` is false for a last line that has none. */
async function* readLines(file: string): AsyncGenerator<{ text: string; closed: boolean }> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  // Lines can be megabytes long (images), so their pieces are joined once.
  let pieces: string[] = [];
  try {
    for await (const chunk of createReadStream(file)) {
      const [first = "", ...rest] = decoder.decode(chunk, { stream: true }).split("\n");
      pieces.push(first);
      for (const next of rest) {
        yield { text: pieces.join(""), closed: true };
        pieces = [next];
      }
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT") throw new ConfigError(missingFile(file));
    if (code === "EISDIR") throw new ConfigError(`${file} is a folder. Name a file in it.`);
    if (code === "ERR_ENCODING_INVALID_ENCODED_DATA") throw new DataError(`${file} is not UTF-8; save it as UTF-8.`);
    throw error;
  }
  try {
    pieces.push(decoder.decode());
  } catch {
    pieces.push("\uFFFD"); // cut off inside a character, so inside a line: not JSON either way
  }
  const last = pieces.join("");
  if (last !== "") yield { text: last, closed: false };
}
