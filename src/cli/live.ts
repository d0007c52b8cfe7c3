/**
 * What a training run shows while it goes on: on a terminal a panel that is redrawn (phase, time left, curves, the newest frame, alarms), elsewhere one plain
 * line for each event, in the same words. Written to stderr, so that stdout stays for results.
 */
import type { Image } from "../core/index.ts";
import { printable } from "../core/printable.ts";
import type { RunEvent } from "../run/index.ts";
import type { Phase } from "../train/index.ts";
import { drawsPanels, hasColor, sizeOf } from "./common.ts";
import { Pace, type Plan } from "./pace.ts";
import { CURVES, duration, panelRows, short } from "./panel.ts";

export type LiveOptions = {
  readonly name: string;
  readonly plan: Plan;
  /** What a run that goes on had logged: curves begin where they began. */
  readonly before?: readonly RunEvent[];
};

const PAINT_MS = 100;

export class LiveView {
  readonly #options: LiveOptions;
  readonly #started = performance.now();
  readonly #series = new Map<string, number[]>();
  readonly #alarms: string[] = [];
  readonly #panel = drawsPanels(process.stderr);
  readonly #color = hasColor(process.stderr);
  readonly #timer: NodeJS.Timeout | undefined;
  #phase: Phase | undefined;
  #phaseStarted = performance.now();
  /** How long a phase took when it was last over. */
  readonly #usual = new Map<string, number>();
  #frame: Image | undefined;
  #stopping: string | undefined;
  #lines = 0;
  #painted = 0;
  readonly #pace: Pace;
  /** The newest step and the newest evaluation. */
  readonly #counts = new Map<RunEvent["kind"], RunEvent>();

