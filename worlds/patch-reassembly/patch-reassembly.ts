/**
 * patch_reassembly (VisGym): a board was cut into patches that now lie around it. Place every patch by its anchor (the
 * leftmost cell of its top row, which carries the id) so that the board is full, without turning any; then stop. Only
 * `stop` ends the episode and pays: 1 when the board is full, else 0; any tiling counts, not just the one that was cut.
 * Boards come from VisGym's own draws (CPython's random), so recorded seeds give the recorded patches and canvas.
 */
import { z } from "zod";
import { ConfigError, EnvError, Image, isJsonObject, type Json, PythonRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  act,
  defineWorld,
  type Fact,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  stopAction,
  type World,
} from "../../src/envs/index.ts";
import { Canvas, type Color, copyBytes } from "../../src/images/index.ts";
import { placeWords } from "../shared/places.ts";
import { type Cell, type Puzzle, planPlacements } from "./planner.ts";

const WHITE: Color = [255, 255, 255];
const BLACK: Color = [0, 0, 0];
const GRID: Color = [200, 200, 200];
const AXIS: Color = [0, 120, 255];
const PATCH_COLORS: readonly Color[] = [
  [66, 189, 167],
  [128, 127, 204],
  [65, 175, 86],
  [66, 144, 225],
  [182, 187, 179],
  [191, 142, 73],
  [201, 131, 140],
  [116, 82, 216],
  [190, 165, 122],
  [198, 148, 129],
  [131, 90, 66],
  [149, 209, 61],
];
const MAX_SIDE = 16;
/** Below this cell size numbers could not be read and are left out. */
const MIN_CELL_FOR_LABELS = 12;

const options = z.strictObject({
  rows: z.int().min(2).max(MAX_SIDE).default(6).describe("Rows of the board."),
  columns: z.int().min(2).max(MAX_SIDE).default(6).describe("Columns of the board."),
  patches: z
    .int()
    .min(2)
    .max(PATCH_COLORS.length)
    .default(5)
    .describe(
      "Number of patches, at most one for each cell. From 7 on, VisGym's parking rule may place patches on top of each other.",
    ),
  cellSize: z
    .int()
    .min(4)
    .max(96)
    .default(40)
    .describe(
      "Side of a cell, in pixels. Below 12, patches, rows and columns carry no numbers, and colours identify the patches.",
    ),
});

/** A row of neighbouring cells of one patch, drawn once; the place is relative to the anchor. */
type Strip = { readonly image: Image; readonly row: number; readonly column: number };

/** The image less the patches on it, and where the board's corner lies on it, in cells. */
type Scene = {
  readonly background: Image;
  readonly origin: Cell;
  readonly strips: readonly (readonly Strip[])[];
  /** The image as last painted, and where the patches lay then (none: not painted yet). */
  readonly frame: Uint8Array;
  anchors: readonly Cell[];
};

export class PatchReassembly implements World {
  readonly #options: z.output<typeof options>;
  #puzzle: Puzzle;
  #actions: readonly ActionSpec[];
  #parking: readonly Cell[];
  /** Where each patch's anchor is: its parking place, or a cell of the board. */
  #anchors: Cell[];
  #stopped = false;
  #scene: Scene | undefined;

  constructor(given: z.output<typeof options>) {
    const { rows, columns, patches } = given;
    if (patches > rows * columns) {
      throw new ConfigError(
        `A ${rows}×${columns} board has no room for ${patches} patches; ask for fewer patches or more cells.`,
      );
    }
    this.#options = given;
    this.#puzzle = cut(0, rows, columns, patches);
    this.#actions = actionsOf(this.#puzzle);
    this.#parking = park(this.#puzzle);
    this.#anchors = [...this.#parking];
  }

  get actions(): readonly ActionSpec[] {
    return this.#actions;
  }

  reset(seed: number): void {
    const puzzle = cut(seed, this.#options.rows, this.#options.columns, this.#options.patches);
    const parking = park(puzzle);
    this.#begin(puzzle, parking, parking, false);
  }

  #begin(puzzle: Puzzle, parking: readonly Cell[], anchors: readonly Cell[], stopped: boolean): void {
    this.#puzzle = puzzle;
    this.#actions = actionsOf(puzzle);
    this.#parking = parking;
    this.#anchors = [...anchors];
    this.#stopped = stopped;
    this.#scene = undefined;
  }

  /** The patches cover as many cells as the board has, so all on board without overlap means that it is full. */
  success(): boolean {
    return this.#stopped && this.#anchors.every((anchor) => onBoard(this.#puzzle, anchor));
  }

