/**
 * The four tables of primitive_skill: what stands where, what has to become of it, and how far that has got. Places are in
 * metres on the table: the origin is its middle, x runs away from the robot, y to the robot's left, z up from the top.
 */

import type { Vec3 } from "../shared/render3d/matrix.ts";
import { Dice } from "../shared/scenes/dice.ts";

export const TASKS = ["align", "place", "drawer", "stack"] as const;
export type Task = (typeof TASKS)[number];

/** Where the middle of the table's top is in MuJoCo's room. */
export const ORIGIN: Vec3 = [1.3, 0.75, 0.4];
export const CUBE = 0.02;
export const APPLE = 0.03;
/** How far the drawer slides; at 0 it is open. */
export const DRAWER_TRAVEL = 0.16;
const DRAWER_Y = -0.1;

export const COLORS = {
  red: [214, 40, 40],
  green: [42, 157, 84],
  blue: [38, 94, 201],
  yellow: [240, 190, 40],
  purple: [133, 60, 175],
} as const satisfies Record<string, Vec3>;
export type ColorName = keyof typeof COLORS;

/** What things are called. */
export const NAMES: readonly string[] = [
  ...Object.keys(COLORS).flatMap((color) => [`${color} cube`, `${color} disc`]),
  "stripe",
  "apple",
  "drawer",
];

/** Something with a name and a place: a body that can be moved, or a mark on the table. */
export type Thing = {
  readonly name: string;
  readonly color: Vec3;
  /** The MuJoCo body; absent for marks. */
  readonly body?: string;
  readonly at: Vec3;
};

export type Scene = {
  readonly task: Task;
  readonly things: readonly Thing[];
  readonly instruction: string;
};

/** Where things are now, by name, and how far the drawer has been closed (0 to 1). */
export type Now = { readonly at: (name: string) => Vec3; readonly closed: number };

/** A skill that leads further, in metres: take what is here, lay it there, or push. */
export type Skill =
  | { readonly name: "pick" | "place"; readonly at: Vec3 }
  | { readonly name: "push"; readonly at: Vec3; readonly to: Vec3 };

function cube(index: number): string {
  return (
    `<body name="thing${index}" pos="${1.1 + index * 0.2} 1.4 0.1"><freejoint name="thing${index}"/>` +
    `<geom name="thing${index}" type="box" size="${CUBE} ${CUBE} ${CUBE}" mass="0.4" condim="4" friction="1 0.05 0.01"/></body>`
  );
}

const APPLE_BODY =
  '<body name="thing0" pos="1.1 1.4 0.1"><freejoint name="thing0"/>' +
  `<geom name="thing0" type="sphere" size="${APPLE}" mass="0.2" condim="6" friction="1.5 0.05 0.005"/></body>`;

const WOOD = 'rgba="0.72 0.53 0.34 1"';
/** Walls and floor of the drawer, about its middle; it slides along -y into the cabinet. */
const DRAWER =
  `<body name="cabinet" pos="0 ${DRAWER_Y - DRAWER_TRAVEL} 0">` +
  `<geom type="box" pos="0 0 0.094" size="0.085 0.085 0.006" ${WOOD}/>` +
  `<geom type="box" pos="0.079 0 0.044" size="0.006 0.085 0.044" ${WOOD}/>` +
  `<geom type="box" pos="-0.079 0 0.044" size="0.006 0.085 0.044" ${WOOD}/>` +
  `<geom type="box" pos="0 -0.085 0.05" size="0.085 0.006 0.05" ${WOOD}/></body>` +
  `<body name="drawer" pos="0 ${DRAWER_Y} 0"><joint name="drawer" type="slide" axis="0 -1 0" limited="true" ` +
  `range="0 ${DRAWER_TRAVEL}" damping="8" frictionloss="0.6"/>` +
  '<geom type="box" pos="0 0 0.005" size="0.068 0.078 0.003" mass="0.3" rgba="0.86 0.7 0.5 1"/>' +
  '<geom type="box" pos="0 0.08 0.032" size="0.07 0.005 0.03" mass="0.1" rgba="0.55 0.38 0.22 1"/>' +
  '<geom type="box" pos="0 -0.08 0.026" size="0.07 0.004 0.02" mass="0.1" rgba="0.86 0.7 0.5 1"/>' +
  '<geom type="box" pos="0.068 0 0.026" size="0.004 0.078 0.02" mass="0.1" rgba="0.86 0.7 0.5 1"/>' +
  '<geom type="box" pos="-0.068 0 0.026" size="0.004 0.078 0.02" mass="0.1" rgba="0.86 0.7 0.5 1"/></body>';

