import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ConfigError, EnvError, type Image, type Json, NumpyRandom } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { type FrozenLake, frozenLake } from "./frozen-lake.ts";

const make = (options: object = {}) => frozenLake.create(frozenLake.options.parse(options)) as FrozenLake;
const frame = (world: FrozenLake) => world.observe("image") as Image;
type State = { desc: string[]; player: number[]; random: Json };
const stateOf = (world: FrozenLake) => world.save() as State;

const maps = JSON.parse(readFileSync(new URL("./golden/frozen_lake_maps.json", import.meta.url), "utf8")) as {
  seed: number;
  size: number;
  p: number;
  desc: string[];
}[];

test.each(maps)("seed $seed at size $size gives VAGEN's recorded board", ({ seed, size, p, desc }) => {
  const world = make({ size, p });
  world.reset(seed);
  expect(stateOf(world).desc).toEqual(desc);
});

const seeds = [
  ...Array(190).keys(),
  ...[65_537, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 5, 1e10, 2 ** 40 + 3, 2 ** 53 - 1, 123_456_789],
];

// Digests of what the recipe gives with numpy, one line per seed: seed, rows.
test.each([
  [4, 0.8, "8e12808df49921f8e2b602d1dd393906d6e7371645d227938a2c88c6d828849e"],
  [8, 0.8, "e23e90b0da929a4d389c984e44631f310389ba5f9d5479f3ec428cf0ec9a3dd3"],
  [5, 0.65, "734640e002681e68ec58855dcbf8b069134631af6f17040b84635419a7f107bb"],
  [7, 0.7, "62bf2ce8ba12455533923755199cf229b5fe4566d8d29b9ce38a992fae3533e9"],
  [3, 0.5, "f1409ebee23ef562ed114d0924cb72b7bc902f1894c90df5bc9ccb606b7e6b6c"],
])("the boards of 200 seeds at size %i and p %f are VAGEN's", (size, p, digest) => {
  const world = make({ size, p });
  const lines = seeds.map((seed) => {
    world.reset(seed);
    return `${seed} ${stateOf(world).desc.join("/")}`;
  });
  expect(createHash("sha256").update(lines.join("\n")).digest("hex")).toBe(digest);
});

test("minSteps keeps a board whose way is long enough and replaces the others", () => {
  const plain = make();
  const longer = make({ minSteps: 3 });
  let replaced = 0;
  for (let seed = 0; seed < 50; seed++) {
    plain.reset(seed);
    longer.reset(seed);
    const steps = plain.solve().length;
    expect(longer.solve().length).toBeGreaterThanOrEqual(3);
    if (steps >= 3) expect(longer.save()).toEqual(plain.save());
    else replaced += 1;
  }
  expect(replaced).toBeGreaterThan(0);
});

test("a minSteps that no board reaches is refused with advice instead of searching forever", () => {
  expect(() => make({ size: 2, minSteps: 3 })).toThrow(ConfigError);
  expect(() => make({ size: 2, minSteps: 3 })).toThrow("lower minSteps");
});

test("the oracle's plan reaches the goal from the start and from anywhere on the way, and pays once", () => {
  const world = make({ size: 8, successReward: 2.5 });
  for (let seed = 0; seed < 30; seed++) {
    world.reset(seed);
    for (const action of world.solve().slice(0, -1))
      expect(world.act(action)).toEqual({ valid: true, reward: 0, ended: false });
    expect(world.success()).toBe(false);
    expect(world.solve()).toHaveLength(1);
    expect(world.act(world.solve()[0]!)).toMatchObject({ valid: true, reward: 2.5, ended: true });
    expect(world.success()).toBe(true);
    expect(world.solve()).toEqual([]);
  }
});

const board = ["SFHG", "FHFF", "FFFF", "HFFH"];

test("a hole ends the episode without reward, and nothing moves after it", () => {
  const world = make({ board });
  world.act(act("down"));
  expect(world.act(act("right"))).toMatchObject({
    valid: true,
    feedback: "You fell into a hole.",
    reward: 0,
    ended: true,
  });
  expect(world.success()).toBe(false);
  expect(world.solve()).toEqual([]);
  const after = world.save();
  expect(world.act(act("left"))).toMatchObject({ valid: false, reward: 0, ended: true });
  expect(world.save()).toEqual(after);
});

