import { describe, expect, test } from "vitest";
import { ConfigError, EnvError, type Image } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { generateRoom } from "./generator.ts";
import { cellKind, DIRECTIONS, isSolved, move, parseRoom, type Room, roomRows, stateKey } from "./room.ts";
import { Sokoban, sokoban } from "./sokoban.ts";
import { search } from "./solver.ts";
import { sokobanTiles } from "./tiles.ts";

const DEFAULTS = { width: 6, height: 6, boxes: 1, minSolution: 1, maxSolution: 5 };
const HARDER = { width: 8, height: 8, boxes: 2, minSolution: 8, maxSolution: 30 };

function make(options: Record<string, unknown> = {}, seed = 0): Sokoban {
  const world = new Sokoban(sokoban.options.parse(options) as ConstructorParameters<typeof Sokoban>[0]);
  world.reset(seed);
  return world;
}

function room(...rows: string[]): Room {
  return parseRoom(rows, (problem) => new Error(problem));
}

/** Moves of the shortest solution by plain breadth-first search over single steps; undefined when there is none. */
function shortestBySteps(start: Room): number | undefined {
  const seen = new Set([stateKey(start.player, start.boxes)]);
  let layer = [start];
  for (let depth = 0; layer.length > 0; depth++) {
    if (layer.some(isSolved)) return depth;
    const next: Room[] = [];
    for (const state of layer) {
      for (const direction of DIRECTIONS) {
        const after = move(state, direction);
        if (after === undefined || seen.has(stateKey(after.player, after.boxes))) continue;
        seen.add(stateKey(after.player, after.boxes));
        next.push(after);
      }
    }
    layer = next;
  }
  return undefined;
}

const pixels = (world: Sokoban) => (world.observe("image") as Image).hash;

describe("rules", () => {
  const ROOM = ["#######", "#_____#", "#PX_O_#", "#_____#", "#######"];

  test("stepping into a box pushes it, and the last box on its target pays and ends", () => {
    const world = make({ room: ROOM, successReward: 3 });
    expect(world.act(act("right"))).toEqual({ valid: true, reward: 0, ended: false });
    expect(world.save()).toEqual({ rows: ["#######", "#_____#", "#_PXO_#", "#_____#", "#######"] });
    expect(world.success()).toBe(false);
    expect(world.act(act("right"))).toMatchObject({ valid: true, reward: 3, ended: true });
    expect(world.success()).toBe(true);
    expect(world.act(act("left"))).toMatchObject({ valid: false, reward: 0, ended: true });
    expect(world.success()).toBe(true);
  });

  test.each([
    ["a wall", ["#####", "#P__#", "#XO_#", "#####"], "up", "wall is up"],
    ["a box against a wall", ["#####", "#P__#", "#XO_#", "#####"], "down", "a wall is behind"],
    ["two boxes in a row", ["######", "#PXX_#", "#_OO_#", "######"], "right", "another box is behind"],
  ])("a move into %s changes nothing and says why", (_, rows, direction, reason) => {
    const world = make({ room: rows });
    const picture = pixels(world);
    const outcome = world.act(act(direction));
    expect(outcome).toMatchObject({ valid: false, reward: 0, ended: false });
    expect(outcome.feedback).toContain(reason);
    expect(world.save()).toEqual({ rows });
    expect(pixels(world)).toBe(picture);
  });

  test("a box stuck in a corner does not end the episode, and the oracle has no plan", () => {
    const world = make({ room: ["######", "#_XP_#", "#__O_#", "######"] });
    expect(world.act(act("left"))).toEqual({ valid: true, reward: 0, ended: false });
    expect(world.solve()).toEqual([]);
    expect(world.act(act("right"))).toMatchObject({ valid: true, ended: false });
  });

  test("the text view has three characters a cell and tells who stands on a target", () => {
    const world = make({ room: ["######", "#S√X_#", "######"] });
    expect(world.observe("text")).toBe(" #  #  #  #  #  # \n #  S  √  X  _  # \n #  #  #  #  #  # ");
  });

  test("facts place boxes and targets by row and column", () => {
    const world = make({ room: ["######", "#__O_#", "#XP__#", "#____#", "######"] });
    expect(world.facts()).toEqual([
      { subject: "box", relations: ["same row", "left"], object: "player" },
      { subject: "target", relations: ["above", "right"], object: "player" },
      { subject: "box", relations: ["below", "left"], object: "target" },
    ]);
    const two = make({ room: ["######", "#_OXO#", "#XP__#", "######"] }).facts();
    expect(two).toHaveLength(8);
    expect(two[0]).toEqual({ subject: "box 1", relations: ["above", "right"], object: "player" });
    expect(two[3]).toEqual({ subject: "target 2", relations: ["above", "right"], object: "player" });
  });
});

