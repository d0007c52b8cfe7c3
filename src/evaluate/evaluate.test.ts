/** Evaluations end to end: over HTTP in each provider's wire format, with failures injected, interrupted, resumed; and over the native engine. */
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import { imagesOf } from "../core/message.ts";
import { NativeEngine } from "../engine/native/engine.ts";
import { type TestModel, tinyModel } from "../engine/native/test-model.ts";
import { type EngineConfig, registerEngine } from "../engine/registry.ts";
import { makeWorldEnv } from "../envs/registry.ts";
import { decodePng, encodePng } from "../images/png.ts";
import { chatModel } from "../model/chat.ts";
import { loadFolder } from "../model/folder.ts";
import { tokenAgent } from "../rollout/agents.ts";
import { playSeeds } from "../rollout/play.ts";
import { listRuns, loadEvents, readFrameBytes, readManifest, readTrajectories } from "../run/index.ts";
import { type EvaluationOptions, evaluateModel } from "./evaluate.ts";
import type { Clock } from "./gate.ts";
import { openModel } from "./models.ts";
import { type EpisodeResult, RESULTS_FILE } from "./results.ts";
import { type Answer, type Asked, TestServer, type Wire } from "./test-server.ts";

const JITI = join(import.meta.dirname, "../../node_modules/jiti/lib/jiti-cli.mjs");
const WIRES: readonly Wire[] = ["openai", "anthropic", "google", "server"];
const ENV = "frozen_lake";
const OPTIONS = { protocol: "keyword", cellSize: 16, minSteps: 2, maxTurns: 9 } as const;
const SEEDS = Array.from({ length: 12 }, (_, i) => 200 + i);

/** What the oracle says to each frame, found without the code under test; and the frame each seed opens with. */
const oracle = new Map<string, string>();
const opening = new Map<string, number>();
const solvable = new Set<number>();
beforeAll(async () => {
  const env = await makeWorldEnv(ENV, OPTIONS);
  for (const seed of SEEDS) {
    let messages = await env.reset(seed);
    opening.set(imagesOf(messages[0]!)[0]!.hash, seed);
    for (let over = false; !over; ) {
      const reply = await env.oracleReply();
      oracle.set(imagesOf(messages.at(-1)!)[0]!.hash, reply);
      const step = await env.step(reply);
      over = step.terminated || step.truncated;
      if (step.success) solvable.add(seed);
      messages = [...step.observation];
    }
  }
  expect(opening.size).toBe(SEEDS.length);
  expect(solvable.size).toBe(SEEDS.length);
});

const seenIn = (asked: Asked) => decodePng(asked.turns.at(-1)!.images[0]!).hash;
const seedOf = (asked: Asked) => opening.get(decodePng(asked.turns[0]!.images[0]!).hash)!;
/** A model that looks at the image it is sent and knows the answer. */
const play = (asked: Asked): Answer => ({ text: oracle.get(seenIn(asked)) ?? "I am lost." });

/** Time passes when somebody waits for it, and an answer takes too long when `expire` says so. */
function fakeClock(): Clock & { waits: number[]; limits: number[]; expire(): void } {
  let now = 1_000_000;
  const waits: number[] = [];
  const limits: number[] = [];
  let running = new AbortController();
  return {
    waits,
    limits,
    expire: () => running.abort(new Error("time is up")),
    now: () => now,
    async wait(ms, signal) {
      signal.throwIfAborted();
      waits.push(ms);
      now += ms;
    },
    limit(ms, outer) {
      limits.push(ms);
      const controller = new AbortController();
      running = controller;
      const follow = () => controller.abort(outer.reason);
      outer.addEventListener("abort", follow, { once: true });
      return { signal: controller.signal, release: () => outer.removeEventListener("abort", follow) };
    },
    random: () => 0.5,
  };
}

let root: string;
let server: TestServer;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "saccade-eval-"));
  server = await new TestServer(play).start();
});
afterEach(async () => {
  expect(server.complaints).toEqual([]);
  await server.stop();
  await rm(root, { recursive: true, force: true });
});

