/**
 * matchstick_rotation (VisGym): lay the blue stick on the dashed red one by moves of [dx, dy, dθ], then stop. How far a
 * move goes is hidden: positions are kept in units of 1/scale of the canvas, and a move of dx shifts them by dx·scale, so
 * the stick travels dx·scale² on the canvas. An agent has to probe before it can aim. Only `stop` ends the episode and
 * pays. Seeds, steps and verdicts equal VisGym's; the position tolerance is in those hidden units too, as there
 * (on the canvas it is `positionTolerance · scale`).
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

const FRAME: Color = [0, 0, 0];
const TARGET: Color = [255, 0, 0];
const STICK: Color = [0, 0, 255];

/** Where the canvas lies in the 400-pixel image, and the thickness of lines (2, 2 and 3 points at 100 dpi). */
const REFERENCE_SIZE = 400;
const BOX = { x: 50, y: 48, width: 310, height: 308 };
const FRAME_WIDTH = 2.78;
const TARGET_WIDTH = 2.78;
const STICK_WIDTH = 4.17;
/** Stroke and gap of the dashes, in line widths. */
const DASH = [3.7, 1.6];

const positive = z.number().positive().max(1e6);

const options = z.strictObject({
  canvas: z
    .tuple([positive, positive])
    .default([100, 100])
    .describe("Width and height of the canvas, in canvas units."),
  stickLength: positive.default(20).describe("Length of a stick, in canvas units."),
  scaleRange: z
    .tuple([positive, positive])
    .refine(([low, high]) => low <= high, "must not be descending")
    .default([0.3, 3])
    .describe("Range of the hidden scale, drawn uniformly."),
  positionTolerance: z
    .number()
    .nonnegative()
    .default(5)
    .describe("Largest distance between the centres that counts as a fit, in hidden units (canvas units / scale)."),
  angleTolerance: z
    .number()
    .nonnegative()
    .max(90)
    .default(10)
    .describe("Largest angle between the sticks that counts as a fit, in degrees, modulo 180."),
  size: z.int().min(32).max(2048).default(400).describe("Side of the frame, in pixels."),
  probe: positive.default(1).describe("Length of the oracle's first step, which shows the scale, in units of a move."),
  solverDecimals: z
    .int()
    .min(0)
    .max(4)
    .default(1)
    .describe("Fewest decimals of the oracle's numbers. It takes more where these would miss."),
});

type Point = readonly [x: number, y: number];
/** `mid` in hidden units, y upwards; `angle` in degrees, counter-clockwise. */
type Pose = { readonly mid: Point; readonly angle: number };
type Episode = { readonly scale: number; readonly target: Pose; readonly start: Pose };

export class MatchstickRotation implements World {
  readonly actions: readonly ActionSpec[] = [
    {
      name: "move",
      description:
        "shift the blue stick right by dx and up by dy (both times an unknown factor) and turn it counter-clockwise by " +
        "dtheta degrees; negative numbers go left, down and clockwise",
      arg: {
        type: "list",
        items: [
          { type: "real", name: "dx" },
          { type: "real", name: "dy" },
          { type: "real", name: "dtheta" },
        ],
      },
      example: [1, -2.5, 30],
    },
    stopAction("end the episode, once the blue stick lies on the red one"),
  ];

