/** The contract of a world, checked where its members return, and the actions that it lists. */
import { ConfigError, EnvError } from "../core/errors.ts";
import { imageHint, isImage } from "../core/image.ts";
import type { Json } from "../core/json.ts";
import { closestWord, given } from "../core/words.ts";
import type { Action, ActionSpec, ArgSpec } from "./action.ts";
import { acceptAction } from "./args.ts";
import {
  ask,
  BOOLEAN,
  checkFields,
  checkParts,
  isChecked,
  mustReturn,
  NUMBER,
  optional,
  TEXT,
  withMembers,
} from "./contract.ts";
import type { Fact, Observation, ObservationMode, Outcome, PromptStyle, World } from "./world.ts";

const METHODS = ["reset", "act", "observe", "task", "success"] as const;
const OUTCOME = { valid: BOOLEAN, reward: NUMBER, ended: BOOLEAN, feedback: optional(TEXT), ending: optional(TEXT) };

/** A world of the user's, what its members return checked. `name`: its file, or its id. */
export function checkedWorld(world: World, name: string): World {
  checkMembers(world, name);
  if (isChecked(world)) return world;
  const { reset, act, observe, task, success, solve, facts, save } = world;
  let episode = name;
  let listed: readonly ActionSpec[] | undefined;
  let saved = false;
  return withMembers(world, {
    reset(seed: number) {
      episode = `${name}, seed ${seed}`;
      return ask(
        `${episode}: reset(${seed})`,
        () => reset.call(world, seed),
        () => {
          if (world.actions !== listed) checkActions(world.actions, name);
          listed = world.actions;
        },
      );
    },
    act: (action: Action) =>
      ask(
        `${episode}: act(${action.name})`,
        () => act.call(world, action),
        (outcome: Outcome, where) => {
          checkFields(outcome, OUTCOME, where);
          return outcome;
        },
      ),
    observe: (mode: ObservationMode) =>
      ask(`${episode}: observe("${mode}")`, () => observe.call(world, mode), checkObservation),
    task: (style: PromptStyle, mode: ObservationMode) =>
      ask(
        `${episode}: task("${style}", "${mode}")`,
        () => task.call(world, style, mode),
        (told, where) => {
          if (typeof told === "string") return told;
          throw mustReturn(where, "a string, the instruction of this episode", told);
        },
      ),
    success: () =>
      ask(
        `${episode}: success()`,
        () => success.call(world),
        (reached, where) => {
          if (typeof reached === "boolean") return reached;
          throw mustReturn(where, "true or false", reached);
        },
      ),
    ...(solve !== undefined && {
      solve: () =>
        ask(
          `${episode}: solve()`,
          () => solve.call(world),
          (plan, where) => checkPlan(plan, world.actions, where),
        ),
    }),
    ...(facts !== undefined && { facts: () => ask(`${episode}: facts()`, () => facts.call(world), checkFacts) }),
    ...(save !== undefined && {
      save: () =>
        ask(
          `${episode}: save()`,
          () => save.call(world),
          (state, where) => {
            // States are alike, and looking through each would cost what saving does.
            if (!saved || state === undefined) checkJson(state, where);
            saved = true;
            return state;
          },
        ),
    }),
  });
}

function checkMembers(world: World, name: string): void {
  if (typeof world !== "object" || world === null) {
    const got = world === undefined ? "undefined: is there a return?" : `${given(world)}.`;
    throw new ConfigError(`${name}: create() must return a world; got ${got}`);
  }
  if (!Array.isArray(world.actions))
    throw new ConfigError(`${name}: create() made a world without \`actions\`, a list; got ${given(world.actions)}.`);
  const missing = METHODS.filter((method) => typeof world[method] !== "function");
  if (missing.length === 0) return;
  const meant = missing.flatMap((method) => closestWord(method, membersOf(world)) ?? []);
  const hint = meant.length === 0 ? "." : `; it has ${meant.map((one) => `"${one}"`).join(", ")}: is that misspelt?`;
  throw new ConfigError(
    `${name}: create() made a world without the method ${missing.map((method) => `${method}()`).join(", ")}${hint}`,
  );
}

