/**
 * navigation (VAGEN): walk through a furnished room to the thing that the instruction means, seeing it in first person.
 * Instructions come in five kinds: plain, by use, wordy, by looks, and for long ways. Eight moves: a step in four directions, a
 * quarter turn left or right, a look up or down. Getting within reach ends the episode and pays; so many moves without it
 * end it unpaid. Rooms come from the seed; task files of AI2-THOR load too, with a room of ours around their places.
 */
import { readFileSync } from "node:fs";
import { z } from "zod";
import {
  ConfigError,
  DataError,
  EnvError,
  errorMessage,
  exact,
  isJsonObject,
  type Json,
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
import { add, apply, type Camera, lookAt, scale, subtract, type Vec3 } from "../shared/render3d/matrix.ts";
import { bounds, type Mesh } from "../shared/render3d/mesh.ts";
import { Renderer } from "../shared/render3d/renderer.ts";
import { Saved } from "../shared/saved.ts";
import { Dice } from "../shared/scenes/dice.ts";
import {
  KINDS as FURNITURE,
  furnishedRoom,
  heading,
  isFree,
  type Piece,
  type Room,
  roomAround,
  roomMeshes,
} from "./room.ts";

const { cos, hypot, sin, tan } = exact;

const KINDS = ["base", "common_sense", "complex_instruction", "visual_appearance", "long_horizon"] as const;
type Kind = (typeof KINDS)[number];

const options = z.strictObject({
  kind: z.enum(KINDS).default("base").describe("How the instruction describes the goal."),
  size: z.int().min(48).max(1024).default(255).describe("Side of the frame, in pixels."),
  samples: z
    .int()
    .min(1)
    .max(4)
    .default(1)
    .describe("Samples along each side of a pixel. 2 smooths edges and takes four times the work."),
  fov: z.number().min(30).max(140).default(100).describe("Field of view, in degrees."),
  stepLength: z.number().positive().max(2).default(0.3).describe("Length of a step, in metres."),
  threshold: z
    .number()
    .positive()
    .default(1)
    .describe("Distance to the goal that counts as success, in metres along the floor."),
  maxSteps: z.int().min(1).default(30).describe("Moves until the episode ends."),
  tasks: z
    .string()
    .optional()
    .describe(
      "AI2-THOR task file (`{ tasks: […] }`) to play instead of generated rooms. The seed is the index of the task.",
    ),
});
type Options = z.output<typeof options>;

const EYE = 1.5;
const LIGHT = { direction: [0.3, 0.85, 0.4] as const, intensity: 0.38, ambient: 0.74 };
const HORIZON = 30;
const LARGEST_TILT = 60;

/** Metres from the eyes to the wall ahead, and to furniture ahead, at least, when an episode starts. */
const OPEN_TO_WALL = 1.9;
const OPEN_TO_FURNITURE = 0.9;
/** How far to both sides the way ahead is open. */
const ABREAST = 0.3;

/** East and north of the start, in steps; quarter turns clockwise; degrees below level. */
type Pose = { readonly right: number; readonly ahead: number; readonly turns: number; readonly tilt: number };
const START: Pose = { right: 0, ahead: 0, turns: 0, tilt: 0 };

type Episode = {
  readonly room: Room;
  readonly target: readonly [x: number, z: number];
  readonly name: string;
  readonly instruction: string;
  readonly x: number;
  readonly z: number;
  /** Degrees clockwise from north. */
  readonly facing: number;
  readonly tilt: number;
};

const MOVES: readonly (readonly [name: string, right: number, ahead: number, description: string])[] = [
  ["move_forward", 0, 1, "take a step forward"],
  ["move_backward", 0, -1, "take a step back"],
  ["move_right", 1, 0, "take a step to the right"],
  ["move_left", -1, 0, "take a step to the left"],
];

/** Words around a plain wish that have nothing to do with the way. */
const CHATTER = [
  "It has been a long day, and the guests left only an hour ago.",
  "The neighbours' dog has been barking since noon, so never mind the noise.",
  "My sister called to say that her train is late again.",
  "We painted this room last spring and still have not hung up the pictures.",
  "I counted the boxes twice and there were eleven of them.",
];
const AFTERTHOUGHTS = [
  "There is no hurry, and you need not bring anything.",
  "Leave the door and the window as they are.",
  "Everything else in the room can wait until tomorrow.",
  "Afterwards we will have a cup of tea.",
];

/** What a task file must have, under the names that AI2-THOR's tasks use. */
const place = z.looseObject({ x: z.number(), z: z.number() });
const taskSchema = z.looseObject({
  scene: z.string().default(""),
  instruction: z.string(),
  targetObjectType: z.string().default(""),
  target_position: place,
  agentPose: z.looseObject({
    position: place,
    rotation: z.union([z.number(), z.looseObject({ y: z.number() })]).default(0),
    horizon: z.number().default(0),
  }),
});
type TaskRow = z.output<typeof taskSchema>;

function readTasks(file: string): readonly TaskRow[] {
  let data: unknown;
  try {
    data = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new ConfigError(`tasks: ${file} can't be read (${errorMessage(error)}): give a JSON file of tasks.`);
  }
  const rows = Array.isArray(data)
    ? data
    : isJsonObject(data as Json)
      ? (data as { tasks?: unknown }).tasks
      : undefined;
  const read = z.array(taskSchema).min(1).safeParse(rows);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new DataError(`${file}: tasks.${issue?.path.join(".")}: ${issue?.message}.`);
}

export class Navigation implements World {
  readonly actions: readonly ActionSpec[] = [
    ...MOVES.map(([name, , , description]) => bare(name, description)),
    bare("turn_right", "turn right by 90 degrees"),
    bare("turn_left", "turn left by 90 degrees"),
    bare("look_up", `look up by ${HORIZON} degrees`),
    bare("look_down", `look down by ${HORIZON} degrees`),
  ];
  readonly #options: Options;
  readonly #tasks: readonly TaskRow[] | undefined;
  readonly #renderer: Renderer;
  #seed = 0;
  #current: Episode | undefined;
  #pose: Pose = START;
  #steps = 0;
  #meshes: readonly Ball[] | undefined;

  constructor(given: Options) {
    this.#options = given;
    this.#tasks = given.tasks === undefined ? undefined : readTasks(given.tasks);
    this.#renderer = new Renderer(given.size, given.size, lookAt([0, 0, 0], [0, 0, -1], given.fov, 1), given.samples);
    this.#renderer.light = LIGHT;
  }

  get #episode(): Episode {
    if (this.#current === undefined)
      throw new EnvError("There is no episode yet; call reset(seed) or load(state) first.");
    return this.#current;
  }

  reset(seed: number): void {
    this.#seed = seed;
    this.#current = this.#tasks === undefined ? this.#made(seed) : this.#fromFile(this.#tasks, seed);
    this.#pose = { ...START, tilt: this.#current.tilt };
    this.#steps = 0;
    this.#meshes = undefined;
  }

  /** A room, a target and a start from which the way has a fitting length. */
  #made(seed: number): Episode {
    const { kind } = this.#options;
    const long = kind === "long_horizon";
    const [least, most] = long ? [12, 24] : [4, 14];
    for (let attempt = 0; ; attempt++) {
      const dice = new Dice(seed, `navigation ${kind} ${attempt}`);
      const room = furnishedRoom(dice, long ? 5.5 : 4.2, long ? 7.5 : 6);
      const goal = dice.pick(room.pieces);
      for (let turn = 0; turn < 12; turn++) {
        const [x, z] = [0, 1].map((k) => {
          const at = dice.between((room.low[k] as number) + 0.4, (room.high[k] as number) - 0.4);
          return Math.round(at * 20) / 20;
        }) as [number, number];
        if (!isFree(room, x, z)) continue;
        const episode: Episode = {
          room,
          target: [goal.x, goal.z],
          name: goal.kind.name,
          instruction: instructionFor(kind, goal, dice),
          x,
          z,
          facing: dice.whole(0, 3) * 90,
          tilt: 0,
        };
        if (this.#distance(episode, START) < this.#options.threshold + 0.6) continue;
        if (!this.#looksIntoRoom(episode)) continue;
        // A long way starts with the back to where it leads.
        if (long && this.#bearing(episode, START, episode.target)[1] > 0) continue;
        const way = this.#way(episode, START);
        if (way !== undefined && way.length >= least && way.length <= most) return episode;
      }
    }
  }

  /** Whether the first frame shows a room and not just a surface: the way ahead is open, and some furniture is in view. */
  #looksIntoRoom(episode: Episode): boolean {
    const { room, x, z, facing } = episode;
    const [east, north] = heading(facing);
    const open = (metres: number, around: Room) => isFree(around, x + east * metres, z + north * metres, ABREAST);
    if (!open(OPEN_TO_WALL - ABREAST, { ...room, pieces: [] })) return false;
    const clear = open(OPEN_TO_FURNITURE / 2, room) && open(OPEN_TO_FURNITURE - ABREAST, room);
    return clear && this.#inView(episode, START).length > 0;
  }

  #fromFile(tasks: readonly TaskRow[], seed: number): Episode {
    const row = tasks[seed % tasks.length] as TaskRow;
    const { position, rotation, horizon } = row.agentPose;
    const target = [row.target_position.x, row.target_position.z] as const;
    return {
      room: roomAround(row.scene, row.targetObjectType, target, [position.x, position.z]),
      target,
      name: row.targetObjectType,
      instruction: row.instruction,
      x: position.x,
      z: position.z,
      facing: typeof rotation === "number" ? rotation : rotation.y,
      tilt: horizon,
    };
  }

  #place({ x, z, facing }: Episode, { right, ahead }: Pose): readonly [x: number, z: number] {
    const { stepLength } = this.#options;
    const [east, north] = heading(facing);
    return [x + stepLength * (ahead * east + right * north), z + stepLength * (ahead * north - right * east)];
  }

  #distance(episode: Episode, pose: Pose): number {
    const [x, z] = this.#place(episode, pose);
    return hypot(x - episode.target[0], z - episode.target[1]);
  }

  /** How far to the right and ahead a place is, seen from a pose. */
  #bearing(episode: Episode, pose: Pose, [tx, tz]: readonly [number, number]): readonly [right: number, ahead: number] {
    const [x, z] = this.#place(episode, pose);
    const [east, north] = heading(episode.facing + pose.turns * 90);
    return [(tx - x) * north - (tz - z) * east, (tx - x) * east + (tz - z) * north];
  }

  success(): boolean {
    return this.#near(this.#episode, this.#pose) && this.#steps > 0;
  }

  #near(episode: Episode, pose: Pose): boolean {
    return this.#distance(episode, pose) <= this.#options.threshold;
  }

  get #over(): boolean {
    return this.success() || this.#steps >= this.#options.maxSteps;
  }

  act({ name }: Action): Outcome {
    if (this.#over) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    this.#steps += 1;
    const next = this.#after(this.#episode, this.#pose, name);
    const valid = typeof next !== "string";
    if (valid) this.#pose = next;
    if (this.success()) return { valid, feedback: "You are there.", reward: 1, ended: true };
    const told = valid ? {} : { feedback: next };
    if (this.#over)
      return {
        valid,
        feedback: `${valid ? "" : `${next} `}That was the last move.`,
        reward: 0,
        ended: true,
        ending: "ran out of moves",
      };
    return { valid, ...told, reward: 0, ended: false };
  }

  /** The pose that an action leads to, or why it leads nowhere. */
  #after(episode: Episode, pose: Pose, name: string): Pose | string {
    const move = MOVES.find(([known]) => known === name);
    if (move !== undefined) {
      const [, right, ahead] = move;
      // The move in the frame of the start: quarter turns swap right and ahead.
      const quarter = ((pose.turns % 4) + 4) % 4;
      const [r, a] = [
        [right, ahead],
        [ahead, -right],
        [-right, -ahead],
        [-ahead, right],
      ][quarter] as [number, number];
      const next = { ...pose, right: pose.right + r, ahead: pose.ahead + a };
      return isFree(episode.room, ...this.#place(episode, next)) ? next : "Something is in the way, so you stayed.";
    }
    if (name === "turn_right") return { ...pose, turns: (pose.turns + 1) % 4 };
    if (name === "turn_left") return { ...pose, turns: (pose.turns + 3) % 4 };
    const tilt = pose.tilt + (name === "look_down" ? HORIZON : -HORIZON);
    return Math.abs(tilt) <= LARGEST_TILT
      ? { ...pose, tilt }
      : `You can't look ${name === "look_down" ? "down" : "up"} any further.`;
  }

  observe(mode: ObservationMode): Observation {
    if (mode === "text") return this.#text();
    const renderer = this.#renderer;
    this.#meshes ??= roomMeshes(this.#episode.room).map(ballAround);
    const camera = this.#camera();
    renderer.camera = camera;
    renderer.clear([236, 234, 228]);
    for (const ball of this.#meshes) if (inView(ball, camera)) renderer.draw(ball.mesh);
    return renderer.toImage();
  }

  #camera(): Camera {
    const [x, z] = this.#place(this.#episode, this.#pose);
    const [east, north] = heading(this.#episode.facing + this.#pose.turns * 90);
    const tilt = (this.#pose.tilt * Math.PI) / 180;
    const eye: Vec3 = [x, EYE, -z];
    const target: Vec3 = [x + east * cos(tilt), EYE - sin(tilt), -(z + north * cos(tilt))];
    return { ...lookAt(eye, target, this.#options.fov, 1), near: 0.05 };
  }

  /** Furniture before the eyes, whether or not something stands in front of it: how far right and ahead. */
  #inView(episode: Episode, pose: Pose) {
    const limit = tan((this.#options.fov * Math.PI) / 360);
    return episode.room.pieces
      .map((piece) => ({ piece, at: this.#bearing(episode, pose, [piece.x, piece.z]) }))
      .filter(({ at: [right, ahead] }) => ahead > 0 && Math.abs(right) <= ahead * limit);
  }

  /** What is before the eyes, without the walls: names, distances, sides. */
  #text(): string {
    const seen = this.#inView(this.#episode, this.#pose)
      .sort((a, b) => a.at[1] - b.at[1])
      .map(({ piece, at: [right, ahead] }) => {
        const side =
          Math.abs(right) < 0.15 ? "" : `, ${Math.abs(right).toFixed(1)} m to the ${right > 0 ? "right" : "left"}`;
        return `- ${piece.paint} ${piece.kind.name}: ${ahead.toFixed(1)} m ahead${side}`;
      });
    const ways = MOVES.map(([name]) => name).filter(
      (name) => typeof this.#after(this.#episode, this.#pose, name) !== "string",
    );
    return [
      seen.length === 0 ? "Nothing but the room is before you." : `Before you:\n${seen.join("\n")}`,
      `Free: ${ways.join(", ") || "nothing"}. Moves left: ${this.#options.maxSteps - this.#steps}.`,
    ].join("\n");
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { instruction } = this.#episode;
    if (style === "brief") return instruction;
    const { stepLength, threshold, maxSteps } = this.#options;
    const view =
      mode === "text" ? "You are told what is before you in a room." : "You see a room through your own eyes.";
    return (
      `${view} Your task: ${instruction} A step is ${stepLength} m, a turn 90 degrees; where something is in the way you stay. You have ` +
      `${maxSteps} moves. You succeed, and the episode ends, as soon as you are within ${threshold} m of the thing that is meant.`
    );
  }

  solve(): Action[] {
    if (this.#over) return [];
    const way = this.#way(this.#episode, this.#pose) ?? [];
    return way.length > this.#options.maxSteps - this.#steps ? [] : way.map((name) => act(name));
  }

  /** The cheapest way: forward costs less than sideways or back, so that one looks where one goes. */
  #way(episode: Episode, start: Pose): string[] | undefined {
    if (this.#near(episode, start)) return ["look_down"];
    type Node = { readonly pose: Pose; readonly cost: number; readonly name: string; readonly from: Node | undefined };
    const key = ({ right, ahead, turns }: Pose) => `${right},${ahead},${turns}`;
    const costs: Readonly<Record<string, number>> = {
      move_forward: 10,
      turn_right: 10,
      turn_left: 10,
      move_right: 13,
      move_left: 13,
      move_backward: 13,
    };
    const best = new Map([[key(start), 0]]);
    // Costs are small whole numbers, so a list per cost does for a queue.
    const queue: Node[][] = [[{ pose: start, cost: 0, name: "", from: undefined }]];
    for (let cost = 0; cost < queue.length; cost++) {
      for (const node of queue[cost] ?? []) {
        if ((best.get(key(node.pose)) ?? Infinity) < node.cost) continue;
        if (this.#near(episode, node.pose)) return named(node);
        for (const [name, price] of Object.entries(costs)) {
          const next = this.#after(episode, node.pose, name);
          if (typeof next === "string") continue;
          const total = node.cost + price;
          if ((best.get(key(next)) ?? Infinity) <= total) continue;
          best.set(key(next), total);
          queue[total] ??= [];
          queue[total].push({ pose: next, cost: total, name, from: node });
        }
      }
    }
    return undefined;

    function named(end: Node): string[] {
      const names: string[] = [];
      for (let node: Node | undefined = end; node?.from !== undefined; node = node.from) names.unshift(node.name);
      return names;
    }
  }

  /** Where the furniture in view is, seen from the agent. */
  facts(): Fact[] {
    return this.#inView(this.#episode, this.#pose).map(({ piece, at: [right, ahead] }) => ({
      subject: piece.kind.name,
      relations: [ahead > 0.3 ? "ahead" : "beside", right < -0.3 ? "left" : right > 0.3 ? "right" : "straight"],
      object: "agent",
    }));
  }

  save(): Json {
    return { kind: this.#options.kind, seed: this.#seed, pose: { ...this.#pose }, steps: this.#steps };
  }

  load(state: Json): void {
    const saved = new Saved(state, "navigation", "kind, seed, pose, steps");
    const kind = saved.string("kind");
    if (kind !== this.#options.kind)
      throw new EnvError(`The episode is of another kind: load it into navigation/${kind}.`);
    const given = saved.get("pose");
    const pose = new Saved(given ?? null, "pose", "right, ahead, turns, tilt");
    const read: Pose = {
      right: pose.integer("right"),
      ahead: pose.integer("ahead"),
      turns: pose.integer("turns", { min: 0, max: 3 }),
      tilt: pose.number("tilt", { min: -90, max: 90 }),
    };
    const steps = saved.integer("steps", { min: 0 });
    this.reset(saved.integer("seed", { min: 0 }));
    this.#pose = read;
    this.#steps = steps;
  }
}

/** A mesh and the ball that holds it. */
type Ball = { readonly mesh: Mesh; readonly center: Vec3; readonly radius: number };

function ballAround(mesh: Mesh): Ball {
  const { low, high } = bounds([mesh]);
  const size = subtract(high, low);
  return { mesh, center: add(low, scale(size, 0.5)), radius: hypot(...size) / 2 };
}

/** Whether a ball may be seen: not behind the eye, nor beside, above or below the image. */
function inView({ center, radius }: Ball, { eye, view, spread }: Camera): boolean {
  const [x, y, back] = apply(view, subtract(center, eye));
  const slack = (k: number) => radius * Math.sqrt(1 + k * k);
  return (
    back < radius &&
    Math.abs(x) <= Math.max(0, -back) * spread[0] + slack(spread[0]) &&
    Math.abs(y) <= Math.max(0, -back) * spread[1] + slack(spread[1])
  );
}

function instructionFor(kind: Kind, { kind: { name, use, look }, paint }: Piece, dice: Dice): string {
  switch (kind) {
    case "base":
    case "long_horizon":
      return `Go to the ${name}.`;
    case "common_sense":
      return `${use} Go to what it takes.`;
    case "complex_instruction":
      return `${dice.pick(CHATTER)} What I ask of you is to go and stand by the ${name}. ${dice.pick(AFTERTHOUGHTS)}`;
    case "visual_appearance":
      return `Go to ${look.replace("%", paint)}.`;
  }
}

export const navigation = defineWorld({
  id: "navigation",
  summary: "walk through a furnished room, seen in first person, to the object that the instruction describes",
  options,
  difficulties: Object.fromEntries(KINDS.map((kind) => [kind, { kind }])),
  protocol: "think",
  maxTurns: 10,
  maxActions: 5,
  things: Object.fromEntries(FURNITURE.map(({ name }) => [name, {}])),
  view: {
    axes: [
      ["ahead", "beside", "behind"],
      ["left", "straight", "right"],
    ],
    from: "agent",
    states: 96,
    asked: `every piece of furniture that you see (${FURNITURE.map(({ name }) => name).join(", ")})`,
  },
  create: (given) => new Navigation(given),
});
