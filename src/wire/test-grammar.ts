/** For tests: a vocabulary of bytes and of pieces that JSON is made of, and texts that a grammar allows, drawn at random with a taste for ending. */
import { Ajv } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Json } from "../core/json.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { Grammars, type Vocabulary } from "../engine/grammar.ts";

/** Tokens of several characters, which begin and end in the middle of things. */
const PIECES = [
  '":',
  '": ',
  '", "',
  '"}',
  '{"',
  "}}",
  "]}",
  "[[",
  ", ",
  "ab",
  "22",
  "0.",
  "true",
  "null,",
  "\\n",
  "\n  ",
  "é〇",
  'a"',
  '":[',
  "-1",
];
const isPrinted = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
/** Bytes as vocabularies write them. */
const LETTERS: string[] = [];
for (let byte = 0, others = 0; byte < 256; byte++) {
  LETTERS.push(String.fromCodePoint(isPrinted(byte) ? byte : 256 + others++));
}
const WORDS = [...LETTERS.map((_, byte) => Buffer.from([byte])), ...PIECES.map((piece) => Buffer.from(piece))];
const EOS = WORDS.length;
const vocabulary: Vocabulary = {
  size: EOS + 1,
  token: (id) => (id === EOS ? "<end>" : [...(WORDS[id] as Buffer)].map((byte) => LETTERS[byte]).join("")),
  isSpecial: (id) => id === EOS,
  decodeBytes: (ids) => Buffer.concat(Array.from(ids, (id) => WORDS[id] ?? Buffer.alloc(0))),
};
const CLOSERS = new Set([...[...'"}]'].map((char) => char.charCodeAt(0)), EOS]);

export class Speaker {
  readonly #grammars = new Grammars(vocabulary, EOS + 1);
  readonly #random: NumpyRandom;

  constructor(seed: number) {
    this.#random = new NumpyRandom(seed);
  }

  pick(count: number): number {
    return Math.floor(this.#random.random() * count);
  }

  /** Undefined: it did not end. */
  async say(grammar: string, maxTokens = 1500): Promise<string | undefined> {
    const mask = await this.#grammars.open(grammar, [EOS]);
    const said: number[] = [];
    try {
      while (said.length < maxTokens) {
        const allowed = Array.from({ length: EOS + 1 }, (_, id) => id).filter((id) => mask.allows(id));
        if (allowed.length === 0) throw new Error(`Nothing may follow ${Buffer.from(vocabulary.decodeBytes(said))}.`);
        const closers = allowed.filter((id) => CLOSERS.has(id));
        const from = closers.length > 0 && this.#random.random() < 0.6 ? closers : allowed;
        const id = from[this.pick(from.length)] as number;
        if (id === EOS) return Buffer.from(vocabulary.decodeBytes(said)).toString();
        said.push(id);
        await mask.take(id);
      }
      return undefined;
    } finally {
      mask.close();
    }
  }
}

/** Whether a value is valid by a schema, as ajv sees it. */
export function validator(schema: Json, draft: "2020-12" | "7" = "2020-12"): (value: unknown) => boolean {
  const options = { strict: false, validateFormats: false, ownProperties: true };
  const ajv = draft === "7" ? new Ajv(options) : new Ajv2020(options);
  return ajv.compile(schema as object) as (value: unknown) => boolean;
}
