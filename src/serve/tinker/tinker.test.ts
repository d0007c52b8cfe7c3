/** The Tinker face without its SDK: operations are done once and outlive the server; what can't be read is refused in words. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DataError } from "../../core/errors.ts";
import { NativeEngine } from "../../engine/index.ts";
import type { HttpRequest } from "../../http/request.ts";
import { temporaryFolder } from "../../model/test-folder.ts";
import { decodeBatch, denseValues } from "../../tinker/messages.ts";
import { Fields, Writer } from "../../tinker/protobuf.ts";
import { startServer } from "../server.ts";
import { createServable } from "../test-serve.ts";
import { Journal } from "./journal.ts";
import { Links } from "./links.ts";
import { Listings } from "./rest.ts";
import { parseJson } from "./schemas.ts";
import { Sessions } from "./sessions.ts";

let root = "";
beforeAll(async () => {
  root = await temporaryFolder();
  await createServable(join(root, "model"));
});
afterAll(() => rm(root, { recursive: true, force: true }));

/** A server over a store, with an engine of its own: what another process would be. */
async function open(store: string, change: (engine: NativeEngine) => void = () => {}) {
  const engine = new NativeEngine({ threads: 2 });
  change(engine);
  const server = await startServer({ engine, folder: join(root, "model"), name: "policy", store: join(root, store) });
  return {
    url: server.url,
    async close() {
      await server.close();
      await engine.close();
    },
  };
}

type Body = object | Uint8Array;
async function post(
  url: string,
  route: string,
  body: Body,
): Promise<{ status: number; body: Record<string, unknown>; raw: Uint8Array }> {
  const binary = body instanceof Uint8Array;
  const answer = await fetch(`${url}/api/v1/${route}`, {
    method: "POST",
    headers: { "content-type": binary ? "application/x-protobuf" : "application/json" },
    body: binary ? (body as Uint8Array<ArrayBuffer>) : JSON.stringify(body),
  });
  const raw = new Uint8Array(await answer.arrayBuffer());
  const isJson = (answer.headers.get("content-type") ?? "").includes("json");
  return {
    status: answer.status,
    raw,
    body: isJson ? (JSON.parse(Buffer.from(raw).toString()) as Record<string, unknown>) : {},
  };
}

function batch(modelId: string, seq: number, ids: readonly number[]): Uint8Array {
  const tensor = (values: Int32Array | Float32Array | BigInt64Array, type: number) =>
    new Writer().bytes(1, new Uint8Array(values.buffer)).integer(3, type).integers(4, [values.length]);
  const input = (name: string, value: Writer) => new Writer().text(1, name).message(2, value);
  const text = new Writer().bytes(1, new Uint8Array(Int32Array.from(ids).buffer));
  const targets = BigInt64Array.from(ids, (_, i) => BigInt(ids[i + 1] ?? 44));
  const datum = new Writer()
    .message(1, new Writer().message(1, text))
    .message(2, input("target_tokens", tensor(targets, 2)))
    .message(2, input("weights", tensor(new Float32Array(ids.length).fill(1), 1)));
  return new Writer().text(1, modelId).integer(2, seq).message(3, datum).text(4, "cross_entropy").finish();
}

/** `loss:sum` of a forward-backward future. */
async function loss(url: string, request: unknown): Promise<number> {
  const { raw, status } = await post(url, "retrieve_future", { request_id: request });
  expect([status, raw[0] === 123 ? Buffer.from(raw).toString() : ""]).toEqual([200, ""]);
  return new Map(new Fields(raw).map(3).map(([name, entry]) => [name, entry.double(2)])).get("loss:sum") as number;
}

/** Greedy ids and their log-probabilities, as they came. */
async function sample(url: string, session: unknown): Promise<string> {
  const { body: future, status } = await post(url, "asample", {
    sampling_session_id: session,
    prompt: { chunks: [{ type: "encoded_text", tokens: [40, 41, 42] }] },
    sampling_params: { max_tokens: 6, temperature: 0 },
  });
  expect(status).toBe(200);
  return Buffer.from((await post(url, "retrieve_future", { request_id: future.request_id })).raw).toString("hex");
}

const adam = (modelId: string, seq: number) => ({
  model_id: modelId,
  seq_id: seq,
  adam_params: { learning_rate: 0.05 },
});