/** Its own, and those of its class, but for what a world has. */
function membersOf(world: World): string[] {
  const own = [...Object.keys(world), ...Object.getOwnPropertyNames(Object.getPrototypeOf(world) ?? {})];
  return own.filter(
    (name) => !["constructor", "actions", "solve", "facts", "save", "load", "close", ...METHODS].includes(name),
  );
}

function checkObservation(seen: Observation, where: string): Observation {
  if (typeof seen === "string") return seen;
  if (Array.isArray(seen)) return checkParts(seen, where);
  if (!isImage(seen)) throw mustReturn(where, "an Image, a string or a list of parts", seen, imageHint(seen));
  checkParts([{ type: "image", image: seen }], where);
  return seen;
}

function checkPlan(plan: readonly Action[], actions: readonly ActionSpec[], where: string): readonly Action[] {
  if (!Array.isArray(plan)) throw mustReturn(where, "a list of actions, [] where there is no plan", plan);
  for (const [i, action] of (plan as readonly Action[]).entries()) {
    if (typeof action !== "object" || action === null || typeof action.name !== "string") {
      const [spec] = actions;
      throw new EnvError(`${where}[${i}] must be an action, such as act("${spec?.name}"); got ${given(action)}.`);
    }
    const spec = actions.find(({ name }) => name === action.name);
    const names = actions.map(({ name }) => name);
    if (spec === undefined) {
      const close = closestWord(action.name, names);
      throw new EnvError(
        `${where}[${i}] names the action "${action.name}", which does not exist${close === undefined ? "" : `; did you mean "${close}"?`} The actions are ${names.join(", ")}.`,
      );
    }
    const accepted = acceptAction(spec, action.payload);
    if (!accepted.ok) {
      throw new EnvError(
        `${where}[${i}], "${action.name}", has the payload ${JSON.stringify(action.payload)}, but ${accepted.problem}.`,
      );
    }
  }
  return plan;
}

function checkFacts(facts: readonly Fact[], where: string): readonly Fact[] {
  if (!Array.isArray(facts)) throw mustReturn(where, "a list of { subject, relations, object }", facts);
  for (const [i, fact] of (facts as readonly Fact[]).entries()) {
    const isFact =
      typeof fact?.subject === "string" &&
      typeof fact.object === "string" &&
      Array.isArray(fact.relations) &&
      fact.relations.every((relation) => typeof relation === "string");
    if (isFact) continue;
    throw new EnvError(
      `${where}[${i}] must be { subject, relations, object }, such as { subject: "box", relations: ["left"], object: "player" }; got ${given(fact)}.`,
    );
  }
  return facts;
}

function checkJson(state: Json, where: string): void {
  if (state === undefined) throw mustReturn(where, "JSON: the whole state of the episode", state);
  const odd = oddIn(state, []);
  if (odd === undefined) return;
  throw new EnvError(`${where} must return JSON (numbers, strings, lists, plain objects), and ${odd}.`);
}

/** The first place that JSON would lose: `at.step is a function`. */
function oddIn(value: unknown, path: readonly string[]): string | undefined {
  if (value === null || typeof value === "string" || typeof value === "boolean" || Number.isFinite(value))
    return undefined;
  const isPlain =
    Array.isArray(value) ||
    (typeof value === "object" && [Object.prototype, null].includes(Object.getPrototypeOf(value)));
  if (!isPlain) return `${path.join(".") || "it"} is ${given(value)}`;
  for (const [key, inner] of Object.entries(value as object)) {
    // A field that is undefined is a field that is not there.
    const odd = inner === undefined && !Array.isArray(value) ? undefined : oddIn(inner, [...path, key]);
    if (odd !== undefined) return odd;
  }
  return undefined;
}

