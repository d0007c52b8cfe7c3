/**
 * For tests: an attacker. Bodies that unpack to gigabytes, uploads that stall, images that lie, text that is slow to read, paths, headers and keys, and any
 * number of mutations of them, against `serve`, `view` and the PyTorch worker; a watcher in a thread of its own asks for health and memory all the while.
 */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { deflateSync, gzipSync } from "node:zlib";
import { NumpyRandom } from "../src/core/random-numpy.ts";
import { packageFolder } from "../src/engine/torch/environment.ts";
import { packParcel } from "../src/envs/remote-wire.ts";
import { assail, hostile, mutate, pngOf, renderedImage } from "../src/serve/test-fuzz.ts";
import { Writer } from "../src/tinker/protobuf.ts";

const KEY = "a-key-that-is-long-enough";
const MIB = 1024 * 1024;
/** Time that a server has to end after it stopped listening. */
const MAX_END_MS = 30_000;
const root = resolve(import.meta.dirname, "..");

export type Size = {
  /** Of each large body, in MiB: 59 datums, 114 lists. */
  readonly share: number;
  readonly mutations: number;
  /** Uploads that stop coming. */
  readonly stalled: number;
  readonly torch: boolean;
};
export type Report = {
  readonly name: string;
  readonly sent: number;
  /** Answers by status; 0: the connection was cut. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly faults: readonly string[];
  /** MiB of resident memory: at rest before, and the most. */
  readonly idle: number;
  readonly most: number;
  /** Milliseconds until /health was answered, at most, and how often it was asked. */
  readonly slowest: number;
  readonly asked: number;
};

type Target = {
  readonly name: string;
  readonly port: number;
  readonly child: ChildProcess;
  /** A path that is cheap to answer. */
  readonly health: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The end of its standard error, where that says why it ended. */
  lastLines?(): string;
};

/** Bytes as they go over the wire; the answer's status, 0 where there was none, and its text. */
type Said = { readonly status: number; readonly text: string };

function raw(port: number, parts: readonly (Uint8Array | string)[], holdMs = 0): Promise<Said> {
  return new Promise((done) => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    const end = () => {
      clearTimeout(timer);
      socket.destroy();
      done({ status: Number(/^HTTP\/1.[01] (\d{3})/.exec(text)?.[1] ?? 0), text });
    };
    // Whoever is not answered leaves.
    const timer = setTimeout(end, holdMs > 0 ? holdMs : 60_000);
    socket.on("data", (part) => {
      text += part.toString("latin1").slice(0, 20_000);
      if (holdMs === 0 && text.includes("\r\n\r\n")) setTimeout(end, 20);
    });
    socket.on("error", end);
    socket.on("close", end);
    socket.on("connect", async () => {
      for (const part of parts) {
        if (socket.destroyed || text !== "") return;
        if (socket.write(part)) continue;
        const waited = new AbortController();
        const heard = (name: string) => once(socket, name, { signal: waited.signal }).catch(() => {});
        await Promise.race(["drain", "close", "data"].map(heard));
        waited.abort();
      }
    });
  });
}

const line = (headers: Readonly<Record<string, string>>) =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");

