import { describe, expect, test } from "vitest";
import { Image } from "../core/image.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { decodePng } from "./png.ts";
import { clearImages, graphicsOf, inlineImage } from "./terminal-graphics.ts";

describe("a terminal's graphics are told by its environment", () => {
  test.each([
    [{ TERM: "xterm-kitty" }, "kitty"],
    [{ TERM: "xterm-256color", KITTY_WINDOW_ID: "1" }, "kitty"],
    [{ TERM: "xterm-ghostty" }, "kitty"],
    [{ TERM_PROGRAM: "WezTerm" }, "kitty"],
    [{ TERM_PROGRAM: "iTerm.app" }, "iterm"],
    [{ LC_TERMINAL: "iTerm2" }, "iterm"],
    [{ TERM: "xterm-256color" }, undefined],
    [{ TERM: "screen-256color", KITTY_WINDOW_ID: "1" }, undefined],
    [{ TERM: "xterm-kitty", TMUX: "/tmp/tmux" }, undefined],
    [{ TERM: "xterm-kitty", SACCADE_GRAPHICS: "none" }, undefined],
    [{ TERM: "xterm", SACCADE_GRAPHICS: "iterm" }, "iterm"],
  ])("%j: %s", (env, kind) => {
    expect(graphicsOf(env)).toBe(kind);
  });
});

/** Noise, so that it takes several chunks. */
const random = new NumpyRandom(0);
const image = new Image(
  64,
  48,
  Uint8Array.from({ length: 64 * 48 * 3 }, () => random.integers(0, 256)),
);

test("kitty gets the PNG in chunks of at most 4096 characters, the last of which says so", () => {
  const sent = inlineImage(image, "kitty", { columns: 40, rows: 20 });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: an escape sequence
  const chunks = [...sent.matchAll(/\x1b_G([^;]*);([^\x1b]*)\x1b\\/g)];
  expect(chunks.map(([all]) => all).join("")).toBe(sent);
  expect(chunks.length).toBeGreaterThan(2);
  expect(chunks[0]?.[1]).toBe("a=T,f=100,q=2,C=1,i=1,p=1,c=40,r=20,m=1");
  expect(chunks.slice(1).map(([, keys]) => keys)).toEqual([...chunks.slice(2).map(() => "m=1"), "m=0"]);
  for (const [, , data = ""] of chunks) expect(data.length).toBeLessThanOrEqual(4096);
  const png = Buffer.from(chunks.map(([, , data]) => data).join(""), "base64");
  expect(decodePng(png).hash).toBe(image.hash);
  expect(clearImages("kitty")).toBe("\x1b_Ga=d,d=A,q=2\x1b\\");
});

test("iTerm2 gets the PNG whole, with its size in cells", () => {
  const sent = inlineImage(image, "iterm", { columns: 40, rows: 20 });
  const [head, tail] = ["\x1b]1337;File=inline=1;width=40;height=20;preserveAspectRatio=0:", "\x07"];
  expect([sent.slice(0, head.length), sent.slice(-1)]).toEqual([head, tail]);
  expect(decodePng(Buffer.from(sent.slice(head.length, -1), "base64")).hash).toBe(image.hash);
});
