/**
 * Definitions of worlds and environments: validated options, difficulties and defaults. A user's `.ts` file has one of these as its
 * default export.
 */
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import type { Awaitable } from "../core/json.ts";
import { didYouMean, given } from "../core/words.ts";
import type { Action } from "./action.ts";
import type { Env } from "./env.ts";
import type { World } from "./world.ts";
import type { Scorer } from "./world-env.ts";
import type { Things, View } from "./world-model/view.ts";

export type OptionsSchema = z.ZodObject;

/** Options that a difficulty or variant sets. The user's own options override them. */
export type Preset = Readonly<Record<string, unknown>>;

export type WorldDefinition<S extends OptionsSchema = OptionsSchema> = {
  readonly kind: "world";
  readonly id: string;
  /** One line for listings. */
  readonly summary: string;
  /** Every option with its default (a strict zod object). */
  readonly options: S;
  /** Presets by name, with the ids `id/name`. The plain id means the first one. Absent: there is only the plain id. */
  readonly difficulties?: Readonly<Record<string, Preset>>;
  /** Presets on top of the difficulty: `variants[variant][difficulty]`; the first is the default. */
  readonly variants?: Readonly<Record<string, Readonly<Record<string, Preset>>>>;
  readonly protocol: string;
  /** Maximum number of actions in a reply, for protocols that allow several. */
  readonly maxActions: number;
  /** The reward for a well-formed turn, for protocols that pay a bonus. */
  readonly formatBonus: number;
  /** Turn limit, by difficulty or for all. */
  readonly maxTurns: number | Readonly<Record<string, number>>;
  /** Rewards what replies say, in addition to the world's reward for actions. */
  readonly score?: Scorer;
  /** The kinds of things in `facts()`. The option `worldModel` needs them. */
  readonly things?: Things;
  /** How their places are given, if not by rows and columns relative to `player`; and the symbols of the text board. */
  readonly view?: Partial<Omit<View, "things">>;
  /** What must be installed to play it, in words: `a browser`. */
  readonly needs?: string;
  create(options: z.output<S>): Awaitable<World>;
};

/** An environment that is not built from a world and a protocol. */
export type EnvDefinition<S extends OptionsSchema = OptionsSchema> = {
  readonly kind: "env";
  readonly id: string;
  readonly summary: string;
  readonly options: S;
  create(options: z.output<S>): Awaitable<Env>;
  /**
   * The number of episodes, if they are rows of data: seed i is row i, from 0. Absent or undefined: every seed is an episode. For a source
   * `{ records, env }`, the option `data` has the file's name.
   */
  rows?(options: z.output<S>): Awaitable<number | undefined>;
  /** Its environments have a `driver`, so they run on the main thread, whatever `workers` is set to. */
  readonly drives?: boolean;
  /** The same definition, with its paths relative to this folder: that of the file it was loaded from, which messages name. */
  from?(folder: string, file: string): EnvDefinition;
};

/** What an author writes. Fields that are left out get defaults. */
export type WorldInput<S extends OptionsSchema, A extends Action> = Partial<
  Omit<WorldDefinition<S>, "kind" | "id" | "create">
> & {
  readonly id: string;
  create(options: z.output<S>): Awaitable<World<A>>;
};

const noOptions = z.strictObject({});

const COMMON = { kind: true, id: true, summary: true, options: true, create: true } as const;
const WORLD_FIELDS = {
  ...COMMON,
  difficulties: true,
  variants: true,
  protocol: true,
  maxActions: true,
  formatBonus: true,
  maxTurns: true,
  score: true,
  things: true,
  view: true,
  needs: true,
} as const satisfies Record<keyof WorldDefinition, true>;
const ENV_FIELDS = { ...COMMON, rows: true, drives: true, from: true } as const satisfies Record<
  keyof EnvDefinition,
  true
>;

/** Throws if a definition has no id, or has an unknown field: a misspelt field would silently keep its default. */
export function checkDefinition(maker: string, input: object, known: readonly string[]): void {
  if (typeof input !== "object" || input === null)
    throw new ConfigError(`${maker}() takes an object; got ${given(input)}.`);
  const unknown = Object.keys(input).find((field) => !known.includes(field));
  if (unknown !== undefined) {
    throw new ConfigError(
      `${maker}(): there is no field "${unknown}".${didYouMean(unknown, known)} The fields are ${known.filter((field) => field !== "kind").join(", ")}.`,
    );
  }
  const { id } = input as { id?: unknown };
  if (typeof id !== "string" || id === "") throw new ConfigError(`${maker}(): id must be a string; got ${given(id)}.`);
}

function checkMaker(maker: string, { create, options }: { create?: unknown; options?: unknown }): void {
  if (typeof create !== "function") {
    throw new ConfigError(`${maker}(): create must be a function that makes one; got ${given(create)}.`);
  }
  const schema = options as Partial<OptionsSchema> | undefined;
  if (schema !== undefined && (typeof schema.safeParse !== "function" || typeof schema.shape !== "object")) {
    throw new ConfigError(
      `${maker}(): options must be a zod object, such as z.strictObject({ size: z.int().default(4) }); got ${given(options)}.`,
    );
  }
}

function checkTurns(maxTurns: unknown, difficulties: Readonly<Record<string, unknown>> | undefined): void {
  const isTurns = (value: unknown) => Number.isInteger(value) && Number(value) >= 1;
  if (maxTurns === undefined || isTurns(maxTurns)) return;
  const byDifficulty = typeof maxTurns === "object" && maxTurns !== null ? (maxTurns as Record<string, unknown>) : {};
  const names = Object.keys(difficulties ?? {});
  if (names.length > 0 && names.every((name) => isTurns(byDifficulty[name]))) return;
  const also = names.length === 0 ? "" : ` or { ${names.join(", ")} } with one for each difficulty`;
  throw new ConfigError(`defineWorld(): maxTurns must be a whole number of at least 1${also}; got ${given(maxTurns)}.`);
}

export function defineWorld<S extends OptionsSchema = typeof noOptions, A extends Action = Action>(
  input: WorldInput<S, A>,
): WorldDefinition<S> {
  checkDefinition("defineWorld", input, Object.keys(WORLD_FIELDS));
  checkMaker("defineWorld", input);
  checkTurns(input.maxTurns, input.difficulties);
  const options = (input.options ?? noOptions) as S;
  return {
    kind: "world",
    summary: input.id,
    protocol: "keyword",
    maxTurns: 20,
    maxActions: 5,
    formatBonus: 0.1,
    ...input,
    options,
    create: input.create,
  };
}

export function defineEnv<S extends OptionsSchema = typeof noOptions>(
  input: Partial<Omit<EnvDefinition<S>, "kind" | "id" | "create">> & Pick<EnvDefinition<S>, "id" | "create">,
): EnvDefinition<S> {
  checkDefinition("defineEnv", input, Object.keys(ENV_FIELDS));
  checkMaker("defineEnv", input);
  return { kind: "env", summary: input.id, ...input, options: (input.options ?? noOptions) as S, create: input.create };
}