describe("generated rooms", () => {
  test.each([
    ["default", DEFAULTS, 40],
    ["harder", HARDER, 8],
    ["narrow", { width: 5, height: 9, boxes: 2, minSolution: 4, maxSolution: 12 }, 8],
  ])("%s rooms keep to the options and have all targets in the open", (_, options, seeds) => {
    for (let seed = 0; seed < seeds; seed++) {
      const made = generateRoom(seed, options);
      const length = shortestBySteps(made);
      expect(length).toBeGreaterThanOrEqual(options.minSolution);
      expect(length).toBeLessThanOrEqual(options.maxSolution);
      expect([made.width, made.height, made.boxes.length]).toEqual([options.width, options.height, options.boxes]);
      const symbols = roomRows(made).join("");
      expect(symbols.match(/[S√]/)).toBeNull();
      expect(symbols.match(/O/g)).toHaveLength(options.boxes);
      // Reading it back checks the border, the player and the counts.
      expect(parseRoom(roomRows(made), (problem) => new Error(problem))).toEqual(made);
    }
  });

  test("a seed decides the room whatever ran before, and seeds differ", () => {
    const played = make({}, 5);
    for (const action of played.solve()) played.act(action);
    played.reset(9);
    expect(played.save()).toEqual(make({}, 9).save());
    const distinct = new Set(Array.from({ length: 40 }, (_, seed) => JSON.stringify(make({}, seed).save())));
    expect(distinct.size).toBeGreaterThan(35);
  });

  test("these seeds give these rooms for good", () => {
    expect(make({}, 1).save()).toEqual({ rows: ["######", "######", "#O___#", "#__XP#", "#__###", "######"] });
    expect(generateRoom(3, HARDER).boxes).toEqual([17, 26]);
  });

  test("options that no room can meet are named in the error", () => {
    const hopeless = () => make({ width: 5, height: 5, minSolution: 150, maxSolution: 200 });
    expect(hopeless).toThrow(
      expect.objectContaining({
        name: "EnvError",
        message: expect.stringMatching(/150 to 200 moves.*minSolution\.\.maxSolution/),
      }),
    );
  });
});

describe("solver", () => {
  test("plans are as short as those of a search over single steps", () => {
    for (let seed = 0; seed < 12; seed++) {
      const made = generateRoom(seed, seed % 2 === 0 ? { ...DEFAULTS, maxSolution: 20 } : HARDER);
      expect(search(made).moves).toHaveLength(shortestBySteps(made) as number);
    }
  });

  test("unsolvable states are recognised, also those of several boxes", () => {
    for (const stuck of [
      room("#####", "#X__#", "#_PO#", "#####"),
      room("######", "#_XX_#", "#OPO_#", "######"),
      room("#######", "#P_#XO#", "#######"),
    ]) {
      expect(shortestBySteps(stuck)).toBeUndefined();
      expect(search(stuck)).toMatchObject({ moves: undefined, complete: true });
    }
  });

  test("a weighted search still solves, and a search out of states says that it gave up", () => {
    const made = generateRoom(2, HARDER);
    const end = search(made, { weight: 4 }).moves?.reduce<Room | undefined>((at, go) => at && move(at, go), made);
    expect(end && isSolved(end)).toBe(true);
    expect(search(made, { maxStates: 3 })).toMatchObject({ moves: undefined, complete: false });
  });

  test("the oracle solves from the start and from wherever the player has strolled", () => {
    for (let seed = 0; seed < 30; seed++) {
      const world = make({}, seed);
      if (seed % 2 === 1) for (const direction of DIRECTIONS) world.act(act(direction));
      const plan = world.solve();
      const rewards = plan.map((action) => world.act(action));
      if (world.success())
        expect(rewards.map(({ reward }) => reward)).toEqual(plan.map((_, i) => +(i === plan.length - 1)));
      else expect(plan).toEqual([]);
      if (seed % 2 === 0) expect(world.success()).toBe(true);
    }
  });
});

