/** Tools of an MCP server in a task, with the protocol's own test server. */
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { imagesOf, textOf } from "../core/message.ts";
import type { Env } from "./env.ts";
import { defineTask } from "./task.ts";

const EVERYTHING = [
  "node",
  fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js")),
];
const open: Env[] = [];
afterAll(async () => {
  for (const env of open) await env.close?.();
});

async function make(mcp: Parameters<typeof defineTask>[0]["mcp"]): Promise<Env> {
  const task = defineTask({
    id: "look",
    data: [{ answer: "ok" }],
    ...(mcp && { mcp }),
    prompt: () => "Look at the image.",
    reward: (reply, { answer }) => Number(reply === answer),
  });
  const env = await task.create(task.options.parse({}));
  open.push(env);
  return env;
}
const call = (name: string, args: object) => `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`;

describe("a task with an MCP server", () => {
  test("tells the model its tools, shows text and images of results, and tells what was refused", async () => {
    const env = await make({ command: EVERYTHING, tools: ["echo", "get-tiny-image", "get-sum"] });
    const [first] = await env.reset(0);
    expect(first?.role).toBe("system");
    const told = first === undefined ? "" : textOf(first);
    expect(["echo", "get-tiny-image", "get-sum"].every((name) => told.includes(`"name": "${name}"`))).toBe(true);
    expect(told).not.toContain("get-env");
    const shown = await env.step(call("get-tiny-image", {}));
    expect(shown.observation.flatMap(imagesOf)[0]).toMatchObject({ width: expect.any(Number) });
    expect(shown).toMatchObject({ terminated: false, info: { valid: true } });
    const said = await env.step(call("echo", { message: "hello" }));
    expect(said.observation.map(textOf).join()).toContain("hello");
    const wrong = await env.step(call("get-sum", { a: "x" }));
    expect(wrong).toMatchObject({ terminated: false, info: { valid: false } });
    expect(await env.step("ok")).toMatchObject({ terminated: true, success: true });
  });

  test("that lacks a tool or does not start is refused with what to do", async () => {
    await expect(make({ command: EVERYTHING, tools: ["fly"] })).rejects.toThrow('has no tool "fly"; it has echo');
    await expect(make(["no-such-program-here"])).rejects.toThrow("no-such-program-here could not be started");
    expect(() => defineTask({ id: "x", data: [1], mcp: [] as string[], prompt: () => "" })).toThrow(
      'mcp must be a server\'s command, such as ["npx", "some-server"]',
    );
  });

  test("that dies in an episode makes it fail, and is not taken for the model's mistake", async () => {
    const script = `
      const lines = require("node:readline").createInterface({ input: process.stdin });
      const say = (id, result) => console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
      lines.on("line", (line) => {
        const { id, method, params } = JSON.parse(line);
        if (method === "initialize") say(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "a", version: "1" } });
        if (method === "tools/list") say(id, { tools: [{ name: "die", inputSchema: { type: "object" } }] });
        if (method === "tools/call") END;
      });`;
    const env = await make(["node", "-e", script.replace("END", "process.exit(1)")]);
    await env.reset(0);
    await expect(env.step(call("die", {}))).rejects.toThrow("the MCP server did not answer die");
    const liar = ["node", "-e", script.replace("END", 'console.log("Traceback!")')];
    const other = await make({ command: liar, timeoutMs: 200 });
    await other.reset(0);
    await expect(other.step(call("die", {}))).rejects.toThrow(/did not answer die: .*no answer: .*Traceback/);
  });
});
