/**
 * Plans for `patch_reassembly`: which tiling to aim for, and in which order to get there.
 * One tiling is always known (the one the board was cut into). When patches already lie elsewhere, others are searched
 * for one that leaves more of them where they are: the first empty cell can only be covered by the anchor of some patch, so
 * the search branches over patches alone, and ends at a fixed number of tries. The order then follows what is free:
 * a patch whose place is clear goes there; when none is, one that stands in the way is taken off first.
 */

export type Cell = readonly [row: number, column: number];

export type Puzzle = {
  readonly rows: number;
  readonly columns: number;
  /** The cells of each patch relative to its anchor, the leftmost cell of its top row; row by row. */
  readonly patches: readonly (readonly Cell[])[];
  /** Anchors of the tiling that the board was cut into. */
  readonly home: readonly Cell[];
};

/** `to` is the anchor's cell; undefined takes the patch off the board. */
export type PlanStep = { readonly patch: number; readonly to: Cell | undefined };

/** Bounds the search to a few milliseconds. */
const MAX_TRIES = 10_000;

/** Steps from the patches as they lie (undefined: off the board) to a full board. */
export function planPlacements(puzzle: Puzzle, placed: readonly (Cell | undefined)[]): PlanStep[] {
  const { columns, patches } = puzzle;
  const cellsAt = (patch: number, [row, column]: Cell) =>
    (patches[patch] ?? []).map(([r, c]) => (row + r) * columns + column + c);
  const aim = nearestTiling(puzzle, placed);
  const now = [...placed];
  /** The patch on each cell of the board. */
  const lying = new Map<number, number>();
  for (const [patch, at] of now.entries())
    if (at !== undefined) for (const cell of cellsAt(patch, at)) lying.set(cell, patch);

  const steps: PlanStep[] = [];
  const move = (patch: number, to: Cell | undefined) => {
    const from = now[patch];
    if (from !== undefined) for (const cell of cellsAt(patch, from)) lying.delete(cell);
    if (to !== undefined) for (const cell of cellsAt(patch, to)) lying.set(cell, patch);
    now[patch] = to;
    steps.push({ patch, to });
  };
  /** Another patch that lies where this one has to go. */
  const inTheWay = (patch: number) =>
    cellsAt(patch, aim[patch] as Cell)
      .map((cell) => lying.get(cell))
      .find((other) => other !== undefined && other !== patch);

  let left = patches.map((_, patch) => patch).filter((patch) => !sameCell(now[patch], aim[patch]));
  while (left.length > 0) {
    const clear = left.find((patch) => inTheWay(patch) === undefined);
    if (clear === undefined) {
      move(inTheWay(left[0] as number) as number, undefined);
    } else {
      move(clear, aim[clear] as Cell);
      left = left.filter((patch) => patch !== clear);
    }
  }
  return steps;
}

function sameCell(a: Cell | undefined, b: Cell | undefined): boolean {
  return a !== undefined && b !== undefined && a[0] === b[0] && a[1] === b[1];
}

/** Anchors of a tiling that moves few of the patches on the board: the fewest, unless the search runs out of tries. */
function nearestTiling(
  { rows, columns, patches, home }: Puzzle,
  placed: readonly (Cell | undefined)[],
): readonly Cell[] {
  const moved = (patch: number, at: Cell) => (placed[patch] === undefined || sameCell(placed[patch], at) ? 0 : 1);
  let best = home;
  let bestMoves = home.reduce((sum, at, patch) => sum + moved(patch, at), 0);
  let tries = 0;
  const taken = new Uint8Array(rows * columns);
  const anchors = new Array<Cell | undefined>(patches.length).fill(undefined);

  const fits = (patch: number, row: number, column: number) =>
    (patches[patch] ?? []).every(([r, c]) => {
      const at = column + c;
      return row + r < rows && at >= 0 && at < columns && taken[(row + r) * columns + at] === 0;
    });
  const mark = (patch: number, row: number, column: number, value: 0 | 1) => {
    for (const [r, c] of patches[patch] ?? []) taken[(row + r) * columns + column + c] = value;
  };

  const search = (from: number, moves: number): void => {
    let cell = from;
    while (cell < taken.length && taken[cell] === 1) cell++;
    if (cell === taken.length) {
      best = anchors.map((at) => at as Cell);
      bestMoves = moves;
      return;
    }
    const here: Cell = [Math.floor(cell / columns), cell % columns];
    const free = patches.map((_, patch) => patch).filter((patch) => anchors[patch] === undefined);
    // Patches that already lie here first, so that good tilings are found early and cut off the others.
    for (const patch of free.sort((a, b) => cost(a, here) - cost(b, here))) {
      const total = moves + moved(patch, here);
      if (total >= bestMoves || tries >= MAX_TRIES) continue;
      tries += 1;
      if (!fits(patch, ...here)) continue;
      mark(patch, ...here, 1);
      anchors[patch] = here;
      search(cell + 1, total);
      anchors[patch] = undefined;
      mark(patch, ...here, 0);
    }
  };
  const cost = (patch: number, at: Cell) => (sameCell(placed[patch], at) ? 0 : placed[patch] === undefined ? 1 : 2);
  if (bestMoves > 0) search(0, 0);
  return best;
}
