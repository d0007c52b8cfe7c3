/**
 * What a judge costs. It asks a local server that speaks Anthropic's wire format, takes BENCH_DELAY milliseconds ("300-900") to answer, and fails one request in eight.
 * Rollouts: the same episodes with and without one, in turns. Each reply is sampled by the native engine (and paid for in time), then a random player's true words take its place, so that
 * every episode has something to judge; BENCH_ROUNDS (3) rounds of BENCH_GROUPS (32) × 8 episodes, the best of each side counts.
 * Steps: `sokoban-wm-both` after a short warm start, paid by the judge instead of the program, synchronous and one step stale; the median of BENCH_STEPS (12) steps.
 * `npm run bench -- judge`
 */
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { worldModelling } from "../recipes/parts/world-modelling.ts";
import { worldModelOf } from "../src/envs/registry.ts";
import { readText } from "../src/envs/world-model/reader.ts";
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
  type PlayedGroup,
  playGroups,
  type RunEvent,
  resolveRecipe,
  type Trajectory,
  tokenAgent,
  train,
} from "./saccade.ts";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const STEPS = Number(process.env.BENCH_STEPS ?? 12);
const GROUPS = Number(process.env.BENCH_GROUPS ?? 32);
const [MIN_MS = 300, MAX_MS = 900] = (process.env.BENCH_DELAY ?? "300-900").split("-").map(Number);
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

const { view } = await worldModelOf("sokoban", options);
const server = await new TestServer(({ turns }, call) => {
  if (call % 8 === 7) return { status: 500 };
  const texts = [...(turns[0]?.text ?? "").matchAll(/^\d+\. (".*")$/gm)].map(([, json]) => JSON.parse(json as string));
  const lists = texts.map((text: string) =>
    readText(text, view).claims.map(({ kind, at }) => ({
      thing: kind,
      place: at.map((place, axis) => (place === undefined ? null : view.axes[axis]?.[place])),
    })),
  );
  return { text: JSON.stringify(lists), input: 200, output: 50, delayMs: MIN_MS + ((call * 37) % (MAX_MS - MIN_MS)) };
}).start();

type Played = { readonly seconds: number; readonly paidAfter: number; readonly episodes: readonly Trajectory[] };

/** Seconds until every episode was played, and until every one was paid. */
async function play(round: number, judge?: Judge): Promise<Played> {
  const host = new EnvHost();
  const requests = Array.from({ length: GROUPS }, (_, i) => ({
    env: { id: "sokoban", options },
    seed: 100 * round + i,
    siblings: 8,
  }));
  const groups: (PlayedGroup | Promise<PlayedGroup>)[] = [];
  const begun = performance.now();
  const since = () => (performance.now() - begun) / 1000;
  let [seconds, paidAfter] = [0, 0];
  const paying = judge && { judge, judgeBehind: true };
  const last = requests.length;
  const episodes: Trajectory[] = [];
  for await (const group of playGroups(requests, { agent: speaking, host, samplingSeed: 1, live: 32, ...paying })) {
    groups.push(group.judged ?? group);
    if (groups.length < last) continue;
    seconds = since();
    // Inside the loop: what is still judged when it ends is no longer wanted.
    for (const { trajectories } of await Promise.all(groups)) episodes.push(...trajectories);
    paidAfter = since();
  }
  await host.close();
  return { seconds, paidAfter, episodes };
}

const judgeOf = () =>
  chatJudge({
    ...server.model("anthropic"),
    env: "sokoban",
    envOptions: options,
    state: 0.05,
    transition: 0.05,
    live: 32,
    backoff: { firstMs: 50, mostMs: 500 },
  });

await play(0);
const best = {
  without: Number.POSITIVE_INFINITY,
  judged: Number.POSITIVE_INFINITY,
  paidAfter: Number.POSITIVE_INFINITY,
};
const seen = { episodes: 0, failures: 0, requests: 0, retries: 0, inputTokens: 0 };
for (let round = 1; round <= ROUNDS; round++) {
  best.without = Math.min(best.without, (await play(round)).seconds);
  const judge = judgeOf();
  const { seconds, paidAfter, episodes } = await play(round, judge);
  best.judged = Math.min(best.judged, seconds);
  best.paidAfter = Math.min(best.paidAfter, paidAfter);
  const { requests, retries, inputTokens } = judge.usage();
  seen.episodes += episodes.length;
  seen.failures += episodes.filter((episode) => episode.judge?.error !== undefined).length;
  seen.requests += requests;
  seen.retries += retries;
  seen.inputTokens += inputTokens;
}
const ratio = (seconds: number, than: number) => (seconds / than).toFixed(3);
table(
  ["", "seconds", "ratio"],
  [
    ["rollouts", best.without.toFixed(2), "1"],
    ["rollouts with a judge", best.judged.toFixed(2), ratio(best.judged, best.without)],
    ["until every episode was paid", best.paidAfter.toFixed(2), ratio(best.paidAfter, best.without)],
  ],
);
console.log(
  `${seen.episodes} episodes judged, ${seen.failures} without an answer; ${seen.requests} requests, ${seen.retries} of them sent again, ${seen.inputTokens} tokens read; ` +
    `answers took ${MIN_MS} to ${MAX_MS} ms; load ${loadavg()[0]?.toFixed(1)}`,
);

const recipe = worldModelling("sokoban", "both");
const entry = recipe.envs[0] as { readonly options: Readonly<Record<string, unknown>> };
const unpaid = { ...entry.options, worldModel: { state: 0, transition: 0 } };
const short = {
  ...recipe,
  envs: [{ env: "sokoban", options: unpaid }],
  evaluate: { before: false, every: 10_000 },
  checkpoint: { every: 10_000 },
  sight: { every: 0 },
};

/** Medians of a run's steps. */
async function steps(name: string, changes: object, than?: number): Promise<{ row: string[]; step: number }> {
  const logged: Readonly<Record<string, number>>[] = [];
  const onEvent = ({ kind, metrics }: RunEvent) => kind === "train" && logged.push(metrics);
  const made = resolveRecipe({ ...short, ...changes });
  await train({ recipe: made, folder: join(root, name), engine, onEvent });
  const median = (key: string) => {
    const values = logged.slice(2).map((metrics) => metrics[key] ?? 0);
    return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
  };
  const step = median("time/step");
  const times = [step, median("time/wait"), median("time/score"), median("time/judge")];
  return { row: [name, ...times.map((time) => time.toFixed(2)), than === undefined ? "1" : ratio(step, than)], step };
}

const warm = { ...recipe.warmStart, episodes: 4_800, threads: 1 };
const start = await train({
  recipe: resolveRecipe({ ...short, steps: 0, warmStart: warm, envs: recipe.envs, evaluate: { seeds: [1e9, 1e9] } }),
  folder: join(root, "start"),
  engine,
});
const from = {
  model: start.model,
  warmStart: undefined,
  steps: STEPS + 2,
  critic: { ...recipe.critic, warmupSteps: 0 },
};
const plain = await steps("a step", from);
const judged = await steps("with a judge", { ...from, judge: judgeOf() }, plain.step);
const stale = await steps("a step, one stale", { ...from, maxStaleness: 1 });
const both = await steps("with a judge, one stale", { ...from, maxStaleness: 1, judge: judgeOf() }, stale.step);
table(
  ["", "seconds", "waiting for episodes", "scores", "waiting for the judge", "ratio"],
  [plain, judged, stale, both].map(({ row }) => row),
);
await sampler.close();
await engine.close();
await server.stop();
rmSync(root, { recursive: true });
