/**
 * primitive_skill (VAGEN): a robot arm that knows three skills, pick, place and push, with places in millimetres, at four
 * tables: line cubes up, put them on discs, put an apple in a drawer and shut it, stack three. The skills are motions of the
 * gripper under MuJoCo's physics, so a place that is a finger's breadth off grasps nothing. The agent sees an image and
 * where things are, unnamed: which place is whose has to be seen. Each stage of a task pays once; the last ends the episode.
 */
import { z } from "zod";
import { EnvError, exact, type Image, image, type Json, type Part, text } from "../../src/core/index.ts";
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
  pairsOf,
  type World,
} from "../../src/envs/index.ts";
import { armModel } from "../shared/physics/arm.ts";
import { drawAt, drawModel, freeCamera } from "../shared/physics/draw.ts";
import { type Model, type Simulation, simulate, vec3 } from "../shared/physics/simulation.ts";
import { add, scale, subtract, type Vec3 } from "../shared/render3d/matrix.ts";
import { box, cylinder, painted } from "../shared/render3d/mesh.ts";
import { Renderer } from "../shared/render3d/renderer.ts";
import { Saved } from "../shared/saved.ts";
import {
  bodiesOf,
  DRAWER_TRAVEL,
  NAMES,
  type Now,
  nextSkill,
  ORIGIN,
  type Scene,
  type Skill,
  sceneOf,
  stages,
  TASKS,
  type Task,
  type Thing,
} from "./scenes.ts";

const { hypot } = exact;

const options = z.strictObject({
  task: z.enum(TASKS).default("align").describe("Which task to play. The id sets it."),
  size: z.int().min(48).max(1024).default(300).describe("Side of the frame, in pixels."),
  samples: z
    .int()
    .min(1)
    .max(4)
    .default(2)
    .describe("Samples along each side of a pixel. 2 smooths edges and takes four times the work."),
  positions: z.boolean().default(true).describe("Also tell the positions of the objects as text, without their names."),
});
type Options = z.output<typeof options>;

/** The workspace in millimetres, as in VAGEN. */
const X = { min: -100, max: 150 };
const Y = { min: -200, max: 200 };
const Z = { min: 10, max: 200 };

/** Where the gripper waits, out of the image's way, and how high it travels. */
const REST: Vec3 = [-0.16, 0, 0.26];
const TRAVEL_HEIGHT = 0.17;
/** The point between the fingers is that far below the body that is led. */
const REACH = 0.02;
/** Metres a second, through the air and near things. */
const SPEED = 0.9;
const SLOW = 0.35;
/** Seconds a physics step, and steps between two places that the gripper is led to. */
const TICK = 0.004;
const STRIDE = 4;
/** Physics steps between breaths of the event loop. */
const BREATH = 300;
const MAX_SKILLS = 10;
const BACKGROUND: Vec3 = [84, 90, 102];
const LIGHT = { direction: [0.45, 0.25, 0.85] as const, intensity: 0.65, ambient: 0.4 };

/** The whole table, what stands on it and the waiting gripper. */
export const CAMERA = { lookat: add(ORIGIN, [0, -0.01, 0.13]), azimuth: 180, elevation: -38, distance: 1.02 } as const;

const homes = new WeakMap<Model, readonly number[]>();

/** The arm at its table: how a skill plays out, and what came of it. */
class Table {
  readonly simulation: Simulation;
  readonly task: Task;
  #since = 0;

  constructor(simulation: Simulation, task: Task) {
    this.simulation = simulation;
    this.task = task;
  }

