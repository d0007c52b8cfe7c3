/**
 * Tools of an MCP server (Model Context Protocol, the official SDK) as tools of a task. Each environment has a server process of its own, so that a server with
 * state keeps it for one episode's player; it ends with the environment. Text and images of a result are shown as such. A call that the server refuses is told
 * to the model; a server that dies or hangs makes the episode fail.
 */
import { ConfigError, EnvError, errorMessage } from "../core/errors.ts";
import { isJsonObject, type JsonObject } from "../core/json.ts";
import { image, type Part, text } from "../core/message.ts";
import { given } from "../core/words.ts";
import { decodeImage } from "../images/decode.ts";
import type { Tool, ToolOutcome } from "./tools.ts";

/** The command of a server on standard input and output, or that with more. */
export type McpServer =
  | readonly string[]
  | {
      readonly command: readonly string[];
      /** Which of its tools; default: all. */
      readonly tools?: readonly string[];
      /** Environment variables of the process, beyond a few harmless ones. */
      readonly env?: Readonly<Record<string, string>>;
      /** Time limit of a call, in milliseconds; default 60,000. */
      readonly timeoutMs?: number;
    };

export type McpTools = { readonly tools: readonly Tool<never>[]; close(): Promise<void> };

const MAX_PIXELS = 16 * 1024 * 1024;
/** A server may be downloaded before it starts. */
const START_MS = 60_000;
/** JSON-RPC: the request was read and refused. */
const REFUSALS = [-32601, -32602, -32603];

export function checkMcp(mcp: unknown, label: string): void {
  const command = Array.isArray(mcp) ? mcp : isJsonObject(mcp) ? mcp.command : undefined;
  const isCommand = Array.isArray(command) && command.length > 0 && command.every((word) => typeof word === "string");
  if (isCommand) return;
  throw new ConfigError(
    `${label}: mcp must be a server's command, such as ["npx", "some-server"], or { command, tools, env, timeoutMs }; got ${given(mcp)}.`,
  );
}

/** Starts the server and asks for its tools. */
export async function openMcp(mcp: McpServer, label: string): Promise<McpTools> {
  const { command, tools: wanted, env, timeoutMs: timeout = 60_000 } = "command" in mcp ? mcp : { command: mcp };
  const { Client, StdioClientTransport } = await loadSdk(label);
  const [program, ...args] = command as [string, ...string[]];
  const transport = new StdioClientTransport({
    command: program,
    args,
    stderr: "ignore",
    ...(env && { env: { ...(process.env as Record<string, string>), ...env } }),
  });
  const client = new Client({ name: "saccade", version: "0.1.0" });
  // Servers that print to standard output by mistake go on; what they sent explains an answer that never comes.
  const heard: Heard = {};
  client.onerror = (error) => {
    heard.fault = errorMessage(error).slice(0, 300);
  };
  try {
    const startMs = Math.max(timeout, START_MS);
    await client.connect(transport, { timeout: startMs });
    const listed = await listTools(client, startMs);
    const missing = wanted?.find((name) => !listed.some((tool) => tool.name === name));
    if (missing !== undefined) {
      throw new ConfigError(
        `${label}: the MCP server has no tool "${missing}"; it has ${listed.map(({ name }) => name).join(", ")}.`,
      );
    }
    const tools = listed.filter(({ name }) => wanted === undefined || wanted.includes(name));
    return {
      tools: tools.map(({ name, description, inputSchema }) => ({
        name,
        description: description ?? name,
        parameters: parametersOf(inputSchema as JsonObject),
        call: (args) => call(client, name, args, timeout, label, heard),
      })),
      close: () => client.close(),
    };
  } catch (error) {
    await client.close().catch(() => undefined);
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(`${label}: the MCP server ${command.join(" ")} could not be started: ${errorMessage(error)}`);
  }
}

async function loadSdk(label: string) {
  try {
    const [{ Client }, { StdioClientTransport }] = await Promise.all([
      import("@modelcontextprotocol/sdk/client/index.js"),
      import("@modelcontextprotocol/sdk/client/stdio.js"),
    ]);
    return { Client, StdioClientTransport };
  } catch (error) {
    throw new ConfigError(
      `${label}: tools of an MCP server need the package @modelcontextprotocol/sdk: npm install @modelcontextprotocol/sdk. (${errorMessage(error)})`,
    );
  }
}

type Client = InstanceType<Awaited<ReturnType<typeof loadSdk>>["Client"]>;

async function listTools(client: Client, timeout: number) {
  const tools = [];
  let cursor: string | undefined;
  do {
    const page = await client.listTools(cursor === undefined ? {} : { cursor }, { timeout });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return tools;
}

/** What chat templates show of a schema. */
function parametersOf({ $schema: _, additionalProperties: __, ...schema }: JsonObject): JsonObject {
  return schema;
}

/** The last thing that the server sent and nobody could read. */
type Heard = { fault?: string };

async function call(
  client: Client,
  name: string,
  args: unknown,
  timeout: number,
  label: string,
  heard: Heard,
): Promise<ToolOutcome> {
  delete heard.fault;
  if (!isJsonObject(args)) return problem(`The arguments of ${name} must be a JSON object.`);
  let result: Awaited<ReturnType<Client["callTool"]>>;
  try {
    result = await client.callTool({ name, arguments: args }, undefined, { timeout });
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (typeof code === "number" && REFUSALS.includes(code)) return problem(`${name} failed: ${errorMessage(error)}`);
    const sent = heard.fault === undefined ? "" : ` It sent something that is no answer: ${heard.fault}`;
    throw new EnvError(`${label}: the MCP server did not answer ${name}: ${errorMessage(error)}.${sent}`);
  }
  const said = await partsOf(result);
  return { said, problem: result.isError === true, rewards: [], done: false };
}

function problem(message: string): ToolOutcome {
  return { said: [text(`Error: ${message}`)], problem: true, rewards: [], done: false };
}

async function partsOf({ content, structuredContent }: Awaited<ReturnType<Client["callTool"]>>): Promise<Part[]> {
  const parts: Part[] = [];
  for (const one of (Array.isArray(content) ? content : []) as readonly JsonObject[]) parts.push(await partOf(one));
  if (parts.length > 0) return parts;
  return [text(structuredContent === undefined ? "(nothing)" : JSON.stringify(structuredContent))];
}

async function partOf(content: JsonObject): Promise<Part> {
  switch (content.type) {
    case "text":
      return text(String(content.text));
    case "image":
      try {
        return image(await decodeImage(Buffer.from(String(content.data), "base64"), MAX_PIXELS));
      } catch (error) {
        return text(`(an image of type ${String(content.mimeType)} that can't be shown: ${errorMessage(error)})`);
      }
    case "resource": {
      const { text: words, uri } = content.resource as { text?: string; uri?: string };
      return text(words ?? `(resource ${uri})`);
    }
    case "resource_link":
      return text(`(resource ${String(content.uri)})`);
    default:
      return text(`(content of type ${String(content.type)})`);
  }
}
