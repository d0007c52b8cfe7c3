/**
 * Python programs to measure ourselves against: one JSON object per line to them, one back. And how to measure on a shared machine: both
 * sides in turns, the best of several rounds each, so that a busy moment spoils neither.
 */
import { type ChildProcessByStdio, spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

const PYTHON = process.env.PYTHON ?? "python3";

/** What is missing for the peers, or undefined when all is there. */
export function missingPeers(): string | undefined {
  const { status, stderr, error } = spawnSync(
    PYTHON,
    ["-c", "import torch, safetensors; from transformers import Qwen3VLForConditionalGeneration"],
    {
      encoding: "utf8",
    },
  );
  if (error !== undefined) return `${PYTHON} is not there`;
  return status === 0 ? undefined : (stderr.trim().split("\n").at(-1) ?? `${PYTHON} failed`);
}

export class Peer {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #waiting: { resolve: (line: string) => void; reject: (error: Error) => void }[] = [];

  /** `script` is a file of bench/peers. */
  constructor(script: string) {
    this.#process = spawn(PYTHON, [join(import.meta.dirname, "peers", script)], {
      stdio: ["pipe", "pipe", process.env.BENCH_DEBUG ? "inherit" : "ignore"] as ["pipe", "pipe", "ignore"],
      env: { ...process.env, HF_HUB_OFFLINE: "1", TRANSFORMERS_VERBOSITY: "error" },
    });
    createInterface({ input: this.#process.stdout }).on("line", (line) => this.#waiting.shift()?.resolve(line));
    this.#process.on("exit", (code) => {
      for (const { reject } of this.#waiting.splice(0)) reject(new Error(`${script} ended with ${code}`));
    });
  }

  async ask<T = Record<string, number>>(op: string, request: Record<string, unknown> = {}): Promise<T> {
    const line = await new Promise<string>((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#process.stdin.write(`${JSON.stringify({ op, ...request })}\n`);
    });
    const answer = JSON.parse(line) as T & { error?: string };
    if (answer.error !== undefined) throw new Error(`${op}: ${answer.error}`);
    return answer;
  }

  close(): void {
    this.#process.stdin.end();
  }
}

/** The least milliseconds of each contender over `rounds` rounds in turns; a round before them warms up. */
export async function inTurns(
  rounds: number,
  contenders: readonly ((round: number) => Promise<number>)[],
): Promise<number[]> {
  const best = contenders.map(() => Number.POSITIVE_INFINITY);
  for (let round = -1; round < rounds; round++) {
    for (const [i, run] of contenders.entries()) {
      const ms = await run(round);
      if (round >= 0) best[i] = Math.min(best[i]!, ms);
    }
  }
  return best;
}

export async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

export function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): void {
  console.log(`| ${head.join(" | ")} |\n|${"---|".repeat(head.length)}`);
  for (const row of rows) console.log(`| ${row.join(" | ")} |`);
  console.log();
}

export const ms = (value: number) =>
  value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0);
/** How many times faster than the peer; "–" without one. */
export const ratio = (peer: number | undefined, ours: number) =>
  peer === undefined ? "–" : `${(peer / ours).toFixed(2)}×`;
