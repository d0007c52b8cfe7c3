/**
 * A byte-level BPE tokenizer, trained on a corpus or frozen for the presets, as a `tokenizer.json` that Python's `tokenizers`
 * loads: Qwen's way of splitting text into words (digits one by one), 256 byte tokens, merges, and Qwen's special tokens
 * at the end. Training is deterministic: the commonest pair wins, and of equally common ones the first in code-unit order.
 */
import { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { ConfigError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { MERGES } from "./merges.ts";
import { BYTE_CHARACTERS, escapeRegExp } from "./tokenizer.ts";

/** As in Qwen3-VL: what frames turns and images is special, tags that a model writes are not. */
export const ADDED_TOKENS: readonly { readonly content: string; readonly special: boolean }[] = [
  { content: "<|endoftext|>", special: true },
  { content: "<|im_start|>", special: true },
  { content: "<|im_end|>", special: true },
  { content: "<|vision_start|>", special: true },
  { content: "<|vision_end|>", special: true },
  { content: "<|vision_pad|>", special: true },
  { content: "<|image_pad|>", special: true },
  { content: "<|video_pad|>", special: true },
  { content: "<tool_call>", special: false },
  { content: "</tool_call>", special: false },
  { content: "<think>", special: false },
  { content: "</think>", special: false },
];

/** Qwen2's word pattern: contractions, words with one leading mark, single digits, punctuation, line breaks, spaces. */
const WORD_PATTERN =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

const BYTE_LEVEL = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false } as const;

/** The smallest vocabulary there can be: bytes and added tokens. */
export const MIN_VOCAB = 256 + ADDED_TOKENS.length;

/**
 * The JSON of a tokenizer with at most `vocabSize` tokens, added ones included; fewer when no pair occurs twice any more.
 */
export function trainTokenizer(corpus: Iterable<string>, vocabSize: number): JsonObject {
  return tokenizerJson(learnMerges(countWords(corpus), room(vocabSize)));
}

/** The presets' tokenizer, which no new world changes: the first merges of a list that was learned once. */
export function frozenTokenizer(vocabSize: number): JsonObject {
  const wanted = room(vocabSize);
  const symbols = MERGES.join(" ").split(" ");
  const merges: [string, string][] = [];
  const tokens = new Set<string>();
  for (let i = 0; i < symbols.length && tokens.size < wanted; i += 2) {
    const pair: [string, string] = [symbols[i] as string, symbols[i + 1] as string];
    merges.push(pair);
    tokens.add(pair.join(""));
  }
  return tokenizerJson(merges);
}

/** How many tokens merges may make. */
function room(vocabSize: number): number {
  if (Number.isInteger(vocabSize) && vocabSize >= MIN_VOCAB) return vocabSize - MIN_VOCAB;
  throw new ConfigError(`A vocabulary has at least ${MIN_VOCAB} tokens (bytes and special tokens), got ${vocabSize}.`);
}

/** `tokenizer_config.json` beside it. */
export function tokenizerConfigJson(maxLength: number): JsonObject {
  const specials = ADDED_TOKENS.filter((token) => token.special).map((token) => token.content);
  return {
    add_prefix_space: false,
    additional_special_tokens: specials.filter((token) => token !== "<|endoftext|>"),
    bos_token: null,
    clean_up_tokenization_spaces: false,
    eos_token: "<|im_end|>",
    errors: "replace",
    model_max_length: maxLength,
    pad_token: "<|endoftext|>",
    processor_class: "Qwen3VLProcessor",
    split_special_tokens: false,
    tokenizer_class: "Qwen2Tokenizer",
    unk_token: null,
  };
}

function tokenizerJson(merges: readonly (readonly [string, string])[]): JsonObject {
  // Printable bytes come first in code-point order, as in every GPT-2 style vocabulary.
  // Two merges may make one token; it has one id.
  const tokens = [...new Set([...[...BYTE_CHARACTERS].sort(compare), ...merges.map((pair) => pair.join(""))])];
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: ADDED_TOKENS.map(({ content, special }, i) => ({
      id: tokens.length + i,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special,
    })),
    normalizer: { type: "NFC" },
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: WORD_PATTERN }, behavior: "Isolated", invert: false },
        BYTE_LEVEL,
      ],
    },
    post_processor: BYTE_LEVEL,
    decoder: BYTE_LEVEL,
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: "",
      end_of_word_suffix: "",
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges,
    },
  };
}

/** How often each word (in byte characters) occurs, split exactly as encoding will split it. */
function countWords(corpus: Iterable<string>): Map<string, number> {
  const { normalizer, pre_tokenizer: splitter } = new HuggingFaceTokenizer(tokenizerJson([]), {});
  if (normalizer === null || splitter === null) throw new Error("The tokenizer's own JSON has both.");
  const added = new RegExp(ADDED_TOKENS.map((token) => escapeRegExp(token.content)).join("|"), "g");
  const counts = new Map<string, number>();
  for (const text of corpus) {
    for (const piece of text.split(added)) {
      if (piece === "") continue;
      for (const word of splitter.pre_tokenize(normalizer.normalize(piece))) {
        counts.set(word, (counts.get(word) ?? 0) + 1);
      }
    }
  }
  return counts;
}

type Word = { symbols: string[]; readonly count: number };
/** A pair with its weight in the corpus and the words that hold it (or once did). */
type Pair = { readonly left: string; readonly right: string; count: number; readonly words: Set<Word> };

function learnMerges(counts: ReadonlyMap<string, number>, wanted: number): [string, string][] {
  const pairs = new Map<string, Pair>();
  const tally = (word: Word, sign: 1 | -1) => {
    for (let i = 0; i + 1 < word.symbols.length; i++) {
      const left = word.symbols[i] as string;
      const right = word.symbols[i + 1] as string;
      // No byte character is a space, so the key is unambiguous.
      const key = `${left} ${right}`;
      let pair = pairs.get(key);
      if (pair === undefined) {
        pair = { left, right, count: 0, words: new Set() };
        pairs.set(key, pair);
      }
      pair.count += sign * word.count;
      pair.words.add(word);
    }
  };
  for (const [text, count] of counts) tally({ symbols: [...text], count }, 1);

  const merges: [string, string][] = [];
  const tokens = new Set<string>();
  while (tokens.size < wanted) {
    let best: Pair | undefined;
    for (const pair of pairs.values()) if (best === undefined || isBetter(pair, best)) best = pair;
    if (best === undefined || best.count < 2) break;
    const { left, right } = best;
    pairs.delete(`${left} ${right}`);
    for (const word of best.words) {
      tally(word, -1);
      word.symbols = merged(word.symbols, left, right);
      tally(word, 1);
    }
    // The pair itself came back with a count of zero or below while words were rewritten.
    pairs.delete(`${left} ${right}`);
    tokens.add(left + right);
    merges.push([left, right]);
  }
  return merges;
}

function isBetter(a: Pair, b: Pair): boolean {
  if (a.count !== b.count) return a.count > b.count;
  return compare(a.left, b.left) < 0 || (a.left === b.left && compare(a.right, b.right) < 0);
}

function merged(symbols: readonly string[], left: string, right: string): string[] {
  const out: string[] = [];
  for (let i = 0; i < symbols.length; i++) {
    if (symbols[i] === left && symbols[i + 1] === right) {
      out.push(left + right);
      i++;
    } else {
      out.push(symbols[i] as string);
    }
  }
  return out;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
