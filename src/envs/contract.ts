/**
 * What a user's code returns may be anything. It is checked here, at the boundary, once for worlds, tasks, tools, environments and those in other processes: an
 * error names the file, the episode, the member, what was given and what is wanted, before it becomes a `TypeError` somewhere inside.
 */
import { ConfigError, EnvError, SaccadeError } from "../core/errors.ts";
import { imageHint, isImage } from "../core/image.ts";
import type { Awaitable } from "../core/json.ts";
import type { Message, Part, Role } from "../core/message.ts";
import { closestWord, given } from "../core/words.ts";
import type { ActionSpec } from "./action.ts";
import { type BuiltinAgent, type Env, type RewardPart, type Step, sumRewards } from "./env.ts";
import type { Protocol } from "./protocol.ts";
import type { PromptStyle } from "./world.ts";
import type { Scorer } from "./world-env.ts";

/** Asks a member of the user's; `where` begins every message about it. What it throws on purpose is told with its place. */
export function ask<T>(where: string, call: () => Awaitable<T>, check: (answer: T, where: string) => T): Awaitable<T> {
  let answer: Awaitable<T>;
  try {
    answer = call();
  } catch (error) {
    throw placed(error, where);
  }
  if (!isThenable(answer)) return check(answer, where);
  return answer.then(
    (value) => check(value, where),
    (error: unknown) => {
      throw placed(error, where);
    },
  );
}

function isThenable<T>(value: Awaitable<T>): value is Promise<T> {
  return typeof (value as Promise<T> | null | undefined)?.then === "function";
}

/** Errors of ours that the user's code met (an image that is none, a bad option) do not know whose code it was. */
function placed(error: unknown, where: string): unknown {
  const file = where.split(/, seed |: /)[0] as string;
  if (!(error instanceof SaccadeError) || error.message.includes(file)) return error;
  const message = `${where}: ${error.message}`;
  const known = error instanceof ConfigError ? new ConfigError(message) : new EnvError(message);
  // Where it was thrown, which is in the user's file.
  if (error.stack !== undefined) known.stack = error.stack.replace(error.message, () => message);
  return known;
}

/** `wanted` follows "must return". */
export function mustReturn(where: string, wanted: string, value: unknown, hint = ""): EnvError {
  const got = value === undefined ? "undefined: is there a return?" : `${given(value)}.`;
  return new EnvError(`${where} must return ${wanted}; got ${got}${hint}`);
}

type Field = { readonly wanted: string; readonly fits: (value: unknown) => boolean; readonly optional?: boolean };
type Shape = Readonly<Record<string, Field>>;

const isBoolean = (value: unknown) => typeof value === "boolean";
export const BOOLEAN: Field = { wanted: "true or false", fits: isBoolean };
export const NUMBER: Field = { wanted: "a finite number", fits: Number.isFinite };
export const TEXT: Field = { wanted: "a string", fits: (value) => typeof value === "string" };
export const optional = (field: Field): Field => ({ ...field, optional: true });

/** What others call a field of ours. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  ended: ["done", "terminated", "over"],
  terminated: ["done", "ended"],
  done: ["terminated", "ended"],
  rewards: ["reward"],
  reward: ["score", "value"],
  observation: ["obs", "observations", "messages"],
};

/** Throws unless `value` is an object with these fields. */
export function checkFields(value: unknown, shape: Shape, where: string): void {
  const needed = Object.keys(shape).filter((name) => !shape[name]?.optional);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw mustReturn(where, `{ ${needed.join(", ")} }`, value);
  }
  const fields = value as Readonly<Record<string, unknown>>;
  for (const [name, { wanted, fits, optional: absent }] of Object.entries(shape)) {
    const field = fields[name];
    if (fits(field) || (absent && field === undefined)) continue;
    const got =
      field === undefined ? `it is missing${misnamed(name, Object.keys(fields), shape)}` : `got ${given(field)}.`;
    throw new EnvError(`${where} must return \`${name}\`, ${wanted}; ${got}`);
  }
}

/** The field that was meant for one that is missing. */
function misnamed(name: string, fields: readonly string[], shape: Shape): string {
  const unknown = fields.filter((field) => !(field in shape));
  const meant = unknown.find((field) => ALIASES[name]?.includes(field)) ?? closestWord(name, unknown);
  return meant === undefined ? "." : `, and "${meant}" is there: did you mean "${name}"?`;
}

const ROLES: readonly string[] = ["system", "developer", "user", "assistant", "tool"] satisfies Role[];

