/**
 * OpenAI's Responses wire. A conversation is a list of items; those that one reply of the model made (text, calls, what it thought) are one message of ours.
 * Clients may name items and whole responses of earlier answers instead of sending them again: `ResponseMemory` holds the latest ones.
 */
import { z } from "zod";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { apiErrorResponse, badField, readFields, texts } from "./errors.ts";
import { namedTool, readFormat, templateTool } from "./format.ts";
import { ResponseWriter } from "./responses-answer.ts";
import type { ResponseMemory } from "./responses-memory.ts";
import { samplingFields } from "./sampling.ts";
import type { ToolChoice, Wire, WireRequest, WireTool } from "./wire.ts";

const flag = z.boolean().nullish();
const { max_tokens: _, response_format: __, n: ___, ...sampling } = samplingFields;
const schema = z.looseObject({
  ...sampling,
  model: z.string().nullish(),
  input: z.union([z.string(), z.array(z.looseObject({}))]),
  instructions: z.string().nullish(),
  max_output_tokens: z.int().nullish(),
  stream: flag,
  store: flag,
  tools: z.array(z.looseObject({ type: z.string() })).nullish(),
  tool_choice: z.union([z.string(), z.looseObject({ type: z.string() })]).nullish(),
  parallel_tool_calls: flag,
  text: z.looseObject({ format: z.looseObject({}).nullish() }).nullish(),
  include: texts.nullish(),
  top_logprobs: z.int().min(0).nullish(),
  previous_response_id: z.string().nullish(),
  truncation: z.string().nullish(),
  metadata: z.record(z.string(), z.unknown()).nullish(),
});
export type ResponsesRequest = z.output<typeof schema>;

/** Fields that would change the answer and can't be served, and the values of them that change nothing. */
const REFUSED: Readonly<Record<string, (value: unknown) => boolean>> = {
  background: (value) => value === false,
  conversation: () => false,
  prompt: () => false,
  max_tool_calls: () => false,
  truncation: (value) => value === "disabled",
  n: (value) => value === 1,
};
/** Of `include`: reasoning has nothing encrypted here, so asking for that changes nothing. */
const INCLUDES = ["message.output_text.logprobs", "reasoning.encrypted_content"];

export function responsesWire(memory: ResponseMemory): Wire {
  return { name: "responses", parse: (body) => read(readFields(schema, body), memory), error: apiErrorResponse };
}

function read(asked: ResponsesRequest, memory: ResponseMemory): WireRequest {
  for (const [name, isNeutral] of Object.entries(REFUSED)) {
    const value = asked[name];
    if (value === undefined || value === null || isNeutral(value)) continue;
    throw badField(name, `${name} is not supported: leave it out.`);
  }
  const unknown = asked.include?.find((one) => !INCLUDES.includes(one));
  if (unknown !== undefined) {
    throw badField("include", `include: ${unknown} is not supported; supported: ${INCLUDES.join(", ")}.`);
  }
  const tools = (asked.tools ?? []).map(readTool);
  const items = inputItems(asked, memory);
  const { instructions } = asked;
  const system: JsonObject[] = instructions ? [{ role: "system", content: instructions }] : [];
  const messages = [...system, ...itemMessages(items)];
  if (messages.length === 0) throw badField("input", "A conversation needs at least one message.");
  const wantsLogprobs = asked.include?.includes("message.output_text.logprobs") === true;
  return {
    wire: "responses",
    model: asked.model ?? undefined,
    messages,
    options: { variables: tools.length === 0 ? {} : { tools: tools.map(templateTool) } },
    tools,
    toolChoice: toolChoice(asked, tools),
    parallelCalls: asked.parallel_tool_calls ?? true,
    format: readFormat("text.format", asked.text?.format),
    sampling: { ...asked, max_tokens: asked.max_output_tokens, n: 1 },
    topLogprobs: wantsLogprobs || asked.top_logprobs ? (asked.top_logprobs ?? 0) : undefined,
    stream: asked.stream === true,
    writer: new ResponseWriter(asked, items, memory),
  };
}

const toolSchema = z.looseObject({
  name: z.string(),
  description: z.string().nullish(),
  parameters: z.looseObject({}).nullish(),
});

function readTool(given: { readonly type: string }, index: number): WireTool {
  if (given.type !== "function") {
    throw badField("tools", `tools.${index}: ${given.type} is a tool of OpenAI's; only functions are served here.`);
  }
  const { name, description, parameters } = readFields(toolSchema, given, `body.tools.${index}`);
  return {
    name,
    ...(description && { description }),
    ...(parameters && { parameters: parameters as JsonObject }),
  };
}

