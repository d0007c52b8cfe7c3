/**
 * From a world's definition to an environment: options are checked here, once, and every error names the option and what it may be. Knows no names and no
 * files; `registry.ts` finds definitions.
 */
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import { closestWord } from "../core/words.ts";
import { checkedProtocol, checkedScorer } from "./contract.ts";
import type { OptionsSchema, Preset, WorldDefinition } from "./define.ts";
import type { Protocol } from "./protocol.ts";
import { makeProtocol } from "./protocols/index.ts";
import { checkedWorld } from "./world-contract.ts";
import { type Scorer, WorldEnv } from "./world-env.ts";
import type { Luck } from "./world-model/score.ts";
import { type WorldModelPay, worldLuck, worldModelScorer } from "./world-model/scorer.ts";
import { type View, viewOf } from "./world-model/view.ts";

export type Options = Readonly<Record<string, unknown>>;

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
  feedback: z.boolean().default(true).describe("Tell the agent what its action did."),
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
  frameMultiple: z
    .int()
    .min(1)
    .max(256)
    .optional()
    .describe(
      "Extend frames, to the right and below, to a multiple of this many pixels. With a token's side, models need not resize them.",
    ),
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

/** An environment of this world. `name` is what messages call it. */
export async function assembleEnv(
  definition: WorldDefinition,
  difficulty: string | undefined,
  name: string,
  options: EnvOptions & Options = {},
): Promise<WorldEnv> {
  const { forEnv, forWorld } = parted(options);
  const ownOptions = worldOptions(definition, difficulty, forWorld, Object.keys(envOptionsShape));
  const settings = check(envOptionsSchema, forEnv, name);
  const {
    maxTurns,
    maxActions,
    protocol: wanted,
    formatReward,
    maxLongSide,
    frameMultiple,
    worldModel,
    ...rest
  } = settings;
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
    ...(frameMultiple === undefined ? {} : { frameMultiple }),
    ...(score === undefined ? {} : { score: checkedScorer(score, name) }),
    ...(view === undefined ? {} : { view }),
  });
}

/** One bag of options is two: the environment's and the world's. */
export function parted(options: Options): { readonly forEnv: Options; readonly forWorld: Options } {
  const isForEnv = ([key]: [string, unknown]) => key in envOptionsShape;
  const entries = Object.entries(options);
  return {
    forEnv: Object.fromEntries(entries.filter(isForEnv)),
    forWorld: Object.fromEntries(entries.filter((entry) => !isForEnv(entry))),
  };
}

/** Protocols of ours in which nothing is described. */
const SILENT = ["keyword", "think", "tool-call"];

function checkPaid({ name }: Protocol, { state, transition }: WorldModelPay): void {
  if (!SILENT.includes(name) || (state === 0 && transition === 0)) return;
  throw new ConfigError(
    `worldModel pays for descriptions, but the protocol "${name}" asks for none: use protocol: { name: "world-model" }, or leave worldModel out.`,
  );
}

export type WorldModel = { readonly view: View; readonly luck: Luck };

async function modelScorer(definition: WorldDefinition, options: Options, pay: WorldModelPay): Promise<Scorer> {
  const { view, luck } = await modelOf(definition, options);
  return worldModelScorer(view, pay, luck);
}

export async function modelOf(definition: WorldDefinition, options: Options): Promise<WorldModel> {
  const { id, create } = definition;
  const view = viewOf(definition);
  if (view === undefined) {
    throw new ConfigError(
      `${id} has no facts, so worldModel can't check descriptions: leave worldModel out, or add facts() to the world and things to its definition.`,
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

export function turnLimit(definition: WorldDefinition, difficulty: string | undefined): number {
  if (typeof definition.maxTurns === "number") return definition.maxTurns;
  const limit = definition.maxTurns[difficulty ?? ""];
  if (limit === undefined) throw new ConfigError(`"${definition.id}" has no turn limit for "${difficulty}".`);
  return limit;
}

export function worldOptions(
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
export function check<S extends OptionsSchema>(
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

export const quoted = (names: readonly string[]) => names.map((name) => `"${name}"`).join(", ");

function show(value: unknown): string {
  return value === undefined ? "not given" : (JSON.stringify(value) ?? String(value));
}
