/**
 * Turning solids: what mental_rotation_3d_cube and mental_rotation_3d_objaverse share. A turn is (yaw, pitch, roll), the
 * rotation Rx(roll) · Ry(pitch) · Rz(yaw), angles in radians. In the frame of the world a turn is put before what was done,
 * in the frame of the object after it.
 */
import { EnvError, exact, type Json, type JsonObject, type NumpyRandom } from "../../src/core/index.ts";
import { type Action, act, type Outcome } from "../../src/envs/index.ts";
import {
  angleOf,
  axisAngle,
  IDENTITY,
  type Mat3,
  multiply,
  transpose,
  turnAbout,
  turnX,
  turnY,
  turnZ,
  type Vec3,
} from "./render3d/index.ts";
import type { Saved } from "./saved.ts";
import { restOf, type Script } from "./script.ts";

const { asin, atan2 } = exact;

export type Turn = readonly [yaw: number, pitch: number, roll: number];
type Frame = "world" | "object";

export const SOLVERS = [
  "by-axis",
  "axis-angle",
  "pad1_by-axis",
  "pad1_axis-angle",
  "pad3_by-axis",
  "pad3_axis-angle",
] as const;
type Solver = (typeof SOLVERS)[number];

const DEGREE = Math.PI / 180;

export type TurningOptions = {
  readonly tolerance: number;
  readonly frame: Frame;
  readonly solver: Solver;
  readonly solverSteps: number;
  /** Of the oracle's angles. */
  readonly solverDecimals: number;
};
/** How a world speaks of turns: its words, its payloads, and how its oracle goes on after it was disturbed. */
export type TurningWays = {
  readonly right: string;
  readonly wrong: string;
  turnFrom(payload: readonly number[]): Turn;
  payloadFor(turn: Turn): number[];
  readonly short: Solver;
};

/** An episode of turning something back: how it stands, how it stood, and whether that is right. */
export class Turning {
  rotation: Mat3 = IDENTITY;
  readonly #options: TurningOptions;
  readonly #ways: TurningWays;
  #secret: Turn = [0, 0, 0];
  #start: Mat3 = IDENTITY;
  #moves = 0;
  #stopped = false;
  #script: Script | undefined;

  constructor(options: TurningOptions, ways: TurningWays) {
    this.#options = options;
    this.#ways = ways;
  }

  reset(random: NumpyRandom): void {
    const angle = () => random.uniform(0, 2 * Math.PI);
    const secret: Turn = [angle(), angle(), angle()];
    const start = rotationOf(secret);
    this.#begin(secret, start, start, 0, false);
  }

