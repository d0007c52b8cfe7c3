/** Where the name of a horizontal mark stands in a chart: where it covers no curve, or the fewest pieces of one. */

/** In pixels of the canvas, y downwards. */
export type Box = { readonly left: number; readonly right: number; readonly top: number; readonly bottom: number };
type Point = readonly [x: number, y: number];

/** How many pieces of the curves go through a box. Points of a curve come from left to right. */
export function crossings(box: Box, curves: readonly (readonly Point[])[]): number {
  let count = 0;
  for (const curve of curves) {
    for (let i = 0; i < curve.length; i++) {
      // A single point is a piece, too.
      if (i > 0 || curve.length === 1)
        count += Number(crosses(box, curve[Math.max(0, i - 1)] as Point, curve[i] as Point));
    }
  }
  return count;
}

function crosses({ left, right, top, bottom }: Box, [x, y]: Point, [endX, endY]: Point): boolean {
  if (endX < left || x > right) return false;
  const at = (place: number) => (endX === x ? y : y + ((endY - y) * (place - x)) / (endX - x));
  const [from, to] = endX === x ? [y, endY] : [at(Math.max(left, x)), at(Math.min(right, endX))];
  return Math.max(from, to) >= top && Math.min(from, to) <= bottom;
}

/** The first of the places that the fewest pieces go through. */
export function freest<T extends { readonly box: Box }>(
  places: readonly T[],
  curves: readonly (readonly Point[])[],
): T | undefined {
  let best: { place: T; count: number } | undefined;
  for (const place of places) {
    const count = crossings(place.box, curves);
    if (best === undefined || count < best.count) best = { place, count };
  }
  return best?.place;
}
