/** What clients of inference servers promise: bodies as real servers sent them, a sequence survives its server, and no weights that were not published. */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { Image } from "../../core/image.ts";
import type { ImageProcessor } from "../../model/image-processor.ts";
import type { Sampler } from "../engine.ts";
import { EngineLost } from "../errors.ts";
import { Fleet, type Weights } from "./fleet.ts";
import { HttpClient, ServerLost, ServerRefused } from "./http.ts";
import { VllmSampler } from "./sampler.ts";
import { VllmServer } from "./server.ts";
import { streamOf, TestServer } from "./test-server.ts";
import type { Drawn, GenerateRequest, PromptImage } from "./token-server.ts";

const golden = (name: string) =>
  JSON.parse(readFileSync(new URL(`golden/${name}.json`, import.meta.url), "utf8")) as {
    request: { token_ids: number[] };
    status: number;
    body: unknown;
  };

const open: { close(): void }[] = [];
const servers: TestServer[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) one.close();
  for (const server of servers.splice(0)) await server.kill();
});

async function testServer(): Promise<TestServer> {
  const server = await new TestServer().start();
  servers.push(server);
  return server;
}

function client(server: TestServer, timeoutMs = 10_000): VllmServer {
  const made = new VllmServer(server.url, { timeoutMs });
  open.push(made);
  return made;
}

function fleetOf(
  list: readonly TestServer[],
  patienceMs = 10_000,
  onTrouble: (message: string) => void = () => undefined,
): Fleet {
  const made = new Fleet(
    list.map((server) => client(server)),
    { patienceMs, everyMs: 20, onTrouble },
  );
  open.push(made);
  return made;
}

/** The learner's snapshot and the processor: not asked where nothing is scored or seen. */
const unasked = () => Promise.reject(new Error("not asked"));
const OWN: Sampler = {
  version: 1,
  sample: unasked,
  score: unasked,
  release: () => undefined,
  close: async () => undefined,
};
const NO_IMAGES = {} as ImageProcessor;

const testImage = (hash: string): PromptImage => ({
  start: 0,
  length: 1,
  image: new Image(1, 1, new Uint8Array(3)),
  features: { hash, grid: [1, 2, 2], dtype: "float32", data: new Uint8Array(4 * 1536 * 4) },
});
const request = (session: string, more: Partial<GenerateRequest> = {}): GenerateRequest => ({
  ids: [1, 2, 3],
  images: [],
  maxTokens: 8,
  temperature: 1,
  seed: 5,
  stopIds: [7],
  bannedIds: [90, 91],
  session,
  ...more,
});
const version = (number: number): Weights => ({
  kind: "reload",
  folder: `/exchange/version-${number}`,
  version: number,
});

test("connections that the server closed while they were idle say nothing about the server", async () => {
  const used = new WeakSet<object>();
  const hasty = createServer((incoming, response) => {
    // As a server that ends idle connections just when they are used again.
    if (used.has(incoming.socket)) incoming.socket.destroy();
    used.add(incoming.socket);
    response.end("{}");
  });
  await new Promise<void>((done) => hasty.listen(0, "127.0.0.1", done));
  const client = new HttpClient(`http://127.0.0.1:${(hasty.address() as AddressInfo).port}`, { concurrency: 4 });
  const ask = () => client.get("/", { timeoutMs: 5000 });
  try {
    expect(await Promise.all([ask(), ask(), ask()])).toEqual([{}, {}, {}]);
    expect(await ask()).toEqual({});
  } finally {
    client.close();
    hasty.close();
  }
});

test("what is asked of a server itself does not wait behind answers that are being drawn", async () => {
  const busy = createServer((incoming, response) => {
    if (incoming.url === "/health") response.end("{}");
  });
  await new Promise<void>((done) => busy.listen(0, "127.0.0.1", done));
  const client = new HttpClient(`http://127.0.0.1:${(busy.address() as AddressInfo).port}`, { concurrency: 2 });
  const stop = new AbortController();
  const drawn = [1, 2, 3].map(() => client.post("/generate", {}, { timeoutMs: 60_000, signal: stop.signal }));
  try {
    expect(await client.get("/health", { timeoutMs: 5000 })).toEqual({});
  } finally {
    stop.abort();
    await Promise.allSettled(drawn);
    client.close();
    busy.closeAllConnections();
    busy.close();
  }
});