const whole = { wanted: "a whole number", fits: Number.isInteger };
const real = { wanted: "a number", fits: (value: unknown) => value === undefined || typeof value === "number" };
const word = { wanted: "a string", fits: (value: unknown) => typeof value === "string" && value !== "" };
const perhapsWord = { wanted: "a string", fits: (value: unknown) => value === undefined || word.fits(value) };
const list = { wanted: "a list", fits: (value: unknown) => Array.isArray(value) };

type Needed = Readonly<Record<string, { readonly wanted: string; readonly fits: (value: unknown) => boolean }>>;
const ARGS: Readonly<Record<ArgSpec["type"], Needed>> = {
  int: { name: word, min: whole, max: whole },
  real: { name: word, min: real, max: real },
  tuple: { items: list },
  list: { items: list },
  permutation: { name: word, size: whole, start: whole },
  text: { name: word, opening: perhapsWord, maxLength: whole, samples: list },
  word: { maxLength: whole },
};

function checkActions(actions: readonly ActionSpec[], name: string): void {
  if (actions.length === 0)
    throw new EnvError(`${name}: actions is empty, so nothing could be done: list at least one.`);
  const names = new Set<string>();
  for (const [i, spec] of actions.entries()) {
    const at = `${name}: actions[${i}]`;
    if (typeof spec !== "object" || spec === null || typeof spec.name !== "string") {
      const made = `bare(${typeof spec === "string" ? JSON.stringify(spec) : '"left"'}, "what it does")`;
      throw new EnvError(`${at} must be an action, such as ${made}; got ${given(spec)}.`);
    }
    if (!/^[^\s,()[\]'"\x60<>]+$/.test(spec.name)) {
      throw new EnvError(
        `${at}: the name ${JSON.stringify(spec.name)} could not be read from a reply: no spaces, commas, brackets or quotes.`,
      );
    }
    if (names.has(spec.name))
      throw new EnvError(`${at} is "${spec.name}" again: names tell actions apart, rename one.`);
    names.add(spec.name);
    checkArg(spec.arg, `${at} ("${spec.name}"): arg`);
    if (typeof spec.description !== "string") {
      throw new EnvError(`${at} ("${spec.name}"): description must be a string; got ${given(spec.description)}.`);
    }
    const accepted = acceptAction(spec, spec.example);
    if (accepted.ok) continue;
    throw new EnvError(`${at} ("${spec.name}"): example is ${JSON.stringify(spec.example)}, but ${accepted.problem}.`);
  }
}

function checkArg(arg: ArgSpec, where: string): void {
  if (typeof arg !== "object" || arg === null) {
    const got = arg === undefined ? "is missing" : `is ${given(arg)}`;
    throw new EnvError(
      `${where} ${got}: write what the action takes, or bare(name, description) for one that takes nothing.`,
    );
  }
  const types = Object.keys(ARGS);
  const needed = ARGS[arg.type];
  if (needed === undefined) {
    const close =
      typeof arg.type === "string"
        ? (closestWord(arg.type, types) ?? types.find((type) => (arg.type as string).startsWith(type)))
        : undefined;
    const hint = close === undefined ? "." : `, did you mean "${close}"?`;
    throw new EnvError(`${where}.type is one of ${types.join(", ")}; got ${given(arg.type)}${hint}`);
  }
  for (const [field, { wanted, fits }] of Object.entries(needed)) {
    const value = (arg as Readonly<Record<string, unknown>>)[field];
    if (fits(value)) continue;
    const got = value === undefined ? "it is missing" : `got ${given(value)}`;
    throw new EnvError(`${where}.${field} must be ${wanted}; ${got}.`);
  }
  if ("items" in arg) for (const [i, item] of arg.items.entries()) checkArg(item, `${where}.items[${i}]`);
}
