/** Environments in threads and processes play as they do inline, and those that hang or die are replaced. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { ConfigError, EnvError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { imagesOf } from "../core/message.ts";
import { builtinAgent } from "./builtin-agents.ts";
import { RolloutCounters } from "./counters.ts";
import { playGroups } from "./groups.ts";
import { EnvHost, type EnvSpec, type Workers } from "./hosts.ts";
import type { Trajectory } from "./trajectory.ts";

const FAULTY = new URL("./test-faulty-env.ts", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "saccade-hosts-"));
afterAll(() => rmSync(folder, { recursive: true }));

const LAKE: EnvSpec = { id: "frozen_lake", options: { slippery: true, maxTurns: 4 } };

async function withHost<T>(workers: Workers, use: (host: EnvHost) => Promise<T>): Promise<T> {
  const host = new EnvHost(workers);
  try {
    return await use(host);
  } finally {
    await host.close();
  }
}

async function randomPlay(workers: Workers): Promise<Trajectory[]> {
  return withHost(workers, async (host) => {
    const requests = [1, 2, 3].map((seed) => ({ env: LAKE, seed, siblings: 2 }));
    const options = { agent: builtinAgent("random"), host, samplingSeed: 1, live: 2 };
    const played: Trajectory[] = [];
    for await (const { trajectories } of playGroups(requests, options)) played.push(...trajectories);
    return played;
  });
}

const told = (trajectories: Trajectory[]) =>
  trajectories.map(({ id, turns, final, reward, end }) => ({
    id,
    reward,
    end,
    turns: turns.map(({ reply, info, observation }) => ({ reply, info, frames: observation.flatMap(imagesOf) })),
    final: final.flatMap(imagesOf).map((image) => image.hash),
  }));

describe.each(["threads", "processes"] as const)("In %s", (workers) => {
  test("episodes are the same as inline, images included", async () => {
    const remote = told(await randomPlay(workers));
    const inline = told(await randomPlay("inline"));
    expect(remote.every(({ turns }) => turns[0]?.frames[0] instanceof Image)).toBe(true);
    const plain = (played: typeof inline) =>
      played.map((each) => ({
        ...each,
        turns: each.turns.map((t) => ({ ...t, frames: t.frames.map((f) => f.hash) })),
      }));
    expect(plain(remote)).toEqual(plain(inline));
  });

  test("an environment that blocks or ends its worker costs that attempt, and a new worker takes its place", async () => {
    const log = join(mkdtempSync(join(folder, "log-")), "faults");
    writeFileSync(log, "");
    const counters = new RolloutCounters();
    await withHost(workers, async (host) => {
      const faults = { hangs: 0.1, log, turns: 3 };
      const requests = [0, 1].flatMap((seed) => [
        { env: { id: FAULTY, options: { ...faults, blocks: "waits" } }, seed, siblings: 2 },
        { env: { id: FAULTY, options: { ...faults, exits: true } }, seed, siblings: 2 },
      ]);
      // A first fault that is certain.
      requests.unshift({
        env: { id: FAULTY, options: { hangs: 1, log, turns: 1, blocks: "waits" } },
        seed: 9,
        siblings: 1,
      });
      const options = { host, agent: builtinAgent("stop"), samplingSeed: 1, live: 2, counters };
      const groups = [];
      for await (const group of playGroups(requests, { ...options, stepTimeoutMs: 1_000, retries: 1 }))
        groups.push(group);
      const all = groups.flatMap(({ trajectories, dropped }) => [...trajectories, ...dropped]);
      expect(all).toHaveLength(9);
      expect(groups[0]?.dropped).toMatchObject([{ end: "env_timeout", retries: 1 }]);
    });
    const faults = readFileSync(log, "utf8")
      .split("\n")
      .filter((line) => line === "hang").length;
    const sum = (counts: object) => Object.values(counts).reduce((a: number, b: number) => a + b, 0);
    expect(sum(counters.retried) + sum(counters.dropped)).toBeGreaterThanOrEqual(faults);
    expect(counters.episodes + sum(counters.dropped)).toBe(9);
  });

  test("a file that registers an environment is loaded in the worker", async () => {
    const module = join(folder, `${workers}.ts`);
    writeFileSync(
      module,
      `import { defineEnv, register, user, text } from "saccade";
       register(defineEnv({ id: "mine", create: () => ({ reset: () => [user(text("hello"))], step: () => { throw new Error("no steps"); } }) }));`,
    );
    await withHost(workers, async (host) => {
      const env = await host.acquire({ id: "mine", module });
      expect(await env.reset(1)).toEqual([{ role: "user", content: [{ type: "text", text: "hello" }] }]);
      await expect(env.step("x")).rejects.toThrow(EnvError);
      // The same instance comes back, and the worker takes another environment when that is wanted.
      host.release(env);
      expect(await host.acquire({ id: "mine", module })).toBe(env);
      host.release(env);
      expect(await host.acquire(LAKE)).toBe(env);
      await env.reset(1);
      expect(await env.builtinReply?.("oracle", 0)).toContain("answer");
      host.release(env);
    });
  });

  test("a file imports the same package in the worker as outside, whole", async () => {
    const file = join(folder, `whole-${workers}.ts`);
    writeFileSync(
      file,
      `import * as saccade from "saccade";
       import { loadEvents } from "saccade/run";
       const { defineEnv, user, text } = saccade;
       const names = [...Object.keys(saccade).sort(), typeof loadEvents].join();
       export default defineEnv({ id: "whole", create: () => ({ reset: () => [user(text(names))], step: () => { throw new Error("no steps"); } }) });`,
    );
    const outside = [...Object.keys(await import("../index.ts")).sort(), "function"].join();
    await withHost(workers, async (host) => {
      const env = await host.acquire({ id: file });
      expect(await env.reset(1)).toEqual([{ role: "user", content: [{ type: "text", text: outside }] }]);
      host.release(env);
    });
  });

  test("a worker that died while nobody used it is not lent again", async () => {
    await withHost(workers, async (host) => {
      const env = await host.acquire(LAKE);
      host.release(env);
      await env.kill();
      const next = await host.acquire(LAKE);
      expect(next).not.toBe(env);
      expect(await next.reset(1)).toHaveLength(1);
      host.release(next);
    });
  });

  test("wrong options say what is wrong", async () => {
    await withHost(workers, async (host) => {
      await expect(host.acquire({ id: "frozen_lake", options: { sise: 3 } })).rejects.toThrow(/unknown option "sise"/);
      const protocol = { name: "mine", parse: () => ({}) };
      await expect(host.acquire({ id: "frozen_lake", options: { protocol } })).rejects.toThrow(ConfigError);
    });
  });
});

/** Threads and children of this process, as Linux counts them. */
function running(): { threads: number; children: number } {
  const tasks = readdirSync("/proc/self/task");
  const children = tasks.flatMap((task) =>
    readFileSync(`/proc/self/task/${task}/children`, "utf8").split(" ").filter(Boolean),
  );
  return { threads: tasks.length, children: children.length };
}

