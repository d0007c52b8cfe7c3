/** Physics gives the same bits wherever it runs, a thousand episodes of it, and a worker that is killed takes no other episode with it. */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { canonicalJson } from "../core/json.ts";
import { imagesOf } from "../core/message.ts";
import "../envs/index.ts";
import { builtinAgent } from "./builtin-agents.ts";
import { playGroups } from "./groups.ts";
import { EnvHost, type EnvSpec, type Workers } from "./hosts.ts";

const EPISODES = 1000;
const REACH: EnvSpec = { id: "fetch_reach/easy", options: { size: 64, maxTurns: 3 } };
const PICK: EnvSpec = { id: "fetch_pick_and_place/easy", options: { size: 64, maxTurns: 6 } };
const SKILL: EnvSpec = { id: "primitive_skill/stack", options: { size: 64, maxTurns: 2 } };
const ALL = [PICK, REACH, SKILL] as const;

/** Everything an episode said and showed, by seed. */
async function play(workers: Workers, episodes: number): Promise<Map<number, string>> {
  const host = new EnvHost(workers);
  const played = new Map<number, string>();
  const requests = Array.from({ length: episodes }, (_, seed) => ({ env: ALL[seed % 3] ?? PICK, seed, siblings: 1 }));
  const options = { agent: builtinAgent("random"), host, samplingSeed: 1, live: 2 };
  for await (const { trajectories } of playGroups(requests, options)) {
    for (const { seed, turns, final, reward, end } of trajectories) {
      const frames = [...turns.flatMap(({ observation }) => observation), ...final].flatMap(imagesOf);
      const said = turns.map(({ reply, info }) => [reply, info.feedback ?? ""]);
      const told = canonicalJson({ said, end, reward, frames: frames.map(({ hash }) => hash) });
      played.set(seed, createHash("sha256").update(told).digest("hex"));
    }
  }
  await host.close();
  return played;
}

test(`${EPISODES} episodes of the robots are the same bits inline, in threads and in processes`, async () => {
  const inline = await play("inline", EPISODES);
  expect(new Set(inline.values()).size).toBe(EPISODES);
  expect(await play("threads", EPISODES)).toEqual(inline);
  expect(await play("processes", EPISODES)).toEqual(inline);
});

const MOVES = ["('move', [1, 0, 0, 0])", "('move', [0, 1, 0, 1])"];

test.each(["threads", "processes"] as const)(
  "in %s, a killed worker leaves other episodes as they were",
  async (workers) => {
    const [host, alone] = [new EnvHost(workers), new EnvHost()];
    const [victim, survivor, witness] = [await host.acquire(PICK), await host.acquire(PICK), await alone.acquire(PICK)];
    for (const env of [victim, survivor, witness]) await env.reset(7);
    await victim.kill();
    await expect(Promise.resolve(victim.step("hello"))).rejects.toThrow();
    for (const reply of MOVES) {
      const [here, there] = [await survivor.step(reply), await witness.step(reply)];
      const shown = ({ observation }: typeof here) => observation.flatMap(imagesOf).map(({ hash }) => hash);
      expect(shown(here)).toEqual(shown(there));
    }
    await host.close();
    await alone.close();
  },
);
