/** What a terminal is given to show, it shows: nothing that came from elsewhere is obeyed. */
import { expect, test } from "vitest";
import { printable, printableJson } from "./printable.ts";

test("escape sequences, 8-bit controls and turned writing become visible; lines and tabs stay", () => {
  expect(printable("a\x1b[2Jb\x1b]0;title\x07c\r\nd\te\rf\x7f\x9b2J\u202eg")).toBe(
    "a␛[2Jb␛]0;title␇c\nd\te␍f␡\\u009b2J\\u202eg",
  );
  expect(printable("grün 漢字 🙂 \u200d ▀")).toBe("grün 漢字 🙂 \u200d ▀");
});

test("JSON stays the same JSON", () => {
  const value = { text: "a\x1b[2J\x7f\x9b\u202e", list: ["é", 1] };
  const text = printableJson(value, 2);
  expect(JSON.parse(text)).toEqual(value);
  expect(text).toBe(printable(text));
});
