/**
 * From ids to the text of an answer, as vLLM makes it: special tokens are left out, an id that leaves a character unfinished gives nothing until
 * the character is whole, and a character that never becomes whole is dropped.
 */
import type { Tokenizer } from "../model/tokenizer.ts";

const BROKEN = "\ufffd";

export type TextOptions = {
  readonly skipSpecial: boolean;
  readonly stop: readonly string[];
  readonly includeStop: boolean;
};

export class AnswerText {
  /** What may be shown so far. */
  text = "";
  /** The stop string that was met. */
  stopped: string | undefined;
  readonly #tokenizer: Tokenizer;
  readonly #options: TextOptions;
  #pending: number[] = [];
  #whole = "";

  constructor(tokenizer: Tokenizer, options: TextOptions) {
    this.#tokenizer = tokenizer;
    this.#options = options;
  }

  /** What one of these ids reads as after what came before, with its bytes. Call before `push`. */
  token(id: number): string {
    const read = this.#tokenizer.decode([...this.#pending, id]);
    return read.endsWith(BROKEN) ? "" : read.replace(/^\ufffd+/, "");
  }

  /** The text that this id completes. Enough is held back that a stop string is never shown in part. */
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
    // Half a character is none: it waits for its other half.
    if (until < this.#whole.length && isHighSurrogate(this.#whole.charCodeAt(until - 1))) until -= 1;
    const shown = this.#whole.slice(this.text.length, until);
    this.text += shown;
    return shown;
  }
}

const isHighSurrogate = (unit: number) => unit >= 0xd800 && unit < 0xdc00;
