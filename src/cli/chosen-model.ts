/** The model that a person names by a folder, a checkpoint or a run; of a run, says which checkpoint it is. */
import { findModel } from "../model/index.ts";

export async function chosenModel(named: string): Promise<string> {
  const { path, note } = await findModel(named);
  if (note !== undefined) process.stderr.write(`${note}\n`);
  return path;
}
