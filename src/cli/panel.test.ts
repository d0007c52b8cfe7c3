import { describe, expect, test } from "vitest";
import { Canvas } from "../images/index.ts";
import { duration, hanging, type PanelState, panelRows, sparkline, wrapText } from "./panel.ts";

const state: PanelState = {
  name: "a-recipe-with-quite-a-long-name-of-forty-letters",
  warm: [1700, 1700],
  steps: [22, 130],
  phase: { name: "playing", done: 44, total: 128 },
  phaseMs: 4000,
  share: 0.3,
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

  test.each([60, 80, 120])("has every value whole in %i columns", (columns) => {
    const series = new Map([
      ["train/success", Array.from({ length: 60 }, () => 0.123)],
      ["sight/gap", [0.5, -0.000088]],
    ]);
    const rows = panelRows({ ...state, series }, { columns, color: false });
    expect(rows.find((row) => row.startsWith("sight gap"))).toMatch(/ -0\.000088$/);
    expect(rows.find((row) => row.startsWith("success"))).toMatch(/ 0\.123$/);
    expect(Math.max(...rows.map((row) => [...row].length))).toBeLessThan(columns);
  });

  test("names the phase, how far it is and how long the rest takes", () => {
    const rows = panelRows({ ...state, name: "lake" }, { columns: 80, color: false });
    expect(rows[0]).toBe("lake · step 22 of 130");
    expect(rows[1]).toMatch(/^run +█{7}░{17} {2}30 % {2}about 4 min left$/);
    expect(rows.find((row) => row.startsWith("playing"))).toMatch(/█+░+ {2}44\/128 {2}8 s left$/);
    expect(rows.find((row) => row.startsWith("step time"))).toBe(
      "step time      2.1 s (playing 1.5 s, learning 0.6 s)",
    );
  });

  test("the run takes at least as long as the evaluation that goes on", () => {
    const phase = { name: "evaluating", done: 64, total: 256 } as const;
    const rows = panelRows({ ...state, phase, phaseMs: 60_000, leftMs: 1000 }, { columns: 80, color: false });
    expect(rows[1]).toMatch(/about 3 min left$/);
    expect(rows.find((row) => row.startsWith("evaluating"))).toMatch(/64\/256 {2}3 min left$/);
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

  test("while none of the groups is over, playing is measured by the step before", () => {
    const phase = { name: "playing", done: 0, total: 128 } as const;
    const rows = panelRows({ ...state, phase, phaseMs: 1000, usualMs: 4000 }, { columns: 80, color: false });
    expect(rows.find((line) => line.startsWith("playing"))).toMatch(/█{6}░+ {2}0\/128 {2}3 s left$/);
  });

  test("a step's time names only parts that took some", () => {
    const series = new Map([
      ["time/step", [0.2]],
      ["time/wait", [0.01]],
    ]);
    expect(panelRows({ ...state, series }, { columns: 80, color: false })).toContain("step time      0.2 s");
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

test("a column of words keeps its own lines and breaks long ones", () => {
  expect(hanging("loads", "one two three four five\n  at line 3", 8, 24)).toEqual([
    "loads   one two three",
    "        four five",
    "          at line 3",
  ]);
  expect(hanging("loads", "one  two", 8, Number.MAX_SAFE_INTEGER)).toEqual(["loads   one  two"]);
});
