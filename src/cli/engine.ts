/** `--engine`, for the commands that compute. It is apart from what all commands share, so that the others load no engine. */
import { ConfigError } from "../core/index.ts";
import { checkEngineConfig, type EngineConfig, engineConfig, engineNames } from "../engine/index.ts";
import { parseValue } from "./common.ts";

/** For commander: which engine computes. */
export const ENGINE_FLAG = [
  "--engine <name>",
  `engine: ${engineNames().join(", ")}, or JSON with settings, such as '{"name":"native","threads":4}'`,
  parseEngine,
] as const;

export function parseEngine(text: string): EngineConfig {
  const read = engineConfig.safeParse(parseValue(text));
  if (!read.success) throw new ConfigError(`--engine takes a name, or a JSON object with a name; got ${text}.`);
  checkEngineConfig(read.data);
  return read.data;
}

/** Overrides of a recipe with the engine that the flag names, which keeps the settings that `--set engine.…` gives. */
export function withEngine(settings: Record<string, unknown>, engine?: EngineConfig): Record<string, unknown> {
  if (engine === undefined) return settings;
  const given = typeof settings.engine === "object" ? settings.engine : {};
  return { ...settings, engine: { ...(typeof engine === "string" ? { name: engine } : engine), ...given } };
}
