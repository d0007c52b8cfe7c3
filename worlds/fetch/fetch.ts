/**
 * fetch_reach and fetch_pick_and_place (VisGym): lead a robot arm's gripper by small moves along the axes of the room; bring it to
 * the red ball, or carry a cube there; then stop. Two images: a camera in front of the robot, and one that follows the
 * gripper. Only `stop` ends the episode and pays. The physics is MuJoCo's with an arm of our own that moves as the original
 * does (recorded paths agree within 7 mm); `robot` names a folder with the original's MJCF to play with that.
 * Seeds give VisGym's goals, objects and cameras.
 */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { ConfigError, exact, isJsonObject, type Json, NumpyRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  type AxisWords,
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
import { Canvas } from "../../src/images/index.ts";
import { armModel } from "../shared/physics/arm.ts";
import { drawAt, drawModel, type FreeCamera, freeCamera } from "../shared/physics/draw.ts";
import { type Model, type Simulation, simulate, simulateFiles, vec3 } from "../shared/physics/simulation.ts";
import { add, scale, subtract, type Vec3 } from "../shared/render3d/matrix.ts";
import { painted, sphere } from "../shared/render3d/mesh.ts";
import { Renderer } from "../shared/render3d/renderer.ts";
import { Saved } from "../shared/saved.ts";
import { filesIn } from "../shared/scenes/source.ts";

const { hypot } = exact;

type Task = "reach" | "pick";

const AXES: readonly AxisWords[] = [
  ["nearer the robot", "same depth", "further from the robot"],
  ["to the robot's right", "same side", "to the robot's left"],
  ["below", "same height", "above"],
];

const angle = z.number().min(-360).max(360);
const shape = {
  size: z.int().min(48).max(1024).default(480).describe("Side of each of the two square views, in pixels."),
  samples: z
    .int()
    .min(1)
    .max(4)
    .default(1)
    .describe("Samples along each side of a pixel. 2 smooths edges and takes four times the work."),
  frontDistance: z
    .number()
    .positive()
    .default(2)
    .describe(
      "Distance of the front camera from the point that it looks at, in metres, before the jitter of each episode.",
    ),
  followAzimuth: angle.default(180).describe("Azimuth of the camera that follows the gripper, in degrees."),
  followElevation: z
    .number()
    .min(-90)
    .max(90)
    .default(-60)
    .describe("Elevation of the camera that follows the gripper, in degrees."),
  followDistance: z
    .number()
    .positive()
    .default(0.38)
    .describe("Distance of the camera that follows the gripper, in metres."),
  robot: z
    .string()
    .optional()
    .describe(
      "Folder with the original robot: `fetch/reach.xml`, `fetch/pick_and_place.xml` and the files that they include.",
    ),
  solver: z
    .enum(["straight", "axis"])
    .default("straight")
    .describe(
      "How the oracle moves: straight to the goal, or along one axis at a time in whole steps as VisGym's oracle does.",
    ),
};
const optionsFor = (threshold: number) =>
  z.strictObject({
    ...shape,
    threshold: z
      .number()
      .positive()
      .default(threshold)
      .describe("Distance to the goal that counts as success, in metres."),
  });
type Options = z.output<ReturnType<typeof optionsFor>>;

/** Metres that a move of 1 asks for. About 0.032 is what the arm makes of it. */
const REACH_OF_MOVE = 0.05;
const MADE_OF_MOVE = 0.032;
const SUBSTEPS = 20;
const TARGET_RANGE = 0.15;
/** Where the original's gripper and object rest when an episode starts, so that seeds give its goals to the last digit. */
const HOME: Readonly<Record<Task, Vec3>> = {
  reach: [1.3418132221394712, 0.7491009822611937, 0.5347217811232725],
  pick: [1.3419132215026535, 0.7491010112784146, 0.5347217893580366],
};
const OBJECT_HEIGHT = 0.4248922232488584;
const SKY: Vec3 = [115, 218, 145];
const LIGHT = { direction: [0.35, -0.3, 0.9] as const, intensity: 0.62, ambient: 0.42 };
const BALL = painted(sphere(0.02, 16), [225, 30, 30]);
/** How low the gripper comes before its fingers meet the table. */
const LOWEST = 0.43;
const MAX_PLAN = 90;
/** Simulated steps between breaths of the event loop. */
const BREATH = 8;

type Place = {
  readonly model: Model;
  readonly time: number;
  readonly qpos: readonly number[];
  readonly qvel: readonly number[];
};
const homes = new WeakMap<Model, Place>();

type Episode = { readonly goal: Vec3; readonly object: Vec3 | undefined; readonly camera: FreeCamera };

const FLOOR_AND_TABLE =
  '<geom name="floor0" type="plane" pos="0.8 0.75 0" size="0.85 0.7 1" condim="3" rgba="0.2 0.2 0.2 1"/>' +
  '<body name="table0" pos="1.3 0.75 0.2"><geom type="box" size="0.25 0.35 0.2" mass="2000" rgba="0.93 0.93 0.93 1"/></body>';
const OBJECT =
  '<body name="object0" pos="0.025 0.025 0.025"><joint name="object0:joint" type="free" damping="0.01"/>' +
  '<geom name="object0" type="box" size="0.025 0.025 0.025" condim="3" mass="2" rgba="0.2 0.2 0.22 1"/>' +
  '<site name="object0" size="0.02" rgba="0 0 0 0"/></body>';

/** One robot at its task: where things are and how a move plays out. A plan is tried on a second one. */
class Bench {
  readonly simulation: Simulation;
  readonly task: Task;
  /** 1 opens the fingers a little more with every step, -1 closes them, 0 lets them be. */
  bias = 0;
  readonly #grip: number;
  readonly #hand: number;
  readonly #object: number;
  readonly #fingers: readonly [right: number, left: number];

  constructor(simulation: Simulation, task: Task) {
    this.simulation = simulation;
    this.task = task;
    this.#grip = simulation.id("site", "robot0:grip");
    this.#hand = simulation.id("body", "robot0:gripper_link");
    this.#object = task === "pick" ? simulation.id("site", "object0") : -1;
    this.#fingers = [this.#joint("robot0:r_gripper_finger_joint"), this.#joint("robot0:l_gripper_finger_joint")];
  }

  #joint(name: string): number {
    return this.simulation.model.jnt_qposadr[this.simulation.id("joint", name)] as number;
  }

  get grip(): Vec3 {
    return vec3(this.simulation.data.site_xpos, this.#grip);
  }

  get object(): Vec3 | undefined {
    return this.#object < 0 ? undefined : vec3(this.simulation.data.site_xpos, this.#object);
  }

  /** The mean place of the hand and what hangs on it. */
  get handCenter(): Vec3 {
    return vec3(this.simulation.data.subtree_com, this.#hand);
  }

  /** Metres between the fingers, or a little less than none when they press on each other. */
  get opening(): number {
    const { qpos } = this.simulation.data;
    return (qpos[this.#fingers[0]] as number) + (qpos[this.#fingers[1]] as number);
  }

  /** Lets the arm settle above the table, once a model; every episode starts there. */
  home(): Place {
    const { simulation } = this;
    const { model, data } = simulation;
    const known = homes.get(model);
    if (known !== undefined) return known;
    const slides = {
      "robot0:slide0": this.task === "reach" ? 0.4049 : 0.405,
      "robot0:slide1": 0.48,
      "robot0:slide2": 0,
    };
    for (const [name, at] of Object.entries(slides)) data.qpos[this.#joint(name)] = at;
    if (this.task === "pick") data.qpos.set([1.25, 0.53, 0.4, 1, 0, 0, 0], this.#joint("object0:joint"));
    simulation.loosenWelds();
    simulation.forward();
    const grip = this.grip;
    data.mocap_pos.set([grip[0] - 0.498, grip[1] + 0.005, grip[2] - 0.431 + 0.2]);
    data.mocap_quat.set([1, 0, 1, 0]);
    simulation.step(10 * SUBSTEPS);
    const place = { model, time: data.time, qpos: [...data.qpos], qvel: [...data.qvel] };
    homes.set(model, place);
    return place;
  }

  start(object: Vec3 | undefined): void {
    const { time, qpos, qvel } = this.home();
    const { data } = this.simulation;
    this.simulation.reset();
    data.time = time;
    data.qpos.set(qpos);
    data.qvel.set(qvel);
    if (object !== undefined) data.qpos.set(object.slice(0, 2), this.#joint("object0:joint"));
    this.simulation.forward();
    this.bias = 0;
  }

  play(action: Action): void {
    if (action.name === "gripper") this.bias = action.payload === 0 ? 1 : -1;
    const move = action.name === "move" ? (action.payload as unknown as Vec3) : ([0, 0, 0] as const);
    const { simulation } = this;
    const { data } = simulation;
    const hand = this.#hand;
    if (this.task === "pick") {
      data.ctrl.set([
        (data.qpos[this.#fingers[1]] as number) + this.bias,
        (data.qpos[this.#fingers[0]] as number) + this.bias,
      ]);
    }
    data.mocap_pos.set(add(vec3(data.xpos, hand), scale(move, REACH_OF_MOVE)));
    // A sum, not a product, as in the original: the engine makes it a rotation again.
    const [w = 0, x = 0, y = 0, q = 0] = data.xquat.subarray(hand * 4, hand * 4 + 4);
    data.mocap_quat.set([w + 1, x, y + 1, q]);
    simulation.step(SUBSTEPS);
    if (this.task === "reach") for (const finger of this.#fingers) data.qpos[finger] = 0;
    simulation.forward();
  }
}

export class Fetch implements World {
  readonly actions: readonly ActionSpec[];
  readonly #options: Options;
  readonly #task: Task;
  readonly #bench: Bench;
  readonly #renderer: Renderer;
  #episode: Episode;
  #stopped = false;

  constructor(given: Options, task: Task, bench: Bench) {
    this.#options = given;
    this.#task = task;
    this.#bench = bench;
    this.#episode = { goal: HOME[task], object: undefined, camera: front(given) };
    this.#renderer = new Renderer(given.size, given.size, freeCamera(this.#episode.camera, 1), given.samples);
    this.#renderer.light = LIGHT;
    const component = (name: string) => ({ type: "real" as const, name, min: -1, max: 1 });
    this.actions = [
      {
        name: "move",
        description:
          "move the gripper along the room's axes: x away from the robot, y to the robot's left, z up; 1 is about 3 cm",
        arg: { type: "list", items: [component("x"), component("y"), component("z")] },
        example: [1, 0, -0.5],
      },
      ...(task === "reach"
        ? []
        : [
            {
              name: "gripper",
              description: "open or close the fingers; they go on doing so in later moves",
              arg: { type: "int" as const, name: "fingers", min: 0, max: 1, labels: ["open", "close"] },
              example: 1,
              shorthand: true,
            },
          ]),
      stopAction(
        task === "reach"
          ? "end the episode, once the gripper is at the ball"
          : "end the episode, once the cube is at the ball",
      ),
    ];
  }

  reset(seed: number): void {
    const random = new NumpyRandom(seed);
    const spread = () => random.uniform(-TARGET_RANGE, TARGET_RANGE);
    const home = this.#options.robot === undefined ? HOME[this.#task] : this.#measuredHome();
    let object: Vec3 | undefined;
    if (this.#task === "pick") {
      let [dx, dy] = [spread(), spread()];
      while (hypot(dx, dy) < 0.1) [dx, dy] = [spread(), spread()];
      object = [home[0] + dx, home[1] + dy, OBJECT_HEIGHT];
    }
    let goal: Vec3 = [home[0] + spread(), home[1] + spread(), home[2] + spread()];
    if (this.#task === "pick") {
      const lifted = random.uniform(0, 1) < 0.5 ? random.uniform(0, 0.45) : 0;
      goal = [goal[0], goal[1], OBJECT_HEIGHT + lifted];
    }
    this.#begin({ goal, object, camera: this.#jittered(random) });
  }

  #measuredHome(): Vec3 {
    this.#bench.start(undefined);
    return this.#bench.grip;
  }

  #jittered(random: NumpyRandom): FreeCamera {
    const { azimuth, elevation, distance, lookat } = front(this.#options);
    const wide = this.#task === "reach" ? 0.1 : 0.2;
    const around = (value: number, by: number) => random.uniform(value - by, value + by);
    return {
      azimuth: around(azimuth, 10),
      elevation: around(elevation, 10),
      distance: around(distance, 0.1),
      lookat: [around(lookat[0], wide), around(lookat[1], wide), around(lookat[2], wide)],
    };
  }

  #begin(episode: Episode): void {
    this.#episode = episode;
    this.#stopped = false;
    this.#bench.start(episode.object);
  }

  success(): boolean {
    return this.#stopped && this.#atGoal(this.#bench);
  }

  #atGoal(bench: Bench): boolean {
    const error = subtract(this.#episode.goal, bench.object ?? bench.grip);
    return hypot(...error) < this.#options.threshold;
  }

  act(action: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    const what = this.#task === "reach" ? "the gripper" : "the cube";
    if (action.name === "stop") {
      this.#stopped = true;
      return this.success()
        ? { valid: true, feedback: `You stopped with ${what} at the ball.`, reward: 1, ended: true }
        : { valid: true, feedback: `You stopped before ${what} was at the ball.`, reward: 0, ended: true };
    }
    this.#bench.play(action);
    return { valid: true, reward: 0, ended: false };
  }

  observe(mode: ObservationMode): Observation {
    if (mode === "text") return this.#text();
    const { size, followAzimuth, followElevation, followDistance } = this.#options;
    const { grip, handCenter } = this.#bench;
    const near: Vec3 = [grip[0], grip[1], grip[2] - 0.01];
    const follow: FreeCamera = {
      azimuth: followAzimuth,
      elevation: followElevation,
      distance: followDistance,
      // The original's tracking camera is drawn a fifth of the way to the hand's centre of mass.
      lookat: add(near, scale(subtract(handCenter, near), 0.2)),
    };
    const canvas = new Canvas(size * 2, size);
    [this.#episode.camera, follow].forEach((camera, i) => {
      const renderer = this.#renderer;
      renderer.camera = freeCamera(camera, 1);
      renderer.clear(SKY);
      drawModel(renderer, this.#bench.simulation);
      drawAt(renderer, BALL, this.#episode.goal);
      canvas.draw(renderer.toImage(), i * size, 0);
    });
    return canvas.toImage();
  }

  #text(): string {
    const { grip, object, opening, bias } = this.#bench;
    const place = (name: string, at: Vec3) => `${name}: ${at.map((value) => value.toFixed(3)).join(", ")}`;
    return [
      place("gripper (x, y, z in metres)", grip),
      ...(object === undefined ? [] : [place("cube", object)]),
      place("ball", this.#episode.goal),
      ...(object === undefined
        ? []
        : [
            `fingers: ${(Math.max(0, opening) * 100).toFixed(1)} cm apart, ${["closing", "loose", "opening"][bias + 1]}`,
          ]),
    ].join("\n");
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { threshold } = this.#options;
    const reach = this.#task === "reach";
    if (style === "brief") {
      return reach
        ? "Move the gripper to the red ball, then stop."
        : "Take the dark cube to the red ball with the gripper, then stop.";
    }
    const view =
      mode === "text"
        ? `You are told where the gripper of a robot arm${reach ? "" : ", a cube"} and a ball are, in metres.`
        : `You see a robot arm over a white table in two pictures: from the front on the left, and on the right from a camera above ` +
          "the gripper that follows it. In the left picture, x runs to the right and towards you, y to the right and away from you, z up; " +
          "in the right picture, x runs down and y to the right.";
    const goal = reach
      ? `Bring the point between the fingers to the ${mode === "text" ? "ball" : "red ball"}`
      : `Take hold of the ${mode === "text" ? "cube" : "dark cube"} and carry it to the ${mode === "text" ? "ball" : "red ball"}, which may hang in the air. ` +
        "Open the fingers, lower them around the cube, close them for two or three turns, then move";
    return (
      `${view} ${goal}, then stop. A move gives x, y and z, each from -1 to 1; the arm swings on a little after each move. ` +
      `You succeed if, when you stop, ${reach ? "the gripper" : "the cube"} is less than ${Math.round(threshold * 100)} cm from the ball.`
    );
  }

  /** Plays the plan out on a second robot in the same state. */
  async solve(): Promise<Action[]> {
    if (this.#stopped) return [];
    const planner = new Bench(this.#bench.simulation.copy(), this.#task);
    planner.bias = this.#bench.bias;
    const plan: Action[] = [];
    try {
      while (plan.length < MAX_PLAN) {
        const action = this.#task === "reach" ? this.#towardsBall(planner) : this.#withCube(planner);
        if (action === undefined) return [];
        plan.push(action);
        if (action.name === "stop") return plan;
        planner.play(action);
        if (plan.length % BREATH === 0) await new Promise(setImmediate);
      }
      return [];
    } finally {
      planner.simulation.close();
    }
  }

  close(): void {
    this.#bench.simulation.close();
  }

  #towardsBall(bench: Bench): Action {
    const { goal } = this.#episode;
    // A ball may lie in the table, where the fingers can't go.
    const error = subtract([goal[0], goal[1], Math.max(goal[2], LOWEST)], bench.grip);
    return this.#move(error, 0.02) ?? act("stop");
  }

  /** What to do next, from where things are alone: above the cube, open, down, close, carry. */
  #withCube(bench: Bench): Action | undefined {
    const { grip, object = HOME.pick, bias, opening } = bench;
    if (this.#atGoal(bench)) return act("stop");
    if (object[2] < 0.38) return undefined; // it fell off the table
    const error = subtract(object, grip);
    const around = Math.max(...error.map(Math.abs)) < 0.03;
    if (bias === -1 && around) {
      if (opening > 0.055) return act("gripper", 1); // they have not met the cube yet
      return this.#move(subtract(this.#episode.goal, object), 0.012) ?? act("move", [0, 0, 0]);
    }
    const aside: Vec3 = [error[0], error[1], 0];
    const sideways = this.#move(aside, 0.012);
    if (sideways !== undefined) {
      if (error[2] > -0.08) return act("move", [0, 0, 1]);
      return bias === 1 ? sideways : act("gripper", 0);
    }
    if (bias !== 1 || opening < 0.08) return act("gripper", 0);
    return error[2] < -0.01 ? (this.#move([0, 0, error[2]], 0.004) ?? act("gripper", 1)) : act("gripper", 1);
  }

  /** A move by that much, as far as it goes; undefined when it is near enough along every axis. */
  #move(error: Vec3, tolerance: number): Action | undefined {
    if (this.#options.solver === "axis") {
      const largest = Math.max(...error.map(Math.abs));
      // Whole steps can't do better than half a step.
      if (largest <= Math.max(tolerance, MADE_OF_MOVE / 2 + 0.002)) return undefined;
      const axis = error.findIndex((value) => Math.abs(value) === largest);
      return act(
        "move",
        [0, 1, 2].map((i) => (i === axis ? Math.sign(error[i] as number) : 0)),
      );
    }
    if (error.every((value) => Math.abs(value) <= tolerance)) return undefined;
    const step = (value: number) => Math.round(Math.max(-1, Math.min(1, value / MADE_OF_MOVE)) * 10) / 10 + 0;
    return act("move", [step(error[0]), step(error[1]), step(error[2])]);
  }

  /** How ball and cube lie to the gripper, along the room's axes. */
  facts(): Fact[] {
    const { grip, object } = this.#bench;
    const { goal } = this.#episode;
    const relate = (subject: string, at: Vec3, other: string, from: Vec3): Fact => ({
      subject,
      relations: subtract(at, from).map((by, i) => AXES[i]?.[by < -0.02 ? 0 : by > 0.02 ? 2 : 1] ?? ""),
      object: other,
    });
    return [
      relate("ball", goal, "gripper", grip),
      ...(object === undefined ? [] : [relate("cube", object, "gripper", grip), relate("ball", goal, "cube", object)]),
    ];
  }

  /** VisGym's `init_state`, and the physics as it is now. */
  save(): Json {
    const { goal, object, camera } = this.#episode;
    return {
      goal_pos: goal,
      ...(object === undefined ? {} : { object_pos: object }),
      camera_config: { ...camera },
      physics: this.#bench.simulation.state,
      bias: this.#bench.bias,
      stopped: this.#stopped,
    };
  }

  load(state: Json): void {
    const saved = new Saved(state, `fetch_${this.#task}`, "goal_pos, camera_config");
    const given = saved.get("camera_config") ?? null;
    const usual = front(this.#options);
    const camera = isJsonObject(given)
      ? new Saved(given, "camera_config", "azimuth, elevation, distance, lookat")
      : undefined;
    this.#begin({
      goal: saved.numbers("goal_pos", 3) as unknown as Vec3,
      object: this.#task === "pick" ? (saved.numbers("object_pos", 3) as unknown as Vec3) : undefined,
      camera:
        camera === undefined
          ? usual
          : {
              azimuth: camera.number("azimuth"),
              elevation: camera.number("elevation", { min: -90, max: 90 }),
              distance: camera.number("distance", { min: 0.01 }),
              lookat: camera.numbers("lookat", 3) as unknown as Vec3,
            },
    });
    if (saved.has("physics")) this.#bench.simulation.state = saved.numbers("physics");
    this.#bench.bias = saved.integer("bias", { min: -1, max: 1, fallback: 0 });
    this.#stopped = saved.boolean("stopped");
  }
}

function front({ frontDistance }: Options): FreeCamera {
  return { lookat: [1.3, 0.75, 0.55], azimuth: 132, elevation: -14, distance: frontDistance };
}

async function bench(given: Options, task: Task): Promise<Bench> {
  const bodies = task === "reach" ? FLOOR_AND_TABLE : FLOOR_AND_TABLE + OBJECT;
  const simulation =
    given.robot === undefined
      ? await simulate(armModel({ bodies, motors: task === "pick" }))
      : await fromFolder(resolve(given.robot), task === "reach" ? "reach.xml" : "pick_and_place.xml");
  return new Bench(simulation, task);
}

function fromFolder(root: string, name: string): Promise<Simulation> {
  const paths = filesIn(root, [".xml", ".stl", ".obj", ".msh", ".png"]);
  const main = paths.find((path) => path === name || path.endsWith(`/${name}`));
  if (main === undefined) throw new ConfigError(`There is no ${name} in ${root}: give the folder of the robot's MJCF.`);
  const files = new Map(paths.map((path) => [path, new Uint8Array(readFileSync(join(root, path)))]));
  return simulateFiles(files, main, `${root} ${main}`);
}

const evaluation = { frontDistance: 1.75, followAzimuth: 200, followElevation: -65, followDistance: 0.36 };
const common = {
  difficulties: { easy: {}, hard: {} },
  variants: { eval: { easy: evaluation, hard: evaluation }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
};

export const fetchReach = defineWorld({
  ...common,
  id: "fetch_reach",
  things: { ball: {} },
  view: { axes: AXES, from: "gripper", viewpoint: "gripper" },
  summary: "move the gripper of a robot arm to the red ball, then stop",
  options: optionsFor(0.1),
  create: async (given) => new Fetch(given, "reach", await bench(given, "reach")),
});

export const fetchPickAndPlace = defineWorld({
  ...common,
  id: "fetch_pick_and_place",
  things: { ball: {}, cube: {} },
  view: { axes: AXES, from: "gripper", viewpoint: "gripper" },
  summary: "pick up a cube with a robot arm and carry it to the red ball, then stop",
  options: optionsFor(0.05),
  create: async (given) => new Fetch(given, "pick", await bench(given, "pick")),
});
