/**
 * Descriptions as data, rewritten into the reader's lines: JSON (or a Python dictionary) of relations or cells, and boards drawn with the world's symbols. A name that stands twice stays two
 * things, as one of them contradicts the other. What is neither is left to the reader as it is; a name or value that is not known here will not be known there.
 */
import type { Located, View } from "./view.ts";

/** The reader's lines, and of a drawn board every cell; undefined for what is no data. */
export function rewriteData(text: string, view: View): { lines: string; drawn?: readonly Located[] } | undefined {
  const bare = text.replace(/^\s*```\w*\n|\n```\s*$/g, "");
  const drawn = drawnCells(bare, view);
  if (drawn !== undefined) {
    const things = drawn.filter(({ name }) => name === view.from || view.things[name] !== undefined);
    return { drawn, lines: things.map(({ name, cell }) => `${name}: (${cell.join(", ")});`).join("\n") };
  }
  const lines = dataLines(bare, view) ?? (bare === text ? undefined : bare);
  return lines === undefined ? undefined : { lines };
}

/** A board: every line a row of symbols, all equally long. A cell without things is located by its symbol. */
export function drawnCells(text: string, { legend }: View): Located[] | undefined {
  if (legend === undefined) return undefined;
  const blank = legend[" "] !== undefined;
  const rows = text
    .split("\n")
    .map((line) => [...(blank ? line.trimEnd() : line.replace(/[\s|,]/g, ""))])
    .filter((row) => row.length > 0);
  const width = rows[0]?.length ?? 0;
  if (rows.length < 2 || width < 2 || !rows.every((row) => row.length === width)) return undefined;
  if (!rows.flat().every((symbol) => legend[symbol] !== undefined)) return undefined;
  return rows.flatMap((row, r) =>
    row.flatMap((symbol, c) => {
      const names = legend[symbol] ?? [];
      return (names.length === 0 ? [symbol] : names).map((name) => ({ name, cell: [r, c] as const }));
    }),
  );
}

type Data = string | number | null | readonly Data[] | { readonly entries: readonly (readonly [string, Data])[] };

/** Names of what holds things, of a thing's own name and of its places; any other name stands for a thing. */
const HOLDERS = /^(objects|things|state|relations|positions)$/;
const NAMES = /^(object_id|object|thing|name|kind|type|id)$/;
const ROW = /^(row|vertical|vertical_relation)$/;
const COLUMN = /^(col|column|horizontal|horizontal_relation)$/;
const PLACE = /^(position|relation|relations|place|at|cell)$/;

function dataLines(text: string, view: View): string | undefined {
  if (!/^\s*[{[]/.test(text)) return undefined;
  const data = parseData(text);
  const lines = data === undefined ? undefined : linesOf(data, view);
  return lines === undefined || lines.length === 0 ? undefined : lines.join("\n");
}

const isMap = (data: Data | undefined) =>
  typeof data === "object" && data !== null && "entries" in data && !isList(data);
const isList = (data: Data | undefined): data is readonly Data[] => Array.isArray(data);

function linesOf(data: Data, view: View): string[] {
  if (isList(data)) return data.flatMap((one) => linesOf(one, view));
  if (typeof data !== "object" || data === null) return ["?"];
  const { entries } = data as { readonly entries: readonly (readonly [string, Data])[] };
  const named = entries.find(([key]) => NAMES.test(key));
  if (named !== undefined) {
    const rest = entries.filter((entry) => entry !== named);
    return thingLines(String(named[1]), { entries: rest }, view);
  }
  return entries.flatMap(([key, value]) => (HOLDERS.test(key) ? linesOf(value, view) : thingLines(key, value, view)));
}

/** The lines of one name: one for each thing that its value places. */
function thingLines(key: string, value: Data, view: View): string[] {
  const name = nameOf(key, view);
  if (value === null) return [];
  if (isList(value) && value.length > 0 && (isList(value[0]) || isMap(value[0]))) {
    return value.flatMap((one) => thingLines(key, one, view));
  }
  if (isList(value)) {
    const numbers = value.every((one) => typeof one === "number");
    return value.length === 0 ? [] : [`${name}: ${numbers ? `(${value.join(", ")})` : value.map(wordOf).join(", ")};`];
  }
  if (typeof value !== "object") return [`${name}: ${wordOf(value)};`];
  const { entries } = value as { readonly entries: readonly (readonly [string, Data])[] };
  if (entries.length === 1 && PLACE.test(entries[0]?.[0] ?? "")) return thingLines(key, entries[0]?.[1] ?? null, view);
  const rows = entries.filter(([axis]) => ROW.test(axis)).map(([, one]) => one);
  const columns = entries.filter(([axis]) => COLUMN.test(axis)).map(([, one]) => one);
  if (rows.length > 1 || columns.length > 1 || rows.length + columns.length < entries.length) return ["?"];
  const [row, column] = [rows[0], columns[0]];
  if (typeof row === "number" || typeof column === "number") return [`${name}: (${row}, ${column});`];
  const said = [row === "same" ? "same row" : row, column === "same" ? "same column" : column];
  const words = said.flatMap((one) => (one === null || one === undefined ? [] : [wordOf(one)]));
  return words.length === 0 ? [] : [`${name}: ${words.join(", ")};`];
}

const wordOf = (value: Data) => (typeof value === "string" ? value : "?");

/** `box_1`, `boxes` and `player_position` as the reader knows them. */
function nameOf(key: string, { things }: View): string {
  const words = key
    .toLowerCase()
    .replace(/[_-]/g, " ")
    .replace(/ (position|pos|location)$/, "")
    .replace(/(\D)(\d+)$/, "$1 $2");
  const singular = [words.replace(/s$/, ""), words.replace(/es$/, "")].find((word) => things[word] !== undefined);
  return things[words] === undefined && singular !== undefined ? singular : words;
}

const DEEPEST = 8;

/** JSON, with Python's quotes and tuples; every entry is kept, also of a name that stands twice. Undefined for anything else. */
function parseData(text: string): Data | undefined {
  const tokens = text.match(/"[^"\n]*"|'[^'\n]*'|-?\d+(?:\.\d+)?|null|None|[{}[\](),:]|\S/g) ?? [];
  let at = 0;
  const wrong = Symbol("wrong");
  const next = () => tokens[at++] ?? "";
  const value = (depth: number): Data => {
    const token = next();
    if (depth > DEEPEST) throw wrong;
    if (token === "{") return { entries: list("}", () => entry(depth)) };
    if (token === "[" || token === "(") return list(token === "[" ? "]" : ")", () => value(depth + 1));
    if (/^["']/.test(token) && token.length > 1) return token.slice(1, -1);
    if (/^-?\d/.test(token)) return Number(token);
    if (token === "null" || token === "None") return null;
    throw wrong;
  };
  const entry = (depth: number): readonly [string, Data] => {
    const key = next();
    if (!/^["'].*["']$/.test(key) || next() !== ":") throw wrong;
    return [key.slice(1, -1).toLowerCase(), value(depth + 1)];
  };
  const list = <T>(end: string, one: () => T): T[] => {
    const all: T[] = [];
    while (tokens[at] !== end) {
      all.push(one());
      if (tokens[at] === ",") at += 1;
      else if (tokens[at] !== end) throw wrong;
    }
    at += 1;
    return all;
  };
  try {
    const data = value(0);
    return at === tokens.length ? data : undefined;
  } catch (problem) {
    if (problem === wrong) return undefined;
    throw problem;
  }
}