/** A POST; large bodies in pieces, so that they are not in our memory twice. */
function post({ port, headers }: Target, path: string, body: Uint8Array | string, type = "application/json") {
  const bytes = Buffer.from(body as Uint8Array);
  const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: ${type}\r\nContent-Length: ${bytes.length}\r\n${line(headers)}\r\n`;
  const parts: (Uint8Array | string)[] = [head];
  for (let at = 0; at < bytes.length; at += MIB) parts.push(bytes.subarray(at, at + MIB));
  return raw(port, parts);
}

const chat = (...urls: string[]) =>
  JSON.stringify({
    messages: [{ role: "user", content: urls.map((url) => ({ type: "image_url", image_url: { url } })) }],
    max_tokens: 1,
  });
const uri = (file: Uint8Array, head = "data:image/png;base64,") => head + Buffer.from(file).toString("base64");
const repeated = (start: string, piece: string, mib: number) =>
  Buffer.concat([Buffer.from(start), Buffer.alloc(Math.floor(mib * MIB), piece)]);
const blank = (side: number) => pngOf(side, side, deflateSync(Buffer.alloc((side * 3 + 1) * side)));

/** A JPEG's start with this size in its frame header. */
function jpegOf(width: number, height: number): Buffer {
  const frame = [
    0xff,
    0xc0,
    0,
    17,
    8,
    height >> 8,
    height & 255,
    width >> 8,
    width & 255,
    3,
    1,
    0x22,
    0,
    2,
    0x11,
    1,
    3,
  ];
  return Buffer.from([0xff, 0xd8, ...frame, 0x11, 1, 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, ...new Array(64).fill(0x55)]);
}

function imageFiles(): Buffer[] {
  return [
    ...[
      blank(64),
      pngOf(0, 0, Buffer.alloc(9)),
      pngOf(0xffffffff, 0xffffffff, Buffer.alloc(9)),
      pngOf(1, 4_000_000, Buffer.alloc(9)),
    ],
    ...[
      pngOf(8000, 2000, deflateSync(Buffer.alloc(50)), true),
      pngOf(4096, 4096, deflateSync(Buffer.alloc(MIB)), true),
    ],
    ...[jpegOf(65_535, 65_535), jpegOf(4000, 4000), jpegOf(0, 0), jpegOf(64, 64)],
    ...[
      Buffer.from("GIF89a\u0001\u0000"),
      Buffer.from("RIFF\u0000\u0000\u0000\u0000WEBPVP8 "),
      Buffer.from("<svg/>"),
      Buffer.alloc(0),
    ],
  ];
}

function packed(values: readonly (readonly [number, Writer | Uint8Array])[]): Uint8Array {
  return values
    .reduce(
      (made, [field, one]) => (one instanceof Writer ? made.message(field, one) : made.bytes(field, one)),
      new Writer(),
    )
    .finish();
}

/** Small requests byte by byte, of which mutations are made: paths, headers, keys, bodies of every face. */
function requests(target: Target, secrets: Secrets): Buffer[] {
  const ask = (method: string, path: string, headers: Readonly<Record<string, string>> = {}, body = "") =>
    Buffer.from(
      `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n${line({ ...target.headers, ...headers })}${body === "" ? "" : `Content-Length: ${Buffer.byteLength(body)}\r\n`}\r\n${body}`,
      "latin1",
    );
  const json = { "Content-Type": "application/json" };
  const paths = [
    ...[
      "/../../etc/passwd",
      "/%2e%2e/%2e%2e/etc/passwd",
      "/..%2f..%2fetc%2fpasswd",
      "/a\\..\\..\\etc\\passwd",
      "/%00",
      "/.",
      "//etc/passwd",
    ],
    ...[
      "/api/runs/..%2f..%2fetc/frames/passwd",
      "/api/runs/small/frames/%2e%2e%2fevents.jsonl",
      "/files/..%2f..%2fetc/passwd",
      "/files/a//etc/passwd",
    ],
    ...[
      "/api/v1/files/../x",
      "/api/v1/training_runs/..%2f..%2f/checkpoints/x/y/archive",
      `/${"a/".repeat(3000)}`,
      `/?${"a=b&".repeat(3000)}`,
    ],
    ...[
      "http://169.254.169.254/latest/meta-data",
      "*",
      "",
      "/health",
      "/metrics",
      "/sessions",
      "/assets/../../package.json",
    ],
  ];
  const keys = [
    ...[
      "Bearer",
      "Bearer ",
      "bearer x",
      "Basic YTpi",
      `Bearer ${"x".repeat(8000)}`,
      `Bearer ${KEY.slice(0, -1)}`,
      `Bearer ${KEY} `,
      `Bearer ${KEY}\u00ff`,
    ],
    ...["Bearer \u00ff\u00fe", "\u0001", `Bearer ${KEY}, Bearer x`, "Digest username=x", `Token ${KEY}`],
  ];
  const odd: Readonly<Record<string, string>>[] = [
    ...[
      { Upgrade: "websocket", Connection: "Upgrade", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13" },
      { Expect: "100-continue" },
    ],
    ...[
      { "Transfer-Encoding": "chunked" },
      { "Content-Length": "-1" },
      { "Content-Length": "99999999999999999999" },
      { "Content-Encoding": "gzip" },
    ],
    ...[
      { Host: "evil.example" },
      { Origin: "https://evil.example" },
      { Cookie: `${"a=b; ".repeat(1500)}` },
      { "X-Long": "x".repeat(30_000) },
    ],
    ...[
      { Range: "bytes=0-,0-,0-" },
      { "Last-Event-ID": "9".repeat(300) },
      { "X-HTTP-Method-Override": "DELETE" },
      { "X-Request-Id": "x".repeat(9000) },
    ],
  ];
  const multipart = packParcel({ data: { env_config: { env: secrets.names[0] as string } }, images: [] }, "form-data");
  return [
    ...paths.map((path) => ask("GET", path)),
    ...paths.map((path) => ask("POST", path, json, "{}")),
    ...keys.map((Authorization) =>
      ask("GET", target.health === "/health" ? "/v1/models" : "/api/runs", { Authorization }),
    ),
    ...odd.map((headers) => ask("POST", "/v1/completions", { ...json, ...headers }, '{"prompt":"x","max_tokens":1}')),
    ...odd.map((headers) => ask("POST", "/api/play", { ...json, ...headers }, '{"env":"frozen_lake","seed":1}')),
    ...secrets.names.map((env) => ask("POST", "/api/play", json, JSON.stringify({ env, seed: 1 }))),
    ...secrets.urls.map((url) => ask("POST", "/v1/chat/completions", json, chat(url))),
    ...imageFiles().map((file) => ask("POST", "/v1/chat/completions", json, chat(uri(file)))),
    ...["image/png;a=b", "image/png;base64", ";base64", "image/svg+xml;base64", `${"x".repeat(900)};base64`].map(
      (type) => ask("POST", "/tokenize", json, chat(uri(blank(64), `data:${type},`))),
    ),
    ask("POST", "/connect", { "Content-Type": multipart.type }, multipart.body.toString("latin1")),
    ask(
      "POST",
      "/v1/completions",
      { ...json, "Content-Encoding": "gzip" },
      gzipSync(Buffer.alloc(MIB)).toString("latin1"),
    ),
    ask("POST", "/call", { "Content-Type": "application/msgpack" }, "\u0004\u0000\u0000\u0000\u0081\u00a2op\u00a1x"),
    ask("PUT", "/files/a/b", {}, "x"),
    ask("DELETE", "/files/..%2f..%2fetc"),
  ];
}

type Secrets = {
  /** Names of environments that lead to a file, and addresses that lead to a server: nobody may follow them. */
  readonly names: readonly string[];
  readonly urls: readonly string[];
  touched(): string[];
  close(): void;
};

async function hide(): Promise<Secrets> {
  const folder = mkdtempSync(join(tmpdir(), "saccade-secret-"));
  const [file, mark] = [join(folder, "evil.mjs"), join(folder, "was-run")];
  writeFileSync(file, `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(mark)}, "");`);
  let visits = 0;
  const server = createServer((_, answer) => {
    visits += 1;
    answer.end("x");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x.png`;
  const from = relative(root, file);
  return {
    names: [`frozen_lake/../${from}`, `frozen_lake/../${from}#a`, file, `./${from}`, `frozen_lake/${file}`, "remote"],
    urls: [
      url,
      url.replace("http:", "HTTP:"),
      `file://${file}`,
      file,
      "http://169.254.169.254/",
      "ftp://127.0.0.1/",
      `data:${url}`,
    ],
    touched: () => [
      ...(existsSync(mark) ? ["a file of this machine was run"] : []),
      ...(visits > 0 ? [`an address was fetched ${visits} times`] : []),
    ],
    close() {
      server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The bodies that ended the server or silenced it, each with every relation that came to mind. */
function* blows(target: Target, secrets: Secrets, { share, stalled }: Size): Generator<() => Promise<Said>> {
  const { port, headers } = target;
  const json = "application/json";
  const datums = repeated("", "\u001a\u0000", 59 * share);
  yield () => post(target, "/api/v1/forward_backward", datums, "application/x-protobuf");
  const nested = packed([[3, new Writer().bytes(1, repeated("", "\u000a\u0000", 30 * share))]]);
  yield () => post(target, "/api/v1/forward_backward", nested, "application/x-protobuf");
  const side = 5000;
  const sparse = new Writer().bytes(2, new Uint8Array((side + 1) * 8));
  const tensor = new Writer().message(2, sparse).integer(3, 1).integers(4, [side, side]);
  const datum = new Writer().message(2, new Writer().text(1, "weights").message(2, tensor));
  const many = packed(Array.from({ length: 20 }, () => [3, datum] as const));
  yield () => post(target, "/api/v1/forward_backward", many, "application/x-protobuf");
  for (const [start, piece] of [
    ['{"messages":[', "[],"],
    ['{"messages":[', '{"role":"user"},'],
    ['{"messages":[', '"a",'],
    ['{"token_ids":[', "1.5,"],
    ['{"token_ids":[', "1,"],
    ['{"prompt":"', "\\u00e9"],
    ['{"a":"', '\\"'],
    ['{"a":"', "\u00e4"],
    ["", " "],
  ] as const) {
    for (const path of ["/v1/chat/completions", "/inference/v1/generate", "/api/v1/asample"]) {
      yield () => post(target, path, repeated(start, piece, 114 * share));
    }
  }
  // The same to its end: these are JSON.
  for (const piece of ["ab", '\\"', "\u00e4"]) {
    const whole = Buffer.concat([repeated('{"a":"', piece, 114 * share), Buffer.from('"}')]);
    yield () => post(target, "/v1/chat/completions", whole);
  }
  const wrong = `{"token_ids":[${"1.5,".repeat(1_000_000)}1],"sampling_params":{}}`;
  yield () => post(target, "/inference/v1/generate", wrong);
  yield () => post(target, "/v1/completions", `{"prompt":[${'"a",'.repeat(500_000)}"a"],"max_tokens":1}`);
  yield () => post(target, "/v1/completions", `{"prompt":"a","max_tokens":1,"stop":[${'"a",'.repeat(500_000)}"b"]}`);
  yield () => post(target, "/v1/completions", '{"prompt":"a","max_tokens":4,"n":16384}');
  const biases = Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [String(i), -1]));
  yield () => post(target, "/v1/completions", JSON.stringify({ prompt: "a", max_tokens: 1, logit_bias: biases }));
  const tool = { type: "function", function: { name: "f", parameters: { a: "b".repeat(50) } } };
  const tools = Array.from({ length: 15_000 }, () => tool);
  yield () =>
    post(target, "/v1/chat/completions", JSON.stringify({ messages: [{ role: "user", content: "a" }], tools }));
  for (const path of [
    "/tokenize",
    "/v1/completions",
    "/api/v1/create_session",
    "/api/v1/asample",
    "/connect",
    "/api/play",
  ]) {
    for (const deep of ["[", '{"a":']) yield () => post(target, path, `{"prompt":${deep.repeat(200_000)}`);
  }
  // Half a megabyte of spaces, and less that fits.
  for (const length of [512 * 1024, 30_000, 15_000]) {
    const spaces = " ".repeat(length);
    yield () => post(target, "/tokenize", JSON.stringify({ prompt: spaces }));
    yield () => post(target, "/v1/completions", JSON.stringify({ prompt: spaces, max_tokens: 1 }));
    yield () => post(target, "/v1/chat/completions", JSON.stringify({ messages: [{ role: "user", content: spaces }] }));
  }
  // Images: forty of 16 megapixels in one request, and one in each of forty.
  const large = blank(4096);
  const forty = chat(...Array.from({ length: 40 }, () => uri(large)));
  yield () => post(target, "/v1/chat/completions", forty);
  for (let i = 0; i < Math.ceil(40 * share); i++) {
    yield () =>
      post(target, ["/v1/chat/completions", "/v1/chat/completions/render"][i % 2] as string, chat(uri(large)));
  }
  yield () =>
    post(
      target,
      "/v1/chat/completions",
      chat(uri(pngOf(4032, 3024, deflateSync(Buffer.alloc((4032 * 3 + 1) * 3024))))),
    );
  for (const file of imageFiles()) yield () => post(target, "/v1/chat/completions", chat(uri(file)));
  for (const url of secrets.urls) yield () => post(target, "/v1/chat/completions", chat(url));
  for (const env of secrets.names) {
    const { type, body } = packParcel({ data: { env_config: { env } }, images: [] }, "form-data");
    yield () => post(target, "/connect", body, type);
    yield () => post(target, "/api/play", JSON.stringify({ env, seed: 1 }));
  }
  const list = `{"env_config":{"env":"frozen_lake","a":[${'"b",'.repeat(900_000)}"b"]}}`;
  const form = `--x\r\nContent-Disposition: form-data; name="data"\r\n\r\n${list}\r\n--x--\r\n`;
  yield () => post(target, "/connect", form, "multipart/form-data; boundary=x");
  // Features whose MessagePack is a list without end.
  const lists = Buffer.alloc(Math.floor(60 * share * MIB), 0x90);
  lists.set([0xdd, 0x03, 0, 0, 0]);
  const features = { mm_hashes: { image: ["a"] }, mm_placeholders: { image: [{ offset: 0, length: 1 }] } };
  yield () =>
    post(
      target,
      "/inference/v1/generate",
      JSON.stringify({
        token_ids: [40],
        sampling_params: {},
        features: { ...features, kwargs_data: { image: [lists.toString("base64")] } },
      }),
    );
  // Uploads that stop just before their end, heads that never end, bodies without a length.
  const length = Math.floor(120 * share * MIB);
  const upload = Buffer.alloc(MIB, "x");
  const head = (more: string) =>
    `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: ${json}\r\n${line(headers)}${more}\r\n`;
  for (let i = 0; i < stalled; i++) {
    const parts = Array.from({ length: Math.floor(length / MIB) - 1 }, () => upload);
    yield () => raw(port, [head(`Content-Length: ${length}\r\n`), '"', ...parts], 25_000);
  }
  const heads = Array.from({ length: stalled * 20 }, () => ["POST / HTTP/1.1\r\nX-A: "]);
  yield async () => (await Promise.all(heads.map((head) => raw(port, head, 10_000))))[0] as Said;
  const chunk = Buffer.concat([Buffer.from("100000\r\n"), upload, Buffer.from("\r\n")]);
  yield () =>
    raw(port, [head("Transfer-Encoding: chunked\r\n"), ...Array.from({ length: Math.ceil(100 * share) }, () => chunk)]);
  yield () => raw(port, [head("Transfer-Encoding: chunked\r\n"), "ffffffffff\r\nx"]);
}

