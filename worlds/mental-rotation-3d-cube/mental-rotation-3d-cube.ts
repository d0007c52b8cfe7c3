/**
 * mental_rotation_3d_cube (VisGym): a figure of cubes, as it should stand on the left and turned on the right; turn it back,
 * then stop. Only `stop` ends the episode and pays. Figures and rotations are VisGym's for every seed, and the view is its
 * projection: each panel is fitted to the figure as it stands.
 */
import { z } from "zod";
import { EnvError, exact, Image, isJsonObject, type Json, NumpyRandom, PythonRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  defineWorld,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  stopAction,
  type World,
} from "../../src/envs/index.ts";
import { Canvas, type Color, type Point } from "../../src/images/index.ts";
import { apply, IDENTITY, type Mat3, type Vec3 } from "../shared/render3d/index.ts";
import { SOLVERS, type Turn, Turning } from "../shared/rotation.ts";
import { Saved } from "../shared/saved.ts";

const { cos, sin } = exact;

const options = z.strictObject({
  segments: z.int().min(1).max(12).default(4).describe("Number of straight segments of the figure."),
  length: z
    .tuple([z.int().min(1).max(9), z.int().min(1).max(9)])
    .refine(([low, high]) => low <= high, "must not be descending")
    .default([2, 5])
    .describe("Shortest and longest segment, in cubes."),
  tolerance: z
    .number()
    .positive()
    .max(180)
    .default(10)
    .describe("Largest difference in rotation that counts as a match, in degrees."),
  frame: z
    .enum(["world", "object"])
    .default("object")
    .describe("Rotate about the axes of the world or about the figure's own axes."),
  panel: z.int().min(48).max(1024).default(256).describe("Side of each panel, in pixels."),
  solver: z
    .enum(SOLVERS)
    .default("pad3_by-axis")
    .describe(
      "How the oracle plans: one axis after the other, or about a single axis. `pad1_` and `pad3_` add rotations that cancel out.",
    ),
  solverSteps: z.int().min(1).max(50).default(3).describe("Number of steps of an `axis-angle` plan."),
  solverDecimals: z
    .int()
    .min(0)
    .max(4)
    .default(1)
    .describe("Decimals of the oracle's angles. 0 makes its replies shorter."),
});

type Shape = { readonly lengths: readonly number[]; readonly directions: readonly number[] };
type Cell = readonly [number, number, number];
/** +x, -x, +y, -y, +z, -z. */
const AXES: readonly Cell[] = [
  [1, 0, 0],
  [-1, 0, 0],
  [0, 1, 0],
  [0, -1, 0],
  [0, 0, 1],
  [0, 0, -1],
];
const EDGE: Color = [0, 0, 0];