  readonly #options: z.output<typeof options>;
  #episode!: Episode;
  #stick!: Pose;
  #stopped = false;
  /** Frame and target, drawn when first looked at. */
  #background: Image | undefined;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.reset(0);
  }

  reset(seed: number): void {
    const random = new NumpyRandom(seed);
    const { canvas, scaleRange } = this.#options;
    const scale = random.uniform(...scaleRange);
    const pose = (): Pose => ({
      mid: [random.uniform(0, canvas[0] / scale), random.uniform(0, canvas[1] / scale)],
      angle: random.uniform(0, 360),
    });
    const target = pose();
    const start = pose();
    this.#begin({ scale, target, start }, start, false);
  }

  #begin(episode: Episode, stick: Pose, stopped: boolean): void {
    this.#episode = episode;
    this.#stick = stick;
    this.#stopped = stopped;
    this.#background = undefined;
  }

  success(): boolean {
    return this.#stopped && this.#fits(this.#stick);
  }

  #fits(stick: Pose): boolean {
    const { target } = this.#episode;
    const distance = Math.hypot(stick.mid[0] - target.mid[0], stick.mid[1] - target.mid[1]);
    const turn = Math.abs(stick.angle - target.angle) % 180;
    return distance <= this.#options.positionTolerance && Math.min(turn, 180 - turn) <= this.#options.angleTolerance;
  }

  act(action: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (action.name === "stop") {
      this.#stopped = true;
      return this.success()
        ? { valid: true, feedback: "You stopped with the sticks lined up.", reward: 1, ended: true }
        : { valid: true, feedback: "You stopped before the sticks were lined up.", reward: 0, ended: true };
    }
    const [dx, dy, turn] = action.payload as readonly [number, number, number];
    this.#stick = this.#moved(this.#stick, dx, dy, turn);
    return { valid: true, reward: 0, ended: false };
  }

  #moved({ mid, angle }: Pose, dx: number, dy: number, turn: number): Pose {
    const { scale } = this.#episode;
    const { canvas } = this.#options;
    return {
      mid: [clamp(mid[0] + dx * scale, canvas[0] / scale), clamp(mid[1] + dy * scale, canvas[1] / scale)],
      angle: modulo(angle + turn, 360),
    };
  }

  observe(mode: ObservationMode): Observation {
    return mode === "text" ? this.#text() : this.#frame();
  }

  #frame(): Image {
    this.#background ??= this.#drawBackground();
    const frame = Canvas.from(this.#background);
    this.#drawStick(frame, this.#stick, STICK, { width: this.#thickness(STICK_WIDTH, 1.5), cap: "square" });
    return new Image(frame.width, frame.height, frame.data);
  }

  #drawBackground(): Image {
    const { size } = this.#options;
    const canvas = new Canvas(size, size);
    const { x, y, width, height } = this.#box();
    const line = { width: this.#thickness(FRAME_WIDTH, 1.5), clip: { x, y, width, height } };
    // Each line is centred on the first pixel past its edge and cut off at the box, which makes left and top thicker.
    const [left, right, top, bottom] = [x + 0.5, x + width + 0.5, y + 0.5, y + height + 0.5];
    canvas.line(left, top, left, bottom, FRAME, line);
    canvas.line(right, top, right, bottom, FRAME, line);
    canvas.line(left, top, right, top, FRAME, line);
    canvas.line(left, bottom, right, bottom, FRAME, line);
    const dashed = this.#thickness(TARGET_WIDTH, 1.25);
    this.#drawStick(canvas, this.#episode.target, TARGET, {
      width: dashed,
      cap: "butt",
      dash: DASH.map((part) => part * dashed),
    });
    return new Image(size, size, canvas.data);
  }

  #drawStick(
    canvas: Canvas,
    { mid, angle }: Pose,
    color: Color,
    line: { width: number; cap: "butt" | "square"; dash?: readonly number[] },
  ): void {
    const { canvas: extent, stickLength } = this.#options;
    const { scale } = this.#episode;
    const box = this.#box();
    const half = stickLength / 2;
    const radians = (angle * Math.PI) / 180;
    const [dx, dy] = [Math.cos(radians) * half, Math.sin(radians) * half];
    const [x, y] = [mid[0] * scale, mid[1] * scale];
    const column = (unit: number) => box.x + (unit / extent[0]) * box.width;
    const row = (unit: number) => box.y + box.height - (unit / extent[1]) * box.height;
    canvas.line(column(x - dx), row(y - dy), column(x + dx), row(y + dy), color, { ...line, clip: box });
  }

  /** The canvas in the image, on whole pixels. */
  #box() {
    const zoom = this.#options.size / REFERENCE_SIZE;
    const [x, y] = [Math.round(BOX.x * zoom), Math.round(BOX.y * zoom)];
    return {
      x,
      y,
      width: Math.round((BOX.x + BOX.width) * zoom) - x,
      height: Math.round((BOX.y + BOX.height) * zoom) - y,
    };
  }

  #thickness(reference: number, least: number): number {
    return Math.max(least, (reference * this.#options.size) / REFERENCE_SIZE);
  }

  /** VisGym has no text view of this world; this one tells what the image shows, so the scale stays hidden. */
  #text(): string {
    const { canvas } = this.#options;
    const { scale, target } = this.#episode;
    const line = (name: string, { mid, angle }: Pose) =>
      `${name}: centre (${(mid[0] * scale).toFixed(1)}, ${(mid[1] * scale).toFixed(1)}), ` +
      `angle ${modulo(angle, 180).toFixed(1)}`;
    return [`canvas: ${canvas[0]} wide, ${canvas[1]} high`, line("target", target), line("stick", this.#stick)].join(
      "\n",
    );
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    if (style === "brief") {
      return mode === "text"
        ? "Move the stick onto the target, then stop."
        : "Move the blue stick onto the dashed red one, then stop.";
    }
    const { positionTolerance, angleTolerance } = this.#options;
    const view =
      mode === "text"
        ? "You are told the centre and the angle of a stick and of its target on a canvas, x to the right, y upwards, " +
          "angles counter-clockwise in degrees."
        : "You see a canvas in a black frame, with a solid blue stick and a dashed red one of the same length.";
    const [stick, goal] = mode === "text" ? ["the stick", "the target"] : ["the blue stick", "the red one"];
    return (
      `${view} Shift and turn ${stick} until it covers ${goal}, then stop. The shifts you ask for are multiplied by a ` +
      "factor that you do not know and that stays the same all episode, so try a small shift first and see how far it " +
      `goes; turns are exact. The centre of ${stick} can't leave the canvas. You succeed if, when you stop, the centres are ` +
      `at most ${positionTolerance} units apart (units have a hidden size too, so aim for an exact fit) and the angles ` +
      `differ by at most ${angleTolerance} degrees; it does not matter which end is which.`
    );
  }

  /** Where the middle of the target is, seen from that of the stick, which is the player here; nearer than counts as a fit is the same row or column. */
  facts(): Fact[] {
    const { target } = this.#episode;
    const near = (distance: number) => (Math.abs(distance) <= this.#options.positionTolerance ? 0 : distance);
    const [right, up] = [near(target.mid[0] - this.#stick.mid[0]), near(target.mid[1] - this.#stick.mid[1])];
    return [{ subject: "target", relations: placeWords(-up, right), object: "player" }];
  }

  /**
   * Shows how the world answers before relying on it: one unit step towards the target while nothing has been moved
   * yet, then the rest with the whole turn, then stop. Numbers have one decimal unless that would miss.
   */
  solve(): Action[] {
    if (this.#stopped) return [];
    if (this.#fits(this.#stick)) return [act("stop")];
    const { scale, target, start } = this.#episode;
    const plan: Action[] = [];
    let stick = this.#stick;
    if (stick.mid[0] === start.mid[0] && stick.mid[1] === start.mid[1]) {
      const eighth = Math.round(Math.atan2(target.mid[1] - stick.mid[1], target.mid[0] - stick.mid[0]) / (Math.PI / 4));
      const [dx, dy] = [Math.round(Math.cos((eighth * Math.PI) / 4)), Math.round(Math.sin((eighth * Math.PI) / 4))];
      const { probe } = this.#options;
      stick = this.#moved(stick, probe * dx, probe * dy, 0);
      plan.push(act("move", [probe * dx + 0, probe * dy + 0, 0]));
    }
    const turn = modulo(target.angle - stick.angle + 90, 180) - 90;
    for (let decimals = this.#options.solverDecimals; decimals <= 15; decimals++) {
      const [dx, dy, dtheta] = [
        rounded((target.mid[0] - stick.mid[0]) / scale, decimals),
        rounded((target.mid[1] - stick.mid[1]) / scale, decimals),
        rounded(turn, decimals),
      ];
      if (this.#fits(this.#moved(stick, dx, dy, dtheta))) return [...plan, act("move", [dx, dy, dtheta]), act("stop")];
    }
    return [];
  }

  /** VisGym's `init_state`, and where the stick is now. */
  save(): Json {
    const { scale, target, start } = this.#episode;
    return {
      scale,
      target_mid: target.mid,
      target_ang: target.angle,
      initial_mid: start.mid,
      initial_ang: start.angle,
      mid: this.#stick.mid,
      ang: this.#stick.angle,
      stopped: this.#stopped,
    };
  }

  load(state: Json): void {
    if (!isJsonObject(state))
      throw new EnvError("A matchstick_rotation state must be an object with scale, target_mid, …");
    const scale = readNumber(state.scale, "scale");
    if (scale <= 0) throw new EnvError(`scale must be above 0, got ${scale}.`);
    const target = readPose(state.target_mid, state.target_ang, "target");
    const start = readPose(state.initial_mid, state.initial_ang, "initial");
    const stick: Pose = {
      mid: state.mid === undefined ? start.mid : readPoint(state.mid, "mid"),
      angle: state.ang === undefined ? start.angle : readNumber(state.ang, "ang"),
    };
    const stopped = state.stopped ?? false;
    if (typeof stopped !== "boolean") throw new EnvError("stopped must be true or false.");
    this.#begin({ scale, target, start }, stick, stopped);
  }
}

function clamp(value: number, high: number): number {
  return Math.min(Math.max(value, 0), high);
}

/** Python's `%` for floats: the result has the sign of the divisor. */
function modulo(value: number, divisor: number): number {
  const remainder = value % divisor;
  return remainder < 0 ? remainder + divisor : remainder;
}

/** Never -0, which would print as such. */
function rounded(value: number, decimals: number): number {
  return Number(value.toFixed(decimals)) + 0;
}

function readPose(mid: Json | undefined, angle: Json | undefined, prefix: string): Pose {
  return { mid: readPoint(mid, `${prefix}_mid`), angle: readNumber(angle, `${prefix}_ang`) };
}

function readPoint(value: Json | undefined, field: string): Point {
  if (!Array.isArray(value) || value.length !== 2) throw new EnvError(`${field} must be a list of two numbers.`);
  return [readNumber(value[0], field), readNumber(value[1], field)];
}

function readNumber(value: Json | undefined, field: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) throw new EnvError(`${field} must be a number.`);
  return value;
}

export const matchstickRotation = defineWorld({
  id: "matchstick_rotation",
  summary: "move a blue stick onto a dashed red one, with moves of unknown scale, then stop",
  options,
  things: { target: { words: ["goal", "red stick", "dashed red stick"] } },
  view: { viewpoint: "blue stick" },
  difficulties: {
    easy: { positionTolerance: 10, angleTolerance: 15 },
    hard: { positionTolerance: 5, angleTolerance: 10 },
  },
  variants: {
    eval: { easy: { canvas: [120, 120], stickLength: 20 }, hard: { canvas: [120, 120], stickLength: 20 } },
    registered: { easy: {}, hard: {} },
  },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new MatchstickRotation(given),
});
