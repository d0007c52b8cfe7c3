/**
 * sliding_block (VisGym): a Klotski board. Slide ten numbered blocks, one cell at a time, until the current board (right)
 * equals the target board (left), then stop. Blocks keep their identity: two blocks of one shape that have traded places
 * are not solved. Only `stop` ends the episode and pays: 1 when every block is where the target has it, else 0.
 * Targets come from VisGym's own draws (numpy's legacy RandomState), so recorded seeds give the recorded boards.
 */
import { z } from "zod";
import { EnvError, Image, isJsonObject, type Json, PythonRandom } from "../../src/core/index.ts";
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
import { Canvas, type Color } from "../../src/images/index.ts";
import { placeWords } from "../shared/places.ts";
import {
  BLOCKS,
  COLUMNS,
  cellsCovered,
  type Layout,
  ROWS,
  type Slide,
  shortestSlides,
  slides,
  trySlide,
} from "./klotski.ts";

const COLORS: Readonly<Record<(typeof BLOCKS)[number]["color"], Color>> = {
  red: [255, 0, 0],
  green: [0, 255, 0],
  blue: [0, 0, 255],
  yellow: [255, 255, 0],
};
const BLACK: Color = [0, 0, 0];
const DIRECTIONS = ["up", "right", "down", "left"] as const;

/** Below these cell sizes the titles, and then the ids, could not be read and are left out. */
const MIN_CELL_FOR_TITLES = 24;
const MIN_CELL_FOR_IDS = 12;

const START: Layout = Uint8Array.from(BLOCKS, ({ start: [row, column] }) => row * COLUMNS + column);

const options = z.strictObject({
  shuffleMoves: z
    .int()
    .min(0)
    .max(10_000)
    .default(30)
    .describe("Number of random moves from the start to the target. 0 and 1 leave the target equal to the start."),
  cellSize: z
    .int()
    .min(4)
    .max(128)
    .default(50)
    .describe("Side of a cell, in pixels. Below 24 there are no titles; below 12 the blocks carry no ids."),
});

export class SlidingBlock implements World {
  readonly actions: readonly ActionSpec[] = [
    {
      name: "move",
      description: "slide a block of the current board one cell",
      arg: {
        type: "tuple",
        items: [
          { type: "int", name: "block", min: 1, max: BLOCKS.length },
          { type: "int", name: "direction", min: 0, max: 3, labels: DIRECTIONS },
        ],
      },
      example: [7, 1],
    },
    stopAction("end the episode, once both boards are the same"),
  ];

  readonly #shuffleMoves: number;
  readonly #look: Look;
  #original: Layout = START;
  #target: Layout = START;
  #current: Layout = START;
  #stopped = false;
  /** Titles and the target board, drawn when first looked at. */
  #background: Image | undefined;

  constructor({ shuffleMoves, cellSize }: z.output<typeof options>) {
    this.#shuffleMoves = shuffleMoves;
    this.#look = new Look(cellSize);
    this.reset(0);
  }

  reset(seed: number): void {
    this.#begin(START, shuffled(seed, this.#shuffleMoves), START, false);
  }