describe("a server's bodies", () => {
  test("recorded answers are read: ids, log-probabilities, likeliest ids, the prompt's own", async () => {
    const server = await testServer();
    server.override = ({ path }) => (path.includes("generate") ? golden("gen_basic") : undefined);
    const basic = await client(server).generate(request("a"));
    expect(basic).toMatchObject({ ids: [314, 324, 327], logprobs: [-0.25, -0.25, -0.25], finish: "stop" });
    server.override = ({ path }) => (path.includes("generate") ? golden("gen_toplp_promptlp") : undefined);
    const rich = await client(server).generate(request("a", { topLogprobs: 2, promptLogprobs: true }));
    expect(rich.topLogprobs?.[0]).toEqual([
      { id: 314, logprob: -0.25 },
      { id: 1, logprob: -2 },
    ]);
    expect([...(rich.promptLogprobs ?? [])]).toEqual([0, -1.5, -1.5]);
  });

  test.each(["gen_badmodel", "gen_bad_empty"])("%s: the server's own words and its status", async (name) => {
    const server = await testServer();
    server.override = ({ path }) => (path.includes("generate") ? golden(name) : undefined);
    const { status } = golden(name);
    const failed = await client(server)
      .generate(request("a"))
      .catch((error) => error);
    expect(failed).toBeInstanceOf(ServerRefused);
    expect(failed.status).toBe(status);
    expect(failed.message).toMatch(/does not exist|token_ids/);
  });

  test("a request bans what can't be drawn, ends only where it is told to, and leaves nothing to defaults", async () => {
    const server = await testServer();
    await client(server).generate(request("a"));
    expect(server.generated.at(-1)?.body).toMatchObject({
      model: "policy",
      token_ids: [1, 2, 3],
      sampling_params: {
        n: 1,
        max_tokens: 8,
        temperature: 1,
        top_p: 1,
        top_k: 0,
        seed: 5,
        logprobs: 0,
        ignore_eos: true,
        stop_token_ids: [7],
        logit_bias: { 90: -100, 91: -100 },
      },
    });
  });

  test("an image's pixels are sent once, and again to a server that lost them", async () => {
    const server = await testServer();
    const one = client(server);
    const images = [testImage("p")];
    const sent = () =>
      (server.generated.at(-1)!.body.features as { kwargs_data: { image: unknown[] } }).kwargs_data.image[0];
    await one.generate(request("a", { images }));
    expect(sent()).toBeTypeOf("string");
    await one.generate(request("a", { images }));
    expect(sent()).toBeNull();
    server.images.clear();
    await one.generate(request("a", { images }));
    expect(sent()).toBeTypeOf("string");
  });

  test("servers that were started without what training needs are refused, with the flag that is missing", async () => {
    const server = await testServer();
    server.logprobsMode = "raw_logprobs";
    await expect(client(server).probe()).rejects.toThrow(/--logprobs-mode processed_logprobs/);
    server.logprobsMode = "processed_logprobs";
    server.override = ({ path }) =>
      path.includes("generate") ? { status: 403, body: { error: { message: "no" } } } : undefined;
    await expect(client(server).probe()).rejects.toThrow(/--enable-scale-out/);
    server.override = ({ path }) =>
      path.includes("server_info") ? { status: 404, body: { detail: "Not Found" } } : undefined;
    await expect(client(server).probe()).rejects.toThrow(/VLLM_SERVER_DEV_MODE/);
  });

  test("a request that is taken back, or too slow, ends at once", async () => {
    const server = await testServer();
    server.override = async ({ path }) => {
      if (path.includes("generate")) await new Promise((done) => setTimeout(done, 60_000).unref());
      return undefined;
    };
    const abort = new AbortController();
    const taken = client(server).generate(request("a", { signal: abort.signal }));
    setTimeout(() => abort.abort(new Error("enough")), 50);
    await expect(taken).rejects.toThrow("enough");
    await expect(client(server, 50).generate(request("a"))).rejects.toBeInstanceOf(ServerLost);
  });
});

