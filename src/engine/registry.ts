/**
 * Engines by name: a recipe says `engine: "native"` or an object with settings, a command says `--engine`, and this makes it. Nothing else constructs an
 * engine. `name@host:port` attaches to one that runs elsewhere.
 */
import { z } from "zod";
import { ConfigError, errorMessage } from "../core/errors.ts";
import type { Engine } from "./engine.ts";
import { type EngineConfig, engineConfig, nameOfEngine } from "./engine-config.ts";
import { NativeEngine } from "./native/engine.ts";
import { readOptions } from "./options.ts";
import { tinkerEngine } from "./tinker/engine.ts";
import { torchEngine, withoutSamplers } from "./torch/engine.ts";
import { samplerSettings, VllmEngine } from "./vllm/engine.ts";

export { type EngineConfig, engineConfig, nameOfEngine } from "./engine-config.ts";

export type EngineDefinition<S extends z.ZodObject = z.ZodObject> = {
  /** The settings that may be given with the name. */
  readonly settings: S;
  /** It may run elsewhere: `name@host:port`. */
  readonly attachable?: boolean;
  open(settings: z.output<S>, address: string | undefined): Engine | Promise<Engine>;
};

const engines = new Map<string, EngineDefinition>();

export function registerEngine<S extends z.ZodObject>(name: string, definition: EngineDefinition<S>): void {
  if (!/^[a-z][a-z0-9-]*$/.test(name)) {
    throw new ConfigError(`An engine's name has only lower-case letters, digits and dashes, got "${name}".`);
  }
  if (engines.has(name)) throw new ConfigError(`There is already an engine "${name}"; choose another name.`);
  engines.set(name, definition as unknown as EngineDefinition);
}

export function engineNames(): string[] {
  return [...engines.keys()];
}

/** Throws when there is no such engine, or its settings are wrong. */
export function checkEngineConfig(config: EngineConfig): void {
  resolveEngine(config);
}

export async function openEngine(config: EngineConfig = "native"): Promise<Engine> {
  const { definition, settings, address } = resolveEngine(config);
  return definition.open(settings, address);
}

function resolveEngine(config: EngineConfig) {
  const named = nameOfEngine(config);
  const given =
    typeof config === "string" ? {} : Object.fromEntries(Object.entries(config).filter(([key]) => key !== "name"));
  const at = named.indexOf("@");
  const name = at < 0 ? named : named.slice(0, at);
  const address = at < 0 ? undefined : named.slice(at + 1);
  const definition = engines.get(name);
  if (definition === undefined) {
    throw new ConfigError(`There is no engine "${name}". The engines are ${engineNames().join(", ")}.`);
  }
  if (address !== undefined && definition.attachable !== true) {
    throw new ConfigError(`The engine "${name}" runs in this process: leave @${address} out.`);
  }
  if (address !== undefined && !/^\S+:\d+$/.test(address)) {
    throw new ConfigError(`${name}@ takes host:port, got "${address}".`);
  }
  return { definition, address, settings: readOptions(`Engine "${name}"`, definition.settings, given) };
}

registerEngine("native", {
  settings: z.strictObject({ threads: z.int().min(1).optional() }),
  open: ({ threads }) => new NativeEngine(threads === undefined ? {} : { threads }),
});
registerEngine("torch", torchEngine);
registerEngine("tinker", tinkerEngine);

registerEngine("vllm", {
  settings: z.strictObject({
    learner: engineConfig.prefault("native").superRefine((learner, context) => {
      try {
        checkEngineConfig(learner);
      } catch (error) {
        context.addIssue(errorMessage(error));
      }
    }),
    sampler: samplerSettings,
  }),
  open: async ({ learner, sampler }) => VllmEngine.open(await openEngine(withoutSamplers(learner)), sampler),
});
