import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { countingScene } from "../shared/scenes/index.ts";
import { difference, goldenFrame, PHOTOS, playRecorded, type Recorded, recorded } from "../shared/test-replay.ts";
import { type Counting, counting } from "./counting.ts";

const make = (given: object = {}) => counting.create(counting.options.parse(given)) as Counting;
const lvis = { annotations: join(import.meta.dirname, "golden/counting_annotations.json"), folder: PHOTOS };
type State = {
  file_name: string;
  category_name: string;
  true_count: number;
  marks: [number, number][];
  guess: number | null;
};
type Step = { guess: number | null; dots: [number, number][] };
type Episode = Recorded<Step> & { centers: [number, number][]; n_samples: number };

const SIZES: Record<string, [number, number]> = {
  "pic0.png": [256, 192],
  "pic1.png": [255, 191],
  "pic2.png": [240, 200],
  "pic3.png": [300, 180],
  "pic4.png": [224, 224],
  "pic5.png": [320, 170],
};

describe.each([
  ["easy", 2, 20],
  ["hard", 5, 30],
])("VisGym's recorded %s episodes", (difficulty, minCount, maxCount) => {
  const episodes = recorded<Episode>(`counting_${difficulty}`);

  test.each(episodes)("seed $seed ($mode) replays action by action", async (episode) => {
    const world = make({ ...lvis, minCount, maxCount });
    world.load(episode.state);
    const [width, height] = SIZES[String(episode.state.file_name)]!;
    for (const step of episode.steps) {
      if (step.raises !== undefined) continue;
      const { reward, terminated, ok, feedback_kind } = step;
      expect(await playRecorded(world, step.action), step.action).toEqual({ reward, terminated, ok, feedback_kind });
      const { guess, marks } = world.save() as State;
      expect(guess).toBe(step.guess);
      expect(marks.map(([x, y]) => [Math.trunc(x * (width - 1)), Math.trunc(y * (height - 1))])).toEqual(step.dots);
    }
  });

  test("annotations give VisGym's samples, and centres within a quarter of a pixel", async () => {
    const world = make({ ...lvis, minCount, maxCount, solverMarks: 100 });
    const seen = new Set<string>();
    for (let seed = 0; seed < 200; seed++) {
      world.reset(seed);
      const { file_name, category_name, true_count } = world.save() as State;
      seen.add(file_name);
      const known = episodes.find(({ state }) => state.file_name === file_name);
      if (known !== undefined) expect(known.state).toMatchObject({ category_name, true_count });
    }
    expect(seen.size).toBe(episodes[0]?.n_samples);
    for (const { state, centers } of episodes) {
      world.load(state);
      const [width, height] = SIZES[String(state.file_name)]!;
      const plan = await world.solve();
      const marks = plan.filter(({ name }) => name === "mark").map(({ payload }) => payload as [number, number]);
      expect(marks).toHaveLength(centers.length);
      centers.forEach(([x, y], i) => {
        const [mx, my] = marks[i]!;
        expect(Math.abs(Math.trunc(mx * (width - 1)) - x)).toBeLessThan(1.3);
        expect(Math.abs(Math.trunc(my * (height - 1)) - y)).toBeLessThan(1.3);
      });
    }
  });
});

describe("counting", () => {
  test("frames are VisGym's, before and after two actions", async () => {
    const [episode] = recorded<Episode>("counting_easy");
    const world = make({ ...lvis, maxCount: 20 });
    world.load(episode!.state);
    expect(difference((await world.observe("image")) as Image, goldenFrame("counting_easy_0_t0"))).toBe(0);
    for (const { action } of episode!.steps.slice(0, 2)) await playRecorded(world, action);
    expect(difference((await world.observe("image")) as Image, goldenFrame("counting_easy_0_t2"))).toBeLessThan(0.2);
  });

  test("a second look that sees nothing but the id buffer counts the same", () => {
    const world = make({ minCount: 2, maxCount: 30 });
    for (let seed = 0; seed < 40; seed++) {
      world.reset(seed);
      const { category_name, true_count } = world.save() as State;
      const scene = countingScene(seed, category_name, true_count, { width: 320, height: 240 });
      const pixels = new Set(scene.ids);
      const kinds = scene.objects.filter(({ id, kind }) => pixels.has(id) && kind === category_name);
      expect(kinds).toHaveLength(true_count);
    }
  }, 120_000);

  test("the last guess counts, without one nothing is earned, dots never matter", async () => {
    const world = make();
    const { true_count } = world.save() as State;
    expect(await world.act(act("stop"))).toMatchObject({ reward: 0, ended: true });
    world.reset(0);
    for (const action of [act("guess", 0), act("mark", [0.5, 0.5]), act("undo"), act("undo"), act("guess", true_count)])
      expect(await world.act(action)).toMatchObject({ valid: true });
    expect(await world.act(act("stop"))).toMatchObject({ reward: 1, ended: true });
  });

  test.each([
    ["mark_all", 100, (count: number) => count + 2],
    ["mark_all", 3, (count: number) => Math.min(3, count) + 2],
    ["guess_only", 100, () => 2],
  ] as const)("the oracle (%s, %i marks) asked every turn", async (solver, solverMarks, length) => {
    const world = make({ solver, solverMarks, size: [160, 120] });
    for (let seed = 0; seed < 10; seed++) {
      world.reset(seed);
      let [turns, reward] = [0, 0];
      for (let [next] = await world.solve(); next !== undefined; [next] = await world.solve()) {
        ({ reward } = world.act(next));
        turns += 1;
      }
      expect([turns, reward]).toEqual([length((world.save() as State).true_count), 1]);
    }
  });

  test("there is an end to dots: a hundred", async () => {
    const world = make({ size: [160, 120] });
    for (let i = 0; i < 100; i++) expect(await world.act(act("mark", [0.5, i / 100]))).toMatchObject({ valid: true });
    expect(await world.act(act("mark", [0, 0]))).toMatchObject({ valid: false, reward: 0, ended: false });
    await world.act(act("undo"));
    expect(await world.act(act("mark", [0, 0]))).toMatchObject({ valid: true });
  });

  test("the text view lists what is there, so that it can be counted; kinds can be chosen", () => {
    const world = make({ kinds: ["sheep"], size: [160, 120] });
    world.reset(5);
    const text = String(world.observe("text"));
    expect(text.match(/^sheep \(/gm)).toHaveLength((world.save() as State).true_count);
    expect(text).toMatch(/dots: none\nguess: none$/);
    expect(() => make({ kinds: ["tree"] })).toThrow("sheep");
  });

  test("things have places", () => {
    const world = make({ kinds: ["cow"], size: [160, 120] });
    expect(world.facts().filter(({ subject }) => subject.endsWith("cow"))).toHaveLength(
      (world.save() as State).true_count,
    );
  });

  test.each([
    [{ marks: [[2, 0]] }, /marks/],
    [{ true_count: 1.5 }, /true_count/],
    [{ guess: "many" }, /guess/],
  ])("a state with %j is refused by name", (wrong, message) => {
    const world = make();
    expect(() => world.load({ ...(world.save() as object), ...wrong } as Json)).toThrow(message);
  });
});