test.runIf(process.platform === "linux")("No thread and no process is left when a host is closed", async () => {
  const rounds = [];
  for (let round = 0; round < 2; round++) {
    for (const workers of ["threads", "processes"] as const) {
      await withHost(workers, async (host) => {
        const options = { hangs: 1, blocks: "computes" };
        const [idle, hung, broken] = await Promise.all([
          host.acquire(LAKE),
          host.acquire({ id: FAULTY, options }),
          host.acquire(LAKE),
        ]);
        await hung.reset(1);
        const never = hung.step("left");
        host.release(idle);
        host.discard(hung, true);
        host.discard(broken);
        await expect(never).rejects.toThrow(/worker died/);
      });
    }
    rounds.push(running());
  }
  expect(rounds[1]?.threads).toBeLessThanOrEqual(rounds[0]?.threads ?? 0);
  expect(rounds.map(({ children }) => children)).toEqual([0, 0]);
});

test("Inline, environments of kinds that are no longer played are closed, so that their number does not grow with the kinds", async () => {
  const log = join(folder, "kinds.log");
  const count = (what: string) =>
    readFileSync(log, "utf8")
      .split("\n")
      .filter((line) => line === what).length;
  await withHost("inline", async (host) => {
    for (let kind = 0; kind < 20; kind++) {
      const spec = { id: FAULTY, options: { turns: kind + 1, log } };
      // Twice: what was just given back is lent again.
      for (const _ of [1, 2]) {
        const lent = await Promise.all(Array.from({ length: 8 }, () => host.acquire(spec)));
        for (const env of lent) host.release(env);
      }
    }
    expect(count("open")).toBe(20 * 8);
    await vi.waitFor(() => expect(count("open") - count("close")).toBeLessThanOrEqual(32 + 8));
  });
  expect(count("close")).toBe(20 * 8);
});

test("A host that is closed, or asked for workers that do not exist, says so", async () => {
  const host = new EnvHost();
  await host.close();
  await expect(host.acquire(LAKE)).rejects.toThrow(EnvError);
  expect(() => new EnvHost("fibers" as Workers)).toThrow(/threads/);
});
