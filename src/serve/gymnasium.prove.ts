/**
 * `npm run prove -- gymnasium`: 1,000 episodes on the Gymnasium server, over sessions that come and go, leave nothing behind: no memory, no thread, no open
 * file, no process, no session.
 */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { NumpyRandom } from "../core/random-numpy.ts";
import type { Env } from "../envs/env.ts";
import { makeEnv } from "../envs/index.ts";
import { startGym } from "./test-gym.ts";

const EPISODES = 1000;
/** Before this many, interpreters and libraries still load what they keep. */
const WARM = 300;
const MAX_MIB = 8;

async function episode(env: Env, seed: number): Promise<void> {
  const random = new NumpyRandom(seed);
  await env.reset(seed);
  for (;;) {
    const { terminated, truncated } = await env.step(`<action>${random.integers(0, 2)}</action>`);
    if (terminated || truncated) return;
  }
}

/** Children, and theirs. */
function processesUnder(pid: number): number {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number),
  );
  return children.reduce((sum, child) => sum + 1 + processesUnder(child), 0);
}

test("1,000 episodes of CartPole leave nothing behind", async () => {
  const server = await startGym(["CartPole-v1"]);
  try {
    const use = () => {
      const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
      const figure = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]);
      return {
        mib: figure("VmRSS") / 1024,
        threads: figure("Threads"),
        files: readdirSync(`/proc/${server.pid}/fd`).length,
        processes: processesUnder(server.pid),
      };
    };
    const points: ReturnType<typeof use>[] = [];
    for (let from = 0; from < EPISODES; from += 100) {
      // A hundred episodes in eight sessions, which are then closed.
      const players = Array.from({ length: 8 }, async (_, player) => {
        const env = await makeEnv("remote", { url: server.url });
        for (let seed = from + player; seed < from + 100; seed += 8) await episode(env, seed);
        await env.close?.();
      });
      await Promise.all(players);
      const { num_sessions: sessions } = (await (await fetch(`${server.url}/sessions`)).json()) as {
        num_sessions: number;
      };
      expect(sessions).toBe(0);
      // A session's process ends by itself a moment after its session; two helpers of Python's stay.
      await expect.poll(() => processesUnder(server.pid), { timeout: 30_000 }).toBeLessThanOrEqual(2);
      points.push(use());
      console.log(`episodes ${from + 100}: ${JSON.stringify(points.at(-1))}`);
    }
    const [early, late] = [points[WARM / 100 - 1], points.at(-1)] as [ReturnType<typeof use>, ReturnType<typeof use>];
    expect(late.mib - early.mib).toBeLessThan(MAX_MIB);
    // Connections that are kept alive have a thread and a file each.
    expect(late.threads).toBeLessThanOrEqual(early.threads + 8);
    expect(late.files).toBeLessThanOrEqual(early.files + 8);
  } finally {
    await server.close();
  }
});
