/**
 * Turns ids into the text of an answer, as vLLM does: it leaves out special tokens, holds back an incomplete character until the rest arrives, and
 * drops one that is never completed.
 */
import type { Tokenizer } from "../model/tokenizer.ts";

const BROKEN = "\ufffd";

export type TokenReader = Pick<Tokenizer, "decode" | "isSpecial">;

export type TextOptions = {
  readonly skipSpecial: boolean;
  readonly stop: readonly string[];
  readonly includeStop: boolean;
};

export class AnswerText {
  /** What can be shown so far. */
  text = "";
  /** The stop string that was found. */
  stopped: string | undefined;
  readonly #tokenizer: TokenReader;
  readonly #options: TextOptions;
  #pending: number[] = [];
  #whole = "";

  constructor(tokenizer: TokenReader, options: TextOptions) {
    this.#tokenizer = tokenizer;
    this.#options = options;
  }

  /** How an id reads after the ids before it. Call it before `push`. */
  token(id: number): string {
    const read = this.#tokenizer.decode([...this.#pending, id]);
    return read.endsWith(BROKEN) ? "" : read.replace(/^\ufffd+/, "");
  }

  /** The text that this id completes. Holds back enough that a stop string is never shown in part. */
  push(id: number): string {
    if (this.#options.skipSpecial && this.#tokenizer.isSpecial(id)) return this.#show(false);
    this.#pending.push(id);
    const read = this.#tokenizer.decode(this.#pending);
    if (read.endsWith(BROKEN)) return "";
    this.#pending = [];
    this.#whole += read;
    return this.#show(false);
  }

  /** The rest, when nothing follows. */
  end(): string {
    return this.#show(true);
  }

  #show(all: boolean): string {
    const { stop, includeStop } = this.#options;
    if (this.stopped === undefined) {
      const found = stop
        .map((word) => ({ word, at: this.#whole.indexOf(word) }))
        .filter(({ at }) => at >= 0)
        .sort((a, b) => a.at - b.at)[0];
      if (found !== undefined) {
        this.stopped = found.word;
        this.#whole = this.#whole.slice(0, found.at + (includeStop ? found.word.length : 0));
      }
    }
    const held = all || this.stopped !== undefined ? 0 : Math.max(0, ...stop.map((word) => word.length - 1));
    let until = Math.max(this.text.length, this.#whole.length - held);
    // Never cut a surrogate pair.
    if (until < this.#whole.length && isHighSurrogate(this.#whole.charCodeAt(until - 1))) until -= 1;
    const shown = this.#whole.slice(this.text.length, until);
    this.text += shown;
    return shown;
  }
}

const isHighSurrogate = (unit: number) => unit >= 0xd800 && unit < 0xdc00;