describe("a streamed answer", () => {
  test("a recorded one is told id by id, and whole at its end", async () => {
    const server = await testServer();
    server.override = ({ path }) =>
      path.includes("generate") ? { events: golden("gen_stream").body as string } : undefined;
    const parts: Drawn[] = [];
    const whole = await client(server).generate(request("a", { onPart: (part) => parts.push(part) }));
    expect(parts.map(({ ids }) => ids)).toEqual([[314], [324], [327]]);
    expect(whole).toMatchObject({ ids: [314, 324, 327], logprobs: [-0.25, -0.25, -0.25], finish: "stop" });
    expect(server.generated.at(-1)?.body.stream).toBe(true);
  });

  test("an error before the first id is an error; one that comes later leaves a beginning", async () => {
    const server = await testServer();
    const failed = 'data: {"error":{"message":"out of blocks","code":500}}\n\ndata: [DONE]\n\n';
    server.override = ({ path }) => (path.includes("generate") ? { events: failed } : undefined);
    await expect(client(server).generate(request("a", { onPart: () => undefined }))).rejects.toThrow("out of blocks");
    const begun = streamOf(server.sample({ token_ids: [1], sampling_params: { max_tokens: 8 } }), 2);
    server.override = ({ path }) => (path.includes("generate") ? { events: begun + failed } : undefined);
    const { ids, finish } = await client(server).generate(request("a", { onPart: () => undefined }));
    expect({ ids, finish }).toEqual({ ids: [1, 2], finish: "abort" });
  });

  test("goes on elsewhere when its server dies in the middle, and no id is told twice", async () => {
    const both = [await testServer(), await testServer()] as const;
    const fleet = fleetOf(both);
    await fleet.load(version(1));
    const [dies, lives] = both;
    dies.override = ({ path, body }) =>
      path.includes("generate")
        ? { events: streamOf(dies.sample(body as Parameters<TestServer["sample"]>[0]), 2), breaks: true }
        : undefined;
    const told: number[] = [];
    const sampler = new VllmSampler({
      fleet,
      weights: () => version(1),
      own: OWN,
      processor: NO_IMAGES,
      visionIds: [],
    });
    const { ids, versions } = await sampler.sample(
      { ids: Int32Array.of(1, 2, 3), images: [] },
      { maxTokens: 8, temperature: 1, seed: 0, stopIds: [7] },
      {
        sequence: "a",
        onToken: (id) => {
          told.push(id);
          // After the second, the machine is gone.
          if (told.length === 2) void dies.kill();
        },
      },
    );
    expect(told).toEqual([...ids]);
    expect([...ids].slice(0, 2)).toEqual([6, 7]);
    expect(lives.generated.map(({ body }) => body.token_ids)).toEqual([[1, 2, 3, 6, 7]]);
    expect(new Set(versions)).toEqual(new Set([1]));
  });

  test("ids of weights that were never published are not told", async () => {
    const server = await testServer();
    const fleet = fleetOf([server]);
    await fleet.load(version(4));
    // Started anew behind our back.
    server.version = "default";
    const told: string[] = [];
    const onPart = ({ versions }: Drawn) => told.push(...versions);
    const { ids } = await fleet.generate(request("a", { onPart }), () => version(4));
    expect(told).toEqual(ids.map(() => "4"));
  });
});

