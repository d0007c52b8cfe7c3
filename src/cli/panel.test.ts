import { describe, expect, test } from "vitest";
import { Canvas } from "../images/index.ts";
import { duration, type PanelState, panelRows, sparkline, wrapText } from "./panel.ts";

const state: PanelState = {
  name: "a-recipe-with-quite-a-long-name-of-forty-letters",
  warm: [1700, 1700],
  steps: [22, 130],
  phase: { name: "playing", done: 44, total: 128 },
  phaseMs: 4000,
  leftMs: 250_000,
  series: new Map([
    ["train/success", Array.from({ length: 22 }, (_, i) => i / 22)],
    ["train/reward", [0.25]],
    ["time/step", [2.14]],
    ["time/wait", [1.5]],
    ["time/learn", [0.6]],
  ]),
  warnings: [
    "Success of the oracle is 0 on every held-out episode: check solve(), success() and maxTurns before you believe a figure of this run.",
  ],
  frame: new Canvas(64, 64).toImage(),
};
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape codes take no room
const visible = (row: string) => row.replaceAll(/\x1b\[[0-9;]*m/g, "");

describe("the training panel", () => {
  test.each([60, 80, 120])("fits %i columns with every word of its alarms", (columns) => {
    const rows = panelRows(state, { columns, color: true }).map(visible);
    expect(Math.max(...rows.map((row) => [...row].length))).toBeLessThan(columns);
    expect(rows.join(" ")).toContain("before you believe a");
    expect(rows.join(" ").replaceAll(/\s+/g, " ")).toContain(state.warnings[0]);
  });

  test("names the phase, how far it is and how long the rest takes", () => {
    const rows = panelRows({ ...state, name: "lake" }, { columns: 80, color: false });
    expect(rows[0]).toBe("lake · step 22 of 130 · 4 min left");
    expect(rows.find((row) => row.startsWith("playing"))).toMatch(/█+░+ {2}44\/128 {2}8 s left$/);
    expect(rows.find((row) => row.startsWith("step time"))).toBe(
      "step time      2.1 s (playing 1.5 s, learning 0.6 s)",
    );
  });

  test("a phase that counts nothing is measured by the one before it", () => {
    const phase = { name: "learning", done: 0, total: 1 } as const;
    const row = (usualMs?: number) =>
      panelRows(
        { ...state, phase, phaseMs: 1000, ...(usualMs !== undefined && { usualMs }) },
        { columns: 80, color: false },
      ).find((line) => line.startsWith("learning"));
    expect(row(4000)).toMatch(/█{6}░+ {2}3 s left$/);
    expect(row()).toMatch(/ {3}░+ {2}1 s$/);
  });

  test("without colours it writes no escape code and no frame", () => {
    expect(panelRows(state, { columns: 80, color: false }).join("")).not.toContain("\x1b");
  });
});

test("durations are told in words that people use", () => {
  expect([400, 8_000, 250_000, 7_800_000].map(duration)).toEqual(["0 s", "8 s", "4 min", "2 h 10 min"]);
});

test("a sparkline rises where its series rises", () => {
  expect(sparkline([0, 1, 2, 3], 4)).toBe("▁▃▆█");
});

test("wrapped text loses nothing, and a word that is too long is cut", () => {
  expect(wrapText("one two three", 8)).toEqual(["one two", "three"]);
  expect(wrapText("abcdefghij", 4)).toEqual(["abcd", "efgh", "ij"]);
});
