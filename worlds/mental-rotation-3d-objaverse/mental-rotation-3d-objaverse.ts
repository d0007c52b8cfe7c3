/**
 * mental_rotation_3d_objaverse (VisGym): a solid thing, as it should stand on the left and turned on the right; turn it back,
 * then stop. Only `stop` ends the episode and pays. Things are toys of our own, none of which looks the same after a turn, or
 * glTF and GLB files from a folder, thinned out to as many triangles as VisGym keeps. Each panel's camera is fitted to the
 * thing as it stands, and sees it a little taller than wide, as there.
 */
import { resolve } from "node:path";
import { z } from "zod";
import { type Awaitable, ConfigError, EnvError, exact, Image, type Json, NumpyRandom } from "../../src/core/index.ts";
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
import {
  apply,
  type Camera,
  IDENTITY,
  loadModel,
  type Mat3,
  type Mesh,
  Renderer,
  type Vec3,
} from "../shared/render3d/index.ts";
import { SOLVERS, Turning } from "../shared/rotation.ts";
import { Saved } from "../shared/saved.ts";
import { filesIn, findIn, sceneSeed, when } from "../shared/scenes/index.ts";
import { centred, toy } from "../shared/scenes/toys.ts";

const { tan } = exact;

const options = z.strictObject({
  tolerance: z
    .number()
    .positive()
    .max(180)
    .default(15)
    .describe("Largest difference in rotation that counts as a match, in degrees."),
  frame: z
    .enum(["world", "object"])
    .default("object")
    .describe("Rotate about the axes of the world or about the object's own axes."),
  panel: z.int().min(32).max(512).default(128).describe("Side of each panel, in pixels."),
  samples: z
    .int()
    .min(1)
    .max(4)
    .default(2)
    .describe("Samples along each side of a pixel. 2 smooths edges and takes four times the work."),
  folder: z.string().optional().describe("Folder of .glb and .gltf files. Without it, the world draws its own toys."),
  triangles: z.int().min(8).max(100_000).default(900).describe("Maximum number of triangles to keep of a file."),
  solver: z
    .enum(SOLVERS)
    .default("axis-angle")
    .describe(
      "How the oracle plans: one axis after the other, or about a single axis. `pad1_` and `pad3_` add rotations that cancel out.",
    ),
  solverSteps: z.int().min(1).max(50).default(1).describe("Number of steps of an `axis-angle` plan."),
  solverDecimals: z
    .int()
    .min(0)
    .max(4)
    .default(1)
    .describe("Decimals of the oracle's angles. 0 makes its replies shorter."),
});

const SPREAD = [tan(Math.PI / 6), tan(Math.PI / 8)] as const;

/** How much farther the camera is than it must be: toys keep clear of their panel's border, files may touch it as in VisGym. */
const ROOM = { toy: 1.08, file: 1 } as const;

/** A thing in the box from -1 to 1, with the panel that shows it as it should stand. */
type Thing = { readonly meshes: readonly Mesh[]; readonly room: number; readonly left: Image };