async function create(url: string): Promise<string> {
  const { body: session } = await post(url, "create_session", { tags: [] });
  const asked = { session_id: session.session_id, model_seq_id: 0, base_model: "policy", lora_config: { rank: 4 } };
  const { body: future } = await post(url, "create_model", asked);
  const { body } = await post(url, "retrieve_future", { request_id: future.request_id });
  return body.model_id as string;
}

describe("a server that ended", () => {
  test("does again what its journal has, once: losses go on as if nothing had happened, old results and snapshots are there", async () => {
    const losses: number[][] = [];
    for (const interrupted of [false, true]) {
      let server = await open(`store ${interrupted}`);
      const model = await create(server.url);
      const found: number[] = [];
      let first: unknown;
      for (let step = 0; step < 4; step++) {
        const body = batch(model, 2 * step + 1, [40, 41, 42, 43 + step]);
        const { body: learn } = await post(server.url, "forward_backward", body);
        const { body: move } = await post(server.url, "optim_step", adam(model, 2 * step + 2));
        if (step === 0) {
          // Sent again, as after a lost answer.
          expect((await post(server.url, "forward_backward", body)).body.request_id).toBe(learn.request_id);
          expect((await post(server.url, "optim_step", adam(model, 2))).body.request_id).toBe(move.request_id);
          first = learn.request_id;
        }
        found.push(await loss(server.url, learn.request_id));
        expect((await post(server.url, "retrieve_future", { request_id: move.request_id })).status).toBe(200);
        if (!interrupted || step !== 1) continue;
        const saved = { model_id: model, seq_id: 100, sampling_session_seq_id: 7 };
        const { body: save } = await post(server.url, "save_weights_for_sampler", saved);
        const { body: sampler } = await post(server.url, "retrieve_future", { request_id: save.request_id });
        const before = await sample(server.url, sampler.sampling_session_id);
        await server.close();
        server = await open(`store ${interrupted}`);
        expect(await loss(server.url, first)).toBe(found[0]);
        expect(await sample(server.url, sampler.sampling_session_id)).toEqual(before);
      }
      losses.push(found);
      await server.close();
    }
    expect(losses[1]).toEqual(losses[0]);
    expect(losses[0]![3]).toBeLessThan(losses[0]![0]!);
  });
});

/** Trains a little and keeps all that lies in folders: a checkpoint, a named sampler, an unnamed one. */
async function fill(url: string) {
  const model = await create(url);
  const done = async (route: string, body: Body) => {
    const { body: future } = await post(url, route, body);
    return (await post(url, "retrieve_future", { request_id: future.request_id })).body;
  };
  await done("forward_backward", batch(model, 1, [40, 41, 42, 43]));
  await done("optim_step", adam(model, 2));
  const { path } = await done("save_weights", { model_id: model, seq_id: 3, path: "kept" });
  const { path: named } = await done("save_weights_for_sampler", { model_id: model, seq_id: 4, path: "kept" });
  const unnamed = await done("save_weights_for_sampler", { model_id: model, seq_id: 5, sampling_session_seq_id: 0 });
  const session = model.split(":")[0];
  const open = async (seq: number, asked: object) => {
    const body = { session_id: session, sampling_session_seq_id: seq, ...asked };
    return (await post(url, "create_sampling_session", body)).body.sampling_session_id;
  };
  const samplers = [unnamed.sampling_session_id, await open(1, { model_path: named })];
  return { model, path, samplers: [...samplers, await open(2, { base_model: "policy" })] };
}

/** Everything that `fill` left, as it answers now. */
async function look(url: string, { model, path, samplers }: Awaited<ReturnType<typeof fill>>, seq: number) {
  const drawn: string[] = [];
  for (const sampler of samplers) drawn.push(await sample(url, sampler));
  const { body: load } = await post(url, "load_weights", { model_id: model, seq_id: seq, path, optimizer: true });
  expect((await post(url, "retrieve_future", { request_id: load.request_id })).body).toMatchObject({ path });
  const { body: learn } = await post(url, "forward_backward", batch(model, seq + 1, [40, 41, 42, 43]));
  const found = await loss(url, learn.request_id);
  const { body: move } = await post(url, "optim_step", adam(model, seq + 2));
  await post(url, "retrieve_future", { request_id: move.request_id });
  return { drawn, found };
}

