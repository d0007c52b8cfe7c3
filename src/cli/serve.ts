/** `saccade serve`: a model folder behind OpenAI's and vLLM's routes. */
import { readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { type EngineConfig, openEngine } from "../engine/index.ts";
import { startServer } from "../serve/server.ts";
import { ENGINE_FLAG, isFolder, wholeNumber } from "./common.ts";

type Flags = {
  model: string;
  name?: string;
  host: string;
  port: number;
  engine?: EngineConfig;
  apiKeyFile?: string;
  store?: string;
  context?: number;
  concurrency?: number;
};

export function serveCommand(): Command {
  return new Command("serve")
    .description("serve a model: OpenAI's routes, vLLM's render and generate")
    .requiredOption("--model <folder>", "a model folder, such as a checkpoint's policy/")
    .option("--name <text>", "what requests call it (default: the folder's name)")
    .option("--port <n>", "port, 0 for any free one", wholeNumber("--port"), 8000)
    .option("--host <name>", "address to listen on; beyond this machine a key is needed", "127.0.0.1")
    .option("--api-key-file <file>", "file with the key to ask for; else SACCADE_API_KEY, else none")
    .option("--store <folder>", "where weights and adapters may be loaded from while it runs (default: nowhere)")
    .option(
      "--context <n>",
      "most tokens of a sequence (default: what the model can attend to)",
      wholeNumber("--context", 2),
    )
    .option("--concurrency <n>", "requests at work at a time", wholeNumber("--concurrency", 1))
    .option(...ENGINE_FLAG)
    .action(runServe);
}

async function runServe(flags: Flags): Promise<void> {
  for (const [flag, folder] of Object.entries({ model: flags.model, store: flags.store })) {
    if (folder !== undefined && !isFolder(folder)) throw new ConfigError(`--${flag}: there is no folder ${folder}.`);
  }
  const key = readKey(flags.apiKeyFile);
  const engine = await openEngine(flags.engine);
  try {
    const server = await startServer({
      engine,
      folder: flags.model,
      name: flags.name ?? basename(resolve(flags.model)),
      host: flags.host,
      port: flags.port,
      ...(key !== undefined && { key }),
      ...(flags.store !== undefined && { store: flags.store }),
      ...(flags.context !== undefined && { contextLength: flags.context }),
      ...(flags.concurrency !== undefined && { concurrency: flags.concurrency }),
    });
    process.stdout.write(`${server.url}\n`);
    await new Promise<void>((done) => {
      process.once("SIGINT", done);
      process.once("SIGTERM", done);
    });
    await server.close();
  } finally {
    await engine.close();
  }
}

function readKey(file: string | undefined): string | undefined {
  if (file === undefined) return process.env.SACCADE_API_KEY || undefined;
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    throw new ConfigError(`--api-key-file: ${file} can't be read.`);
  }
}
