/**
 * frozen_lake (VAGEN, after gymnasium's FrozenLake): cross the ice to the goal without stepping into a hole. Reaching
 * either ends the episode, and only the goal pays. Boards equal VAGEN's for every seed (with `minSteps` 1). Slips are
 * drawn from the episode's own generator, which carries on where the board's draws ended and is part of the saved
 * state, so an episode on slippery ice can be replayed; the model is told of slipping only when the ice is slippery.
 */

import { z } from "zod";
import {
  ConfigError,
  EnvError,
  errorMessage,
  Image,
  isJsonObject,
  type Json,
  NumpyRandom,
} from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  act,
  bare,
  defineWorld,
  type Fact,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  type World,
} from "../../src/envs/index.ts";
import { Canvas } from "../../src/images/index.ts";
import { placeWords } from "../shared/places.ts";
import { type Board, boardProblem, drawBoard, MAX_SIDE, neighbour, shortestWay, toBoard, toDesc } from "./board.ts";
import { type Ground, lakeTiles, SHORE } from "./tiles.ts";

/** By direction number. */
const DIRECTIONS = ["left", "down", "right", "up"] as const;
const EDGES = ["on the left", "below", "on the right", "above"] as const;

const options = z.strictObject({
  size: z.int().min(2).max(MAX_SIDE).default(4).describe("Cells along each side."),
  p: z.number().min(0).max(1).default(0.8).describe("Probability that a cell is ice rather than a hole."),
  slippery: z
    .boolean()
    .default(false)
    .describe("Each move goes in the chosen direction or to either side of it, with probability 1/3 each."),
  slipProbability: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe("Probability that a sideways move replaces the chosen one, before `slippery` applies."),
  minSteps: z.int().min(1).default(1).describe("Draw boards again whose shortest path has fewer moves."),
  cellSize: z
    .int()
    .min(4)
    .max(128)
    .optional()
    .describe("Side of a cell, in pixels. Without it, 64, or less so that the frame is at most 512 pixels wide."),
  board: z
    .array(z.string())
    .optional()
    .superRefine((rows, context) => {
      const problem = rows === undefined ? undefined : boardProblem(rows);
      if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
    })
    .describe('Your own board, such as `["SFF", "FHF", "FFG"]`. `size`, `p` and `minSteps` are then unused.'),
  successReward: z.number().default(1).describe("Reward for reaching the goal."),
  window: z
    .int()
    .min(3)
    .max(2 * MAX_SIDE - 1)
    .refine((side) => side % 2 === 1, "must be odd, so that the player is in the middle")
    .optional()
    .describe(
      "Side of the square of cells around the player that the agent sees, an odd number. By default the agent sees the whole lake.",
    ),
  glimpse: z.boolean().default(false).describe("With `window`: the whole lake is seen before the first move."),
});

export class FrozenLake implements World {
  readonly actions: readonly ActionSpec[] = DIRECTIONS.map((name) => bare(name, `move one cell ${name}`));

  readonly #options: z.output<typeof options>;
  #random = new NumpyRandom(0);
  #board: Board;
  /** The player's cell. */
  #player: number;
  /** With a window: whether a move was made, and the cells that the agent has seen so far. */
  #moved = false;
  #seen = new Set<number>();
  /** Everything but the player, drawn when first looked at. */
  #image: Image | undefined;

  constructor(given: z.output<typeof options>) {
    if (given.glimpse && given.window === undefined) {
      throw new ConfigError(
        "frozen_lake: glimpse shows the whole lake before a window hides it; set window, for example to 3, or leave glimpse out.",
      );
    }
    this.#options = given;
    this.#board = this.#newBoard();
    this.#player = this.#board.cells.indexOf("S");
    this.#begin();
  }

  reset(seed: number): void {
    this.#random = new NumpyRandom(seed);
    this.#board = this.#newBoard();
    this.#player = this.#board.cells.indexOf("S");
    this.#begin();
  }