  #joint(name: string): number {
    return this.simulation.model.jnt_qposadr[this.simulation.id("joint", name)] as number;
  }

  get grip(): Vec3 {
    return subtract(vec3(this.simulation.data.site_xpos, this.simulation.id("site", "robot0:grip")), ORIGIN);
  }

  get opening(): number {
    const { qpos } = this.simulation.data;
    const finger = (side: string) => qpos[this.#joint(`robot0:${side}_gripper_finger_joint`)] as number;
    return finger("r") + finger("l");
  }

  bodyAt(name: string): Vec3 {
    return subtract(vec3(this.simulation.data.xpos, this.simulation.id("body", name)), ORIGIN);
  }

  get closed(): number {
    if (this.task !== "drawer") return 0;
    return (this.simulation.data.qpos[this.#joint("drawer")] as number) / DRAWER_TRAVEL;
  }

  /** Puts the arm where it rests and the things where the scene has them. */
  async start(scene: Scene): Promise<void> {
    const { simulation } = this;
    const { model, data } = simulation;
    const home = homes.get(model) ?? (await this.#home());
    simulation.state = home;
    for (const { body, at } of scene.things) {
      if (body === undefined || body === "drawer") continue;
      data.qpos.set([...add(at, ORIGIN), 1, 0, 0, 0], this.#joint(body));
    }
    data.qvel.fill(0);
    await this.#run(30);
  }

  async #home(): Promise<readonly number[]> {
    const { simulation } = this;
    const { model, data } = simulation;
    simulation.reset();
    const slides = { "robot0:slide0": 0.405, "robot0:slide1": 0.48, "robot0:slide2": 0 };
    for (const [name, at] of Object.entries(slides)) data.qpos[this.#joint(name)] = at;
    simulation.loosenWelds();
    simulation.forward();
    const grip = vec3(data.site_xpos, simulation.id("site", "robot0:grip"));
    data.mocap_pos.set([grip[0] - 0.498, grip[1] + 0.005, grip[2] - 0.231]);
    data.mocap_quat.set([Math.SQRT1_2, 0, Math.SQRT1_2, 0]);
    await this.#run(200);
    this.#fingers("open");
    await this.#lead(REST, SPEED);
    const state = simulation.state;
    homes.set(model, state);
    return state;
  }

  async #run(steps: number): Promise<void> {
    await this.#advance(steps);
    this.simulation.forward();
  }

  async #advance(steps: number): Promise<void> {
    for (let left = steps; left > 0; ) {
      const some = Math.min(left, BREATH - this.#since);
      this.simulation.step(some);
      left -= some;
      this.#since += some;
      if (this.#since >= BREATH) {
        this.#since = 0;
        await new Promise(setImmediate);
      }
    }
  }

  #fingers(what: "open" | "close"): void {
    this.simulation.data.ctrl.fill(what === "open" ? 0.05 : 0);
  }

  /** Leads the gripper along a line at so many metres a second, then lets it come to rest. */
  async #lead(to: Vec3, speed: number): Promise<void> {
    const { data } = this.simulation;
    const from = vec3(data.mocap_pos, 0);
    const goal = add(add(to, ORIGIN), [0, 0, REACH]);
    const way = subtract(goal, from);
    const ticks = Math.max(1, Math.ceil(hypot(...way) / speed / TICK / STRIDE));
    for (let tick = 1; tick <= ticks; tick++) {
      data.mocap_pos.set(add(from, scale(way, tick / ticks)));
      await this.#advance(STRIDE);
    }
    this.simulation.forward();
    for (let wait = 0; wait < 12 && hypot(...subtract(this.grip, to)) > 0.002; wait++) await this.#run(STRIDE);
  }

  async #above(at: Vec3): Promise<void> {
    const [x, y, z] = this.grip;
    const high = Math.max(TRAVEL_HEIGHT, at[2]);
    if (z < high - 0.005) await this.#lead([x, y, high], SPEED);
    if (hypot(at[0] - x, at[1] - y) > 0.003) await this.#lead([at[0], at[1], high], SPEED);
  }

  async play(skill: Skill): Promise<void> {
    const { at } = skill;
    if (skill.name === "pick") this.#fingers("open");
    if (skill.name === "push") this.#fingers("close");
    await this.#above(at);
    await this.#lead(at, SLOW);
    if (skill.name === "push") {
      await this.#lead(skill.to, SLOW);
      await this.#above(skill.to);
      this.#fingers("open");
    } else {
      this.#fingers(skill.name === "pick" ? "close" : "open");
      await this.#run(skill.name === "pick" ? 60 : 45);
      await this.#above(at);
    }
    await this.#lead(REST, SPEED);
    await this.#run(20);
  }
}

export class PrimitiveSkill implements World {
  readonly actions: readonly ActionSpec[];
  readonly #options: Options;
  readonly #table: Table;
  readonly #renderer: Renderer;
  #seed = 0;
  #scene: Scene;
  /** Stages that were paid for. */
  #paid = 0;

  constructor(given: Options, table: Table) {
    this.#options = given;
    this.#table = table;
    this.#scene = sceneOf(given.task, 0);
    this.#renderer = new Renderer(given.size, given.size, freeCamera(CAMERA, 1), given.samples);
    this.#renderer.light = LIGHT;
    const place = (names: readonly string[]) =>
      names.map((name, i) => ({ type: "int" as const, name, ...([X, Y, Z][i % 3] as typeof X) }));
    this.actions = [
      {
        name: "pick",
        description: "open the gripper, lower it to (x, y, z), close it and lift what is there",
        arg: { type: "tuple", items: place(["x", "y", "z"]) },
        example: [62, -55, 20],
      },
      {
        name: "place",
        description: "carry what is held to (x, y, z), let go and lift the gripper",
        arg: { type: "tuple", items: place(["x", "y", "z"]) },
        example: [40, 110, 20],
      },
      {
        name: "push",
        description: "lower the closed gripper at (x1, y1, z1), move it in a line to (x2, y2, z2) and lift it",
        arg: { type: "tuple", items: place(["x1", "y1", "z1", "x2", "y2", "z2"]) },
        example: [0, 30, 35, 0, -160, 35],
      },
    ];
  }

