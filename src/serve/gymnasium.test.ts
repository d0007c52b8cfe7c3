/** Gymnasium's own environments behind the server in `python/`: what is played over HTTP is what Python plays. */
import { createHash } from "node:crypto";
import { afterEach, describe, expect, test } from "vitest";
import { imagesOf, type Message, textOf } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import type { Env } from "../envs/env.ts";
import { makeEnv, type Options } from "../envs/index.ts";
import { packParcel } from "../envs/remote-wire.ts";
import { gymPython, gymRequired, playDirectly, startGym, type Told } from "./test-gym.ts";
import { badLink } from "./test-link.ts";

test.runIf(gymRequired)("gymnasium is there when it is required", () => {
  expect(gymPython, "SACCADE_GYM_PYTHON names a Python with gymnasium").toBeTruthy();
});

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});
async function start(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const server = await startGym(args, env);
  open.push(server);
  return server;
}
async function connect(url: string, more: Options = {}): Promise<Env> {
  const env = await makeEnv("remote", { url, backoffMs: 1, retries: 40, ...more });
  open.push({ close: async () => env.close?.() });
  return env;
}
const testImage = (messages: readonly Message[]) =>
  createHash("sha256")
    .update(messages.flatMap(imagesOf)[0]?.data ?? new Uint8Array())
    .digest("hex");

async function play(env: Env, seed: number, replies: readonly string[]): Promise<Told[]> {
  const told: Told[] = [[null, false, testImage(await env.reset(seed))]];
  for (const reply of replies) {
    const step = await env.step(reply);
    const over = step.terminated || step.truncated;
    told.push([step.rewards[0]?.value ?? Number.NaN, over, testImage(step.observation)]);
    if (over) break;
  }
  return told;
}

describe.runIf(gymPython)("a Gymnasium environment", () => {
  const lake = ["FrozenLake-v1", "--actions", "left,down,right,up"];
  test.each<[string, string[], object, (random: NumpyRandom) => unknown]>([
    ["FrozenLake-v1", [], {}, (random) => random.integers(0, 4)],
    ["Taxi-v4", [], {}, (random) => random.integers(0, 6)],
    ["CartPole-v1", [], {}, (random) => random.integers(0, 2)],
    ["Pendulum-v1", ["--option", "g=9.5"], { g: 9.5 }, (random) => [Math.round(random.uniform(-2, 2) * 64) / 64]],
  ])("%s over a bad link is the episode that Python plays, frame for frame", async (name, args, options, draw) => {
    const link = await badLink((await start([name, ...args])).url, 3);
    open.push(link);
    const env = await connect(link.url);
    for (const seed of [1, 2]) {
      const random = new NumpyRandom(seed);
      const actions = Array.from({ length: 12 }, () => draw(random));
      const replies = actions.map((action) => `I go.<action>${JSON.stringify(action)}</action>`);
      expect(await play(env, seed, replies)).toEqual(playDirectly(name, options, seed, actions));
    }
    expect(link.faults["lost answer"]).toBeGreaterThan(0);
  });

  test("says its actions, takes them by name, and tells a reply that it can't read", async () => {
    const env = await connect((await start([...lake, "--option", "is_slippery=false", "--max-turns", "5"])).url);
    const [system] = await env.reset(0);
    expect(textOf(system as Message)).toContain("The actions are left, down, right, up.");
    const unread = await env.step("down");
    expect(unread).toMatchObject({ rewards: [{ value: 0 }], info: { parsed: false, valid: false } });
    expect(textOf(unread.observation[0] as Message)).toContain("no <action> tags");
    for (const reply of ["<action>7</action>", "<action>north</action>"]) {
      expect((await env.step(reply)).info.parsed).toBe(false);
    }
    expect((await env.step("<action>Down</action>")).info.played).toEqual(["down"]);
    expect(await env.step("<action>down</action>")).toMatchObject({
      terminated: false,
      truncated: true,
      success: false,
    });
    await expect(env.step("<action>down</action>")).rejects.toThrow("no running episode");
  });

  test("succeeds where Gymnasium says so, with observations in words", async () => {
    const env = await connect((await start([...lake, "--observe", "text", "--option", "is_slippery=false"])).url);
    const [, first] = await env.reset(0);
    expect(textOf(first as Message)).toBe("0");
    const way = ["down", "down", "right", "right", "down", "right"];
    let last = await env.step("<action>x</action>");
    for (const move of way) last = await env.step(`<action>${move}</action>`);
    expect(last).toMatchObject({ terminated: true, success: true, rewards: [{ name: "task", value: 1 }] });
  });

  test("takes only the options that clients were let to set, and no other environment", async () => {
    const { url } = await start([...lake, "--client-option", "map_name"]);
    const big = await connect(url, { config: { options: { map_name: "8x8" } } });
    expect(imagesOf((await big.reset(0))[1] as Message)[0]?.width).toBe(512);
    for (const [config, words] of [
      [{ options: { desc: ["SG"] } }, "desc can only be set when the server is started"],
      [{ env: "os:system" }, "one of FrozenLake-v1"],
      [{ size: 4 }, "env_config has env"],
    ] as const) {
      await expect((await connect(url, { config })).reset(0)).rejects.toThrow(words);
    }
  });

  test("asks for its key beyond this machine, and refuses other sites and broken bodies with words", async () => {
    await expect(startGym([...lake, "--host", "0.0.0.0"], { SACCADE_API_KEY: "" })).rejects.toThrow("put a key");
    const key = "a-key-of-24-characters-x";
    const { url } = await start([...lake, "--host", "0.0.0.0"], { SACCADE_API_KEY: key });
    const at = url.replace("0.0.0.0", "127.0.0.1");
    const { type, body } = packParcel({ data: { env_config: {} }, images: [] }, "form-data");
    const ask = async (headers: Record<string, string>, content: string | Uint8Array<ArrayBuffer> = body) => {
      const answer = await fetch(`${at}/connect`, { method: "POST", headers, body: content });
      return [answer.status, answer.ok || (await answer.json())] as const;
    };
    expect((await ask({ "content-type": type }))[0]).toBe(401);
    const known = { "x-api-key": key };
    expect(await ask({ ...known, "content-type": type })).toEqual([200, true]);
    expect((await ask({ ...known, "content-type": type, origin: "http://evil.example" }))[0]).toBe(403);
    for (const broken of ["", "--x", '{"a": 1}', body.subarray(0, 90)]) {
      const [status, said] = await ask({ ...known, "content-type": type }, broken);
      expect([status, typeof (said as { error: unknown }).error]).toEqual([400, "string"]);
    }
    expect((await ask({ ...known, "content-type": "application/json" }, "{}"))[0]).toBe(400);
    expect((await ask({ ...known, "content-type": type }, new Uint8Array(5 * 2 ** 20)))[0]).toBe(413);
  });
});