test("the edge of the lake refuses a move and leaves the state alone", () => {
  const world = make({ board: ["SG"] });
  const before = world.save();
  for (const direction of ["left", "up", "down"]) {
    const outcome = world.act(act(direction));
    expect(outcome).toMatchObject({ valid: false, reward: 0, ended: false });
    expect(outcome.feedback).toContain("The lake ends");
  }
  expect(world.save()).toEqual(before);
});

/** Where 3,000 moves to the right really went, from the middle of a wide sheet of ice. */
function tally(options: object): Record<string, number> {
  const rows = ["FFFFF", "FFFFF", "FFSFF", "FFFFF", "FFFFG"];
  const world = make({ board: rows, ...options });
  world.reset(11);
  const counts: Record<string, number> = { left: 0, down: 0, right: 0, up: 0 };
  const names = new Map([
    ["2,1", "left"],
    ["3,2", "down"],
    ["2,3", "right"],
    ["1,2", "up"],
  ]);
  for (let i = 0; i < 3000; i++) {
    world.load({ desc: rows, player: [2, 2], random: stateOf(world).random });
    world.act(act("right"));
    counts[names.get(String(stateOf(world).player))!]! += 1;
  }
  return counts;
}

test("slippery ice takes the chosen way and either side of it a third of the time each, never the opposite", () => {
  const { left, down, right, up } = tally({ slippery: true });
  expect(left).toBe(0);
  for (const share of [down!, right!, up!]) expect(Math.abs(share - 1000)).toBeLessThan(100);
});

test("slipProbability is the share of moves that go to a side, half of them to each", () => {
  const { left, down, right, up } = tally({ slipProbability: 0.4 });
  expect(left).toBe(0);
  expect(Math.abs(right! - 1800)).toBeLessThan(100);
  expect(Math.abs(down! - 600)).toBeLessThan(80);
  expect(Math.abs(up! - 600)).toBeLessThan(80);
  expect(tally({ slipProbability: 1 }).right).toBe(0);
});

test("slips are decided by the seed, and a saved episode slips as the original would have", () => {
  const options = { size: 8, p: 1, slippery: true, slipProbability: 0.3 };
  const moves = Array.from({ length: 40 }, (_, i) => act(["right", "down", "left", "up", "down"][i % 5]!));
  const play = (world: FrozenLake, from: number, to: number) =>
    moves.slice(from, to).map((move) => [world.act(move), stateOf(world).player] as const);

  const first = make(options);
  first.reset(3);
  const whole = play(first, 0, 40);
  const second = make(options);
  second.reset(8);
  play(second, 0, 7);
  second.reset(3);
  play(second, 0, 20);
  const third = make(options);
  third.load(JSON.parse(JSON.stringify(second.save())));
  expect(play(third, 20, 40)).toEqual(whole.slice(20));
  expect(frame(third).hash).toBe(frame(first).hash);
  expect(whole.some(([outcome]) => outcome.feedback?.includes("slipped"))).toBe(true);
});

test("a slip that ends at the edge is not the agent's fault", () => {
  const world = make({ board: ["SFFFFFFFFFFFFFFG"], slipProbability: 1 });
  const outcome = world.act(act("right"));
  expect(outcome).toMatchObject({ valid: true, reward: 0, ended: false });
  expect(outcome.feedback).toMatch(/^You slipped and went (up|down)\. The lake ends (above|below), so you stayed\.$/);
});

test("the task speaks of slipping only when the ice is slippery", () => {
  for (const style of ["full", "brief"] as const) {
    for (const mode of ["image", "text"] as const) {
      expect(make().task(style, mode)).not.toMatch(/slip/);
      expect(make({ slippery: true }).task(style, mode)).toMatch(/slippery/);
      expect(make({ slipProbability: 0.1 }).task(style, mode)).toMatch(/slippery/);
    }
  }
});

