/** Our environments as an OpenEnv server: messages of the official client, recorded (`openenv.prove.ts`), get the answers that it got, and wrong ones clear errors. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import WebSocket from "ws";
import { readDataUri } from "../images/openai.ts";
import { type ServeServer, startServer } from "./server.ts";

let server: ServeServer;
beforeAll(async () => {
  server = await startServer({
    environments: { names: ["frozen_lake"], openenv: true, workers: "inline", sessions: 4 },
  });
});
afterAll(() => server.close());

type Wire = { type: string; data: Record<string, unknown> };

/** A connection that asks and waits. */
async function connect(path = "/ws", headers: Record<string, string> = {}, to = server) {
  const socket = new WebSocket(`${to.url.replace("http", "ws")}${path}`, { headers });
  await new Promise<void>((done, fail) => {
    socket.once("open", done);
    socket.once("error", fail);
  });
  return {
    socket,
    ask: (message: string | object) =>
      new Promise<Wire>((answer, fail) => {
        socket.once("message", (data) => answer(JSON.parse(String(data)) as Wire));
        socket.once("close", (code, reason) => fail(new Error(`closed: ${code} ${String(reason)}`)));
        socket.send(typeof message === "string" ? message : JSON.stringify(message));
      }),
  };
}

async function digest(uri: string): Promise<string> {
  const { width, height, data } = await readDataUri(uri);
  return `${width}x${height} ${createHash("sha256").update(data).digest("hex")}`;
}

describe("an OpenEnv client", () => {
  test("gets the recorded answers to its recorded messages, frames by their pixels", async () => {
    const golden = JSON.parse(readFileSync(new URL("golden/openenv-lake.json", import.meta.url), "utf8")) as (
      | { sent: object }
      | { received: Wire }
    )[];
    const { ask, socket } = await connect();
    for (let i = 0; i < golden.length; i += 2) {
      const answer = await ask((golden[i] as { sent: object }).sent);
      const seen = answer.data.observation as { images?: string[] } | undefined;
      if (seen?.images) seen.images = await Promise.all(seen.images.map(digest));
      expect(answer).toEqual((golden[i + 1] as { received: Wire }).received);
    }
    expect(golden.length).toBeGreaterThan(8);
    socket.close();
  });

  test.each([
    ["no JSON", "{", "INVALID_JSON"],
    ["nested too deep", `${"[".repeat(200)}${"]".repeat(200)}`, "INVALID_JSON"],
    ["another type", { type: "dance" }, "UNKNOWN_TYPE"],
    ["no type", { data: {} }, "VALIDATION_ERROR"],
    ["a step before a reset", { type: "step", data: { action_str: "up" } }, "EXECUTION_ERROR"],
    ["an action with a field too many", { type: "step", data: { action_str: "up", to: 1 } }, "VALIDATION_ERROR"],
    ["a seed that is text", { type: "reset", data: { seed: "x" } }, "VALIDATION_ERROR"],
    ["another environment", { type: "reset", data: { env: "maze_2d" } }, "VALIDATION_ERROR"],
    ["an option that is none", { type: "reset", data: { seed: 1, depth: 3 } }, "VALIDATION_ERROR"],
    ["an option that names a file", { type: "reset", data: { seed: 1, level: "/etc/passwd" } }, "EXECUTION_ERROR"],
  ])("hears what is wrong with %s, and plays on", async (_, message, code) => {
    const { ask, socket } = await connect();
    expect(await ask(message)).toMatchObject({ type: "error", data: { code, message: expect.any(String) } });
    expect((await ask({ type: "reset", data: { seed: 1 } })).type).toBe("observation");
    socket.close();
  });

  test("calls the tools of the episode over the same connection, and over /mcp", async () => {
    const call = (name: string, args: object) => ({
      ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
      params: { name, arguments: args },
    });
    const { ask, socket } = await connect();
    const listed = await ask({ type: "mcp", data: { jsonrpc: "2.0", id: 7, method: "tools/list" } });
    expect(listed).toMatchObject({
      type: "mcp",
      data: { id: 7, result: { tools: [{ name: "start_episode" }, { name: "reply" }] } },
    });
    socket.close();
    const plain = await connect("/mcp");
    const begun = (await plain.ask(call("start_episode", { seed: 3 }))) as unknown as { result: { content: object[] } };
    expect(begun.result.content).toContainEqual(expect.objectContaining({ type: "image", mimeType: "image/png" }));
    expect(await plain.ask(call("reply", { txt: "x" }))).toMatchObject({ result: { isError: true } });
    expect(await plain.ask({ jsonrpc: "2.0", id: 2, method: "sing" })).toMatchObject({
      id: 2,
      error: { code: -32601 },
    });
    plain.socket.close();
  });

  test("finds the single routes and the tasks", async () => {
    const get = async (path: string) => (await fetch(`${server.url}${path}`)).json();
    const post = async (path: string, body: object) => {
      const answer = await fetch(`${server.url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      return [answer.status, await answer.json()];
    };
    expect(await get("/health")).toEqual({ status: "healthy" });
    expect(await get("/metadata")).toMatchObject({ name: "frozen_lake" });
    expect(await get("/schema")).toMatchObject({ action: { required: ["action_str"] } });
    expect(await get("/list_environments")).toEqual(["frozen_lake"]);
    expect(await get("/frozen_lake/splits")).toEqual([{ name: "seeds", type: "train" }]);
    expect(await post("/frozen_lake/task", { split: "seeds", index: 5 })).toEqual([
      200,
      { task: { env: "frozen_lake", seed: 5 } },
    ]);
    expect(await post("/frozen_lake/tasks", { split: "seeds" })).toMatchObject([400, { error: {} }]);
    expect(await post("/reset", { seed: 3 })).toMatchObject([
      200,
      { done: false, observation: { images: [expect.any(String)] } },
    ]);
    expect(await post("/step", { action: { action: 1 } })).toMatchObject([
      422,
      { detail: [{ loc: ["action_str"] }, {}] },
    ]);
    expect(await post("/mcp", { jsonrpc: "2.0", id: 1, method: "tools/list" })).toMatchObject([200, { result: {} }]);
  });
});

describe("a connection", () => {
  test("from a page of another site, or without the key, is refused; one too many is told so", async () => {
    await expect(connect("/ws", { origin: "https://else.where" })).rejects.toThrow("403");
    await expect(connect("/other")).rejects.toThrow("404");
    const key = "0123456789abcdef";
    const locked = await startServer({
      key,
      environments: { names: ["frozen_lake"], openenv: true, workers: "inline" },
    });
    await expect(connect("/ws", {}, locked)).rejects.toThrow("401");
    const { ask } = await connect("/ws", { authorization: `Bearer ${key}` }, locked);
    expect((await ask({ type: "reset" })).type).toBe("observation");
    await locked.close();
    const open = await Promise.all(Array.from({ length: 4 }, () => connect()));
    for (const one of open) await one.ask({ type: "reset" });
    const { ask: late, socket } = await connect();
    expect(await late({ type: "reset" })).toMatchObject({ data: { code: "CAPACITY_REACHED" } });
    open[0]?.socket.close();
    await expect.poll(async () => (await late({ type: "reset" })).type).toBe("observation");
    for (const one of [...open, { socket }]) one.socket.close();
  });
});