  #begin(moved = false): void {
    this.#image = undefined;
    this.#moved = moved;
    this.#seen.clear();
    this.#look();
  }

  /** The cells of the window, row by row: undefined where they are outside of the lake. Undefined where the whole lake is in view. */
  #inWindow(): (number | undefined)[] | undefined {
    const { window, glimpse } = this.#options;
    if (window === undefined || (glimpse && !this.#moved)) return undefined;
    const { rows, columns } = this.#board;
    const top = Math.floor(this.#player / columns) - (window - 1) / 2;
    const left = (this.#player % columns) - (window - 1) / 2;
    return Array.from({ length: window ** 2 }, (_, i) => {
      const [row, column] = [top + Math.floor(i / window), left + (i % window)];
      return isIndex(row, rows) && isIndex(column, columns) ? row * columns + column : undefined;
    });
  }

  /** What is in view now has been seen. */
  #look(): void {
    if (this.#options.window === undefined) return;
    for (const cell of this.#inWindow() ?? [...this.#board.cells].keys()) if (cell !== undefined) this.#seen.add(cell);
  }

  #newBoard(): Board {
    const { board, size, p, minSteps } = this.#options;
    return board === undefined ? drawBoard(this.#random, size, p, minSteps) : toBoard(board);
  }

  /** What is under the player. */
  get #ground(): string {
    return this.#board.cells.charAt(this.#player);
  }

  get #ended(): boolean {
    return this.#ground === "G" || this.#ground === "H";
  }

  get #slips(): boolean {
    return this.#options.slippery || this.#options.slipProbability > 0;
  }

  success(): boolean {
    return this.#ground === "G";
  }

  act(action: Action): Outcome {
    if (this.#ended) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    const wanted = DIRECTIONS.indexOf(action.name as (typeof DIRECTIONS)[number]);
    const actual = this.#slip(wanted);
    const intended = neighbour(this.#board, this.#player, wanted);
    const next = neighbour(this.#board, this.#player, actual);
    this.#player = next ?? this.#player;
    this.#moved = true;
    this.#look();
    if (this.#ground === "G") {
      const reward = this.#options.successReward;
      return { valid: true, feedback: "You reached the goal.", reward, ended: true };
    }
    const slid = actual === wanted ? "" : `You slipped and went ${DIRECTIONS[actual]}. `;
    if (this.#ground === "H") {
      const feedback = `${slid}You fell into a hole.`;
      return { valid: true, feedback, reward: 0, ended: true, ending: "fell into a hole" };
    }
    if (next === undefined) {
      const edge = `The lake ends ${EDGES[actual]}, so you stayed.`;
      const hint = intended === undefined ? " Move another way." : "";
      return { valid: intended !== undefined, feedback: slid + edge + hint, reward: 0, ended: false };
    }
    return { valid: true, ...(slid === "" ? {} : { feedback: slid.trimEnd() }), reward: 0, ended: false };
  }

  /** The direction a move really takes. Ice that is not slippery draws nothing. */
  #slip(wanted: number): number {
    const { slippery, slipProbability } = this.#options;
    let direction = wanted;
    if (slipProbability > 0 && this.#random.random() < slipProbability) {
      direction = (direction + (this.#random.integers(0, 2) === 0 ? 3 : 1)) % 4;
    }
    if (slippery) direction = (direction + 3 + this.#random.integers(0, 3)) % 4;
    return direction;
  }

  observe(mode: ObservationMode): Observation {
    return mode === "text" ? this.#text() : this.#frame();
  }

  #frame(): Image {
    const { rows, columns, cells } = this.#board;
    const cellSize = this.#options.cellSize ?? Math.min(64, Math.floor(512 / Math.max(rows, columns)));
    const tiles = lakeTiles(cellSize);
    const inWindow = this.#inWindow();
    const width = inWindow === undefined ? columns : Math.sqrt(inWindow.length);
    const place = (canvas: Canvas, tile: Image, at: number) =>
      canvas.draw(tile, (at % width) * cellSize, Math.floor(at / width) * cellSize);
    if (inWindow !== undefined) {
      const frame = new Canvas(width * cellSize, width * cellSize, SHORE);
      for (const [at, cell] of inWindow.entries()) {
        if (cell !== undefined)
          place(frame, tiles[cell === this.#player ? "player" : "empty"][cells[cell] as Ground], at);
      }
      return new Image(frame.width, frame.height, frame.data);
    }
    if (this.#image === undefined) {
      const canvas = new Canvas(columns * cellSize, rows * cellSize);
      for (const [cell, kind] of [...cells].entries()) place(canvas, tiles.empty[kind as Ground], cell);
      this.#image = new Image(canvas.width, canvas.height, canvas.data);
    }
    const frame = Canvas.from(this.#image);
    place(frame, tiles.player[this.#ground as Ground], this.#player);
    return new Image(frame.width, frame.height, frame.data);
  }

  /** VAGEN's characters: P player, _ ice, O hole, G goal, X player in a hole, V player on the goal; in a window also # outside of the lake. */
  #text(): string {
    const symbols: string[] = [...this.#board.cells].map((kind) => (kind === "H" ? "O" : kind === "G" ? "G" : "_"));
    symbols[this.#player] = this.#ground === "H" ? "X" : this.#ground === "G" ? "V" : "P";
    const inWindow = this.#inWindow();
    const shown = inWindow?.map((cell) => (cell === undefined ? "#" : symbols[cell])) ?? symbols;
    const width = inWindow === undefined ? this.#board.columns : Math.sqrt(inWindow.length);
    const padded = shown.map((symbol) => ` ${symbol} `);
    return Array.from({ length: shown.length / width }, (_, row) =>
      padded.slice(row * width, (row + 1) * width).join(""),
    ).join("\n");
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { window, glimpse } = this.#options;
    if (style === "brief") {
      const way =
        mode === "text" ? "Walk P to G; avoid O." : "Walk the red figure to the yellow goal; avoid dark holes.";
      const near =
        window === undefined
          ? ""
          : glimpse
            ? " After the first move you see only what is near."
            : " You see only what is near.";
      return `${way}${near}${this.#slips ? " The ice is slippery." : ""}`;
    }
    const { rows, columns } = this.#board;
    const size = `a frozen lake of ${rows} rows and ${columns} columns`;
    const view =
      mode === "text"
        ? `You are on ${size}, drawn in characters. P is you, _ is ice, O is a hole and G is the goal; X is you in a hole and V is you on the goal.`
        : `You see ${size} from above. The figure in red is you, light cells are ice, dark blue discs are holes and the yellow cell with a green flag is the goal. A grey ring marks where you started.`;
    const seen =
      window === undefined
        ? ""
        : ` ${glimpse ? "After your first move you" : "You"} see only the ${window} by ${window} cells around you, with yourself in the middle; ${mode === "text" ? "# is" : "green is"} land outside of the lake. Remember what you have seen: it stays where it is.`;
    const slipping = this.#slips ? " The ice is slippery: a move may take you to one side of the way you chose." : "";
    return (
      `${view}${seen} Walk to the goal, one cell per move, without entering a hole; at the edge of the lake you stay where you ` +
      `are.${slipping} You succeed by reaching the goal, and fail by falling into a hole. Either ends the episode.`
    );
  }

  /** On slippery ice: the best plan if no move slips. */
  solve(): Action[] {
    return this.#ended
      ? []
      : (shortestWay(this.#board, this.#player) ?? []).map((way) => act(DIRECTIONS[way] as string));
  }

  /** Where the goal and every hole lie, seen from the player; with a window, those that the agent has seen in this episode. */
  facts(): Fact[] {
    const { columns, cells } = this.#board;
    const playerRow = Math.floor(this.#player / columns);
    const playerColumn = this.#player % columns;
    const about = (subject: string, cell: number): Fact => {
      const relations = placeWords(Math.floor(cell / columns) - playerRow, (cell % columns) - playerColumn);
      return { subject, relations, object: "player" };
    };
    const known = (cell: number) => this.#options.window === undefined || this.#seen.has(cell);
    const holes = [...cells].flatMap((kind, cell) => (kind === "H" && known(cell) ? [about("hole", cell)] : []));
    const goal = cells.indexOf("G");
    return known(goal) ? [about("goal", goal), ...holes] : holes;
  }

  save(): Json {
    const { columns } = this.#board;
    return {
      desc: toDesc(this.#board),
      player: [Math.floor(this.#player / columns), this.#player % columns],
      random: this.#random.save(),
      ...(this.#options.window !== undefined && {
        moved: this.#moved,
        seen: [...this.#seen].sort((a, b) => a - b),
      }),
    };
  }

  load(state: Json): void {
    if (!isJsonObject(state)) throw new EnvError("A saved lake is an object with desc, player and random.");
    const { desc, player, random, moved = false, seen = [] } = state;
    const problem = boardProblem(desc);
    if (problem !== undefined) throw new EnvError(`desc ${problem}.`);
    const board = toBoard(desc as string[]);
    if (!Array.isArray(seen) || !seen.every((cell) => isIndex(cell as number, board.cells.length))) {
      throw new EnvError("seen must be a list of cells of desc, counted row by row from 0.");
    }
    const [row, column] = (Array.isArray(player) ? player : []) as number[];
    if (!isIndex(row, board.rows) || !isIndex(column, board.columns)) {
      throw new EnvError("player must be the [row, column] of a cell of desc.");
    }
    if (typeof moved !== "boolean") throw new EnvError("moved must be true or false.");
    // Without slips nothing is drawn any more, so a board and a player are an episode.
    const generator = new NumpyRandom(0);
    if (random !== undefined || this.#slips) {
      try {
        generator.load(random ?? null);
      } catch (error) {
        throw new EnvError(`random does not say how the ice will slip. ${errorMessage(error)}`);
      }
    }
    this.#random = generator;
    this.#board = board;
    this.#player = row * board.columns + column;
    this.#begin(moved);
    if (this.#options.window !== undefined) for (const cell of seen) this.#seen.add(cell as number);
  }
}

function isIndex(value: number | undefined, count: number): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) < count;
}

export const frozenLake = defineWorld({
  id: "frozen_lake",
  summary: "cross the ice to the goal without falling into a hole",
  options,
  protocol: "think",
  maxTurns: 5,
  maxActions: 5,
  formatBonus: 0.02,
  things: {
    goal: { words: ["flag", "exit", "target", "destination", "finish"], weight: 0.7 },
    hole: { words: ["pit"], weight: 0.3 },
  },
  view: { legend: { P: ["player"], _: [], O: ["hole"], G: ["goal"], X: ["player", "hole"], V: ["player", "goal"] } },
  create: (given) => new FrozenLake(given),
});