test("the text view shows player, ice, holes and goal, and how an episode ended", () => {
  const world = make({ board });
  expect(world.observe("text")).toBe(" P  _  O  G \n _  O  _  _ \n _  _  _  _ \n O  _  _  O ");
  world.load({ desc: board, player: [2, 0] });
  expect(world.observe("text")).toBe(" _  _  O  G \n _  O  _  _ \n P  _  _  _ \n O  _  _  O ");
  world.load({ desc: board, player: [0, 2] });
  expect(world.observe("text")).toContain(" X ");
  world.load({ desc: board, player: [0, 3] });
  expect(world.observe("text")).toContain(" V ");
});

test("facts tell where the goal and each hole lie, seen from the player", () => {
  const world = make({ board: ["SFH", "FFF", "HGF"] });
  world.load({ desc: ["SFH", "FFF", "HGF"], player: [1, 1] });
  expect(world.facts()).toEqual([
    { subject: "goal", relations: ["below", "same column"], object: "player" },
    { subject: "hole", relations: ["above", "right"], object: "player" },
    { subject: "hole", relations: ["below", "left"], object: "player" },
  ]);
  world.load({ desc: ["SFH", "FFF", "HGF"], player: [2, 2] });
  expect(world.facts()[0]).toEqual({ subject: "goal", relations: ["same row", "left"], object: "player" });
});

test.each([
  [4, 256],
  [8, 512],
  [7, 448],
  [12, 504],
])("a lake of size %i is %i pixels wide, as in gymnasium", (size, pixels) => {
  const image = frame(make({ size }));
  expect([image.width, image.height]).toEqual([pixels, pixels]);
});

/** The mean colour of a cell: what is left of it when the image is shrunk to one pixel per cell. */
function meanColour(image: Image, cellSize: number, row: number, column: number): number[] {
  const sum = [0, 0, 0];
  for (let y = row * cellSize; y < (row + 1) * cellSize; y++) {
    for (let x = column * cellSize; x < (column + 1) * cellSize; x++) {
      for (let c = 0; c < 3; c++) sum[c]! += image.data[(y * image.width + x) * 3 + c]!;
    }
  }
  return sum.map((total) => total / (cellSize * cellSize));
}

test.each([8, 16, 32, 64])(
  "at %i pixels a cell, player, hole, goal and ice differ in their mean colour alone",
  (cellSize) => {
    const world = make({ board, cellSize });
    const at = (player: number[], row: number, column: number) => {
      world.load({ desc: board, player });
      return meanColour(frame(world), cellSize, row, column);
    };
    const kinds = {
      ice: at([2, 0], 0, 1),
      hole: at([2, 0], 0, 2),
      goal: at([2, 0], 0, 3),
      player: at([2, 0], 2, 0),
      "player on goal": at([0, 3], 0, 3),
      "player in hole": at([0, 2], 0, 2),
    };
    const named = Object.entries(kinds);
    for (const [i, [name, colour]] of named.entries()) {
      for (const [other, otherColour] of named.slice(i + 1)) {
        const apart = Math.max(...colour.map((value, c) => Math.abs(value - otherColour[c]!)));
        expect(apart, `${name} and ${other}`).toBeGreaterThan(30);
      }
    }
  },
);

test("a frame depends on the state alone: the same cell looks the same however it was reached", () => {
  const world = make({ board });
  const start = frame(world).hash;
  world.act(act("right"));
  expect(frame(world).hash).not.toBe(start);
  world.act(act("left"));
  expect(frame(world).hash).toBe(start);
});

test.each<[string, Json]>([
  ["desc", "SG"],
  ["desc", { desc: "SG", player: [0, 0] }],
  ["desc", { desc: ["SG", "F"], player: [0, 0] }],
  ["desc", { desc: ["SX", "FG"], player: [0, 0] }],
  ["desc", { desc: ["SF", "FF"], player: [0, 0] }],
  ["desc", { desc: ["SH", "HG"], player: [0, 0] }],
  ["player", { desc: ["SF", "FG"], player: [2, 0] }],
  ["player", { desc: ["SF", "FG"] }],
  ["random", { desc: ["SF", "FG"], player: [0, 0] }],
  ["random", { desc: ["SF", "FG"], player: [0, 0], random: 7 }],
  ["moved", { desc: ["SF", "FG"], player: [0, 0], random: new NumpyRandom(0).save(), moved: "yes" }],
  ["moved", { desc: ["SF", "FG"], player: [0, 0], random: new NumpyRandom(0).save(), moved: null }],
])("loading a state with a wrong %s is refused by name and changes nothing", (field, state) => {
  const world = make({ slippery: true });
  const before = world.save();
  expect(() => world.load(state)).toThrow(EnvError);
  expect(() => world.load(state)).toThrow(field);
  expect(world.save()).toEqual(before);
});

