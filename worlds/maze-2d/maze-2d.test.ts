import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { EnvError, type Image, type Json, NumpyRandom } from "../../src/core/index.ts";
import { type Action, act } from "../../src/envs/index.ts";
import { decodePng } from "../../src/images/index.ts";
import { drawMaze, shortestPath } from "../shared/wilson.ts";
import { type Maze2D, maze2d } from "./maze-2d.ts";

const golden = (file: string) => readFileSync(new URL(`./golden/${file}`, import.meta.url));
const make = (options: object = {}) => maze2d.create(maze2d.options.parse(options)) as Maze2D;
const frame = (world: Maze2D) => world.observe("image") as Image;
const pixel = (image: Image, x: number, y: number) =>
  Array.from(image.data.subarray((y * image.width + x) * 3, (y * image.width + x) * 3 + 3));

type State = { maze_map: number[][]; agent_location: number[]; target_location: number[] };
type Episode = {
  seed: number;
  state: State;
  steps: { action: string; reward: number; terminated: boolean; ok: boolean; agent: number[] }[];
  plan_len: number;
};

/** A recorded action string as an action, where it fits the world's specs. */
function read(text: string): Action | undefined {
  const match = /^\('(move|stop)', (?:([0-3])|'(\w+)')\)$/.exec(text);
  if (match === null) return undefined;
  return act(match[1]!, match[2] === undefined ? match[3]! : Number(match[2]));
}

const difficulties = [
  ["easy", 9],
  ["hard", 11],
] as const;

describe.each(difficulties)("VisGym's recorded %s episodes", (difficulty, side) => {
  const episodes = JSON.parse(golden(`maze_2d_${difficulty}.json`).toString()) as Episode[];

  test.each(episodes)("seed $seed replays action by action", ({ seed, state, steps, plan_len }) => {
    const world = make({ width: side, height: side });
    world.reset(seed);
    expect(world.save()).toEqual({ ...state, stopped: false });
    // VisGym's solver says stop twice.
    expect(world.solve()).toHaveLength(plan_len - 1);
    for (const step of steps) {
      const action = read(step.action);
      const outcome = action === undefined ? { valid: false, reward: 0, ended: false } : world.act(action);
      expect(outcome).toMatchObject({ valid: step.ok, reward: step.reward, ended: step.terminated });
      expect((world.save() as State).agent_location).toEqual(step.agent);
    }
    expect(world.success()).toBe(true);
  });

  test("the first frame is VisGym's, pixel for pixel", () => {
    const world = make({ width: side, height: side });
    world.reset(0);
    const expected = decodePng(golden(`maze_2d_${difficulty}_0.png`));
    expect(frame(world).hash).toBe(expected.hash);
  });
});

const seeds = [
  ...Array(190).keys(),
  ...[65_537, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 5, 1e10, 2 ** 40 + 3, 2 ** 53 - 1, 123_456_789],
];

// Digests of what the recipe gives in Python (numpy 2 and CPython), one line per seed: seed, rows, agent, target.
test.each([
  [9, 9, "daa0c0f92755fd217e3d6bd638deb5489f56a1a00bc1bb5d16afd5fb9d969cef"],
  [11, 11, "35d20649cdae147d6cb6e20f905aee163711119737db05a4780213bf1f0ea5bb"],
  [21, 7, "339f3ade920ec49fe579a94461c83c1a53e44877f74fc4dd4511478d34816b56"],
  [61, 61, "2a8d634f20b26a6330f13829e4f085ae8477f14d7f25bff0d1666b648776e00c"],
])("the %i×%i boards of 200 seeds are VisGym's", (width, height, digest) => {
  const world = make({ width, height });
  const lines = seeds.map((seed) => {
    world.reset(seed);
    const { maze_map, agent_location, target_location } = world.save() as State;
    return `${seed} ${maze_map.map((row) => row.join("")).join("/")} ${agent_location} ${target_location}`;
  });
  expect(createHash("sha256").update(lines.join("\n")).digest("hex")).toBe(digest);
});

