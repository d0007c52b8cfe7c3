import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { isImage, type JsonObject, NumpyRandom } from "../../src/core/index.ts";
import { act, makeProtocol } from "../../src/envs/index.ts";
import { BLOCKS, shortestSlides } from "./klotski.ts";
import { SlidingBlock, slidingBlock } from "./sliding-block.ts";

type Step = { action: string; reward: number; terminated: boolean; ok: boolean };
type Episode = { seed: number; state: JsonObject; steps: Step[]; plan_len: number };
const golden: Episode[] = JSON.parse(
  readFileSync(new URL("./golden/sliding_block_easy.json", import.meta.url), "utf8"),
);
type SavedTarget = { target_blocks: Record<string, { position: number[] }> };
/** Written by golden/make-sliding-block.py; in most rows the third phase of the shuffle has a choice. */
const targets: { moves: number; seed: number; positions: number[][] }[] = JSON.parse(
  readFileSync(new URL("./golden/sliding_block_targets.json", import.meta.url), "utf8"),
);

const easy = { shuffleMoves: 30, cellSize: 50 };
const hard = { shuffleMoves: 90, cellSize: 50 };

function worldAt(seed: number, options = easy): SlidingBlock {
  const world = new SlidingBlock(options);
  world.reset(seed);
  return world;
}

function frame(world: SlidingBlock) {
  const seen = world.observe("image");
  if (!isImage(seen)) throw new Error("not a picture");
  return seen;
}

function pixel(world: SlidingBlock, x: number, y: number): number[] {
  const { width, data } = frame(world);
  return [...data.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)];
}

function playsOut(world: SlidingBlock): void {
  const outcomes = world.solve().map((action) => world.act(action));
  expect(outcomes.every(({ valid }) => valid)).toBe(true);
  expect(outcomes.at(-1)).toMatchObject({ reward: 1, ended: true });
  expect(world.success()).toBe(true);
}

/** `count` random legal slides. */
function wander(world: SlidingBlock, seed: number, count: number): void {
  const random = new NumpyRandom(seed);
  for (let done = 0; done < count; ) {
    if (world.act(act("move", [random.integers(1, 11), random.integers(4)])).valid) done++;
  }
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
      const world = worldAt(seed + 100);
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

  test.each(targets)("$moves moves of seed $seed shuffle to the target that numpy's RandomState gives", (row) => {
    const { target_blocks } = worldAt(row.seed, { shuffleMoves: row.moves, cellSize: 50 }).save() as SavedTarget;
    expect(BLOCKS.map(({ id }) => target_blocks[id]?.position)).toEqual(row.positions);
  });

  test("seed 0 reads in text as VisGym prints it", () => {
    expect(worldAt(0).observe("text")).toBe(
      [
        "Target   Current",
        "-----------",
        ".114 | 3114",
        "3114 | 3114",
        "3922 | 5226",
        "5.76 | 5906",
        "5086 | 7..8",
      ].join("\n"),
    );
  });
});

describe("rules", () => {
  test("a blocked slide is refused, names the obstacle and leaves the board as it was", () => {
    const world = worldAt(0);
    const before = world.save();
    const edge = world.act(act("move", [7, 3]));
    const block = world.act(act("move", [2, 2]));
    expect(edge).toMatchObject({ valid: false, reward: 0, ended: false });
    expect(edge.feedback).toContain("edge");
    expect(block.feedback).toContain("blocks 9 and 10");
    expect(world.save()).toEqual(before);
  });

  test("reaching the target pays nothing until stop, and stopping early pays nothing at all", () => {
    const world = worldAt(3);
    for (const action of world.solve().slice(0, -1))
      expect(world.act(action)).toMatchObject({ reward: 0, ended: false });
    expect(world.act(act("stop"))).toMatchObject({ valid: true, reward: 1, ended: true });
    const hasty = worldAt(3);
    expect(hasty.act(act("stop"))).toMatchObject({ valid: true, reward: 0, ended: true });
    expect(hasty.act(act("move", [7, 1])).valid).toBe(false);
    expect(hasty.solve()).toEqual([]);
  });

  test("two blocks of one shape that have traded places are not solved", () => {
    const state = golden[0]!.state as { target_blocks: JsonObject };
    const blocks = state.target_blocks as Record<string, JsonObject>;
    const traded = {
      ...blocks,
      "7": { ...blocks["7"], position: blocks["8"]!.position! },
      "8": { ...blocks["8"], position: blocks["7"]!.position! },
    };
    const world = worldAt(0);
    world.load({ ...golden[0]!.state, current_blocks: traded });
    expect(world.act(act("stop")).reward).toBe(0);
    world.load({ ...golden[0]!.state, current_blocks: blocks });
    expect(world.act(act("stop")).reward).toBe(1);
  });

  test("a seed decides the target, whatever was played before, and hardly any episode starts solved", () => {
    const used = worldAt(5, hard);
    wander(used, 1, 20);
    used.reset(2 ** 40 + 7);
    expect(used.save()).toEqual(worldAt(2 ** 40 + 7, hard).save());
    const solved = Array.from({ length: 200 }, (_, seed) => worldAt(seed).solve().length === 1);
    expect(solved.filter(Boolean).length).toBeLessThanOrEqual(4);
  });
});

