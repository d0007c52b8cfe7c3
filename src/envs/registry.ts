/**
 * From a name to an environment. A name is a registered id (`maze_2d`, `maze_2d/hard`) or a path to a TypeScript or
 * JavaScript file whose default export is a definition (`./my-world.ts`, `./my-world.ts#hard`). Options are checked
 * here, once, and every error names the option and what it may be.
 */
import { existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import { closestWord, didYouMean, given } from "../core/words.ts";
import { checkedEnv, checkedProtocol, checkedScorer } from "./contract.ts";
import type { EnvDefinition, OptionsSchema, Preset, WorldDefinition } from "./define.ts";
import type { Env } from "./env.ts";
import { isPath, loadFile } from "./load.ts";
import type { Protocol } from "./protocol.ts";
import { makeProtocol } from "./protocols/index.ts";
import type { World } from "./world.ts";
import { checkedWorld } from "./world-contract.ts";
import { type Scorer, WorldEnv } from "./world-env.ts";
import type { Luck } from "./world-model/score.ts";
import { type WorldModelPay, worldLuck, worldModelScorer } from "./world-model/scorer.ts";
import { type View, viewOf } from "./world-model/view.ts";

export type Definition = WorldDefinition | EnvDefinition;
export type Options = Readonly<Record<string, unknown>>;

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

const protocolSchema = z.union([
  z.string(),
  z.looseObject({ name: z.string() }),
  z.custom<Protocol>((value) => typeof (value as Protocol | null)?.parse === "function").meta({ title: "Protocol" }),
]);

const formatRewardSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("none") }),
  z.strictObject({ kind: z.literal("mixture"), task: z.number(), format: z.number() }),
  z.strictObject({ kind: z.literal("bonus"), bonus: z.number() }),
]);

/** Options of the environment around a world; everything else in the bag belongs to the world. */
const envOptionsShape = {
  protocol: protocolSchema
    .optional()
    .describe("How the model replies: a name, `{ name, …options }`, or your own `Protocol`."),
  maxTurns: z.int().min(1).optional().describe("Turn limit. Then the episode is truncated."),
  maxActions: z
    .int()
    .min(1)
    .optional()
    .describe("Maximum number of actions in a reply, where the protocol allows several."),
  feedback: z.boolean().default(true).describe("Tell the agent what became of its action."),
  observation: z.enum(["image", "text"]).default("image").describe("What the agent sees."),
  finalGoal: z.boolean().default(false).describe("Show the solved state in the first message."),
  repeatInstructions: z.boolean().default(false).describe("Repeat the instructions every turn."),
  prompt: z
    .enum(["full", "brief"])
    .default("full")
    .describe("Length of the instructions. `brief` is one line, for small models."),
  formatReward: formatRewardSchema
    .optional()
    .describe(
      'Reward for the format of replies: `{ kind: "none" }`, `{ kind: "mixture", task, format }` or `{ kind: "bonus", bonus }`.',
    ),
  blindfold: z
    .boolean()
    .default(false)
    .describe("Show grey instead of every frame, to measure what a blind agent can do."),
  maxLongSide: z
    .int()
    .min(8)
    .optional()
    .describe("Shrink frames so that their long side has at most this many pixels. VisGym's evaluation uses 336."),
  worldModel: z
    .strictObject({
      state: z.number().default(0).describe("Reward for a complete, true description of the current state."),
      transition: z.number().default(0).describe("Reward for a complete, true prediction of the next state."),
    })
    .optional()
    .describe("Pay for true descriptions of the state and of what an action changes."),
};
export const envOptionsSchema = z.strictObject(envOptionsShape);

/** What `makeEnv` takes beside the world's own options. */
export type EnvOptions = z.input<typeof envOptionsSchema>;

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
  const known = Object.keys(envOptionsShape);
  const entries = Object.entries(options);
  const forEnv = Object.fromEntries(entries.filter(([key]) => known.includes(key)));
  const forWorld = Object.fromEntries(entries.filter(([key]) => !known.includes(key)));
  const ownOptions = worldOptions(definition, difficulty, forWorld, known);
  const settings = check(envOptionsSchema, forEnv, name);
  const { maxTurns, maxActions, protocol: wanted, formatReward, maxLongSide, worldModel, ...rest } = settings;
  const protocol = resolveProtocol(wanted ?? definition.protocol, definition, maxActions, name);
  const world = checkedWorld(await definition.create(ownOptions), name);
  const score = worldModel === undefined ? definition.score : await modelScorer(definition, ownOptions, worldModel);
  if (worldModel !== undefined) checkPaid(protocol, worldModel);
  const view = viewOf(definition);
  return new WorldEnv(world, protocol, {
    ...rest,
    maxTurns: maxTurns ?? turnLimit(definition, difficulty),
    formatReward: formatReward ?? protocol.formatReward,
    ...(maxLongSide === undefined ? {} : { maxLongSide }),
    ...(score === undefined ? {} : { score: checkedScorer(score, name) }),
    ...(view === undefined ? {} : { view }),
  });
}

