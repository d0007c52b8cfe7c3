import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act } from "../../src/envs/index.ts";
import { maskOf, readRows } from "../shared/scenes/coco.ts";
import { referringScene } from "../shared/scenes/index.ts";
import { readPickle } from "../shared/scenes/pickle.ts";
import { lookFor } from "../shared/scenes/test-look.ts";
import { difference, goldenFrame, PHOTOS, playRecorded, type Recorded, recorded } from "../shared/test-replay.ts";
import { type ReferringDotPointing, referringDotPointing } from "./referring-dot-pointing.ts";

const make = (given: object = {}) =>
  referringDotPointing.create(referringDotPointing.options.parse(given)) as ReferringDotPointing;
const coco = { folder: join(import.meta.dirname, "golden/refcoco"), images: PHOTOS };
type Episode = Recorded<{ dot: [number, number]; in_mask: boolean }> & { photo: string; description: string };
const episodes = recorded<Episode>("referring_dot_pointing_easy");
const masks = JSON.parse(readFileSync(join(coco.folder, "masks.json"), "utf8")) as {
  kept: number[];
  masks: Record<string, { w: number; h: number; area: number; runs: number[] }>;
};

describe("RefCOCO+'s form", () => {
  test.each(episodes)("VisGym's recorded seed $seed ($mode) replays action by action", async (episode) => {
    const world = make(coco);
    world.load(episode.state);
    expect(world.task("full", "image")).toContain(`"${episode.description}"`);
    for (const step of episode.steps) {
      if (step.raises !== undefined) continue;
      const { reward, terminated, ok, feedback_kind } = step;
      expect(await playRecorded(world, step.action), step.action).toEqual({ reward, terminated, ok, feedback_kind });
      // Whether the dot is right is told by a copy that stops here.
      const copy = make(coco);
      copy.load({ ...(world.save() as object), stopped: false } as Json);
      expect(copy.act(act("stop")).reward).toBe(step.in_mask ? 1 : 0);
    }
  });

  test("the pickle's expressions with polygons are VisGym's, and masks differ by no more than their rims", () => {
    const world = make(coco);
    const seen = new Set<number>();
    for (let seed = 0; seed < 400; seed++) {
      world.reset(seed);
      seen.add((world.save() as { ref_id: number }).ref_id);
    }
    expect([...seen].sort((a, b) => a - b)).toEqual(masks.kept);
    const polygons = new Map<number, Json | undefined>();
    readRows(`${coco.folder}/instances.json`, ["annotations"], (_, row) =>
      polygons.set(Number(row.id), row.segmentation),
    );
    const rows = readPickle(readFileSync(`${coco.folder}/refs(unc).p`)) as { ref_id: number; ann_id: number }[];
    for (const { ref_id, ann_id } of rows.filter((row) => masks.kept.includes(row.ref_id))) {
      const { w, h, area, runs } = masks.masks[ref_id]!;
      const theirs = new Uint8Array(w * h);
      let at = 0;
      runs.forEach((length, i) => {
        if (i % 2 === 1) theirs.fill(1, at, at + length);
        at += length;
      });
      const ours = maskOf(polygons.get(ann_id), w, h);
      const wrong = ours.reduce((sum, inside, i) => sum + Math.abs(inside - theirs[i]!), 0);
      expect(wrong, `expression ${ref_id}`).toBeLessThanOrEqual(2 + Math.sqrt(area));
    }
  });

  test("the same list as JSON does as well; a folder with neither is refused", () => {
    const folder = mkdtempSync(join(tmpdir(), "saccade-refs-"));
    cpSync(coco.folder, folder, { recursive: true });
    rmSync(join(folder, "refs(unc).p"));
    const world = make({ ...coco, folder });
    world.load({ ref_id: 7003, sentence_idx: 1 });
    expect(world.task("brief", "image")).toContain("small ball");
    rmSync(join(folder, "refs.json"));
    expect(() => make({ ...coco, folder })).toThrow("refs(unc).p");
  });

  test("frames are VisGym's, before and after two dots", async () => {
    const world = make(coco);
    world.load(episodes[0]!.state);
    expect(difference((await world.observe("image")) as Image, goldenFrame("referring_dot_pointing_easy_0_t0"))).toBe(
      0,
    );
    for (const { action } of episodes[0]!.steps.slice(0, 2)) await playRecorded(world, action);
    const after = goldenFrame("referring_dot_pointing_easy_0_t2");
    expect(difference((await world.observe("image")) as Image, after)).toBeLessThan(0.2);
  });
});