/** The MJCF bodies of a task, its drawer on the table. */
export function bodiesOf(task: Task): string {
  const table =
    '<geom type="plane" pos="1.3 0.75 0" size="3 3 1" rgba="0.33 0.35 0.4 1"/>' +
    '<body name="table0" pos="1.3 0.75 0.2"><geom type="box" size="0.25 0.35 0.2" mass="2000" rgba="0.9 0.88 0.84 1"/></body>';
  const count = task === "stack" ? 3 : task === "drawer" ? 0 : 2;
  const cubes = Array.from({ length: count }, (_, i) => cube(i)).join("");
  const drawer =
    task === "drawer" ? `<body name="furniture" pos="${ORIGIN.join(" ")}">${DRAWER}</body>${APPLE_BODY}` : "";
  return table + cubes + drawer;
}

/** The scene of a seed: things apart from each other, so that open fingers fit around each. */
export function sceneOf(task: Task, seed: number): Scene {
  const dice = new Dice(seed, `primitive-skill ${task}`);
  const [first, second, third] = dice.shuffle(Object.keys(COLORS) as ColorName[]) as [ColorName, ColorName, ColorName];
  const mm = (value: number) => Math.round(value * 1000) / 1000;
  const taken: Vec3[] = [];
  const spot = (z: number, fits: (at: Vec3) => boolean = () => true): Vec3 => {
    for (;;) {
      const at: Vec3 = [mm(dice.between(-0.08, 0.13)), mm(dice.between(-0.17, 0.17)), z];
      const free = taken.every((other) => Math.abs(at[0] - other[0]) >= 0.065 || Math.abs(at[1] - other[1]) >= 0.12);
      if (!free || !fits(at)) continue;
      taken.push(at);
      return at;
    }
  };
  const cubes = (fits: (at: Vec3) => boolean, ...names: readonly ColorName[]): Thing[] =>
    names.map((name, i) => ({ name: `${name} cube`, color: COLORS[name], body: `thing${i}`, at: spot(CUBE, fits) }));
  const anywhere = () => true;
  switch (task) {
    case "align": {
      const x = mm(dice.between(-0.03, 0.08));
      const things = cubes((at) => Math.abs(at[0] - x) >= 0.04, first, second);
      const stripe: Thing = { name: "stripe", color: [40, 40, 46], at: [x, 0, 0] };
      return {
        task,
        things: [...things, stripe],
        instruction: `Line up the cubes: bring both the ${first} and the ${second} cube onto the dark stripe across the table.`,
      };
    }
    case "place": {
      const things = cubes(anywhere, first, second);
      const discs = [first, second].map((name): Thing => ({ name: `${name} disc`, color: COLORS[name], at: spot(0) }));
      return {
        task,
        things: [...things, ...discs],
        instruction: `Put the ${first} cube on the ${first} disc and the ${second} cube on the ${second} disc.`,
      };
    }
    case "drawer": {
      const apple: Thing = {
        name: "apple",
        color: [196, 30, 44],
        body: "thing0",
        at: [mm(dice.between(-0.06, 0.12)), mm(dice.between(0.09, 0.18)), APPLE],
      };
      const drawer: Thing = { name: "drawer", color: [140, 97, 56], body: "drawer", at: [0, DRAWER_Y, 0.02] };
      return { task, things: [apple, drawer], instruction: "Put the apple into the drawer and push the drawer shut." };
    }
    case "stack":
      return {
        task,
        things: cubes(anywhere, first, second, third),
        instruction: `Stack the cubes: the ${second} cube on the ${first} one, and the ${third} cube on top.`,
      };
  }
}

