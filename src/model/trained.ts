/**
 * What a trained folder knows about itself: the environments it was trained on with their options, and how it was asked. A model that learned short replies about small images is
 * lost without them, so the trainer leaves `saccade.json` beside the weights, and `saccade play` and `saccade eval` read it.
 */
import { existsSync, readdirSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { DataError, errorMessage } from "../core/errors.ts";
import { packageFolder } from "../core/package-folder.ts";

const FILE = "saccade.json";

const trained = z.strictObject({
  recipe: z.string(),
  envs: z.array(z.strictObject({ env: z.string(), options: z.record(z.string(), z.unknown()) })),
  sampling: z.strictObject({ temperature: z.number().min(0), maxTokens: z.int().min(1) }),
  /** Turns before the present one that it sees, of a model that was trained on split turns. */
  history: z.int().min(0).optional(),
});
export type Trained = z.output<typeof trained>;

export async function writeTrained(folder: string, trained: Trained): Promise<void> {
  await writeFile(join(folder, FILE), `${JSON.stringify(trained, null, 2)}\n`);
}

/** Undefined: the folder was not trained here. */
export async function readTrained(folder: string): Promise<Trained | undefined> {
  const file = join(folder, FILE);
  if (!existsSync(file)) return undefined;
  try {
    return trained.parse(JSON.parse(await readFile(file, "utf8")));
  } catch (error) {
    throw new DataError(
      `${file} was not written by a training run (${errorMessage(error)}). Remove it, and give the options yourself.`,
    );
  }
}

/** The folder of a model that comes with Saccade; undefined: there is none of that name. */
export function shippedModel(name: string): string | undefined {
  return shippedModels().includes(name) ? join(packageFolder("models") as string, name) : undefined;
}

export function shippedModels(): string[] {
  const folder = packageFolder("models");
  return folder === undefined ? [] : readdirSync(folder).sort();
}