  #begin(original: Layout, target: Layout, current: Layout, stopped: boolean): void {
    this.#original = original;
    this.#target = target;
    this.#current = current.slice();
    this.#stopped = stopped;
    this.#background = undefined;
  }

  success(): boolean {
    return this.#stopped && this.#current.every((cell, index) => cell === this.#target[index]);
  }

  act(action: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (action.name === "stop") {
      this.#stopped = true;
      return this.success()
        ? { valid: true, feedback: "You stopped with every block in its place.", reward: 1, ended: true }
        : { valid: true, feedback: "You stopped while the boards still differ.", reward: 0, ended: true };
    }
    const [id, direction] = action.payload as readonly [number, number];
    const moved = trySlide(this.#current, { index: id - 1, direction });
    if ("blocked" in moved) {
      const feedback = `Block ${id} can't move ${DIRECTIONS[direction]}: ${this.#obstacle(moved.blocked)} in the way.`;
      return { valid: false, feedback, reward: 0, ended: false };
    }
    this.#current[id - 1] = moved.cell;
    return { valid: true, reward: 0, ended: false };
  }

  #obstacle(blocked: number | "edge"): string {
    if (blocked === "edge") return "the edge of the board is";
    const ids = BLOCKS.filter((_, i) => (cellsCovered(i, this.#current[i] as number) & blocked) !== 0).map(
      ({ id }) => id,
    );
    return ids.length === 1 ? `block ${ids[0]} is` : `blocks ${ids.join(" and ")} are`;
  }

  observe(mode: ObservationMode): Observation {
    if (mode === "text") return boardsText(this.#target, this.#current);
    this.#background ??= this.#look.background(this.#target);
    return this.#look.frame(this.#background, this.#current);
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    if (style === "brief") return "Slide blocks until the right board equals the left, then stop.";
    const view =
      mode === "text"
        ? "Each character is a cell: a dot is empty, and a digit is part of the block with that id (0 stands for block 10)."
        : "Red, green, blue and yellow rectangles are blocks, each with its id; white cells are empty.";
    return (
      `You see two boards of ${ROWS} rows and ${COLUMNS} columns side by side: the target on the left and the current board on ` +
      `the right. ${view} Ten blocks with ids 1 to 10 lie on each. Slide blocks of the current board, one cell up, right, ` +
      "down or left at a time and only into empty cells, until it looks exactly like the target; then stop. You succeed " +
      "if, when you stop, every block is where the target has the block of the same id; blocks of one shape do not stand " +
      "in for each other. A move that is blocked changes nothing."
    );
  }

  solve(): Action[] {
    if (this.#stopped) return [];
    const plan = shortestSlides(this.#current, this.#target);
    if (plan === undefined) return [];
    return [...plan.map(({ index, direction }) => act("move", [index + 1, direction])), act("stop")];
  }

  /** Where every block lies, seen from its place on the target board. */
  facts(): Fact[] {
    return BLOCKS.map(({ id }, i) => {
      const [from, to] = [this.#target[i] as number, this.#current[i] as number];
      const down = Math.floor(to / COLUMNS) - Math.floor(from / COLUMNS);
      return {
        subject: `block ${id}`,
        relations: placeWords(down, (to % COLUMNS) - (from % COLUMNS)),
        object: "its place",
      };
    });
  }

  /** VisGym's `init_state` as JSON writes it, and whether the agent has stopped. */
  save(): Json {
    return {
      original_blocks: saveLayout(this.#original),
      target_blocks: saveLayout(this.#target),
      current_blocks: saveLayout(this.#current),
      stopped: this.#stopped,
    };
  }

  load(state: Json): void {
    if (!isJsonObject(state))
      throw new EnvError("A sliding_block state must be an object with target_blocks and current_blocks.");
    const stopped = state.stopped ?? false;
    if (typeof stopped !== "boolean") throw new EnvError("stopped must be true or false.");
    const current = loadLayout(state.current_blocks, "current_blocks");
    const original = state.original_blocks === undefined ? START : loadLayout(state.original_blocks, "original_blocks");
    this.#begin(original, loadLayout(state.target_blocks, "target_blocks"), current, stopped);
  }
}

/** The target of an episode: the start after VisGym's three phases of shuffling. */
function shuffled(seed: number, moves: number): Layout {
  const draw = legacyRandint(seed);
  const layout = START.slice();
  const slide = (move: Slide): boolean => {
    const moved = trySlide(layout, move);
    if ("cell" in moved) layout[move.index] = moved.cell;
    return "cell" in moved;
  };
  const anyOf = (moves: readonly Slide[]) => moves[draw(moves.length)] as Slide;

  // First the big red block, wherever it can go.
  for (let i = 0; i < Math.floor(moves / 3); i++) {
    if (!slide({ index: 0, direction: draw(4) })) slide(anyOf(slides(layout)));
  }
  // Then any block, not straight back.
  let last: Slide | undefined;
  for (let i = 0; i < Math.floor((2 * moves) / 3); i++) {
    const all = slides(layout);
    const onward = all.filter((s) => s.index !== last?.index || s.direction !== (last.direction + 2) % 4);
    last = anyOf(onward.length > 0 ? onward : all);
    slide(last);
  }
  // At last those that are still where they began: the first way that is open, without a draw.
  let budget = Math.floor(moves / 6);
  for (let index = 0; index < BLOCKS.length && budget > 0; index++) {
    if (layout[index] !== START[index]) continue;
    if ([0, 1, 2, 3].some((direction) => slide({ index, direction }))) budget -= 1;
  }
  return layout;
}

/**
 * `randint(n)` of numpy's `RandomState(seed)`: the twister that CPython uses, seeded by a single word, its low bits taken
 * under a mask until they are below n. Seeds of more than one word, which RandomState refuses, are seeded CPython's way.
 */
function legacyRandint(seed: number): (n: number) => number {
  const twister = new PythonRandom(seed);
  if (seed < 2 ** 32) {
    const words = new Uint32Array(624);
    words[0] = seed;
    for (let i = 1; i < words.length; i++) {
      const before = words[i - 1] as number;
      words[i] = Math.imul(before ^ (before >>> 30), 1812433253) + i;
    }
    twister.load({ kind: "mt19937", words: [...words], next: words.length });
  }
  return (n) => {
    if (n === 1) return 0;
    const mask = 2 ** (32 - Math.clz32(n - 1)) - 1;
    for (;;) {
      const drawn = (twister.getrandbits(32) & mask) >>> 0;
      if (drawn < n) return drawn;
    }
  };
}

/** Sizes, tiles and images at one cell size. */
class Look {
  readonly #cell: number;
  readonly #gap: number;
  readonly #titleHeight: number;
  /** Outlines lie along a block's outermost pixels and reach this far to both sides of them. */
  readonly #reach: number;
  readonly #tiles: readonly Image[];

  constructor(cellSize: number) {
    const titled = cellSize >= MIN_CELL_FOR_TITLES;
    this.#cell = cellSize;
    this.#gap = titled ? Math.round(cellSize * 0.4) : cellSize;
    this.#titleHeight = titled ? Math.round(cellSize * 0.8) : 0;
    this.#reach = Math.round(cellSize / 50);
    this.#tiles = BLOCKS.map((_, index) => this.#tile(index));
  }

  #tile(index: number): Image {
    const { id, rows, columns, color } = BLOCKS[index] as (typeof BLOCKS)[number];
    const [cell, reach] = [this.#cell, this.#reach];
    const [width, height] = [columns * cell + 2 * reach, rows * cell + 2 * reach];
    const tile = new Canvas(width, height, BLACK);
    const line = 2 * reach + 1;
    tile.fillRect(line, line, width - 2 * line, height - 2 * line, COLORS[color]);
    if (cell >= MIN_CELL_FOR_IDS) {
      // Ids fill more of a small cell, so that they can still be read.
      const size = Math.max(0.44 * cell, Math.min(11, 0.7 * cell));
      tile.text(String(id), width / 2, height / 2, {
        size,
        color: BLACK,
        align: "center",
        baseline: "middle",
        weight: cell < 30 ? 1.4 : 1.8,
      });
    }
    return new Image(width, height, tile.data);
  }

  #board(layout: Layout): Image {
    const board = new Canvas(COLUMNS * this.#cell, ROWS * this.#cell);
    for (const [index, tile] of this.#tiles.entries()) {
      const at = layout[index] as number;
      const x = (at % COLUMNS) * this.#cell - this.#reach;
      board.draw(tile, x, Math.floor(at / COLUMNS) * this.#cell - this.#reach);
    }
    return new Image(board.width, board.height, board.data);
  }

  /** Titles and the target board; the right half is empty. */
  background(target: Layout): Image {
    const width = COLUMNS * this.#cell;
    const canvas = new Canvas(2 * width + this.#gap, ROWS * this.#cell + this.#titleHeight);
    if (this.#titleHeight > 0) {
      const style = {
        size: 0.46 * this.#cell,
        color: BLACK,
        align: "center",
        baseline: "bottom",
        weight: 1.8,
      } as const;
      const y = Math.round(0.62 * this.#cell);
      canvas.text("target board", width / 2, y, style);
      canvas.text("current board", width * 1.5 + this.#gap, y, style);
    }
    canvas.draw(this.#board(target), 0, this.#titleHeight);
    return new Image(canvas.width, canvas.height, canvas.data);
  }

  frame(background: Image, current: Layout): Image {
    const canvas = Canvas.from(background);
    canvas.draw(this.#board(current), COLUMNS * this.#cell + this.#gap, this.#titleHeight);
    return new Image(canvas.width, canvas.height, canvas.data);
  }
}

/** VisGym's characters: the last digit of each id, dots for empty cells. */
function boardsText(target: Layout, current: Layout): string {
  const [left, right] = [target, current].map(boardRows) as [string[], string[]];
  return ["Target   Current", "-".repeat(11), ...left.map((row, i) => `${row} | ${right[i]}`)].join("\n");
}

function boardRows(layout: Layout): string[] {
  const cells = new Array<string>(ROWS * COLUMNS).fill(".");
  for (const [index, { id }] of BLOCKS.entries()) {
    const covered = cellsCovered(index, layout[index] as number);
    for (let cell = 0; cell < cells.length; cell++) if ((covered >> cell) & 1) cells[cell] = String(id % 10);
  }
  return Array.from({ length: ROWS }, (_, row) => cells.slice(row * COLUMNS, (row + 1) * COLUMNS).join(""));
}

function saveLayout(layout: Layout): Json {
  const entries = BLOCKS.map(({ id, rows, columns, color }, index) => {
    const cell = layout[index] as number;
    const position = [Math.floor(cell / COLUMNS), cell % COLUMNS];
    return [String(id), { size: [rows, columns], color, is_target: id === 1, position }];
  });
  return Object.fromEntries(entries);
}

function loadLayout(value: Json | undefined, field: string): Layout {
  if (!isJsonObject(value))
    throw new EnvError(`${field} must be an object of blocks by id, "1" to "${BLOCKS.length}".`);
  const strangers = Object.keys(value).filter((key) => !BLOCKS.some(({ id }) => String(id) === key));
  if (strangers.length > 0)
    throw new EnvError(`${field} has a block ${strangers[0]}; ids run from 1 to ${BLOCKS.length}.`);
  let taken = 0;
  return Uint8Array.from(BLOCKS, ({ id, rows, columns }, index) => {
    const name = `${field}.${id}`;
    const entry = value[id];
    const { size, position } = isJsonObject(entry) ? entry : {};
    if (!isPair(position)) throw new EnvError(`${name}.position must be [row, column].`);
    if (size !== undefined && !(isPair(size) && size[0] === rows && size[1] === columns)) {
      throw new EnvError(`${name}.size must be [${rows}, ${columns}], the size that block ${id} always has.`);
    }
    const [row, column] = position;
    const inside = row >= 0 && column >= 0 && row + rows <= ROWS && column + columns <= COLUMNS;
    if (!inside) throw new EnvError(`${name}.position [${row}, ${column}] puts the block off the board.`);
    const cell = row * COLUMNS + column;
    const covered = cellsCovered(index, cell);
    if ((taken & covered) !== 0) throw new EnvError(`${name}.position [${row}, ${column}] overlaps another block.`);
    taken |= covered;
    return cell;
  });
}

function isPair(value: Json | undefined): value is readonly [number, number] {
  return Array.isArray(value) && value.length === 2 && value.every(Number.isInteger);
}

export const slidingBlock = defineWorld({
  id: "sliding_block",
  summary: "slide numbered Klotski blocks until the board equals the target, then stop",
  options,
  difficulties: { easy: { shuffleMoves: 30 }, hard: { shuffleMoves: 90 } },
  variants: { eval: { easy: {}, hard: {} }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new SlidingBlock(given),
});
