/** Anthropic's Messages wire. Results of tools are parts of a user's message there and messages of their own here. */
import { z } from "zod";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { badField, readFields, texts } from "./errors.ts";
import { namedTool, readFormat, templateTool } from "./format.ts";
import { MessagesWriter, messagesError } from "./messages-answer.ts";
import type { ToolChoice, Wire, WireRequest, WireTool } from "./wire.ts";

const format = z.looseObject({ type: z.string() }).nullish();
const countedFields = {
  model: z.string().nullish(),
  messages: z.array(
    z.looseObject({
      role: z.enum(["user", "assistant", "system"]),
      content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]),
    }),
  ),
  system: z.union([z.string(), z.array(z.looseObject({ type: z.literal("text"), text: z.string() }))]).nullish(),
  tools: z
    .array(
      z.looseObject({
        type: z.string().nullish(),
        name: z.string(),
        description: z.string().nullish(),
        input_schema: z.looseObject({}).nullish(),
      }),
    )
    .nullish(),
  tool_choice: z
    .looseObject({
      type: z.enum(["auto", "any", "tool", "none"]),
      name: z.string().nullish(),
      disable_parallel_tool_use: z.boolean().nullish(),
    })
    .nullish(),
  thinking: z.looseObject({ type: z.string() }).nullish(),
  output_format: format,
  output_config: z.looseObject({ format }).nullish(),
};
const countSchema = z.looseObject(countedFields);
const schema = z.looseObject({
  ...countedFields,
  max_tokens: z.int().min(1),
  stop_sequences: texts.nullish(),
  stream: z.boolean().nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.int().nullish(),
});
export type MessagesRequest = z.output<typeof schema>;

const REFUSED = ["container", "context_management", "mcp_servers"];

export const messagesWire: Wire = {
  name: "messages",
  parse: (body) => read(readFields(schema, body)),
  error: messagesError,
};

/** What `count_tokens` reads: a request without what only matters to sampling. */
export function readCount(body: unknown): Pick<WireRequest, "model" | "messages" | "options"> {
  const asked = readFields(countSchema, body);
  return read({ ...asked, max_tokens: 1 });
}

function read(asked: MessagesRequest): WireRequest {
  const refused = REFUSED.find((name) => asked[name] !== undefined && asked[name] !== null);
  if (refused !== undefined) throw badField(refused, `${refused} is not supported: leave it out.`);
  const { thinking, system } = asked;
  if (thinking?.type === "enabled") {
    throw badField("thinking", "thinking is not supported: leave it out, or disable it.");
  }
  if (asked.messages.length === 0) throw badField("messages", "messages: at least one message is required.");
  const tools = (asked.tools ?? []).map(readTool);
  const before = typeof system === "string" ? system : (system ?? []).map(({ text }) => text).join("\n");
  const messages: JsonObject[] = before === "" ? [] : [{ role: "system", content: before }];
  for (const [i, message] of asked.messages.entries()) {
    const content = message.content as unknown as string | readonly JsonObject[];
    messages.push(...readMessage(message.role, content, `messages.${i}`));
  }
  // A last message of the assistant's is the beginning of the answer.
  const isPrefilled = asked.messages.at(-1)?.role === "assistant";
  return {
    wire: "messages",
    model: asked.model ?? undefined,
    messages,
    options: {
      ...(isPrefilled && { generationPrompt: false, continueFinal: true }),
      variables: tools.length === 0 ? {} : { tools: tools.map(templateTool) },
    },
    tools,
    toolChoice: toolChoice(asked, tools),
    parallelCalls: asked.tool_choice?.disable_parallel_tool_use !== true,
    format: readFormat("output_format", asked.output_config?.format ?? asked.output_format),
    sampling: {
      max_tokens: asked.max_tokens,
      temperature: asked.temperature,
      top_p: asked.top_p,
      top_k: asked.top_k,
      stop: asked.stop_sequences,
      seed: typeof asked.seed === "number" ? asked.seed : undefined,
    },
    topLogprobs: undefined,
    stream: asked.stream === true,
    writer: new MessagesWriter(),
  };
}

function readTool(given: NonNullable<MessagesRequest["tools"]>[number], index: number): WireTool {
  if (given.type && given.type !== "custom") {
    throw badField(
      "tools",
      `tools.${index}: ${given.type} is a tool of Anthropic's; only tools of your own are served.`,
    );
  }
  const { name, description, input_schema: parameters } = given;
  return { name, ...(description && { description }), ...(parameters && { parameters: parameters as JsonObject }) };
}

function toolChoice({ tool_choice: choice }: MessagesRequest, tools: readonly WireTool[]): ToolChoice {
  if (choice === undefined || choice === null) return "auto";
  if (choice.type === "auto" || choice.type === "none") return choice.type;
  if (tools.length === 0) throw badField("tool_choice", "tool_choice needs tools.");
  return choice.type === "any" ? "required" : namedTool("tool_choice", choice.name ?? "", tools);
}

function readMessage(role: string, content: string | readonly JsonObject[], where: string): JsonObject[] {
  if (typeof content === "string") return [{ role, content }];
  const messages: JsonObject[] = [];
  const parts: JsonObject[] = [];
  const thoughts: string[] = [];
  const calls: JsonObject[] = [];
  for (const [i, block] of content.entries()) {
    const at = `${where}.content.${i}`;
    switch (block.type) {
      case "text":
      case "image":
        parts.push(part(block, at));
        break;
      case "thinking":
        thoughts.push(field(block, "thinking", at));
        break;
      case "redacted_thinking":
        break;
      case "tool_use":
        calls.push({
          id: field(block, "id", at),
          type: "function",
          function: { name: field(block, "name", at), arguments: JSON.stringify(block.input ?? {}) },
        });
        break;
      case "tool_result":
        messages.push({
          role: "tool",
          tool_call_id: field(block, "tool_use_id", at),
          content: resultContent(block.content, at),
          ...(block.is_error === true && { is_error: true }),
        });
        break;
      default:
        throw badField("messages", `${at}: blocks of type ${block.type} are not served here.`);
    }
  }
  if (parts.length > 0 || thoughts.length > 0 || calls.length > 0) {
    messages.push({
      role,
      content: parts.length === 0 ? null : parts,
      ...(thoughts.length > 0 && { reasoning_content: thoughts.join("\n") }),
      ...(calls.length > 0 && { tool_calls: calls }),
    });
  }
  return messages;
}

function resultContent(content: Json | undefined, where: string): Json {
  if (content === undefined || content === null) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw badField("messages", `${where}.content must be text or a list of blocks.`);
  return (content as readonly Json[]).map((block, i) => part(block, `${where}.content.${i}`));
}

function part(block: Json, where: string): JsonObject {
  if (!isJsonObject(block)) throw badField("messages", `${where} must be an object.`);
  if (block.type === "text") return { type: "text", text: field(block, "text", where) };
  if (block.type !== "image") {
    throw badField("messages", `${where}: blocks of type ${block.type} are not served here.`);
  }
  const { source } = block;
  if (!isJsonObject(source) || source.type !== "base64") {
    throw badField("messages", `${where}.source must have the type base64; nothing is downloaded.`);
  }
  const url = `data:${field(source, "media_type", where)};base64,${field(source, "data", where)}`;
  return { type: "image_url", image_url: { url } };
}

function field(block: JsonObject, name: string, where: string): string {
  const value = block[name];
  if (typeof value !== "string") throw badField("messages", `${where}.${name} must be text.`);
  return value;
}
