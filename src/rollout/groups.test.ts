/** Groups of episodes: order, limits, faults, and that nothing is left behind. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { mixSeed } from "../core/seed.ts";
import { EngineError } from "../engine/errors.ts";
import { type AgentFactory, tokenAgent } from "./agents.ts";
import { RolloutCounters } from "./counters.ts";
import { type GroupOptions, type GroupRequest, type PlayedGroup, playGroups } from "./groups.ts";
import { EnvHost, type Workers } from "./hosts.ts";
import { type Script, ScriptedSampler, testModel } from "./test-model.ts";
import { isOurFault } from "./trajectory.ts";

const FAULTY = new URL("./test-faulty-env.ts", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "saccade-groups-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Says a word that depends on the sampling seed and the prompt's length alone, sooner or later. */
const WORDS = ["left", "right", "up", "down"];
const babble: Script = async ({ params, prompt }) => {
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
  return WORDS[mixSeed(params.seed, prompt.ids.length) % 4] as string;
};

function agents(sampler = new ScriptedSampler(babble)): AgentFactory {
  return tokenAgent({ model: testModel, sampler: () => sampler, temperature: 1, maxTokens: 8 });
}

function requests(count: number, siblings: number, options = {}): GroupRequest[] {
  return Array.from({ length: count }, (_, seed) => ({ env: { id: FAULTY, options }, seed, siblings }));
}

async function playAll(
  wanted: Iterable<GroupRequest>,
  more: Partial<GroupOptions> = {},
  workers: Workers = "inline",
): Promise<PlayedGroup[]> {
  const host = new EnvHost(workers);
  const groups: PlayedGroup[] = [];
  try {
    const options = { agent: agents(), host, samplingSeed: 7, live: 8, ...more };
    for await (const group of playGroups(wanted, options)) groups.push(group);
  } finally {
    await host.close();
  }
  return groups;
}

/** What must not depend on timing, as text. */
function essence({ id, seed, trajectories }: PlayedGroup): string {
  return JSON.stringify({ id, seed, trajectories }, (key, value) => {
    if (["startedAt", "sampleMs", "encodeMs", "envMs", "retries"].includes(key)) return undefined;
    if (value instanceof Image) return value.hash;
    return ArrayBuffer.isView(value) ? Array.from(value as Float32Array).join() : value;
  });
}

const faultsIn = (log: string, fault: string) =>
  readFileSync(log, "utf8")
    .split("\n")
    .filter((line) => line === fault).length;

function newLog(): string {
  const log = join(mkdtempSync(join(folder, "log-")), "faults");
  writeFileSync(log, "");
  return log;
}

describe("Order and limits", () => {
  test("what comes out is the same with 1, 3 and 64 live episodes", async () => {
    const [one, three, many] = await Promise.all(
      [1, 3, 64].map((live) => playAll(requests(6, 4, { slow: 0.3 }), { live })),
    );
    expect(one?.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, 5].map((seed) => `${FAULTY}#${seed}`));
    expect(essence(one?.[0] as PlayedGroup)).toContain('"sequences":[{"ids":"');
    expect(three?.map(essence)).toEqual(one?.map(essence));
    expect(many?.map(essence)).toEqual(one?.map(essence));
    const replies = one?.[0]?.trajectories.map(({ turns }) => turns.map(({ reply }) => reply).join(" "));
    expect(new Set(replies).size).toBeGreaterThan(1);
    const first = one?.[0]?.trajectories.map(({ turns }) => turns[0]?.observation);
    expect(first?.every((observation) => JSON.stringify(observation) === JSON.stringify(first[0]))).toBe(true);
  });

  test("no more than `live` episodes play at a time, and all of them do", async () => {
    let playing = 0;
    let most = 0;
    const factory = agents();
    const counted: AgentFactory = (context) => {
      most = Math.max(most, ++playing);
      const agent = factory(context);
      return {
        reply: (messages, signal) => agent.reply(messages, signal),
        close() {
          playing -= 1;
        },
      };
    };
    await playAll(requests(5, 4), { agent: counted, live: 6 });
    expect([most, playing]).toEqual([6, 0]);
  });

  test("an episode does not wait for its siblings", async () => {
    // The first sibling's first reply comes only after the second has finished its whole episode.
    let finish = () => {};
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const factory: AgentFactory = ({ sibling }) => ({
      async reply() {
        if (sibling === 0) await finished;
        return "left";
      },
      close: () => (sibling === 1 ? finish() : undefined),
    });
    const [group] = await playAll(requests(1, 2), { agent: factory, live: 2 });
    expect(group?.trajectories.map(({ end }) => end)).toEqual(["done", "done"]);
  });

  test("requests are drawn only when they can be played and not too far ahead of the reader", async () => {
    let drawn = 0;
    function* endless() {
      for (const request of requests(1000, 2)) {
        drawn += 1;
        yield request;
      }
    }
    const host = new EnvHost();
    const groups = playGroups(endless(), { agent: agents(), host, samplingSeed: 7, live: 2, ahead: 3 });
    await groups.next();
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(drawn).toBeLessThanOrEqual(4);
    await groups.return();
    await host.close();
  });

  test("the same seed issued twice makes two groups", async () => {
    const groups = await playAll([...requests(1, 2), ...requests(1, 2)]);
    expect(new Set(groups.map(({ id }) => id)).size).toBe(2);
  });
});

