/**
 * sokoban (VAGEN): push every box onto a target in a small walled room. Boxes can be pushed, never pulled, and one at a
 * time. The move that puts the last box in place pays and ends the episode; a box stuck in a corner does not end it.
 * Rooms follow gym-sokoban's recipe but come from the seed alone, the same in every process and whatever ran before.
 */

import { z } from "zod";
import { ConfigError, EnvError, type Image, isJsonObject, type Json } from "../../src/core/index.ts";
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
import { generateRoom } from "./generator.ts";
import {
  cellKind,
  DIRECTIONS,
  type Direction,
  isSolved,
  MAX_BOXES,
  MAX_SIDE,
  move,
  parseRoom,
  type Room,
  roomRows,
  stepOf,
} from "./room.ts";
import { search } from "./solver.ts";
import { sokobanTiles } from "./tiles.ts";

const options = z.strictObject({
  width: z.int().min(5).max(MAX_SIDE).default(6).describe("Cells across, walls included."),
  height: z.int().min(5).max(MAX_SIDE).default(6).describe("Cells down, walls included."),
  boxes: z.int().min(1).max(MAX_BOXES).default(1).describe("Number of boxes."),
  minSolution: z
    .int()
    .min(1)
    .max(200)
    .default(1)
    .describe("Fewest moves in the shortest solution of a generated room."),
  maxSolution: z.int().min(1).max(200).default(5).describe("Most moves in the shortest solution of a generated room."),
  cellSize: z
    .int()
    .min(8)
    .max(96)
    .default(16)
    .describe("Side of a cell, in pixels. From 24 on, the player has a face."),
  successReward: z.number().default(1).describe("Reward for solving the room."),
  room: z
    .array(z.string())
    .optional()
    .describe(
      "Your own room, one string per row: # wall, _ floor, O target, X box, P player, √ box on target, S player on target. Size, boxes and solution bounds are then unused.",
    ),
});

/** Searches of `solve`: first for the shortest plan, then, where that takes too long, for any good one. */
const SEARCHES = [
  { weight: 1, maxStates: 10_000 },
  { weight: 4, maxStates: 40_000 },
];

export class Sokoban implements World {
  readonly actions: readonly ActionSpec[] = DIRECTIONS.map((direction) =>
    bare(direction, `step ${direction}, pushing the box that is there`),
  );

  readonly #options: z.output<typeof options>;
  readonly #fixedRoom: Room | undefined;
  readonly #tiles: readonly Image[];
  #current: Room | undefined;
  /** The current image, drawn when first looked at; after that a move stamps the cells it changed. */
  #canvas: Canvas | undefined;

  constructor(given: z.output<typeof options>) {
    if (given.minSolution > given.maxSolution) {
      throw new ConfigError(
        `minSolution is ${given.minSolution} but maxSolution only ${given.maxSolution}; raise maxSolution.`,
      );
    }
    this.#options = given;
    this.#tiles = sokobanTiles(given.cellSize);
    this.#fixedRoom = given.room && parseRoom(given.room, (problem) => new ConfigError(`room: ${problem}.`));
    if (this.#fixedRoom && isSolved(this.#fixedRoom)) {
      throw new ConfigError("room: every box is on a target already; move one off.");
    }
  }

  get #room(): Room {
    if (this.#current === undefined) throw new EnvError("There is no room yet; call reset(seed) or load(state) first.");
    return this.#current;
  }

  reset(seed: number): void {
    this.#start(this.#fixedRoom ?? generateRoom(seed, this.#options));
  }

