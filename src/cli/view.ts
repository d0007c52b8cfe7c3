/** `saccade view`: the run viewer in the browser. `saccade run pack` writes the same as one page. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import type { Env } from "../envs/index.ts";
import { isLoopback } from "../http/guard.ts";
import { startViewer, type ViewerOptions } from "../viewer/server.ts";
import { chosenModel } from "./chosen-model.ts";
import { API_KEY_FLAG, collect, isFolder, readApiKey, wholeNumber } from "./common.ts";

type Flags = {
  port: number;
  host: string;
  apiKeyFile?: string;
  allowHost: string[];
  env: string[];
  model: string[];
  readOnly?: boolean;
};

const DEFAULT_PORT = 4400;

export function viewCommand(): Command {
  return new Command("view")
    .description("show runs in the browser")
    .argument("[folder]", "a run folder, or a folder of runs (default: runs, else this folder)")
    .option("--port <n>", "port; 0 for any free one", wholeNumber("--port"), DEFAULT_PORT)
    .option("--host <name>", "address to listen on; others than this machine need a key", "127.0.0.1")
    .option(
      API_KEY_FLAG,
      "file with the key that browsers must send (default: SACCADE_API_KEY, else a random one if --host needs it)",
    )
    .option("--allow-host <name>", "DNS name that browsers may use; needs a key (repeat)", collect, [])
    .option("--env <file>", "environment file that people may play (repeat)", collect, [])
    .option(
      "--model <name>",
      "model that may play: a folder, provider:name or url#name, as for `saccade eval` (repeat)",
      collect,
      [],
    )
    .option("--read-only", "refuse all changes: notes, labels, deleting")
    .action(runView);
}

async function runView(given: string | undefined, flags: Flags): Promise<void> {
  const folder = given ?? (existsSync("runs") ? "runs" : ".");
  if (!isFolder(folder)) {
    throw new ConfigError(`There is no folder ${folder}; name a run folder, or a folder of runs.`);
  }
  const { host, port, env: envs, allowHost: allowHosts } = flags;
  const key = readApiKey(flags.apiKeyFile) ?? (isLoopback(host) ? undefined : randomBytes(24).toString("base64url"));
  const viewer = await startViewer({
    ...{ folder, host, port, envs, allowHosts, readOnly: flags.readOnly === true },
    hosted: await hostedModels(flags.model),
    ...(key !== undefined && { key }),
  });
  process.stdout.write(`${viewer.url}\n`);
  await new Promise<void>((done) => {
    process.once("SIGINT", done);
    process.once("SIGTERM", done);
  });
  await viewer.close();
}

/** Models of the command line. What they need is loaded when the first of them moves. */
async function hostedModels(given: readonly string[]): Promise<NonNullable<ViewerOptions["hosted"]>> {
  if (given.length === 0) return { names: [], folders: new Map(), open: unknownModel };
  const { openModel, parseModel } = await import("../evaluate/index.ts");
  const [names, folders] = [[] as string[], new Map<string, string>()];
  for (const name of given) {
    const spec = parseModel(name);
    if (spec.kind === "folder") folders.set(name, await chosenModel(name));
    else if (spec.kind === "agent") throw new ConfigError(`${name} is no model; the page has buttons for it.`);
    else names.push(name);
  }
  return {
    names,
    folders,
    async open(name) {
      const model = await openModel(name);
      return {
        reply: (messages, signal) => model.agent(NO_CONTEXT).reply(messages, signal),
        close: () => model.close(),
      };
    },
  };
}

/** A hosted model knows nothing of the episode but the conversation. */
const NO_CONTEXT = { env: {} as Env, seed: 0, sibling: 0, samplingSeed: 0 };

async function unknownModel(name: string): Promise<never> {
  throw new ConfigError(`There is no model "${name}" here; start the viewer with --model ${name}.`);
}
