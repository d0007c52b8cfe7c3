/**
 * Images in terminals that can show them: kitty's graphics protocol (kitty, Ghostty, WezTerm, Konsole) and iTerm2's inline images. Both take a PNG and a place in
 * cells. Which one a terminal has is told by its environment variables; inside tmux or screen neither arrives, so there it is none.
 */
import type { Image } from "../core/image.ts";
import { encodePng } from "./png.ts";

export type Graphics = "kitty" | "iterm";
export type Cells = { readonly columns: number; readonly rows: number };

/** `SACCADE_GRAPHICS` (kitty, iterm, none) decides where the terminal is not known. */
export function graphicsOf(env: Readonly<Record<string, string | undefined>>): Graphics | undefined {
  const { SACCADE_GRAPHICS: wanted, TERM = "", TERM_PROGRAM = "", LC_TERMINAL = "" } = env;
  if (wanted === "kitty" || wanted === "iterm") return wanted;
  if (wanted !== undefined && wanted !== "") return undefined;
  if (TERM === "dumb" || env.TMUX || env.STY || /^(screen|tmux)/.test(TERM)) return undefined;
  if (env.KITTY_WINDOW_ID || /kitty|ghostty/.test(TERM) || /^(ghostty|WezTerm)$/i.test(TERM_PROGRAM)) return "kitty";
  if (env.KONSOLE_VERSION) return "kitty";
  return TERM_PROGRAM === "iTerm.app" || LC_TERMINAL === "iTerm2" ? "iterm" : undefined;
}

/** The escape sequence that draws `image` at the cursor, in so many cells. A later image takes an earlier one's place. */
export function inlineImage(image: Image, kind: Graphics, { columns, rows }: Cells): string {
  const data = Buffer.from(encodePng(image)).toString("base64");
  if (kind === "iterm") {
    // The cells have the image's shape up to rounding. With 1, terminals that go by its width alone draw over the row below.
    return `\x1b]1337;File=inline=1;width=${columns};height=${rows};preserveAspectRatio=0:${data}\x07`;
  }
  // `q=2`: the terminal must not answer, or its answer would be read as keys. `C=1`: the cursor stays.
  const head = `a=T,f=100,q=2,C=1,i=1,p=1,c=${columns},r=${rows}`;
  const chunks = data.match(/.{1,4096}/g) ?? [""];
  return chunks
    .map((chunk, i) => `\x1b_G${i === 0 ? `${head},` : ""}m=${i < chunks.length - 1 ? 1 : 0};${chunk}\x1b\\`)
    .join("");
}

/** What removes the images that were drawn. iTerm2's go with the text under them. */
export function clearImages(kind: Graphics): string {
  return kind === "kitty" ? "\x1b_Ga=d,d=A,q=2\x1b\\" : "";
}
