/** How a recipe or a command names an engine. The engines themselves are in `registry.ts`. */
import { z } from "zod";
import type { Json } from "../core/json.ts";

/** A name, a name with settings, or a learner with a sampler of its own: `{ learner: "native", sampler: { vllm: ["http://…"] } }`. */
export type EngineConfig =
  | string
  | { readonly name: string; readonly [setting: string]: Json }
  | { readonly learner?: Json; readonly sampler: Json };

/** For recipes. The settings are read by the engine's own schema: `checkEngineConfig`. */
export const engineConfig = z.union([
  z.string().min(1),
  z.looseObject({ name: z.string().min(1).optional() }).transform((given) => ({ ...given, name: nameIn(given) })),
]) as unknown as z.ZodType<EngineConfig, EngineConfig>;

function nameIn(config: object): string {
  if ("name" in config && typeof config.name === "string") return config.name;
  return "sampler" in config ? "vllm" : "native";
}

export function nameOfEngine(config: EngineConfig): string {
  return typeof config === "string" ? config : nameIn(config);
}
