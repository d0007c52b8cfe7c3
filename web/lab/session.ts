/** The page's side of learning: one worker at a time, what it told so far, and the clock, which stops in a pause. */
import type { LabCommand, LabEvent, LabSettings, PlayedLake } from "./messages.ts";

export type Evaluation = Omit<LabEvent & { kind: "evaluation" }, "kind" | "lakes"> & {
  /** Of learning, pauses left out. */
  readonly seconds: number;
};
export type Update = Omit<LabEvent & { kind: "update" }, "kind">;

export type LabState = {
  readonly running: "new" | "learning" | "paused" | "failed";
  readonly ready?: Omit<LabEvent & { kind: "ready" }, "kind">;
  readonly update?: Update;
  readonly evaluations: readonly Evaluation[];
  readonly lakes: readonly PlayedLake[];
  readonly problem?: string;
};

export const NEW: LabState = { running: "new", evaluations: [], lakes: [] };

/** The workers' script stands in the page as text, which the page itself never compiles (build.ts). */
const workerScript = () =>
  new Blob([document.getElementById("worker")?.textContent ?? ""], { type: "text/javascript" });
let url: string | undefined;

export class Session {
  readonly #show: (state: LabState) => void;
  #worker: Worker | undefined;
  #state: LabState = NEW;
  /** Seconds of earlier stretches, and when this one began. */
  #spent = 0;
  #since = 0;

  constructor(show: (state: LabState) => void) {
    this.#show = show;
  }

  /** Of learning so far. */
  get seconds(): number {
    return this.#spent + (this.#state.running === "learning" ? (performance.now() - this.#since) / 1000 : 0);
  }

  start(settings: LabSettings, seed = 0): void {
    if (this.#state.running === "paused") this.#send({ kind: "resume" });
    else {
      this.reset();
      url ??= URL.createObjectURL(workerScript());
      this.#worker = new Worker(url);
      this.#worker.onmessage = ({ data }: MessageEvent<LabEvent>) => this.#hear(data);
      this.#worker.onerror = ({ message }) => this.#hear({ kind: "failed", message });
      this.#send({ kind: "start", settings, seed });
    }
    this.#since = performance.now();
    this.#set({ running: "learning" });
  }

  pause(): void {
    this.#spent = this.seconds;
    this.#send({ kind: "pause" });
    this.#set({ running: "paused" });
  }

  change({ temperature, learningRate }: LabSettings): void {
    this.#send({ kind: "change", settings: { temperature, learningRate } });
  }

  /** The agent and all it learned are gone. */
  reset(): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#spent = 0;
    this.#state = NEW;
    this.#show(NEW);
  }

  #send(command: LabCommand): void {
    this.#worker?.postMessage(command);
  }

  #hear(event: LabEvent): void {
    switch (event.kind) {
      case "ready":
        this.#set({ ready: event });
        break;
      case "update":
        this.#set({ update: event });
        break;
      case "evaluation": {
        const { kind: _, lakes, ...figures } = event;
        const evaluations = [...this.#state.evaluations, { ...figures, seconds: this.seconds }];
        this.#set({ evaluations, lakes });
        break;
      }
      case "failed":
        this.#worker?.terminate();
        this.#set({ running: "failed", problem: event.message });
    }
  }

  #set(change: Partial<LabState>): void {
    this.#state = { ...this.#state, ...change };
    this.#show(this.#state);
  }
}
