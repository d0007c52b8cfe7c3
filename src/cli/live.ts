/**
 * What a training run shows while it goes on: on a terminal a small image that is redrawn (progress, sparklines, the newest frame), elsewhere one plain
 * line per event. Written to stderr, so that stdout stays for results.
 */
import type { Image } from "../core/index.ts";
import { rangeOf } from "../core/numbers.ts";
import { printable } from "../core/printable.ts";
import { halfBlocks } from "../images/index.ts";
import type { RunEvent } from "../run/index.ts";

const BARS = "▁▂▃▄▅▆▇█";
const CURVES: readonly (readonly [label: string, metric: string, kind: RunEvent["kind"]])[] = [
  ["loss of the warm start", "sft/nll", "sft"],
  ["success, training", "train/success", "train"],
  ["entropy", "policy/entropy", "train"],
  ["success, evaluation", "eval/success", "eval"],
  ["greedy", "eval/success_greedy", "eval"],
  ["sight gap", "sight/gap", "sight"],
];

export class LiveView {
  readonly #steps: number;
  readonly #warm: number;
  readonly #started = performance.now();
  readonly #series = new Map<string, number[]>();
  readonly #alarms: string[] = [];
  readonly #terminal = process.stderr.isTTY === true && (process.stderr.columns ?? 0) >= 60;
  #frame: Image | undefined;
  #lines = 0;
  #painted = 0;
  #last: RunEvent | undefined;
  /** The newest step and the newest evaluation. */
  readonly #counts = new Map<RunEvent["kind"], RunEvent>();

  /** `warm`: updates of the warm start, `steps`: of reinforcement learning. */
  constructor(warm: number, steps: number) {
    this.#warm = warm;
    this.#steps = steps;
  }

  /** The newest image of the run. */
  show(frame: Image): void {
    this.#frame = frame;
  }

  see({ message, ...seen }: RunEvent): void {
    // What a server or an environment said may be part of it.
    const event: RunEvent = message === undefined ? seen : { ...seen, message: printable(message) };
    for (const [name, value] of Object.entries(event.metrics)) {
      const values = this.#series.get(name) ?? [];
      values.push(value);
      this.#series.set(name, values);
    }
    if (event.kind === "alarm" && event.message !== undefined) this.#alarms.push(event.message);
    if (event.kind === "sft" || event.kind === "train") this.#last = event;
    if (event.kind === "train" || event.kind === "eval") this.#counts.set(event.kind, event);
    if (!this.#terminal) this.#print(event);
    else if (event.kind === "note" || event.kind === "failure") this.#above(wordsOf(event));
    else if (performance.now() - this.#painted > 100) this.#paint();
  }

  close(): void {
    if (this.#terminal) this.#paint();
  }

  #print(event: RunEvent): void {
    const { kind, step, metrics, message } = event;
    const seconds = ((performance.now() - this.#started) / 1000).toFixed(0).padStart(4);
    if (kind === "sft" && step % 25 !== 0 && step !== this.#warm) return;
    const figures = LINE[kind]?.flatMap((name) =>
      metrics[name] === undefined ? [] : [`${name} ${short(metrics[name])}`],
    );
    const words = message === undefined ? [...(figures ?? []), ...episodes(event)].join("  ") : wordsOf(event);
    const place = kind === "sft" || kind === "train" ? `${step}/${this.#warm + this.#steps}` : step;
    if (words) process.stderr.write(`${seconds} s  ${kind === "alarm" ? "ALARM" : kind} ${place}  ${words}\n`);
  }

  #paint(): void {
    this.#painted = performance.now();
    const columns = process.stderr.columns ?? 80;
    const step = this.#last?.step ?? 0;
    const total = this.#warm + this.#steps;
    const share = total === 0 ? 1 : step / total;
    const seconds = (performance.now() - this.#started) / 1000;
    const phase = step < this.#warm ? "warm start" : "reinforcement learning";
    const width = 30;
    const filled = Math.round(share * width);
    const rows = [
      `${phase}  ${"█".repeat(filled)}${"░".repeat(width - filled)}  ${step}/${total}  ${seconds.toFixed(0)} s`,
      ...CURVES.flatMap(([label, metric]) => {
        const values = this.#series.get(metric);
        if (values === undefined) return [];
        return [
          `${label.padEnd(24)} ${sparkline(values, Math.min(40, columns - 40)).padEnd(40)} ${short(values.at(-1) as number)}`,
        ];
      }),
      ...this.#failed.map((line) => `\x1b[31m${line}\x1b[0m`),
      ...this.#alarms.slice(-2).map((message) => `\x1b[31m${message.slice(0, columns - 1)}\x1b[0m`),
      ...(this.#frame ? halfBlocks(this.#frame, { columns: 24 }).split("\n") : []),
    ];
    this.#erase();
    process.stderr.write(`${rows.join("\n")}\n`);
    this.#lines = rows.length;
  }

  /** Where episodes of the newest step or evaluation failed, how many. */
  get #failed(): string[] {
    return [...this.#counts.values()].flatMap((event) =>
      (event.metrics[`${event.kind}/failed`] ?? 0) > 0
        ? episodes(event).map((line) => `${event.kind === "eval" ? "evaluation" : "step"} ${event.step}: ${line}`)
        : [],
    );
  }

  #above(line: string): void {
    this.#erase();
    this.#lines = 0;
    process.stderr.write(`${line}\n`);
    this.#paint();
  }

  #erase(): void {
    if (this.#lines > 0) process.stderr.write(`\x1b[${this.#lines}A\x1b[0J`);
  }
}

/** `64 episodes asked, 61 played, 3 failed`, with what failed among the greedy ones; a step without failures needs no such line. */
function episodes({ kind, metrics }: RunEvent): string[] {
  const [asked, played, failed = 0] = ["asked", "episodes", "failed"].map((name) => metrics[`${kind}/${name}`]);
  if (asked === undefined || (kind === "train" && failed === 0)) return [];
  const greedy = metrics["eval/failed_greedy"] ? `, and ${metrics["eval/failed_greedy"]} greedy ones` : "";
  return [`${asked} episodes asked, ${played} played, ${failed} failed${greedy}`];
}

function wordsOf({ kind, message = "" }: RunEvent): string {
  return kind === "failure" ? `An episode failed. ${message}` : message;
}

const LINE: Partial<Record<RunEvent["kind"], readonly string[]>> = {
  sft: ["sft/nll", "decisions/nll", "decisions/chance", "speed/trained_tokens"],
  train: ["train/success", "train/reward", "policy/entropy", "drift/max", "groups/trained", "time/step"],
  eval: ["eval/success", "eval/success_greedy", "eval/floor", "eval/random", "eval/ceiling", "decisions/accuracy"],
  sight: ["sight/gap", "sight/gap_low", "sight/gap_high"],
};

/** The course of a series in so many characters. */
export function sparkline(values: readonly number[], width: number): string {
  const finite = values.filter(Number.isFinite);
  const { min: low, max: high } = rangeOf(finite);
  const span = high - low || 1;
  const size = Math.max(1, Math.ceil(finite.length / width));
  const means: number[] = [];
  for (let i = 0; i < finite.length; i += size) {
    const part = finite.slice(i, i + size);
    means.push(part.reduce((sum, value) => sum + value, 0) / part.length);
  }
  return means.map((value) => BARS[Math.min(7, Math.floor(((value - low) / span) * 8))]).join("");
}

function short(value: number | undefined): string {
  if (value === undefined) return "–";
  return Math.abs(value) >= 1000 ? value.toFixed(0) : Number(value.toPrecision(3)).toString();
}