describe("a store", () => {
  test("can be moved: its checkpoints, samplers and snapshots are found where it is now", async () => {
    let server = await open("here");
    const kept = await fill(server.url);
    const before = await look(server.url, kept, 10);
    await server.close();
    await rename(join(root, "here"), join(root, "there"));
    server = await open("there");
    expect(await look(server.url, kept, 20)).toEqual(before);
    await server.close();
    expect(await readdir(root)).not.toContain("here");
  });

  test("of the version before, which named folders from the root, opens; also where it was moved", async () => {
    let server = await open("old");
    const kept = await fill(server.url);
    const before = await look(server.url, kept, 10);
    await server.close();
    const file = join(root, "old", "tinker", "journal.sqlite");
    await makeOld(file, join(root, "old", "tinker"), join(root, "model"));
    await rename(join(root, "old"), join(root, "old moved"));
    server = await open("old moved");
    expect(await look(server.url, kept, 20)).toEqual(before);
    const { body } = await post(server.url, "sessions/search", {});
    expect(body).toMatchObject({ sessions: [{ project_id: "default", status: null }] });
    await server.close();
  });

  test.runIf(process.platform !== "win32")("is for its user alone: folder 0700, journal 0600", async () => {
    const server = await open("private");
    await create(server.url);
    const folder = join(root, "private", "tinker");
    const modes = async (path: string) => (await stat(path)).mode & 0o777;
    expect(await modes(folder)).toBe(0o700);
    const files = (await readdir(folder)).filter((name) => name.startsWith("journal"));
    expect(files.length).toBeGreaterThan(1);
    for (const name of files) expect([name, await modes(join(folder, name))]).toEqual([name, 0o600]);
    await server.close();
  });

  test("has one server: a second is refused in words, and may have it when the first has ended", async () => {
    const first = await open("shared");
    await expect(open("shared")).rejects.toThrow(/Another server \(process \d+\) has the store .*shared open.*--store/);
    expect((await post(first.url, "create_session", { tags: [] })).status).toBe(200);
    await first.close();
    await (await open("shared")).close();
  });

  test("that a killed process had open is free", async () => {
    const store = join(root, "killed");
    await (await open("killed")).close();
    const script = `import { Journal } from ${JSON.stringify(new URL("./journal.ts", import.meta.url).href)};
      await Journal.open(process.argv[1]); process.stdout.write("open"); setInterval(() => {}, 1000);`;
    const jiti = fileURLToPath(new URL("../../../node_modules/jiti/lib/jiti-cli.mjs", import.meta.url));
    const file = join(root, "holds.ts");
    await writeFile(file, script.replace("process.argv[1]", JSON.stringify(join(store, "tinker"))));
    const child = spawn(process.execPath, [jiti, file], { stdio: ["ignore", "pipe", "inherit"] });
    await once(child.stdout, "data");
    await expect(open("killed")).rejects.toThrow(/Another server/);
    child.kill("SIGKILL");
    await once(child, "exit");
    await (await open("killed")).close();
  });
});

/** Turns a journal into what version 2 would have written. */
async function makeOld(file: string, store: string, base: string): Promise<void> {
  const { default: Sqlite } = (await import("libsql")) as unknown as {
    default: new (file: string) => { exec(sql: string): void; close(): void };
  };
  const database = new Sqlite(file);
  database.exec(`
    UPDATE models SET snapshot = '${store}/' || snapshot WHERE snapshot IS NOT NULL;
    UPDATE checkpoints SET folder = '${store}/' || folder;
    UPDATE samplers SET folder = CASE WHEN folder IS NULL THEN '${base}' ELSE '${store}/' || folder END;
    ALTER TABLE checkpoints DROP COLUMN public;
    ALTER TABLE sessions DROP COLUMN project;
    ALTER TABLE sessions DROP COLUMN finish;
    ALTER TABLE sessions ADD COLUMN status TEXT;
    UPDATE sessions SET status = 'active';
    PRAGMA user_version = 2;`);
  database.close();
}

