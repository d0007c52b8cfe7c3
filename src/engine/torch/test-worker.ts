/** For tests: whether `python3` has what the worker needs, and an engine over a small CPU worker. */
import { execFileSync } from "node:child_process";
import { TorchEngine } from "./engine.ts";
import { LocalWorker, type WorkerSettings } from "./process.ts";

const found = (() => {
  try {
    execFileSync("python3", ["-c", "import aiohttp, msgpack, torch, transformers"], { stdio: "pipe" });
    return true;
  } catch {
    return false;
  }
})();

/** SACCADE_REQUIRE=torch makes its absence a failure. */
export const TORCH = found || (process.env.SACCADE_REQUIRE ?? "").split(",").includes("torch");

export const CPU_SETTINGS: WorkerSettings = { python: "python3", device: "cpu", threads: 1 };

export function cpuEngine(settings: WorkerSettings = {}): {
  readonly engine: TorchEngine;
  readonly worker: LocalWorker;
} {
  const worker = new LocalWorker({ ...CPU_SETTINGS, ...settings });
  return { engine: new TorchEngine(worker), worker };
}
