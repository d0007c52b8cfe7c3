/** `saccade mcp`: environments as tools of an assistant, over standard input and output. Nothing else may be printed there. */
import { Command } from "commander";
import { serveMcp } from "../serve/mcp-server.ts";

export function mcpCommand(): Command {
  return new Command("mcp")
    .description("let an assistant play environments: an MCP server on standard input and output")
    .argument("<envs...>", "ids, files, or all for the built-in ones")
    .action((names: string[]) => serveMcp({ names }));
}
