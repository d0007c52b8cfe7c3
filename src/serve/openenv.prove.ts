/**
 * `npm run prove -- openenv`: the official OpenEnv client plays every world of ours to the oracle's end, and sees and earns what local play does.
 * SACCADE_OPENENV_PYTHON: see `python/neighbours/install.py`; MiniWoB's worlds need a browser and their pages (SACCADE_MINIWOB). SACCADE_RECORD=1 writes the
 * messages that `openenv.test.ts` replays.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { imagesOf, type Message } from "../core/message.ts";
import { listEnvs, makeEnv, sumRewards } from "../envs/index.ts";
import { startServer } from "./server.ts";

const python = process.env.SACCADE_OPENENV_PYTHON;
const PLAYER = fileURLToPath(new URL("../../python/neighbours/openenv_play.py", import.meta.url));
const GOLDEN = fileURLToPath(new URL("golden/openenv-lake.json", import.meta.url));
const SEEDS = [3, 4];

type Episode = { frames: string[]; rewards: number[]; done: boolean; success: boolean; steps: number };
type Plan = {
  env: string;
  seed: number;
  options?: object;
  frames?: string;
  record?: boolean;
  replies: string[];
};

const digests = (messages: readonly Message[]) =>
  messages
    .flatMap(imagesOf)
    .map(({ width, height, data }) => `${width}x${height} ${createHash("sha256").update(data).digest("hex")}`);

/** The oracle's episode; undefined: there is no oracle. */
async function local(env: string, seed: number): Promise<{ plan: Plan; seen: Episode } | undefined> {
  const played = await makeEnv(env);
  try {
    const frames = digests(await played.reset(seed));
    const rewards: number[] = [];
    const replies: string[] = [];
    for (;;) {
      const reply = await played.builtinReply?.("oracle", 0);
      if (typeof reply !== "string") return undefined;
      replies.push(reply);
      const step = await played.step(reply);
      frames.push(...digests(step.observation));
      rewards.push(sumRewards(step.rewards));
      if (!step.terminated && !step.truncated) continue;
      const seen = { frames, rewards, done: true, success: step.success ?? false, steps: replies.length };
      return { plan: { env, seed, replies }, seen };
    }
  } finally {
    await played.close?.();
  }
}

async function official(url: string, plans: readonly Plan[]): Promise<{ episodes: Episode[]; wire: unknown[] }> {
  const child = spawn(python as string, [PLAYER, url], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(JSON.stringify(plans));
  let said = "";
  for await (const piece of child.stdout) said += String(piece);
  return JSON.parse(said) as { episodes: Episode[]; wire: unknown[] };
}

test.runIf(python)("the lake: frames as lists are the same frames, and the messages are those on record", async () => {
  const server = await startServer({ environments: { names: ["frozen_lake"], openenv: true } });
  try {
    const lake = await local("frozen_lake", 3);
    if (lake === undefined) throw new Error("The lake has a solver.");
    const { episodes, wire } = await official(server.url, [
      { ...lake.plan, frames: "lists" },
      { ...lake.plan, record: true },
    ]);
    expect(episodes).toEqual([lake.seen, lake.seen]);
    if (process.env.SACCADE_RECORD) writeFileSync(GOLDEN, `${JSON.stringify(wire, null, 1)}\n`);
    expect(wire).toEqual(JSON.parse(readFileSync(GOLDEN, "utf8")));
  } finally {
    await server.close();
  }
});

test.runIf(python)("the official client plays every world as it is played here", async () => {
  const names = (await listEnvs()).filter(({ kind }) => kind === "world").map(({ id }) => id);
  const server = await startServer({ environments: { names: ["all"], openenv: true } });
  try {
    const plans: Plan[] = [];
    const expected: Episode[] = [];
    const without = new Set<string>();
    for (const name of names) {
      for (const seed of SEEDS) {
        const made = await local(name, seed);
        if (made === undefined) {
          without.add(name);
          continue;
        }
        plans.push(made.plan);
        expected.push(made.seen);
      }
    }
    const { episodes } = await official(server.url, plans);
    expect(episodes).toHaveLength(plans.length);
    const differ = plans.flatMap(({ env, seed }, i) =>
      JSON.stringify(episodes[i]) === JSON.stringify(expected[i])
        ? []
        : [{ env, seed, far: episodes[i], near: expected[i] }],
    );
    expect(differ).toEqual([]);
    const frames = expected.reduce((sum, { frames }) => sum + frames.length, 0);
    const won = expected.filter(({ success }) => success).length;
    console.log(
      `${names.length - without.size} environments, ${plans.length} episodes of the oracle, ${won} won, ${frames} frames, all equal; ${without.size} tasks of MiniWoB++ have no oracle`,
    );
    expect([...without].filter((name) => !name.startsWith("miniwob/"))).toEqual([]);
  } finally {
    await server.close();
  }
});
