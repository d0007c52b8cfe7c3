/**
 * Mazes for maze_2d and maze_3d: a uniform spanning tree by Wilson's loop-erased random walks, drawn with the very
 * random numbers of VisGym, so that a seed gives VisGym's board. Cells are numbered row by row (`row * width + column`);
 * rooms are the cells with odd row and column, and the border is always wall, so one step never leaves the board.
 * The saved form is VisGym's `init_state`.
 */
import { EnvError, isJsonObject, type Json, type NumpyRandom, PythonRandom } from "../../src/core/index.ts";

export type Maze = {
  readonly width: number;
  readonly height: number;
  /** 1 where a wall stands. */
  readonly walls: Uint8Array;
  readonly agent: number;
  readonly target: number;
};

/** Draws board and corners; `random` is left where VisGym leaves its own, for what a world draws next. */
export function drawMaze(random: NumpyRandom, width: number, height: number): Maze {
  const walls = carve(width, height, new PythonRandom(random.integers(2 ** 32)));
  const topLeft = width + 1;
  const topRight = 2 * width - 2;
  const bottomLeft = (height - 2) * width + 1;
  const bottomRight = (height - 1) * width - 2;
  const [agent, target] = [
    [topLeft, bottomRight],
    [bottomRight, topLeft],
    [bottomLeft, topRight],
    [topRight, bottomLeft],
  ][random.integers(0, 4)] as [number, number];
  return { width, height, walls, agent, target };
}

function carve(width: number, height: number, random: PythonRandom): Uint8Array {
  const rows = (height - 1) / 2;
  const columns = (width - 1) / 2;
  const walls = new Uint8Array(width * height).fill(1);
  const joined = new Uint8Array(rows * columns);
  const waiting = Array.from(joined, (_, room) => room);
  // The way a walk last left each room. Leaving a room again overwrites it, which is what erases the loops.
  const exit = new Uint8Array(rows * columns);
  // Ways are numbered right, down, left, up.
  const roomStep = [1, columns, -1, -columns];
  const cellStep = [1, width, -1, -width];

  const cellOf = (room: number) => (2 * Math.floor(room / columns) + 1) * width + 2 * (room % columns) + 1;
  const pick = () => waiting[random.randint(0, waiting.length - 1)] as number;
  const join = (room: number) => {
    waiting.splice(waiting.indexOf(room), 1);
    joined[room] = 1;
    walls[cellOf(room)] = 0;
  };
  const leadsInside = (room: number, way: number) => {
    if (way === 0) return room % columns < columns - 1;
    if (way === 1) return room < (rows - 1) * columns;
    if (way === 2) return room % columns > 0;
    return room >= columns;
  };

  join(pick());
  while (waiting.length > 0) {
    const first = pick();
    for (let room = first; joined[room] === 0; ) {
      let way = random.randint(0, 3);
      while (!leadsInside(room, way)) way = random.randint(0, 3);
      exit[room] = way;
      room += roomStep[way] as number;
    }
    for (let room = first; joined[room] === 0; ) {
      join(room);
      const way = exit[room] as number;
      walls[cellOf(room) + (cellStep[way] as number)] = 0;
      room += roomStep[way] as number;
    }
  }
  return walls;
}

/** The cells of a shortest way from agent to target, both included; undefined when there is none. */
export function shortestPath(maze: Maze): number[] | undefined {
  const { width, walls, agent, target } = maze;
  const before = new Int32Array(walls.length).fill(-1);
  before[agent] = agent;
  const queue = [agent];
  for (let head = 0; head < queue.length && before[target] === -1; head++) {
    const cell = queue[head] as number;
    for (const next of [cell - width, cell + width, cell - 1, cell + 1]) {
      if (walls[next] !== 0 || before[next] !== -1) continue;
      before[next] = cell;
      queue.push(next);
    }
  }
  if (before[target] === -1) return undefined;
  const path = [target];
  for (let cell = target; cell !== agent; path.push(cell)) cell = before[cell] as number;
  return path.reverse();
}

export function saveMaze(maze: Maze): { maze_map: number[][]; agent_location: number[]; target_location: number[] } {
  const { width, height, walls } = maze;
  const location = (cell: number) => [Math.floor(cell / width), cell % width];
  return {
    maze_map: Array.from({ length: height }, (_, row) => [...walls.subarray(row * width, (row + 1) * width)]),
    agent_location: location(maze.agent),
    target_location: location(maze.target),
  };
}

/** A board may be up to this wide and high: enough for any VisGym episode, and its image still fits in memory. */
const MAX_SIDE = 99;

export function loadMaze(state: Json): Maze {
  if (!isJsonObject(state))
    throw new EnvError("A saved maze is an object with maze_map, agent_location, target_location.");
  const rows = state.maze_map;
  if (!Array.isArray(rows) || rows.length < 3 || rows.length > MAX_SIDE) {
    throw new EnvError(`maze_map must be a list of 3 to ${MAX_SIDE} rows.`);
  }
  const height = rows.length;
  const width = Array.isArray(rows[0]) ? rows[0].length : 0;
  if (width < 3 || width > MAX_SIDE || !rows.every((row) => Array.isArray(row) && row.length === width)) {
    throw new EnvError(`The rows of maze_map must be lists of the same length, 3 to ${MAX_SIDE}.`);
  }
  const cells: Json[] = rows.flat();
  if (!cells.every((cell) => cell === 0 || cell === 1)) {
    throw new EnvError("The entries of maze_map must be 1 (wall) or 0 (free).");
  }
  const walls = Uint8Array.from(cells as number[]);
  const onBorder = (cell: number) =>
    cell < width || cell >= width * (height - 1) || cell % width === 0 || cell % width === width - 1;
  if (walls.some((wall, cell) => wall === 0 && onBorder(cell))) {
    throw new EnvError("The border of maze_map must be wall (1) all around.");
  }
  const freeCell = (field: "agent_location" | "target_location") => {
    const at = state[field];
    const [row, column] = (Array.isArray(at) ? at : []) as Json[];
    const whole = Number.isInteger(row) && Number.isInteger(column);
    const cell = (row as number) * width + (column as number);
    if (!whole || (column as number) < 0 || (column as number) >= width || walls[cell] !== 0) {
      throw new EnvError(`${field} must be the [row, column] of a free cell of maze_map.`);
    }
    return cell;
  };
  return { width, height, walls, agent: freeCell("agent_location"), target: freeCell("target_location") };
}
