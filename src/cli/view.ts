/** `saccade view`: the run viewer in the browser. `saccade run pack` writes the same as one page. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { isLoopback } from "../http/guard.ts";
import { startViewer } from "../viewer/server.ts";
import { API_KEY_FLAG, collect, isFolder, readApiKey, wholeNumber } from "./common.ts";

type Flags = { port: number; host: string; apiKeyFile?: string; allowHost: string[]; env: string[] };

const DEFAULT_PORT = 4400;

export function viewCommand(): Command {
  return new Command("view")
    .description("look at runs in the browser")
    .argument("[folder]", "a run folder, or a folder of runs (default: runs, else this folder)")
    .option("--port <n>", "port, 0 for any free one", wholeNumber("--port"), DEFAULT_PORT)
    .option("--host <name>", "address to listen on; beyond this machine a key is needed", "127.0.0.1")
    .option(API_KEY_FLAG, "file with the key to ask for; else SACCADE_API_KEY, else a random one where --host needs it")
    .option("--allow-host <name>", "a DNS name under which others reach it; needs a key (repeat)", collect, [])
    .option("--env <file>", "an environment's file that may be played (repeat)", collect, [])
    .action(runView);
}

async function runView(given: string | undefined, flags: Flags): Promise<void> {
  const folder = given ?? (existsSync("runs") ? "runs" : ".");
  if (!isFolder(folder)) {
    throw new ConfigError(`There is no folder ${folder}; name a run folder, or a folder of runs.`);
  }
  const { host, port, env: envs, allowHost: allowHosts } = flags;
  const key = readApiKey(flags.apiKeyFile) ?? (isLoopback(host) ? undefined : randomBytes(24).toString("base64url"));
  const viewer = await startViewer({ folder, host, port, envs, allowHosts, ...(key !== undefined && { key }) });
  process.stdout.write(`${viewer.url}\n`);
  await new Promise<void>((done) => {
    process.once("SIGINT", done);
    process.once("SIGTERM", done);
  });
  await viewer.close();
}
