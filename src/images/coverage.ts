/**
 * Exact coverage of polygons: every edge adds its signed area to the pixels it crosses, and a running sum along a row then
 * says how much of each pixel the polygon covers (its absolute value, at most 1). Sums and products only, so the same
 * polygon has the same coverage on every machine.
 */

/** Adds the signed area to the right of an edge, differentiated along the row, to the pixels the edge crosses. */
export function addEdge(
  area: Float64Array | Float32Array,
  columns: number,
  rows: number,
  ax: number,
  ay: number,
  bx: number,
  by: number,
): void {
  if (ay === by) return;
  const sign = ay < by ? 1 : -1;
  const [topX, topY, bottomX, bottomY] = ay < by ? [ax, ay, bx, by] : [bx, by, ax, ay];
  const slope = (bottomX - topX) / (bottomY - topY);
  const lastRow = Math.min(rows, Math.ceil(bottomY));
  const limit = columns - 1;
  for (let row = Math.max(0, Math.floor(topY)); row < lastRow; row++) {
    const y0 = Math.max(row, topY);
    const y1 = Math.min(row + 1, bottomY);
    const xa = topX + (y0 - topY) * slope;
    const xb = topX + (y1 - topY) * slope;
    const low = Math.min(xa, xb);
    const high = Math.max(xa, xb);
    const height = sign * (y1 - y0);
    const base = row * columns;
    // Left of the canvas only the edge's height counts; right of it nothing does.
    if (high <= 0) area[base] = (area[base] as number) + height;
    else if (low < 0) area[base] = (area[base] as number) + (height * -low) / (high - low);
    if (high <= 0 || low >= limit) continue;
    const first = Math.max(0, Math.floor(low));
    const last = Math.min(limit - 1, Math.max(first, Math.ceil(high) - 1));
    let carry = 0;
    for (let column = first; column <= last; column++) {
      // Height of the edge's part within this column, and the area right of that part inside the column.
      const from = Math.max(low, column);
      const to = Math.min(high, column + 1);
      const part = high > low ? (height * (to - from)) / (high - low) : height;
      const within = part * (1 - ((from + to) / 2 - column));
      area[base + column] = (area[base + column] as number) + within + carry;
      carry = part - within;
    }
    area[base + last + 1] = (area[base + last + 1] as number) + carry;
  }
}
