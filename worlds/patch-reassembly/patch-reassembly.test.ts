import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { isImage, type JsonObject, NumpyRandom } from "../../src/core/index.ts";
import { act, makeProtocol } from "../../src/envs/index.ts";
import { PatchReassembly, patchReassembly } from "./patch-reassembly.ts";
import { planPlacements } from "./planner.ts";

type Step = { action: string; reward: number; terminated: boolean; ok: boolean };
type Episode = { seed: number; state: JsonObject; steps: Step[]; plan_len: number };
const golden: Episode[] = JSON.parse(
  readFileSync(new URL("./golden/patch_reassembly_easy.json", import.meta.url), "utf8"),
);

const easy = { rows: 6, columns: 6, patches: 5, cellSize: 40 };
const hard = { rows: 8, columns: 8, patches: 6, cellSize: 40 };

function worldAt(seed: number, options = easy): PatchReassembly {
  const world = new PatchReassembly(options);
  world.reset(seed);
  return world;
}

function frame(world: PatchReassembly) {
  const seen = world.observe("image");
  if (!isImage(seen)) throw new Error("not a picture");
  return seen;
}

function pixel(world: PatchReassembly, x: number, y: number): number[] {
  const { width, data } = frame(world);
  return [...data.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)];
}

function playsOut(world: PatchReassembly): string[] {
  const plan = world.solve();
  const outcomes = plan.map((action) => world.act(action));
  expect(outcomes.every(({ valid }) => valid)).toBe(true);
  expect(outcomes.at(-1)).toMatchObject({ reward: 1, ended: true });
  expect(world.success()).toBe(true);
  return plan.map(({ name }) => name);
}

describe("recorded episodes of VisGym", () => {
  const protocol = makeProtocol("tuple");
  for (const { seed, state, steps, plan_len } of golden) {
    test(`seed ${seed} starts in the same state and needs a plan of the same length`, () => {
      const world = worldAt(seed);
      expect(world.save()).toEqual({ ...state, stopped: false });
      expect(world.solve()).toHaveLength(plan_len);
    });

    test(`seed ${seed} replays from its JSON with the same rewards, ends and refusals`, () => {
      const world = worldAt(seed + 100, hard);
      world.load(state);
      for (const { action, reward, terminated, ok } of steps) {
        const [read] = protocol.parse(action, world.actions).actions;
        const outcome = read === undefined ? undefined : world.act(read);
        expect([outcome?.valid ?? false, outcome?.reward ?? 0, outcome?.ended ?? false]).toEqual([
          ok,
          reward,
          terminated,
        ]);
      }
    });
  }
});

describe("rules", () => {
  test("a patch that would stick out or overlap stays where it is, and the feedback says why", () => {
    const world = worldAt(0);
    world.act(act("place", [3, 0, 2]));
    const before = world.save();
    const out = world.act(act("place", [2, 0, 1]));
    const over = world.act(act("place", [2, 0, 0]));
    expect(out).toMatchObject({ valid: false, reward: 0, ended: false });
    expect(out.feedback).toContain("stick out");
    expect(over.feedback).toContain("overlap patch 3");
    expect(world.act(act("remove", 2)).valid).toBe(false);
    expect(world.save()).toEqual(before);
  });

  test("a patch on the board can be placed anew over its own old cells, and removing parks it again", () => {
    const world = worldAt(0);
    const parked = world.save();
    expect(world.act(act("place", [0, 0, 0])).valid).toBe(true);
    expect(world.act(act("place", [0, 1, 0])).valid).toBe(true);
    expect(world.act(act("remove", 0)).valid).toBe(true);
    expect(world.save()).toEqual(parked);
  });

  test("a full board pays on stop only, a board with gaps never", () => {
    const world = worldAt(1);
    for (const action of world.solve().slice(0, -1))
      expect(world.act(action)).toMatchObject({ reward: 0, ended: false });
    expect(world.act(act("stop"))).toMatchObject({ valid: true, reward: 1, ended: true });
    const hasty = worldAt(1);
    expect(hasty.act(act("stop"))).toMatchObject({ valid: true, reward: 0, ended: true });
    expect(hasty.act(act("place", [0, 0, 0])).valid).toBe(false);
    expect(hasty.solve()).toEqual([]);
  });

  test("a seed decides the episode, and patches cover the board exactly whatever the options", () => {
    const used = worldAt(3, hard);
    used.act(act("place", [0, 0, 0]));
    used.reset(7);
    expect(used.save()).toEqual(worldAt(7, hard).save());
    const { patches } = worldAt(2, { rows: 3, columns: 5, patches: 12, cellSize: 8 }).save() as {
      patches: number[][][];
    };
    expect(patches).toHaveLength(12);
    expect(new Set(patches.flat().map(String)).size).toBe(15);
  });

  test("more patches than cells are refused with advice", () => {
    expect(() => new PatchReassembly({ rows: 2, columns: 2, patches: 5, cellSize: 40 })).toThrow("fewer patches");
  });
});