  #begin(secret: Turn, start: Mat3, rotation: Mat3, moves: number, stopped: boolean): void {
    this.#secret = secret;
    this.#start = start;
    this.rotation = rotation;
    this.#moves = moves;
    this.#stopped = stopped;
    this.#script = undefined;
  }

  success(): boolean {
    return this.#stopped && (angleOf(this.rotation) * 180) / Math.PI <= this.#options.tolerance;
  }

  act({ name, payload }: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (name === "stop") {
      this.#stopped = true;
      const solved = this.success();
      const feedback = solved ? this.#ways.right : this.#ways.wrong;
      return { valid: true, feedback, reward: solved ? 1 : 0, ended: true };
    }
    this.rotation = turnBy(this.rotation, this.#ways.turnFrom(payload as number[]), this.#options.frame);
    this.#moves += 1;
    return { valid: true, reward: 0, ended: false };
  }

  solve(): Action[] {
    if (this.#stopped) return [];
    const { solver, frame, solverSteps, solverDecimals } = this.#options;
    this.#script ??= this.#write(planTurns(this.#start, solver, frame, solverSteps, solverDecimals));
    const rest = restOf(this.#script, this.#moves, JSON.stringify(this.rotation));
    return rest ?? this.#plan(planTurns(this.rotation, this.#ways.short, frame, 1, solverDecimals));
  }

  #plan(turns: readonly Turn[]): Action[] {
    return [...turns.map((turn) => act("rotate", this.#ways.payloadFor(turn))), act("stop")];
  }

  /** A plan from turns, with the rotations that it leads through. */
  #write(turns: readonly Turn[]): Script {
    const rotations = [this.#start];
    for (const turn of turns) rotations.push(turnBy(rotations.at(-1) as Mat3, turn, this.#options.frame));
    return { plan: this.#plan(turns), states: rotations.map((rotation) => JSON.stringify(rotation)) };
  }

  /** VisGym's fields, the rotation being the present one, and what has been played since. */
  save(): JsonObject {
    const [secret_yaw, secret_pitch, secret_roll] = this.#secret;
    return {
      secret_yaw,
      secret_pitch,
      secret_roll,
      current_rot: this.rotation,
      start_rot: this.#start,
      moves: this.#moves,
      stopped: this.#stopped,
    };
  }

  load(saved: Saved): void {
    const rotation = readRotation(saved.get("current_rot"), "current_rot");
    const start = saved.has("start_rot") ? readRotation(saved.get("start_rot"), "start_rot") : rotation;
    const angle = (field: string) => saved.number(field, { fallback: 0 });
    const secret: Turn = [angle("secret_yaw"), angle("secret_pitch"), angle("secret_roll")];
    const moves = saved.integer("moves", { min: 0, fallback: 0 });
    this.#begin(secret, start, rotation, moves, saved.boolean("stopped"));
  }
}

function rotationOf([yaw, pitch, roll]: Turn): Mat3 {
  return multiply(turnX(roll), multiply(turnY(pitch), turnZ(yaw)));
}

/** The turn that is this rotation. */
export function turnOf(m: Mat3): Turn {
  const pitch = asin(Math.max(-1, Math.min(1, m[0][2])));
  // Straight up or down, yaw and roll turn about the same axis: yaw does it all.
  if (Math.abs(m[0][2]) > 1 - 1e-12) return [atan2(m[1][0], m[1][1]), pitch, 0];
  return [atan2(-m[0][1], m[0][0]), pitch, atan2(-m[1][2], m[2][2])];
}

function turnBy(rotation: Mat3, degrees: Turn, frame: Frame): Mat3 {
  const by = rotationOf([degrees[0] * DEGREE, degrees[1] * DEGREE, degrees[2] * DEGREE]);
  return frame === "world" ? multiply(by, rotation) : multiply(rotation, by);
}

/** Turns in degrees, of so many decimals, that lead from `rotation` to none. `parts`: in how many steps an `axis-angle` plan goes. */
function planTurns(rotation: Mat3, solver: Solver, frame: Frame, parts: number, decimals: number): Turn[] {
  const back = transpose(rotation);
  // What is left of a plan in coarse angles is less than they can say.
  if (angleOf(rotation) < (1.5 * DEGREE) / 10 ** decimals) return [];
  const [pad, way] = solver.includes("_") ? (solver.split("_") as [string, string]) : ["", solver];
  const tour = pad === "pad1" ? TOUR : [];
  if (way === "axis-angle") {
    const { axis, angle } = axisAngle(back);
    const one = rounded(turnOf(turnAbout(axis, angle / parts)), decimals);
    const steps = isNone(one) ? [] : Array.from({ length: parts }, () => one);
    return [...tour, ...(pad === "pad3" ? AXES.flatMap(round) : []), ...steps];
  }
  const [yaw, pitch, roll] = rounded(turnOf(back), decimals);
  const byAxis: Turn[] = [
    [yaw, 0, 0],
    [0, pitch, 0],
    [0, 0, roll],
  ];
  const ordered = (frame === "world" ? byAxis : byAxis.reverse()).filter((turn) => !isNone(turn));
  const looked = ordered.flatMap((turn) =>
    pad === "pad3" ? [...round(AXES[turn.findIndex((by) => by !== 0)] as Turn), turn] : [turn],
  );
  return [...tour, ...looked];
}

const AXES: readonly Turn[] = [
  [90, 0, 0],
  [0, 90, 0],
  [0, 0, 90],
];
/** All the way around an axis, in quarters. */
const round = (quarter: Turn): Turn[] => [quarter, quarter, quarter, quarter];
/** A look at all six sides, ending where it began. */
const TOUR: readonly Turn[] = [
  [90, 0, 0],
  [90, 0, 0],
  [90, 0, 0],
  [0, 90, 0],
  [0, 180, 0],
  [0, 90, 0],
  [90, 0, 0],
];

function rounded(turn: Turn, decimals: number): Turn {
  const one = (radians: number) => Number((radians / DEGREE).toFixed(decimals)) + 0;
  return [one(turn[0]), one(turn[1]), one(turn[2])];
}

function isNone(turn: Turn): boolean {
  return turn.every((by) => by === 0);
}

/** A saved rotation: three rows of three, or four of four whose rest is left out. */
function readRotation(value: Json | undefined, field: string): Mat3 {
  const rows = (Array.isArray(value) ? value : [])
    .slice(0, 3)
    .map((row) => (Array.isArray(row) ? row.slice(0, 3) : []));
  const numbers = rows.flat();
  if (numbers.length !== 9 || !numbers.every((one) => typeof one === "number" && Math.abs(one) <= 1.001)) {
    throw new EnvError(`${field} must be a rotation: rows of numbers from -1 to 1.`);
  }
  const matrix = rows as unknown as Mat3;
  const product = multiply(matrix, transpose(matrix));
  const off = product.flatMap((row, i) => row.map((one, k) => Math.abs(one - (IDENTITY[i as 0] as Vec3)[k as 0])));
  if (Math.max(...off) > 1e-3) throw new EnvError(`${field} must be a rotation: its rows must be at right angles.`);
  return matrix;
}
