/**
 * Starts workers. From sources a worker is a TypeScript file that `jiti` compiles; in the package it is a built file next to the other chunks.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker, type WorkerOptions } from "node:worker_threads";
import { compiledScripts } from "./cache-folder.ts";
import { ConfigError } from "./errors.ts";

/** `name`: the worker's source below `src`, such as `rollout/env-worker`; the build calls it by its last part. */
export function workerEntry(name: string): { readonly file: URL } | { readonly code: string } {
  if (import.meta.url.endsWith(".ts")) {
    const source = JSON.stringify(fileURLToPath(new URL(`../${name}.ts`, import.meta.url)));
    const jiti = JSON.stringify(createRequire(import.meta.url).resolve("jiti"));
    const options = JSON.stringify({ fsCache: compiledScripts() });
    return { code: `require(${jiti}).createJiti(${source}, ${options})(${source})` };
  }
  const file = new URL(`./${basename(name)}.js`, import.meta.url);
  if (!existsSync(file)) throw new ConfigError(`${fileURLToPath(file)} is missing; install the package again.`);
  return { file };
}

export function startThread(name: string, options: WorkerOptions = {}): Worker {
  const entry = workerEntry(name);
  return "file" in entry ? new Worker(entry.file, options) : new Worker(entry.code, { ...options, eval: true });
}
