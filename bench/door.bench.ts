/**
 * What an episode's endpoint costs: the same talk, eight turns with an image each, once from programs over HTTP and once as an environment in this process, in
 * turns, over the same tiny model. CPU is this process's own (HTTP, JSON, PNG, conversations, ledger), the programs' is theirs; the difference is the endpoint's.
 * `npm run bench -- door`; BENCH_EPISODES is how many episodes a round has (64), BENCH_ROUNDS how many rounds each side plays (3).
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { openSource } from "../src/envs/sources.ts";
import { table } from "./peer.ts";
import {
  chatModel,
  createFolder,
  defineEnv,
  type Env,
  EnvHost,
  encodePng,
  Image,
  image,
  loadFolder,
  NativeEngine,
  parameterCount,
  playGroups,
  register,
  tokenAgent,
  user,
} from "./saccade.ts";

const EPISODES = Number(process.env.BENCH_EPISODES ?? 64);
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const TURNS = 8;
const LIVE = 8;
const PROGRAMS = 4;

const folder = mkdtempSync(join(tmpdir(), "saccade-door-"));
const shown = new Image(
  128,
  128,
  Uint8Array.from({ length: 128 * 128 * 3 }, (_, i) => (i * 7) % 251),
);
const PROGRAM = `
const url = "data:image/png;base64,${Buffer.from(encodePng(shown)).toString("base64")}";
require("node:readline").createInterface({ input: process.stdin }).on("line", async (line) => {
  const { baseURL, apiKey } = JSON.parse(line);
  const messages = [];
  for (let turn = 0; turn < ${TURNS}; turn++) {
    messages.push({ role: "user", content: [{ type: "image_url", image_url: { url } }] });
    const headers = { "content-type": "application/json", authorization: "Bearer " + apiKey };
    const answer = await fetch(baseURL + "/chat/completions", { method: "POST", headers, body: JSON.stringify({ model: "m", messages }) });
    const { choices } = await answer.json();
    messages.push(choices[0].message);
  }
  console.log(JSON.stringify({ reward: 1 }));
});
`;
writeFileSync(join(folder, "agent.cjs"), PROGRAM);
writeFileSync(
  join(folder, "tasks.jsonl"),
  Array.from({ length: EPISODES }, (_, i) => JSON.stringify({ i })).join("\n"),
);

register(
  defineEnv({
    id: "bench_door_local",
    options: z.strictObject({}),
    create: (): Env => {
      let turn = 0;
      return {
        reset: () => {
          turn = 0;
          return [user(image(shown))];
        },
        step: () => {
          turn += 1;
          const over = turn === TURNS;
          const rewards = [{ name: "task", value: over ? 1 : 0 }];
          return {
            observation: over ? [] : [user(image(shown))],
            rewards,
            terminated: over,
            truncated: false,
            info: { actions: [], parsed: true, wellFormed: true, valid: true },
          };
        },
      };
    },
  }),
);

await createFolder(join(folder, "model"), { preset: "nano", seed: 0 });
const loaded = await loadFolder(join(folder, "model"));
const model = chatModel(loaded);
const engine = new NativeEngine({ threads: 1 });
const sampler = await engine.sampler(join(folder, "model"));
const { envs } = await openSource({
  program: {
    command: [process.execPath, join(folder, "agent.cjs")],
    tasks: join(folder, "tasks.jsonl"),
    persistent: true,
    concurrency: PROGRAMS,
  },
});

/** Milliseconds of this process's CPU, and of the clock, for an answer. */
async function measure(env: string): Promise<{ cpu: number; wall: number }> {
  const host = new EnvHost();
  const agent = tokenAgent({ model, sampler: () => sampler, temperature: 1, maxTokens: 16 });
  const requests = Array.from({ length: EPISODES }, (_, seed) => ({
    ...{ env: { id: env }, seed, siblings: 1, group: `${env}#${seed}` },
  }));
  const began = performance.now();
  const used = process.cpuUsage();
  let answers = 0;
  for await (const { trajectories, dropped } of playGroups(requests, { agent, host, samplingSeed: 1, live: LIVE })) {
    for (const { error } of dropped) throw new Error(error);
    for (const { turns } of trajectories) answers += turns.length;
  }
  const { user: own, system } = process.cpuUsage(used);
  const wall = performance.now() - began;
  await host.close();
  if (answers !== EPISODES * TURNS) throw new Error(`${answers} answers instead of ${EPISODES * TURNS}`);
  return { cpu: (own + system) / 1000 / answers, wall: wall / answers };
}

const sides = { "in this process": "bench_door_local", "programs over HTTP": envs[0]?.env ?? "" };
const best: Record<string, { cpu: number; wall: number }> = {};
for (let round = -1; round < ROUNDS; round++) {
  for (const [side, env] of Object.entries(sides)) {
    const found = await measure(env);
    const known = best[side];
    // The first round starts the programs and fills caches.
    if (round >= 0 && (known === undefined || found.cpu < known.cpu)) best[side] = found;
  }
}
await sampler.close();
await engine.close();
rmSync(folder, { recursive: true, force: true });

const local = best["in this process"] as { cpu: number; wall: number };
const rows = Object.entries(best).map(([side, { cpu, wall }]) => [
  side,
  cpu.toFixed(2),
  wall.toFixed(2),
  `${(cpu / local.cpu).toFixed(2)} ×`,
]);
table(["", "ms of CPU an answer", "ms an answer", "CPU against in this process"], rows);
console.log(
  `best of ${ROUNDS} rounds of ${EPISODES} episodes with ${TURNS} turns, 16 tokens an answer, ${parameterCount(loaded.config)} parameters`,
);
process.exit(0);