test("a sample that is cancelled ends at once, and its future says so", async () => {
  let aborted = 0;
  const server = await open("cancelled", (engine) => {
    const make = engine.sampler.bind(engine);
    engine.sampler = async (folder) => {
      const sampler = await make(folder);
      const one = sampler.sample.bind(sampler);
      sampler.sample = (prompt, params, context) =>
        one(prompt, params, context).catch((error) => {
          aborted += 1;
          throw error;
        });
      return sampler;
    };
  });
  const { body: session } = await post(server.url, "create_session", { tags: [] });
  const { body: sampler } = await post(server.url, "create_sampling_session", {
    session_id: session.session_id,
    sampling_session_seq_id: 0,
    base_model: "policy",
  });
  const { body: future } = await post(server.url, "asample", {
    sampling_session_id: sampler.sampling_session_id,
    prompt: { chunks: [{ type: "encoded_text", tokens: [40, 41, 42] }] },
    sampling_params: { max_tokens: 900, stop: [] },
    num_samples: 64,
  });
  const asked = { request_id: future.request_id };
  const waiting = post(server.url, "retrieve_future", asked);
  expect((await post(server.url, "cancel_future", asked)).status).toBe(204);
  expect((await waiting).body).toEqual({ error: "The client cancelled this sample.", category: "user" });
  expect(aborted).toBe(64);
  // Once more, or of what never was: no fault.
  expect((await post(server.url, "cancel_future", asked)).status).toBe(204);
  expect((await post(server.url, "cancel_future", { request_id: "sample:none:0" })).status).toBe(204);
  await server.close();
});

test("an operation that is told to have failed because its model could not be opened is not done by who opens it later", async () => {
  const ids = [40, 41, 42, 43];
  const later = async (fails: boolean) => {
    const store = `unopened ${fails}`;
    let server = await open(store);
    const model = await create(server.url);
    await server.close();
    let wanting = fails ? 1 : 0;
    server = await open(store, (engine) => {
      const learner = engine.learner.bind(engine);
      engine.learner = (spec) => (wanting-- > 0 ? Promise.reject(new Error("no memory is left")) : learner(spec));
    });
    if (fails) {
      const { body: lost } = await post(server.url, "forward_backward", batch(model, 1, ids));
      const told = async () => (await post(server.url, "retrieve_future", { request_id: lost.request_id })).body;
      expect(await told()).toMatchObject({ error: expect.stringContaining("no memory") });
      // A client that tries again does so under a new number.
      await post(server.url, "forward_backward", batch(model, 2, ids));
      expect(await told()).toMatchObject({ error: expect.stringContaining("no memory") });
    } else await post(server.url, "forward_backward", batch(model, 1, ids));
    const { body: move } = await post(server.url, "optim_step", adam(model, 3));
    await post(server.url, "retrieve_future", { request_id: move.request_id });
    const { body: look } = await post(server.url, "forward_backward", batch(model, 4, ids));
    const found = await loss(server.url, look.request_id);
    await server.close();
    return found;
  };
  expect(await later(true)).toBe(await later(false));
});

test("a checkpoint that is given more time while others expire stays", async () => {
  for (const name of ["a", "b"]) await mkdir(join(root, "expiring", "run", name, "model"), { recursive: true });
  const journal = await Journal.open(join(root, "expiring"));
  const listings = new Listings(journal, new Links("/x/", journal), new Sessions(journal), () => {});
  for (const name of ["a", "b"])
    journal.run(
      "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
      ...["run", "weights", name, `run/${name}/model`, 1, 1, null, 2],
    );
  const request = { method: "GET" } as HttpRequest;
  const listing = listings.trainingRuns({ request, query: new URLSearchParams(), parts: ["training_runs"] });
  // The files of the first are being removed now.
  journal.run("UPDATE checkpoints SET expires = NULL WHERE name = 'b'");
  await listing;
  expect(journal.all("SELECT name FROM checkpoints")).toEqual([{ name: "b" }]);
  expect(await readdir(join(root, "expiring", "run"))).toEqual(["b"]);
  await journal.close();
});

