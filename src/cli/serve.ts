/** `saccade serve`: a model folder behind OpenAI's and vLLM's routes, environments behind routes of their own, or both. */
import { basename, resolve } from "node:path";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { printable } from "../core/printable.ts";
import { mixSeed } from "../core/seed.ts";
import { type EngineConfig, openEngine } from "../engine/index.ts";
import { oracleReply } from "../envs/agent.ts";
import { loadOracles } from "../envs/program.ts";
import { openModel } from "../evaluate/index.ts";
import type { AgentFactory, Workers } from "../rollout/index.ts";
import { type ServeServer, startServer } from "../serve/server.ts";
import { chosenModel } from "./chosen-model.ts";
import { API_KEY_FLAG, collect, isFolder, readApiKey, wholeNumber } from "./common.ts";
import { ENGINE_FLAG } from "./engine.ts";

type Flags = {
  envs?: string[];
  openenv?: boolean;
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
  contextTokens?: number;
  concurrency?: number;
  record?: string;
  upstream?: string;
  maxTokens?: number;
  recordIdle?: number;
};

export function serveCommand(): Command {
  return new Command("serve")
    .description("serve a model or environments over HTTP")
    .argument("[model]", "a model folder, a run (its best checkpoint), or a model that comes with Saccade (maze-2d)")
    .option("--name <text>", "the model's name in requests (default: the folder's name)")
    .option("--port <n>", "port; 0 for any free one", wholeNumber("--port"), 8000)
    .option("--host <name>", "address to listen on; others than this machine need a key", "127.0.0.1")
    .option(API_KEY_FLAG, "file with the key that clients must send (default: SACCADE_API_KEY, else none)")
    .option(
      "--allow-host <name>",
      "DNS name that clients may use, such as *.svc.cluster.local; needs a key (repeat)",
      collect,
      [],
    )
    .option("--store <folder>", "folder that clients may load weights from and save to (default: none)")
    .option(
      "--context-tokens <n>",
      "longest sequence, in tokens (default: the model's context)",
      wholeNumber("--context-tokens", 2),
    )
    .option("--concurrency <n>", "maximum number of requests in progress", wholeNumber("--concurrency", 1))
    .option(...ENGINE_FLAG)
    .option("--record <folder>", "store each agent's episode in this run folder")
    .option(
      "--upstream <model>",
      "with --record: answer with provider:name, url#name, or an oracle's file (./oracle.ts) instead of a model folder",
    )
    .option(
      "--max-tokens <n>",
      "with --record: maximum length of an answer, in tokens (default 512; 4096 for hosted models)",
      wholeNumber("--max-tokens", 1),
    )
    .option(
      "--record-idle <seconds>",
      "with --record: end an episode after this many seconds without a request (default 1800)",
      wholeNumber("--record-idle", 1),
    )
    .option("--envs <names...>", "environments to serve: ids, files, or all for the built-in ones")
    .option("--openenv", "also serve the environments to OpenEnv clients")
    .option("--env-workers <kind>", "where environments run: inline, threads or processes")
    .option("--env-sessions <n>", "maximum number of sessions (default 1024)", wholeNumber("--env-sessions", 1))
    .option(
      "--env-idle <seconds>",
      "close a session after this many seconds without a call (default 1800)",
      wholeNumber("--env-idle", 1),
    )
    .action(runServe);
}

async function runServe(model: string | undefined, flags: Flags): Promise<void> {
  const { envs, store } = flags;
  if (store !== undefined && !isFolder(store)) throw new ConfigError(`--store: there is no folder ${store}.`);
  if (flags.record !== undefined) return recordEpisodes(model, flags, flags.record);
  if (flags.upstream !== undefined)
    throw new ConfigError(
      "--upstream answers in place of a model while --record writes the episodes: name its folder.",
    );
  if (model === undefined && envs === undefined) {
    throw new ConfigError("Say what to serve: a model, --envs with names of environments, or both.");
  }
  if (flags.openenv && envs === undefined)
    throw new ConfigError("--openenv serves environments: name them with --envs.");
  const key = readApiKey(flags.apiKeyFile);
  const environments = envs && {
    names: envs,
    openenv: flags.openenv === true,
    ...(flags.envWorkers !== undefined && { workers: flags.envWorkers }),
    ...(flags.envSessions !== undefined && { sessions: flags.envSessions }),
    ...(flags.envIdle !== undefined && { idleSeconds: flags.envIdle }),
  };
  const where = {
    host: flags.host,
    port: flags.port,
    allowHosts: flags.allowHost,
    ...(key !== undefined && { key }),
    ...(store !== undefined && { store }),
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
      ...(flags.contextTokens !== undefined && { contextTokens: flags.contextTokens }),
      ...(flags.concurrency !== undefined && { concurrency: flags.concurrency }),
    });
    await untilStopped(server);
  } finally {
    await engine.close();
  }
}

async function recordEpisodes(model: string | undefined, flags: Flags, folder: string): Promise<void> {
  const { upstream, maxTokens, recordIdle: idleSeconds } = flags;
  if ((model === undefined) === (upstream === undefined))
    throw new ConfigError("--record needs one who answers: a model, or --upstream.");
  const other = (["store", "envs"] as const).find((name) => flags[name] !== undefined);
  if (other !== undefined) throw new ConfigError(`--record serves the chat routes alone: leave --${other} out.`);
  const key = readApiKey(flags.apiKeyFile);
  const answers = await recordedModel(upstream, model, flags);
  try {
    const server = await startServer({
      ...{ host: flags.host, port: flags.port, allowHosts: flags.allowHost, ...(key !== undefined && { key }) },
      record: { folder, model: answers, ...(idleSeconds !== undefined && { idleSeconds }) },
    });
    await untilStopped(server);
  } finally {
    await answers.close();
  }

  async function recordedModel(hosted: string | undefined, own: string | undefined, { engine }: Flags) {
    const length = maxTokens === undefined ? {} : { maxTokens };
    if (hosted === undefined) {
      // The plain distribution: what is recorded can be trained on.
      const settings = { ...length, temperature: 1, ...(engine !== undefined && { engine }) };
      return openModel(await chosenModel(own as string), settings);
    }
    if (/\.[cm]?[jt]s$/.test(hosted)) return oracleModel(hosted);
    if (hosted.startsWith("agent:"))
      throw new ConfigError(
        "--upstream agent:… needs an environment: name a file with an oracle, such as ./oracle.ts.",
      );
    return openModel(hosted, {
      ...length,
      onTrouble: (reason) => process.stderr.write(`${hosted}: ${printable(reason)}; trying again\n`),
    });
  }
}

/** A file with `{ oracle }`, which answers by what it reads in the messages. */
function oracleModel(file: string) {
  const oracles = loadOracles(file);
  const agent: AgentFactory = ({ seed }) => ({
    reply: () => Promise.reject(new ConfigError("An oracle of this kind answers requests alone.")),
    converse: () => ({
      kind: "text",
      async answer({ messages }) {
        const asked = { seed, draw: mixSeed("upstream", seed, messages.length), messages };
        return { text: (await oracleReply(oracles, "oracle", null, asked)) ?? "", cut: false };
      },
    }),
  });
  return { name: basename(file), identity: { oracle: basename(file) }, agent, close: async () => {} };
}

async function untilStopped(server: ServeServer): Promise<void> {
  process.stdout.write(`${server.url}\n`);
  await new Promise<void>((done) => {
    process.once("SIGINT", done);
    process.once("SIGTERM", done);
  });
  await server.close();
}
