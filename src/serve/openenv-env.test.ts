/** Our OpenEnv client on an OpenEnv server: ours, which plays the lake, and small ones that return what others do. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { WebSocketServer } from "ws";
import { imagesOf, textOf } from "../core/message.ts";
import { makeEnv } from "../envs/index.ts";
import { type ServeServer, startServer } from "./server.ts";

let ours: ServeServer;
beforeAll(async () => {
  ours = await startServer({ environments: { names: ["frozen_lake"], openenv: true, workers: "inline" } });
});
afterAll(() => ours.close());

/** Sessions that the server has; OpenEnv's default is one. */
let sessions = Number.POSITIVE_INFINITY;
type Handle = (message: { type: string; data?: Record<string, unknown> }) => object | string | undefined;
let server: Server | undefined;
let sockets: WebSocketServer | undefined;
afterEach(() => {
  sessions = Number.POSITIVE_INFINITY;
  server?.closeAllConnections();
  server?.close();
});

/** An OpenEnv server that answers what it is told to. */
async function serve(action: object, handle: Handle): Promise<string> {
  const made = createServer((request, response) => {
    const body = request.url === "/schema" ? { action, observation: {}, state: {} } : { description: "A test." };
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  server = made;
  const wsServer = new WebSocketServer({ server: made, path: "/ws" });
  sockets = wsServer;
  wsServer.on("connection", (socket) => {
    if (wsServer.clients.size > sessions) {
      // As OpenEnv does: it speaks before it is asked, and hangs up.
      const data = { code: "CAPACITY_REACHED", message: `Server at capacity: ${sessions}/${sessions} sessions active` };
      socket.send(JSON.stringify({ type: "error", data }));
      return socket.close();
    }
    socket.on("message", (data) => {
      const answer = handle(JSON.parse(String(data)) as Parameters<Handle>[0]);
      if (answer === "leave") socket.terminate();
      else if (answer !== undefined) socket.send(typeof answer === "string" ? answer : JSON.stringify(answer));
    });
  });
  await new Promise<void>((done) => made.listen(0, "127.0.0.1", done));
  return `http://127.0.0.1:${(made.address() as AddressInfo).port}`;
}

const observe = (observation: object, reward: number | null = null, done = false) => ({
  type: "observation",
  data: { observation, reward, done },
});
const MESSAGE = { properties: { message: { type: "string", description: "Words" }, metadata: { type: "object" } } };
const MOVE = { properties: { x: { type: "integer" }, y: { type: "integer" } }, required: ["x", "y"] };

describe("an OpenEnv server as an environment", () => {
  test("plays our lake as it is played here: frames, rewards, success", async () => {
    const [local, far] = [await makeEnv("frozen_lake"), await makeEnv("openenv", { url: ours.url })];
    const first = await far.reset(3);
    expect(first.flatMap(imagesOf).map(({ hash }) => hash)).toEqual(
      (await local.reset(3)).flatMap(imagesOf).map(({ hash }) => hash),
    );
    for (;;) {
      const reply = (await local.builtinReply?.("oracle", 0)) as string;
      const [here, there] = [await local.step(reply), await far.step(reply)];
      const seen = ({ observation }: typeof here) => observation.flatMap(imagesOf).map(({ hash }) => hash);
      expect([there.terminated, there.success, seen(there)]).toEqual([here.terminated, here.success, seen(here)]);
      expect(there.rewards.reduce((sum, { value }) => sum + value, 0)).toBe(
        here.rewards.reduce((sum, { value }) => sum + value, 0),
      );
      if (here.terminated) break;
    }
    await far.close?.();
  });

  test("takes a reply as the action's one text field", async () => {
    const said: unknown[] = [];
    const url = await serve(MESSAGE, ({ type, data }) => {
      if (type === "close") return undefined;
      if (type === "step") said.push(data);
      return type === "reset" ? observe({ echoed: "" }) : observe({ echoed: data?.message }, 1, true);
    });
    const env = await makeEnv("openenv", { url });
    expect((await env.reset(7)).map(textOf).join()).toContain("Your whole reply is the action (Words).");
    expect(await env.step(" hello ")).toMatchObject({ terminated: true, success: true });
    expect(said).toEqual([{ message: "hello" }]);
    await env.close?.();
  });

  test("takes a tool call where the action has several fields, and tells the model what was refused", async () => {
    const url = await serve(MOVE, ({ type, data }) => {
      if (type === "close") return undefined;
      if (type === "reset") return observe({ n: 0, s: "x" });
      if (typeof data?.x === "number") return observe({ at: [data.x, data.y] }, 0.5);
      return {
        type: "error",
        data: { code: "VALIDATION_ERROR", message: "no", errors: [{ loc: ["x"], msg: "a number" }] },
      };
    });
    const env = await makeEnv("openenv", { url, maxTurns: 3 });
    expect((await env.reset(7)).map(textOf).join()).toContain('"name": "act"');
    const call = (args: object) => `<tool_call>${JSON.stringify({ name: "act", arguments: args })}</tool_call>`;
    expect(await env.step("go")).toMatchObject({ terminated: false, info: { parsed: false, valid: false } });
    const refused = await env.step(call({ x: "a" }));
    expect(refused.observation.map(textOf).join()).toContain("The action was refused. x: a number");
    expect(await env.step(call({ x: 1, y: 2 }))).toMatchObject({ truncated: true, rewards: [{ value: 0.5 }] });
    await env.close?.();
  });

  test("with one session is shared by episodes; one that never gets it says what to do", async () => {
    sessions = 1;
    const url = await serve(MESSAGE, ({ type }) => (type === "close" ? undefined : observe({ text: "here" }, 1, true)));
    const [one, other] = [await makeEnv("openenv", { url }), await makeEnv("openenv", { url, timeoutMs: 400 })];
    await one.reset(1);
    await expect(other.reset(1)).rejects.toThrow(/has no free session: .*1\/1.*max_concurrent_envs.*rollout\.live/);
    // Waits until the episode of the first is over, which keeps its session for the next one otherwise.
    const waits = other.reset(1);
    await one.step("x");
    await waits;
    await other.step("x");
    // It rests now, and makes way at once.
    await one.reset(2);
    await one.step("x");
    await one.close?.();
    await other.close?.();
  });

  test("that says more than it was asked breaks the line, so that no answer belongs to another question", async () => {
    const url = await serve(MESSAGE, ({ type }) => (type === "close" ? undefined : observe({ text: "here" })));
    const env = await makeEnv("openenv", { url });
    await env.reset(1);
    for (const socket of sockets?.clients ?? []) socket.send(JSON.stringify(observe({ text: "stale" }, 1, true)));
    await vi.waitFor(() => expect(sockets?.clients.size).toBe(0));
    await expect(env.step("x")).rejects.toThrow("an unexpected message");
    expect((await env.reset(2)).map(textOf).join()).toContain("here");
    await env.close?.();
  });

  test.each<[string, Handle, string]>([
    ["leaves", () => "leave", "closed the connection"],
    ["says nothing", () => undefined, "gave no answer within 300 ms"],
    ["says no JSON", () => "{", "not an answer: {"],
    [
      "fails",
      () => ({ type: "error", data: { code: "EXECUTION_ERROR", message: "oh" } }),
      "failed (EXECUTION_ERROR): oh",
    ],
    ["has no observation", () => ({ type: "observation", data: { observation: 3 } }), "can't be read: observation"],
  ])("that %s makes the episode fail; the next one begins anew", async (_, wrong, message) => {
    let isWrong = true;
    const url = await serve(MESSAGE, (asked) => {
      if (asked.type === "close") return undefined;
      return isWrong ? wrong(asked) : observe({ text: "here" });
    });
    const env = await makeEnv("openenv", { url, timeoutMs: 300 });
    await expect(env.reset(1)).rejects.toThrow(message);
    isWrong = false;
    expect((await env.reset(1)).map(textOf).join()).toContain("here");
    await env.close?.();
  });
});
