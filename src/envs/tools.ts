/**
 * Tools that a model calls in its replies. A tool has a name, a description, a zod schema of what it takes, and code that answers with text, an image or
 * both; it may also pay and end the episode. What goes wrong (a tool that is not there, arguments that do not fit, code that throws) is an answer that the model
 * reads, never an end of the episode.
 */
import { z } from "zod";
import { ConfigError, EnvError, errorMessage } from "../core/errors.ts";
import { type Image, imageHint, isImage } from "../core/image.ts";
import type { Awaitable, Json, JsonObject } from "../core/json.ts";
import { image, type Part, text } from "../core/message.ts";
import { closestWord, given } from "../core/words.ts";
import { BOOLEAN, checkFields, checkParts, mustReturn, NUMBER, optional } from "./contract.ts";
import type { RewardPart } from "./env.ts";
import { CALL_TAG, type ReadCall, type ToolText } from "./protocols/tool-text.ts";

/** Where a call stands: the row of its task, the reply it is in (from 1), and how many replies there may be. */
export type ToolContext<R = unknown> = { readonly row: R; readonly turn: number; readonly maxTurns: number };

type Said = string | Image | readonly Part[];

/** What a tool answers: what the model gets to read or see, or that with a reward, and whether the episode is over. */
export type ToolAnswer =
  | Said
  | { readonly say: Said; readonly reward?: number; readonly done?: boolean; readonly success?: boolean };

export type ToolInput<S extends z.ZodObject, R> = {
  readonly name: string;
  /** For the model: what it does and when to call it. */
  readonly description: string;
  /** What it takes; `.describe()` of a field is what the model reads about it. */
  readonly input: S;
  run(input: z.output<S>, context: ToolContext<R>): Awaitable<ToolAnswer>;
};

/** What came of a call. `problem`: nothing was run, or what ran failed; `said` tells the model why. */
export type ToolOutcome = {
  readonly said: readonly Part[];
  readonly problem: boolean;
  readonly rewards: readonly RewardPart[];
  readonly done: boolean;
  readonly success?: boolean;
};

export type Tool<R = unknown> = ToolText & {
  /** `label`: whose tool it is, for errors. */
  call(given: Json, context: ToolContext<R>, label?: string): Promise<ToolOutcome>;
};

export function defineTool<S extends z.ZodObject, R = unknown>(tool: ToolInput<S, R>): Tool<R> {
  const { name, description, input } = tool;
  if (!/^[A-Za-z_][\w-]{0,63}$/.test(name)) {
    throw new ConfigError(`"${name}" can't be the name of a tool: use letters, digits, _ and -, at most 64.`);
  }
  if (typeof tool.run !== "function") {
    const got = tool.run === undefined ? "it is missing" : `got ${given(tool.run)}`;
    throw new ConfigError(`the tool "${name}": run must be a function; ${got}.`);
  }
  if (typeof input?.safeParse !== "function" || typeof input.shape !== "object") {
    throw new ConfigError(
      `the tool "${name}": input must be a zod object, such as z.object({ n: z.int() }); got ${given(input)}.`,
    );
  }
  return {
    name,
    description,
    parameters: parametersOf(name, input),
    async call(given, context, label) {
      const read = input.safeParse(given);
      if (!read.success) {
        const wrong = read.error.issues.map((issue) => `${issue.path.join(".") || "arguments"}: ${issue.message}`);
        return failed(`The arguments of ${name} do not fit: ${wrong.join("; ")}.`);
      }
      let answer: ToolAnswer;
      try {
        answer = await tool.run(read.data, context);
      } catch (error) {
        return failed(`${name} failed: ${errorMessage(error)}`);
      }
      // What the code of a tool may not return is its author's to mend, not the model's to read.
      return outcomeOf(answer, `${label === undefined ? "" : `${label}: `}the tool ${name}`);
    },
  };
}

/** Runs a call that was read from a reply, against the tools that there are. */
export async function runTool<R>(
  tools: readonly Tool<R>[],
  call: ReadCall,
  context: ToolContext<R>,
  label?: string,
): Promise<ToolOutcome> {
  if (!call.ok) return failed(`${call.problem} Write <${CALL_TAG}>{"name": …, "arguments": {…}}</${CALL_TAG}>.`);
  const tool = tools.find(({ name }) => name === call.name);
  if (tool !== undefined) return tool.call(call.args, context, label);
  const names = tools.map(({ name }) => name);
  const close = closestWord(call.name.slice(0, 64), names);
  return failed(
    `There is no such tool${close === undefined ? "" : `; did you mean ${close}?`} The tools are ${names.join(", ")}.`,
  );
}

/** Two tools of one name could not be told apart. */
export function checkTools(tools: readonly Tool<never>[], label: string): void {
  const plain = tools.findIndex((tool) => typeof tool?.call !== "function");
  if (plain >= 0)
    throw new ConfigError(`${label}: tools[${plain}] must be made with defineTool({…}); got ${given(tools[plain])}.`);
  const names = tools.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new ConfigError(`${label} has two tools named "${twice}": rename one.`);
}

function failed(problem: string): ToolOutcome {
  return { said: [text(`Error: ${problem}`)], problem: true, rewards: [], done: false };
}

const WHOLE = { reward: optional(NUMBER), done: optional(BOOLEAN), success: optional(BOOLEAN) };

function outcomeOf(answer: ToolAnswer, where: string): ToolOutcome {
  const whole = isWhole(answer) ? answer : undefined;
  if (whole !== undefined) checkFields(whole, WHOLE, where);
  const { reward, done = false, success } = whole ?? {};
  return {
    said: whole === undefined ? partsOf(answer as Said, where) : partsOf(whole.say, `${where}: say`, "must be"),
    problem: false,
    rewards: reward === undefined ? [] : [{ name: "task", value: reward }],
    done,
    ...(success !== undefined && { success }),
  };
}

function partsOf(say: Said, where: string, must?: string): readonly Part[] {
  if (typeof say === "string") return [text(say)];
  if (isImage(say)) return [image(say)];
  if (Array.isArray(say)) return checkParts(say, where);
  const wanted = "a string, an Image, a list of parts";
  if (must === undefined) throw mustReturn(where, `${wanted} or { say, reward, done }`, say, imageHint(say));
  throw new EnvError(`${where} ${must} ${wanted}; got ${given(say)}.${imageHint(say)}`);
}

function isWhole(answer: ToolAnswer): answer is Extract<ToolAnswer, { readonly say: Said }> {
  return typeof answer === "object" && answer !== null && !Array.isArray(answer) && "say" in answer;
}

/** What the schema says, in JSON Schema, as chat templates want it. */
function parametersOf(name: string, input: z.ZodObject): JsonObject {
  try {
    const { $schema: _, additionalProperties: __, ...schema } = z.toJSONSchema(input, { io: "input" });
    return JSON.parse(JSON.stringify(schema)) as JsonObject;
  } catch (error) {
    throw new ConfigError(`The input of the tool ${name} can't be described to a model: ${errorMessage(error)}`);
  }
}