describe("plans", () => {
  test("the oracle succeeds from fresh boards, easy and hard", () => {
    for (let seed = 0; seed < 20; seed++) {
      playsOut(worldAt(seed, easy));
      playsOut(worldAt(seed, hard));
    }
  });

  test("the oracle succeeds after 60 random slides", () => {
    for (let seed = 0; seed < 10; seed++) {
      const world = worldAt(seed, hard);
      wander(world, seed, 60);
      playsOut(world);
    }
  });

  test("a plan is no longer than the walk that led there, and its reverse is as short", () => {
    const start = Uint8Array.from(BLOCKS, ({ start: [row, column] }) => row * 4 + column);
    const end = start.slice();
    end[6] = 17; // block 7 one to the right, block 5 down into its cell
    end[4] = 12;
    expect(shortestSlides(start, end)).toEqual([
      { index: 6, direction: 1 },
      { index: 4, direction: 2 },
    ]);
    expect(shortestSlides(end, start)).toHaveLength(2);
    expect(shortestSlides(start, start)).toEqual([]);
  });
});

describe("states", () => {
  test("a loaded save has the same picture and the same future", () => {
    const world = worldAt(4);
    wander(world, 4, 7);
    const copy = worldAt(9);
    copy.load(JSON.parse(JSON.stringify(world.save())));
    expect(frame(copy).hash).toBe(frame(world).hash);
    expect(copy.solve()).toEqual(world.solve());
    expect(copy.save()).toEqual(world.save());
  });

  test.each([
    ["an empty object", {}, "current_blocks"],
    ["a missing block", { current_blocks: { "1": { position: [0, 1] } } }, "current_blocks.2"],
    ["a block off the board", { current_blocks: { "1": { position: [4, 1] } } }, "current_blocks.1"],
    ["an unknown block", { current_blocks: { "11": { position: [0, 1] } } }, "11"],
    ["a wrong size", { current_blocks: { "1": { size: [1, 1], position: [0, 1] } } }, "current_blocks.1.size"],
    ["overlapping blocks", { current_blocks: { "1": { position: [0, 1] }, "2": { position: [0, 1] } } }, "overlaps"],
    ["a wrong flag", { stopped: 1 }, "stopped"],
  ])("%s is refused with the field that is wrong, and nothing changes", (_, state, field) => {
    const world = worldAt(0);
    const before = world.save();
    expect(() => world.load(state)).toThrow(field);
    expect(world.save()).toEqual(before);
  });
});

describe("pictures", () => {
  test("the frame has VisGym's size, and colours and outlines where VisGym has them", () => {
    const world = worldAt(0);
    expect([frame(world).width, frame(world).height]).toEqual([420, 290]);
    expect(pixel(world, 70, 60)).toEqual([255, 0, 0]);
    expect(pixel(world, 240, 60)).toEqual([0, 0, 255]);
    expect(pixel(world, 110, 150)).toEqual([0, 255, 0]);
    expect(pixel(world, 230, 250)).toEqual([255, 255, 0]);
    expect([197, 198, 199, 200, 219, 220, 221, 222].map((x) => pixel(world, x, 65)[2])).toEqual([
      255, 0, 0, 255, 255, 0, 0, 255,
    ]);
    expect([148, 149, 150, 151, 152].map((x) => pixel(world, x, 65)[2])).toEqual([0, 0, 0, 0, 255]);
  });

  test("a frame depends on the state alone", () => {
    const world = worldAt(1);
    const before = frame(world);
    world.act(act("move", [7, 1]));
    expect(frame(world).hash).not.toBe(before.hash);
    world.act(act("move", [7, 3]));
    expect(frame(world).hash).toBe(before.hash);
  });

  test("small boards leave out titles and lie on the pixel grid", () => {
    const world = worldAt(0, { shuffleMoves: 30, cellSize: 16 });
    expect([frame(world).width, frame(world).height]).toEqual([9 * 16, 5 * 16]);
    expect(pixel(world, 5 * 16, 0)).toEqual([0, 0, 0]);
    const tiny = worldAt(0, { shuffleMoves: 30, cellSize: 4 });
    expect(pixel(tiny, 7, 1)).toEqual([255, 0, 0]);
  });
});

test("the definition has VisGym's difficulties and turn limits", () => {
  expect(slidingBlock.difficulties).toEqual({ easy: { shuffleMoves: 30 }, hard: { shuffleMoves: 90 } });
  expect(slidingBlock.maxTurns).toEqual({ easy: 20, hard: 30 });
});
