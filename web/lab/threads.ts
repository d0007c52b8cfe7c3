/**
 * The threads of a pool in a page. Where the page is isolated from others (the server's headers say so), threads are Web Workers over shared memory. From a
 * file it is not: then the one worker that learns also computes, and messages stay inside it.
 */
import { soon } from "../../src/core/platform.ts";
import type { Drawn, Reply, Request, WorkerPlace } from "../../src/engine/native/jobs.ts";
import { attachWasm, helpWasm } from "../../src/engine/native/kernels/wasm.ts";
import { compileModule, type WasmThread } from "../../src/engine/native/kernels/wasm-memory.ts";
import type { Thread, Threads } from "../../src/engine/native/pool.ts";
import { Workbench } from "../../src/engine/native/workbench.ts";
import { openFolder } from "./model.ts";

/** What a worker is told first: what it is. */
export type Role =
  | { readonly role: "worker"; readonly place: WorkerPlace }
  | { readonly role: "helper"; readonly place: WasmThread };

type Events = Record<"message" | "error" | "exit", ((value: unknown) => void)[]>;

export function pageThreads(kernels: Uint8Array, script: string, isolated: boolean): Threads {
  const module = compileModule(kernels);
  return {
    choose: async () => ({ info: { name: "wasm", isa: "simd128" }, module }),
    worker: (place) => (isolated ? startWorker(script, { role: "worker", place }) : insideThread(place)),
    helper: (place) => startWorker(script, { role: "helper", place }),
  };
}

function startWorker(script: string, role: Role): Thread {
  const worker = new Worker(script);
  const heard: Events = { message: [], error: [], exit: [] };
  const emit = (event: keyof Events, value?: unknown) => {
    for (const hear of heard[event]) hear(value);
  };
  let ended = false;
  const end = () => {
    if (ended) return;
    ended = true;
    worker.terminate();
    emit("exit");
  };
  worker.onmessage = ({ data }) => emit("message", data);
  worker.onerror = ({ message }) => {
    emit("error", new Error(message));
    end();
  };
  worker.postMessage(role);
  return {
    postMessage: (message) => worker.postMessage(message),
    terminate: async () => end(),
    ref() {},
    unref() {},
    on: (event, hear) => heard[event].push(hear),
  };
}

function insideThread(place: WorkerPlace): Thread {
  const hearers: ((value: unknown) => void)[] = [];
  const bench = benchOf(place, (messages) =>
    soon(() => {
      for (const hear of hearers) hear(messages);
    }),
  );
  return {
    postMessage: (message) => soon(() => bench.take(message as readonly Request[])),
    // What it was doing ends with the thread that it is part of.
    terminate: async () => {},
    ref() {},
    unref() {},
    on: (event, hear) => (event === "message" ? hearers.push(hear) : 0),
  };
}

/** The life of a worker or helper. */
export function serve({ role, place }: Role): void {
  if (role === "helper") helpWasm(place);
  else {
    const bench = benchOf(place, (messages) => postMessage(messages));
    addEventListener("message", ({ data }: MessageEvent<readonly Request[]>) => bench.take(data));
    // Memory that ran out ends the thread; the pool starts anew.
    addEventListener("unhandledrejection", ({ reason }) => {
      setTimeout(() => {
        throw reason;
      });
    });
  }
}

function benchOf(place: WorkerPlace, post: (messages: readonly (Reply | Drawn)[]) => void): Workbench {
  const noFiles = () => Promise.reject(new Error("A page has no model folders."));
  return new Workbench({
    place,
    attach: ({ wasm }) => attachWasm(wasm as WasmThread),
    folder: openFolder,
    files: { load: noFiles, save: noFiles, restore: noFiles },
    post,
  });
}