describe("referring_dot_pointing", () => {
  test("a second look that sees only the id buffer and the things' looks finds the same pixels", () => {
    const world = make({ size: [128, 96] });
    for (let seed = 0; seed < 60; seed++) {
      world.reset(seed);
      const { scene, phrase } = referringScene(seed, { width: 128, height: 96 });
      expect(world.task("brief", "image")).toContain(phrase);
      const fitting = lookFor(phrase, scene);
      expect(fitting, phrase).toHaveLength(1);
      const at = scene.ids.indexOf(fitting[0]!);
      world.act(act("mark", [Math.min(1, ((at % 128) + 0.5) / 127), Math.min(1, (Math.floor(at / 128) + 0.5) / 95)]));
      expect(world.act(act("stop")).reward).toBe(1);
    }
  });

  test("a dot elsewhere, and none, earn nothing; with acceptAnyOfKind any of the kind will do", () => {
    const size = [128, 96];
    let others = 0;
    for (let seed = 0; seed < 30; seed++) {
      const { scene, target } = referringScene(seed, { width: 128, height: 96 });
      const other = scene.objects.find(
        ({ kind, id, pixels }) => kind === target.kind && id !== target.id && pixels > 20,
      );
      if (other === undefined) continue;
      others += 1;
      const at = scene.ids.indexOf(other.id);
      const place = [Math.min(1, ((at % 128) + 0.5) / 127), Math.min(1, (Math.floor(at / 128) + 0.5) / 95)];
      for (const acceptAnyOfKind of [false, true]) {
        const world = make({ size, acceptAnyOfKind });
        world.reset(seed);
        world.act(act("mark", place));
        expect(world.act(act("stop")).reward).toBe(acceptAnyOfKind ? 1 : 0);
      }
    }
    expect(others).toBeGreaterThan(5);
    expect(make({ size }).act(act("stop")).reward).toBe(0);
  });

  test("the oracle in two decimals succeeds, and stops after it mended a dot that was put elsewhere", () => {
    const world = make({ size: [128, 96], solverSteps: 1, solverDecimals: 2 });
    for (let seed = 0; seed < 20; seed++) {
      world.reset(seed);
      const [mark] = world.solve();
      expect(JSON.stringify(mark?.payload)).toMatch(/^\[[\d.]{1,6},[\d.]{1,6}\]$/);
      world.act(act("mark", [0, 0]));
      const [again, stop] = world.solve();
      if (again?.name === "mark") world.act(again);
      expect(world.solve()).toEqual([stop ?? act("stop")]);
      expect(world.act(act("stop")).reward, `seed ${seed}`).toBe(1);
    }
  });

  test.each([1, 3, 6])("the oracle, asked every turn, takes %i dots", (solverSteps) => {
    const world = make({ size: [128, 96], solverSteps });
    for (let seed = 0; seed < 20; seed++) {
      world.reset(seed);
      let [turns, reward] = [0, 0];
      for (let [next] = world.solve(); next !== undefined; [next] = world.solve()) {
        ({ reward } = world.act(next));
        turns += 1;
      }
      expect([turns, reward]).toEqual([solverSteps + 1, 1]);
    }
  });

  test("the text view lists things with their looks and places; things have places", () => {
    const world = make({ size: [128, 96] });
    world.reset(1);
    expect(String(world.observe("text"))).toMatch(
      /^(.+ \(.+, \d+ pixels high\) at \(\d\.\d\d, \d\.\d\d\)\n)+dot: none$/,
    );
    expect(world.facts().length).toBeGreaterThanOrEqual(4);
  });

  test.each([
    [{ ref_id: null }, /ref_id/],
    [{ mark: [0.5, 2] }, /mark/],
    [{ sentence_idx: -1 }, /sentence_idx/],
  ])("a state with %j is refused by name", (wrong, message) => {
    const world = make({ size: [128, 96] });
    expect(() => world.load({ ...(world.save() as object), ...wrong } as Json)).toThrow(message);
  });
});