test("a board of one's own must be a board that can be won", () => {
  expect(frozenLake.options.safeParse({ board: ["SHG"] }).success).toBe(false);
  expect(frozenLake.options.safeParse({ board: ["SFG"] }).success).toBe(true);
});

describe("a window", () => {
  const cellSize = 16;
  const cut = (whole: Image, row: number, column: number, cells: number) => {
    const part: number[][] = [];
    for (let y = row * cellSize; y < (row + cells) * cellSize; y++) {
      for (let x = column * cellSize; x < (column + cells) * cellSize; x++) {
        const outside = x < 0 || y < 0 || x >= whole.width || y >= whole.height;
        part.push(
          outside ? [96, 130, 84] : [...whole.data.slice((y * whole.width + x) * 3, (y * whole.width + x) * 3 + 3)],
        );
      }
    }
    return part.flat();
  };

  test("shows the cells around the player as the whole lake does, and land outside of it", () => {
    const [near, whole] = [make({ size: 6, cellSize, window: 3 }), make({ size: 6, cellSize })];
    let atEdge = 0;
    for (let seed = 0; seed < 20; seed++) {
      near.reset(seed);
      whole.reset(seed);
      for (const action of [...whole.solve(), undefined]) {
        const [row, column] = stateOf(whole).player as [number, number];
        if (row * column === 0) atEdge += 1;
        expect([...frame(near).data]).toEqual(cut(frame(whole), row - 1, column - 1, 3));
        const text = (near.observe("text") as string).split("\n").map((line) => line.trim().split(/ +/));
        const lake = (whole.observe("text") as string).split("\n").map((line) => line.trim().split(/ +/));
        expect(text).toEqual([-1, 0, 1].map((r) => [-1, 0, 1].map((c) => lake[row + r]?.[column + c] ?? "#")));
        if (action !== undefined) expect(near.act(action)).toEqual(whole.act(action));
      }
    }
    expect(atEdge).toBeGreaterThan(5);
  });

  test("facts speak of what the agent has seen so far, and nothing else", () => {
    const world = make({ board: ["SFFFG", "FFFFF", "FFHFF"], window: 3 });
    expect(world.facts()).toEqual([]);
    world.act(act("right"));
    expect(world.facts()).toEqual([]);
    world.act(act("down"));
    expect(world.facts().map(({ subject }) => subject)).toEqual(["hole"]);
    world.act(act("up"));
    // Out of view again, and remembered.
    expect(world.facts()).toEqual([{ subject: "hole", relations: ["below", "right"], object: "player" }]);
    world.act(act("right"));
    world.act(act("right"));
    expect(world.facts().map(({ subject }) => subject)).toEqual(["goal", "hole"]);
  });

  test("a glimpse is of the whole lake, lasts until the first move, and is remembered", () => {
    const options = { board: ["SFFFG", "FFFFF", "FFHFF"], cellSize };
    const world = make({ ...options, window: 3, glimpse: true });
    expect(frame(world).hash).toBe(frame(make(options)).hash);
    const facts = world.facts();
    expect(facts.map(({ subject }) => subject)).toEqual(["goal", "hole"]);
    const begun = world.save();
    world.act(act("left"));
    expect(frame(world).width).toBe(3 * cellSize);
    expect(world.facts()).toEqual(facts);
    const [later, other] = [world.save(), make({ ...options, window: 3, glimpse: true })];
    other.load(later);
    expect([frame(other).hash, other.facts()]).toEqual([frame(world).hash, facts]);
    other.load(begun);
    expect(frame(other).width).toBe(5 * cellSize);
    expect(() => other.load({ ...(later as object), seen: [99] })).toThrow("seen must be a list of cells");
    expect(() => make({ glimpse: true })).toThrow("set window, for example to 3");
    expect(() => make({ window: 4 })).toThrow("must be odd");
  });
});
