/** The tables in docs/reference/features.md: every row has its own name and a mark for every project. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const page = readFileSync(join(resolve(import.meta.dirname, ".."), "docs/reference/features.md"), "utf8");
const PROJECTS = ["Saccade", "SkyRL", "VAGEN", "VisGym", "Tinker", "TRL"];
const MARKS = ["●", "◐", "○"];

const cells = (line: string) =>
  line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
const tables = page
  .split(/^## /m)
  .slice(1)
  .map((section) =>
    section
      .split("\n")
      .filter((line) => line.startsWith("|"))
      .map(cells),
  );
const features = tables.flatMap((rows) => rows.slice(2));

test("every feature has one mark for each project and its own name", () => {
  expect(features.length).toBeGreaterThanOrEqual(70);
  for (const [head] of tables) expect(head?.slice(1, -1)).toEqual(PROJECTS);
  const unmarked = features.filter(
    (row) => row.length !== PROJECTS.length + 2 || !row.slice(1, -1).every((mark) => MARKS.includes(mark)),
  );
  expect(unmarked).toEqual([]);
  expect(new Set(features.map(([name]) => name)).size).toBe(features.length);
});
