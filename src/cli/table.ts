/**
 * Rows and columns as text that fits a terminal. Columns come in the order of their importance: where the width does not suffice, the first one is cut first,
 * and then the last ones are left out, whole. Columns without a value in any row are left out, too.
 */
import { printable } from "../core/printable.ts";

export type Column<Row> = {
  readonly head: string;
  readonly cell: (row: Row) => string;
  /** Numbers stand under each other. */
  readonly right?: boolean;
  /** Stays, though it is empty or there is no room. */
  readonly fixed?: boolean;
  /** Of the first column: other columns go before it is cut. */
  readonly whole?: boolean;
};

const GAP = "  ";
/** The first column is cut no further. */
const MIN_FIRST = 16;

export function textTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[], width: number): string[] {
  let shown = columns
    .map((column) => ({ ...column, cells: rows.map((row) => printable(column.cell(row)).replaceAll(/\s+/g, " ")) }))
    .filter(({ fixed, cells }) => fixed || cells.some((cell) => cell !== ""))
    .map((column) => ({ ...column, size: Math.max(column.head.length, ...column.cells.map((cell) => cell.length)) }));
  const total = () => shown.reduce((sum, { size }) => sum + size, GAP.length * (shown.length - 1));
  const [first] = shown;
  if (first === undefined) return [];
  const cut = () => {
    first.size = Math.min(first.size, Math.max(MIN_FIRST, first.size - Math.max(0, total() - width)));
  };
  if (!first.whole) cut();
  while (total() > width) {
    const last = shown.findLastIndex(({ fixed }, i) => i > 0 && fixed !== true);
    if (last < 0) break;
    shown = shown.filter((_, i) => i !== last);
  }
  cut();
  // What the columns that went left over is the first one's again.
  first.size = Math.max(first.size, Math.min(longest(first), first.size + width - total()));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => fitted(cell, shown[i] as (typeof shown)[number]))
      .join(GAP)
      .trimEnd()
      .slice(0, width);
  return [
    line(shown.map(({ head }) => head)),
    ...rows.map((_, r) => line(shown.map(({ cells }) => cells[r] as string))),
  ];
}

const longest = ({ head, cells }: { head: string; cells: string[] }) =>
  Math.max(head.length, ...cells.map((cell) => cell.length));

function fitted(cell: string, { size, right }: { size: number; right?: boolean }): string {
  if (cell.length > size) return `${cell.slice(0, size - 1)}…`;
  return right ? cell.padStart(size) : cell.padEnd(size);
}