describe("Faults", () => {
  test("throwing, hanging and slow steps: every fault is counted once, failed episodes are never trainable, and the rest is as without faults", async () => {
    const log = newLog();
    const counters = new RolloutCounters();
    const before = await resources();
    const wanted = requests(16, 4, { throws: 0.05, hangs: 0.02, slow: 0.2, log });
    const played = await playAll(wanted, { counters, stepTimeoutMs: 500, retries: 2, live: 16 });
    const thrown = faultsIn(log, "throw");
    const hung = faultsIn(log, "hang");
    expect(thrown).toBeGreaterThan(0);
    const { retried, dropped } = counters;
    expect((retried.env_error ?? 0) + (dropped.env_error ?? 0)).toBe(thrown);
    expect((retried.env_timeout ?? 0) + (dropped.env_timeout ?? 0)).toBe(hung);
    const lost = played.flatMap((group) => group.dropped);
    const kept = played.flatMap((group) => group.trajectories);
    expect(counters.episodes).toBe(kept.length);
    expect(kept.length + lost.length).toBe(64);
    expect((dropped.env_error ?? 0) + (dropped.env_timeout ?? 0)).toBe(lost.length);
    expect(lost.every((trajectory) => isOurFault(trajectory) && trajectory.sequences.length === 0)).toBe(true);
    expect(kept.some(isOurFault)).toBe(false);

    const clean = await playAll(requests(16, 4));
    for (const [at, { trajectories, ...group }] of clean.entries()) {
      const survivors = played[at]?.trajectories.map(({ sibling }) => sibling);
      const same = trajectories.filter(({ sibling }) => survivors?.includes(sibling));
      const envAside = (each: PlayedGroup) => essence({ ...each, env: group.env });
      expect(envAside(played[at] as PlayedGroup)).toEqual(envAside({ ...group, trajectories: same }));
    }
    expect(exceeding(await resources(), before)).toEqual([]);
  });

  test("an episode that fails in every attempt is dropped and its siblings stay", async () => {
    const counters = new RolloutCounters();
    const factory = agents();
    const flawed: AgentFactory = (context) => {
      if (context.sibling !== 1) return factory(context);
      return { reply: () => Promise.reject(new EngineError("The server is gone.")) };
    };
    const [group] = await playAll(requests(1, 3), { agent: flawed, counters, retries: 3 });
    expect(group?.trajectories.map(({ sibling }) => sibling)).toEqual([0, 2]);
    expect(group?.dropped).toMatchObject([{ sibling: 1, end: "engine_error", retries: 3, sequences: [] }]);
    expect(counters).toMatchObject({ episodes: 2, retried: { engine_error: 3 }, dropped: { engine_error: 1 } });
  });

  test("environments that failed are closed, and those that did not are closed with their host", async () => {
    const log = newLog();
    await playAll(requests(8, 2, { throws: 0.1, log }), { retries: 9, live: 4 });
    expect(faultsIn(log, "throw")).toBeGreaterThan(0);
    expect(faultsIn(log, "close")).toBe(faultsIn(log, "open"));
    expect(faultsIn(log, "open")).toBeLessThanOrEqual(faultsIn(log, "throw") + 4);
  });

  test("a wrong name or option ends everything at once, with its message", async () => {
    await expect(playAll([{ env: { id: "no_such_world" }, seed: 1, siblings: 2 }])).rejects.toThrow(ConfigError);
    await expect(playAll(requests(4, 2, { turn: 3 }))).rejects.toThrow(/unknown option "turn"/);
    await expect(playAll(requests(4, 0))).rejects.toThrow(/sibling/);
    await expect(playAll(requests(1, 1), { live: 0 })).rejects.toThrow(/live/);
  });

  test("a source of requests that fails ends everything with its error", async () => {
    async function* broken() {
      yield* requests(2, 2);
      throw new Error("the data ended badly");
    }
    const host = new EnvHost();
    const options = { agent: agents(), host, samplingSeed: 7, live: 4 };
    await expect(
      (async () => {
        for await (const group of playGroups(broken(), options)) expect(group.trajectories).toHaveLength(2);
      })(),
    ).rejects.toThrow("the data ended badly");
    await host.close();
  });

  test("an abort ends live episodes and is thrown; a reader that leaves early stops them too", async () => {
    const before = await resources();
    const abort = new AbortController();
    setTimeout(() => abort.abort(new Error("enough")), 30);
    const hanging = requests(4, 2, { hangs: 1 });
    await expect(playAll(hanging, { signal: abort.signal })).rejects.toThrow("enough");
    const host = new EnvHost();
    const options = { agent: agents(), host, samplingSeed: 7, live: 2 };
    for await (const group of playGroups([...requests(1, 2), ...hanging], options)) {
      expect(group.trajectories).toHaveLength(2);
      break;
    }
    await host.close();
    expect(exceeding(await resources(), before)).toEqual([]);
  });
});

/** Timers, threads, pipes and processes that keep Node busy, by kind, when what is on its way out is gone. */
async function resources(): Promise<Map<string, number>> {
  await new Promise((resolve) => setTimeout(resolve, 100));
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}

function exceeding(after: Map<string, number>, before: Map<string, number>): string[] {
  return [...after].filter(([kind, count]) => count > (before.get(kind) ?? 0)).map(([kind]) => kind);
}
