/**
 * `npm run bench -- serve [minutes = 10] [requests at a time = 512]`: `saccade serve` under load, with a model of the quickstart's size. So many generate requests at a time, each
 * with a name and one of 64 seeds: every one must be answered once, under its own name, and the same seed must give the same ids. Prints the server's memory and its growth over
 * the second half (must be below 1 MiB a minute), latency percentiles and throughput, then, for a minute each, throughput of the same work in process and, where SACCADE_VLLM_PYTHON
 * names an environment with vLLM, of vLLM on this CPU. Servers run in processes of their own, so that their memory is their own; who asks shares the cores with them.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startVllm } from "../src/engine/vllm/launch.ts";
import { startServer } from "../src/serve/server.ts";
import { createFolder, loadRecipe, NativeEngine } from "./saccade.ts";
import "../src/index.ts";

const TOKENS = 16;
const SEEDS = 64;
const PROMPT = Array.from({ length: 48 }, (_, i) => 40 + ((i * 7) % 150));
const [minutes, atOnce] = [Number(process.argv[3] ?? 10), Number(process.argv[4] ?? 512)];

type Load = {
  readonly seconds: number;
  readonly tokens: number;
  readonly latencies: number[];
  readonly faults: string[];
};

/** `ask` gives the ids that a seed draws; keeps `atOnce` of them under way for so long. */
async function load(
  forMinutes: number,
  ask: (seed: number, name: string) => Promise<readonly number[]>,
): Promise<Load> {
  const first = new Map<number, string>();
  const latencies: number[] = [];
  const faults: string[] = [];
  const start = performance.now();
  let asked = 0;
  let tokens = 0;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (performance.now() - start < forMinutes * 60_000) {
        const name = `request-${asked++}`;
        const seed = asked % SEEDS;
        const began = performance.now();
        try {
          const ids = await ask(seed, name);
          latencies.push(performance.now() - began);
          tokens += ids.length;
          const said = String(ids);
          if ((first.get(seed) ?? said) !== said) faults.push(`${name}: seed ${seed} gave other ids than before`);
          first.set(seed, said);
        } catch (error) {
          faults.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
        }
      }
    }),
  );
  if (latencies.length + faults.length < asked) faults.push(`${asked} asked, ${latencies.length} answered`);
  return { seconds: (performance.now() - start) / 1000, tokens, latencies, faults };
}

function overHttp(url: string, model: string): (seed: number, name: string) => Promise<number[]> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: atOnce, timeout: 4000 });
  return async (seed, name) => {
    const params = { max_tokens: TOKENS, min_tokens: 0, ignore_eos: true, temperature: 1, seed, logprobs: 0 };
    const body = JSON.stringify({ model, token_ids: PROMPT, sampling_params: params, request_id: name });
    const { request_id: id, choices } = await post(`${url}/inference/v1/generate`, body, agent);
    if (id !== `generate-tokens-${name}`) throw new Error(`answered as ${id}`);
    return choices[0]?.token_ids ?? [];
  };
}

type Generated = { request_id: string; choices: { token_ids: number[] }[] };

function post(url: string, body: string, agent: http.Agent): Promise<Generated> {
  return new Promise((done, fail) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const request = http.request(url, { method: "POST", agent, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", fail);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        if (response.statusCode === 200) done(JSON.parse(text) as Generated);
        else fail(new Error(`${response.statusCode} ${text.slice(0, 200)}`));
      });
    });
    request.on("error", fail);
    request.end(body);
  });
}

const resident = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;

/** The quickstart's network before it learned anything: what it computes takes as long. */
async function createModel(folder: string): Promise<void> {
  const { model } = loadRecipe("quickstart", {});
  if (typeof model === "string") throw new Error("The quickstart makes its model.");
  await createFolder(folder, { preset: model.preset, seed: 1, ...model.set });
}

