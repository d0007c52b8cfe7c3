/** Environments as an MCP server on standard input and output, with the official SDK: any assistant that speaks MCP can play them. One connection, one seat. */
import { ConfigError, errorMessage } from "../core/errors.ts";
import { Environments, type EnvironmentsOptions } from "./environments.ts";
import { playTool, playTools } from "./mcp-play.ts";
import { Seat } from "./seat.ts";

/** Serves until the client leaves. */
export async function serveMcp(options: EnvironmentsOptions): Promise<void> {
  const { Server, StdioServerTransport, ListToolsRequestSchema, CallToolRequestSchema } = await loadSdk();
  const environments = new Environments(options);
  const seat = new Seat(environments);
  const server = new Server({ name: "saccade", version: "0.1.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: await playTools(environments) }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => ({
    ...(await playTool(params.name, params.arguments, seat)),
  }));
  const over = new Promise<void>((done) => {
    server.onclose = done;
    process.stdin.once("end", done);
    process.once("SIGINT", done);
    process.once("SIGTERM", done);
  });
  await server.connect(new StdioServerTransport());
  await over;
  await server.close();
  await environments.close();
}

async function loadSdk() {
  try {
    const [{ Server }, { StdioServerTransport }, { ListToolsRequestSchema, CallToolRequestSchema }] = await Promise.all(
      [
        import("@modelcontextprotocol/sdk/server/index.js"),
        import("@modelcontextprotocol/sdk/server/stdio.js"),
        import("@modelcontextprotocol/sdk/types.js"),
      ],
    );
    return { Server, StdioServerTransport, ListToolsRequestSchema, CallToolRequestSchema };
  } catch (error) {
    throw new ConfigError(
      `An MCP server needs the package @modelcontextprotocol/sdk: npm install @modelcontextprotocol/sdk. (${errorMessage(error)})`,
    );
  }
}
