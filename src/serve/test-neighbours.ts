/**
 * For tests: faulty messages on the wires to other stacks. Each takes messages that are right and makes them wrong: fields that are missing, of another type or
 * too many, bytes that changed, values that nest or overflow. Every message must be answered, with words, and by nothing but errors made on purpose.
 */

import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import WebSocket, { WebSocketServer } from "ws";
import { errorMessage, SaccadeError } from "../core/errors.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { readTrajectory } from "../envs/atif.ts";
import { makeEnv } from "../envs/index.ts";
import { mutate } from "./test-fuzz.ts";
import { dataUri } from "./test-requests.ts";

const ODD: readonly unknown[] = [
  ...[null, true, -1, 1.5, 1e300, 2 ** 53, "", "\u0000", "\ud800", "../x", "/etc/passwd", "x".repeat(2000)],
  ...[[], {}, [[]], [null], { type: 1 }, "data:image/png;base64,AAAA", "frozen_lake", "__proto__", { __proto__: 1 }],
];
/** What a fault of ours says, not a refusal. */
export const FAULT = /Cannot read|is not a function|properties of|is not iterable|Maximum call/i;

/** A message made wrong, as text. */
export function faulty(right: unknown, random: NumpyRandom): string {
  switch (random.integers(0, 5)) {
    case 0:
      return mutate(Buffer.from(JSON.stringify(right)), random).toString("latin1");
    case 1:
      return `${"[".repeat(random.integers(1, 300))}${JSON.stringify(right)}`;
    default:
      return JSON.stringify(spoiled(right, random));
  }
}

/** One place of a value changed. */
function spoiled(value: unknown, random: NumpyRandom): unknown {
  const odd = () => ODD[random.integers(0, ODD.length)];
  if (typeof value !== "object" || value === null) return odd();
  const keys = Object.keys(value);
  const kind = random.integers(0, 6);
  if (kind === 0) return odd();
  if (kind === 1 && !Array.isArray(value)) return { ...value, [`more${random.integers(0, 9)}`]: odd() };
  const key = keys[random.integers(0, Math.max(keys.length, 1))];
  if (key === undefined) return odd();
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Record<string, unknown>;
  if (kind === 2) delete copy[key];
  else copy[key] = spoiled(copy[key], random);
  return copy;
}

const pick = <T>(from: readonly T[], random: NumpyRandom): T => from[random.integers(0, from.length)] as T;

/** Sends each message and then `probe`, and waits for the answer to that; gives every answer. */
export async function assailSocket(
  url: string,
  messages: Iterable<string>,
  probe: { readonly message: string; isAnswer(text: string): boolean },
): Promise<{ answers: string[]; sent: number }> {
  const answers: string[] = [];
  let sent = 0;
  const open = () =>
    new Promise<WebSocket>((done, fail) => {
      const socket = new WebSocket(url);
      socket.once("open", () => done(socket));
      socket.once("error", fail);
    });
  const socket = await open();
  for (const message of messages) {
    await new Promise<void>((done, fail) => {
      const late = setTimeout(() => fail(new Error(`no answer to ${message.slice(0, 300)}`)), 20_000);
      const onClose = (code: number) => fail(new Error(`closed (${code}) by ${message.slice(0, 300)}`));
      const onMessage = (data: WebSocket.RawData) => {
        const text = String(data);
        if (!probe.isAnswer(text)) return void answers.push(text);
        clearTimeout(late);
        socket.off("message", onMessage);
        socket.off("close", onClose);
        done();
      };
      socket.on("message", onMessage);
      socket.on("close", onClose);
      socket.send(message);
      socket.send(probe.message);
    });
    sent += 1;
  }
  socket.close();
  return { answers, sent };
}

export const RPC = [
  { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} },
  {
    jsonrpc: "2.0",
    id: 2,
    method: "tools/call",
    params: { name: "start_episode", arguments: { seed: 1, options: { size: 4 } } },
  },
  {
    jsonrpc: "2.0",
    id: 3,
    method: "tools/call",
    params: { name: "reply", arguments: { text: "<action>left</action>" } },
  },
];
const EPISODE = [
  { type: "reset", data: { seed: 1, episode_id: "e", env: "frozen_lake", size: 4, frames: "uris" } },
  { type: "step", data: { action_str: "<action>left</action>", metadata: {} } },
  { type: "mcp", data: RPC[1] },
];

