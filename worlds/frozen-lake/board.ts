/**
 * Boards of the frozen lake: drawing them as VAGEN does, finding the way, and checking boards that others wrote.
 * Directions are gymnasium's numbers: 0 left, 1 down, 2 right, 3 up, so that `d ± 1 (mod 4)` are the two sides of `d`.
 */
import { ConfigError, type NumpyRandom } from "../../src/core/index.ts";

export const MAX_SIDE = 16;
/** Boards drawn before `minSteps` counts as out of reach. */
const MAX_DRAWS = 10_000;

/** S start, F ice, H hole, G goal; `cells` row by row. */
export type Board = { readonly rows: number; readonly columns: number; readonly cells: string };

/** VAGEN's recipe: cells, start, goal, and all over again unless the goal is another cell that can be reached. */
export function drawBoard(random: NumpyRandom, size: number, p: number, minSteps: number): Board {
  for (let draw = 0; draw < MAX_DRAWS; draw++) {
    const cells = random.choice(["F", "H"], { size: size * size, p: [p, 1 - p] });
    const start = random.integers(size) * size + random.integers(size);
    const goal = random.integers(size) * size + random.integers(size);
    if (start === goal) continue;
    cells[start] = "S";
    cells[goal] = "G";
    const board = { rows: size, columns: size, cells: cells.join("") };
    const way = shortestWay(board, start);
    if (way !== undefined && way.length >= minSteps) return board;
  }
  throw new ConfigError(
    `frozen_lake: none of ${MAX_DRAWS} boards of size ${size} with p ${p} needs ${minSteps} moves; ` +
      "lower minSteps, or raise size or p.",
  );
}

/** The directions of a shortest way to the goal around the holes; undefined when there is none. */
export function shortestWay(board: Board, from: number): number[] | undefined {
  const arrivedBy = new Map<number, { cell: number; direction: number }>();
  const queue = [from];
  for (let head = 0; head < queue.length; head++) {
    const cell = queue[head] as number;
    if (board.cells[cell] === "G") {
      const way: number[] = [];
      for (let step = arrivedBy.get(cell); step !== undefined; step = arrivedBy.get(step.cell))
        way.push(step.direction);
      return way.reverse();
    }
    for (let direction = 0; direction < 4; direction++) {
      const next = neighbour(board, cell, direction);
      if (next === undefined || next === from || arrivedBy.has(next) || board.cells[next] === "H") continue;
      arrivedBy.set(next, { cell, direction });
      queue.push(next);
    }
  }
  return undefined;
}

/** The next cell in a direction; undefined at the edge. */
export function neighbour({ columns, cells }: Board, cell: number, direction: number): number | undefined {
  const column = cell % columns;
  switch (direction) {
    case 0:
      return column > 0 ? cell - 1 : undefined;
    case 1:
      return cell + columns < cells.length ? cell + columns : undefined;
    case 2:
      return column < columns - 1 ? cell + 1 : undefined;
    default:
      return cell >= columns ? cell - columns : undefined;
  }
}

export function toBoard(desc: readonly string[]): Board {
  return { rows: desc.length, columns: desc[0]?.length ?? 0, cells: desc.join("") };
}

export function toDesc({ rows, columns, cells }: Board): string[] {
  return Array.from({ length: rows }, (_, row) => cells.slice(row * columns, (row + 1) * columns));
}

/** What is wrong with rows that should be a board, as the end of a sentence about them. */
export function boardProblem(desc: unknown): string | undefined {
  if (
    !Array.isArray(desc) ||
    desc.length < 1 ||
    desc.length > MAX_SIDE ||
    !desc.every((row) => typeof row === "string")
  ) {
    return `must be a list of 1 to ${MAX_SIDE} strings`;
  }
  const board = toBoard(desc);
  if (board.columns < 1 || board.columns > MAX_SIDE || desc.some((row) => row.length !== board.columns)) {
    return `must have rows of the same length, 1 to ${MAX_SIDE}`;
  }
  if (!/^[SFHG]*$/.test(board.cells)) return "may hold only S (start), F (ice), H (hole) and G (goal)";
  if (board.cells.split("S").length !== 2 || board.cells.split("G").length !== 2) return "must have one S and one G";
  if (shortestWay(board, board.cells.indexOf("S")) === undefined) return "must have a way from S to G around the holes";
  return undefined;
}
