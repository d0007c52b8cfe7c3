/**
 * The screen of a game in the terminal, of what is known of it: a pure function, so that every size can be tested. Board at the left, rules and keys at the right,
 * always all of them; what happened last and the line that is typed at the bottom. No row is wider than the terminal, and there are no more than it has.
 */
import type { Image } from "../core/index.ts";
import { printable } from "../core/printable.ts";
import { halfBlocks, shades } from "../images/index.ts";
import { wrapText } from "./panel.ts";
import type { Binding } from "./play-keys.ts";

export type ScreenState = {
  readonly title: string;
  /** The longest that fits is shown. */
  readonly rules: readonly string[];
  readonly bindings: readonly Binding[];
  /** Of keys that mean the same everywhere: those that do something here. */
  readonly keys: readonly (readonly [key: string, word: string])[];
  /** Actions that must be typed, as examples. */
  readonly typed: readonly string[];
  readonly board: Image | string;
  /** What happened, or why nothing did. */
  readonly message: string;
  readonly input?: string;
};

export type ScreenStyle = {
  readonly columns: number;
  readonly rows: number;
  readonly color: boolean;
  /** The terminal shows the image itself: its place stays empty. */
  readonly graphics?: boolean;
};

/** Title, message (two rows), input. */
const AROUND = 4;
const GAP = 2;

/** The board's place in cells, under the title. */
export function boardCells(
  board: Image,
  { columns, rows }: Pick<ScreenStyle, "columns" | "rows">,
): { columns: number; rows: number } {
  const [most, high] = [Math.floor((columns - GAP) / 2), Math.max(1, rows - AROUND)];
  // A cell is about twice as high as wide.
  const wide = Math.max(1, Math.min(most, Math.floor((2 * high * board.width) / board.height)));
  return { columns: wide, rows: Math.max(1, Math.min(high, Math.round((wide * board.height) / board.width / 2))) };
}

export function screenRows(state: ScreenState, style: ScreenStyle): string[] {
  const { columns, rows } = style;
  const height = Math.max(1, rows - AROUND);
  const { left, width } = boardRows(state.board, style, height);
  const right = sideRows(state, columns - width - GAP, height);
  const body = Array.from({ length: height }, (_, i) => {
    const cell = left[i] ?? " ".repeat(width);
    return `${cell}${" ".repeat(GAP)}${right[i] ?? ""}`.replace(/ +$/, "");
  });
  const said = wrapText(printable(state.message), columns).slice(0, 2);
  const input = state.input === undefined ? "" : `: ${state.input}`.slice(-columns);
  return [printable(state.title).slice(0, columns), ...body, said[0] ?? "", said[1] ?? "", input].slice(0, rows);
}

/** Every row is `width` cells wide, whatever escape codes it holds. */
function boardRows(board: Image | string, style: ScreenStyle, height: number): { left: string[]; width: number } {
  if (typeof board === "string") {
    const width = Math.floor((style.columns - GAP) / 2);
    const lines = printable(board)
      .split("\n")
      .flatMap((line) => (line === "" ? [""] : cut(line, width)));
    // The end is what is new.
    return { left: lines.slice(-height).map((line) => line.padEnd(width)), width };
  }
  const cells = boardCells(board, style);
  if (style.graphics) return { left: [], width: cells.columns };
  const drawn = style.color ? halfBlocks(board, { columns: cells.columns }) : shades(board, cells.columns);
  const lines = drawn.split("\n").slice(0, height);
  // An image of fewer pixels than there are cells is drawn as it is.
  const wide = Math.min(cells.columns, style.color ? board.width : cells.columns);
  return { left: lines.map((line) => line + " ".repeat(cells.columns - wide)), width: cells.columns };
}

const cut = (line: string, width: number) => line.match(new RegExp(`.{1,${width}}`, "gu")) ?? [];

/** Keys are whole; rules take the rows that are left. */
function sideRows({ rules, bindings, keys, typed }: ScreenState, width: number, height: number): string[] {
  const named = [
    ...bindings.map(({ key, command }) => `${key} ${command}`),
    ...keys.map(([key, word]) => `${key} ${word}`),
  ];
  const controls = [
    ...flow(named, width),
    ...(typed.length > 0 ? flow([`: then type ${typed.slice(0, 3).join(" or ")}`], width) : []),
  ].slice(0, height);
  const room = Math.max(0, height - controls.length - 1);
  const versions = rules.map((text) =>
    printable(text)
      .split("\n")
      .flatMap((line) => wrapText(line, width)),
  );
  const said = versions.find(({ length }) => length <= room) ?? versions.at(-1) ?? [];
  const shown = said.length > room ? [...said.slice(0, Math.max(0, room - 1)), ...(room > 0 ? ["…"] : [])] : said;
  return [...shown, ...(room > 0 ? [""] : []), ...controls];
}

/** Entries side by side, none of them broken unless it is wider than a row. */
function flow(entries: readonly string[], width: number): string[] {
  const lines: string[] = [];
  for (const entry of entries) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 3 + entry.length <= width) lines[lines.length - 1] = `${last} · ${entry}`;
    else lines.push(...wrapText(entry, width));
  }
  return lines;
}
