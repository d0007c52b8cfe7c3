import { describe, expect, test } from "vitest";
import { readSize } from "./pack.ts";

describe("the size of a packed page", () => {
  test.each([
    ["20MB", 20 * 1024 * 1024],
    ["500 kb", 500 * 1024],
    ["1.5", 1.5 * 1024 * 1024],
  ])("%s is %d bytes", (text, bytes) => expect(readSize(text)).toBe(bytes));

  test.each(["0", "-1MB", "20 apples", ""])('"%s" is refused in words', (text) =>
    expect(() => readSize(text)).toThrow(/--max-size takes a size such as 20MB/),
  );
});
