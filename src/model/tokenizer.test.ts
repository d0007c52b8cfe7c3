import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { TINY_CORPUS } from "./test-folder.ts";
import { Tokenizer } from "./tokenizer.ts";
import { ADDED_TOKENS, MIN_VOCAB, trainTokenizer } from "./train-tokenizer.ts";

const json = trainTokenizer(TINY_CORPUS, 400);
const tokenizer = new Tokenizer(json);

/** Any text, seasoned with special tokens and parts of them. */
const anyText = fc
  .array(
    fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("<|im_end|>", "<|image_pad|>", "<think>", "<|", " 42\n")),
  )
  .map((parts) => parts.join("").normalize("NFC"));

describe("tokenizer", () => {
  test("any text survives encoding and decoding, special tokens in it or not", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
        expect(tokenizer.decode(tokenizer.encodeText(text))).toBe(text);
      }),
    );
  });

  test("text of people and models never becomes a special id", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect([...tokenizer.encodeText(text)].filter((id) => tokenizer.isSpecial(id))).toEqual([]);
      }),
    );
  });

  test("a rendered template's special tokens are one id each, and <think> is one id everywhere", () => {
    const end = tokenizer.specialId("<|im_end|>");
    expect([...tokenizer.encode("<|im_end|><think>")]).toEqual([end, tokenizer.encodeText("<think>")[0]]);
    expect(tokenizer.encodeText("<think>")).toHaveLength(1);
    expect(tokenizer.token(end)).toBe("<|im_end|>");
    expect(tokenizer.decode(tokenizer.encode("up<|im_end|>"), { skipSpecial: true })).toBe("up");
    expect(tokenizer.decode(tokenizer.encode("<think>a</think>"), { skipSpecial: true })).toBe("<think>a</think>");
  });

  test("decoding id by id gives whole characters only and the same text", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const stream = tokenizer.stream();
        const pieces = [...tokenizer.encodeText(text)].map((id) => stream.push(id));
        expect(pieces.some((piece) => piece.includes("\ufffd"))).toBe(text.includes("\ufffd"));
        expect(pieces.join("") + stream.end()).toBe(text);
      }),
    );
    const [first] = tokenizer.encodeText("é");
    const cut = tokenizer.stream();
    expect([cut.push(first as number), cut.end()]).toEqual(["", "\ufffd"]);
  });

  test("ids outside the vocabulary decode to nothing", () => {
    expect(tokenizer.decode([tokenizer.size, tokenizer.size + 7])).toBe("");
  });

  test("digits stand alone", () => {
    expect(tokenizer.encodeText("2048")).toHaveLength(4);
  });

  test("a file that is no byte-level tokenizer, or a token that is missing, is an error", () => {
    expect(() => new Tokenizer({})).toThrow(ConfigError);
    expect(() => new Tokenizer({ ...json, decoder: { type: "WordPiece" } })).toThrow(/not byte-level/);
    const strips = { id: 0, content: "<x>", special: true, lstrip: true };
    expect(() => new Tokenizer({ ...json, added_tokens: [strips] })).toThrow(/<x> strips/);
    expect(() => tokenizer.specialId("<|nope|>")).toThrow(/no special token <\|nope\|>/);
  });
});

describe("training a tokenizer", () => {
  test("gives every id once, bytes and special tokens included", () => {
    const { vocab } = json.model as { vocab: Record<string, number> };
    const added = (json.added_tokens as { id: number }[]).map((token) => token.id);
    const ids = [...Object.values(vocab), ...added].sort((a, b) => a - b);
    expect(ids).toEqual(Array.from({ length: tokenizer.size }, (_, i) => i));
    expect(tokenizer.size).toBeLessThanOrEqual(400);
    expect(tokenizer.size).toBeGreaterThan(MIN_VOCAB + 50);
    expect([...tokenizer.special.keys()]).toEqual(ADDED_TOKENS.filter((t) => t.special).map((t) => t.content));
  });

  test("depends on the text alone, not on its order", () => {
    expect(trainTokenizer([...TINY_CORPUS].reverse(), 400)).toEqual(json);
  });

  test("takes the commonest pair first and breaks ties by the alphabet", () => {
    const { merges } = trainTokenizer(["dc dc dc ba ba"], MIN_VOCAB + 3).model as unknown as { merges: string[][] };
    expect(merges).toEqual([
      ["d", "c"],
      ["b", "a"],
      ["Ġ", "ba"],
    ]);
  });

  test("makes words it has seen often into one token", () => {
    expect(tokenizer.encodeText(" the")).toHaveLength(1);
    expect(tokenizer.encodeText("user")).toHaveLength(1);
  });

  test("needs room for bytes and special tokens", () => {
    expect(() => trainTokenizer([], 100)).toThrow(/at least 268 tokens/);
    expect(new Tokenizer(trainTokenizer([], MIN_VOCAB)).size).toBe(MIN_VOCAB);
  });
});