function toolChoice({ tool_choice: choice }: ResponsesRequest, tools: readonly WireTool[]): ToolChoice {
  if (choice === undefined || choice === null) return "auto";
  if (choice === "none") return choice;
  // OpenAI takes auto without tools, and the AI SDK sends it.
  if (choice === "auto") return choice;
  if (tools.length === 0) throw badField("tool_choice", "tool_choice needs tools.");
  if (choice === "required") return choice;
  if (isJsonObject(choice) && choice.type === "function" && typeof choice.name === "string") {
    return namedTool("tool_choice", choice.name, tools);
  }
  throw badField("tool_choice", "tool_choice must be none, auto, required or the name of a function.");
}

/** The whole conversation as items, with those that were named put in. */
function inputItems(asked: ResponsesRequest, memory: ResponseMemory): JsonObject[] {
  const { input, previous_response_id: previous } = asked;
  const given: JsonObject[] =
    typeof input === "string"
      ? [{ type: "message", role: "user", content: input }]
      : (input as unknown as JsonObject[]).map((item) => {
          if (item.type !== "item_reference") return item;
          const known = memory.item(String(item.id));
          if (known !== undefined) return known;
          throw badField("input", `Item ${item.id} is not known any more: send the item itself (store: false does).`);
        });
  if (previous === undefined || previous === null) return given;
  const before = memory.conversation(previous);
  if (before === undefined) {
    throw badField("previous_response_id", `Response ${previous} is not known any more: send the whole input.`);
  }
  return [...before, ...given];
}

type Turn = { text: Json[]; thoughts: string[]; calls: JsonObject[] };

function itemMessages(items: readonly JsonObject[]): JsonObject[] {
  const messages: JsonObject[] = [];
  let turn: Turn | undefined;
  const assistant = () => {
    turn ??= { text: [], thoughts: [], calls: [] };
    return turn;
  };
  const close = () => {
    if (turn === undefined) return;
    const { text, thoughts, calls } = turn;
    turn = undefined;
    messages.push({
      role: "assistant",
      content: text.length === 0 ? null : text,
      ...(thoughts.length > 0 && { reasoning_content: thoughts.join("\n") }),
      ...(calls.length > 0 && { tool_calls: calls }),
    });
  };
  for (const [i, item] of items.entries()) {
    const where = `input.${i}`;
    switch (item.type ?? "message") {
      case "message": {
        if (item.role === "assistant") {
          // Text after a call is another reply.
          if (turn !== undefined && turn.calls.length > 0) close();
          assistant().text.push(...contentParts(item.content, where));
          break;
        }
        close();
        if (typeof item.role !== "string") throw badField("input", `${where}: a message needs a role.`);
        messages.push({
          role: item.role,
          content: typeof item.content === "string" ? item.content : contentParts(item.content, where),
        });
        break;
      }
      case "function_call":
        assistant().calls.push({
          id: field(item, "call_id", where),
          type: "function",
          function: { name: field(item, "name", where), arguments: field(item, "arguments", where) },
        });
        break;
      case "function_call_output":
        close();
        messages.push({
          role: "tool",
          tool_call_id: field(item, "call_id", where),
          content: typeof item.output === "string" ? item.output : contentParts(item.output, where),
        });
        break;
      case "reasoning": {
        if (turn !== undefined && (turn.text.length > 0 || turn.calls.length > 0)) close();
        const written = [item.content, item.summary].find((list) => Array.isArray(list) && list.length > 0);
        for (const part of (written ?? []) as readonly Json[]) {
          if (isJsonObject(part) && typeof part.text === "string") assistant().thoughts.push(part.text);
        }
        break;
      }
      default:
        throw badField("input", `${where}: items of type ${item.type} are not served here.`);
    }
  }
  close();
  return messages;
}

function field(item: JsonObject, name: string, where: string): string {
  const value = item[name];
  if (typeof value !== "string") throw badField("input", `${where}.${name} must be text.`);
  return value;
}

/** Parts in the chat form. */
function contentParts(content: Json | undefined, where: string): JsonObject[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (!Array.isArray(content)) throw badField("input", `${where}: content must be text or a list of parts.`);
  return (content as readonly Json[]).map((part, i) => {
    const at = `${where}.content.${i}`;
    if (!isJsonObject(part)) throw badField("input", `${at} must be an object.`);
    switch (part.type) {
      case "input_text":
      case "output_text":
      case "text":
        return { type: "text", text: field(part, "text", at) };
      case "refusal":
        return { type: "text", text: field(part, "refusal", at) };
      case "input_image": {
        if (typeof part.image_url !== "string") {
          throw badField("input", `${at}: an image is a data URI in image_url; files by their id are not served here.`);
        }
        return { type: "image_url", image_url: { url: part.image_url, ...textField(part, "detail") } };
      }
      default:
        throw badField("input", `${at}: parts of type ${part.type} are not served here.`);
    }
  });
}

function textField(part: JsonObject, name: string): JsonObject {
  const value = part[name];
  return typeof value === "string" ? { [name]: value } : {};
}
