/**
 * Text to ids and back, over a Hugging Face `tokenizer.json` with byte-level tokens. Two rules beyond the library:
 * `encodeText` takes what people, worlds and models say, so special tokens spelled out in it stay plain text and can't
 * forge a turn or an image (tokens that are added but not special, such as `<think>`, are still one id, as in
 * transformers); and decoding goes through bytes, so a character cut between two ids is never damaged.
 */
import { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { ConfigError, errorMessage } from "../core/errors.ts";
import { isJsonObject, type JsonObject } from "../core/json.ts";

type AddedToken = { readonly id: number; readonly content: string; readonly special: boolean };

export type DecodeOptions = { /** Leave special tokens out (default: keep them). */ readonly skipSpecial?: boolean };

/** Texts whose ids are remembered: how many, and how long one may be. */
const MAX_KNOWN = 4096;
const MAX_KNOWN_LENGTH = 512;

export class Tokenizer {
  /** Ids are `0..size-1`. */
  readonly size: number;
  /** Bytes of the longest token. */
  readonly longest: number;
  /** Special tokens by their text. */
  readonly special: ReadonlyMap<string, number>;
  readonly #plain: HuggingFaceTokenizer;
  readonly #added = new Map<number, AddedToken>();
  readonly #splitSpecial: RegExp | undefined;
  readonly #bytes = new Map<number, Uint8Array>();
  readonly #known = new Map<string, readonly number[]>();

  /** Takes the JSON of `tokenizer.json` and `tokenizer_config.json`; `file` begins the messages. */
  constructor(json: unknown, config: unknown = {}, file = "tokenizer.json") {
    const added = checkTokenizer(json, file);
    for (const token of added) this.#added.set(token.id, token);
    const special = added.filter((token) => token.special);
    this.special = new Map(special.map((token) => [token.content, token.id]));
    try {
      // Special tokens are ours to find; the library sees text without them.
      const plain = { ...(json as JsonObject), added_tokens: rawAdded(json).filter((token) => token.special !== true) };
      this.#plain = new HuggingFaceTokenizer(plain, { ...(isJsonObject(config) ? config : {}), eos_token: null });
    } catch (error) {
      throw new ConfigError(`${file} can't be used: ${errorMessage(error)}. Take the file of a Qwen tokenizer.`);
    }
    if (special.length > 0) {
      const longestFirst = [...this.special.keys()].sort((a, b) => b.length - a.length);
      this.#splitSpecial = new RegExp(`(${longestFirst.map(escapeRegExp).join("|")})`, "g");
    }
    const model = (json as { model: { vocab: Record<string, number> } }).model;
    let last = -1;
    let longest = 1;
    for (const [token, id] of Object.entries(model.vocab)) {
      last = Math.max(last, id);
      // A character stands for a byte.
      longest = Math.max(longest, token.length);
    }
    for (const { id, content } of this.#added.values()) {
      last = Math.max(last, id);
      longest = Math.max(longest, new TextEncoder().encode(content).length);
    }
    this.size = last + 1;
    this.longest = longest;
  }

  /** Special tokens in `text` become their ids: for rendered templates only. */
  encode(text: string): Int32Array {
    if (this.#splitSpecial === undefined) return this.encodeText(text);
    const ids = text.split(this.#splitSpecial).flatMap((piece) => {
      const id = this.special.get(piece);
      return id === undefined ? this.#encodePlain(piece) : [id];
    });
    return Int32Array.from(ids);
  }

  /** Special tokens in `text` stay text. */
  encodeText(text: string): Int32Array {
    return Int32Array.from(this.#encodePlain(text));
  }

  decode(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.decodeBytes(ids, options));
  }

  /** The bytes behind the ids; ids outside the vocabulary have none. */
  decodeBytes(ids: ArrayLike<number>, { skipSpecial = false }: DecodeOptions = {}): Uint8Array {
    const pieces: Uint8Array[] = [];
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i] as number;
      if (!(skipSpecial && this.isSpecial(id))) pieces.push(this.#bytesOf(id));
    }
    const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      bytes.set(piece, at);
      at += piece.length;
    }
    return bytes;
  }

  /** Decodes ids one by one, giving characters out when they are whole. */
  stream(options: DecodeOptions = {}): TokenStream {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    return {
      push: (id) => decoder.decode(this.decodeBytes([id], options), { stream: true }),
      end: () => decoder.decode(),
    };
  }

  isSpecial(id: number): boolean {
    return this.#added.get(id)?.special === true;
  }

  /** The token's text as the vocabulary spells it. */
  token(id: number): string | undefined {
    return this.#added.get(id)?.content ?? this.#plain.id_to_token(id);
  }

  /** The id of a special token that must exist. */
  specialId(token: string): number {
    const id = this.special.get(token);
    if (id === undefined) {
      throw new ConfigError(
        `The tokenizer has no special token ${token}. It has ${[...this.special.keys()].join(", ") || "none"}.`,
      );
    }
    return id;
  }

  /** Worlds and replies say the same short things over and over. */
  #encodePlain(text: string): readonly number[] {
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const ids: readonly number[] = text === "" ? [] : this.#plain.encode(text, { add_special_tokens: false }).ids;
    if (text.length > MAX_KNOWN_LENGTH) return ids;
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(text, ids);
    return ids;
  }

  #bytesOf(id: number): Uint8Array {
    const known = this.#bytes.get(id);
    if (known !== undefined) return known;
    const added = this.#added.get(id);
    const token = added?.content ?? this.#plain.id_to_token(id) ?? "";
    const bytes = added === undefined ? bytesOfToken(token) : new TextEncoder().encode(token);
    this.#bytes.set(id, bytes);
    return bytes;
  }
}

