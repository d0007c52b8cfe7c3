import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { centreOf, maskOf, readRows } from "./coco.ts";
import { readPickle } from "./pickle.ts";

const file = (text: string) => {
  const path = join(mkdtempSync(join(tmpdir(), "saccade-coco-")), "a.json");
  writeFileSync(path, text);
  return path;
};

describe("rows of a large JSON file", () => {
  test("come in order from the lists asked for, whatever brackets their texts hold", () => {
    const rows: unknown[] = [];
    const text = JSON.stringify({
      info: { list: [{ a: 1 }], "im]ages": "{[" },
      images: [
        { id: 1, name: 'a "quoted" ] } name\\' },
        { id: 2, deep: [[{ x: [1] }]] },
      ],
      other: [{ id: 9 }],
      annotations: Array.from({ length: 40_000 }, (_, id) => ({ id, segmentation: [[1.5, 2, 3, 4, 5, 6]] })),
    });
    readRows(file(text), ["images", "annotations"], (list, row) => rows.push([list, row.id]));
    expect(text.length).toBeGreaterThan(1 << 20);
    expect(rows).toHaveLength(40_002);
    expect(rows.slice(0, 3)).toEqual([
      ["images", 1],
      ["images", 2],
      ["annotations", 0],
    ]);
    expect(rows.at(-1)).toEqual(["annotations", 39_999]);
  });

  test("a file that is cut off, or is not there, is refused", () => {
    expect(() => readRows(file('{"images": [{"id": 1}'), ["images"], () => {})).toThrow("download it again");
    expect(() => readRows("/nowhere/at/all.json", [], () => {})).toThrow("check its path");
  });
});

describe("masks", () => {
  test("a pixel belongs to a polygon that holds its centre; parts add up; other forms are none", () => {
    const square = [1, 1, 4, 1, 4, 3, 1, 3];
    expect([...maskOf([square], 5, 4)]).toEqual([0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    expect(maskOf([square, [0, 3, 5, 3, 5, 4, 0, 4]], 5, 4).reduce((sum, one) => sum + one, 0)).toBe(11);
    expect(centreOf(maskOf([square], 5, 4), 5)).toEqual([2, 1.5]);
    expect(centreOf(maskOf({ counts: "x", size: [4, 5] }, 5, 4), 5)).toBeUndefined();
  });
});

describe("pickles", () => {
  /** `pickle.dumps({"a": [1, -2, 2.5, None, True], "b": ("x", "é"), "c": 70000, "d": 2**40}, protocol)`, by Python 3.11. */
  const dumps: Record<string, string> = {
    "0": "KGRwMApWYQpwMQoobHAyCkkxCmFJLTIKYUYyLjUKYU5hSTAxCmFzVmIKcDMKKFZ4CnA0ClbpCnA1CnRwNgpzVmMKcDcKSTcwMDAwCnNWZApwOApMMTA5OTUxMTYyNzc3NkwKcy4=",
    "2": "gAJ9cQAoWAEAAABhcQFdcQIoSwFK/v///0dABAAAAAAAAE6IZVgBAAAAYnEDWAEAAAB4cQRYAgAAAMOpcQWGcQZYAQAAAGNxB0pwEQEAWAEAAABkcQiKBgAAAAAAAXUu",
    "4": "gASVQwAAAAAAAAB9lCiMAWGUXZQoSwFK/v///0dABAAAAAAAAE6IZYwBYpSMAXiUjALDqZSGlIwBY5RKcBEBAIwBZJSKBgAAAAAAAXUu",
  };
  test.each(Object.keys(dumps))("protocol %s", (protocol) => {
    const value = readPickle(Buffer.from(dumps[protocol]!, "base64"));
    expect(value).toEqual({ a: [1, -2, 2.5, null, true], b: ["x", "é"], c: 70_000, d: 2 ** 40 });
  });

  test("a pickle that asks for code, and a damaged one, are refused", () => {
    expect(() => readPickle(Buffer.from("cos\nsystem\n(S'true'\ntR."))).toThrow("more than data");
    expect(() => readPickle(Buffer.from("gAJ9cQAoWA", "base64"))).toThrow("ends too early");
    expect(() => readPickle(Buffer.from("a."))).toThrow("damaged");
  });

  test("a key called __proto__ is a key like any other", () => {
    const value = readPickle(Buffer.from("(dS'__proto__'\n(dS'x'\nI1\nss."));
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  });
});
