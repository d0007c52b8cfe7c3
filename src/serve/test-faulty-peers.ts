/**
 * For tests: faulty messages where we meet other programs rather than clients of ours: an MCP client that writes nonsense to `saccade mcp`, an MCP server and an
 * MLflow server that answer nonsense. Each gives what is wrong with what came of it.
 */
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { errorMessage, SaccadeError } from "../core/errors.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { openMcp } from "../envs/mcp.ts";
import { MlflowTracker } from "../run/trackers/mlflow.ts";
import { FAULT, faulty, RPC } from "./test-neighbours.ts";

const JITI = join(dirname(createRequire(import.meta.url).resolve("jiti/package.json")), "lib/jiti-cli.mjs");
const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const PROBE_MS = 60_000;

/** `saccade mcp` on standard input: after each faulty line it still answers a right one. */
export async function assailMcpServer(count: number): Promise<string[]> {
  const random = new NumpyRandom(count + 4);
  const child = spawn("node", [JITI, here("test-mcp.ts"), "frozen_lake"], { stdio: ["pipe", "pipe", "ignore"] });
  const wrong: string[] = [];
  let onProbe: (id: string) => void = () => {};
  createInterface({ input: child.stdout }).on("line", (line) => {
    const answer = JSON.parse(line) as { id?: unknown; error?: { message?: string } };
    if (typeof answer.id === "string" && answer.id.startsWith("probe")) onProbe(answer.id);
    else if (answer.error !== undefined && (!answer.error.message || FAULT.test(answer.error.message)))
      wrong.push(line.slice(0, 300));
  });
  const say = (value: unknown) => child.stdin.write(`${typeof value === "string" ? value : JSON.stringify(value)}\n`);
  const probe = (i: number, after: string) =>
    new Promise<void>((done, fail) => {
      const late = setTimeout(() => fail(new Error(`stuck after ${after.slice(0, 300)}`)), PROBE_MS);
      onProbe = (id) => {
        if (id !== `probe${i}`) return;
        clearTimeout(late);
        done();
      };
      say({ jsonrpc: "2.0", id: `probe${i}`, method: "tools/list", params: {} });
    });
  try {
    const clientInfo = { name: "test", version: "1" };
    const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
    say({ jsonrpc: "2.0", id: 0, method: "initialize", params });
    say({ jsonrpc: "2.0", method: "notifications/initialized" });
    for (let i = 0; i < count; i++) {
      // One message is one line.
      const line = faulty(RPC[random.integers(0, RPC.length)], random).replaceAll(/[\r\n]/g, " ");
      say(line);
      await probe(i, line);
    }
  } finally {
    child.kill();
  }
  return wrong;
}

/** Starts well; what it then answers to calls comes in their arguments. */
const LIAR = `
  const say = (value) => process.stdout.write((typeof value === "string" ? value : JSON.stringify(value)) + "\\n");
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (method === "initialize") say({ jsonrpc: "2.0", id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "a", version: "1" } } });
    if (method === "tools/list") say({ jsonrpc: "2.0", id, result: { tools: [{ name: "lie", inputSchema: { type: "object" } }] } });
    if (method === "tools/call") say(params.arguments.answer.replace("%ID%", id));
  });`;

/** Most faults are no answer at all, and each of those takes its time limit. */
const LANES = 8;
const LIAR_MS = 50;

/** A tool server that answers nonsense: a call is answered, refused, or fails on purpose. */
export async function assailMcpClient(count: number): Promise<string[]> {
  const wrong: string[] = [];
  const content = [
    { type: "text", text: "a" },
    { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" },
    { type: "resource", resource: { uri: "x:y", text: "t" } },
    { type: "resource_link", uri: "x:y", name: "n" },
  ];
  const lane = async (random: NumpyRandom, times: number) => {
    const { tools, close } = await openMcp({ command: ["node", "-e", LIAR], timeoutMs: LIAR_MS }, "test");
    const [lie] = tools as unknown as readonly { call(args: unknown): Promise<{ said: readonly unknown[] }> }[];
    for (let i = 0; i < times; i++) {
      const right = { jsonrpc: "2.0", id: "%ID%", result: { content } };
      // The id stays the number that was sent, unless it is what is wrong.
      const answer = faulty(right, random)
        .replaceAll(/[\r\n]/g, " ")
        .replace('"%ID%"', "%ID%");
      await lie?.call({ answer }).then(
        ({ said }) => said.length === 0 && wrong.push(`nothing said to ${answer.slice(0, 200)}`),
        (error: unknown) => {
          if (!(error instanceof SaccadeError) || FAULT.test(errorMessage(error)))
            wrong.push(`${errorMessage(error).slice(0, 200)} to ${answer.slice(0, 200)}`);
        },
      );
    }
    await close();
  };
  const times = Math.ceil(count / LANES);
  await Promise.all(Array.from({ length: LANES }, (_, i) => lane(new NumpyRandom(count + 10 + i), times)));
  return wrong;
}

const RUN = { info: { run_id: "r", artifact_uri: "mlflow-artifacts:/0/r/artifacts" } };
const ANSWERS: Readonly<Record<string, unknown>> = {
  "experiments/get-by-name": { experiment: { experiment_id: "0" } },
  "experiments/create": { experiment_id: "0" },
  "runs/create": { run: RUN },
  "runs/update": { run_info: RUN.info },
};
const STATUSES = [200, 200, 200, 400, 404, 500, 503];

/** An MLflow server that answers nonsense: the tracker takes it or fails on purpose, and is asked again later. */
export async function assailMlflow(count: number): Promise<string[]> {
  const random = new NumpyRandom(count + 6);
  const wrong: string[] = [];
  let answered = 0;
  const server = createServer((request, response) => {
    const route = Object.keys(ANSWERS).find((name) => request.url?.includes(name)) ?? "";
    answered += 1;
    request.resume();
    response.writeHead(STATUSES[random.integers(0, STATUSES.length)] as number);
    response.end(faulty(ANSWERS[route] ?? { a: 1 }, random));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const png = { tag: "episodes/0", png: new Uint8Array(8), width: 1, height: 1 };
  const item = { step: 1, time: 1, values: [{ tag: "a", scalar: Number.NaN }, { tag: "b", text: "t" }, png] };
  const check = (error: unknown) => {
    if (!(error instanceof SaccadeError) || FAULT.test(errorMessage(error)))
      wrong.push(errorMessage(error).slice(0, 300));
  };
  while (answered < count) {
    const tracker = new MlflowTracker({ url });
    const signal = AbortSignal.timeout(20_000);
    const memory = random.integers(0, 2) === 0 ? {} : { id: "r" };
    await tracker.open({ path: "", name: "n", config: { a: 1 }, memory }).catch(check);
    await tracker.write([item], signal).catch(check);
    await tracker.close("finished", signal).catch(check);
  }
  server.closeAllConnections();
  server.close();
  return wrong;
}
