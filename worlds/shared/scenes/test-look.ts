/**
 * A second look at scenes, for tests: it reads phrases by its own rules and sees nothing but the id buffer and how each id looks, never
 * what the generator meant.
 */
import type { Scene } from "./scene.ts";

/** What a phrase leaves unsaid may be anything. Sizes are compared by what is seen of a thing. */
export function lookFor(phrase: string, { ids, objects, picture }: Scene): number[] {
  const seen = visible(ids, picture.width);
  const words = phrase.split(" ");
  const size = words.find((word) => /^(larg|small)(er|est)$/.test(word));
  // "snowman with a red scarf" is a red snowman.
  const plain = words
    .filter((word) => word !== size)
    .join(" ")
    .replace(/^(.+) with a (\w+) \w+$/, "$2 $1");
  const fitting = objects.filter(({ id, kind, color, pattern }) => {
    if (!seen.has(id) || !plain.endsWith(kind)) return false;
    const looks = plain
      .slice(0, plain.length - kind.length)
      .trim()
      .split(" ")
      .filter(Boolean);
    return looks.every((word) => word === color || word === pattern);
  });
  const heights = fitting.map(({ id }) => [id, seen.get(id) as number] as const);
  if (size === undefined) return heights.map(([id]) => id);
  const best = size.startsWith("larg") ? Math.max : Math.min;
  const wanted = best(...heights.map(([, height]) => height));
  return heights.filter(([, height]) => height === wanted).map(([id]) => id);
}

/** How many things of a kind show at least so many pixels. */
export function countKind(kind: string, { ids, objects }: Scene, pixels: number): number {
  const shown = new Map<number, number>();
  for (const id of ids) shown.set(id, (shown.get(id) ?? 0) + 1);
  return objects.filter((object) => object.kind === kind && (shown.get(object.id) ?? 0) >= pixels).length;
}

/** The height of each id in the buffer. */
function visible(ids: Uint8Array, width: number): Map<number, number> {
  const spans = new Map<number, [number, number]>();
  ids.forEach((id, at) => {
    const row = Math.floor(at / width);
    const span = spans.get(id);
    if (span === undefined) spans.set(id, [row, row]);
    else span[1] = row;
  });
  return new Map([...spans].map(([id, [top, bottom]]) => [id, bottom - top + 1]));
}
