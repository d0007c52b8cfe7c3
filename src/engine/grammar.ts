/**
 * Grammars for sampling, by xgrammar: which ids may come next, as bits. A grammar is compiled once for a tokenizer and remembered; every reply follows it
 * with a matcher of its own. The library is published as CommonJS under the label of a module, so Node can't import it: it is compiled from its text here.
 */
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { compileFunction } from "node:vm";
import type * as Xgrammar from "@mlc-ai/web-xgrammar";
import { DataError, errorMessage } from "../core/errors.ts";
import type { Tokenizer } from "../model/tokenizer.ts";

export type Vocabulary = Pick<Tokenizer, "size" | "token" | "isSpecial" | "decodeBytes">;

/** The byte 0, as vocabularies write it. */
const NEVER = "\u0100";
/** Compiled grammars that are remembered. */
const MAX_COMPILED = 32;

let loaded: typeof Xgrammar | undefined;

function library(): typeof Xgrammar {
  if (loaded !== undefined) return loaded;
  const require = createRequire(import.meta.url);
  const file = require.resolve("@mlc-ai/web-xgrammar");
  const exports = {};
  const names = ["module", "exports", "require", "__filename", "__dirname", "importModule"];
  // Code that was compiled this way can't import; it asks for a module of Node's.
  const code = readFileSync(file, "utf8").replaceAll(/\bimport\(/g, "importModule(");
  const run = compileFunction(code, names, { filename: file });
  run({ exports }, exports, require, file, dirname(file), async (name: string) => require(name));
  loaded = exports as typeof Xgrammar;
  return loaded;
}

/** The grammars of one vocabulary. */
export class Grammars {
  readonly #tokenizer: Vocabulary;
  readonly #vocab: number;
  #compiler: Promise<Xgrammar.GrammarCompiler> | undefined;
  /** Tokens that are no whole characters. */
  readonly #fragments = new Map<number, Uint8Array>();
  readonly #compiled = new Map<string, Promise<Xgrammar.CompiledGrammar>>();

  /** `vocab`: how many logits the model has, which may be more than its tokenizer has tokens. */
  constructor(tokenizer: Vocabulary, vocab: number) {
    this.#tokenizer = tokenizer;
    this.#vocab = vocab;
  }

  /** `stopIds` end a reply, and are allowed where the grammar is complete. */
  async open(grammar: string, stopIds: readonly number[] = []): Promise<GrammarMask> {
    const compiled = await this.#compile(grammar);
    const stop = stopIds.length === 0 ? undefined : [...stopIds];
    const matcher = await library().GrammarMatcher.createGrammarMatcher(compiled, stop, stop === undefined);
    return GrammarMask.begin(matcher, this.#fragments);
  }

  #compile(grammar: string): Promise<Xgrammar.CompiledGrammar> {
    const known = this.#compiled.get(grammar);
    if (known !== undefined) return known;
    this.#compiler ??= this.#makeCompiler();
    const compiled = this.#compiler
      .then((compiler) => compiler.compileGrammar(grammar))
      .catch((error: unknown) => {
        this.#compiled.delete(grammar);
        throw new DataError(`The grammar can't be compiled: ${errorMessage(error)}.`);
      });
    this.#compiled.set(grammar, compiled);
    if (this.#compiled.size > MAX_COMPILED) {
      const [oldest] = this.#compiled.keys();
      // Replies that follow it hold it; the collector takes the handle's wrapper.
      if (oldest !== undefined) this.#compiled.delete(oldest);
    }
    return compiled;
  }

  async #makeCompiler(): Promise<Xgrammar.GrammarCompiler> {
    const { TokenizerInfo, GrammarCompiler } = library();
    // Special tokens are no part of what is said: they get a text that no grammar of JSON allows, the byte 0. Without a text they would always be allowed.
    const words = Array.from({ length: this.#vocab }, (_, id) =>
      this.#tokenizer.isSpecial(id) ? NEVER : (this.#tokenizer.token(id) ?? NEVER),
    );
    for (let id = 0; id < words.length; id++) {
      const bytes = words[id] === NEVER ? undefined : this.#tokenizer.decodeBytes([id]);
      if (bytes !== undefined && !isUtf8(bytes)) this.#fragments.set(id, bytes);
    }
    const info = await TokenizerInfo.createTokenizerInfo(words, "byte_level", false, this.#vocab, []);
    return GrammarCompiler.createGrammarCompiler(info, false);
  }
}

/** Where one reply stands in its grammar. */
export class GrammarMask {
  readonly #matcher: Xgrammar.GrammarMatcher;
  readonly #fragments: ReadonlyMap<number, Uint8Array>;
  /** Within a character that has begun. */
  #inside = 0;
  /** Bit i of word j: id 32 j + i may come next. Undefined: the grammar is over. */
  #bits: Int32Array | undefined;

  static async begin(
    matcher: Xgrammar.GrammarMatcher,
    fragments: ReadonlyMap<number, Uint8Array>,
  ): Promise<GrammarMask> {
    const mask = new GrammarMask(matcher, fragments);
    await mask.#look();
    return mask;
  }

  private constructor(matcher: Xgrammar.GrammarMatcher, fragments: ReadonlyMap<number, Uint8Array>) {
    this.#matcher = matcher;
    this.#fragments = fragments;
  }

  allows(id: number): boolean {
    if (this.#bits === undefined || (((this.#bits[id >>> 5] as number) >>> (id & 31)) & 1) === 0) return false;
    // The library lets bytes through that are no character, such as half of a surrogate pair.
    const fragment = this.#fragments.get(id);
    return fragment === undefined || after(this.#inside, fragment) !== BROKEN;
  }

  /** Nothing can follow. */
  get isOver(): boolean {
    return this.#bits === undefined;
  }

  /** Takes a drawn id. What may follow is known once this resolves, which takes no longer than the microtasks of this turn. */
  async take(id: number): Promise<void> {
    if (!this.#matcher.acceptToken(id)) throw new DataError(`Id ${id} does not fit the grammar.`);
    const fragment = this.#fragments.get(id);
    if (fragment !== undefined) this.#inside = after(this.#inside, fragment);
    await this.#look();
  }

  close(): void {
    this.#matcher.dispose();
  }

  async #look(): Promise<void> {
    this.#bits = undefined;
    if (this.#matcher.isTerminated()) return;
    this.#bits = await this.#matcher.getNextTokenBitmask();
  }
}

const BROKEN = -1;

/**
 * Where UTF-8 stands after these bytes. 0: between characters; 1 to 3: so many bytes of any kind are missing; 4 to 7: after E0, ED, F0 and F4, whose next
 * byte is bounded, so that nothing is written longer than it must be, no surrogate and nothing beyond U+10FFFF.
 */
function after(state: number, bytes: Uint8Array): number {
  let now = state;
  for (const byte of bytes) {
    now = now === 0 ? begun(byte) : continued(now, byte);
    if (now === BROKEN) return BROKEN;
  }
  return now;
}

function begun(byte: number): number {
  if (byte < 0x80) return 0;
  if (byte < 0xc2 || byte > 0xf4) return BROKEN;
  if (byte < 0xe0) return 1;
  if (byte < 0xf0) return byte === 0xe0 ? 4 : byte === 0xed ? 5 : 2;
  return byte === 0xf0 ? 6 : byte === 0xf4 ? 7 : 3;
}

function continued(state: number, byte: number): number {
  const least = state === 4 ? 0xa0 : state === 6 ? 0x90 : 0x80;
  const most = state === 5 ? 0x9f : state === 7 ? 0x8f : 0xbf;
  if (byte < least || byte > most) return BROKEN;
  return state <= 3 ? state - 1 : state <= 5 ? 1 : 2;
}
