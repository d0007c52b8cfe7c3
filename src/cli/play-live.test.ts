/** Games in a real terminal, at three widths: what is shown, what keys do, what a machine's moves look like. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { Terminal } from "./test-terminal.ts";

const bin = resolve(import.meta.dirname, "../../dist/cli.js");
const folder = mkdtempSync(join(tmpdir(), "saccade-play-"));
let terminal: Terminal | undefined;
afterEach(() => terminal?.close());
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function play(words: string[], columns = 80, env: Record<string, string> = {}): Terminal {
  terminal = new Terminal([process.execPath, bin, "play", ...words], { columns, cwd: folder, env });
  return terminal;
}

describe("saccade play in a terminal", () => {
  test.each([60, 80, 120])("at %i columns has the board, the rules and every key on one screen", async (columns) => {
    const screen = await play(["sokoban", "--seed", "1"], columns).until(/q quit/);
    const lines = screen.split("\n");
    expect(lines[0]).toMatch(/^sokoban · seed 1 · turn 0 of \d+ · reward 0$/);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
    expect(lines[1]).toMatch(/^▀{20,}/);
    expect(screen).toMatch(/Push the box onto the/);
    for (const words of [
      "↑ up",
      "↓ down",
      "← left",
      "→ right",
      "u undo",
      "h hint",
      "o oracle plays on",
      "r restart",
      "n next seed",
    ])
      expect(screen).toContain(words);
    expect(screen).not.toContain("…");
  });

  test("keys act at once, mistakes cost nothing, and everything can be taken back", async () => {
    const game = play(["frozen_lake", "--seed", "3"]);
    await game.until(/q quit/);
    game.press("h");
    const move = /would play: (\w+)/.exec(await game.until(/would play/))?.[1] as "up" | "down" | "left" | "right";
    game.press("z");
    await game.until(/z is no key here; nothing was played/);
    game.press(":jump\r");
    await game.until(/"jump" is no action here; nothing was played/);
    expect(game.screen()).toContain("turn 0 of");
    game.press({ up: "\x1b[A", down: "\x1b[B", right: "\x1b[C", left: "\x1b[D" }[move]);
    await game.until(/turn 1 of/);
    game.press("u");
    await game.until(/turn 0 of[\s\S]*Taken back/);
    game.press(`:${move}\r`);
    await game.until(/turn 1 of/);
    game.press("o");
    await game.until(/Success\. n: next seed/);
    game.press("n");
    await game.until(/seed 4 · turn 0/);
    game.press("q");
    expect(await game.ended).toBe(0);
    // The terminal is as it was, with a last word.
    expect(game.output).toContain("\x1b[?1049l");
    expect(game.screen()).toMatch(/^No turn was played\.$/m);
  });

  test("the oracle animates in place and leaves the last board", async () => {
    const game = play(["sokoban", "--seed", "1", "--oracle"]);
    await game.until(/turn 1 of[\s\S]*/);
    expect(await game.ended).toBe(0);
    expect(game.screen()).toMatch(/▀[\s\S]*Success\. Reward 1\.\d+\.$/m);
  });

  test("kitty's graphics draw the board where the terminal has them", async () => {
    const game = play(["sokoban", "--seed", "1"], 80, { TERM: "xterm-kitty" });
    expect(await game.until(/q quit/)).not.toContain("▀");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: an escape sequence
    expect(game.output).toMatch(/\x1b\[2;1H\x1b_Ga=T,f=100,q=2,C=1,i=1,p=1,c=39,r=20,m=[01];iVBOR/);
  });

  test("NO_COLOR and TERM=dumb are obeyed", async () => {
    const plain = play(["sokoban", "--seed", "1"], 80, { NO_COLOR: "1" });
    expect(await plain.until(/q quit/)).not.toContain("▀");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a colour
    expect(plain.output).not.toMatch(/\x1b\[[0-9;]*m/);
    plain.close();
    const dumb = play(["sokoban", "--seed", "1", "--oracle"], 80, { TERM: "dumb" });
    expect(await dumb.ended).toBe(0);
    expect(dumb.output).not.toContain("\x1b");
    expect(dumb.output).toContain("Success");
  });
});
