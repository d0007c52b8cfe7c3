import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Image, type Json } from "../../src/core/index.ts";
import { encodePng } from "../../src/images/index.ts";
import { difference, goldenFrame, playRecorded, type Recorded, recorded } from "../shared/test-replay.ts";
import { chooseFrames, type VideoUnshuffle, videoUnshuffle } from "./video-unshuffle.ts";

const make = (given: object = {}) => videoUnshuffle.create(videoUnshuffle.options.parse(given)) as VideoUnshuffle;
type State = { video_id: string; label: string; shuffled_order: number[]; frame_positions: number[] };

describe.each([
  ["easy", 4],
  ["hard", 5],
  ["easy_distinct", 4],
])("VisGym's recorded %s episodes", (name, frames) => {
  const episodes = recorded<Recorded<{ order: number[] }>>(`video_unshuffle_${name}`);

  test.each(episodes)("seed $seed ($mode) replays action by action", async (episode) => {
    const world = make({ frames });
    world.load(episode.state);
    expect(world.task("full", "image")).toContain(`"${episode.state.label}"`);
    for (const step of episode.steps) {
      if (step.raises !== undefined) continue;
      const { reward, terminated, ok, feedback_kind } = step;
      const played = await playRecorded(world, step.action);
      expect({ ...played, feedback_kind: "" }, step.action).toEqual({ reward, terminated, ok, feedback_kind: "" });
      // The original has words of its own for payloads that do not fit.
      expect(played.feedback_kind).toBe(feedback_kind === "world" ? "payload" : feedback_kind);
      expect(((await world.save()) as State).shuffled_order).toEqual(step.order);
    }
  });
});

/** A folder in the data set's form whose frames are the given images. */
function folderOf(videos: Record<string, { label: string; frames: Image[] }>): string {
  const root = mkdtempSync(join(tmpdir(), "saccade-films-"));
  mkdirSync(join(root, "labels"));
  const labels = Object.entries(videos).map(([id, { label }]) => ({ id, label, template: "", placeholders: [] }));
  writeFileSync(join(root, "labels", "train.json"), JSON.stringify([...labels, { id: "../up", label: "no" }]));
  for (const [id, { frames }] of Object.entries(videos)) {
    mkdirSync(join(root, "frames", id), { recursive: true });
    frames.forEach((frame, i) => {
      writeFileSync(join(root, "frames", id, `${String(i).padStart(5, "0")}.png`), encodePng(frame));
    });
  }
  return root;
}
const flat = (grey: number) => new Image(8, 8, new Uint8Array(192).fill(grey));

describe("a user's folder of frames", () => {
  const tiles = goldenFrame("video_unshuffle_easy_0_t0");
  const slot = (i: number) => {
    const bytes = new Uint8Array(224 * 224 * 3);
    for (let y = 0; y < 224; y++)
      bytes.set(tiles.data.subarray((y * 896 + i * 224) * 3, (y * 896 + i * 224 + 224) * 3), y * 672);
    return new Image(224, 224, bytes);
  };

  test("two recorded moves lead from VisGym's first frame to its third", async () => {
    const [episode] = recorded<Recorded<object>>("video_unshuffle_easy");
    const state = episode!.state as unknown as State;
    const frames: Image[] = [];
    state.shuffled_order.forEach((id, at) => {
      frames[id - 1] = slot(at);
    });
    const world = make({ folder: folderOf({ 102: { label: state.label, frames } }) });
    world.load({ ...state, frame_positions: [0, 1, 2, 3] });
    expect(difference((await world.observe("image")) as Image, tiles)).toBeLessThan(1);
    for (const { action } of episode!.steps.slice(0, 2)) await playRecorded(world, action);
    expect(difference((await world.observe("image")) as Image, goldenFrame("video_unshuffle_easy_0_t2"))).toBeLessThan(
      1,
    );
  });

  test("videos are chosen by seed alone, labels come from the list", async () => {
    const frames = [0, 60, 120, 180, 240].map(flat);
    const folder = folderOf({ 7: { label: "getting brighter", frames }, 12: { label: "getting light", frames } });
    const world = make({ folder, tile: 32, sampling: "uniform" });
    const ids = new Set<string>();
    for (let seed = 0; seed < 20; seed++) {
      world.reset(seed);
      const { video_id, label, frame_positions } = (await world.save()) as State;
      ids.add(video_id);
      expect(label).toBe(video_id === "7" ? "getting brighter" : "getting light");
      expect(frame_positions).toEqual([0, 1, 2, 3]);
    }
    expect(ids).toEqual(new Set(["7", "12"]));
  });

  test("a folder without frames, and a video that is not there, are refused with what to do", () => {
    expect(() => make({ folder: folderOf({}) })).toThrow("ffmpeg");
    expect(() => make({ folder: join(tmpdir(), "nowhere") })).toThrow("labels/train.json");
    const world = make();
    world.load({ video_id: "102", shuffled_order: [1, 2, 3, 4] });
    expect(() => world.task("brief", "image")).toThrow('"folder"');
  });
});

