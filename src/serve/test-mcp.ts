/** For tests: what `saccade mcp` runs, from the sources. */
import "../../worlds/register.ts";
import { serveMcp } from "./mcp-server.ts";

await serveMcp({ names: process.argv.slice(2) });