describe("several servers", () => {
  test("new weights: pause, reload, caches, name, resume; and only once", async () => {
    const server = await testServer();
    const fleet = fleetOf([server]);
    await fleet.probe();
    await fleet.load(version(1));
    await fleet.load(version(1));
    expect(server.controls).toEqual([
      "/pause?mode=keep&clear_cache=true",
      "/collective_rpc",
      "/collective_rpc",
      "/reset_encoder_cache",
      "/reset_prefix_cache",
      "/update_weight_version",
      "/resume",
    ]);
    expect(server.asked.find(({ path }) => path === "/collective_rpc")?.body).toEqual({
      method: "reload_weights",
      kwargs: { weights_path: "/exchange/version-1" },
    });
    const { versions } = await fleet.generate(request("a"), () => version(1));
    expect(new Set(versions)).toEqual(new Set(["1"]));
  });

  test("weights from a learner's memory: the server's workers and the giver meet while it is paused", async () => {
    const server = await testServer();
    server.override = ({ path }) => (path.startsWith("/get_world_size") ? { body: { world_size: 2 } } : undefined);
    const fleet = fleetOf([server]);
    const given: number[] = [];
    const parcel = { names: ["a"], dtypes: ["float32"], shapes: [[2, 3]] };
    const offer = {
      host: "10.0.0.1",
      to: async (takers: number) => ({
        ...parcel,
        port: 4000,
        backend: "gloo",
        give: async () => {
          given.push(takers);
        },
      }),
    };
    await fleet.generate(request("a"), () => ({ kind: "transfer", version: 3, offer }));
    const asked = server.asked.filter(({ path }) => /weight/.test(path));
    expect(asked).toEqual([
      {
        path: "/init_weight_transfer_engine",
        body: { init_info: { host: "10.0.0.1", port: 4000, size: 3, backend: "gloo" } },
      },
      { path: "/start_weight_update", body: {} },
      { path: "/update_weights", body: { update_info: parcel } },
      { path: "/finish_weight_update", body: {} },
      { path: "/update_weight_version", body: { new_version: "3" } },
    ]);
    expect(given).toEqual([2]);
    expect([server.controls[0], server.controls.at(-1)]).toEqual(["/pause?mode=keep&clear_cache=true", "/resume"]);
  });

  test("a learner that dies while it gives its weights is a learner that died, whatever the servers say", async () => {
    const server = await testServer();
    server.override = ({ path }) => {
      if (path.startsWith("/get_world_size")) return { body: { world_size: 1 } };
      return path === "/update_weights" ? { status: 500, body: { error: "nothing came" } } : undefined;
    };
    const give = async () => {
      await new Promise((done) => setTimeout(done, 100));
      throw new EngineLost("The worker is gone.");
    };
    const to = async () => ({ names: [], dtypes: [], shapes: [], port: 4000, backend: "gloo", give });
    const loading = fleetOf([server]).load({ kind: "transfer", version: 3, offer: { host: "10.0.0.1", to } });
    await expect(loading).rejects.toThrow(EngineLost);
  });

  test("a sequence stays with its server, and moves with its whole prompt when that one dies", async () => {
    const both = [await testServer(), await testServer()];
    const fleet = fleetOf(both);
    const play = (session: string, ids: number[]) => fleet.generate(request(session, { ids }), () => version(1));
    const homes = new Map<string, string>();
    for (const session of ["a", "b", "c", "d"]) homes.set(session, (await play(session, [1])).url);
    expect(new Set(homes.values()).size).toBe(2);
    for (const [session, url] of homes) expect((await play(session, [1, 2])).url).toBe(url);
    const [dead, alive] = both as [TestServer, TestServer];
    await dead.kill();
    const answers = await Promise.all([...homes.keys()].map((session) => play(session, [1, 2, 3])));
    for (const { url, ids } of answers) {
      expect(url).toBe(alive.url);
      expect(ids).toEqual([6, 7, 8, 7]);
    }
  });

  test("a server that was restarted is given the newest weights before anything it says is believed", async () => {
    const server = await testServer();
    const fleet = fleetOf([server]);
    await fleet.load(version(4));
    await server.kill();
    const waiting = fleet.generate(request("a"), () => version(4));
    await server.start();
    expect((await waiting).versions.every((name) => name === "4")).toBe(true);
    // A restart that nobody noticed: it answers at once, as somebody else.
    server.version = "default";
    const again = await fleet.generate(request("a"), () => version(4));
    expect(again.versions.every((name) => name === "4")).toBe(true);
  });

  test("after a broken connection, answers to what was asked before it are not taken for those of another server", async () => {
    const server = await testServer();
    const troubles: string[] = [];
    const fleet = fleetOf([server], 10_000, (trouble) => troubles.push(trouble));
    await fleet.load(version(1));
    let asked = 0;
    let reloads = 0;
    server.override = async ({ path }) => {
      if (path === "/update_weight_version") reloads += 1;
      // Reloading takes its time.
      if (path === "/collective_rpc") await sleep(100);
      if (!path.includes("generate")) return undefined;
      asked += 1;
      if (asked === 1) return { events: "", breaks: true };
      // Those that were asked with the first answer one by one, while the server gets its weights again.
      if (asked <= 8) await sleep(asked * 15);
      return undefined;
    };
    const sessions = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const answers = sessions.map((session) => fleet.generate(request(session), () => version(1)));
    for (const { versions } of await Promise.all(answers)) expect(new Set(versions)).toEqual(new Set(["1"]));
    expect(reloads).toBe(1);
    expect(troubles).toEqual([expect.stringContaining("was lost"), expect.stringContaining("is back")]);
  });

  test("sleep and wake reach every server that is there; one that is lost meanwhile ends nothing", async () => {
    const both = [await testServer(), await testServer()] as const;
    const fleet = fleetOf(both);
    await fleet.sleep();
    await both[0].kill();
    await fleet.wake();
    expect(both.map(({ asked }) => asked.map(({ path }) => path))).toEqual([
      ["/sleep?level=1&mode=wait"],
      ["/sleep?level=1&mode=wait", "/wake_up"],
    ]);
    expect((await fleet.generate(request("a"), () => version(1))).url).toBe(both[1].url);
  });

  test("when all servers stay away, the error names them", async () => {
    const server = await testServer();
    const fleet = fleetOf([server], 100);
    const { url } = server;
    await server.kill();
    await expect(fleet.generate(request("a"), () => version(1))).rejects.toThrow(url);
  });

  test("a request that breaks a healthy server is given up on, not sent for ever", async () => {
    const server = await testServer();
    const fleet = fleetOf([server]);
    server.override = ({ path }) =>
      path.includes("generate") ? { status: 500, body: { error: { message: "odd" } } } : undefined;
    await expect(fleet.generate(request("a"), () => version(1))).rejects.toThrow("odd");
    expect(server.generated.length).toBe(3);
  });

  test("weights that a server can't read are an error that says where they must lie", async () => {
    const server = await testServer();
    const fleet = fleetOf([server]);
    server.override = ({ path }) =>
      path === "/collective_rpc" ? { status: 500, body: { error: "no such file" } } : undefined;
    await expect(fleet.load(version(1))).rejects.toThrow(/exchange/);
    // It is not left paused.
    expect(server.controls.at(-1)).toBe("/resume");
  });

  test("a server whose engine dies while it takes new weights ends nothing: the others have them and go on", async () => {
    const [broken, sound] = [await testServer(), await testServer()];
    const fleet = fleetOf([broken, sound]);
    // Its HTTP side lives on and says so.
    broken.override = ({ path }) =>
      path === "/collective_rpc" || path === "/health"
        ? { status: 503, body: { error: "EngineDeadError" } }
        : undefined;
    await fleet.load(version(1));
    for (const session of ["a", "b"]) {
      expect((await fleet.generate(request(session), () => version(1))).url).toBe(sound.url);
    }
  });

  test("adapters: one per version, loaded where it is asked for, dropped when its sampler goes", async () => {
    const server = await testServer();
    const fleet = fleetOf([server]);
    const adapter = (number: number): Weights => ({
      kind: "adapter",
      base: "/models/base",
      folder: `/exchange/version-${number}`,
      version: number,
    });
    await fleet.load(adapter(1));
    await fleet.load(adapter(2));
    await fleet.generate(request("a"), () => adapter(1));
    expect(server.generated.at(-1)?.body.model).toMatch(/^policy-\w+-v1$/);
    await fleet.generate(request("b"), () => adapter(2));
    expect(server.generated.at(-1)?.body.model).toMatch(/^policy-\w+-v2$/);
    const loads = server.asked.filter(({ body }) => body.method === "reload_weights");
    expect(loads.map(({ body }) => body.kwargs)).toEqual([{ weights_path: "/models/base" }]);
    // Started anew behind our back, it has neither.
    server.version = "default";
    await fleet.generate(request("b"), () => adapter(2));
    expect(server.version).toBe("base");
    await fleet.load(adapter(1));
    await fleet.unloadAdapter(adapter(1));
    expect(server.asked.at(-1)).toMatchObject({
      path: "/v1/unload_lora_adapter",
      body: { lora_name: expect.stringMatching(/-v1$/) },
    });
  });
});