/** OpenEnv's `/ws` and `/mcp`; gives what is wrong with the answers. */
export async function assailOpenEnv(url: string, count: number): Promise<string[]> {
  const random = new NumpyRandom(count);
  const wrong: string[] = [];
  const base = url.replace("http", "ws");
  const some = function* (right: readonly unknown[]) {
    for (let i = 0; i < count; i++) yield faulty(pick(right, random), random);
  };
  const ws = await assailSocket(`${base}/ws`, some(EPISODE), {
    message: '{"type":"state"}',
    isAnswer: (text) => text.startsWith('{"type":"state"'),
  });
  for (const text of ws.answers) {
    const { type, data } = JSON.parse(text) as { type: string; data: { message?: string; code?: string } };
    const isError =
      type === "error" && typeof data.message === "string" && data.message !== "" && typeof data.code === "string";
    if (
      (type !== "observation" && type !== "mcp" && !isError) ||
      (type === "error" && FAULT.test(String(data.message)))
    )
      wrong.push(text.slice(0, 300));
  }
  const mcp = await assailSocket(`${base}/mcp`, some(RPC), {
    message: '{"jsonrpc":"2.0","id":"probe","method":"tools/list"}',
    isAnswer: (text) => text.includes('"id":"probe"'),
  });
  for (const text of mcp.answers) {
    const answer = JSON.parse(text) as { result?: object; error?: { message: string } };
    if (answer.result === undefined && !answer.error?.message) wrong.push(text.slice(0, 300));
    if (FAULT.test(answer.error?.message ?? "")) wrong.push(text.slice(0, 300));
  }
  return wrong;
}

const ROUTES: readonly [string, unknown][] = [
  ["/reset", EPISODE[0]?.data],
  ["/step", { action: { action_str: "x" } }],
  ["/mcp", RPC[1]],
  ["/frozen_lake/task", { split: "seeds", index: 3 }],
  ["/frozen_lake/task_range", { split: "seeds", start: 1, stop: 5 }],
];
const GENERATE = {
  token_ids: [40, 291, 294, 292, 41],
  content_parts: [{ type: "image_url", url: dataUri(32, 32) }],
  sampling_params: { temperature: 0, max_tokens: 1, logprobs: 1 },
  return_token_ids: true,
};

export async function assailRoutes(
  url: string,
  count: number,
  routes: readonly (readonly [string, unknown])[] = ROUTES,
): Promise<string[]> {
  const random = new NumpyRandom(count + 1);
  const wrong: string[] = [];
  for (let i = 0; i < count; i++) {
    const [path, right] = pick(routes, random);
    const body = faulty(right, random);
    const answer = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    const text = await answer.text();
    const isFault = answer.status >= 500 && answer.status !== 503;
    if (isFault || text === "" || (answer.status >= 400 && FAULT.test(text)))
      wrong.push(`${path} ${answer.status} ${text.slice(0, 200)} to ${body.slice(0, 200)}`);
  }
  return wrong;
}

export const GENERATE_ROUTE = [["/inference/v1/generate", GENERATE]] as const;

/** A server that answers wrongly: the environment plays or fails on purpose. */
export async function assailClient(count: number): Promise<string[]> {
  const random = new NumpyRandom(count + 2);
  const right = {
    type: "observation",
    data: {
      observation: { text: "here", shot: dataUri(8, 8), list: [[[1, 2, 3]]] },
      reward: 0.5,
      done: false,
      metadata: { success: true },
    },
  };
  const server = createServer((request, response) => {
    const body = request.url === "/schema" ? { action: { properties: { a: { type: "string" } } } } : {};
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  new WebSocketServer({ server, path: "/ws" }).on("connection", (socket) => {
    socket.on("message", () => socket.send(faulty(right, random)));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const env = await makeEnv("openenv", {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    timeoutMs: 20_000,
  });
  const wrong: string[] = [];
  for (let i = 0; i < count; i++) {
    try {
      await env.reset(i);
      await env.step("x");
    } catch (error) {
      if (!(error instanceof SaccadeError) || FAULT.test(errorMessage(error)))
        wrong.push(errorMessage(error).slice(0, 300));
    }
  }
  await env.close?.();
  server.closeAllConnections();
  server.close();
  return wrong;
}

export async function assailAtif(folder: string, count: number): Promise<string[]> {
  const random = new NumpyRandom(count + 3);
  const call = { tool_call_id: "c", function_name: "f", arguments: { a: 1 } };
  const right = {
    schema_version: "ATIF-v1.8",
    agent: { name: "a", version: "1" },
    extra: { env: "e", seed: 1 },
    steps: [
      {
        step_id: 1,
        source: "user",
        message: [
          { type: "text", text: "a" },
          { type: "image", source: { media_type: "image/png", path: "i.png" } },
        ],
      },
      {
        step_id: 2,
        source: "agent",
        message: "b",
        reasoning_content: "c",
        tool_calls: [call],
        observation: { results: [{ source_call_id: "c", content: "d" }] },
      },
    ],
  };
  writeFileSync(join(folder, "i.png"), Buffer.from(dataUri(8, 8).split(",")[1] as string, "base64"));
  const file = join(folder, "t.json");
  const wrong: string[] = [];
  for (let i = 0; i < count; i++) {
    writeFileSync(file, faulty(right, random));
    await readTrajectory(file).catch((error: unknown) => {
      if (!(error instanceof SaccadeError) || FAULT.test(errorMessage(error)))
        wrong.push(errorMessage(error).slice(0, 300));
    });
  }
  return wrong;
}