/** Asks for health ten times a second and reads the memory of a process, in a thread of its own. */
class Watcher {
  readonly #worker: Worker;

  constructor({ port, health, headers }: Target, pid: number) {
    const code = `
      const { parentPort, workerData } = require("node:worker_threads");
      const http = require("node:http"), { readFileSync } = require("node:fs");
      const { port, path, headers, pid } = workerData;
      const agent = new http.Agent({ keepAlive: true });
      const seen = { idle: 0, most: 0, slowest: 0, asked: 0, failed: [] };
      const memory = () => { try { return Number(/VmRSS:\\s+(\\d+)/.exec(readFileSync("/proc/" + pid + "/status", "utf8"))[1]) / 1024; } catch { return 0; } };
      seen.idle = memory();
      const ask = () => new Promise((done) => {
        const began = performance.now();
        const end = (why) => { seen.asked++; seen.slowest = Math.max(seen.slowest, performance.now() - began); if (why) seen.failed.push(why); done(); };
        http.get({ host: "127.0.0.1", port, path, headers, agent, timeout: 60000 }, (answer) => { answer.resume(); answer.on("end", () => end(answer.statusCode === 200 ? "" : "health " + answer.statusCode)); })
          .on("timeout", function () { this.destroy(new Error("no answer")); }).on("error", (error) => end("health: " + error.message));
      });
      setInterval(() => { seen.most = Math.max(seen.most, memory()); }, 20);
      (async () => { for (;;) { await ask(); await new Promise((next) => setTimeout(next, 100)); } })();
      parentPort.on("message", () => parentPort.postMessage(seen));`;
    this.#worker = new Worker(code, { eval: true, workerData: { port, path: health, headers, pid } });
  }

