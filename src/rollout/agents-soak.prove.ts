/**
 * 512 conversations at a time from 32 live processes, for ten minutes. One program in ten is killed under way, one in twenty hangs until its time is over. Each
 * answer is told apart from every other: none is lost, doubled or in two sequences; failed episodes leave nothing to train; no process outlives its episode; and
 * memory stays flat.
 *
 *     npm run prove -- agents-soak           SACCADE_SOAK_SECONDS=60 for a shorter one
 */
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openSource } from "../envs/sources.ts";
import { rowsOf } from "../train/batch.ts";
import { tokenAgent } from "./agents.ts";
import { sharedDoor } from "./door.ts";
import { type GroupRequest, playGroups } from "./groups.ts";
import { EnvHost } from "./hosts.ts";
import { ScriptedSampler, testModel } from "./test-model.ts";
import { isOurFault, type Trajectory } from "./trajectory.ts";

const SECONDS = Number(process.env.SACCADE_SOAK_SECONDS ?? 600);
const PROCESSES = 32;
const CONVERSATIONS = 16;
const TASKS = 200;

/** Talks in 16 conversations of 4 turns at once, and says which answers it got. */
const PROGRAM = `
const { createHash } = require("node:crypto");
const { OPENAI_BASE_URL: url, OPENAI_API_KEY: key, SACCADE_SEED: seed } = process.env;
const got = [];
async function talk(name) {
  const messages = [{ role: "user", content: "conversation " + name }];
  for (let turn = 0; turn < 4; turn++) {
    const answer = await fetch(url + "/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer " + key },
      body: JSON.stringify({ model: "m", messages }),
    });
    const { choices } = await answer.json();
    got.push(choices[0].message.content);
    messages.push(choices[0].message, { role: "user", content: "turn " + turn });
    if (turn === 1 && Number(seed) % 10 === 3) process.kill(process.pid, "SIGKILL");
    if (turn === 2 && Number(seed) % 20 === 7) await new Promise(() => setInterval(() => {}, 1000));
  }
}
Promise.all(Array.from({ length: ${CONVERSATIONS} }, (_, i) => talk(i))).then(() => {
  console.log("pid " + process.pid);
  console.log("got " + createHash("sha256").update(got.sort().join()).digest("hex"));
  console.log(JSON.stringify({ reward: 1 }));
  process.exit(0);
});
`;

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "saccade-soak-"));
  await writeFile(join(folder, "agent.cjs"), PROGRAM);
  const rows = Array.from({ length: TASKS }, (_, i) => JSON.stringify({ task: i }));
  await writeFile(join(folder, "tasks.jsonl"), rows.join("\n"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test(`${SECONDS} s of live programs`, { timeout: (SECONDS + 600) * 1000 }, async () => {
  let answers = 0;
  let now = 0;
  let most = 0;
  const sampler = new ScriptedSampler(async () => {
    now += 1;
    most = Math.max(most, now);
    const said = `answer ${answers++}`;
    // As long as an answer of a real model takes, so that many wait at a time.
    await sleep(200);
    now -= 1;
    // What it keeps for tests would grow.
    sampler.asked.length = 0;
    sampler.samples.length = 0;
    sampler.released.length = 0;
    return said;
  });
  const command = [process.execPath, join(folder, "agent.cjs")];
  const timeoutMs = 60_000;
  const { envs } = await openSource({ program: { command, tasks: join(folder, "tasks.jsonl"), timeoutMs } });
  const env = { id: envs[0]?.env ?? "" };
  const end = Date.now() + SECONDS * 1000;
  function* requests(): Generator<GroupRequest> {
    for (let i = 0; Date.now() < end; i++) yield { env, seed: i % TASKS, siblings: 1, group: `soak#${i}` };
  }
  const host = new EnvHost();
  const agent = tokenAgent({ model: testModel, sampler: () => sampler, temperature: 1, maxTokens: 50 });
  const seen = new Set<string>();
  const counts = { done: 0, killed: 0, hung: 0, other: 0, turns: 0 };
  const memory: { at: number; mb: number }[] = [];
  const began = Date.now();
  const used = process.cpuUsage();
  let measured = 0;
  const options = { agent, host, samplingSeed: 1, live: PROCESSES, retries: 0 };
  for await (const { trajectories, dropped } of playGroups(requests(), options)) {
    for (const episode of trajectories) check(episode, seen, counts);
    for (const episode of dropped) {
      expect(isOurFault(episode)).toBe(true);
      expect(episode.sequences).toEqual([]);
      counts[/SIGKILL/.test(episode.error ?? "") ? "killed" : episode.end === "env_timeout" ? "hung" : "other"] += 1;
    }
    if (Date.now() - measured > 10_000) {
      globalThis.gc?.();
      measured = Date.now();
      memory.push({ at: (measured - began) / 1000, mb: process.memoryUsage().rss / 2 ** 20 });
    }
  }
  await host.close();
  const { user, system } = process.cpuUsage(used);
  const settled = memory.slice(Math.floor(memory.length / 3));
  const half = Math.ceil(settled.length / 2);
  const mean = (some: typeof memory) => some.reduce((sum, { mb }) => sum + mb, 0) / Math.max(1, some.length);
  const [early, late] = [mean(settled.slice(0, half)), mean(settled.slice(half))];
  console.log(
    `${counts.done} episodes trained (${counts.turns} turns, each once), ${counts.killed} killed, ${counts.hung} hung, ${counts.other} failed otherwise; at most ${most} answers at a time; ${((user + system) / 1000 / answers).toFixed(2)} ms of CPU for each of ${answers} answers; memory ${early.toFixed(0)} MB in the middle, ${late.toFixed(0)} MB at the end`,
  );
  expect(counts.done).toBeGreaterThan(0);
  expect(counts.other).toBe(0);
  expect((await sharedDoor()).size).toBe(0);
  if (settled.length >= 4) expect(late).toBeLessThan(early * 1.2 + 50);
});

/** Every answer that the program has is in one sequence, once, and was in no other episode. */
function check(episode: Trajectory, seen: Set<string>, counts: { done: number; turns: number }): void {
  const said = episode.turns.map(({ reply }) => reply);
  expect(said).toHaveLength(4 * CONVERSATIONS);
  for (const one of said) {
    expect(seen.has(one)).toBe(false);
    seen.add(one);
  }
  const got = episode.program?.log.find((line) => line.startsWith("got "));
  expect(got).toBe(`got ${createHash("sha256").update(said.toSorted().join()).digest("hex")}`);
  expect(episode.sequences).toHaveLength(CONVERSATIONS);
  const trained = episode.sequences.flatMap(({ replies }) => replies.map(({ turn }) => turn));
  expect(trained.toSorted((a, b) => a - b)).toEqual(said.map((_, i) => i));
  expect(rowsOf(episode).reduce((sum, { rewards }) => sum + rewards.reduce((a, b) => a + b, 0), 0)).toBe(1);
  counts.done += 1;
  counts.turns += said.length;
}