describe("plans", () => {
  test("the oracle succeeds from fresh boards and from boards with wrongly placed patches", () => {
    const random = new NumpyRandom(0);
    const played = new Set<string>();
    for (const options of [easy, hard, { ...easy, patches: 12 }]) {
      for (let seed = 0; seed < 15; seed++) {
        expect(playsOut(worldAt(seed, options))).toHaveLength(options.patches + 1);
        const world = worldAt(seed, options);
        for (let i = 0; i < 20; i++) {
          const cell = [random.integers(options.rows), random.integers(options.columns)];
          world.act(act("place", [random.integers(options.patches), ...cell]));
        }
        for (const name of playsOut(world)) played.add(name);
      }
    }
    // Some of these boards can only be mended by taking a patch off first.
    expect(played).toContain("remove");
  });

  test("a plan leaves patches where they are when some tiling has them there", () => {
    const domino = [
      [0, 0],
      [0, 1],
    ] as const;
    const bar = [...domino, [0, 2]] as const;
    const puzzle = {
      rows: 1,
      columns: 5,
      patches: [domino, bar],
      home: [
        [0, 0],
        [0, 2],
      ] as const,
    };
    expect(planPlacements(puzzle, [undefined, undefined])).toHaveLength(2);
    expect(planPlacements(puzzle, [[0, 3], undefined])).toEqual([{ patch: 1, to: [0, 0] }]);
    expect(planPlacements(puzzle, [[0, 2], undefined])).toHaveLength(2);
    const squares = {
      rows: 1,
      columns: 3,
      patches: [domino, [[0, 0]] as const],
      home: [
        [0, 0],
        [0, 2],
      ] as const,
    };
    expect(
      planPlacements(squares, [
        [0, 1],
        [0, 0],
      ]),
    ).toEqual([]);
  });
});

describe("states", () => {
  test("a loaded save has the same picture and the same future, at the size of the saved board", () => {
    const world = worldAt(4);
    world.act(act("place", [1, 2, 1]));
    const copy = worldAt(9, hard);
    copy.load(JSON.parse(JSON.stringify(world.save())));
    expect(frame(copy).hash).toBe(frame(world).hash);
    expect(copy.solve()).toEqual(world.solve());
    expect(copy.save()).toEqual(world.save());
    expect(copy.actions).toEqual(world.actions);
    copy.reset(9);
    expect(copy.save()).toEqual(worldAt(9, hard).save());
  });

  const cells = [[[0, 0]], [[0, 1]]];
  test.each([
    ["no patches", {}, "patches"],
    ["patches with a hole", { patches: [[[0, 0]], [[0, 2]]] }, "exactly once"],
    ["patches that overlap", { patches: [[[0, 0]], [[0, 0]]] }, "exactly once"],
    ["a cell that is no pair", { patches: [[[0, 0, 0]]] }, "patches[0]"],
    [
      "a wrong anchor",
      {
        patches: cells,
        patch_anchor: [
          [0, 0],
          [0, 0],
        ],
      },
      "patch_anchor",
    ],
    [
      "parking on the board",
      {
        patches: cells,
        parking_slot: [
          [0, 0],
          [0, 3],
        ],
      },
      "parking_slot",
    ],
    ["too few places", { patches: cells, current_state: [[0, 0]] }, "current_state"],
    [
      "a place nowhere",
      {
        patches: cells,
        current_state: [
          [0, 0],
          [9, 9],
        ],
      },
      "current_state",
    ],
    [
      "overlap on the board",
      {
        patches: cells,
        current_state: [
          [0, 0],
          [0, 0],
        ],
      },
      "overlap",
    ],
    ["a wrong flag", { patches: cells, stopped: 1 }, "stopped"],
  ])("%s is refused with the field that is wrong, and nothing changes", (_, state, field) => {
    const world = worldAt(0);
    const before = world.save();
    expect(() => world.load(state)).toThrow(field);
    expect(world.save()).toEqual(before);
  });
});

