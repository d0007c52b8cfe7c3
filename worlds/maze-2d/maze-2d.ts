/**
 * maze_2d (VisGym): walk a disc through a maze seen from above, and stop on the red square. Only `stop` ends the
 * episode and pays: 1 on the target, 0 elsewhere. Boards equal VisGym's for every seed, and frames equal VisGym's
 * pixel for pixel, but for one thing: VisGym rubs out the previous disc in white, which leaves a hole in the red
 * square once the agent has stepped off it; here a frame depends on the state alone.
 */

import { z } from "zod";
import { EnvError, Image, isJsonObject, type Json, NumpyRandom } from "../../src/core/index.ts";
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
import { drawMaze, loadMaze, type Maze, saveMaze, shortestPath } from "../shared/wilson.ts";

const WALL: Color = [169, 169, 169];
const FREE: Color = [255, 255, 255];
const TARGET: Color = [255, 0, 0];
const AGENT: Color = [0, 0, 255];

const DIRECTIONS = ["right", "up", "left", "down"] as const;

const side = z
  .int()
  .min(5)
  .max(61)
  .refine((cells) => cells % 2 === 1, "must be odd");

const options = z.strictObject({
  width: side.default(11).describe("Cells across, walls included. Must be odd."),
  height: side.default(11).describe("Cells down, walls included. Must be odd."),
  cellSize: z.int().min(4).max(64).default(25).describe("Side of a cell, in pixels."),
  padTo: z
    .int()
    .min(1)
    .max(64)
    .default(1)
    .describe(
      "Extend the frame with wall, to the right and below, to a multiple of this many pixels. 32 fills whole tokens.",
    ),
});

export class Maze2D implements World {
  readonly actions: readonly ActionSpec[] = [
    {
      name: "move",
      description: "move one cell",
      arg: { type: "int", name: "direction", min: 0, max: 3, labels: DIRECTIONS },
      example: 0,
      shorthand: true,
    },
    stopAction("end the episode, once you are on the target"),
  ];

