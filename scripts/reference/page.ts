/** Markdown of the reference pages. */
import type { FieldRow } from "./schema.ts";

/** Says how a page is made; the test that compares pages names the same command. */
export const MADE = "<!-- Written by `npm run docs`. Change the source that it reads, not this page. -->";

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

export function fieldTable(rows: readonly FieldRow[], what = "option"): string {
  return table(
    [what, "type", "default", "meaning"],
    rows.map((row) => [`\`${row.name}\``, row.type, row.default, row.meaning]),
  );
}

export const page = (...blocks: readonly string[]) => `${blocks.filter((block) => block !== "").join("\n\n")}\n`;