const across = (a: Vec3, b: Vec3) => Math.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2);
const onTable = (at: Vec3) => Math.abs(at[2] - CUBE) < 0.008;
const isOn = (top: Vec3, below: Vec3) => across(top, below) < 0.02 && Math.abs(top[2] - below[2] - 2 * CUBE) < 0.008;

/** What is done of what has to be done; all true is success. */
export function stages({ task, things }: Scene, { at, closed }: Now): readonly boolean[] {
  const place = (i: number) => at((things[i] as Thing).name);
  switch (task) {
    case "align": {
      const line = (things[2] as Thing).at[0];
      const done = [0, 1].map((i) => onTable(place(i)) && Math.abs(place(i)[0] - line) < 0.015);
      return [done.some(Boolean), done.every(Boolean)];
    }
    case "place": {
      const done = [0, 1].map((i) => onTable(place(i)) && across(place(i), (things[i + 2] as Thing).at) < 0.02);
      return [done.some(Boolean), done.every(Boolean)];
    }
    case "drawer": {
      const [apple, drawer] = [place(0), place(1)];
      const inside = Math.abs(apple[0] - drawer[0]) < 0.06 && Math.abs(apple[1] - drawer[1]) < 0.075 && apple[2] < 0.06;
      return [inside, inside && closed > 0.9];
    }
    case "stack": {
      const two = onTable(place(0)) && isOn(place(1), place(0));
      return [two, two && isOn(place(2), place(1))];
    }
  }
}

/** The next skill of someone who knows where everything is; `held` is what hangs in the gripper. */
export function nextSkill(scene: Scene, now: Now, held: string | undefined): Skill | undefined {
  const { task, things } = scene;
  const name = (i: number) => (things[i] as Thing).name;
  const place = (i: number) => now.at(name(i));
  const bring = (i: number, to: Vec3): Skill =>
    held === name(i) ? { name: "place", at: to } : { name: "pick", at: place(i) };
  switch (task) {
    case "align": {
      const line = (things[2] as Thing).at[0];
      const off = [0, 1].find((i) => !onTable(place(i)) || Math.abs(place(i)[0] - line) >= 0.012);
      if (off === undefined) return undefined;
      // On the stripe where it stands across, but not into the other cube.
      const other = place(1 - off)[1];
      const y = place(off)[1];
      const clear =
        Math.abs(y - other) >= 0.12 ? y : y >= other ? Math.min(0.17, other + 0.13) : Math.max(-0.17, other - 0.13);
      const far = Math.abs(clear - other) >= 0.12 ? clear : other > 0 ? other - 0.14 : other + 0.14;
      return bring(off, [line, far, CUBE]);
    }
    case "place": {
      const off = [0, 1].find((i) => across(place(i), (things[i + 2] as Thing).at) >= 0.015 || !onTable(place(i)));
      if (off === undefined) return undefined;
      const goal = (things[off + 2] as Thing).at;
      return bring(off, [goal[0], goal[1], CUBE]);
    }
    case "drawer": {
      const [inside] = stages(scene, now);
      const drawer = place(1);
      if (inside !== true) return bring(0, [drawer[0], drawer[1], 0.055]);
      return { name: "push", at: [0, drawer[1] + 0.13, 0.035], to: [0, DRAWER_Y - DRAWER_TRAVEL + 0.1, 0.035] };
    }
    case "stack": {
      const [two] = stages(scene, now);
      const top = two === true ? 2 : 1;
      const below = place(top - 1);
      return bring(top, [below[0], below[1], below[2] + 2 * CUBE]);
    }
  }
}
