import { expect, test } from "vitest";
import { textTable } from "./table.ts";

type Row = { name: string; step: number; note: string; tag: string };
const rows: Row[] = [
  { name: "quickstart-with-a-long-name-that-goes-on", step: 130, note: "the one that learned", tag: "" },
  { name: "b", step: 7, note: "", tag: "" },
];
const columns = [
  { head: "name", cell: ({ name }: Row) => name, fixed: true },
  { head: "step", cell: ({ step }: Row) => String(step), right: true, fixed: true },
  { head: "tag", cell: ({ tag }: Row) => tag },
  { head: "note", cell: ({ note }: Row) => note },
];

test.each([30, 60, 80, 120])("no line is wider than %i columns, and fixed columns stay", (width) => {
  const lines = textTable(columns, rows, width);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(width);
  for (const line of lines.slice(1)) expect(line).toMatch(/130|7/);
});

test("with room everything is there, numbers stand under each other, and an empty column is left out", () => {
  expect(textTable(columns, rows, 120)).toEqual([
    "name                                      step  note",
    "quickstart-with-a-long-name-that-goes-on   130  the one that learned",
    "b                                            7",
  ]);
});

test("without room the first column is cut, and the last ones go", () => {
  expect(textTable(columns, rows, 30)).toEqual([
    "name                      step",
    "quickstart-with-a-long-…   130",
    "b                            7",
  ]);
});

test("a first column that must be whole outlasts others, and is cut when it is alone", () => {
  const rows = [{ setting: "optimizer.learningRate=0.001", mean: "0.5", runs: "3 of 3" }];
  const columns = [
    { head: "setting", cell: (row: (typeof rows)[number]) => row.setting, fixed: true, whole: true },
    { head: "mean", cell: (row: (typeof rows)[number]) => row.mean, fixed: true },
    { head: "runs", cell: (row: (typeof rows)[number]) => row.runs },
  ];
  expect(textTable(columns, rows, 38)[1]).toBe("optimizer.learningRate=0.001  0.5");
  expect(textTable(columns, rows, 30)[1]).toBe("optimizer.learningRate=…  0.5");
});

test("control characters of a note are shown, not obeyed", () => {
  const line = textTable(columns, [{ name: "a", step: 1, note: "x\x1b[2J\ny", tag: "" }], 80)[1];
  expect(line).toContain("x␛[2J y");
});
