/** Small JSON files of a model folder. */
import { readFile } from "node:fs/promises";
import { ConfigError, DataError, errorMessage } from "../core/errors.ts";

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