  readonly #options: z.output<typeof options>;
  /** The agent's cell with its disc, on a free cell and on the target. */
  readonly #agentOnFree: Image;
  readonly #agentOnTarget: Image;
  #maze: Maze;
  #agent: number;
  #stopped = false;
  /** Everything but the agent, drawn when first looked at. */
  #board: Image | undefined;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.#agentOnFree = discTile(given.cellSize, FREE);
    this.#agentOnTarget = discTile(given.cellSize, TARGET);
    this.#maze = drawMaze(new NumpyRandom(0), given.width, given.height);
    this.#agent = this.#maze.agent;
  }

  reset(seed: number): void {
    this.#start(drawMaze(new NumpyRandom(seed), this.#options.width, this.#options.height), false);
  }

  #start(maze: Maze, stopped: boolean): void {
    this.#maze = maze;
    this.#agent = maze.agent;
    this.#stopped = stopped;
    this.#board = undefined;
  }

  success(): boolean {
    return this.#stopped && this.#agent === this.#maze.target;
  }

  act(action: Action): Outcome {
    if (this.#stopped) {
      return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    }
    if (action.name === "stop") {
      this.#stopped = true;
      return this.success()
        ? { valid: true, feedback: "You stopped on the target.", reward: 1, ended: true }
        : { valid: true, feedback: "You stopped away from the target.", reward: 0, ended: true };
    }
    const direction = Number(action.payload);
    const next = this.#agent + (this.#steps()[direction] as number);
    if (this.#maze.walls[next] !== 0) {
      const feedback = `A wall blocks the way ${DIRECTIONS[direction]}, so you stayed; move to a free cell.`;
      return { valid: false, feedback, reward: 0, ended: false };
    }
    this.#agent = next;
    return { valid: true, reward: 0, ended: false };
  }

  /** How far each direction moves in cell numbers. */
  #steps(): readonly number[] {
    return [1, -this.#maze.width, -1, this.#maze.width];
  }

  observe(mode: ObservationMode): Observation {
    return mode === "text" ? this.#text() : this.#frame();
  }

  #frame(): Image {
    const { width, target } = this.#maze;
    const { cellSize, padTo } = this.#options;
    this.#board ??= drawBoard(this.#maze, cellSize, padTo);
    const frame = Canvas.from(this.#board);
    const agent = this.#agent === target ? this.#agentOnTarget : this.#agentOnFree;
    frame.draw(agent, (this.#agent % width) * cellSize, Math.floor(this.#agent / width) * cellSize);
    return new Image(frame.width, frame.height, frame.data);
  }

  /** VisGym's characters, within its additional ring of `#`. */
  #text(): string {
    const { width, height, walls, target } = this.#maze;
    const cells: string[] = Array.from(walls, (wall) => (wall === 1 ? "#" : " "));
    cells[target] = "T";
    cells[this.#agent] = "A";
    const ring = "#".repeat(width + 2);
    const rows = Array.from(
      { length: height },
      (_, row) => `#${cells.slice(row * width, (row + 1) * width).join("")}#`,
    );
    return [ring, ...rows, ring].join("\n");
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    if (style === "brief") {
      return mode === "text"
        ? "Walk A to T through spaces, then stop."
        : "Walk the blue disc to the red square, then stop.";
    }
    const { width, height } = this.#maze;
    const view =
      mode === "text"
        ? `You see a maze of ${height} rows and ${width} columns from above, drawn in characters inside a frame of #. ` +
          "A is you, T is the target, # is a wall and a space is a free cell."
        : `You see a maze of ${height} rows and ${width} columns from above. ` +
          "The blue disc is you, the red square is the target, grey cells are walls and white cells are free.";
    return (
      `${view} Walk to the target one free cell at a time; a move into a wall leaves you where you are. ` +
      "Once you stand on the target, stop. You succeed if you are on the target when you stop; arriving there does not " +
      "end the episode, and stopping anywhere else fails it."
    );
  }

  solve(): Action[] {
    if (this.#stopped) return [];
    const path = shortestPath({ ...this.#maze, agent: this.#agent });
    if (path === undefined) return [];
    const steps = this.#steps();
    const moves = path.slice(1).map((cell, at) => act("move", steps.indexOf(cell - (path[at] as number))));
    return [...moves, act("stop")];
  }

  /** Where the target lies, seen from the disc. */
  facts(): Fact[] {
    const { width, target } = this.#maze;
    const down = Math.floor(target / width) - Math.floor(this.#agent / width);
    const right = (target % width) - (this.#agent % width);
    return [{ subject: "target", relations: placeWords(down, right), object: "player" }];
  }

  /** VisGym's `init_state`, and whether the agent has stopped. */
  save(): Json {
    return { ...saveMaze({ ...this.#maze, agent: this.#agent }), stopped: this.#stopped };
  }

  load(state: Json): void {
    const stopped = isJsonObject(state) ? (state.stopped ?? false) : false;
    if (typeof stopped !== "boolean") throw new EnvError("stopped must be true or false.");
    this.#start(loadMaze(state), stopped);
  }
}

function drawBoard({ width, height, walls, target }: Maze, cellSize: number, padTo: number): Image {
  const padded = (cells: number) => Math.ceil((cells * cellSize) / padTo) * padTo;
  const canvas = new Canvas(padded(width), padded(height), WALL);
  canvas.fillRect(0, 0, width * cellSize, height * cellSize, FREE);
  walls.forEach((wall, cell) => {
    if (wall === 0 && cell !== target) return;
    const x = (cell % width) * cellSize;
    canvas.fillRect(x, Math.floor(cell / width) * cellSize, cellSize, cellSize, wall === 1 ? WALL : TARGET);
  });
  return new Image(canvas.width, canvas.height, canvas.data);
}

/** A cell with the agent's disc, by the midpoint circle rule without anti-aliasing, as pygame fills its circles. */
function discTile(cellSize: number, background: Color): Image {
  const tile = new Canvas(cellSize, cellSize, background);
  const centre = Math.floor(cellSize / 2);
  const radius = Math.floor(cellSize / 4);
  // The disc is `2 * radius` wide, so its rows come in mirrored pairs: `up` rows above the centre line and as many below.
  const rowPair = (up: number, half: number) => {
    tile.fillRect(centre - half, centre - up, 2 * half, 1, AGENT);
    tile.fillRect(centre - half, centre + up - 1, 2 * half, 1, AGENT);
  };
  let error = 1 - radius;
  for (let x = 0, y = radius; x < y; ) {
    if (error >= 0) {
      y -= 1;
      error -= 2 * y;
    }
    x += 1;
    error += 2 * x + 1;
    rowPair(x, y);
    if (error >= 0) rowPair(y, x);
  }
  return new Image(cellSize, cellSize, tile.data);
}

export const maze2d = defineWorld({
  id: "maze_2d",
  summary: "walk through a maze seen from above to the red square, then stop",
  options,
  difficulties: { easy: { width: 9, height: 9 }, hard: { width: 11, height: 11 } },
  variants: { eval: { easy: {}, hard: {} }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  things: { target: { words: ["goal", "square", "destination"] } },
  view: { legend: { "#": [], " ": [], A: ["player"], T: ["target"] } },
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new Maze2D(given),
});