test("a maze is a tree: one way between any two free cells", () => {
  for (const seed of [0, 1, 2]) {
    const { walls, width } = drawMaze(new NumpyRandom(seed), 15, 11);
    const free = [...walls.keys()].filter((cell) => walls[cell] === 0);
    const passages = free.flatMap((cell) => [cell + 1, cell + width].filter((next) => walls[next] === 0));
    expect(passages).toHaveLength(free.length - 1);
    const agent = free[0]!;
    expect(free.every((target) => shortestPath({ width, height: 11, walls, agent, target }) !== undefined)).toBe(true);
  }
});

test("the oracle's plan succeeds from the start and from anywhere on the way", () => {
  const world = make();
  for (let seed = 0; seed < 20; seed++) {
    world.reset(seed);
    const detour = world.solve().slice(0, seed % 7);
    for (const action of detour) world.act(action);
    const outcomes = world.solve().map((action) => world.act(action));
    expect(outcomes.every((outcome) => outcome.valid)).toBe(true);
    expect(outcomes.at(-1)).toMatchObject({ reward: 1, ended: true });
    expect(world.solve()).toEqual([]);
  }
});

/** A wall stands between the two upper cells; the way leads below it. */
const corridor = (agent: number[], target: number[]): Json => ({
  maze_map: [
    [1, 1, 1, 1, 1],
    [1, 0, 1, 0, 1],
    [1, 0, 0, 0, 1],
    [1, 1, 1, 1, 1],
  ],
  agent_location: agent,
  target_location: target,
});

test("a wall refuses the move, leaves the state alone and says which way was shut", () => {
  const world = make();
  world.load(corridor([1, 1], [1, 3]));
  const before = world.save();
  const outcome = world.act(act("move", 0));
  expect(outcome).toMatchObject({ valid: false, reward: 0, ended: false });
  expect(outcome.feedback).toContain("right");
  expect(world.save()).toEqual(before);
});

test("reaching the target neither ends the episode nor pays; stopping there does both", () => {
  const world = make();
  world.load(corridor([2, 3], [1, 3]));
  expect(world.act(act("move", 1))).toEqual({ valid: true, reward: 0, ended: false });
  expect(world.success()).toBe(false);
  expect(world.act(act("stop", "x"))).toMatchObject({ valid: true, reward: 1, ended: true });
  expect(world.success()).toBe(true);
});

test("stopping elsewhere ends the episode without reward, and nothing moves after it", () => {
  const world = make();
  world.load(corridor([1, 1], [1, 3]));
  expect(world.act(act("stop"))).toMatchObject({ valid: true, reward: 0, ended: true });
  expect(world.success()).toBe(false);
  const after = world.save();
  expect(world.act(act("move", 3))).toMatchObject({ valid: false, reward: 0, ended: true });
  expect(world.save()).toEqual(after);
});

test("a frame depends on the state alone: the target is red again after the agent has stepped off it", () => {
  const world = make();
  world.load(corridor([2, 3], [1, 3]));
  const before = frame(world);
  world.act(act("move", 1));
  const onTarget = frame(world);
  world.act(act("move", 3));
  expect(frame(world).hash).toBe(before.hash);
  expect(onTarget.hash).not.toBe(before.hash);
  expect(pixel(onTarget, 3 * 25 + 12, 25 + 12)).toEqual([0, 0, 255]);
  expect(pixel(onTarget, 3 * 25 + 2, 25 + 2)).toEqual([255, 0, 0]);
});

test("padTo adds wall to the right and below up to whole tokens, and leaves the maze where it was", () => {
  const bare = frame(make({ width: 9, height: 9, cellSize: 16 }));
  const padded = frame(make({ width: 9, height: 9, cellSize: 16, padTo: 32 }));
  expect([bare.width, padded.width, padded.height]).toEqual([144, 160, 160]);
  const wrong: number[][] = [];
  for (let y = 0; y < 160; y++) {
    for (let x = 0; x < 160; x++) {
      const want = x < 144 && y < 144 ? pixel(bare, x, y) : [169, 169, 169];
      if (String(pixel(padded, x, y)) !== String(want)) wrong.push([x, y]);
    }
  }
  expect(wrong).toEqual([]);
});