function report(name: string, { seconds, tokens, latencies, faults }: Load): number {
  const sorted = [...latencies].sort((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN).toFixed(0);
  const rate = tokens / seconds;
  console.log(
    `| ${name} | ${(seconds / 60).toFixed(1)} | ${latencies.length} | ${faults.length} | ${at(0.5)} | ${at(0.9)} | ${at(0.99)} | ${at(1)} | ${rate.toFixed(0)} |`,
  );
  for (const fault of faults.slice(0, 5)) console.log(`  ${fault}`);
  return rate;
}

/** MiB a minute, by least squares over the second half. */
function growth(points: readonly { minute: number; mib: number }[]): number {
  const late = points.filter(({ minute }) => minute >= minutes / 2);
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(late.map(({ minute }) => minute)), mean(late.map(({ mib }) => mib))];
  const above = late.reduce((sum, { minute, mib }) => sum + (minute - x) * (mib - y), 0);
  const below = late.reduce((sum, { minute }) => sum + (minute - x) ** 2, 0);
  return above / below;
}

async function main(): Promise<void> {
  const root = await mkdtemp(join(tmpdir(), "saccade-bench-serve-"));
  const folder = join(root, "model");
  await createModel(folder);
  const jiti = join(import.meta.dirname, "../node_modules/jiti/lib/jiti-cli.mjs");
  const child = fork(jiti, [import.meta.filename, "serve-child", folder]);
  try {
    const [url] = (await once(child, "message")) as [string];
    const points: { minute: number; mib: number }[] = [];
    const start = performance.now();
    const watch = setInterval(
      () => {
        points.push({ minute: (performance.now() - start) / 60_000, mib: resident(child.pid as number) });
      },
      Math.min(10_000, minutes * 3000),
    );
    const served = await load(minutes, overHttp(url, "policy"));
    clearInterval(watch);
    child.send("close");
    await once(child, "exit");
    const each = points.filter((_, i) => i % Math.ceil(points.length / 10) === 0);
    console.log(
      `Server's memory, MiB: ${each.map(({ minute, mib }) => `${minute.toFixed(1)} min ${mib.toFixed(0)}`).join(", ")}`,
    );
    console.log(`Growth over the second half: ${growth(points).toFixed(2)} MiB a minute (must be below 1).\n`);
    console.log(
      `| ${atOnce} at a time | minutes | answered | faults | p50 ms | p90 | p99 | most | tokens/s |\n|---|---|---|---|---|---|---|---|---|`,
    );
    const rate = report("saccade serve", served);
    if (served.faults.length > 0 || !(growth(points) < 1)) process.exitCode = 1;
    const short = Math.min(minutes, 1);
    const engine = new NativeEngine();
    const sampler = await engine.sampler(folder);
    const near = await load(short, async (seed, name) => {
      const sample = await sampler.sample(
        { ids: Int32Array.from(PROMPT), images: [] },
        // For the rank of what was drawn, which generate tells.
        { maxTokens: TOKENS, temperature: 1, seed, topLogprobs: 1 },
        { sequence: name },
      );
      sampler.release(name);
      return [...sample.ids];
    });
    const inProcess = report("in process", near);
    await engine.close();
    console.log(`\nOver HTTP: ${(rate / inProcess).toFixed(2)} of the same work in process.`);
    const python = process.env.SACCADE_VLLM_PYTHON;
    if (python === undefined) return;
    const vllm = await startVllm({ python, model: folder, contextTokens: 512 });
    try {
      const theirs = report("vLLM, CPU", await load(short, overHttp(vllm.url, vllm.name)));
      console.log(`saccade serve: ${(rate / theirs).toFixed(1)} times vLLM's tokens on this CPU.`);
    } finally {
      await vllm.close();
    }
  } finally {
    child.kill();
    await rm(root, { recursive: true, force: true });
  }
}

async function serveChild(folder: string): Promise<void> {
  const engine = new NativeEngine();
  const server = await startServer({ engine, folder, name: "policy" });
  process.send?.(server.url);
  await once(process, "message");
  await server.close();
  await engine.close();
  process.exit(0);
}

if (process.argv[2] === "serve-child") await serveChild(process.argv[3] as string);
else await main();
