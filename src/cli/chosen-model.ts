/** The model that a person names by a folder, a checkpoint, a run, or the name of one that comes with Saccade; of a run, says which checkpoint it is. */
import { existsSync } from "node:fs";
import { findModel, shippedModel } from "../model/index.ts";

export async function chosenModel(named: string): Promise<string> {
  const { path, note } = await findModel(existsSync(named) ? named : (shippedModel(named) ?? named));
  if (note !== undefined) process.stderr.write(`${note}\n`);
  return path;
}
