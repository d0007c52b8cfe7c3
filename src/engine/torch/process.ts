/**
 * A worker that we start and watch. It ends when our end of its standard input closes, so nothing stays behind even when this process is killed. One that
 * died is started anew by the next call; what it knew is gone, which its learners notice by the new `instance`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { delimiter } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { EngineError } from "../errors.ts";
import { Connection } from "./connection.ts";
import { defaultPython, packageFolder } from "./environment.ts";
import { WorkerLost } from "./lost.ts";

/** How the worker computes; what is left out it chooses by its device. */
export type WorkerSettings = {
  /** The environment's Python. */
  readonly python?: string | undefined;
  /** cpu, cuda or cuda:1. */
  readonly device?: string | undefined;
  readonly dtype?: "float32" | "bfloat16" | undefined;
  /** Tokens in one pass of the learner. */
  readonly packTokens?: number | undefined;
  /** Most bytes of keys and values of one sampler. */
  readonly cacheBytes?: number | undefined;
  /** Most bytes of frames that the worker keeps for calls to name; calls that show more go in pieces. */
  readonly frameBytes?: number | undefined;
  readonly compile?: boolean | undefined;
  readonly checkpointing?: boolean | undefined;
  /** 32-bit weights, gradients and the optimizer's state lie in host memory. */
  readonly offload?: boolean | undefined;
  /** Processes on this machine, one for each GPU: the learner's weights lie in pieces over them. */
  readonly processes?: number | undefined;
  /** How frozen layers under an adapter are kept, for learning and sampling. */
  readonly base?: "nf4" | "int8" | undefined;
  /** The optimizer's moments in 8 bits. */
  readonly moments?: "int8" | undefined;
  /** Which processes sample: all, or the first alone, where servers do it. */
  readonly samplers?: "all" | "first" | undefined;
  /** CPU threads. */
  readonly threads?: number | undefined;
};

/** A worker that runs: how to reach it, which process of it this is, and the bytes of frames that it keeps. */
export type Link = { readonly connection: Connection; readonly instance: string; readonly frameBytes: number };

/** Where workers come from: one that we start, or one that runs elsewhere. */
export interface WorkerSource {
  /** They share no disk with us: folders must travel. */
  readonly remote: boolean;
  link(): Promise<Link>;
  /** It did not answer: look again. */
  doubt(): void;
  /** How the process of the one before this ended, where we started it: its signal or exit code, and the last line it wrote. */
  readonly ending: string | undefined;
  /** Why the one before this ended, where it said so. Told once. */
  lastWords(): string | undefined;
  close(): Promise<void>;
}

const MAX_KEPT_LINES = 40;
const START_MS = 300_000;
/** How long a worker that was met before may be away. */
const PATIENCE_MS = 600_000;
const LOOK_MS = 1000;
/** As in saccade_torch/errors.py. */
const LAST_WORDS = "saccade_torch: ";
const END_MS = 20_000;

export class LocalWorker implements WorkerSource {
  readonly remote = false;
  readonly #settings: WorkerSettings;
  #running: { readonly link: Promise<Link>; readonly child: ChildProcess } | undefined;
  #closed = false;
  #lastWords: string | undefined;
  #ending: string | undefined;

  constructor(settings: WorkerSettings) {
    this.#settings = settings;
  }

