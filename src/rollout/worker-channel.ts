/**
 * Starts the environment worker as a thread or as a process and hides which it is. From sources the worker is a TypeScript file that
 * `jiti` loads; in the package it is `env-worker.js` beside this chunk.
 */
import { fork, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { compiledScripts } from "../core/cache-folder.ts";
import { EnvError, errorMessage } from "../core/errors.ts";
import type { EnvCall, EnvReply } from "./env-wire.ts";

export interface Channel {
  /** Throws when the message holds what can't be copied to another thread. */
  send(message: EnvCall): void;
  /** A channel keeps the process alive only while it is held. */
  hold(held: boolean): void;
  /** Ends the worker, whatever it is doing; resolves when it is gone. */
  kill(): Promise<void>;
}

export type ChannelEvents = {
  readonly onReply: (reply: EnvReply) => void;
  readonly onExit: (cause: string) => void;
};

export function openChannel(kind: "threads" | "processes", events: ChannelEvents): Channel {
  return kind === "threads" ? threadChannel(events) : processChannel(events);
}

function threadChannel({ onReply, onExit }: ChannelEvents): Channel {
  const { file, code } = entry();
  const worker = file === undefined ? new Worker(code, { eval: true }) : new Worker(file);
  let cause = "it ended without a word";
  worker.on("message", onReply);
  worker.on("error", (error) => {
    cause = errorMessage(error);
  });
  worker.on("exit", () => onExit(cause));
  worker.unref();
  return {
    send: (message) => worker.postMessage(message),
    hold: (held) => (held ? worker.ref() : worker.unref()),
    kill: async () => void (await worker.terminate()),
  };
}

function processChannel({ onReply, onExit }: ChannelEvents): Channel {
  const { file, code } = entry();
  // What an environment prints goes to standard error, so that it can't mix with results.
  const options = {
    stdio: ["ignore", 2, 2, "ipc"] as ("ignore" | "ipc" | number)[],
    serialization: "advanced" as const,
  };
  const child =
    file === undefined
      ? spawn(process.execPath, ["-e", code], options)
      : fork(fileURLToPath(file), { ...options, execArgv: [] });
  const exited = new Promise<void>((resolve) => {
    let gone = false;
    const end = (cause: string) => {
      if (gone) return;
      gone = true;
      children.delete(kill);
      onExit(cause);
      resolve();
    };
    child.on("error", (error) => end(errorMessage(error)));
    child.on("exit", (code, signal) => end(signal === null ? `exit code ${code}` : `signal ${signal}`));
  });
  const kill = () => void child.kill("SIGKILL");
  if (children.size === 0 && !process.listeners("exit").includes(killChildren)) process.on("exit", killChildren);
  children.add(kill);
  child.on("message", (reply) => onReply(reply as EnvReply));
  const hold = (held: boolean) => {
    for (const handle of [child, child.channel]) held ? handle?.ref() : handle?.unref();
  };
  hold(false);
  return {
    send: (message) => void child.send(message, (error) => error && kill()),
    hold,
    kill: () => {
      hold(true);
      kill();
      return exited;
    },
  };
}

/** Processes outlive threads: those still running when we exit are ended then. */
const children = new Set<() => void>();
function killChildren(): void {
  for (const kill of children) kill();
}

function entry(): { file: URL; code: "" } | { file: undefined; code: string } {
  if (import.meta.url.endsWith(".ts")) {
    const source = JSON.stringify(fileURLToPath(new URL("./env-worker.ts", import.meta.url)));
    const jiti = JSON.stringify(createRequire(import.meta.url).resolve("jiti"));
    const options = JSON.stringify({ fsCache: compiledScripts() });
    return { file: undefined, code: `require(${jiti}).createJiti(${source}, ${options})(${source})` };
  }
  const file = new URL("./env-worker.js", import.meta.url);
  if (!existsSync(file)) throw new EnvError(`${fileURLToPath(file)} is missing; install the package again.`);
  return { file, code: "" };
}
