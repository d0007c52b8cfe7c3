/** `saccade serve`: a model folder behind OpenAI's and vLLM's routes, environments behind routes of their own, or both. */
import { readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { type EngineConfig, openEngine } from "../engine/index.ts";
import type { Workers } from "../rollout/index.ts";
import { type ServeServer, startServer } from "../serve/server.ts";
import { chosenModel } from "./chosen-model.ts";
import { collect, isFolder, wholeNumber } from "./common.ts";
import { ENGINE_FLAG } from "./engine.ts";

type Flags = {
  model?: string;
  envs?: string[];
  envWorkers?: Workers;
  envSessions?: number;
  envIdle?: number;
  name?: string;
  host: string;
  port: number;
  engine?: EngineConfig;
  apiKeyFile?: string;
  allowHost: string[];
  store?: string;
  context?: number;
  concurrency?: number;
};

export function serveCommand(): Command {
  return new Command("serve")
    .description("serve a model (OpenAI's routes, vLLM's render and generate), or environments over HTTP")
    .option("--model <folder>", "a model folder, or a run: its best checkpoint")
    .option("--name <text>", "what requests call it (default: the folder's name)")
    .option("--port <n>", "port, 0 for any free one", wholeNumber("--port"), 8000)
    .option("--host <name>", "address to listen on; beyond this machine a key is needed", "127.0.0.1")
    .option("--api-key-file <file>", "file with the key to ask for; else SACCADE_API_KEY, else none")
    .option(
      "--allow-host <name>",
      "a DNS name under which others reach it (a proxy's, *.svc.cluster.local); repeat",
      collect,
      [],
    )
    .option(
      "--store <folder>",
      "where weights and adapters may be loaded from while it runs, and what the Tinker SDK's clients save (default: nowhere)",
    )
    .option(
      "--context <n>",
      "most tokens of a sequence (default: what the model can attend to)",
      wholeNumber("--context", 2),
    )
    .option("--concurrency <n>", "requests at work at a time", wholeNumber("--concurrency", 1))
    .option(...ENGINE_FLAG)
    .option("--envs <names...>", "environments to be played over HTTP: ids, files, or all for the built-in ones")
    .option("--env-workers <kind>", "where they run: inline, threads or processes")
    .option("--env-sessions <n>", "most sessions at a time (default 1024)", wholeNumber("--env-sessions", 1))
    .option(
      "--env-idle <seconds>",
      "close a session after so long without a call (default 1800)",
      wholeNumber("--env-idle", 1),
    )
    .action(runServe);
}

async function runServe(flags: Flags): Promise<void> {
  for (const [flag, folder] of Object.entries({ model: flags.model, store: flags.store })) {
    if (folder !== undefined && !isFolder(folder)) throw new ConfigError(`--${flag}: there is no folder ${folder}.`);
  }
  const { model, envs } = flags;
  if (model === undefined && envs === undefined) {
    throw new ConfigError("Say what to serve: --model with a folder, --envs with names of environments, or both.");
  }
  const key = readKey(flags.apiKeyFile);
  const environments = envs && {
    names: envs,
    ...(flags.envWorkers !== undefined && { workers: flags.envWorkers }),
    ...(flags.envSessions !== undefined && { sessions: flags.envSessions }),
    ...(flags.envIdle !== undefined && { idleSeconds: flags.envIdle }),
  };
  const where = {
    host: flags.host,
    port: flags.port,
    allowHosts: flags.allowHost,
    ...(key !== undefined && { key }),
    ...(flags.store !== undefined && { store: flags.store }),
    ...(environments && { environments }),
  };
  if (model === undefined) return untilStopped(await startServer(where));
  const folder = await chosenModel(model);
  const engine = await openEngine(flags.engine);
  try {
    const server = await startServer({
      ...where,
      engine,
      folder,
      name: flags.name ?? basename(resolve(model)),
      ...(flags.context !== undefined && { contextLength: flags.context }),
      ...(flags.concurrency !== undefined && { concurrency: flags.concurrency }),
    });
    await untilStopped(server);
  } finally {
    await engine.close();
  }
}

async function untilStopped(server: ServeServer): Promise<void> {
  process.stdout.write(`${server.url}\n`);
  await new Promise<void>((done) => {
    process.once("SIGINT", done);
    process.once("SIGTERM", done);
  });
  await server.close();
}

function readKey(file: string | undefined): string | undefined {
  if (file === undefined) return process.env.SACCADE_API_KEY || undefined;
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    throw new ConfigError(`--api-key-file: ${file} can't be read.`);
  }
}
