/**
 * Tools and calls as text, in two forms. `qwen` is what Qwen's chat templates write and what its models were trained on: signatures as JSON in a system message, calls and results on
 * lines of their own inside tags. `tags` is plain: tools are described in the prompt, and results are what the user says next (SkyRL). Calls of both are read alike.
 */
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { type Message, type Part, text } from "../../core/message.ts";
import type { Span } from "../protocol.ts";
import type { PromptStyle } from "../world.ts";
import { findBlocks, spanIn, textIn } from "./tags.ts";

export const CALL_TAG = "tool_call";
export const TOOL_FORMS = ["qwen", "tags"] as const;
export type ToolForm = (typeof TOOL_FORMS)[number];

/** What a model is told of a tool; `parameters` is a JSON Schema of an object. */
export type ToolText = { readonly name: string; readonly description: string; readonly parameters: JsonObject };

/** A call as it stands in a reply. */
export type ReadCall = { readonly span: Span } & (
  | { readonly ok: true; readonly name: string; readonly args: Json }
  | { readonly ok: false; readonly problem: string }
);

const FENCE = "```";

/** Every call of a reply, in order. */
export function readCalls(reply: string): ReadCall[] {
  return findBlocks(reply, [CALL_TAG]).map((block) => ({
    span: spanIn(reply, block),
    ...readCall(textIn(reply, block)),
  }));
}

type Call = { readonly ok: true; name: string; args: Json } | { readonly ok: false; readonly problem: string };

/** `{"name", "arguments"}`, or OpenAI's `{"function": {…}}`; arguments may be JSON text, and a code fence is taken off. */
export function readCall(inner: string): Call {
  const call = parseJson(unfenced(inner));
  if (!isJsonObject(call)) return { ok: false, problem: "The call is not a JSON object." };
  const { name, arguments: given = {} } = isJsonObject(call.function) ? call.function : call;
  if (typeof name !== "string") return { ok: false, problem: 'The call has no "name".' };
  return { ok: true, name, args: (typeof given === "string" ? (parseJson(given || "{}") ?? given) : given) ?? {} };
}

/** No pattern for both ends: on a reply of nothing but white space it would try every way to share it out. */
function unfenced(text: string): string {
  const isFenced = text.startsWith(FENCE) && text.endsWith(FENCE) && text.length >= 2 * FENCE.length;
  return isFenced ? text.slice(FENCE.length, -FENCE.length).replace(/^\w+/, "") : text;
}

export function writeCall(name: string, args: Json, form: ToolForm): string {
  const gap = form === "qwen" ? "\n" : "";
  return `<${CALL_TAG}>${gap}${spacedJson({ name, arguments: args })}${gap}</${CALL_TAG}>`;
}

/** The messages with which an episode begins, its tools made known in them. */
export function withTools(
  messages: readonly Message[],
  tools: readonly ToolText[],
  form: ToolForm,
  style: PromptStyle,
): readonly Message[] {
  if (tools.length === 0) return messages;
  const [first, ...rest] = messages;
  if (form === "qwen") {
    // Qwen's template sets its own system text after that of the conversation, in one message.
    if (first?.role !== "system") return [{ role: "system", content: [text(qwenTools(tools))] }, ...messages];
    return [{ ...first, content: [...first.content, text(`\n\n${qwenTools(tools)}`)] }, ...rest];
  }
  const last = messages.findLastIndex(({ role }) => role === "user");
  const told = text(`\n\n${plainTools(tools, style)}`);
  return messages.map((message, i) => (i === last ? { ...message, content: [...message.content, told] } : message));
}

/** Results as the user's next message says them. */
export function resultParts(results: readonly (readonly Part[])[], form: ToolForm): readonly Part[] {
  return results.flatMap((parts, i) => {
    const gap = i > 0 ? [text("\n")] : [];
    return form === "qwen"
      ? [...gap, text("<tool_response>\n"), ...parts, text("\n</tool_response>")]
      : [...gap, ...parts];
  });
}

/** The text of Qwen's chat templates for tools: its models know these very words. */
export function qwenTools(tools: readonly ToolText[]): string {
  const lines = tools.map(
    ({ name, description, parameters }) =>
      `\n${spacedJson({ type: "function", function: { name, description, parameters } })}`,
  );
  return (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
    `You are provided with function signatures within <tools></tools> XML tags:\n<tools>${lines.join("")}\n</tools>\n\n` +
    "For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n" +
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
  );
}

function plainTools(tools: readonly ToolText[], style: PromptStyle): string {
  const call = (tool: ToolText) => writeCall(tool.name, exampleArgs(tool), "tags");
  if (style === "brief") return `Answer ${tools.map(call).join(" or ")}`;
  const list = tools.map(
    (tool) => `- ${tool.name}: ${tool.description} Its arguments, as a JSON Schema: ${spacedJson(tool.parameters)}`,
  );
  return `Tools you can call:\n${list.join("\n")}\n\nTo call one, write ${tools.map(call).join(" or ")} in your reply; what it answers is told to you next.`;
}

/** `{"answer": "…"}`: the names are what matters. */
function exampleArgs({ parameters }: ToolText): Json {
  const properties = isJsonObject(parameters.properties) ? Object.keys(parameters.properties) : [];
  return Object.fromEntries(properties.map((name) => [name, "…"]));
}

/** JSON with a space after each comma and colon, as Python's json writes it, and with it every chat template. */
export function spacedJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(spacedJson).join(", ")}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, item]) => `${JSON.stringify(key)}: ${spacedJson(item)}`)
    .join(", ")}}`;
}

export function parseJson(value: string): Json | undefined {
  try {
    return JSON.parse(value) as Json;
  } catch {
    return undefined;
  }
}
