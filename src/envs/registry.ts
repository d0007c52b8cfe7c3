/**
 * From a name to an environment. A name is a registered id (`maze_2d`, `maze_2d/hard`) or a path to a TypeScript or
 * JavaScript file whose default export is a definition (`./my-world.ts`, `./my-world.ts#hard`). Options are checked
 * here, once, and every error names the option and what it may be.
 */
import { existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { didYouMean, given } from "../core/words.ts";
import {
  assembleEnv,
  check,
  type EnvOptions,
  envOptionsSchema,
  modelOf,
  type Options,
  parted,
  quoted,
  turnLimit,
  type WorldModel,
  worldOptions,
} from "./assemble.ts";
import { checkedEnv } from "./contract.ts";
import type { EnvDefinition, WorldDefinition } from "./define.ts";
import type { Env } from "./env.ts";
import { isPath, loadFile } from "./load.ts";
import type { World } from "./world.ts";
import { checkedWorld } from "./world-contract.ts";
import type { WorldEnv } from "./world-env.ts";

export { type EnvOptions, envOptionsSchema, type Options } from "./assemble.ts";

export type Definition = WorldDefinition | EnvDefinition;

/** A definition that is loaded when somebody first asks for it, so that a world that nobody plays costs nothing. */
export type LazyDefinition = { readonly id: string; load(): Promise<Definition> };

const definitions = new Map<string, Definition | LazyDefinition>();

/** Makes a definition known by its id, for this process. */
export function register(definition: Definition | LazyDefinition): void {
  if (!/^[a-z][a-z0-9_-]*$/.test(definition.id)) {
    throw new ConfigError(`"${definition.id}" can't be an environment id: use lower-case letters, digits, _ and -.`);
  }
  if (definitions.has(definition.id))
    throw new ConfigError(`The environment "${definition.id}" is already registered.`);
  definitions.set(definition.id, definition);
}

/** Environments that another server plays: what serves ours must not fetch those for others. */
export const isElsewhere = (name: string): boolean => ["remote", "openenv"].includes(name.split("/")[0] as string);

export const isRegistered = (id: string): boolean => definitions.has(id);

let loading: Promise<unknown> = Promise.resolve();

async function loaded(id: string): Promise<Definition | undefined> {
  const known = definitions.get(id);
  if (known === undefined || !("load" in known)) return known;
  // One at a time: two that share a file would meet half of it under a loader of sources.
  const load = loading.then(() => known.load());
  loading = load.catch(() => undefined);
  const definition = await load;
  definitions.set(id, definition);
  return definition;
}

export type EnvListing = {
  readonly id: string;
  readonly summary: string;
  readonly kind: "world" | "env";
  readonly protocol?: string;
  readonly maxTurns?: number;
  readonly variants?: readonly string[];
  /** What must be installed before it can be played. */
  readonly needs?: string;
  /** Option names with their values under this id. */
  readonly options: Options;
};

/** Every registered id, difficulties spelled out. */
export async function listEnvs(): Promise<EnvListing[]> {
  const all = await Promise.all([...definitions.keys()].map((id) => loaded(id)));
  return all.flatMap((definition): EnvListing[] => {
    if (definition === undefined) return [];
    const { id, summary, kind } = definition;
    if (definition.kind === "env") {
      // An option without a default has no value to list.
      return [{ id, summary, kind, options: definition.options.safeParse({}).data ?? {} }];
    }
    return (definition.difficulties ? Object.keys(definition.difficulties) : [undefined]).map((difficulty) => ({
      id: difficulty === undefined ? id : `${id}/${difficulty}`,
      summary,
      kind,
      protocol: definition.protocol,
      maxTurns: turnLimit(definition, difficulty),
      ...(definition.variants ? { variants: Object.keys(definition.variants) } : {}),
      ...(definition.needs ? { needs: definition.needs } : {}),
      options: defaultOptions(definition, difficulty),
    }));
  });
}

function defaultOptions(definition: WorldDefinition, difficulty: string | undefined): Options {
  try {
    return worldOptions(definition, difficulty, {});
  } catch {
    return {};
  }
}

export async function makeWorld(name: string, options: Options = {}): Promise<World> {
  const { definition, difficulty } = await find(name);
  if (definition.kind === "env") throw new ConfigError(`"${name}" is an environment without a world: use makeEnv.`);
  return checkedWorld(await definition.create(worldOptions(definition, difficulty, options)), name);
}

/** A user's `create` may return anything. */
function checkEnv(env: Env, name: string): Env {
  if (typeof env !== "object" || env === null) {
    const got = env === undefined ? "undefined: is there a return?" : `${given(env)}.`;
    throw new ConfigError(`${name}: create() must return an environment; got ${got}`);
  }
  const missing = (["reset", "step"] as const).filter((method) => typeof env[method] !== "function");
  if (missing.length === 0) return checkedEnv(env, name);
  throw new ConfigError(
    `${name}: create() made an environment without the method ${missing.map((m) => `${m}()`).join(", ")}.`,
  );
}

/** The definition behind an id or a path, for listings and reference pages. */
export async function definitionOf(name: string): Promise<Definition> {
  return (await find(name)).definition;
}

/** Whether an environment is made of a world and a protocol. */
export async function isWorld(name: string): Promise<boolean> {
  return (await find(name)).definition.kind !== "env";
}

/** Worlds can be shown in grey, and environments with an option for it. */
export async function canBlindfold(name: string): Promise<boolean> {
  const { definition } = await find(name);
  return definition.kind !== "env" || "blindfold" in definition.options.shape;
}

/** Whether its episodes are a program's, which brings its own loop. */
export async function isDriven(name: string): Promise<boolean> {
  const { definition } = await find(name);
  return definition.kind === "env" && definition.drives === true;
}

/** How many episodes an environment has, where they are rows of data; undefined: every seed is one. */
export async function envRows(name: string, options: Options = {}): Promise<number | undefined> {
  const { definition } = await find(name);
  if (definition.kind !== "env" || definition.rows === undefined) return undefined;
  const rows = await definition.rows(check(definition.options, options, name));
  if (rows === undefined) return undefined;
  if (!Number.isSafeInteger(rows) || rows < 1)
    throw new ConfigError(`${name}: rows() must give at least 1, got ${rows}.`);
  return rows;
}

/** A `WorldEnv` for a world; an environment of another kind as its author made it. */
export async function makeEnv(name: string, options: EnvOptions & Options = {}): Promise<WorldEnv | Env> {
  const { definition } = await find(name);
  if (definition.kind !== "env") return makeWorldEnv(name, options);
  return checkEnv(await definition.create(check(definition.options, options, name)), name);
}

/** `makeEnv` for callers that need the world inside (oracles, saved episodes, images). */
export async function makeWorldEnv(name: string, options: EnvOptions & Options = {}): Promise<WorldEnv> {
  const { definition, difficulty } = await find(name);
  if (definition.kind === "env") throw new ConfigError(`"${name}" is not made of a world and a protocol.`);
  return assembleEnv(definition, difficulty, name, options);
}

/** What can be said of a world, and how often that is so by luck. */
export async function worldModelOf(name: string, options: EnvOptions & Options = {}): Promise<WorldModel> {
  const { definition, difficulty } = await find(name);
  if (definition.kind === "env") throw new ConfigError(`"${name}" is not made of a world and a protocol.`);
  const { forWorld } = parted(options);
  return modelOf(definition, worldOptions(definition, difficulty, forWorld, Object.keys(envOptionsSchema.shape)));
}

async function find(name: string): Promise<{ definition: Definition; difficulty: string | undefined }> {
  if (isPath(name)) {
    const [path = "", wanted] = name.split("#");
    const definition = loadDefinition(path);
    return { definition, difficulty: pickDifficulty(definition, wanted, name) };
  }
  const [id = "", wanted, ...more] = name.split("/");
  const definition = await loaded(id);
  if (definition === undefined || more.length > 0) {
    const ids = [...definitions.keys()];
    const file = [name, `${name}.ts`, `${name}.js`].find((path) => existsSync(path) && statSync(path).isFile());
    const near = file === undefined ? didYouMean(id, ids) : ` Did you mean the file "./${file}"?`;
    throw new ConfigError(
      `There is no environment "${name}".${near} Known ids: ${ids.join(", ")}. ` +
        "A file is named by its path, starting with ./ or / (for example ./my-world.ts).",
    );
  }
  return { definition, difficulty: pickDifficulty(definition, wanted, name) };
}

function pickDifficulty(definition: Definition, wanted: string | undefined, name: string): string | undefined {
  const difficulties = definition.kind === "world" ? Object.keys(definition.difficulties ?? {}) : [];
  if (wanted === undefined) return difficulties[0];
  if (difficulties.includes(wanted)) return wanted;
  const hint = difficulties.length === 0 ? `write "${definition.id}"` : `it has ${quoted(difficulties)}`;
  const near = didYouMean(wanted, difficulties);
  throw new ConfigError(`"${name}": ${definition.id} has no difficulty "${wanted}"; ${hint}.${near}`);
}

const files = new Map<string, Definition>();

function loadDefinition(path: string): Definition {
  const file = resolve(path);
  const known = files.get(file);
  if (known !== undefined) return known;
  const definition = loadFile(file);
  if (!isDefinition(definition)) {
    throw new ConfigError(
      `${path}: its default export must be made with defineWorld({…}), defineEnv({…}) or defineTask({…}); ${foundIn(definition)}.`,
    );
  }
  const placed = definition.kind === "env" ? (definition.from?.(dirname(file), path) ?? definition) : definition;
  files.set(file, placed);
  return placed;
}

/** What a file has in a definition's place. */
function foundIn(value: unknown): string {
  const fields = typeof value === "object" && value !== null ? Object.entries(value) : [];
  const named = fields.find(([, inner]) => isDefinition(inner));
  if (named !== undefined) return `it exports one as "${named[0]}": write export default`;
  const names = fields.map(([name]) => name);
  if (["model", "envs", "optimizer"].every((name) => names.includes(name)))
    return "this is a recipe, for saccade train";
  return `it has ${fields.length === 0 && typeof value === "object" ? "none" : given(value)}`;
}

function isDefinition(value: unknown): value is Definition {
  const candidate = value as Partial<Definition> | null | undefined;
  return (candidate?.kind === "world" || candidate?.kind === "env") && typeof candidate.create === "function";
}
