/**
 * maze_3d (VisGym): walk through a maze seen from within, find the red ball and stop in its cell. Only `stop` ends the
 * episode and pays. Boards, corners and first headings are VisGym's for every seed. As there, the eye is one cell behind the
 * agent, so that what stands beside it is seen, and looks through the wall it may be in.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { ConfigError, exact, type Image, type Json, NumpyRandom } from "../../src/core/index.ts";
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
import { decodePng } from "../../src/images/index.ts";
import { type Camera, type Mesh, painted, Renderer, shifted, sphere, type Texture } from "../shared/render3d/index.ts";
import { Saved } from "../shared/saved.ts";
import { Dice } from "../shared/scenes/dice.ts";
import { restOf, type Script, withDetours } from "../shared/script.ts";
import { drawMaze, loadMaze, type Maze, saveMaze, shortestPath } from "../shared/wilson.ts";
import { CELL, HEADINGS, innerSides, mazeMeshes, ownTextures, type Textures } from "./art.ts";

const { tan } = exact;

const side = z
  .int()
  .min(5)
  .max(61)
  .refine((cells) => cells % 2 === 1, "must be odd");

const options = z.strictObject({
  width: side.default(11).describe("Cells across, walls included. Must be odd."),
  height: side.default(11).describe("Cells down, walls included. Must be odd."),
  size: z
    .tuple([z.int().min(32).max(2048), z.int().min(32).max(2048)])
    .default([336, 189])
    .describe("Width and height of the view, in pixels."),
  samples: z
    .int()
    .min(1)
    .max(4)
    .default(1)
    .describe("Samples along each side of a pixel. 2 smooths edges and takes four times the work."),
  textures: z
    .string()
    .optional()
    .describe("Folder with wall.png, ground.png and roof.png to use instead of the built-in textures."),
  solverSteps: z
    .int()
    .min(0)
    .max(200)
    .default(0)
    .describe("Minimum number of oracle steps. The oracle looks left and right on its way."),
});

/** Half the angle of view across, in degrees. */
const HALF_VIEW = 20;
const TURNS = ["left", "right", "around"] as const;
/** How much each turn adds to a heading. */
const TURN_BY = [1, 3, 2] as const;

type Pose = { readonly cell: number; readonly heading: number };

