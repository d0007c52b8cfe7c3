/** The form that a request wants the answer in, and the sampling that follows from it: a schema, or calls of tools that must be made. */
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { badField } from "./errors.ts";
import { readSampling, type SamplingContext, type Wanted } from "./sampling.ts";
import { schemaGrammar } from "./structured.ts";
import { CALL_TAGS } from "./tools.ts";
import type { AnswerFormat, WireRequest, WireTool } from "./wire.ts";

const ANY_OBJECT: AnswerFormat = { type: "schema", schema: { type: "object" } };

/** `text`, `json_object` or `json_schema`. `holder` finds the object that has the schema, which differs from wire to wire. */
export function readFormat(
  param: string,
  given: unknown,
  holder: (given: JsonObject) => unknown = (whole) => whole,
): AnswerFormat {
  if (given === undefined || given === null) return { type: "text" };
  if (isJsonObject(given)) {
    if (given.type === "text") return { type: "text" };
    if (given.type === "json_object") return ANY_OBJECT;
    if (given.type === "json_schema") {
      const { name, schema } = (holder(given) ?? {}) as { name?: unknown; schema?: unknown };
      if (!isJsonObject(schema) && typeof schema !== "boolean") {
        throw badField(param, `${param}: json_schema needs a schema, which is an object.`);
      }
      return { type: "schema", ...(typeof name === "string" && { name }), schema: schema as Json };
    }
  }
  throw badField(param, `${param} must have the type text, json_object or json_schema.`);
}

/** As chat templates read it. */
export function templateTool({ name, description, parameters }: WireTool): JsonObject {
  const written = { name, ...(description !== undefined && { description }), ...(parameters && { parameters }) };
  return { type: "function", function: written };
}

/** A tool that the request has. */
export function namedTool(param: string, name: string, tools: readonly WireTool[]): { readonly name: string } {
  if (tools.some((tool) => tool.name === name)) return { name };
  throw badField(param, `${param} names ${JSON.stringify(name)}, which is not one of the tools.`);
}

/** How the request is to be sampled. */
export function readWanted(request: WireRequest, context: Omit<SamplingContext, "top">): Wanted {
  const { sampling, topLogprobs: top } = request;
  const wanted = readSampling(sampling, { ...context, top });
  const grammar = grammarOf(request);
  if (grammar === undefined) return wanted;
  if (wanted.params.grammar !== undefined) throw badField("structured_outputs", "The answer has two forms: name one.");
  return { ...wanted, params: { ...wanted.params, grammar } };
}

/** Undefined: the answer is free. */
function grammarOf({ tools, toolChoice, parallelCalls, format, wire }: WireRequest): string | undefined {
  const isForced = toolChoice !== "auto" && toolChoice !== "none";
  const isFree = format.type === "text";
  if (isFree && !isForced) return undefined;
  const callable =
    toolChoice === "none" ? [] : typeof toolChoice === "string" ? tools : namedOnly(tools, toolChoice.name);
  const calls = callable.length > 0 && {
    tools: callable.map(({ name, parameters = { type: "object" } }) => ({ name, parameters })),
    ...CALL_TAGS,
    // A tool that is named is called once.
    isParallel: parallelCalls && typeof toolChoice === "string",
  };
  return schemaGrammar(isForced ? "tools" : FORMAT_FIELDS[wire], {
    ...(!isForced && format.type === "schema" && { schema: format.schema }),
    ...(calls && { calls }),
  });
}

const FORMAT_FIELDS = { chat: "response_format", responses: "text.format", messages: "output_format" } as const;

const namedOnly = (tools: readonly WireTool[], name: string) => tools.filter((tool) => tool.name === name);
