/** Environments over HTTP: the episode that is played there is the one that is played here, over any link; and what is refused. */
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { imagesOf, type Message } from "../core/message.ts";
import { mixSeed } from "../core/seed.ts";
import type { Env, Step } from "../envs/env.ts";
import { isRegistered, makeEnv, type Options, register } from "../envs/registry.ts";
import { packParcel, unpackParcel } from "../envs/remote-wire.ts";
import { builtinAgent } from "../rollout/builtin-agents.ts";
import { playSeeds } from "../rollout/play.ts";
import { faultyEnv } from "../rollout/test-faulty-env.ts";
import type { EnvironmentsOptions } from "./environments.ts";
import { type ServeOptions, type ServeServer, startServer } from "./server.ts";
import { badLink } from "./test-link.ts";

if (!isRegistered("faulty")) register(faultyEnv);

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

async function serve(environments: EnvironmentsOptions, options: Partial<ServeOptions> = {}): Promise<ServeServer> {
  const server = await startServer({ environments, ...options } as ServeOptions);
  open.push(server);
  return server;
}

async function remote(url: string | string[], env: string, config: Options = {}, more: Options = {}): Promise<Env> {
  const made = await makeEnv("remote", { url, env, config, ...more });
  open.push({ close: async () => made.close?.() });
  return made;
}

const seen = (messages: readonly Message[]) =>
  messages.map((message) => ({
    ...message,
    content: message.content.map((part) => (part.type === "image" ? part.image.hash : part)),
  }));

/** An episode that the oracle and chance play together, as data. */
async function episode(env: Env, seed: number): Promise<unknown[]> {
  const told: unknown[] = [seen(await env.reset(seed))];
  for (let turn = 0; turn < 40; turn++) {
    const agent = mixSeed("who", seed, turn) % 3 === 0 ? "random" : "oracle";
    const reply = (await env.builtinReply?.(agent, turn)) ?? "no idea";
    const step: Step = await env.step(reply);
    told.push({ ...step, reply, observation: seen(step.observation) });
    if (step.terminated || step.truncated) return told;
  }
  told.push(await env.truncate?.());
  return told;
}

async function post(
  url: string,
  path: string,
  data: unknown,
): Promise<{ status: number; data: unknown; text: string }> {
  const { type, body } = packParcel({ data: data as never, images: [] }, "form-data");
  const answer = await fetch(`${url}${path}`, { method: "POST", headers: { "content-type": type }, body });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const text = new TextDecoder().decode(bytes);
  if (!answer.ok) return { status: answer.status, data: undefined, text };
  return { status: 200, data: unpackParcel(bytes, answer.headers.get("content-type")).data, text };
}

const sessions = async (url: string) =>
  ((await (await fetch(`${url}/sessions`)).json()) as { num_sessions: number }).num_sessions;

