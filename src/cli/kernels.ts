/** The native engine's kernels before a run: the first start compiles them, which takes long enough to be shown. */
import { type EngineConfig, nameOfEngine } from "../engine/index.ts";
import { chooseKernels, expectedKernels } from "../engine/native/kernels/index.ts";
import { Waiting } from "./waiting.ts";

/** Whether a run on this engine computes in this process. */
export function usesKernels(engine: EngineConfig): boolean {
  const name = nameOfEngine(engine);
  if (name === "native") return true;
  const { learner = "native" } = typeof engine === "object" && "sampler" in engine ? engine : { learner: name };
  return name === "vllm" && nameOfEngine(learner as EngineConfig) === "native";
}

/** Chooses the kernels that the engine will find chosen. Its problems are the engine's to tell. */
export async function prepareKernels(engine: EngineConfig): Promise<void> {
  if (!usesKernels(engine)) return;
  const { compiler } = expectedKernels();
  const waiting = compiler === undefined ? undefined : new Waiting("compiling the engine's kernels");
  const told: string[] = [];
  const { info } = await chooseKernels((line) => told.push(line));
  waiting?.end(info.name === "compiled" ? "done" : "failed");
  // That it compiles was said.
  for (const line of told) if (!line.startsWith("compiling")) process.stderr.write(`saccade: ${line}\n`);
}
