/**
 * From SVG text to pixels with resvg. A model's drawing may hold anything, so before it is drawn it is held to plain shapes:
 * a list of elements that are drawn, no references to files or to other elements' copies (whose number can explode), limits
 * on length, depth and numbers. What is refused is refused in one sentence that the model can act on.
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { errorMessage, Image } from "../../src/core/index.ts";

/** What we use of resvg; memory is its own, so everything is freed by hand. */
type Freed = { readonly width: number; readonly height: number; free(): void };
type Rendered = Freed & { readonly pixels: Uint8Array };
type Parsed = Freed & { render(): Rendered };
type Settings = { readonly background: string; readonly fitTo?: { readonly mode: string; readonly value: number } };
export type Resvg = new (svg: string, settings: Settings) => Parsed;
export type Drawing = { readonly picture: Image } | { readonly problem: string };

let loading: Promise<Resvg> | undefined;

/** In WebAssembly rather than native: the same pixels on every machine, and a document that makes it panic throws. */
export function loadResvg(): Promise<Resvg> {
  loading ??= load();
  return loading;
}

async function load(): Promise<Resvg> {
  const require = createRequire(import.meta.url);
  const code = await readFile(require.resolve("@resvg/resvg-wasm/index_bg.wasm"));
  const name = "@resvg/resvg-wasm";
  const library = (await import(name)) as { initWasm(code: Uint8Array): Promise<void>; Resvg: Resvg };
  try {
    await library.initWasm(code);
  } catch (error) {
    // Another copy of Saccade in this process came first.
    if (!errorMessage(error).startsWith("Already initialized")) throw error;
  }
  return library.Resvg;
}

const DRAWN = new Set(
  (
    "svg g defs path rect circle ellipse line polyline polygon linearGradient radialGradient stop clipPath title desc " +
    "metadata"
  ).split(" "),
);
const DEEPEST = 24;
const MAX_ELEMENTS = 1000;
/** Larger numbers have no use on a canvas and cost time. */
const LARGEST = 1e5;

/** Why a model's drawing is not drawn; undefined when it may be. */
export function refusal(svg: string): string | undefined {
  if (/<!(?:DOCTYPE|ENTITY)|<\?xml-|<!\[CDATA\[/i.test(svg))
    return "Leave out DOCTYPE, ENTITY and CDATA: write plain elements.";
  if (/dasharray/i.test(svg)) return "Dashed strokes are not drawn: write each dash as a line.";
  let depth = 0;
  let elements = 0;
  for (const [, closing, name = "", rest = ""] of svg
    .replace(/<!--[\s\S]*?-->|<\?[\s\S]*?\?>/g, "")
    .matchAll(/<(\/?)([A-Za-z][\w:.-]*)((?:[^<>"']|"[^"]*"|'[^']*')*)>/g)) {
    if (closing === "/") {
      depth -= 1;
      continue;
    }
    if (!DRAWN.has(name)) {
      const plain = /^[\w-]{1,20}$/.test(name) ? `<${name}>` : "An element of that name";
      return `${plain} is not drawn here: use path, rect, circle, ellipse, line, polyline, polygon, g and gradients.`;
    }
    elements += 1;
    if (!rest.endsWith("/")) depth += 1;
    if (depth > DEEPEST) return `Groups may be ${DEEPEST} deep at most.`;
  }
  if (elements > MAX_ELEMENTS) return `A drawing may have ${MAX_ELEMENTS} elements at most.`;
  // Colours such as #2e933c would read as numbers.
  for (const [digits] of svg.replace(/#[0-9a-f]+/gi, "").matchAll(/\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi)) {
    if (Number(digits) > LARGEST) return `Numbers may be ${LARGEST} at most.`;
  }
  return undefined;
}

/** Draws on white, the document's longer side as long as the canvas, in its middle. */
export function drawSvg(Resvg: Resvg, svg: string, size: number): Drawing {
  const named = /\bxmlns\s*=/.test(svg) ? svg : svg.replace(/<svg\b/i, '<svg xmlns="http://www.w3.org/2000/svg"');
  const settings = { background: "#ffffff" };
  try {
    const { width, height } = sizeOf(new Resvg(named, settings));
    const fitTo = { mode: width >= height ? "width" : "height", value: size };
    const parsed = new Resvg(named, { ...settings, fitTo });
    const rendered = parsed.render();
    const picture = centred(rendered.pixels, rendered.width, rendered.height, size);
    rendered.free();
    parsed.free();
    return { picture };
  } catch (error) {
    return { problem: `The SVG can't be read (${reason(error)}): close every tag and quote every attribute.` };
  }
}

function sizeOf(parsed: Parsed): { readonly width: number; readonly height: number } {
  const { width, height } = parsed;
  parsed.free();
  return { width, height };
}

/** resvg's complaint in short, without the words that every one of them begins with. */
function reason(error: unknown): string {
  return errorMessage(error)
    .replace(/^SVG data parsing failed cause /, "")
    .replace(/[^\w\s.,:'-]/g, "")
    .slice(0, 80);
}

function centred(pixels: Uint8Array, columns: number, rows: number, size: number): Image {
  const data = new Uint8Array(size * size * 3).fill(255);
  const [left, top] = [Math.max(0, (size - columns) >> 1), Math.max(0, (size - rows) >> 1)];
  for (let y = 0; y < Math.min(rows, size); y++) {
    for (let x = 0; x < Math.min(columns, size); x++) {
      const from = (y * columns + x) * 4;
      const to = ((y + top) * size + x + left) * 3;
      for (let k = 0; k < 3; k++) data[to + k] = pixels[from + k] as number;
    }
  }
  return new Image(size, size, data);
}