  link(): Promise<Link> {
    if (this.#closed) return Promise.reject(new EngineError("The engine is closed. Make a new one."));
    this.#running ??= this.#start();
    return this.#running.link;
  }

  /** The process itself says when it ends. */
  doubt(): void {}

  lastWords(): string | undefined {
    const words = this.#lastWords;
    this.#lastWords = undefined;
    return words;
  }

  get ending(): string | undefined {
    return this.#ending;
  }

  /** Of the worker, for tests that kill it. */
  get pid(): number | undefined {
    return this.#running?.child.pid;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const running = this.#running;
    if (running === undefined || running.child.exitCode !== null || running.child.signalCode !== null) return;
    const ended = once(running.child, "close");
    running.child.stdin?.end();
    const late = setTimeout(() => running.child.kill("SIGKILL"), END_MS);
    await ended;
    clearTimeout(late);
  }

  #start() {
    const key = randomBytes(24).toString("hex");
    const python = this.#settings.python ?? defaultPython();
    const child = spawn(python, [...launch(this.#settings), "--with-parent", ...flags(this.#settings)], {
      env: {
        ...process.env,
        PYTHONPATH: [packageFolder(), process.env.PYTHONPATH].filter(Boolean).join(delimiter),
        PYTHONUNBUFFERED: "1",
        SACCADE_TORCH_KEY: key,
        // Folders hold all that is needed; without this a machine off the net waits for the hub.
        HF_HUB_OFFLINE: process.env.HF_HUB_OFFLINE ?? "1",
        TQDM_DISABLE: "1",
      },
      stdio: ["pipe", "pipe", "pipe"],
      // A Ctrl-C reaches us only; we close the pipe.
      detached: true,
      windowsHide: true,
    });
    const lines: string[] = [];
    eachLine(child.stderr, (line) => {
      // Of several processes the first to say why is the one that knows.
      if (line.startsWith(LAST_WORDS)) this.#lastWords ??= line.slice(LAST_WORDS.length);
      lines.push(line);
      if (lines.length > MAX_KEPT_LINES) lines.shift();
    });
    // It may be gone before the pipe is closed.
    child.stdin.on("error", () => undefined);
    const link = this.#announced(child, python, key, lines);
    const running = { link, child };
    const forget = () => {
      if (this.#running === running) this.#running = undefined;
    };
    child.once("close", (code, signal) => {
      const line = lines.at(-1);
      this.#ending = `${signal === null ? `exit code ${code}` : `ended by ${signal}`}${line === undefined ? "" : `: ${line}`}`;
      forget();
    });
    link.catch(forget);
    // Nobody waits for it: it must not keep this process alive.
    child.unref();
    for (const stream of [child.stdin, child.stdout, child.stderr]) (stream as unknown as { unref?(): void }).unref?.();
    return running;
  }

  #announced(child: ChildProcess, python: string, key: string, lines: readonly string[]): Promise<Link> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        child.kill("SIGKILL");
        reject(new WorkerLost(`The PyTorch worker did not start within ${START_MS / 1000} s.`));
      }, START_MS);
      child.once("error", (error) => {
        clearTimeout(late);
        reject(
          new EngineError(
            `${python} does not run (${error.message}). Make an environment with \`saccade torch setup\`.`,
          ),
        );
      });
      child.once("close", () => {
        clearTimeout(late);
        reject(new EngineError(explain(python, lines)));
      });
      eachLine(child.stdout, (line) => {
        if (!line.startsWith('{"port"')) return;
        clearTimeout(late);
        const { port, ...about } = JSON.parse(line) as { port: number; instance: string; frameBytes: number };
        const connection = new Connection({ host: "127.0.0.1", port, key });
        child.once("close", () => connection.close());
        resolve({ connection, ...about });
      });
    });
  }
}

/** A worker that somebody else started: `torch@host:port`, with its key in SACCADE_TORCH_KEY. */
export class RemoteWorker implements WorkerSource {
  readonly remote = true;
  readonly #connection: Connection;
  #link: Promise<Link> | undefined;
  #met = false;
  #closed = false;

  constructor(address: string, key: string) {
    const at = address.lastIndexOf(":");
    this.#connection = new Connection({
      host: address.slice(0, at).replace(/^\[|\]$/g, ""),
      port: Number(address.slice(at + 1)),
      key,
    });
  }

  link(): Promise<Link> {
    this.#link ??= this.#find();
    this.#link.catch(() => this.doubt());
    return this.#link;
  }

  /** Its own machine knows. */
  readonly ending = undefined;

  lastWords(): undefined {}

  /** One that never answered is not waited for: its address may be wrong. */
  async #find(): Promise<Link> {
    const until = performance.now() + (this.#met ? PATIENCE_MS : 0);
    for (;;) {
      try {
        const { instance, frameBytes } = await this.#connection.health();
        this.#met = true;
        return { connection: this.#connection, instance: instance as string, frameBytes: frameBytes as number };
      } catch (error) {
        if (!(error instanceof WorkerLost) || this.#closed || performance.now() > until) throw error;
        await sleep(LOOK_MS);
      }
    }
  }

  doubt(): void {
    this.#link = undefined;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#connection.close();
  }
}

/** Several processes are torchrun's business; the first of them speaks to us. */
function launch({ processes = 1 }: WorkerSettings): string[] {
  const run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", String(processes)];
  return [...(processes > 1 ? run : []), "-m", "saccade_torch"];
}

function flags(settings: WorkerSettings): string[] {
  const {
    device,
    dtype,
    packTokens,
    cacheBytes,
    frameBytes,
    compile,
    checkpointing,
    offload,
    base,
    moments,
    samplers,
    threads,
  } = settings;
  const values = {
    device,
    dtype,
    "pack-tokens": packTokens,
    "cache-bytes": cacheBytes,
    "frame-bytes": frameBytes,
    base,
    moments,
    samplers,
    threads,
  };
  return [
    ...Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, String(value)])),
    ...(compile === undefined ? [] : [compile ? "--compile" : "--no-compile"]),
    ...(checkpointing ? ["--checkpointing"] : []),
    ...(offload ? ["--offload"] : []),
  ];
}

function explain(python: string, lines: readonly string[]): string {
  const missing = lines.find((line) => line.startsWith("ModuleNotFoundError"));
  if (missing !== undefined) {
    return `${python} lacks what the PyTorch worker needs (${missing}). Make an environment with \`saccade torch setup\`, or name another Python.`;
  }
  return `The PyTorch worker did not start: ${lines.slice(-3).join(" · ") || "it said nothing"}`;
}

function eachLine(stream: NodeJS.ReadableStream | null, take: (line: string) => void): void {
  let rest = "";
  stream?.setEncoding("utf8").on("data", (text: string) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) take(part);
  });
}