describe("views", () => {
  test("the canvas has VisGym's size and keeps it while patches move", () => {
    const world = worldAt(0);
    expect([frame(world).width, frame(world).height]).toEqual([640, 680]);
    for (const action of world.solve().slice(0, -1)) world.act(action);
    expect([frame(world).width, frame(world).height]).toEqual([640, 680]);
  });

  test("grid, outlines and patches have VisGym's colours at VisGym's pixels", () => {
    const world = worldAt(0);
    expect([199, 200, 201, 239, 240, 440, 441].map((x) => pixel(world, x, 300)[0])).toEqual([
      255, 200, 255, 255, 200, 200, 255,
    ]);
    expect([199, 200, 201, 239, 240, 241].map((x) => pixel(world, x, 110)[0])).toEqual([255, 0, 66, 66, 0, 255]);
    expect(pixel(world, 500, 345)).toEqual([128, 127, 204]);
    expect(pixel(world, 260, 590)).toEqual([65, 175, 86]);
    world.act(act("place", [0, 0, 0]));
    expect(pixel(world, 210, 110)).toEqual([255, 255, 255]);
    expect(pixel(world, 210, 330)).toEqual([66, 189, 167]);
  });

  test("a frame depends on the state alone", () => {
    const world = worldAt(2);
    const before = frame(world);
    world.act(act("place", [1, 0, 0]));
    expect(frame(world).hash).not.toBe(before.hash);
    world.act(act("remove", 1));
    expect(frame(world).hash).toBe(before.hash);
  });

  test("the text shows the board and every parked patch with its anchor", () => {
    const world = worldAt(4);
    world.act(act("place", [0, 0, 3]));
    world.act(act("place", [2, 0, 0]));
    world.act(act("place", [4, 5, 0]));
    expect(world.observe("text")).toBe(
      [
        "   0  1  2  3  4  5 ",
        "  ------------------",
        "0 | 2  2  2  0  0  0 ",
        "1 | 2  2  0  0  0  0 ",
        "2 | 2  .  0  0  0  0 ",
        "3 | .  .  .  0  0  0 ",
        "4 | .  .  .  0  0  . ",
        "5 | 4  .  .  .  .  . ",
        "",
        "--- Parked Patches ---",
        "",
        "Patch 1:",
        "   *",
        "  111",
        "",
        "Patch 3:",
        "  *33  3",
        "   33333",
      ].join("\n"),
    );
    for (const action of world.solve().slice(0, -1)) world.act(action);
    expect(world.observe("text")).toMatch(/\n\n--- Parked Patches ---\n {2}\(None\)$/);
  });
});

test("the definition has VisGym's difficulties and turn limits", () => {
  expect(patchReassembly.difficulties).toEqual({
    easy: { rows: 6, columns: 6, patches: 5 },
    hard: { rows: 8, columns: 8, patches: 6 },
  });
  expect(patchReassembly.maxTurns).toEqual({ easy: 20, hard: 30 });
});
