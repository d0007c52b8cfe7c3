/**
 * A model, or an agent that needs none, on the worlds of the generalist: `npx jiti bench/worlds.ts <model> --out file.json`. One line of JSON a world, as soon as it is played, so
 * that several processes share the worlds (`--worlds a,b`) and nothing is lost. Plays no yardsticks: `agent:stop`, `agent:random` and `agent:oracle` are models here, too.
 * `--seeds 512`, `--level hard`, `--greedy`, `--grey` (every frame grey), `--engine torch`, `--live 64`.
 */
import { createHash } from "node:crypto";
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { sources, WORLDS } from "../recipes/parts/generalist.ts";
import { openEngine } from "../src/engine/index.ts";
import type { BuiltinAgent } from "../src/envs/index.ts";
import { findModel } from "../src/model/index.ts";
import { tokenAgent } from "../src/rollout/agents.ts";
import { builtinAgent } from "../src/rollout/builtin-agents.ts";
import { EnvHost } from "../src/rollout/hosts.ts";
import { figures } from "../src/rollout/play.ts";
import "../worlds/register.ts";

const FIRST_SEED = 1_000_000_000;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: "string", default: "worlds.jsonl" },
    worlds: { type: "string", default: Object.keys(WORLDS).join() },
    seeds: { type: "string", default: "512" },
    level: { type: "string", default: "easy" },
    engine: { type: "string", default: "torch" },
    live: { type: "string", default: "64" },
    greedy: { type: "boolean", default: false },
    grey: { type: "boolean", default: false },
  },
});
const [name = "agent:random"] = positionals;
const seeds = Array.from({ length: Number(values.seeds) }, (_, i) => FIRST_SEED + i);
const level = values.level === "hard" ? "hard" : "easy";

async function player() {
  if (name.startsWith("agent:"))
    return { agent: builtinAgent(name.slice(6) as BuiltinAgent), hash: "", close: async () => {} };
  const { path } = await findModel(name);
  const engine = await openEngine(values.engine === "torch" ? { name: "torch", compile: false } : { name: "native" });
  const [model, sampler] = [await engine.chat(path), await engine.sampler(path)];
  const agent = tokenAgent({
    model,
    sampler: () => sampler,
    temperature: values.greedy ? 0 : 1,
    maxTokens: 32,
    contextTokens: 4096,
    turns: "joined",
  });
  const hash = createHash("sha256")
    .update(readFileSync(join(path, "model.safetensors")))
    .digest("hex")
    .slice(0, 16);
  return { agent, hash, close: () => engine.close() };
}

const { agent, hash, close } = await player();
const host = new EnvHost("inline");
for (const source of sources(level, values.worlds.split(","))) {
  if (!("env" in source)) continue;
  const started = performance.now();
  const options = { ...source.options, ...(values.grey && { blindfold: true }) };
  const { success, turns, reward, unparsed } = await figures({
    agent,
    env: { id: source.env, options },
    seeds,
    host,
    live: Number(values.live),
    retries: 1,
  });
  const seconds = (performance.now() - started) / 1000;
  const row = {
    model: name,
    hash,
    world: source.env,
    greedy: values.greedy,
    grey: values.grey,
    success,
    turns,
    reward,
    unparsed,
    seconds,
  };
  appendFileSync(values.out, `${JSON.stringify(row)}\n`);
  process.stdout.write(`${source.env} ${success.value.toFixed(3)} in ${seconds.toFixed(1)} s\n`);
}
await host.close();
await close();
process.exit(0);