export type TokenStream = {
  /** The text that this id completes; empty while a character is unfinished. */
  push(id: number): string;
  /** What is left: U+FFFD for an unfinished character. */
  end(): string;
};

/** GPT-2's printable stand-ins: bytes that print stand for themselves, the others for U+0100 and on, in order. */
export const BYTE_CHARACTERS: readonly string[] = (() => {
  let next = 0x100;
  const prints = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(prints(byte) ? byte : next++));
})();

const BYTE_OF = new Map(BYTE_CHARACTERS.map((character, byte) => [character, byte]));

function bytesOfToken(token: string): Uint8Array {
  const bytes = Array.from(token, (character) => BYTE_OF.get(character));
  // A token outside the alphabet is its own text, as in the Rust decoder.
  return bytes.some((byte) => byte === undefined)
    ? new TextEncoder().encode(token)
    : Uint8Array.from(bytes as number[]);
}

function rawAdded(json: unknown): JsonObject[] {
  const added = isJsonObject(json) ? json.added_tokens : undefined;
  return Array.isArray(added) ? added.filter(isJsonObject) : [];
}

function checkTokenizer(json: unknown, file: string): AddedToken[] {
  const fail = (what: string): never => {
    throw new ConfigError(
      `${file}: ${what}. Take the tokenizer.json of a Qwen model, or make one with \`saccade model create\`.`,
    );
  };
  if (!isJsonObject(json) || !isJsonObject(json.model)) return fail("it is not a tokenizer");
  if (json.model.type !== "BPE" || !isJsonObject(json.model.vocab))
    fail("only byte-level BPE tokenizers are supported");
  if (!JSON.stringify(json.decoder ?? null).includes('"ByteLevel"')) fail("its decoder is not byte-level");
  return rawAdded(json).map((token) => {
    const { id, content, special } = token;
    if (!Number.isInteger(id) || typeof content !== "string" || content === "") fail("an added token is malformed");
    if (token.lstrip === true || token.rstrip === true || token.single_word === true) {
      fail(`the added token ${content} strips or needs word borders, which is not supported`);
    }
    return { id: id as number, content: content as string, special: special === true };
  });
}

export function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
