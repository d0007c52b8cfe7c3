/**
 * How a world becomes known: a definition with validated options, difficulties and defaults. The default export of a
 * user's `.ts` file is one of these.
 */
import { z } from "zod";
import type { Awaitable } from "../core/json.ts";
import type { Action } from "./action.ts";
import type { Env } from "./env.ts";
import type { World } from "./world.ts";
import type { Scorer } from "./world-env.ts";
import type { Things } from "./world-model/scorer.ts";

export type OptionsSchema = z.ZodObject;

/** Options that a difficulty or variant presets; the user's own win over them. */
export type Preset = Readonly<Record<string, unknown>>;

export type WorldDefinition<S extends OptionsSchema = OptionsSchema> = {
  readonly kind: "world";
  readonly id: string;
  /** One line for listings. */
  readonly summary: string;
  /** Every option with its default (a strict zod object). */
  readonly options: S;
  /** Presets by name; ids are `id/name`, and the first is meant when none is named. Absent: the id stands alone. */
  readonly difficulties?: Readonly<Record<string, Preset>>;
  /** Presets on top of the difficulty: `variants[variant][difficulty]`; the first is the default. */
  readonly variants?: Readonly<Record<string, Readonly<Record<string, Preset>>>>;
  readonly protocol: string;
  /** The most actions a reply may hold under protocols that allow several. */
  readonly maxActions: number;
  /** What a well-formed turn earns under protocols that pay a bonus. */
  readonly formatBonus: number;
  /** Turn limit, by difficulty or for all. */
  readonly maxTurns: number | Readonly<Record<string, number>>;
  /** Pays for what replies say, beside what the world pays for what they do. */
  readonly score?: Scorer;
  /** The kinds of things that `facts()` speaks of, seen from `player`; what the option `worldModel` needs. */
  readonly things?: Things;
  create(options: z.output<S>): Awaitable<World>;
};

/** An environment that is not made of a world and a protocol. */
export type EnvDefinition<S extends OptionsSchema = OptionsSchema> = {
  readonly kind: "env";
  readonly id: string;
  readonly summary: string;
  readonly options: S;
  create(options: z.output<S>): Awaitable<Env>;
  /**
   * How many episodes there are, where they are rows of data: seed i is row i, from 0. Absent, or undefined: every seed is an episode. A source
   * `{ records, env }` names its file in the option `data`.
   */
  rows?(options: z.output<S>): Awaitable<number | undefined>;
  /** The same definition, its own paths starting at this folder: that of the file it was loaded from. */
  from?(folder: string): EnvDefinition;
};

/** What an author writes; whatever is left out gets a default. */
export type WorldInput<S extends OptionsSchema, A extends Action> = Partial<
  Omit<WorldDefinition<S>, "kind" | "id" | "create">
> & {
  readonly id: string;
  create(options: z.output<S>): Awaitable<World<A>>;
};

const noOptions = z.strictObject({});

export function defineWorld<S extends OptionsSchema = typeof noOptions, A extends Action = Action>(
  input: WorldInput<S, A>,
): WorldDefinition<S> {
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
  return { kind: "env", summary: input.id, ...input, options: (input.options ?? noOptions) as S, create: input.create };
}