export function checkMessages<M extends readonly Message[]>(messages: M, where: string, wanted = "must return"): M {
  if (!Array.isArray(messages)) {
    const hint = typeof messages === "object" && messages !== null && "role" in messages ? " Put it in a list." : "";
    const got = messages === undefined ? "undefined: is there a return?" : `${given(messages)}.`;
    throw new EnvError(`${where} ${wanted} a list of messages, such as [user(text("…"))]; got ${got}${hint}`);
  }
  for (const [i, message] of (messages as readonly unknown[]).entries()) checkMessage(message, `${where}[${i}]`);
  return messages;
}

function checkMessage(message: unknown, where: string): void {
  if (typeof message !== "object" || message === null || !("role" in message)) {
    throw new EnvError(`${where} must be a message, such as user(text("…")); got ${given(message)}.`);
  }
  const { role, content } = message as { role: unknown; content?: unknown };
  if (typeof role !== "string" || !ROLES.includes(role)) {
    const close = typeof role === "string" ? closestWord(role, ROLES) : undefined;
    const hint = close === undefined ? "." : `, did you mean "${close}"?`;
    throw new EnvError(`${where}.role is one of ${ROLES.join(", ")}; got ${given(role)}${hint}`);
  }
  if (!Array.isArray(content)) {
    const hint =
      typeof content === "string" ? " Messages in OpenAI's form become ours by await fromOpenAI(messages)." : "";
    throw new EnvError(`${where}.content must be a list of parts, such as [text("…")]; got ${given(content)}.${hint}`);
  }
  checkParts(content, `${where}.content`);
}

export function checkParts<P extends readonly Part[]>(parts: P, where: string): P {
  for (const [i, part] of (parts as readonly unknown[]).entries()) checkPart(part, `${where}[${i}]`);
  return parts;
}

function checkPart(part: unknown, where: string): void {
  if (typeof part !== "object" || part === null || !("type" in part)) {
    throw new EnvError(`${where} must be text("…") or image(frame); got ${given(part)}.`);
  }
  const { type, text, image } = part as { type: unknown; text?: unknown; image?: unknown };
  if (type === "text") {
    if (typeof text !== "string") throw new EnvError(`${where}.text must be a string; got ${given(text)}.`);
  } else if (type !== "image") {
    throw new EnvError(`${where}.type is "text" or "image"; got ${given(type)}.`);
  } else if (!isImage(image)) {
    throw new EnvError(`${where}.image must be an Image; got ${given(image)}.${imageHint(image)}`);
  } else if (image.data.length !== image.width * image.height * 3) {
    throw new EnvError(
      `${where}.image: a ${image.width}×${image.height} image has ${image.width * image.height * 3} bytes of RGB; its data has ${image.data.length}.`,
    );
  }
}

/** Throws unless every part has a name, a finite value and a place inside the reply. */
export function checkRewards(parts: unknown, reply: string, where: string): readonly RewardPart[] {
  if (!Array.isArray(parts)) {
    throw new EnvError(`${where} must be a list of parts, such as { name: "task", value: 1 }; got ${given(parts)}.`);
  }
  for (const [i, part] of (parts as readonly unknown[]).entries()) {
    const at = `${where}[${i}]`;
    if (typeof part !== "object" || part === null) {
      throw new EnvError(`${at} must be { name, value }, such as { name: "task", value: 1 }; got ${given(part)}.`);
    }
    const { name, value, span, claims = [] } = part as Partial<RewardPart>;
    if (typeof name !== "string" || !/^[a-z][\w-]*$/i.test(name)) {
      throw new EnvError(`${at}.name must be letters, digits, _ and -; got ${given(name)}.`);
    }
    if (!Number.isFinite(value)) {
      throw new EnvError(`${at}.value ("${name}") must be a finite number; got ${given(value)}.`);
    }
    for (const place of [...(span === undefined ? [] : [span]), ...claims.map((claim) => claim.span)]) {
      const [start, end] = place ?? [];
      if (Number.isInteger(start) && Number.isInteger(end) && 0 <= start && start <= end && end <= reply.length)
        continue;
      throw new EnvError(
        `${at}: the span of the reward "${name}" must be inside the reply, 0..${reply.length}; got ${JSON.stringify(place)}.`,
      );
    }
  }
  // Each may be finite and their sum not.
  const sum = sumRewards(parts as readonly RewardPart[]);
  if (!Number.isFinite(sum)) throw new EnvError(`${where} must add up to a finite number; their sum is ${sum}.`);
  return parts as readonly RewardPart[];
}