export class Maze3D implements World {
  readonly actions: readonly ActionSpec[] = [
    {
      name: "move",
      description: "walk one cell straight ahead",
      arg: { type: "int", name: "direction", min: 0, max: 0, labels: ["forward"] },
      example: 0,
      shorthand: true,
    },
    {
      name: "turn",
      description: "turn on the spot",
      arg: { type: "int", name: "direction", min: 1, max: 3, labels: TURNS },
      example: 1,
      shorthand: true,
    },
    stopAction("end the episode, once you are in the cell of the red ball"),
  ];
  readonly #options: z.output<typeof options>;
  readonly #textures: Textures;
  readonly #renderer: Renderer;
  #maze!: Maze;
  /** Where the episode began, and where the agent is now. */
  #start!: Pose;
  #pose!: Pose;
  #moves = 0;
  #stopped = false;
  #meshes: readonly Mesh[] | undefined;
  #script: Script | undefined;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.#textures = given.textures === undefined ? ownTextures() : loadTextures(given.textures);
    const [width, height] = given.size;
    this.#renderer = new Renderer(width, height, this.#camera({ cell: 0, heading: 0 }, 1), given.samples);
    this.reset(0);
  }

  reset(seed: number): void {
    const random = new NumpyRandom(seed);
    const maze = drawMaze(random, this.#options.width, this.#options.height);
    const start = { cell: maze.agent, heading: firstHeading(maze, random) };
    this.#begin(maze, start, start, 0, false);
  }

  #begin(maze: Maze, start: Pose, pose: Pose, moves: number, stopped: boolean): void {
    this.#maze = maze;
    this.#start = start;
    this.#pose = pose;
    this.#moves = moves;
    this.#stopped = stopped;
    this.#meshes = undefined;
    this.#script = undefined;
  }

  success(): boolean {
    return this.#stopped && this.#pose.cell === this.#maze.target;
  }

  act({ name, payload }: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (name === "stop") {
      this.#stopped = true;
      return this.success()
        ? { valid: true, feedback: "You stopped at the red ball.", reward: 1, ended: true }
        : { valid: true, feedback: "You stopped away from the red ball.", reward: 0, ended: true };
    }
    const next = after(this.#maze, this.#pose, name, Number(payload));
    if (next === undefined) {
      const feedback = "There is a wall ahead, so you stayed; turn first.";
      return { valid: false, feedback, reward: 0, ended: false };
    }
    this.#pose = next;
    this.#moves += 1;
    return { valid: true, reward: 0, ended: false };
  }

  observe(mode: ObservationMode): Observation {
    return mode === "text" ? this.#text() : this.#frame();
  }

  #frame(): Image {
    const { width, height, target } = this.#maze;
    const { wall } = this.#textures;
    this.#meshes ??= [...mazeMeshes(this.#maze, this.#textures), ball(target, width)];
    const renderer = this.#renderer;
    renderer.camera = this.#camera(this.#pose, width);
    renderer.clear([0, 0, 0]);
    for (const mesh of this.#meshes) renderer.draw(mesh);
    const behind = this.#pose.cell - stepOf(this.#pose.heading, width);
    const inner = behind >= 0 && behind < width * height ? innerSides(this.#maze, behind, wall) : undefined;
    if (inner !== undefined) renderer.draw(inner);
    return renderer.toImage();
  }

  /** One cell behind the agent, half as high as a wall. x runs east, z south. */
  #camera({ cell, heading }: Pose, width: number): Camera {
    const [down, right] = HEADINGS[heading] as readonly [number, number];
    const [row, column] = [Math.floor(cell / width), cell % width];
    const [across, up] = this.#options.size;
    const spread = tan((HALF_VIEW * Math.PI) / 180);
    return {
      eye: [(column - right) * CELL, CELL / 2, (row - down) * CELL],
      view: [
        [-down, 0, right],
        [0, 1, 0],
        [-right, 0, -down],
      ],
      spread: [spread, (spread * up) / across],
      near: 0.1,
    };
  }

  /** VisGym has no text view of this world; ours tells what is seen ahead, cell by cell, and no more. */
  #text(): string {
    const { width, walls, target } = this.#maze;
    const { cell, heading } = this.#pose;
    const open = (from: number, turn: number) => walls[from + stepOf((heading + turn) % 4, width)] === 0;
    const sides = (from: number) => {
      const ways = [...(open(from, 1) ? ["left"] : []), ...(open(from, 3) ? ["right"] : [])];
      return ways.length === 0 ? "walls on both sides" : `a way to the ${ways.join(" and to the ")}`;
    };
    const lines = [`here: ${sides(cell)}${cell === target ? ", the red ball" : ""}`];
    let at = cell;
    for (let ahead = 1; open(at, 0); ahead++) {
      at += stepOf(heading, width);
      lines.push(`${ahead} ahead: ${sides(at)}${at === target ? ", the red ball" : ""}`);
    }
    return [...lines, `${lines.length} ahead: a wall`].join("\n");
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    if (style === "brief") return "Find the red ball in the maze, walk into its cell, then stop.";
    const { width, height } = this.#maze;
    const view =
      mode === "text"
        ? "You are told what you see ahead of you, cell by cell, up to the next wall."
        : "You see what is ahead of you, from a little behind where you stand.";
    return (
      `You are in a maze of ${height} rows and ${width} columns, its outer walls included. ${view} Somewhere in it hangs a red ball. ` +
      "Walk one cell at a time in the direction you look; walking into a wall leaves you where you are, and turning does not move " +
      "you. Once you are in the cell of the red ball, stop. You succeed if you are there when you stop; arriving does not end the " +
      "episode."
    );
  }

  /** Where the ball is, seen from the agent. */
  facts(): Fact[] {
    const { width, target } = this.#maze;
    const { cell, heading } = this.#pose;
    const [down, right] = [Math.floor(target / width) - Math.floor(cell / width), (target % width) - (cell % width)];
    const [fd, fr] = HEADINGS[heading] as readonly [number, number];
    const ahead = down * fd + right * fr;
    const left = down * -fr + right * fd;
    const along = ahead === 0 ? "level" : ahead > 0 ? "ahead" : "behind";
    return [
      { subject: "ball", relations: [along, left === 0 ? "straight" : left > 0 ? "left" : "right"], object: "player" },
    ];
  }

  solve(): Action[] {
    if (this.#stopped) return [];
    const { solverSteps } = this.#options;
    if (solverSteps > 0) {
      this.#script ??= this.#write(solverSteps);
      const rest = restOf(this.#script, this.#moves, JSON.stringify(this.#pose));
      if (rest !== undefined) return rest;
    }
    const way = this.#way(this.#pose);
    return way === undefined ? [] : [...way, act("stop")];
  }

  #way({ cell, heading: start }: Pose): Action[] | undefined {
    const path = shortestPath({ ...this.#maze, agent: cell });
    let heading = start;
    return path?.slice(1).flatMap((next, i) => {
      const step = next - (path[i] as number);
      const wanted = HEADINGS.findIndex((_, way) => stepOf(way, this.#maze.width) === step);
      const turn = TURN_BY.indexOf(((wanted - heading + 4) % 4) as 1 | 2 | 3);
      heading = wanted;
      return [...(turn < 0 ? [] : [act("turn", turn + 1)]), act("move", 0)];
    });
  }

  #write(steps: number): Script {
    const dice = new Dice(this.#start.cell, `${this.#maze.target} ${this.#maze.walls.join("")}`);
    const plan = withDetours(this.#way(this.#start) ?? [], steps, dice, () => [act("turn", 1), act("turn", 2)]);
    const poses = [this.#start];
    for (const { name, payload } of plan) {
      poses.push(after(this.#maze, poses.at(-1) as Pose, name, Number(payload)) ?? (poses.at(-1) as Pose));
    }
    return { plan: [...plan, act("stop")], states: poses.map((pose) => JSON.stringify(pose)) };
  }

  /** VisGym's `init_state` for where the agent is now, and how the episode began. */
  save(): Json {
    const { cell, heading } = this.#pose;
    return {
      ...saveMaze({ ...this.#maze, agent: cell }),
      cam_dir: heading,
      start: [this.#start.cell, this.#start.heading],
      moves: this.#moves,
      stopped: this.#stopped,
    };
  }

  load(state: Json): void {
    const saved = new Saved(state, "maze_3d", "maze_map, agent_location, cam_dir");
    const maze = loadMaze(state);
    const pose = { cell: maze.agent, heading: saved.integer("cam_dir", { min: 0, max: 3 }) };
    const [cell, heading] = saved.has("start") ? saved.numbers("start", 2) : [pose.cell, pose.heading];
    const start = { cell: cell as number, heading: heading as number };
    this.#begin(maze, start, pose, saved.integer("moves", { min: 0, fallback: 0 }), saved.boolean("stopped"));
  }
}

/** By how much a step towards a heading changes a cell's number. */
function stepOf(heading: number, width: number): number {
  const [down, right] = HEADINGS[heading] as readonly [number, number];
  return down * width + right;
}

/** Where an action leads; undefined into a wall. */
function after({ width, walls }: Maze, { cell, heading }: Pose, name: string, payload: number): Pose | undefined {
  if (name === "turn") return { cell, heading: (heading + (TURN_BY[payload - 1] as number)) % 4 };
  const next = cell + stepOf(heading, width);
  return walls[next] === 0 ? { cell: next, heading } : undefined;
}

/** An open way from which the ball can't be seen, drawn evenly; else the one with the nearest wall. */
function firstHeading({ width, walls, agent, target }: Maze, random: NumpyRandom): number {
  const look = (heading: number) => {
    let [free, ball] = [0, false];
    for (let cell = agent + stepOf(heading, width); walls[cell] === 0; cell += stepOf(heading, width)) {
      free += 1;
      ball ||= cell === target;
    }
    return { free, ball };
  };
  const open = [0, 1, 2, 3].filter((heading) => look(heading).free > 0);
  const safe = open.filter((heading) => !look(heading).ball);
  if (safe.length > 0) return safe[random.integers(0, safe.length)] as number;
  return open.reduce((best, heading) => (look(heading).free < look(best).free ? heading : best), open[0] ?? 0);
}

function ball(cell: number, width: number): Mesh {
  const mesh = painted(sphere(1.5, 24), { color: [255, 0, 0], unlit: true });
  return shifted(mesh, (cell % width) * CELL, CELL / 2, Math.floor(cell / width) * CELL);
}

function loadTextures(folder: string): Textures {
  const read = (name: string): Texture => {
    try {
      return decodePng(readFileSync(join(folder, name)));
    } catch (error) {
      throw new ConfigError(`${join(folder, name)} can't be read: put wall.png, ground.png and roof.png there.`, {
        cause: error,
      });
    }
  };
  // VisGym's walls stand on their heads, since its whole image is turned over.
  return { wall: upsideDown(read("wall.png")), floor: read("ground.png"), ceiling: read("roof.png") };
}

function upsideDown({ width, height, data }: Texture): Texture {
  const turned = new Uint8Array(data.length);
  for (let y = 0; y < height; y++) {
    turned.set(data.subarray(y * width * 3, (y + 1) * width * 3), (height - 1 - y) * width * 3);
  }
  return { width, height, data: turned };
}

export const maze3d = defineWorld({
  id: "maze_3d",
  summary: "walk through a maze seen in first person to the red ball, then stop",
  options,
  difficulties: { easy: { width: 7, height: 7 }, hard: { width: 9, height: 9 } },
  variants: { eval: { easy: {}, hard: {} }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new Maze3D(given),
});