test("cellSize sets the size of the picture, and the disc stays visible in small cells", () => {
  for (const cellSize of [4, 8, 16]) {
    const { width, height, data } = frame(make({ width: 13, height: 7, cellSize }));
    expect([width, height]).toEqual([13 * cellSize, 7 * cellSize]);
    const blue = [...data.keys()].filter((i) => i % 3 === 0 && data[i] === 0 && data[i + 2] === 255).length;
    expect(blue).toBeGreaterThanOrEqual((cellSize * cellSize) / 8);
  }
});

test("the text view is the board in characters inside one more ring of walls", () => {
  const world = make();
  world.load(corridor([1, 1], [1, 3]));
  expect(world.observe("text")).toBe(["#######", "#######", "##A#T##", "##   ##", "#######", "#######"].join("\n"));
});

test("a saved episode goes on as the original does, whatever the world's own size", () => {
  const world = make({ width: 9, height: 9 });
  world.reset(5);
  for (const action of world.solve().slice(0, 4)) world.act(action);
  const copy = make({ width: 21, height: 5 });
  copy.load(JSON.parse(JSON.stringify(world.save())));
  for (const action of [...world.solve(), act("move", 0)]) {
    expect(copy.act(action)).toEqual(world.act(action));
    expect(frame(copy).hash).toBe(frame(world).hash);
    expect(copy.observe("text")).toBe(world.observe("text"));
  }
  expect(copy.save()).toEqual(world.save());
});

test("a state without a way to the target has an empty plan", () => {
  const world = make();
  const maze_map = [
    [1, 1, 1, 1, 1],
    [1, 0, 1, 0, 1],
    [1, 1, 1, 1, 1],
  ];
  world.load({ maze_map, agent_location: [1, 1], target_location: [1, 3] });
  expect(world.solve()).toEqual([]);
});

const good = corridor([1, 1], [1, 3]) as State;
test.each<[string, Json]>([
  ["maze_map", null],
  ["maze_map", { ...good, maze_map: [[1, 1, 1]] }],
  [
    "maze_map",
    {
      ...good,
      maze_map: [
        [1, 1, 1],
        [1, 0],
        [1, 1, 1],
      ],
    },
  ],
  [
    "maze_map",
    {
      ...good,
      maze_map: [
        [1, 1, 1],
        [1, 2, 1],
        [1, 1, 1],
      ],
    },
  ],
  [
    "maze_map",
    {
      ...good,
      maze_map: [
        [1, 1, 1],
        [0, 0, 1],
        [1, 1, 1],
      ],
    },
  ],
  ["agent_location", { ...good, agent_location: [0, 0] }],
  ["agent_location", { ...good, agent_location: [1, 6] }],
  ["agent_location", { ...good, agent_location: "1,1" }],
  ["target_location", { ...good, target_location: [1.5, 1] }],
  ["target_location", { ...good, target_location: [9, 1] }],
  ["stopped", { ...good, stopped: "no" }],
])("loading a state with a wrong %s is refused by name and changes nothing", (field, state) => {
  const world = make();
  const before = world.save();
  expect(() => world.load(state)).toThrow(EnvError);
  expect(() => world.load(state)).toThrow(field);
  expect(world.save()).toEqual(before);
});

test("the task names what the agent will see in its mode", () => {
  const world = make();
  expect(world.task("full", "image")).toContain("blue disc");
  expect(world.task("full", "text")).not.toContain("blue");
  expect(world.task("full", "text")).toContain("T is the target");
  expect(world.task("brief", "image").split(" ").length).toBeLessThanOrEqual(12);
});
