/** The lab's agent, made in memory. Every worker makes its own chat side from the size of the lakes; the weights are shared. */
import type { LoadedModel } from "../../src/engine/native/jobs.ts";
import { modelLayout, Parameters } from "../../src/engine/native/parameters.ts";
import { type ChatModel, chatModel } from "../../src/model/chat.ts";
import { type ModelFolder, memoryFiles, newModel, readFolder } from "../../src/model/new-model.ts";
import { parameterCount } from "../../src/model/parameters.ts";
import { visionIds } from "../../src/model/vision-ids.ts";
import { modelOptions } from "./recipe.ts";

/** A folder's name says all that is in it: `lab/4` is the model for lakes of 4 × 4. */
export function openFolder(path: string): Promise<ModelFolder> {
  return readFolder(memoryFiles(path, newModel(modelOptions(Number(path.split("/")[1]), 0)).files));
}

export async function makeModel(
  size: number,
  seed: number,
): Promise<{
  readonly model: ChatModel;
  readonly loaded: LoadedModel & { readonly head: "lm" };
  readonly parameters: number;
}> {
  const folder = `lab/${size}`;
  const opened = await openFolder(folder);
  const { config, tokenizer } = opened;
  const parameters = new Parameters(modelLayout(config, { head: "lm" }));
  parameters.load(newModel(modelOptions(size, seed)).weights());
  const maskedIds = visionIds(config.ids, tokenizer.special);
  return {
    model: chatModel(opened),
    loaded: { config, folder, weights: parameters.buffer, maskedIds, head: "lm" },
    parameters: parameterCount(config),
  };
}