describe("a remote environment", () => {
  test.each(["frozen_lake", "maze_2d/easy", "sokoban", "sliding_block", "color_codeword"])(
    "behind a link that drops, delays and repeats requests plays exactly the local episodes of %s",
    async (id) => {
      const { url } = await serve({ names: ["all"] });
      const link = await badLink(url, 7);
      open.push(link);
      const far = await remote(link.url, id, { protocol: "think" }, { backoffMs: 1, retries: 40 });
      const near = await makeEnv(id, { protocol: "think" });
      for (let seed = 0; seed < 4; seed++) expect(await episode(far, seed)).toEqual(await episode(near, seed));
      await far.close?.();
      for (const count of Object.values(link.faults)) expect(count).toBeGreaterThan(0);
      // Nothing that was repeated has left a second session behind.
      await link.close();
      open.splice(open.indexOf(link), 1);
      expect(await sessions(url)).toBe(0);
    },
  );

  test("is scored like a local one, beside the same yardsticks, spread over two servers", async () => {
    const urls = [(await serve({ names: ["frozen_lake"] })).url, (await serve({ names: ["frozen_lake"] })).url];
    const seeds = [1, 2, 3, 4, 5, 6];
    const play = (env: { id: string; options?: Options }) =>
      playSeeds({ env, seeds, agent: builtinAgent("random"), live: 3 });
    const { env: _, label: __, ...far } = await play({ id: "remote", options: { url: urls, env: "frozen_lake" } });
    const { env: ___, label: ____, ...near } = await play({ id: "frozen_lake" });
    expect(far).toEqual(near);
    expect(near.against.oracle?.success.value).toBe(1);
    for (const url of urls) expect(await sessions(url)).toBe(0);
  });

  test("opens a new session at reset when its own is gone, and says so in the middle of an episode", async () => {
    const first = await serve({ names: ["frozen_lake"] });
    const far = await remote(first.url, "frozen_lake", {}, { retries: 1, backoffMs: 1 });
    const before = seen(await far.reset(3));
    await first.close();
    open.splice(open.indexOf(first), 1);
    await expect(far.step("<action>left</action>")).rejects.toThrow("can't be reached");
    await serve({ names: ["frozen_lake"] }, { port: first.port });
    await expect(far.step("<action>left</action>")).rejects.toThrow("no such session");
    expect(seen(await far.reset(3))).toEqual(before);
  });

  test("an environment that breaks says so to its client, and the session goes on with the next reset", async () => {
    const { url } = await serve({ names: ["faulty"] });
    const far = await remote(url, "faulty", { throws: 1 });
    await far.reset(0);
    await expect(far.step("x")).rejects.toThrow("a fault was injected");
    await expect(far.step("x")).rejects.toThrow("no running episode");
    expect(await far.reset(1)).toHaveLength(1);
  });

  test("one that hangs ends its session after the limit", async () => {
    const { url } = await serve({ names: ["faulty"], callSeconds: 0.05 });
    const far = await remote(url, "faulty", { hangs: 1 });
    await far.reset(0);
    await expect(far.step("x")).rejects.toThrow("no answer within 50 ms");
    expect(await sessions(url)).toBe(0);
  });

  test("speaks with servers that know VAGEN's fields only", async () => {
    const { createServer } = await import("node:http");
    const { encodePng } = await import("../images/png.ts");
    const { Image } = await import("../core/image.ts");
    const png = encodePng(new Image(2, 2, new Uint8Array(12).fill(9)));
    const asked: string[] = [];
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const { data } = unpackParcel(Buffer.concat(chunks), request.headers["content-type"] ?? null);
      asked.push(`${request.url} ${data.method ?? JSON.stringify(data.env_config)}`);
      const answers: Record<string, [object, Uint8Array[]]> = {
        connect: [{ session_id: "a" }, []],
        system_prompt: [{ obs: "Be brief." }, []],
        reset: [{ obs: "You see <image> here.", info: {} }, [png]],
        step: [{ obs: "Gone.", reward: 0.5, done: true, info: { success: true } }, []],
      };
      const [said, images] = answers[String(data.method ?? "connect")] ?? [{}, []];
      const { type, body } = packParcel({ data: said as never, images }, "mixed");
      response.writeHead(200, { "content-type": type }).end(body);
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    open.push({ close: () => new Promise((done) => server.close(() => done()).closeAllConnections()) });
    const far = await makeEnv("remote", {
      url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
      config: { size: 4 },
    });
    const [system, first] = await far.reset(1);
    expect([system?.role, system?.content]).toEqual(["system", [{ type: "text", text: "Be brief." }]]);
    expect(first?.content.map(({ type }) => type)).toEqual(["text", "image", "text"]);
    expect(imagesOf(first as Message)[0]?.data[0]).toBe(9);
    const step = await far.step("go");
    expect(step).toMatchObject({
      terminated: true,
      truncated: false,
      success: true,
      rewards: [{ name: "task", value: 0.5 }],
    });
    expect(await far.truncate?.()).toEqual([]);
    expect(await far.builtinReply?.("oracle", 0)).toBeUndefined();
    expect(asked[0]).toBe('/connect {"size":4}');
  });
});

