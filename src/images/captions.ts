/** Frames with a line under each that says what was played, enlarged so that a person can see them. */
import { type Image, MAX_PIXELS } from "../core/image.ts";
import { Canvas, type Color } from "./canvas.ts";
import { resize } from "./resize.ts";

const INK: Color = [30, 30, 30];
const GOOD: Color = [16, 120, 50];
const BAD: Color = [170, 30, 30];

/** How the episode stood after its last frame. */
export type Verdict = { readonly terminated: boolean; readonly truncated: boolean; readonly success?: boolean };

export type Frame = { readonly image: Image; readonly caption: string };

export function captioned(film: readonly Frame[], last: Verdict | undefined): Image[] {
  return film.map(({ image, caption }, index) => {
    const big = enlarge(image, 320);
    const width = Math.max(big.width, 240);
    const size = Math.max(13, Math.round(width / 32));
    const canvas = new Canvas(width, big.height + 2 * size, [245, 245, 245]);
    canvas.draw(big, Math.floor((width - big.width) / 2), 0);
    const end = index === film.length - 1 && last !== undefined && (last.terminated || last.truncated);
    const verdict = end ? (last.success ? "  success" : "  failed") : "";
    const color = end ? (last.success ? GOOD : BAD) : INK;
    const label = shorten(`${caption}${verdict}`, width - 16, size);
    canvas.text(label, 8, big.height + size, { size, color, baseline: "middle" });
    return canvas.toImage();
  });
}

/** Whole multiples only, so that pixel art stays sharp. */
function enlarge(image: Image, target: number): Image {
  const times = Math.floor(target / Math.max(image.width, image.height));
  if (times < 2 || image.width * image.height * times * times > MAX_PIXELS) return image;
  return resize(image, image.width * times, image.height * times, "nearest");
}

function shorten(label: string, width: number, size: number): string {
  let text = label;
  while (text.length > 4 && Canvas.measure(text, size).width > width) text = `${text.slice(0, -4)}...`;
  return text;
}