function settings(wire: Wire, more: Partial<EvaluationOptions> = {}): EvaluationOptions {
  return {
    ...server.model(wire),
    envs: [ENV],
    options: OPTIONS,
    seeds: SEEDS,
    out: join(root, "out"),
    clock: fakeClock(),
    ...more,
  };
}

async function lines(folder = join(root, "out")): Promise<EpisodeResult[]> {
  const text = await readFile(join(folder, RESULTS_FILE), "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as EpisodeResult);
}

describe.each(WIRES)("In the wire format of %s", (wire) => {
  test("the numbers are those of the replies, and images arrive as the very PNG of the frame", async () => {
    const lost = new Set(SEEDS.slice(0, 3));
    server.script = (asked) =>
      lost.has(seedOf(asked))
        ? { text: "hm", input: 50, output: 2 }
        : { ...(play(asked) as object), text: (play(asked) as { text: string }).text, input: 120, output: 9 };
    const { report, folder } = await evaluateModel(
      settings(wire, { maxTokens: 77, temperature: 0.3, price: { input: 2, output: 10 } }),
    );
    const [env] = report.envs;
    expect(env).toMatchObject({
      env: ENV,
      protocol: "keyword",
      maxTurns: 9,
      success: { count: 9, total: 12, value: 0.75 },
      against: { stop: { count: 0, total: 12 }, oracle: { count: 12, total: 12 }, random: { total: 12 } },
      ended: { done: 9, max_turns: 3 },
      failed: 0,
      missing: 0,
    });
    expect(report.complete).toBe(true);
    expect(report.notes.join()).toContain("test-model");

    const bad = server.asked.filter((asked) => lost.has(seedOf(asked))).length;
    const good = server.asked.length - bad;
    expect(bad).toBe(27);
    expect(env!.unparsed).toBeCloseTo(bad / (bad + good), 12);
    expect(env!.turns).toBeCloseTo((bad + good) / 12, 12);
    expect(report.spent).toMatchObject({
      requests: bad + good,
      retries: 0,
      inputTokens: 50 * bad + 120 * good,
      outputTokens: 2 * bad + 9 * good,
      unmetered: 0,
    });
    expect(report.spent.cost).toBeCloseTo((2 * (50 * bad + 120 * good) + 10 * (2 * bad + 9 * good)) / 1e6, 12);

    for (const asked of server.asked) {
      expect(asked).toMatchObject({
        model: wire === "server" ? "org/test-model" : "test-model",
        maxTokens: 77,
        temperature: 0.3,
      });
      // Whole history: one image a turn, all of them every time.
      const users = asked.turns.filter(({ role }) => role === "user");
      expect(users.every(({ images }) => images.length === 1)).toBe(true);
    }
    const env0 = await makeWorldEnv(ENV, OPTIONS);
    const first = imagesOf((await env0.reset(SEEDS[5]!))[0]!)[0]!;
    const sent = server.asked.find((asked) => seedOf(asked) === SEEDS[5] && asked.turns.length === 1)!;
    expect(sent.turns[0]!.images[0]!.equals(encodePng(first))).toBe(true);

    const rows = await readTrajectories(folder, 0);
    expect(rows.map(({ id }) => id).sort()).toEqual(SEEDS.map((seed) => `${ENV}#${seed}/0`).sort());
    for (const row of rows) {
      expect(row.split).toBe("eval");
      for (const hash of [...row.turns.flatMap(({ frames }) => frames), ...row.final!.frames]) {
        expect(await readFrameBytes(folder, hash)).toBeDefined();
      }
    }
  });

  test("rate limits, server errors, broken answers, and cut connections are tried again, and change no number", async () => {
    const faults: Answer[] = [
      { status: 429, headers: { "retry-after": "7" }, message: "slow down", code: "rate_limit_error" },
      { status: 500, message: "oops", code: "server_error" },
      "broken",
      { status: 503, headers: { "retry-after-ms": "1500" }, code: "overloaded_error" },
      "nonsense",
      "drop",
    ];
    const tries = new Map<string, number>();
    const answered = new Map<string, number>();
    server.script = (asked) => {
      const attempt = tries.get(asked.body) ?? 0;
      tries.set(asked.body, attempt + 1);
      // Each conversation meets its own two faults before it is answered.
      const place = seedOf(asked) + asked.turns.length;
      if (attempt < 2) return faults[(place + 3 * attempt) % faults.length]!;
      answered.set(asked.body, (answered.get(asked.body) ?? 0) + 1);
      return play(asked);
    };
    const clock = fakeClock();
    const { report } = await evaluateModel(settings(wire, { clock }));
    expect(report.envs[0]).toMatchObject({ success: { count: 12, total: 12 }, failed: 0, unparsed: 0 });
    expect([...answered.values()].every((count) => count === 1)).toBe(true);
    expect(report.spent).toMatchObject({
      requests: server.asked.length,
      retries: 2 * answered.size,
      inputTokens: 100 * answered.size,
    });
    expect(Math.max(...clock.waits)).toBeGreaterThanOrEqual(7000);
    expect(report.complete).toBe(true);
  });

  test("an answer that does not come in time is asked for again", async () => {
    const clock = fakeClock();
    server.script = (asked, call) => {
      if (call % 3 !== 0) return play(asked);
      setImmediate(clock.expire);
      return "hang";
    };
    const { report } = await evaluateModel(
      settings(wire, { clock, timeoutMs: 42_000, seeds: SEEDS.slice(0, 3), concurrency: 1 }),
    );
    expect(report.envs[0]).toMatchObject({ success: { count: 3, total: 3 }, failed: 0, unparsed: 0 });
    expect(report.spent).toMatchObject({
      requests: server.asked.length,
      retries: Math.ceil(server.asked.length / 3),
    });
    expect(new Set(clock.limits)).toEqual(new Set([42_000]));
  });

  test("a refusal, an empty reply and a cut one are replies: they cost a turn and are counted", async () => {
    const [refused, silent, cut] = SEEDS;
    server.script = (asked) => {
      const first = asked.turns.length === 1;
      if (seedOf(asked) === refused && first) return { text: "I can't help with that.", finish: "refusal" };
      if (seedOf(asked) === silent && first) return { text: "" };
      if (seedOf(asked) === cut && first) return { text: "Let me think about", finish: "length" };
      return play(asked);
    };
    const { report, folder } = await evaluateModel(settings(wire, { maxTurns: 10 }));
    expect(report.envs[0]).toMatchObject({ success: { count: 12, total: 12 }, failed: 0 });
    const results = new Map((await lines()).map((line) => [line.seed, line]));
    expect(results.get(refused!)).toMatchObject({ unparsed: 1, usage: { refusals: 1 } });
    expect(results.get(silent!)).toMatchObject({ unparsed: 1, usage: { refusals: 0, emptyReplies: 1 } });
    expect(results.get(cut!)).toMatchObject({ unparsed: 1, cut: 1 });
    expect(results.get(SEEDS[6]!)).toMatchObject({ unparsed: 0, cut: 0, usage: { refusals: 0, emptyReplies: 0 } });
    const turns = report.envs[0]!.turns * 12;
    expect(report.envs[0]!.refused).toBeCloseTo(1 / turns, 12);
    const row = (await readTrajectories(folder, 0)).find(({ seed }) => seed === cut);
    expect(row!.turns[0]).toMatchObject({ stopReason: "length", parsed: false, reply: "Let me think about" });
  });

  test("what fails for our reasons counts against success, is told, and the next run plays that and nothing else", async () => {
    const down = SEEDS[4]!;
    server.script = (asked) => (seedOf(asked) === down ? { status: 500, message: "out of order" } : play(asked));
    const { report, markdown } = await evaluateModel(settings(wire, { retries: 2 }));
    expect(report.failure).toMatchObject({ env: "frozen_lake", seed: down, end: "engine_error" });
    expect(markdown).toMatch(/The first failure:\n\n```\nThe agent failed in turn 1: HTTP 500: out of order/);
    expect(markdown).toMatch(/\| asked \| played \| failed \|[\s\S]*\| 12 \| 11 \| 1 \|/);
    expect(report.envs[0]).toMatchObject({
      success: { count: 11, total: 12, failed: 1, value: 11 / 12 },
      failed: 1,
      asked: 12,
      played: 11,
      missing: 0,
      ended: { done: 11 },
    });
    expect(report.complete).toBe(false);
    expect(report.errors).toEqual([
      { count: 1, message: expect.stringContaining("HTTP 500: out of order (asked 3 times)") as string },
    ]);

    const before = server.asked.length;
    server.script = play;
    const again = await evaluateModel(settings(wire, { retries: 2 }));
    expect(server.asked.slice(before).every((asked) => seedOf(asked) === down)).toBe(true);
    expect(again.report.envs[0]).toMatchObject({ success: { count: 12, total: 12 }, failed: 0 });
    expect(again.report.complete).toBe(true);
    // The failed attempt stays in the accounts.
    expect(again.report.spent.requests).toBe(server.asked.length);
    const all = server.asked.length;
    await evaluateModel(settings(wire, { retries: 2 }));
    expect(server.asked.length).toBe(all);
  });
});

describe("Resuming", () => {
  test("after an interruption nothing that ended is played again and nothing is lost", async () => {
    const stop = new AbortController();
    let ended = 0;
    const options = settings("server", {
      signal: stop.signal,
      concurrency: 3,
      onEpisode: () => (++ended === 5 ? stop.abort() : undefined),
    });
    const { report } = await evaluateModel(options);
    const kept = (await lines()).filter(({ scored }) => scored).map(({ seed }) => seed);
    expect(kept.length).toBeGreaterThanOrEqual(5);
    expect(kept.length).toBeLessThan(12);
    expect(report.complete).toBe(false);
    expect(report.envs[0]).toMatchObject({ success: { total: kept.length } });
    expect((await readManifest(join(root, "out"))).manifest?.status).toBe("stopped");

    const before = server.asked.length;
    const { report: whole } = await evaluateModel(settings("server"));
    const replayed = new Set(server.asked.slice(before).map(seedOf));
    expect([...replayed].sort()).toEqual(SEEDS.filter((seed) => !kept.includes(seed)));
    expect(whole.envs[0]).toMatchObject({ success: { count: 12, total: 12 }, failed: 0, missing: 0 });
    expect(whole.spent.requests).toBe(server.asked.length);
    expect((await readTrajectories(join(root, "out"), 0)).length).toBe(12);
    expect((await readManifest(join(root, "out"))).manifest?.status).toBe("finished");
  });

  test("a results file whose last line was cut by a kill loses that episode alone", async () => {
    await evaluateModel(settings("server"));
    const file = join(root, "out", RESULTS_FILE);
    const size = (await readFile(file)).length;
    const last = (await lines()).at(-1)!.seed;
    await truncate(file, size - 30);
    const before = server.asked.length;
    const { report } = await evaluateModel(settings("server"));
    expect(new Set(server.asked.slice(before).map(seedOf))).toEqual(new Set([last]));
    expect(report.envs[0]).toMatchObject({ success: { count: 12, total: 12 } });
    expect(report.notes.join()).toContain("cut off");
  });

  test("a process killed at any instant leaves all it said was written, and the next one plays the rest", async () => {
    const { clock: _, ...options } = settings("server", { concurrency: 2 });
    const args = [JITI, join(import.meta.dirname, "test-process.ts"), JSON.stringify(options)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    server.script = (request, call) => {
      if (call >= 30) child.kill("SIGKILL");
      return play(request);
    };
    let printed = "";
    child.stdout.on("data", (data: Buffer) => {
      printed += data.toString();
    });
    await new Promise((resolve) => child.once("close", resolve));
    expect(child.signalCode).toBe("SIGKILL");
    const said = new Set(printed.trim().split("\n").map(Number));
    expect(said.size).toBeGreaterThan(1);

    const before = server.asked.length;
    server.script = play;
    const { report, folder } = await evaluateModel(settings("server"));
    expect(server.asked.slice(before).filter((request) => said.has(seedOf(request)))).toEqual([]);
    expect(report.envs[0]).toMatchObject({ success: { count: 12, total: 12 }, failed: 0, missing: 0 });
    const missing: string[] = [];
    expect((await readTrajectories(folder, 0, missing)).length).toBe(12);
    expect(missing).toEqual([]);
  }, 600_000);

  test("more seeds, repeats and environments are added to what is there", async () => {
    await evaluateModel(settings("server", { seeds: SEEDS.slice(0, 4) }));
    const before = server.asked.length;
    const { report } = await evaluateModel(settings("server", { seeds: SEEDS.slice(2, 8), repeats: 2 }));
    expect(report.envs[0]).toMatchObject({ success: { count: 12, total: 12 } });
    const openings = server.asked
      .slice(before)
      .filter(({ turns }) => turns.length === 1)
      .map(seedOf)
      .sort();
    // 202 and 203 were played once, the other four not at all.
    expect(openings).toEqual([202, 203, 204, 204, 205, 205, 206, 206, 207, 207]);
  });

  test.each<[string, Partial<EvaluationOptions>]>([
    ["temperature", { temperature: 0.5 }],
    ["reply length", { maxTokens: 99 }],
    ["history", { history: 1 }],
    ["protocol", { options: { ...OPTIONS, protocol: "think" } }],
    ["options", { options: { ...OPTIONS, feedback: false } }],
    ["turn limit", { maxTurns: 5 }],
    ["model", { model: "anthropic:other-model" }],
  ])("another %s is another evaluation: it is refused in this folder and gets one of its own", async (_, change) => {
    const base = settings("anthropic", { seeds: SEEDS.slice(0, 3) });
    await evaluateModel(base);
    const before = server.asked.length;
    await expect(evaluateModel({ ...base, ...change })).rejects.toThrow(/another setting .*choose another --out/);
    expect(server.asked.length).toBe(before);
    const { report } = await evaluateModel({ ...base, ...change, out: join(root, "other") });
    expect(report.envs[0]!.success.total).toBe(3);
    const keys = new Set((await lines()).map(({ key }) => key));
    for (const { key } of await lines(join(root, "other"))) expect(keys.has(key)).toBe(false);
  });

  test("a changed environment file is another environment", async () => {
    const file = join(root, "world.mjs");
    const source = (prize: number) => `
      const pay = ${prize};
      export default { kind: "env", id: "coin", summary: "", options: { shape: {}, safeParse: (data) => ({ success: true, data }), parse: () => ({}) },
        create: () => ({ reset: (seed) => [{ role: "user", content: [{ type: "text", text: "heads or tails? " + seed }] }],
          step: (reply) => ({ observation: [], rewards: [{ name: "task", value: pay }], terminated: true, truncated: false, success: reply === "heads",
            info: { actions: [], parsed: true, wellFormed: true, valid: true } }) }) };`;
    server.script = () => ({ text: "heads" });
    await writeFile(file, source(1));
    const options = { ...settings("server", { envs: [file], seeds: [1, 2, 3] }), options: {} };
    const { report } = await evaluateModel(options);
    // An environment without a world has the floor alone.
    expect(report.envs[0]).toMatchObject({ success: { count: 3, total: 3 }, against: { stop: { count: 0 } } });
    expect(report.envs[0]!.against.oracle).toBeUndefined();
    await evaluateModel(options);
    expect(server.asked.length).toBe(3);
    await writeFile(file, source(0));
    await evaluateModel(options);
    expect(server.asked.length).toBe(6);
  });

  test("a folder with another kind of run is left alone", async () => {
    const out = join(root, "out");
    await evaluateModel(settings("server", { seeds: [200] }));
    const manifest = JSON.parse(await readFile(join(out, "run.json"), "utf8")) as { config: object };
    await writeFile(join(out, "run.json"), JSON.stringify({ ...manifest, config: { steps: 60 } }));
    await expect(evaluateModel(settings("server"))).rejects.toThrow(/not an evaluation: choose another --out/);
  });
});

describe("What stops or spares an evaluation", () => {
  test.each<[string, Answer, RegExp]>([
    ["a wrong key", { status: 401, message: "bad key", code: "invalid_api_key" }, /can't be asked: HTTP 401: bad key/],
    ["no such model", { status: 404, message: "no such model" }, /HTTP 404/],
    ["an empty account", { status: 429, message: "pay first", code: "insufficient_quota" }, /HTTP 429: pay first/],
  ])("%s ends it at once, with the provider's words", async (_, answer, message) => {
    server.script = () => answer;
    await expect(evaluateModel(settings("openai", { concurrency: 1 }))).rejects.toThrow(message);
    expect(server.asked.length).toBe(1);
    const { manifest } = await readManifest(join(root, "out"));
    expect(manifest).toMatchObject({ status: "failed", message: expect.stringMatching(message) as string });
    server.script = play;
    const { report } = await evaluateModel(settings("openai"));
    expect(report.envs[0]).toMatchObject({ success: { count: 12, total: 12 } });
  });

  test("a conversation too long for the model is the model's failure, a first message too long is ours", async () => {
    const long: Answer = {
      status: 400,
      message: "This model's maximum context length is 4096 tokens.",
      code: "context_length_exceeded",
    };
    server.script = (asked) => {
      if (seedOf(asked) === SEEDS[0]) return long;
      return seedOf(asked) === SEEDS[1] && asked.turns.length > 1 ? long : play(asked);
    };
    const { report } = await evaluateModel(settings("server"));
    expect(report.envs[0]).toMatchObject({
      success: { count: 10, total: 12 },
      failed: 1,
      ended: { done: 10, max_tokens: 1 },
    });
    expect(report.errors[0]!.message).toContain("lower --max-tokens");
  });

  test("a provider that asks for a longer wait than ten minutes is given up on", async () => {
    server.script = () => ({ status: 429, headers: { "retry-after": "86400" } });
    const { report } = await evaluateModel(settings("anthropic", { seeds: [200] }));
    expect(report).toMatchObject({ complete: false, errors: [{ count: 1 }] });
    expect(server.asked.length).toBe(1);
  });

  test("requests are spaced to the rate that was asked for", async () => {
    const clock = fakeClock();
    const times: number[] = [];
    server.script = (asked) => {
      times.push(clock.now());
      return play(asked);
    };
    await evaluateModel(settings("google", { clock, ratePerMinute: 120, concurrency: 1 }));
    times.sort((a, b) => a - b);
    for (let i = 1; i < times.length; i++) expect(times[i]! - times[i - 1]!).toBeGreaterThanOrEqual(500);
  });

  test("missing keys and wrong names are said before anything is played", async () => {
    const keyless = { ...settings("openai"), environment: {} };
    await expect(evaluateModel(keyless)).rejects.toThrow(/OPENAI_API_KEY/);
    await expect(evaluateModel({ ...settings("server"), envs: ["frozen_leak"] })).rejects.toThrow(ConfigError);
    await expect(evaluateModel({ ...settings("server"), model: "no/such/folder" })).rejects.toThrow(/provider:name/);
    await expect(evaluateModel({ ...settings("server"), model: "http://127.0.0.1:1/v1" })).rejects.toThrow(/url#name/);
    expect(server.asked).toEqual([]);
  });

  test("a server's key is sent only when it is asked for, and only to that server", async () => {
    const environment = { OPENAI_API_KEY: "secret", MY_KEY: "mine" };
    await evaluateModel({ ...settings("server", { seeds: [200] }), environment });
    expect(server.asked.every(({ headers }) => headers.authorization === undefined)).toBe(true);
    await evaluateModel({ ...settings("server", { seeds: [201] }), environment, keyVariable: "MY_KEY" });
    expect(server.asked.at(-1)!.headers.authorization).toBe("Bearer mine");
  });
});

describe("History and observations", () => {
  test("a window shows the first turn, the last k and the present one", async () => {
    server.script = () => ({ text: "hm" });
    await evaluateModel(settings("server", { seeds: [200], history: 2 }));
    expect(server.asked.map(({ turns }) => turns.length)).toEqual([1, 3, 5, 7, 7, 7, 7, 7, 7]);
    const last = server.asked.at(-1)!.turns.filter(({ role }) => role === "user");
    expect(last.map(({ text }) => Number(/Turn (\d)/.exec(text)?.[1]))).toEqual([1, 7, 8, 9]);
  });

  test("text observations send no image, a goal image adds one", async () => {
    server.script = () => ({ text: "hm" });
    await evaluateModel(settings("server", { seeds: [200], options: { ...OPTIONS, observation: "text" } }));
    expect(server.asked.every(({ turns }) => turns.every(({ images }) => images.length === 0))).toBe(true);
    server.asked.length = 0;
    await evaluateModel(
      settings("server", { seeds: [200], options: { ...OPTIONS, finalGoal: true }, out: join(root, "goal") }),
    );
    expect(
      server.asked
        .at(-1)!
        .turns.map(({ images }) => images.length)
        .filter((n) => n > 0),
    ).toEqual([2, 1, 1, 1, 1, 1, 1, 1, 1]);
  });
});

describe("Presets", () => {
  test("visgym: 20 turns for easy and 30 for hard, images of at most 336 pixels, a mean for each", async () => {
    const sides: number[] = [];
    server.script = (asked) => {
      for (const { images } of asked.turns)
        for (const png of images) sides.push(Math.max(decodePng(png).width, decodePng(png).height));
      return { text: "('stop', 'stop')" };
    };
    const rest = settings("server", {
      preset: "visgym",
      options: { cellSize: 50 },
      seeds: [0, 1, 2],
      envs: ["maze_2d", "maze_2d/hard"],
    });
    const { report, markdown } = await evaluateModel(rest);
    expect(report.envs.map(({ env, maxTurns, protocol }) => [env, maxTurns, protocol])).toEqual([
      ["maze_2d/easy", 20, "tuple"],
      ["maze_2d/hard", 30, "tuple"],
    ]);
    expect(Math.max(...sides)).toBe(336);
    expect(server.asked[0]!.maxTokens).toBe(8192);
    expect(report.means.map(({ of, envs, success, stop }) => [of, envs, success.value, stop])).toEqual([
      ["easy", 1, 0, 0],
      ["hard", 1, 0, 0],
      ["all", 2, 0, 0],
    ]);
    expect(markdown).toContain("**mean hard** (1)");
  });

  test("vagen: five turns of several actions, 1,024 tokens", async () => {
    server.script = () => ({ text: "<think>go</think><answer>left,down</answer>" });
    const { options: _, ...rest } = settings("server", {
      preset: "vagen",
      envs: ["frozen_lake", "sokoban"],
      seeds: [10_001, 10_002],
    });
    const { report } = await evaluateModel(rest);
    expect(report.envs.map(({ env, maxTurns, protocol, unparsed }) => [env, maxTurns, protocol, unparsed])).toEqual([
      ["frozen_lake", 5, "think", 0],
      ["sokoban", 5, "think", 0],
    ]);
    expect(server.asked[0]!.maxTokens).toBe(1024);
  });
});

describe("Repeats", () => {
  test("pass@k is over seeds, and the interval counts seeds", async () => {
    const openings = new Map<number, number>();
    server.script = (asked) => {
      const seed = seedOf(asked);
      if (asked.turns.length === 1) openings.set(seed, (openings.get(seed) ?? 0) + 1);
      // Even seeds are solved at the first of three tries only, odd ones never.
      return seed % 2 === 0 && openings.get(seed) === 1 ? play(asked) : { text: "hm" };
    };
    const { report, markdown } = await evaluateModel(settings("server", { repeats: 3, concurrency: 1 }));
    const [env] = report.envs;
    expect(env!.success).toMatchObject({ count: 6, total: 36 });
    expect(env!.passAtK.map(({ k, value, seeds }) => [k, Number(value.toFixed(6)), seeds])).toEqual([
      [1, Number((1 / 6).toFixed(6)), 12],
      [2, Number((1 / 3).toFixed(6)), 12],
      [3, 0.5, 12],
    ]);
    // Wilson's of 2 in 12.
    expect(env!.success.low).toBeCloseTo(0.047, 3);
    expect(env!.success.high).toBeCloseTo(0.448, 3);
    expect(markdown).toContain("pass@3 50.0 % (12 seeds)");
    expect(
      (await readTrajectories(join(root, "out"), 0))
        .filter(({ seed }) => seed === 200)
        .map(({ sibling }) => sibling)
        .sort(),
    ).toEqual([0, 1, 2]);
  });
});

test.each(["oracle", "random", "stop"] as const)("agent:%s plays as the yardstick of that name", async (name) => {
  const { report } = await evaluateModel({
    model: `agent:${name}`,
    envs: [ENV],
    options: OPTIONS,
    seeds: SEEDS,
    out: join(root, "out"),
  });
  const [env] = report.envs;
  expect(env!.success.value).toBe(env!.against[name]!.value);
  expect(env!.success.total).toBe(SEEDS.length);
});

describe("A model folder", () => {
  let model: TestModel;
  beforeAll(async () => {
    model = await tinyModel();
  });
  afterAll(() => model.remove());

  test.each([
    ["whole history", {}],
    ["a window", { history: 1 }],
  ])("%s: plays over the native engine exactly as a token agent does", async (_, more) => {
    const options = { prompt: "brief", protocol: "keyword", cellSize: 16, maxTurns: 4 } as const;
    const seeds = [3, 4, 5, 6];
    const { report, folder } = await evaluateModel({
      model: model.folder,
      envs: [ENV],
      options,
      seeds,
      temperature: 0.7,
      maxTokens: 12,
      engine: { name: "native", threads: 1 },
      out: join(root, "out"),
      ...more,
    });
    const engine = new NativeEngine({ threads: 1 });
    const sampler = await engine.sampler(model.folder);
    const loaded = await loadFolder(model.folder);
    const split = "history" in more ? { turns: "split" as const, ...more } : {};
    const agent = tokenAgent({
      model: chatModel(loaded),
      sampler: () => sampler,
      temperature: 0.7,
      maxTokens: 12,
      ...split,
    });
    const said = new Map<number, string[]>();
    const scores = await playSeeds({
      agent,
      env: { id: ENV, options },
      seeds,
      onTrajectory: ({ seed, turns }) =>
        said.set(
          seed,
          turns.map(({ reply }) => reply),
        ),
    });
    await engine.close();
    expect(report.envs[0]!.success).toEqual(scores.success);
    expect(report.envs[0]).toMatchObject({
      turns: scores.turns,
      outputTokens: scores.sampledTokens,
      unparsed: scores.unparsed,
    });
    const rows = await readTrajectories(folder, 0);
    for (const { seed, turns, tokens } of rows) {
      expect(turns.map(({ reply }) => reply)).toEqual(said.get(seed));
      expect(tokens!.length).toBeGreaterThan(0);
    }
    const again = await evaluateModel({
      model: model.folder,
      envs: [ENV],
      options,
      seeds,
      temperature: 0.7,
      maxTokens: 12,
      engine: { name: "native", threads: 1 },
      out: join(root, "out"),
      ...more,
    });
    expect(again.report.envs).toEqual(report.envs);
    expect((await lines()).length).toBe(4);
  });

  test("played by another engine it is another evaluation", async () => {
    registerEngine("another", {
      settings: z.strictObject({}),
      open: () => new NativeEngine({ threads: 1 }),
    });
    const identity = async (engine: EngineConfig) => {
      const opened = await openModel(model.folder, { engine });
      await opened.close();
      return opened.identity;
    };
    const own = await identity("native");
    expect(await identity({ name: "native", threads: 2 })).toEqual(own);
    expect(await identity("another")).toEqual({ ...own, engine: "another" });
  });

  test("the run folder reads like any other: listed, finished, its numbers among the events", async () => {
    await evaluateModel(settings("openai"));
    const [run] = await listRuns(root);
    expect(run).toMatchObject({
      status: "finished",
      missing: [],
      metrics: {
        "eval/success": 1,
        "eval/asked": 12,
        "eval/episodes": 12,
        "eval/failed": 0,
        "eval/ceiling": 1,
        "eval/floor": 0,
      },
    });
    expect((await loadEvents(join(root, "out"))).events.map(({ kind }) => kind)).toEqual(["start", "eval", "end"]);
    // As in a training run: episodes are taken over in the environment they were played in.
    const { manifest } = await readManifest(join(root, "out"));
    const { options } = settings("openai");
    expect(manifest?.config.envs).toEqual([{ env: ENV, options: expect.objectContaining(options ?? {}) }]);
  });
});