describe("a server of environments", () => {
  test("does a call once: its number gives the same answer again, and an older one is refused", async () => {
    const { url } = await serve({ names: ["frozen_lake"] });
    const opened = await post(url, "/connect", { env_config: { size: 4 }, seed: 5, key: "k" });
    const again = await post(url, "/connect", { env_config: { size: 4 }, seed: 5, key: "k" });
    expect(again.data).toEqual(opened.data);
    const { session_id: session } = opened.data as { session_id: string };
    const step = (call: number, action: string) =>
      post(url, "/call", { session_id: session, method: "step", params: { action_str: action }, call });
    const answers = await Promise.all([step(0, "<action>right</action>"), step(0, "<action>right</action>")]);
    expect(answers[0]?.data).toEqual(answers[1]?.data);
    await step(1, "<action>down</action>");
    expect(await step(0, "<action>right</action>")).toMatchObject({ status: 409 });
    expect(await step(1, "<action>left</action>")).toMatchObject({ status: 409 });
    expect(await step(3, "<action>left</action>")).toMatchObject({ status: 409 });
    expect(await sessions(url)).toBe(1);
  });

  test("a call that found no room may come again under its number, and is done then", async () => {
    const { url } = await serve({ names: ["faulty"], inflight: 1, waiting: 0 });
    const connect = async (env_config: object) =>
      ((await post(url, "/connect", { env_config, seed: 1 })).data as { session_id: string }).session_id;
    const [slow, other] = [await connect({ env: "faulty", slow: 1 }), await connect({ env: "faulty" })];
    const step = (session: string, call: number) =>
      post(url, "/call", { session_id: session, method: "step", params: { action_str: "on" }, call });
    let refused = 0;
    for (let call = 0; call < 5; call++) {
      const busy = step(slow, call);
      let answer = await step(other, call);
      while (answer.status === 503) {
        refused += 1;
        answer = await step(other, call);
      }
      expect(answer.status).toBe(200);
      let first = await busy;
      while (first.status === 503) first = await step(slow, call);
      expect(first.status).toBe(200);
    }
    expect(refused).toBeGreaterThan(0);
  });

  test("has so many sessions and no more, and closes those that nobody uses", async () => {
    const { url } = await serve({ names: ["frozen_lake"], sessions: 2, idleSeconds: 0.2 });
    const connect = () => post(url, "/connect", { env_config: {} });
    expect([(await connect()).status, (await connect()).status]).toEqual([200, 200]);
    expect(await connect()).toMatchObject({ status: 503, text: expect.stringContaining("sessions are taken") });
    await expect.poll(() => sessions(url)).toBe(0);
    expect((await connect()).status).toBe(200);
  });

  test("answers /health, and routes of a model are not there without one", async () => {
    const { url } = await serve({ names: ["frozen_lake"] });
    expect(await (await fetch(`${url}/health`)).json()).toEqual({ ok: true, service: "saccade", max_inflight: 64 });
    expect((await fetch(`${url}/v1/models`)).status).toBe(404);
    expect((await fetch(`${url}/connect`)).status).toBe(405);
  });

  test.each<[string, string, unknown, number]>([
    ["an environment that is not served", "/connect", { env_config: { env: "maze_2d" } }, 400],
    ["a file that is not served", "/connect", { env_config: { env: "./secret.ts" } }, 400],
    ["a file in an option", "/connect", { env_config: { env: "counting", folder: "/etc" } }, 403],
    ["a file beside the server in an option", "/connect", { env_config: { env: "counting", folder: "src" } }, 403],
    ["a file in a list of an option", "/connect", { env_config: { env: "counting", folder: [["/etc"]] } }, 403],
    ["an unknown option", "/connect", { env_config: { env: "frozen_lake", sise: 4 } }, 400],
    ["a seed that is none", "/connect", { env_config: { env: "frozen_lake" }, seed: -1 }, 400],
    ["an unknown session", "/call", { session_id: "x", method: "reset", params: { seed: 1 } }, 404],
    ["fields of other types", "/call", { session_id: 3 }, 400],
  ])("refuses %s with words", async (_, path, data, status) => {
    const { url } = await serve({ names: ["frozen_lake", "counting"] });
    const answer = await post(url, path, data);
    expect(answer.status).toBe(status);
    expect((JSON.parse(answer.text) as { error: { message: string } }).error.message.length).toBeGreaterThan(10);
  });

  test("`all` leaves out what is served elsewhere: nobody is asked in another's name", async () => {
    const { url } = await serve({ names: ["all"] });
    const answer = await post(url, "/connect", { env_config: { env: "remote", url: "http://127.0.0.1:1" } });
    expect(answer.status).toBe(400);
  });

  test.each([["frozen_lake"], ["all"]])("under %s no name leads to a file: nothing of it is run", async (served) => {
    const folder = await mkdtemp(join(tmpdir(), "saccade-env-"));
    open.push({ close: () => rm(folder, { recursive: true, force: true }) });
    const [file, mark] = [join(folder, "evil.mjs"), join(folder, "was-run")];
    await writeFile(file, `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(mark)}, "");`);
    const { url } = await serve({ names: [served] });
    const from = relative(process.cwd(), file);
    const names = [`frozen_lake/../${from}`, `frozen_lake/../${from}#easy`, `frozen_lake/${file}`, file, `./${from}`];
    expect((await post(url, "/connect", { env_config: { env: "frozen_lake/no_such" } })).status).toBe(400);
    for (const env of [...names, "frozen_lake/a/b", "frozen_lake/", "frozen_lake\u0000.mjs", ["frozen_lake"]]) {
      const answer = await post(url, "/connect", { env_config: { env } });
      expect([env, answer.status, answer.text]).toEqual([env, 400, expect.stringContaining("env_config.env")]);
    }
    expect(existsSync(mark)).toBe(false);
    expect((await post(url, "/connect", { env_config: { env: "maze_2d/hard" } })).status).toBe(
      served === "all" ? 200 : 400,
    );
  });

  test("wants its key on every route but /health, and a client brings it along", async () => {
    const { port } = await serve({ names: ["frozen_lake"] }, { host: "0.0.0.0", key: "a-key-of-24-characters-x" });
    const url = `http://127.0.0.1:${port}`;
    expect((await post(url, "/connect", { env_config: {} })).status).toBe(401);
    process.env.TEST_ENV_KEY = "a-key-of-24-characters-x";
    try {
      const far = await remote(url, "frozen_lake", {}, { keyVariable: "TEST_ENV_KEY" });
      expect(await far.reset(1)).toHaveLength(1);
      await far.close?.();
    } finally {
      delete process.env.TEST_ENV_KEY;
    }
  });

  test("serves a file of the user's, under the name it was started with", async () => {
    const folder = await mkdtemp(join(tmpdir(), "saccade-env-"));
    open.push({ close: () => rm(folder, { recursive: true, force: true }) });
    const file = join(folder, "mine.mjs");
    await writeFile(
      file,
      `export default { kind: "env", id: "mine", summary: "", options: { safeParse: () => ({ success: true, data: {} }), shape: {} },
        create: () => ({ reset: () => [{ role: "user", content: [{ type: "text", text: "hello" }] }], step: () => { throw new Error("no") } }) };`,
    );
    const { url } = await serve({ names: [file] });
    const far = await makeEnv("remote", { url });
    open.push({ close: async () => far.close?.() });
    expect(await far.reset(0)).toMatchObject([{ role: "user", content: [{ type: "text", text: "hello" }] }]);
    expect((await post(url, "/connect", { env_config: { env: `${folder}/other.mjs` } })).status).toBe(400);
  });
});
