/**
 * How far an evaluation is, from its first second: which of its phases it is in, how much of that is done and how long the rest may take. On a terminal one line
 * that is redrawn; elsewhere a line when a phase begins, at every tenth of it, and every ten seconds. On stderr, so that stdout stays for the report.
 */
import type { EpisodeResult, EvaluationPhase } from "../evaluate/index.ts";
import { drawsPanels, sizeOf } from "./common.ts";

export type ProgressOutput = {
  readonly write: (text: string) => void;
  readonly terminal: boolean;
  /** Of the terminal; default 80. */
  readonly columns?: () => number;
  /** Milliseconds. */
  readonly now: () => number;
};

const WORDS: Readonly<Record<EvaluationPhase, string>> = {
  envs: "opening environments",
  model: "opening the model",
  floors: "floors and ceilings",
  play: "episodes",
};
const QUIET_MS = 10_000;

export class EvalProgress {
  readonly #out: ProgressOutput;
  readonly #timer: NodeJS.Timeout;
  readonly #started: number;
  #phase: EvaluationPhase | undefined;
  #phaseStarted = 0;
  #before = 0;
  #done = 0;
  #total = 0;
  #note = "";
  #written = 0;
  #tenth = 0;
  #open = false;

  constructor(
    out: ProgressOutput = {
      write: (text) => process.stderr.write(text),
      terminal: drawsPanels(process.stderr),
      columns: () => sizeOf(process.stderr).columns,
      now: () => performance.now(),
    },
  ) {
    this.#out = out;
    this.#started = out.now();
    // A phase may say nothing for minutes: the clock shows that it is at work.
    this.#timer = setInterval(() => this.tick(), 1000);
    this.#timer.unref();
  }

  /** `done` of `total` in a phase; what an earlier run had done when a phase begins took none of this one's time. */
  see(phase: EvaluationPhase, done: number, total: number, note = ""): void {
    const begins = phase !== this.#phase;
    if (begins) {
      [this.#phase, this.#phaseStarted, this.#before, this.#tenth] = [phase, this.#out.now(), done, 0];
    }
    [this.#done, this.#total, this.#note] = [done, total, note];
    const tenth = total === 0 ? 10 : Math.floor((10 * done) / total);
    const moved = tenth > this.#tenth && total > 1;
    this.#tenth = tenth;
    if (this.#out.terminal ? begins || done >= total || this.#age() > 80 : begins || moved) this.#paint();
  }

  tick(): void {
    if (this.#phase !== undefined && (this.#out.terminal || this.#age() >= QUIET_MS)) this.#paint();
  }

  /** Ends the line, so that others can write. */
  close(): void {
    clearInterval(this.#timer);
    this.#phase = undefined;
    if (this.#open) this.#out.write("\n");
    this.#open = false;
  }

  #age(): number {
    return this.#out.now() - this.#written;
  }

  #paint(): void {
    if (this.#phase === undefined) return;
    const now = this.#out.now();
    this.#written = now;
    const fresh = this.#done - this.#before;
    const left = fresh > 0 ? ((now - this.#phaseStarted) / fresh) * (this.#total - this.#done) : undefined;
    const share = this.#total === 0 ? 1 : this.#done / this.#total;
    const parts = [
      ...(this.#total > 1 ? [`${this.#done}/${this.#total}`] : []),
      seconds(now - this.#started),
      ...(left === undefined || left === 0 ? [] : [`about ${seconds(left)} left`]),
      ...(this.#note === "" ? [] : [this.#note]),
    ];
    const line = `eval: ${WORDS[this.#phase]} ${parts.join(", ")}`;
    if (this.#out.terminal) {
      const filled = Math.round(share * 12);
      const bar = `${"█".repeat(filled)}${"░".repeat(12 - filled)}`;
      // A line that wraps could not be redrawn.
      this.#out.write(`\r\x1b[2K${`${bar} ${line}`.slice(0, (this.#out.columns?.() ?? 80) - 1)}`);
      this.#open = true;
    } else this.#out.write(`${line}\n`);
  }
}

/** How an episode ended. "Failed" is for our own errors, as in reports: an episode without success is not solved. */
export function episodeNote({ env, seed, success, scored, end }: EpisodeResult): string {
  return `${env}#${seed} ${scored ? (success ? "solved" : "not solved") : end}`;
}

function seconds(ms: number): string {
  const whole = Math.round(ms / 1000);
  return whole < 120 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
