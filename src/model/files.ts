/** Small files of a model folder on disk. */
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ConfigError, DataError, errorMessage } from "../core/errors.ts";
import type { ModelFiles } from "./chat.ts";

export function diskFiles(path: string): ModelFiles {
  const where = (name: string) => join(path, name);
  return {
    path: resolve(path),
    where,
    json: (name, optional) => readJson(where(name), optional),
    text: (name) => readFile(where(name), "utf8").catch(() => undefined),
  };
}

/** Undefined when an optional file is not there. */
export async function readJson(file: string, optional = false): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (optional && (error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new ConfigError(
      `Can't read ${file}: ${errorMessage(error)}. Name a Hugging Face model folder, or make one with ` +
        "`saccade model create`.",
    );
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new DataError(`${file} is not JSON (${errorMessage(error)}). Copy or download it again.`);
  }
}
