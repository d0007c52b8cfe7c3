/** The table in docs/features.md: every row has a mark for every project, and the shares that the page prints are the counted ones. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const page = readFileSync(join(resolve(import.meta.dirname, ".."), "docs/features.md"), "utf8");
const VALUE: Readonly<Record<string, number>> = { "●": 1, "◐": 0.5, "○": 0 };

const cells = (line: string) =>
  line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
const [shares = "", ...sections] = page.split(/^## /m).slice(1);
const tableOf = (section: string) => section.split("\n").filter((line) => line.startsWith("|"));
const [, ...projects] = cells(tableOf(shares)[0] as string);
const features = sections.flatMap((section) => tableOf(section).slice(2).map(cells));

test("every feature has one mark for each project and its own name", () => {
  expect(projects).toEqual(["Saccade", "SkyRL", "VAGEN", "VisGym", "Tinker", "TRL"]);
  for (const section of sections) expect(cells(tableOf(section)[0] as string).slice(1, -1)).toEqual(projects);
  const unmarked = features.filter(
    (row) => row.length !== projects.length + 2 || !row.slice(1, -1).every((mark) => mark in VALUE),
  );
  expect(unmarked).toEqual([]);
  expect(new Set(features.map(([name]) => name)).size).toBe(features.length);
});

test("the shares on the page are the counted ones", () => {
  const column = (project: number) => features.map((row) => row[project + 1] as string);
  const count = (mark: string) => projects.map((_, i) => String(column(i).filter((found) => found === mark).length));
  const share = projects.map((_, i) => {
    const sum = column(i).reduce((all, mark) => all + (VALUE[mark] as number), 0);
    return `${Math.round((100 * sum) / features.length)} %`;
  });
  expect(tableOf(shares).slice(2).map(cells)).toEqual([
    ["whole", ...count("●")],
    ["in part", ...count("◐")],
    ["not", ...count("○")],
    [`share of ${features.length}`, ...share],
  ]);
});
