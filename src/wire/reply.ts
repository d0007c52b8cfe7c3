/** What every wire needs to write an answer: the sampled tokens, their text and tool calls, usage, log-probabilities and stop reasons. */
import type { TopLogprob } from "../engine/engine.ts";
import type { Wanted } from "./sampling.ts";
import { AnswerText, type TokenReader } from "./text.ts";
import { parseToolCalls, ToolGate, type WireCall } from "./tools.ts";

export const FINGERPRINT = "saccade";
/** vLLM writes this instead of −∞. */
export const MIN_LOGPROB = -9999;

export type Finish = "stop" | "length" | "abort";
export type VersionSpan = { readonly version: string; readonly start: number; readonly end: number };
export type Generated = {
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
  /** Empty unless the request asked for them. */
  readonly top: readonly (readonly TopLogprob[])[];
  readonly finish: Finish;
  readonly versions: readonly VersionSpan[];
};

export type OnChoiceToken = (choice: number, id: number, logprob: number, top: readonly TopLogprob[]) => void;
/** Samples every choice of a request. `take` is called for each token as it is sampled. */
export type SampleChoices = (take?: OnChoiceToken) => Promise<readonly Generated[]>;

export type Reply = {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly promptIds: Int32Array;
  readonly wanted: Wanted;
  readonly tokenizer: TokenReader;
};

/** One choice while it is sampled: its text and, with tools, its calls. */
export class ChoiceText {
  readonly #text: AnswerText;
  readonly #gate: ToolGate | undefined;

  constructor({ tokenizer, wanted }: Pick<Reply, "tokenizer" | "wanted">, usesTools: boolean) {
    this.#text = new AnswerText(tokenizer, wanted.text);
    this.#gate = usesTools ? new ToolGate() : undefined;
  }

  /** How this id reads here. Call it before `push`. */
  token(id: number): string {
    return this.#text.token(id);
  }

  /** The text that can be sent now. */
  push(id: number): string {
    return this.#through(this.#text.push(id));
  }

  /** The rest of the text, and the calls. */
  end(): { readonly content: string; readonly calls: readonly WireCall[] } {
    const shown = this.#through(this.#text.end());
    const rest = this.#gate?.end();
    return { content: shown + (rest?.content ?? ""), calls: rest?.calls ?? [] };
  }

  /** All of it, for an answer that is not streamed. */
  whole(): { readonly content: string | null; readonly calls: readonly WireCall[] } {
    this.#text.end();
    const { text } = this.#text;
    return this.#gate === undefined ? { content: text, calls: [] } : parseToolCalls(text);
  }

  stopReason(generated: Generated, wanted: Pick<Wanted, "eos">): string | number | null {
    return stopReason(generated, this.#text.stopped, wanted);
  }

  #through(text: string): string {
    return this.#gate === undefined ? text : this.#gate.push(text);
  }
}

/** The requested stop string or id that ended the answer; null where the model ended by itself. */
export function stopReason(
  { ids, finish }: Generated,
  stopped: string | undefined,
  { eos }: Pick<Wanted, "eos">,
): string | number | null {
  if (finish !== "stop") return null;
  if (stopped !== undefined) return stopped;
  const last = ids.at(-1);
  return last === undefined || eos.has(last) ? null : last;
}

export function usageOf(prompt: number, completion: number) {
  return { prompt_tokens: prompt, total_tokens: prompt + completion, completion_tokens: completion };
}

export function fullUsage(prompt: number, completion: number) {
  return { ...usageOf(prompt, completion), prompt_tokens_details: null, completion_tokens_details: null };
}

export function countTokens(generated: readonly Generated[]): number {
  return generated.reduce((sum, { ids }) => sum + ids.length, 0);
}

export function logprobNumber(value: number): number {
  return Number.isFinite(value) ? Math.max(value, MIN_LOGPROB) : MIN_LOGPROB;
}

/** The sampled id, then the others by likelihood. */
export function sampledFirst(sampled: TopLogprob, top: readonly TopLogprob[]): TopLogprob[] {
  return [sampled, ...top.filter(({ id }) => id !== sampled.id)];
}
