/**
 * The script of every worker of the lab. The first message says what it is: the one that learns (a command of the page), or a thread of its pool.
 */
import kernels from "virtual:kernels";
import { errorMessage } from "../../src/core/errors.ts";
import { Machine } from "../../src/engine/native/machine.ts";
import { learnInLab } from "./learning.ts";
import type { LabCommand, LabEvent, LabSettings } from "./messages.ts";
import { pageThreads, type Role, serve } from "./threads.ts";

// Without isolation the name is hidden, though such memory exists; nothing of ours is posted to other threads then.
globalThis.SharedArrayBuffer ??= new WebAssembly.Memory({ initial: 0, maximum: 0, shared: true }).buffer
  .constructor as SharedArrayBufferConstructor;

const tell = (event: LabEvent) => postMessage(event);

function learn({ settings: first, seed, threads }: LabCommand & { kind: "start" }): void {
  let settings: LabSettings = first;
  let paused: Promise<void> | undefined;
  let resume = () => {};
  addEventListener("message", ({ data }: MessageEvent<LabCommand>) => {
    if (data.kind === "change") settings = { ...settings, ...data.settings };
    if (data.kind === "resume") {
      paused = undefined;
      resume();
    }
    if (data.kind === "pause") {
      paused ??= new Promise((done) => {
        resume = done;
      });
    }
  });
  const isolated = globalThis.crossOriginIsolated === true;
  const source = pageThreads(decode(kernels), location.href, isolated);
  const machine = new Machine(source, isolated ? (threads === undefined ? {} : { threads }) : { threads: 1 });
  const goOn = async () => {
    // A message may be waiting.
    await new Promise((done) => setTimeout(done));
    while (paused !== undefined) await paused;
    return true;
  };
  learnInLab({ machine, seed, tell, goOn, settings: () => settings }).catch((error: unknown) =>
    tell({ kind: "failed", message: errorMessage(error) }),
  );
}

function decode(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

addEventListener(
  "message",
  ({ data }: MessageEvent<Role | LabCommand>) => {
    if ("role" in data) serve(data);
    else if (data.kind === "start") learn(data);
  },
  { once: true },
);
