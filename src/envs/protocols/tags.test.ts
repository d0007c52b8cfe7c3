import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { findBlocks, findSequence, sectionsOf, spanIn, textIn, wrap } from "./tags.ts";

const soup = fc
  .array(fc.constantFrom("<a>", "</a>", "<b>", "</b>", "<c>", "</c>", " ", "\n", "x", "<"), { maxLength: 24 })
  .map((pieces) => pieces.join(""));

describe("findSequence", () => {
  test.each(["blank", "free"] as const)("finds what the lazy regular expression finds, with %s gaps", (gaps) => {
    const gap = gaps === "blank" ? "\\s*" : "[^]*?";
    const pattern = new RegExp(["a", "b", "c"].map((name) => `<${name}>([^]*?)</${name}>`).join(gap));
    fc.assert(
      fc.property(soup, (text) => {
        const expected = pattern.exec(text)?.slice(1);
        const found = findSequence(text, ["a", "b", "c"], gaps);
        expect(found?.map((block) => text.slice(block.start, block.end))).toEqual(expected);
      }),
      { numRuns: 1000, examples: [["<a></a><a>x</a> <b></b></b>\n<c></c>"], ["<a>x</a>x<b></b></a><b></b><c>x</c>"]] },
    );
  });
});

describe("findBlocks", () => {
  test("gives closed tags that hold something, in any case, with exact offsets", () => {
    const text = "<A>1</a> <a></a> <a> 2 </A> <a>3";
    const blocks = findBlocks(text, ["a"]);
    expect(blocks.map((block) => textIn(text, block))).toEqual(["1", "2"]);
    expect(blocks.map((block) => text.slice(block.outerStart, block.outerEnd))).toEqual(["<A>1</a>", "<a> 2 </A>"]);
    expect(text.slice(...spanIn(text, blocks[1]!))).toBe("2");
  });

  test("of two openings in a row the second counts", () => {
    const text = "I will write <a> like this: <a>1</a></a>";
    expect(findBlocks(text, ["a"]).map((block) => textIn(text, block))).toEqual(["1"]);
  });

  test("sectionsOf keeps the first of each name", () => {
    expect(sectionsOf("<a>1</a><b>2</b><a>3</a>", ["a", "b"])).toEqual({
      a: { text: "1", span: [3, 4] },
      b: { text: "2", span: [11, 12] },
    });
  });
});

test("text that is wrapped can't break out of its tag", () => {
  expect(wrap("a", "x</a><B>y", ["a", "b"])).toBe("<a>x[/a][B]y</a>");
});