  #start(room: Room): void {
    this.#current = room;
    this.#canvas = undefined;
  }

  success(): boolean {
    return isSolved(this.#room);
  }

  act(action: Action): Outcome {
    if (this.success()) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    const direction = action.name as Direction;
    const before = this.#room;
    const after = move(before, direction);
    if (after === undefined) return { valid: false, feedback: this.#whyStuck(direction), reward: 0, ended: false };
    this.#current = after;
    // The player's old cell and, when it pushed, the box's new one: at most three cells in a line.
    const step = after.player - before.player;
    if (this.#canvas) for (let i = 0; i < 3; i++) this.#stamp(this.#canvas, before.player + i * step);
    if (!isSolved(after)) return { valid: true, reward: 0, ended: false };
    const feedback = after.boxes.length === 1 ? "The box is on its target." : "All boxes are on targets.";
    return { valid: true, feedback, reward: this.#options.successReward, ended: true };
  }

  #whyStuck(direction: Direction): string {
    const { player, boxes, width } = this.#room;
    const ahead = player + stepOf(direction, width);
    if (!boxes.includes(ahead)) return `A wall is ${direction} of you, so you stayed; go another way.`;
    const obstacle = boxes.includes(ahead + stepOf(direction, width)) ? "another box" : "a wall";
    return `The box can't go ${direction} because ${obstacle} is behind it; push it from another side.`;
  }

  observe(mode: ObservationMode): Observation {
    if (mode === "text") {
      return roomRows(this.#room)
        .map((row) => Array.from(row, (symbol) => ` ${symbol} `).join(""))
        .join("\n");
    }
    this.#canvas ??= this.#draw();
    return this.#canvas.toImage();
  }

  #draw(): Canvas {
    const { width, height } = this.#room;
    const { cellSize } = this.#options;
    const canvas = new Canvas(width * cellSize, height * cellSize);
    for (let cell = 0; cell < width * height; cell++) this.#stamp(canvas, cell);
    return canvas;
  }

  #stamp(canvas: Canvas, cell: number): void {
    const { width } = this.#room;
    const { cellSize } = this.#options;
    const tile = this.#tiles[cellKind(this.#room, cell)] as Image;
    canvas.draw(tile, (cell % width) * cellSize, Math.floor(cell / width) * cellSize);
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { width, height, boxes } = this.#room;
    const one = boxes.length === 1;
    if (style === "brief") {
      const [box, target] = mode === "text" ? ["X", "O"] : ["box", "red ring"];
      return one ? `Push the ${box} onto the ${target}.` : `Push every ${box} onto its own ${target}.`;
    }
    const view =
      mode === "text"
        ? `You see a room of ${height} rows and ${width} columns from above, drawn in characters: # is a wall, _ is floor, ` +
          "O is a target, X is a box, √ is a box on a target, P is you, and S is you standing on a target."
        : `You see a room of ${height} rows and ${width} columns from above. Grey bricks are walls, sand-coloured cells are ` +
          "floor, a red ring is a target, a brown crate is a box and a green one a box on a target. The figure in blue " +
          "is you; it has a red ring around it while it stands on a target.";
    const goal = one
      ? "Push the box onto the target."
      : `Push each of the ${boxes.length} boxes onto a target; any box fits any target.`;
    return (
      `${view} ${goal} You step one cell at a time. Stepping into a box pushes it one cell further in the same direction, ` +
      "if the cell behind it is free; you can't pull a box or push two at once, so keep boxes out of corners. " +
      `You succeed, and the episode ends, as soon as ${one ? "the box is on the target" : "every box is on a target"}.`
    );
  }

  solve(): Action[] {
    for (const limits of SEARCHES) {
      const { moves, complete } = search(this.#room, limits);
      if (complete) return (moves ?? []).map((direction) => act(direction));
    }
    return [];
  }

  /** Where every box and target is, seen from the player, and every box, seen from the targets. */
  facts(): Fact[] {
    const { width, player, boxes, targets } = this.#room;
    const relate = (subject: string, from: number, object: string, to: number): Fact => ({
      subject,
      relations: relations(from, to, width),
      object,
    });
    const name = (word: string, index: number) => (boxes.length === 1 ? word : `${word} ${index + 1}`);
    return [
      ...boxes.map((box, i) => relate(name("box", i), box, "player", player)),
      ...targets.map((target, i) => relate(name("target", i), target, "player", player)),
      ...boxes.flatMap((box, i) => targets.map((target, j) => relate(name("box", i), box, name("target", j), target))),
    ];
  }

  save(): Json {
    return { rows: roomRows(this.#room) };
  }

  load(state: Json): void {
    const rows = isJsonObject(state) ? state.rows : undefined;
    if (!Array.isArray(rows) || !rows.every((row) => typeof row === "string")) {
      throw new EnvError("A saved Sokoban episode is { rows: [...] } with a string per row of the room.");
    }
    this.#start(parseRoom(rows, (problem) => new EnvError(`rows: ${problem}.`)));
  }
}

/** How `cell` lies to `other`: its row first, then its column. */
function relations(cell: number, other: number, width: number): string[] {
  return placeWords(Math.floor(cell / width) - Math.floor(other / width), (cell % width) - (other % width));
}

export const sokoban = defineWorld({
  id: "sokoban",
  summary: "push every box onto a target in a small walled room",
  options,
  protocol: "think",
  maxTurns: 5,
  maxActions: 3,
  formatBonus: 0.1,
  things: { box: { words: ["crate"] }, target: { words: ["goal", "dock", "destination", "mark"] } },
  view: {
    legend: {
      "#": [],
      _: [],
      O: ["target"],
      X: ["box"],
      "√": ["box", "target"],
      P: ["player"],
      S: ["player", "target"],
    },
  },
  create: (given) => new Sokoban(given),
});