/** What can be said of a world, and how often that is so by luck. */
export async function worldModelOf(name: string, options: EnvOptions & Options = {}): Promise<WorldModel> {
  const { definition, difficulty } = await find(name);
  if (definition.kind === "env") throw new ConfigError(`"${name}" is not made of a world and a protocol.`);
  const known = Object.keys(envOptionsShape);
  const forWorld = Object.fromEntries(Object.entries(options).filter(([key]) => !known.includes(key)));
  return modelOf(definition, worldOptions(definition, difficulty, forWorld, known));
}

/** Protocols of ours in which nothing is described. */
const SILENT = ["keyword", "think", "tool-call"];

function checkPaid({ name }: Protocol, { state, transition }: WorldModelPay): void {
  if (!SILENT.includes(name) || (state === 0 && transition === 0)) return;
  throw new ConfigError(
    `worldModel pays for descriptions, and the protocol "${name}" asks for none: use protocol: { name: "world-model" }, or leave worldModel out.`,
  );
}

type WorldModel = { readonly view: View; readonly luck: Luck };

async function modelScorer(definition: WorldDefinition, options: Options, pay: WorldModelPay): Promise<Scorer> {
  const { view, luck } = await modelOf(definition, options);
  return worldModelScorer(view, pay, luck);
}

async function modelOf(definition: WorldDefinition, options: Options): Promise<WorldModel> {
  const { id, create } = definition;
  const view = viewOf(definition);
  if (view === undefined) {
    throw new ConfigError(
      `${id} has no facts, so worldModel can't pay for what is said of it: leave worldModel out, or give the world facts() and its definition things.`,
    );
  }
  const make = async () => checkedWorld(await create(options), id);
  return { view, luck: await worldLuck(JSON.stringify([id, view, options]), view, make) };
}

function resolveProtocol(
  wanted: string | { name: string } | Protocol,
  definition: WorldDefinition,
  maxActions: number | undefined,
  label: string,
): Protocol {
  if (typeof wanted === "object" && "parse" in wanted) return checkedProtocol(wanted, label);
  const { name, ...own } = typeof wanted === "string" ? { name: wanted } : wanted;
  // Protocols that allow several actions, or pay a bonus, take the world's usual numbers unless told otherwise.
  const several = name === "think" || name === "world-model";
  const limit = maxActions ?? (several ? definition.maxActions : undefined);
  return makeProtocol(name, {
    ...(limit === undefined ? {} : { maxActions: limit }),
    ...(several ? { bonus: definition.formatBonus } : {}),
    ...own,
  });
}

function turnLimit(definition: WorldDefinition, difficulty: string | undefined): number {
  if (typeof definition.maxTurns === "number") return definition.maxTurns;
  const limit = definition.maxTurns[difficulty ?? ""];
  if (limit === undefined) throw new ConfigError(`"${definition.id}" has no turn limit for "${difficulty}".`);
  return limit;
}

function worldOptions(
  definition: WorldDefinition,
  difficulty: string | undefined,
  given: Options,
  alsoKnown: readonly string[] = [],
): Options {
  const { variant: wanted, ...own } = given;
  const label = difficulty === undefined ? definition.id : `${definition.id}/${difficulty}`;
  let presets: Preset = (difficulty !== undefined && definition.difficulties?.[difficulty]) || {};
  if (definition.variants !== undefined) {
    const variant = wanted ?? Object.keys(definition.variants)[0];
    const preset = typeof variant === "string" ? definition.variants[variant] : undefined;
    if (preset === undefined) {
      throw new ConfigError(
        `${label}: variant is one of ${quoted(Object.keys(definition.variants))}, got ${show(wanted)}.`,
      );
    }
    presets = { ...presets, ...preset[difficulty ?? ""] };
  } else if (wanted !== undefined) {
    throw new ConfigError(`${label}: this environment has no variants; leave the option "variant" out.`);
  }
  return check(definition.options, { ...presets, ...own }, label, alsoKnown) as Options;
}

/** Parses options; the error names each wrong option, what was given, and what would be right. */
function check<S extends OptionsSchema>(
  schema: S,
  given: Options,
  label: string,
  alsoKnown: readonly string[] = [],
): z.output<S> {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  const known = [...Object.keys(schema.shape), ...alsoKnown];
  const problems = result.error.issues.map((issue) => {
    if (issue.code === "unrecognized_keys") {
      const close = issue.keys.flatMap((key) => closestWord(key, known) ?? []);
      const hint = close.length === 0 ? "" : ` (did you mean ${quoted(close)}?)`;
      return `unknown option ${quoted(issue.keys)}${hint}; the options are ${known.join(", ") || "none"}`;
    }
    const path = issue.path.map(String).join(".");
    const value = issue.path.reduce<unknown>(
      (at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key],
      given,
    );
    return `option "${path}" (${show(value)}): ${issue.message}`;
  });
  throw new ConfigError(`${label}: ${problems.join("; ")}.`);
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

const quoted = (names: readonly string[]) => names.map((name) => `"${name}"`).join(", ");

function show(value: unknown): string {
  return value === undefined ? "not given" : (JSON.stringify(value) ?? String(value));
}
