/**
 * What a judge costs the rollouts: the same episodes with and without one, in turns. Each reply is sampled by the embedded engine (and paid for in time), then a random player's true
 * words take its place, so that every episode has something to judge. The judge asks a local server that speaks Anthropic's wire format, takes BENCH_DELAY milliseconds ("300-900") to answer,
 * and fails one request in eight. `npm run bench -- judge`; BENCH_ROUNDS (3) rounds of BENCH_GROUPS (32) × 8 episodes, the best of each side counts.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { readClaims } from "../src/envs/world-model/reader.ts";
import { TestServer } from "../src/evaluate/test-server.ts";
import { table } from "./peer.ts";
import {
  type AgentFactory,
  builtinAgent,
  chatJudge,
  createFolder,
  EnvHost,
  type Judge,
  openEngine,
  playGroups,
  type Trajectory,
  tokenAgent,
} from "./saccade.ts";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const GROUPS = Number(process.env.BENCH_GROUPS ?? 32);
const [LEAST = 300, MOST = 900] = (process.env.BENCH_DELAY ?? "300-900").split("-").map(Number);
const WORDS = { box: [], target: [] };
const options = { minSolution: 2, protocol: { name: "world-model", thinking: "free", maxActions: 1 }, maxTurns: 6 };

const root = mkdtempSync(join(tmpdir(), "saccade-judge-"));
const folder = join(root, "model");
await createFolder(folder, { preset: "micro" });
const engine = await openEngine("native");
const [model, sampler] = [await engine.chat(folder), await engine.sampler(folder)];
const sampled = tokenAgent({ model, sampler: () => sampler, temperature: 1, maxTokens: 48 });

/** Samples a reply, then says what the speaker says. */
const speaking: AgentFactory = (context) => {
  const speaker = builtinAgent("random")(context);
  return {
    async reply(messages, signal) {
      const one = sampled(context);
      await one.reply(messages.slice(-1), signal);
      one.close?.();
      return speaker.reply(messages, signal);
    },
  };
};

const server = await new TestServer(({ turns }, call) => {
  if (call % 8 === 7) return { status: 500 };
  const texts = [...(turns[0]?.text ?? "").matchAll(/^\d+\. (".*")$/gm)].map(([, json]) => JSON.parse(json as string));
  const lists = texts.map((text: string) =>
    readClaims(text, WORDS).map(({ kind, vertical = null, horizontal = null }) => ({
      thing: kind,
      vertical,
      horizontal,
    })),
  );
  return { text: JSON.stringify(lists), input: 200, output: 50, delayMs: LEAST + ((call * 37) % (MOST - LEAST)) };
}).start();

async function play(round: number, judge?: Judge): Promise<{ seconds: number; episodes: Trajectory[] }> {
  const host = new EnvHost();
  const requests = Array.from({ length: GROUPS }, (_, i) => ({
    env: { id: "sokoban", options },
    seed: 100 * round + i,
    siblings: 8,
  }));
  const episodes: Trajectory[] = [];
  const begun = performance.now();
  const common = { agent: speaking, host, samplingSeed: 1, live: 32 };
  for await (const group of playGroups(requests, { ...common, ...(judge && { judge }) }))
    episodes.push(...group.trajectories);
  const seconds = (performance.now() - begun) / 1000;
  await host.close();
  return { seconds, episodes };
}

await play(0);
const best = { without: Number.POSITIVE_INFINITY, judged: Number.POSITIVE_INFINITY };
const seen = { episodes: 0, failures: 0, requests: 0, retries: 0, inputTokens: 0 };
for (let round = 1; round <= ROUNDS; round++) {
  best.without = Math.min(best.without, (await play(round)).seconds);
  const judge = chatJudge({
    ...server.model("anthropic"),
    env: "sokoban",
    envOptions: options,
    state: 0.05,
    transition: 0.05,
    live: 32,
    backoff: { firstMs: 50, mostMs: 500 },
  });
  const { seconds, episodes } = await play(round, judge);
  best.judged = Math.min(best.judged, seconds);
  const { requests, retries, inputTokens } = judge.usage();
  seen.episodes += episodes.length;
  seen.failures += episodes.filter((episode) => episode.judge?.error !== undefined).length;
  seen.requests += requests;
  seen.retries += retries;
  seen.inputTokens += inputTokens;
}
table(
  ["", "seconds", "ratio"],
  [
    ["rollouts", best.without.toFixed(2), "1"],
    ["rollouts with a judge", best.judged.toFixed(2), (best.judged / best.without).toFixed(3)],
  ],
);
console.log(
  `${seen.episodes} episodes judged, ${seen.failures} without an answer; ${seen.requests} requests, ${seen.retries} of them sent again, ${seen.inputTokens} tokens read; ` +
    `answers took ${LEAST} to ${MOST} ms; load ${loadavg()[0]?.toFixed(1)}`,
);
await sampler.close();
await engine.close();
await server.stop();
rmSync(root, { recursive: true });