export class MentalRotation3DObjaverse implements World {
  readonly actions: readonly ActionSpec[];
  readonly #options: z.output<typeof options>;
  readonly #renderer: Renderer;
  readonly #files: readonly string[] | undefined;
  readonly #turning: Turning;
  #object = "toy:0";
  #thing: Thing | undefined;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.#turning = new Turning(given, {
      right: "You stopped with both standing the same way.",
      wrong: "You stopped with the right one turned.",
      // A payload's first number turns about y, its second about x, its third about -z.
      turnFrom: ([upright = 0, across = 0, clockwise = 0]) => [-clockwise, upright, across],
      payloadFor: ([yaw, pitch, roll]) => [pitch, roll, -yaw + 0],
      short: "axis-angle",
    });
    this.#renderer = new Renderer(given.panel, given.panel, fitted([], IDENTITY, 1), given.samples);
    this.#renderer.light = { direction: [0, 0, 1], intensity: 2, ambient: 0.25 };
    this.#renderer.shading = "physical";
    if (given.folder !== undefined) {
      this.#files = filesIn(resolve(given.folder), [".glb", ".gltf"]);
      if (this.#files.length === 0) throw new ConfigError(`There is no .glb or .gltf file in ${given.folder}.`);
    }
    const angle = (name: string) => ({ type: "real", name, min: -180, max: 180 }) as const;
    const axes = given.frame === "world" ? "fixed axes" : "the thing's own axes, which turn with it";
    this.actions = [
      {
        name: "rotate",
        description:
          "turn the right thing, in degrees: first clockwise as you see it, then about the upright axis (its front to the right), " +
          `then about the axis across (its front down); negative numbers turn the other way; the axes are ${axes}. ` +
          "Write them in the order upright, across, clockwise",
        arg: { type: "list", items: [angle("upright"), angle("across"), angle("clockwise")] },
        example: [45, 0, -30],
      },
      stopAction("end the episode, once both stand the same way"),
    ];
    this.reset(0);
  }

  reset(seed: number): void {
    const random = new NumpyRandom(seed);
    this.#turning.reset(random);
    const files = this.#files;
    this.#begin(files === undefined ? `toy:${seed}` : (files[random.integers(0, files.length)] as string));
  }

  #begin(object: string): void {
    this.#object = object;
    this.#thing = undefined;
  }

  success(): boolean {
    return this.#turning.success();
  }

  act(action: Action): Outcome {
    return this.#turning.act(action);
  }

  observe(mode: ObservationMode): Awaitable<Observation> {
    return when(this.#open(), (thing) => (mode === "text" ? this.#text(thing) : this.#frame(thing)));
  }

  #open(): Awaitable<Thing> {
    if (this.#thing !== undefined) return this.#thing;
    const object = this.#object;
    return when(this.#meshes(object), (meshes) => {
      const room = sceneSeed(object, "toy") === undefined ? ROOM.file : ROOM.toy;
      const thing = { meshes, room, left: this.#draw(meshes, IDENTITY, room) };
      if (object === this.#object) this.#thing = thing;
      return thing;
    });
  }

  #meshes(object: string): Awaitable<readonly Mesh[]> {
    const seed = sceneSeed(object, "toy");
    if (seed !== undefined) return centred(toy(seed).meshes);
    const { folder, triangles } = this.#options;
    if (folder === undefined)
      throw new EnvError(`"${object}" is a file: give the option "folder", the folder that holds it.`);
    return loadModel(findIn(resolve(folder), object), triangles).then(centred);
  }

  #draw(meshes: readonly Mesh[], rotation: Mat3, room: number): Image {
    this.#renderer.camera = fitted(meshes, rotation, room);
    this.#renderer.clear([255, 255, 255]);
    for (const mesh of meshes) this.#renderer.draw(mesh, { rotation, shift: [0, 0, 0] });
    return this.#renderer.toImage();
  }

  #frame({ meshes, room, left }: Thing): Image {
    const { panel } = this.#options;
    const right = this.#draw(meshes, this.#turning.rotation, room);
    const bytes = new Uint8Array(2 * panel * panel * 3);
    for (let row = 0; row < panel; row++) {
      const [from, to] = [row * panel * 3, (row + 1) * panel * 3];
      bytes.set(left.data.subarray(from, to), 2 * from);
      bytes.set(right.data.subarray(from, to), from + to);
    }
    return new Image(2 * panel, panel, bytes);
  }

  /** VisGym has no text view of this world; ours gives the places of the thing's parts, as they should be and as they are. */
  #text({ meshes }: Thing): string {
    const lines = meshes.slice(0, 12).map(({ positions, surface }, i) => {
      const middle = meanOf(positions);
      const at = (rotation: Mat3) =>
        `(${apply(rotation, middle)
          .map((value) => (Math.round(value * 100) / 100 + 0).toFixed(2))
          .join(", ")})`;
      const color = surface.color.map((value) => Math.round(value)).join(" ");
      return `part ${i + 1} (colour ${color}): should be at ${at(IDENTITY)}, is at ${at(this.#turning.rotation)}`;
    });
    return lines.join("\n");
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { tolerance } = this.#options;
    if (style === "brief") {
      return mode === "text"
        ? "Turn the thing until its parts are where they should be, then stop."
        : "Turn the right thing until it stands like the left one, then stop.";
    }
    const view =
      mode === "text"
        ? "A thing was turned about its middle. For its parts you are told where they should be and where they are, as (right, up, towards you)."
        : "On the left you see a thing as it should stand, on the right the same thing, turned about its middle.";
    return (
      `${view} Turn ${mode === "text" ? "it" : "the right one"} back, then stop. Turns add up. You succeed if what is left to turn ` +
      `is at most ${tolerance} degrees when you stop.`
    );
  }

  solve(): Action[] {
    return this.#turning.solve();
  }

  /** VisGym's `init_state`, its rotation (four by four) being the present one, and what has been played since. */
  save(): Json {
    const current_rot = [...this.#turning.rotation.map((row) => [...row, 0]), [0, 0, 0, 1]];
    return { object_path: this.#object, ...this.#turning.save(), current_rot };
  }

  load(state: Json): void {
    const saved = new Saved(state, "mental_rotation_3d_objaverse", "object_path, current_rot");
    const object = saved.string("object_path");
    this.#turning.load(saved);
    this.#begin(object);
  }
}

/** Looks along -z at the box around the thing as it is turned, from `room` times as far as shows all of it. */
function fitted(meshes: readonly Mesh[], rotation: Mat3, room: number): Camera {
  const low = [Infinity, Infinity, Infinity];
  const high = [-Infinity, -Infinity, -Infinity];
  for (const { positions } of meshes) {
    for (let i = 0; i < positions.length; i += 3) {
      const [x, y, z] = [positions[i] as number, positions[i + 1] as number, positions[i + 2] as number];
      for (let k = 0; k < 3; k++) {
        const row = rotation[k as 0 | 1 | 2];
        const value = row[0] * x + row[1] * y + row[2] * z;
        if (value < (low[k] as number)) low[k] = value;
        if (value > (high[k] as number)) high[k] = value;
      }
    }
  }
  const [lx, ly, lz] = meshes.length === 0 ? [-1, -1, -1] : (low as [number, number, number]);
  const [hx, hy, hz] = meshes.length === 0 ? [1, 1, 1] : (high as [number, number, number]);
  const distance = room * Math.max((hx - lx) / 2 / SPREAD[0], (hy - ly) / 2 / SPREAD[1]) + (hz - lz) / 2;
  const eye: Vec3 = [(lx + hx) / 2, (ly + hy) / 2, (lz + hz) / 2 + distance];
  return { eye, view: IDENTITY, spread: SPREAD, near: 1e-3 };
}

function meanOf(positions: Float64Array): Vec3 {
  const sum: [number, number, number] = [0, 0, 0];
  positions.forEach((value, i) => {
    sum[(i % 3) as 0 | 1 | 2] += value;
  });
  const count = positions.length / 3;
  return [sum[0] / count, sum[1] / count, sum[2] / count];
}

export const mentalRotation3dObjaverse = defineWorld({
  id: "mental_rotation_3d_objaverse",
  summary: "rotate an object until it matches the one next to it, then stop",
  options,
  difficulties: { easy: { tolerance: 15 }, hard: { tolerance: 5 } },
  variants: { eval: { easy: { frame: "world" }, hard: { frame: "world" } }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new MentalRotation3DObjaverse(given),
});
