/** Games in a real terminal, at three widths: what is shown, what keys do, what a machine's moves look like. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import "../../worlds/register.ts";
import { imagesOf } from "../core/index.ts";
import { act, makeEnv, type WorldEnv } from "../envs/index.ts";
import { decodePng } from "../images/index.ts";
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
    game.press("r");
    await game.until(/seed 3 · turn 0 of/);
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

  test("a model animates in place, named, without keys that would not act", { timeout: 120_000 }, async () => {
    const game = play(["frozen_lake", "--seed", "3", "--agent", "generalist", "--greedy"]);
    const screen = await game.until(/seed 3 · turn 1 of \d+ · reward 0 · generalist plays, any key stops/, 90_000);
    expect(screen).not.toContain("q quit");
    expect(await game.ended).toBe(0);
    expect(game.output).toContain("turn 2 of");
    expect(game.screen()).toMatch(/▀[\s\S]*(Success|Failed|Out of turns)\. Reward [\d.]+\.$/m);
  });

  test.each([
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences
    ["kitty", { TERM: "xterm-kitty" }, /\x1b_G([^;]*);([^\x1b]*)\x1b\\/g],
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences
    ["iTerm2", { TERM_PROGRAM: "iTerm.app" }, /\x1b\]1337;File=([^:]*):([^\x07]*)\x07/g],
  ])("%s gets each frame of the world, pixel by pixel, under the title", async (_, env, sequence) => {
    const game = play(["sokoban", "--seed", "1"], 80, env);
    expect(await game.until(/q quit/)).not.toContain("▀");
    game.press(":left\r");
    await game.until(/turn 1 of/);
    const world = (await makeEnv("sokoban")) as WorldEnv;
    const first = await world.reset(1);
    const { observation } = await world.step(world.protocol.print([act("left")], world.world.actions));
    // Frames come whole after the cursor goes to the second row; kitty's in chunks, which follow each other.
    const drawn = game.output.split("\x1b[2;1H").flatMap((piece) => {
      const data = [...piece.matchAll(sequence)].map(([, keys = "", data = ""]) =>
        keys.startsWith("a=d") ? "" : data,
      );
      return data.join("") === "" ? [] : [decodePng(Buffer.from(data.join(""), "base64")).hash];
    });
    const shown = [first, observation].map((messages) => messages.flatMap(imagesOf).at(-1)?.hash);
    expect(shown[0]).not.toBe(shown[1]);
    expect([...new Set(drawn)]).toEqual(shown);
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