describe("pictures", () => {
  test("the default picture is 96×96, and every kind of cell has its own look at every size", () => {
    const picture = make().observe("image") as Image;
    expect([picture.width, picture.height]).toEqual([96, 96]);
    for (const size of [8, 16, 32, 48]) {
      expect(new Set(sokobanTiles(size).map((tile) => tile.hash)).size).toBe(7);
    }
  });

  test("a picture depends on the state alone and earlier ones stay as they were", () => {
    const world = make({ ...HARDER, cellSize: 8 }, 4);
    const first = world.observe("image") as Image;
    const copy = first.data.slice();
    for (const action of world.solve()) {
      world.act(action);
      const fresh = make({ ...HARDER, cellSize: 8 });
      fresh.load(world.save());
      expect(pixels(world)).toBe(pixels(fresh));
    }
    expect(world.success()).toBe(true);
    expect(first.data).toEqual(copy);
  });

  test("each cell shows the tile of its kind", () => {
    const rows = ["######", "#S√X_#", "######"];
    const picture = make({ room: rows, cellSize: 8 }).observe("image") as Image;
    const state = room(...rows);
    for (let cell = 0; cell < 18; cell++) {
      const tile = sokobanTiles(8)[cellKind(state, cell)] as Image;
      const start = (Math.floor(cell / 6) * 8 * picture.width + (cell % 6) * 8) * 3;
      expect(picture.data.slice(start, start + 24)).toEqual(tile.data.slice(0, 24));
    }
  });
});

describe("saving", () => {
  test("a loaded episode has the same future", () => {
    const world = make(HARDER, 6);
    const plan = world.solve();
    for (const action of plan.slice(0, 4)) world.act(action);
    const other = make();
    other.load(JSON.parse(JSON.stringify(world.save())));
    for (const action of plan.slice(4)) expect(other.act(action)).toEqual(world.act(action));
    expect(other.success()).toBe(true);
  });

  test.each([
    ["no rows", {}, /rows: \[\.\.\.\]/],
    ["uneven rows", { rows: ["#####", "#PXO#", "####"] }, /row 3 has 4 symbols/],
    ["an unknown symbol", { rows: ["#####", "#P$O#", "#####"] }, /holds "\$"/],
    ["an open border", { rows: ["#####", "#PXO_", "#####"] }, /row 2, column 5/],
    ["no player", { rows: ["#####", "#_XO#", "#####"] }, /one player/],
    ["a target too few", { rows: ["#####", "#PXX#", "#_O_#", "#####"] }, /got 2 and 1/],
    ["a room too large", { rows: Array(17).fill("#".repeat(17)) }, /3 to 16 rows/],
  ])("%s can't be loaded, and the running episode stays", (_, state, message) => {
    const world = make();
    const before = world.save();
    expect(() => world.load(state)).toThrow(EnvError);
    expect(() => world.load(state)).toThrow(message);
    expect(world.save()).toEqual(before);
  });

  test("options that contradict themselves are refused at once", () => {
    expect(() => make({ minSolution: 6 })).toThrow(ConfigError);
    expect(() => make({ room: ["#####", "#P√_#", "#####"] })).toThrow(/already/);
  });
});
