/** Starts the environment worker as a thread or as a process and hides which it is. */
import { fork, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { errorMessage } from "../core/errors.ts";
import { startThread, workerEntry } from "../core/workers.ts";
import type { EnvCall, EnvReply } from "./env-wire.ts";

const WORKER = "rollout/env-worker";

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
  const worker = startThread(WORKER);
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
  const entry = workerEntry(WORKER);
  // What an environment prints goes to standard error, so that it can't mix with results.
  const options = {
    stdio: ["ignore", 2, 2, "ipc"] as ("ignore" | "ipc" | number)[],
    serialization: "advanced" as const,
  };
  const child =
    "file" in entry
      ? fork(fileURLToPath(entry.file), { ...options, execArgv: [] })
      : spawn(process.execPath, ["-e", entry.code], options);
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