const isList = (value: unknown) => Array.isArray(value);
const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);
/** Observation and rewards have words of their own, so here they need only be there. */
const STEP: Shape = {
  observation: { wanted: "a list of messages", fits: (value) => value !== undefined },
  rewards: { wanted: 'a list of parts, such as { name: "task", value: 1 }', fits: (value) => value !== undefined },
  terminated: BOOLEAN,
  truncated: BOOLEAN,
  info: { wanted: "an object with actions, parsed, wellFormed and valid", fits: isObject },
  success: optional(BOOLEAN),
};
const INFO: Shape = { actions: { wanted: "a list of the actions that were played", fits: isList } };

/** Throws unless it is a whole step. */
export function checkStep(step: Step, reply: string, where: string): Step {
  checkFields(step, STEP, where);
  checkFields(step.info, INFO, `${where}.info`);
  checkMessages(step.observation, `${where}.observation`, "must be");
  checkRewards(step.rewards, reply, `${where}.rewards`);
  return step;
}

/** The object with these members in place of its own; one that can't be written to gets them in front of it. */
export function withMembers<T extends object>(object: T, members: Partial<T>): T {
  const target: T = Object.isExtensible(object) ? object : Object.create(object);
  for (const [name, value] of Object.entries(members)) {
    const enumerable = Object.getOwnPropertyDescriptor(object, name)?.enumerable ?? false;
    Object.defineProperty(target, name, { value, enumerable, writable: true, configurable: true });
  }
  checkedObjects.add(target);
  return target;
}

/** What several environments share is checked once. */
const checkedObjects = new WeakSet<object>();
export const isChecked = (object: object) => checkedObjects.has(object);

const isReply = (value: unknown) => value === undefined || value === null || typeof value === "string";

/** An environment of the user's, what its members return checked. `name`: its file, or its id. */
export function checkedEnv(env: Env, name: string): Env {
  if (isChecked(env)) return env;
  const { reset, step, truncate, builtinReply } = env;
  let episode = name;
  let last = "";
  return withMembers(env, {
    reset(seed: number) {
      episode = `${name}, seed ${seed}`;
      return ask(`${episode}: reset(${seed})`, () => reset.call(env, seed), checkMessages);
    },
    step(reply: string) {
      last = reply;
      return ask(
        `${episode}: step(reply)`,
        () => step.call(env, reply),
        (made, where) => checkStep(made, reply, where),
      );
    },
    ...(truncate !== undefined && {
      truncate: () =>
        ask(
          `${episode}: truncate()`,
          () => truncate.call(env),
          (owed, where) => checkRewards(owed, last, where),
        ),
    }),
    ...(builtinReply !== undefined && {
      builtinReply: (agent: BuiltinAgent, seed: number) =>
        ask(
          `${episode}: builtinReply("${agent}")`,
          () => builtinReply.call(env, agent, seed),
          (reply, where) => {
            if (isReply(reply)) return reply;
            throw mustReturn(where, "a string, null or undefined", reply);
          },
        ),
    }),
  });
}

const PARSED: Shape = {
  actions: { wanted: "a list of actions", fits: isList },
  wellFormed: BOOLEAN,
  sections: { wanted: "an object, {} where there are none", fits: isObject },
  problem: optional(TEXT),
};
const PROTOCOL = ["name", "maxActions", "formatReward", "instruction", "parse", "print"] as const;

/** A protocol of the user's. */
export function checkedProtocol(protocol: Protocol, name: string): Protocol {
  const missing = PROTOCOL.filter((member) => protocol[member] === undefined);
  if (missing.length > 0) {
    throw new ConfigError(`${name}: the protocol "${protocol.name}" has no ${missing.join(", ")}.`);
  }
  if (isChecked(protocol)) return protocol;
  const { instruction, parse, print } = protocol;
  const said = (text: string, member: string) => {
    if (typeof text === "string") return text;
    throw mustReturn(`${name}: ${member} of the protocol "${protocol.name}"`, "a string", text);
  };
  return withMembers(protocol, {
    instruction: (actions: readonly ActionSpec[], style: PromptStyle) =>
      said(instruction.call(protocol, actions, style), "instruction()"),
    print: (...given: Parameters<Protocol["print"]>) => said(print.apply(protocol, given), "print()"),
    parse(reply: string, actions: readonly ActionSpec[]) {
      const parsed = parse.call(protocol, reply, actions);
      checkFields(parsed, PARSED, `${name}: parse() of the protocol "${protocol.name}"`);
      return parsed;
    },
  });
}

/** A scorer of the user's. */
export function checkedScorer(score: Scorer, name: string): Scorer {
  return (turn) =>
    ask(
      `${name}: score({ when: "${turn.when}" })`,
      () => score(turn),
      (parts, where) => checkRewards(parts, turn.reply, where),
    );
}