test("weights that a caller ruined are the caller's fault, whatever is asked of them, and the server lives on", async () => {
  const server = await open("ruined");
  const model = await create(server.url);
  await post(server.url, "forward_backward", batch(model, 1, [40, 41, 42, 43]));
  const ruin = { ...adam(model, 2), adam_params: { learning_rate: 1e30 } };
  const { body: move } = await post(server.url, "optim_step", ruin);
  await post(server.url, "retrieve_future", { request_id: move.request_id });
  const saved = { model_id: model, seq_id: 3, sampling_session_seq_id: 0 };
  const { body: save } = await post(server.url, "save_weights_for_sampler", saved);
  const { body: sampler } = await post(server.url, "retrieve_future", { request_id: save.request_id });
  const { body: future } = await post(server.url, "asample", {
    sampling_session_id: sampler.sampling_session_id,
    prompt: { chunks: [{ type: "encoded_text", tokens: [40, 41, 42] }] },
    sampling_params: { max_tokens: 2 },
    num_samples: 2,
    topk_prompt_logprobs: 2,
  });
  const { body } = await post(server.url, "retrieve_future", { request_id: future.request_id });
  expect(body).toMatchObject({ error: expect.stringContaining("not finite"), category: "user" });
  expect((await post(server.url, "create_session", { tags: [] })).status).toBe(200);
  await server.close();
});

describe("what can't be read", () => {
  let server: Awaited<ReturnType<typeof open>>;
  let model = "";
  beforeAll(async () => {
    server = await open("store");
    model = await create(server.url);
  });
  afterAll(() => server.close());

  test.each<[string, string, () => Body, number]>([
    ["a model that is not there", "optim_step", () => adam("none", 1), 404],
    ["a future that is not there", "retrieve_future", () => ({ request_id: "optim_step:none" }), 404],
    ["a sample that was forgotten", "retrieve_future", () => ({ request_id: "sample:none:1" }), 410],
    [
      "a path that leaves the store",
      "load_weights",
      () => ({ model_id: model, seq_id: 9, path: "tinker://../weights/x" }),
      404,
    ],
    ["a path of no form", "weights_info", () => ({ tinker_path: "/etc/passwd" }), 400],
    [
      "another payload under an old number",
      "optim_step",
      () => ({ ...adam(model, 1), adam_params: { learning_rate: 2 } }),
      400,
    ],
    ["JSON where protobuf belongs", "forward_backward", () => ({}), 400],
    ["broken protobuf", "forward_backward", () => Uint8Array.of(10, 200), 400],
    [
      "another base model",
      "create_model",
      () => ({ session_id: model.split(":")[0], model_seq_id: 5, base_model: "x" }),
      400,
    ],
  ])("%s is refused", async (_, route, body, status) => {
    if (route === "optim_step" && status === 400) await post(server.url, "optim_step", adam(model, 1));
    const answer = await post(server.url, route, body());
    expect([answer.status, typeof answer.body.detail]).toEqual([status, "string"]);
  });

  test("checkpoints have plain names", async () => {
    for (const path of ["../x", "a/b", "", ".hidden"]) {
      const { body } = await post(server.url, "save_weights", { model_id: model, path });
      const { body: result } = await post(server.url, "retrieve_future", { request_id: body.request_id });
      expect(result).toMatchObject({ category: "user", error: expect.stringContaining("name") });
    }
  });

  test("bytes of any kind are a batch or a DataError", async () => {
    const whole = batch("m", 1, [40, 41, 42]);
    expect(await decodeBatch(whole)).toMatchObject({ model_id: "m", seq_id: 1, loss_fn: "cross_entropy" });
    const cut = fc.tuple(fc.nat(whole.length - 1), fc.nat(255)).map(([at, byte]) => {
      const bytes = whole.slice();
      bytes[at] = byte;
      return bytes;
    });
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.uint8Array({ maxLength: 200 }), cut), async (bytes) => {
        try {
          for (const { inputs } of (await decodeBatch(bytes)).data)
            for (const tensor of inputs.values()) denseValues(tensor);
        } catch (error) {
          expect(error).toBeInstanceOf(DataError);
        }
      }),
      { numRuns: 3000 },
    );
  });

  test("numbers beyond 2⁵³ are kept apart", () => {
    expect(parseJson('{"seq_id": 661755978000000001, "a": "\\"seq_id\\": 661755978000000001", "seed":5}')).toEqual({
      seq_id: "661755978000000001",
      a: '"seq_id": 661755978000000001',
      seed: 5,
    });
  });
});