  async end(): Promise<{ idle: number; most: number; slowest: number; asked: number; failed: string[] }> {
    this.#worker.postMessage("end");
    const [seen] = await once(this.#worker, "message");
    await this.#worker.terminate();
    return seen;
  }
}

async function startServer(kind: "serve" | "view"): Promise<Target> {
  const jiti = join(root, "node_modules/jiti/lib/jiti-cli.mjs");
  const child = fork(jiti, [join(root, "test/hostile-server.ts"), kind, KEY], {
    cwd: root,
    stdio: ["ignore", 1, 2, "ipc"],
  });
  const gone = once(child, "exit").then(() => {
    throw new Error(`The server ${kind} did not start.`);
  });
  const [port] = (await Promise.race([once(child, "message"), gone])) as [number];
  gone.catch(() => {});
  const headers = { Authorization: `Bearer ${KEY}` };
  return { name: kind, port, child, health: kind === "serve" ? "/health" : "/api/envs", headers };
}

async function startTorch(): Promise<Target> {
  const flags = ["-m", "saccade_torch", "--device", "cpu", "--threads", "1", "--with-parent"];
  const child = spawn("python3", flags, {
    env: { ...process.env, PYTHONPATH: packageFolder(), SACCADE_TORCH_KEY: KEY },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let lastLines = "";
  child.stderr.on("data", (part: Buffer) => {
    lastLines = (lastLines + part.toString()).slice(-2000);
  });
  const [said] = (await once(child.stdout, "data")) as [Buffer];
  const { port } = JSON.parse(said.toString()) as { port: number };
  return {
    name: "torch",
    port,
    child,
    health: "/health",
    headers: { Authorization: `Bearer ${KEY}` },
    lastLines: () => lastLines,
  };
}

async function attack(target: Target, size: Size, mutations: number): Promise<Report> {
  const { port, child, headers, name } = target;
  const secrets = await hide();
  const pid = child.pid as number;
  const statuses: Record<string, number> = {};
  const faults: string[] = [];
  let sent = 0;
  let isOver: string | undefined;
  child.once("exit", (code, signal) => {
    isOver = `the server ended: ${signal ?? `exit code ${code}`}. ${target.lastLines?.() ?? ""}`;
  });
  const note = ({ status, text }: Said) => {
    sent += 1;
    statuses[status] = (statuses[status] ?? 0) + 1;
    // 503 and 408 are answers to what is too much.
    const isFault = status >= 500 && status !== 503 && status !== 501;
    if (isFault || /root:[x*]?:0:0/.test(text)) faults.push(text.slice(0, 500));
  };
  const together = async (work: Iterator<() => Promise<Said>>, atOnce: number) => {
    const one = async () => {
      for (let next = work.next(); !next.done && isOver === undefined; next = work.next()) note(await next.value());
    };
    await Promise.all(Array.from({ length: atOnce }, one));
  };
  // What only the first requests need is there before it is called idle.
  if (name === "serve") {
    await post(target, "/v1/chat/completions", chat(uri(blank(64))));
    await post(target, "/tokenize", JSON.stringify({ prompt: " ".repeat(40_000) }));
  }
  await raw(port, [`GET ${target.health} HTTP/1.1\r\nHost: 127.0.0.1\r\n${line(headers)}\r\n`]);
  const watcher = new Watcher(target, pid);
  const random = new NumpyRandom(7);
  const seeds = requests(target, secrets);
  function* mutants(count: number): Generator<() => Promise<Said>> {
    for (const seed of seeds) yield () => raw(port, [seed]);
    for (let i = 0; i < count; i++) {
      const bytes = mutate(seeds[random.integers(0, seeds.length)] as Buffer, random);
      // What waits for more is left alone soon.
      yield () => raw(port, [bytes, "\r\n\r\n"], 800);
    }
  }
  if (name === "serve") {
    const url = `http://127.0.0.1:${port}`;
    const testImage = await renderedImage(url, headers);
    const bodies = Math.floor(mutations * 0.6);
    await Promise.all([
      together(blows(target, secrets, size), 12),
      assail(url, hostile(bodies, 11, testImage), { atOnce: 8, headers }).then((outcome) => {
        sent += bodies;
        faults.push(...outcome.faults.filter((fault) => !fault.startsWith("503")));
      }),
    ]);
    await together(mutants(mutations - bodies), 24);
  } else {
    if (name === "view") await together(blows(target, secrets, { ...size, stalled: Math.min(2, size.stalled) }), 12);
    await together(mutants(mutations), 24);
  }
  const { failed, ...seen } = await watcher.end();
  // A server that ends stops listening some seconds before: wait to learn why.
  if (failed.some((why) => why.includes("ECONNREFUSED")) && isOver === undefined) {
    await Promise.race([once(child, "exit"), new Promise((late) => setTimeout(late, MAX_END_MS))]);
    isOver ??= `the server refuses connections and did not end in ${MAX_END_MS} ms. ${target.lastLines?.() ?? ""}`;
  }
  faults.push(...secrets.touched(), ...(isOver === undefined ? [] : [isOver]), ...[...new Set(failed)]);
  secrets.close();
  return { name, sent, statuses, faults, ...seen };
}

export async function attackAll(size: Size): Promise<Report[]> {
  const reports: Report[] = [];
  const shares = { serve: 0.7, view: 0.2, torch: 0.1 };
  for (const kind of ["serve", "view", ...(size.torch ? (["torch"] as const) : [])] as const) {
    const target = kind === "torch" ? await startTorch() : await startServer(kind);
    try {
      reports.push(await attack(target, size, Math.ceil(size.mutations * shares[kind])));
    } finally {
      target.child.kill();
    }
  }
  return reports;
}
