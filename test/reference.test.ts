/** Generated reference pages and types equal what their sources say today, and every row says what it means. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { referencePages } from "../scripts/reference/index.ts";
import { recipeInputSource } from "../scripts/reference/recipe-input.ts";

const pages = await referencePages();

test.each(Object.keys(pages))("docs/reference/%s is current: npm run docs writes it", (name) => {
  expect(readFileSync(join(import.meta.dirname, "../docs/reference", name), "utf8")).toBe(pages[name]);
});

test.each(Object.keys(pages))("every row of docs/reference/%s says what it means", (name) => {
  const rows = pages[name]?.split("\n").filter((line) => /^\| `/.test(line)) ?? [];
  expect(rows.length).toBeGreaterThan(20);
  const ids = (line: string) => /^\| `[^`]*` \| \d+×\d+ /.test(line);
  expect(rows.filter((line) => line.endsWith("|  |") && !ids(line))).toEqual([]);
});

test("src/train/recipe-input.ts is current: npm run docs writes it", () => {
  const file = join(import.meta.dirname, "../src/train/recipe-input.ts");
  expect(readFileSync(file, "utf8")).toBe(recipeInputSource());
});