export class MentalRotation3DCube implements World {
  readonly actions: readonly ActionSpec[];
  readonly #options: z.output<typeof options>;
  readonly #turning: Turning;
  #shape!: Shape;
  #faces: readonly Face[] = [];
  #goal: Image | undefined;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.#turning = new Turning(given, {
      right: "You stopped with both figures standing the same way.",
      wrong: "You stopped with the right figure turned.",
      turnFrom: (payload) => payload as unknown as Turn,
      payloadFor: (turn) => [...turn],
      short: "by-axis",
    });
    const angle = (name: string) => ({ type: "real", name, min: -180, max: 180 }) as const;
    const axes = given.frame === "world" ? "the fixed axes of the room" : "the figure's own axes";
    this.actions = [
      {
        name: "rotate",
        description:
          `turn the right figure by yaw (about z), then pitch (about y), then roll (about x), in degrees, about ${axes}; ` +
          "z points up, x and y lie flat and point towards you, to the left and to the right",
        arg: { type: "list", items: [angle("yaw"), angle("pitch"), angle("roll")] },
        example: [45, 0, -30],
      },
      stopAction("end the episode, once both figures stand the same way"),
    ];
    this.reset(0);
  }

  reset(seed: number): void {
    const { segments, length } = this.#options;
    this.#turning.reset(new NumpyRandom(seed));
    this.#begin(drawShape(new PythonRandom(seed), segments, length));
  }

  #begin(shape: Shape): void {
    this.#shape = shape;
    this.#faces = facesOf(cellsOf(shape));
    this.#goal = undefined;
  }

  success(): boolean {
    return this.#turning.success();
  }

  act(action: Action): Outcome {
    return this.#turning.act(action);
  }

  observe(mode: ObservationMode): Observation {
    return mode === "text" ? this.#text() : this.#frame();
  }

  #frame(): Image {
    const { panel } = this.#options;
    this.#goal ??= drawPanel(new Canvas(2 * panel, panel), 0, panel, this.#faces, IDENTITY).toImage();
    const canvas = Canvas.from(this.#goal);
    drawPanel(canvas, panel, panel, this.#faces, this.#turning.rotation);
    return new Image(canvas.width, canvas.height, canvas.data);
  }

  /** VisGym has no text view of this world; ours gives the cubes' places, as they should be and as they are. */
  #text(): string {
    const centred = centredCells(cellsOf(this.#shape));
    const list = (rotation: Mat3) =>
      centred
        .map(
          (cell) =>
            `(${apply(rotation, cell)
              .map((at) => (Math.round(at * 10) / 10 + 0).toFixed(1))
              .join(", ")})`,
        )
        .join(" ");
    return `cubes as they should be: ${list(IDENTITY)}\ncubes as they are: ${list(this.#turning.rotation)}`;
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { tolerance, frame } = this.#options;
    if (style === "brief") {
      return mode === "text"
        ? "Turn the cubes to where they should be, then stop."
        : "Turn the right figure until it stands like the left one, then stop.";
    }
    const view =
      mode === "text"
        ? "A figure of cubes was turned about its middle. You are told where its cubes should be and where they are, as (x, y, z)."
        : "On the left you see a figure of cubes, on the right the same figure, turned about its middle. Faces that look up are dark.";
    return (
      `${view} Turn ${mode === "text" ? "it" : "the right one"} back, then stop. Turns are about ` +
      `${frame === "world" ? "the fixed axes of the room, whatever was turned before" : "the figure's own axes, which turn with it"}. ` +
      `You succeed if what is left to turn is at most ${tolerance} degrees when you stop.`
    );
  }

  solve(): Action[] {
    return this.#turning.solve();
  }

  /** VisGym's `init_state`, its rotation being the present one, and what has been played since. */
  save(): Json {
    const { lengths, directions } = this.#shape;
    return { shape_state: { seg_lens: lengths, dir_indices: directions }, ...this.#turning.save() };
  }

  load(state: Json): void {
    const saved = new Saved(state, "mental_rotation_3d_cube", "shape_state, current_rot");
    const shape = readShape(saved.get("shape_state"));
    this.#turning.load(saved);
    this.#begin(shape);
  }
}

/** All lengths first, then the ways to go after each segment, each at a right angle to the one before; +x comes first. */
function drawShape(random: PythonRandom, segments: number, [low, high]: readonly [number, number]): Shape {
  const lengths = Array.from({ length: segments }, () => random.randint(low, high));
  let last = 0;
  const directions = lengths.map(() => {
    const across = AXES.flatMap((_, i) => (Math.floor(i / 2) === Math.floor(last / 2) ? [] : [i]));
    last = across[random.randint(0, across.length - 1)] as number;
    return last;
  });
  return { lengths, directions };
}

/** The cells that the segments walk through; where they cross, a cell counts once. */
function cellsOf({ lengths, directions }: Shape): Cell[] {
  const cells = new Map<string, Cell>();
  let at: Cell = [0, 0, 0];
  cells.set(at.join(), at);
  lengths.forEach((length, i) => {
    const [dx, dy, dz] = AXES[i === 0 ? 0 : (directions[i - 1] as number)] as Cell;
    for (let step = 0; step < length; step++) {
      at = [at[0] + dx, at[1] + dy, at[2] + dz];
      cells.set(at.join(), at);
    }
  });
  return [...cells.values()];
}

/** Around their mean. */
function centredCells(cells: readonly Cell[]): Vec3[] {
  const mean = (k: 0 | 1 | 2) => cells.reduce((sum, cell) => sum + cell[k], 0) / cells.length;
  const [x, y, z] = [mean(0), mean(1), mean(2)];
  return cells.map((cell): Vec3 => [cell[0] - x, cell[1] - y, cell[2] - z]);
}

type Face = { readonly corners: readonly Vec3[]; readonly normal: Vec3 };

/** The faces that can be seen: those between a cube and nothing. Corners run counter-clockwise seen from outside. */
function facesOf(cells: readonly Cell[]): Face[] {
  const taken = new Set(cells.map((cell) => cell.join()));
  const centred = centredCells(cells);
  return cells.flatMap((cell, i) =>
    AXES.flatMap((normal): Face[] => {
      if (taken.has([cell[0] + normal[0], cell[1] + normal[1], cell[2] + normal[2]].join())) return [];
      const [x, y, z] = centred[i] as Vec3;
      // Two directions along the face, such that u × v is the normal.
      const u: Vec3 = [normal[1], normal[2], normal[0]];
      const v: Vec3 = [
        normal[1] * u[2] - normal[2] * u[1],
        normal[2] * u[0] - normal[0] * u[2],
        normal[0] * u[1] - normal[1] * u[0],
      ];
      const corner = (a: number, b: number): Vec3 => [
        x + (normal[0] + a * u[0] + b * v[0]) / 2,
        y + (normal[1] + a * u[1] + b * v[1]) / 2,
        z + (normal[2] + a * u[2] + b * v[2]) / 2,
      ];
      return [{ corners: [corner(-1, -1), corner(1, -1), corner(1, 1), corner(-1, 1)], normal }];
    }),
  );
}

const RISE = Math.PI / 6;
const AROUND = Math.PI / 4;
/** Towards the eye, to the right and up, as seen from the eye. */
const FORWARD: Vec3 = [cos(RISE) * cos(AROUND), cos(RISE) * sin(AROUND), sin(RISE)];
const RIGHT: Vec3 = [-sin(AROUND), cos(AROUND), 0];
const UP: Vec3 = [
  FORWARD[1] * RIGHT[2] - FORWARD[2] * RIGHT[1],
  FORWARD[2] * RIGHT[0] - FORWARD[0] * RIGHT[2],
  FORWARD[0] * RIGHT[1] - FORWARD[1] * RIGHT[0],
];

/** VisGym's view in closed form: scaled to the figure's largest extent, flattened a little, seen from a distance of ten. */
function drawPanel(canvas: Canvas, left: number, panel: number, faces: readonly Face[], rotation: Mat3): Canvas {
  const turned = faces.map(({ corners, normal }) => ({
    corners: corners.map((corner) => apply(rotation, corner)),
    up: apply(rotation, normal)[2],
  }));
  const all = turned.flatMap(({ corners }) => corners.flat());
  const [low, high] = [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
  const extent = ((high - low) * 25) / 24;
  const middle = (low + high) / 2;
  const [flat, tall] = [1.190476 / (extent * 1.1), 0.892857 / extent];
  const unit = panel / 256;
  const project = ([x, y, z]: Vec3) => {
    const [a, b, c] = [(x - middle) * flat, (y - middle) * flat, (z - middle) * tall];
    const depth = 10 - (a * FORWARD[0] + b * FORWARD[1] + c * FORWARD[2]);
    const across = (a * RIGHT[0] + b * RIGHT[1] + c * RIGHT[2]) / depth;
    const up = (a * UP[0] + b * UP[1] + c * UP[2]) / depth;
    const px = 32.64 + ((across + 0.095) / 0.185) * 197.12;
    const py = 256 - (28.16 + ((up + 0.095) / 0.185) * 197.12);
    return { point: [left + px * unit, py * unit] as Point, depth };
  };
  const seen = turned.flatMap(({ corners, up }) => {
    const projected = corners.map(project);
    const [a, b, c] = projected.map(({ point }) => point) as [Point, Point, Point];
    // Rows run down, so what faces the eye runs clockwise.
    const area = (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]);
    if (area >= 0) return [];
    const depth = projected.reduce((sum, corner) => sum + corner.depth, 0) / 4;
    const level = Math.round(255 * (0.8 - 0.8 * Math.max(0, up)));
    return [{ points: projected.map(({ point }) => point), depth, color: [level, level, level] as Color }];
  });
  // Far ones first.
  seen.sort((a, b) => b.depth - a.depth);
  for (const { points, color } of seen) {
    canvas.polygon(points, color);
    const [a, b, c, d] = points as [Point, Point, Point, Point];
    for (const [from, to] of [
      [a, b],
      [b, c],
      [c, d],
      [d, a],
      [a, c],
    ] as const) {
      canvas.line(from[0], from[1], to[0], to[1], EDGE, { width: Math.max(0.4, 0.7 * unit) });
    }
  }
  return canvas;
}

function readShape(value: Json | undefined): Shape {
  const { seg_lens, dir_indices } = isJsonObject(value) ? value : {};
  const fits = (list: Json | undefined, high: number, low: number): list is number[] =>
    Array.isArray(list) &&
    list.length > 0 &&
    list.length <= 24 &&
    list.every((one) => Number.isInteger(one) && Number(one) >= low && Number(one) <= high);
  if (!fits(seg_lens, 20, 1) || !fits(dir_indices, 5, 0) || dir_indices.length < seg_lens.length - 1) {
    throw new EnvError(
      "shape_state must hold seg_lens (1 to 20 each) and dir_indices (0 to 5 each), one for each segment.",
    );
  }
  return { lengths: seg_lens, directions: dir_indices };
}

export const mentalRotation3dCube = defineWorld({
  id: "mental_rotation_3d_cube",
  summary: "rotate a figure made of cubes until it matches the one next to it, then stop",
  options,
  difficulties: { easy: { segments: 4 }, hard: { segments: 6 } },
  variants: { eval: { easy: { frame: "world" }, hard: { frame: "world" } }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new MentalRotation3DCube(given),
});