  async reset(seed: number): Promise<void> {
    this.#seed = seed;
    this.#scene = sceneOf(this.#options.task, seed);
    this.#paid = 0;
    await this.#table.start(this.#scene);
  }

  /** Where a thing is now; marks stay where they are. */
  #where(table: Table, { body, at }: Thing): Vec3 {
    return body === undefined ? at : body === "drawer" ? add(table.bodyAt(body), [0, 0, 0.02]) : table.bodyAt(body);
  }

  #now(table: Table): Now {
    const at = (name: string): Vec3 => {
      const thing = this.#scene.things.find((candidate) => candidate.name === name);
      return thing === undefined ? [0, 0, 0] : this.#where(table, thing);
    };
    return { at, closed: table.closed };
  }

  #held(table: Table): string | undefined {
    if (table.opening < 0.012) return undefined;
    return this.#scene.things.find(
      (thing) =>
        thing.body?.startsWith("thing") === true && hypot(...subtract(table.bodyAt(thing.body), table.grip)) < 0.03,
    )?.name;
  }

  #done(table: Table): number {
    return stages(this.#scene, this.#now(table)).filter(Boolean).length;
  }

  get #count(): number {
    return stages(this.#scene, this.#now(this.#table)).length;
  }

  success(): boolean {
    return this.#paid === this.#count;
  }

  async act(action: Action): Promise<Outcome> {
    if (this.success()) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    const table = this.#table;
    const held = this.#held(table);
    if (action.name === "place" && held === undefined)
      return refused("Nothing is in the gripper: pick something first.");
    if (action.name !== "place" && held !== undefined) return refused("Something is in the gripper: place it first.");
    await table.play(skillOf(action));
    const done = this.#done(table);
    const reward = Math.max(0, done - this.#paid) / this.#count;
    this.#paid = Math.max(this.#paid, done);
    if (this.success()) return { valid: true, feedback: "The task is done.", reward, ended: true };
    const progress = reward > 0 ? ` Part ${this.#paid} of ${this.#count} is done.` : "";
    if (action.name === "pick" && this.#held(table) === undefined) {
      return { valid: false, feedback: `The gripper closed on nothing.${progress}`, reward, ended: false };
    }
    return { valid: true, ...(progress === "" ? {} : { feedback: progress.trim() }), reward, ended: false };
  }

  observe(mode: ObservationMode): Observation {
    if (mode === "text") return this.#named();
    const frame = image(this.#frame());
    const parts: Part[] = this.#options.positions ? [frame, text(this.#unnamed())] : [frame];
    return parts;
  }

  #frame(): Image {
    const { simulation } = this.#table;
    const renderer = this.#renderer;
    renderer.clear(BACKGROUND);
    const colors = new Map<number, Vec3>();
    for (const { body, color } of this.#scene.things) {
      if (body?.startsWith("thing")) colors.set(simulation.id("geom", body), color);
    }
    drawModel(renderer, simulation, colors);
    for (const { body, name, color, at } of this.#scene.things) {
      if (body !== undefined) continue;
      const mark = name === "stripe" ? box(0.012, 0.001, 0.56) : cylinder(0.032, 0.032, 0.001, 24);
      drawAt(renderer, painted(mark, color), add(ORIGIN, [at[0], at[1], 0.0008]));
    }
    return renderer.toImage();
  }

  /** Where everything is, in an order that says nothing. */
  #unnamed(): string {
    const places = this.#scene.things.map((thing) => millimetres(this.#where(this.#table, thing)));
    places.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    const held = this.#held(this.#table) === undefined ? "" : " The gripper holds something.";
    return `Things are at (x, y, z in millimetres): ${places.map(printed).join(", ")}.${held}`;
  }

  #named(): string {
    const held = this.#held(this.#table);
    const lines = this.#scene.things.map(
      (thing) => `${thing.name}: ${printed(millimetres(this.#where(this.#table, thing)))}`,
    );
    return [...lines, `gripper: ${held === undefined ? "empty" : `holds the ${held}`}`].join("\n");
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { instruction } = this.#scene;
    if (style === "brief") return instruction;
    const view =
      mode === "text"
        ? "You are told where things are on a table in front of a robot arm, in millimetres."
        : "You see a table in front of a robot arm, which stands at the far side." +
          (this.#options.positions ? " Beside the picture you are told where things are, but not which is which." : "");
    return (
      `${view} ${mode === "text" ? "x runs away from the robot and y to its left" : "x runs towards you and y to the right"}, z up from the ` +
      "table; (0, 0, 0) is the middle of its top. Cubes are 40 mm wide, so the middle of one on the table is at z = 20, and of one on another " +
      `at z = 60; apples are 60 mm wide. ${instruction} The gripper's fingers open along y. You succeed, and the episode ends, as soon as all is as ` +
      "it should be; half of the reward is paid for half of the task."
    );
  }

  /** Tries skill after skill on a second table in the same state; what works there works here. */
  async solve(): Promise<Action[]> {
    if (this.success()) return [];
    const trial = new Table(this.#table.simulation.copy(), this.#table.task);
    const plan: Action[] = [];
    try {
      while (plan.length < MAX_SKILLS) {
        const held = this.#held(trial);
        const skill = nextSkill(this.#scene, this.#now(trial), held);
        if (skill === undefined) return [];
        const action = actionOf(held !== undefined && skill.name !== "place" ? { name: "place", at: FREE } : skill);
        if (action === undefined) return [];
        plan.push(action);
        await trial.play(skillOf(action));
        if (this.#done(trial) === this.#count) return plan;
      }
      return [];
    } finally {
      trial.simulation.close();
    }
  }

  /** How the things lie to each other on the table. */
  facts(): Fact[] {
    const { things } = this.#scene;
    const facts: Fact[] = [];
    things.forEach((one, i) => {
      for (const other of things.slice(i + 1)) {
        const [x, y, z] = subtract(this.#where(this.#table, one), this.#where(this.#table, other));
        const relations = [x, y, z].map((by, axis) => AXES[axis]?.[by < -0.015 ? 0 : by > 0.015 ? 2 : 1] ?? "");
        facts.push({ subject: one.name, relations, object: other.name });
      }
    });
    return facts;
  }

  save(): Json {
    return { task: this.#options.task, seed: this.#seed, physics: this.#table.simulation.state, paid: this.#paid };
  }

  load(state: Json): void {
    const saved = new Saved(state, "primitive_skill", "task, seed, physics");
    const task = saved.string("task");
    if (task !== this.#options.task) {
      throw new EnvError(`The episode is of the task "${task}": load it into primitive_skill/${task}.`);
    }
    this.#seed = saved.integer("seed", { min: 0 });
    this.#scene = sceneOf(this.#options.task, this.#seed);
    this.#table.simulation.state = saved.numbers("physics");
    this.#paid = saved.integer("paid", { min: 0, max: this.#count, fallback: 0 });
  }

  close(): void {
    this.#table.simulation.close();
  }
}

/** Somewhere to put down what is in the way. */
const FREE: Vec3 = [0.13, 0.19, 0.02];

function refused(feedback: string): Outcome {
  return { valid: false, feedback, reward: 0, ended: false };
}

function millimetres(at: Vec3): Vec3 {
  const whole = (value: number) => Math.round(value * 1000) + 0;
  return [whole(at[0]), whole(at[1]), whole(at[2])];
}

function printed(at: Vec3): string {
  return `(${at.join(", ")})`;
}

function skillOf({ name, payload }: Action): Skill {
  const [x1, y1, z1, x2 = 0, y2 = 0, z2 = 0] = (payload as readonly number[]).map((value) => value / 1000) as [
    number,
    number,
    number,
    ...number[],
  ];
  const at: Vec3 = [x1, y1, z1];
  return name === "push" ? { name, at, to: [x2, y2, z2] } : { name: name as "pick" | "place", at };
}

/** A skill in whole millimetres; undefined when it leaves the workspace. */
function actionOf(skill: Skill): Action | undefined {
  const payload = [...millimetres(skill.at), ...(skill.name === "push" ? millimetres(skill.to) : [])];
  const fits = payload.every((value, i) => {
    const { min, max } = [X, Y, Z][i % 3] as typeof X;
    return value >= min && value <= max;
  });
  return fits ? act(skill.name, payload) : undefined;
}

const AXES: readonly AxisWords[] = [
  ["behind", "same row", "in front"],
  ["left", "same column", "right"],
  ["below", "same height", "above"],
];

export const primitiveSkill = defineWorld({
  id: "primitive_skill",
  summary: "pick, place and push with a robot arm: align, place, put in a drawer, stack",
  options,
  difficulties: {
    align: { task: "align" },
    place: { task: "place" },
    drawer: { task: "drawer" },
    stack: { task: "stack" },
  },
  protocol: "think",
  things: pairsOf(NAMES),
  view: {
    told: true,
    axes: AXES,
    viewpoint: "second thing",
    states: 64,
    asked: "each two of the things on the table, either way round",
  },
  maxTurns: 3,
  maxActions: 2,
  create: async (given) => {
    const apart =
      given.task === "drawer"
        ? ([
            ["drawer", "cabinet"],
            ["drawer", "table0"],
            ["cabinet", "table0"],
          ] as const)
        : [];
    const model = armModel({ bodies: bodiesOf(given.task), motors: true, timestep: TICK, apart });
    return new PrimitiveSkill(given, new Table(await simulate(model), given.task));
  },
});