  constructor(options: LiveOptions) {
    this.#options = options;
    this.#pace = new Pace(options.plan);
    for (const event of options.before ?? []) this.#remember(event);
    if (!this.#panel) return;
    // Time goes on between events.
    this.#timer = setInterval(() => this.#paint(), 1000);
    this.#timer.unref();
    process.stderr.on("resize", this.#resized);
  }

  /** Says what happens now that somebody wants the run to stop. */
  stopping(): void {
    const { warm, steps } = this.#options.plan;
    const under = this.#phase?.name;
    const what =
      under === "evaluating" || under === "checking sight"
        ? `stopping ${under === "evaluating" ? "the evaluation" : "the sight check"}, which is made up when the run goes on`
        : under === "warm start" || (under === undefined && this.#pace.warm < warm)
          ? `finishing update ${Math.min(warm, this.#pace.warm + 1)} of the warm start`
          : `finishing step ${Math.min(steps, this.#pace.step + 1)}`;
    this.#stopping = `${what}, again to stop now`;
    if (this.#panel) this.#paint();
    else process.stderr.write(`${this.#stopping}\n`);
  }

  /** Where the run stands: `step 23 of 130`, `update 300 of 1700 of the warm start`. */
  get where(): string {
    const { warm, steps } = this.#options.plan;
    const { warm: warmed, step } = this.#pace;
    return warmed < warm ? `update ${warmed} of ${warm} of the warm start` : `step ${step} of ${steps}`;
  }

  enter(phase: Phase): void {
    if (phase.name !== this.#phase?.name || phase.done < this.#phase.done) {
      const now = performance.now();
      if (this.#phase !== undefined) this.#usual.set(this.#phase.name, now - this.#phaseStarted);
      this.#phaseStarted = now;
    }
    this.#phase = phase;
    if (phase.frame !== undefined) this.#frame = phase.frame;
    if (this.#panel && performance.now() - this.#painted > PAINT_MS) this.#paint();
  }

  see({ message, ...seen }: RunEvent): void {
    // What a server or an environment said may be part of it.
    const event: RunEvent = message === undefined ? seen : { ...seen, message: printable(message) };
    this.#remember(event, performance.now());
    if (!this.#panel) this.#print(event);
    else if (event.kind === "note" || event.kind === "failure") this.#above(wordsOf(event));
    else if (performance.now() - this.#painted > PAINT_MS) this.#paint();
  }

  close(): void {
    clearInterval(this.#timer);
    process.stderr.off("resize", this.#resized);
    this.#stopping = undefined;
    this.#phase = undefined;
    if (this.#panel) this.#paint();
  }

  /** What was drawn for another width has wrapped: it is wiped, not climbed over. */
  readonly #resized = () => {
    if (this.#lines > 0) process.stderr.write("\x1b[2J\x1b[H");
    this.#lines = 0;
    this.#paint();
  };

  #remember(event: RunEvent, at?: number): void {
    const { kind, metrics } = event;
    for (const [name, value] of Object.entries(metrics)) {
      // The duration of an evaluation is not that of a step.
      if (name.startsWith("time/") && kind !== "sft" && kind !== "train") continue;
      const values = this.#series.get(name) ?? [];
      values.push(value);
      this.#series.set(name, values);
    }
    if (kind === "alarm" && event.message !== undefined) this.#alarms.push(event.message);
    this.#pace.see(event, at);
    if (kind === "train" || kind === "eval") this.#counts.set(kind, event);
  }

  #print(event: RunEvent): void {
    const { kind, step, message } = event;
    const { warm, steps } = this.#options.plan;
    if (kind === "sft" && step % 25 !== 0 && step !== warm) return;
    const elapsed = ((performance.now() - this.#started) / 1000).toFixed(0).padStart(4);
    const where =
      kind === "sft"
        ? `warm start ${step} of ${warm}`
        : `${HEADS[kind] ?? kind}${this.#pace.warm < warm && kind !== "train" ? "" : `${kind === "train" ? "" : " at step"} ${Math.max(0, step - warm)} of ${steps}`}`;
    const words = message === undefined ? [...this.#figures(event), ...episodes(event)].join("  ") : wordsOf(event);
    if (words) process.stderr.write(`${elapsed} s  ${where}  ${words}\n`);
  }

  /** The curves' words, and how long it takes. */
  #figures({ kind, metrics }: RunEvent): string[] {
    const shown = FIGURES[kind] ?? [];
    const figures = shown.flatMap(([word, name]) =>
      metrics[name] === undefined ? [] : [`${word} ${short(metrics[name])}`],
    );
    const left = this.#pace.leftMs;
    if (kind !== "train" && kind !== "sft") return figures;
    return left === undefined || left < 1000 ? figures : [...figures, `${duration(left)} left`];
  }

  #paint(): void {
    this.#painted = performance.now();
    const { name, plan } = this.#options;
    const usualMs = this.#phase && this.#usual.get(this.#phase.name);
    const { warm, step, share, leftMs } = this.#pace;
    const rows = panelRows(
      {
        name,
        warm: [warm, plan.warm],
        steps: [step, plan.steps],
        share,
        ...(this.#phase && { phase: this.#phase }),
        phaseMs: performance.now() - this.#phaseStarted,
        ...(usualMs !== undefined && { usualMs }),
        ...(leftMs !== undefined && { leftMs }),
        series: this.#series,
        warnings: [...this.#failed, ...this.#alarms.slice(-2)],
        ...(this.#frame && { frame: this.#frame }),
        ...(this.#stopping !== undefined && { stopping: this.#stopping }),
      },
      { ...sizeOf(process.stderr), color: this.#color },
    );
    // In one piece, or it would flicker.
    process.stderr.write(`${this.#eraser}${rows.join("\n")}\n`);
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
    process.stderr.write(`${this.#eraser}${line}\n`);
    this.#lines = 0;
    this.#paint();
  }

  /** From the start of the line: Ctrl-C writes `^C` after the panel. */
  get #eraser(): string {
    return this.#lines > 0 ? `\r\x1b[${this.#lines}A\x1b[0J` : "";
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

const HEADS: Partial<Record<RunEvent["kind"], string>> = {
  train: "step",
  eval: "evaluation",
  sight: "sight",
  alarm: "ALARM",
};

const wordOf = (metric: string) => CURVES.find(([, name]) => name === metric)?.[0] ?? metric;
const FIGURES: Partial<Record<RunEvent["kind"], readonly (readonly [word: string, metric: string])[]>> = {
  sft: [
    [wordOf("sft/nll"), "sft/nll"],
    ["of the choice", "decisions/nll"],
    ["by chance", "decisions/chance"],
  ],
  train: [
    ...["train/success", "train/reward", "policy/entropy"].map((name) => [wordOf(name), name] as const),
    ["drift", "drift/max"],
    ["step time", "time/step"],
  ],
  eval: [
    ["success", "eval/success"],
    ["greedy", "eval/success_greedy"],
    ["stop", "eval/floor"],
    ["random", "eval/random"],
    ["oracle", "eval/ceiling"],
  ],
  sight: [
    ["gap", "sight/gap"],
    ["from", "sight/gap_low"],
    ["to", "sight/gap_high"],
  ],
};