describe("video_unshuffle", () => {
  const film = (greys: number[]) => ({
    label: "",
    length: greys.length,
    frame: (i: number) => flat(greys[i]!),
    glance: (i: number) => flat(greys[i]!),
  });
  const settings = { minDifference: 0.15, maxFrames: 100 };
  const ramp = Array.from({ length: 36 }, (_, i) => i * 7);

  test.each([
    ["uniform", 4, ramp, [7, 14, 21, 28]],
    ["uniform", 5, ramp, [5, 11, 17, 23, 29]],
    // 0.15 of 255 is a little more than five steps of 7.
    ["salient", 4, ramp, [0, 6, 12, 18]],
    ["salient", 4, Array.from({ length: 36 }, () => 9), [7, 14, 21, 28]],
    ["distinct", 4, ramp, [0, 17, 26, 35]],
    ["distinct", 3, [0, 0, 0, 90, 0, 255, 0], [0, 3, 5]],
  ] as const)("%s sampling of %i frames", async (sampling, frames, greys, expected) => {
    expect(await chooseFrames(film([...greys]), { ...settings, sampling, frames })).toEqual(expected);
  });

  test("a picture stands until the order changes, and is that of the order however it was reached", async () => {
    const world = make({ tile: 32 });
    world.reset(3);
    const swap = async (...slots: number[]) => {
      world.act({ name: "swap", payload: slots });
      return (await world.observe("image")) as Image;
    };
    const first = await world.observe("image");
    expect(await swap(2, 2)).toBe(first);
    const other = await swap(1, 2);
    expect(other.hash).not.toBe((first as Image).hash);
    expect((await swap(2, 1)).hash).toBe((first as Image).hash);
    world.load(await world.save());
    expect(((await world.observe("image")) as Image).hash).toBe((first as Image).hash);
    world.reset(4);
    expect(((await world.observe("image")) as Image).hash).not.toBe((first as Image).hash);
  });

  test("our clips show frames that all differ, in the order of time", async () => {
    for (const sampling of ["salient", "distinct"]) {
      const world = make({ frames: 5, sampling, tile: 64 });
      for (let seed = 0; seed < 6; seed++) {
        world.reset(seed);
        const state = (await world.save()) as State;
        expect(state.frame_positions).toEqual([...new Set(state.frame_positions)].sort((a, b) => a - b));
        expect(state.label.length).toBeGreaterThan(8);
      }
    }
  });

  test.each(["swap", "reorder"] as const)("the oracle that uses %s succeeds from any order", (solver) => {
    const world = make({ frames: 5, solver });
    for (let seed = 0; seed < 60; seed++) {
      world.reset(seed);
      let reward = 0;
      for (const action of world.solve()) ({ reward } = world.act(action));
      expect(reward).toBe(1);
    }
  });

  test.each([
    [{ shuffled_order: [0, 1, 2, 3] }, /shuffled_order must hold the numbers 1 to 4/],
    [{ frame_positions: [1] }, /frame_positions/],
    [{ video_id: 3 }, /video_id/],
  ])("a state with %j is refused by name", async (wrong, message) => {
    const world = make({ tile: 32 });
    const state = (await world.save()) as object;
    expect(() => world.load({ ...state, ...wrong } as Json)).toThrow(message);
  });
});