  act(action: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (action.name === "stop") {
      this.#stopped = true;
      return this.success()
        ? { valid: true, feedback: "You stopped with a full board.", reward: 1, ended: true }
        : { valid: true, feedback: "You stopped while the board still has empty cells.", reward: 0, ended: true };
    }
    if (action.name === "remove") {
      const patch = action.payload as number;
      if (!onBoard(this.#puzzle, this.#anchors[patch] as Cell)) {
        return refused(`Patch ${patch} is not on the board, so there is nothing to remove.`);
      }
      this.#anchors[patch] = this.#parking[patch] as Cell;
      return { valid: true, reward: 0, ended: false };
    }
    const [patch, row, column] = action.payload as readonly [number, number, number];
    const problem = obstacle(this.#puzzle, this.#anchors, patch, [row, column]);
    if (problem !== undefined) return refused(`Patch ${patch} can't be placed at (${row}, ${column}): ${problem}.`);
    this.#anchors[patch] = [row, column];
    return { valid: true, reward: 0, ended: false };
  }

  observe(mode: ObservationMode): Observation {
    return mode === "text" ? boardText(this.#puzzle, this.#anchors) : this.#frame();
  }

  #frame(): Image {
    this.#scene ??= drawScene(this.#puzzle, this.#parking, this.#options.cellSize);
    const scene = this.#scene;
    if (scene.anchors.some((drawn, patch) => drawn !== this.#anchors[patch]) || scene.anchors.length === 0) {
      this.#paint(scene);
    }
    return new Image(scene.background.width, scene.background.height, copyBytes(scene.frame));
  }

  /** Frames are over a megabyte, so one is kept painted and only copied out while no patch moves. */
  #paint(scene: Scene): void {
    const { background, origin, strips, frame } = scene;
    const { cellSize } = this.#options;
    frame.set(background.data);
    for (const [patch, [row, column]] of this.#anchors.entries()) {
      for (const strip of strips[patch] ?? []) {
        const bytes = strip.image.width * 3;
        const top = (row + strip.row + origin[0]) * cellSize;
        const left = (column + strip.column + origin[1]) * cellSize;
        for (let y = 0; y < strip.image.height; y++) {
          frame.set(strip.image.data.subarray(y * bytes, (y + 1) * bytes), ((top + y) * background.width + left) * 3);
        }
      }
    }
    scene.anchors = [...this.#anchors];
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    if (style === "brief") return "Place every patch so that the board is full, then stop.";
    const { rows, columns, patches } = this.#puzzle;
    const ids = `${patches.length} patches with ids 0 to ${patches.length - 1}`;
    const anchors = "the leftmost cell of the patch's top row";
    const view =
      mode === "text"
        ? "The board comes first: a dot is an empty cell, a number the id of the patch that lies there. Below it, each patch " +
          "that is off the board is drawn by itself, with * for its anchor."
        : this.#options.cellSize < MIN_CELL_FOR_LABELS
          ? "Patches that are not on the board lie around it, each in its own colour."
          : "The numbers in blue count rows and columns from 0. Patches that are not on the board lie around it; each has its " +
            "own colour and shows its id on its anchor.";
    return (
      `You see a board of ${rows}×${columns} cells (rows × columns) that was cut into ${ids}. ${view} The anchor is ${anchors}, ` +
      "and you say where a patch goes by the row and column of its anchor. Patches can't be turned or flipped, must lie " +
      "inside the board and must not overlap. One that is on the board can be placed anew or removed. Fill the whole " +
      "board, then stop. You succeed if every cell is covered when you stop."
    );
  }

  solve(): Action[] {
    if (this.#stopped) return [];
    const placed = this.#anchors.map((anchor) => (onBoard(this.#puzzle, anchor) ? anchor : undefined));
    const steps = planPlacements(this.#puzzle, placed).map(({ patch, to }) =>
      to === undefined ? act("remove", patch) : act("place", [patch, ...to]),
    );
    return [...steps, act("stop")];
  }

  /** Where the anchor of every patch is: on the board, or on which side of it. */
  facts(): Fact[] {
    const { rows, columns } = this.#puzzle;
    const beyond = (at: number, size: number) => (at < 0 ? -1 : at >= size ? 1 : 0);
    return this.#anchors.map(([row, column], patch) => {
      const on = onBoard(this.#puzzle, [row, column]);
      const relations = on ? ["on"] : placeWords(beyond(row, rows), beyond(column, columns));
      return { subject: `patch ${patch}`, relations, object: "board" };
    });
  }

  /** VisGym's `init_state`, and whether the agent has stopped. */
  save(): Json {
    const { patches, home } = this.#puzzle;
    return {
      patches: patches.map((cells, patch) => {
        const [row, column] = home[patch] as Cell;
        return cells.map(([r, c]) => [row + r, column + c]);
      }),
      patch_anchor: home.map((cell) => [...cell]),
      parking_slot: this.#parking.map((cell) => [...cell]),
      current_state: this.#anchors.map((cell) => [...cell]),
      stopped: this.#stopped,
    };
  }

  load(state: Json): void {
    if (!isJsonObject(state))
      throw new EnvError("A patch_reassembly state must be an object with patches and current_state.");
    const stopped = state.stopped ?? false;
    if (typeof stopped !== "boolean") throw new EnvError("stopped must be true or false.");
    const puzzle = loadPuzzle(state.patches);
    const count = puzzle.patches.length;
    const home = loadCells(state.patch_anchor ?? puzzle.home, "patch_anchor", count);
    if (!home.every((cell, patch) => same(cell, puzzle.home[patch] as Cell))) {
      throw new EnvError("patch_anchor must name the leftmost cell of each patch's top row.");
    }
    const parking = loadCells(state.parking_slot ?? park(puzzle), "parking_slot", count);
    if (parking.some((cell) => onBoard(puzzle, cell) || cell.some((at) => Math.abs(at) > 256))) {
      throw new EnvError("parking_slot must hold places around the board, not on it and at most 256 cells away.");
    }
    const anchors = loadCells(state.current_state ?? parking, "current_state", count);
    for (const [patch, anchor] of anchors.entries()) {
      if (same(anchor, parking[patch] as Cell)) continue;
      const problem = onBoard(puzzle, anchor)
        ? obstacle(puzzle, anchors, patch, anchor)
        : "that is neither on the board nor its parking place";
      if (problem !== undefined)
        throw new EnvError(`current_state puts patch ${patch} at [${anchor.join(", ")}]: ${problem}.`);
    }
    this.#begin(puzzle, parking, anchors, stopped);
  }
}

function refused(feedback: string): Outcome {
  return { valid: false, feedback, reward: 0, ended: false };
}

function actionsOf({ rows, columns, patches }: Puzzle): readonly ActionSpec[] {
  const patch = { type: "int", name: "patch", min: 0, max: patches.length - 1 } as const;
  return [
    {
      name: "place",
      description: "put a patch on the board with its anchor at this cell",
      arg: {
        type: "tuple",
        items: [
          patch,
          { type: "int", name: "row", min: 0, max: rows - 1 },
          { type: "int", name: "column", min: 0, max: columns - 1 },
        ],
      },
      example: [0, Math.min(2, rows - 1), Math.min(3, columns - 1)],
    },
    { name: "remove", description: "take a patch off the board", arg: patch, example: 0 },
    stopAction("end the episode, once the board is full"),
  ];
}

function same(a: Cell, b: Cell): boolean {
  return a[0] === b[0] && a[1] === b[1];
}

function onBoard({ rows, columns }: Puzzle, [row, column]: Cell): boolean {
  return row >= 0 && column >= 0 && row < rows && column < columns;
}

/** Why a patch can't lie there; undefined when it can. Where the patch itself lies now does not count. */
function obstacle(puzzle: Puzzle, anchors: readonly Cell[], patch: number, [row, column]: Cell): string | undefined {
  const cells = (puzzle.patches[patch] ?? []).map(([r, c]): Cell => [row + r, column + c]);
  if (!cells.every((cell) => onBoard(puzzle, cell))) return "it would stick out of the board";
  for (const [other, [otherRow, otherColumn]] of anchors.entries()) {
    if (other === patch || !onBoard(puzzle, [otherRow, otherColumn])) continue;
    const taken = puzzle.patches[other] ?? [];
    if (cells.some(([r, c]) => taken.some((cell) => same(cell, [r - otherRow, c - otherColumn])))) {
      return `it would overlap patch ${other}`;
    }
  }
  return undefined;
}

/** Cuts the board: patches grow from random cells by turns, each claiming the free neighbours of its oldest cell. */
function cut(seed: number, rows: number, columns: number, patches: number): Puzzle {
  const seeds = new PythonRandom(seed).sample(rows * columns, patches);
  const owners = new Int8Array(rows * columns).fill(-1);
  for (const [patch, cell] of seeds.entries()) owners[cell] = patch;
  const queues = seeds.map((cell) => [cell]);
  while (queues.some((queue) => queue.length > 0)) {
    for (const [patch, queue] of queues.entries()) {
      const cell = queue.shift();
      if (cell === undefined) continue;
      const [row, column] = [Math.floor(cell / columns), cell % columns];
      const around: readonly Cell[] = [
        [row + 1, column],
        [row - 1, column],
        [row, column + 1],
        [row, column - 1],
      ];
      for (const [r, c] of around) {
        const next = r * columns + c;
        if (r < 0 || c < 0 || r >= rows || c >= columns || owners[next] !== -1) continue;
        owners[next] = patch;
        queue.push(next);
      }
    }
  }
  const cells: Cell[][] = seeds.map(() => []);
  owners.forEach((patch, cell) => {
    cells[patch]?.push([Math.floor(cell / columns), cell % columns]);
  });
  return puzzleOf(rows, columns, cells);
}

/** From the cells of each patch, given row by row. */
function puzzleOf(rows: number, columns: number, cells: readonly (readonly Cell[])[]): Puzzle {
  const home = cells.map((patch) => patch[0] as Cell);
  const patches = cells.map((patch, i) => {
    const [row, column] = home[i] as Cell;
    return patch.map(([r, c]): Cell => [r - row, c - column]);
  });
  return { rows, columns, patches, home };
}

/** Parking places, by turns above, right of, below and left of the board. Many large patches may lie over each other. */
function park({ rows, columns, patches }: Puzzle): Cell[] {
  const next = [0, 0, 0, 0];
  return patches.map((cells, patch): Cell => {
    const side = patch % 4;
    const at = next[side] as number;
    const lastRow = Math.max(...cells.map(([r]) => r));
    const firstColumn = Math.min(...cells.map(([, c]) => c));
    const lastColumn = Math.max(...cells.map(([, c]) => c));
    const along = side % 2 === 0 ? lastColumn - firstColumn + 1 : lastRow + 1;
    next[side] = at + along + (side === 0 || side === 3 ? 2 : 1);
    if (side === 0) return [-(2 + lastRow), at - firstColumn];
    if (side === 1) return [at, columns + 1 - firstColumn];
    if (side === 2) return [rows + 1, at - firstColumn];
    return [at, -(2 + lastColumn)];
  });
}

/** The canvas holds the board, all parking places and a margin of one cell, however many patches are parked. */
function drawScene(puzzle: Puzzle, parking: readonly Cell[], cellSize: number): Scene {
  const { rows, columns, patches } = puzzle;
  const parked = patches.flatMap((cells, patch) => {
    const [row, column] = parking[patch] as Cell;
    return cells.map(([r, c]): Cell => [row + r, column + c]);
  });
  const top = Math.min(0, ...parked.map(([r]) => r)) - 1;
  const left = Math.min(0, ...parked.map(([, c]) => c)) - 1;
  const bottom = Math.max(rows - 1, ...parked.map(([r]) => r)) + 2;
  const right = Math.max(columns - 1, ...parked.map(([, c]) => c)) + 2;
  const canvas = new Canvas((right - left) * cellSize, (bottom - top) * cellSize, WHITE);
  const [x, y] = [-left * cellSize, -top * cellSize];
  for (let row = 0; row <= rows; row++) canvas.fillRect(x, y + row * cellSize, columns * cellSize + 1, 1, GRID);
  for (let column = 0; column <= columns; column++)
    canvas.fillRect(x + column * cellSize, y, 1, rows * cellSize + 1, GRID);
  for (let row = 0; row < rows; row++) label(canvas, row, x - cellSize, y + row * cellSize, cellSize, AXIS);
  for (let column = 0; column < columns; column++) {
    label(canvas, column, x + column * cellSize, y - cellSize, cellSize, AXIS);
  }
  return {
    background: new Image(canvas.width, canvas.height, canvas.data),
    origin: [-top, -left],
    strips: patches.map((cells, patch) => drawStrips(cells, patch, cellSize)),
    frame: new Uint8Array(canvas.data.length),
    anchors: [],
  };
}

/** Cells have a black outline of one pixel that they share with their neighbours. */
function drawStrips(cells: readonly Cell[], patch: number, cellSize: number): Strip[] {
  const color = PATCH_COLORS[patch] ?? WHITE;
  const has = (row: number, column: number) => cells.some((cell) => same(cell, [row, column]));
  return cells
    .filter(([row, column]) => !has(row, column - 1))
    .map(([row, column]) => {
      let length = 1;
      while (has(row, column + length)) length++;
      const canvas = new Canvas(length * cellSize + 1, cellSize + 1, BLACK);
      for (let i = 0; i < length; i++) canvas.fillRect(i * cellSize + 1, 1, cellSize - 1, cellSize - 1, color);
      if (row === 0 && column === 0) {
        label(canvas, patch, 0, 0, cellSize, color[0] + color[1] + color[2] > 3 * 128 ? BLACK : WHITE);
      }
      return { image: new Image(canvas.width, canvas.height, canvas.data), row, column };
    });
}

/** A number in the middle of the cell whose corner is at (x, y). */
function label(canvas: Canvas, value: number, x: number, y: number, cellSize: number, color: Color): void {
  if (cellSize < MIN_CELL_FOR_LABELS) return;
  const size = 0.76 * cellSize * (value < 10 ? 1 : 0.8);
  const middle = cellSize / 2;
  canvas.text(String(value), x + middle, y + middle, { size, color, align: "center", baseline: "middle" });
}

/** VisGym's characters: the board, then every patch that is off it. */
function boardText(puzzle: Puzzle, anchors: readonly Cell[]): string {
  const { rows, columns, patches } = puzzle;
  const board = Array.from({ length: rows }, () => new Array<string>(columns).fill(" . "));
  const parked: string[] = [];
  for (const [patch, [row, column]] of anchors.entries()) {
    const cells = patches[patch] ?? [];
    if (onBoard(puzzle, [row, column])) {
      for (const [r, c] of cells) (board[row + r] as string[])[column + c] = ` ${String(patch).padEnd(2)}`;
    } else {
      parked.push("", `Patch ${patch}:`, ...shapeLines(cells, patch));
    }
  }
  const numbers = Array.from({ length: columns }, (_, column) => String(column).padEnd(2));
  return [
    `   ${numbers.join(" ")}`,
    `  ${"-".repeat(3 * columns)}`,
    ...board.map((cells, row) => `${String(row).padEnd(2)}|${cells.join("")}`),
    "",
    "--- Parked Patches ---",
    ...(parked.length > 0 ? parked : ["  (None)"]),
  ].join("\n");
}

function shapeLines(cells: readonly Cell[], patch: number): string[] {
  const firstColumn = Math.min(...cells.map(([, c]) => c));
  const lines: string[][] = [];
  for (const [row, column] of cells) {
    lines[row] ??= [];
    (lines[row] as string[])[column - firstColumn] = row === 0 && column === 0 ? "*" : String(patch % 10);
  }
  return lines.map((line) => `  ${Array.from(line, (character) => character ?? " ").join("")}`);
}

function loadCells(value: unknown, field: string, count?: number): Cell[] {
  const isCell = (cell: unknown) => Array.isArray(cell) && cell.length === 2 && cell.every(Number.isInteger);
  if (!Array.isArray(value) || !value.every(isCell) || (count !== undefined && value.length !== count)) {
    throw new EnvError(`${field} must be a list of${count === undefined ? "" : ` ${count}`} cells [row, column].`);
  }
  return value.map(([row, column]): Cell => [row, column]);
}

/** The board is as large as the patches say; together they must cover each of its cells once. */
function loadPuzzle(value: Json | undefined): Puzzle {
  if (!Array.isArray(value) || value.length < 1 || value.length > PATCH_COLORS.length) {
    throw new EnvError(
      `patches must be a list of 1 to ${PATCH_COLORS.length} patches, each a list of cells [row, column].`,
    );
  }
  const patches = value.map((cells, patch) =>
    loadCells(cells, `patches[${patch}]`).sort(([r, c], [s, d]) => r - s || c - d),
  );
  const all = patches.flat();
  const rows = Math.max(...all.map(([r]) => r)) + 1;
  const columns = Math.max(...all.map(([, c]) => c)) + 1;
  const distinct = new Set(all.map(([r, c]) => `${r},${c}`));
  const inside = all.every(([r, c]) => r >= 0 && c >= 0) && rows <= MAX_SIDE && columns <= MAX_SIDE;
  if (
    !inside ||
    patches.some((cells) => cells.length === 0) ||
    distinct.size !== all.length ||
    all.length !== rows * columns
  ) {
    throw new EnvError(
      `patches must cover every cell of a board of at most ${MAX_SIDE}×${MAX_SIDE} cells exactly once.`,
    );
  }
  return puzzleOf(rows, columns, patches);
}

export const patchReassembly = defineWorld({
  id: "patch_reassembly",
  summary: "place patches on a board until they fill it, then stop",
  options,
  difficulties: { easy: { rows: 6, columns: 6, patches: 5 }, hard: { rows: 8, columns: 8, patches: 6 } },
  variants: { eval: { easy: {}, hard: {} }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new PatchReassembly(given),
});
