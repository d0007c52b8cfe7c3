/** Demonstrations that are used several times. */
import { expect, test } from "vitest";
import type { PlannedEpisode } from "./data.ts";
import { DemoCache } from "./demo-cache.ts";
import type { DemoEpisode, Demos } from "./demo-player.ts";
import type { Imitated } from "./taught-decisions.ts";

const FRAME = { data: new Uint8Array(100) };

/** Plays nothing, notes what was asked, and names each sequence after its seed. */
function recorder() {
  const asked: number[][] = [];
  const demos: Demos = {
    async play(episodes: readonly DemoEpisode[]) {
      asked.push(episodes.map(({ seed }) => seed));
      return episodes.map(({ seed }, at) => ({
        sequence: { id: seed, images: [{ image: FRAME }] } as never,
        decisions: [],
        at,
      }));
    },
    close: async () => {},
  };
  return { demos, asked };
}

const episode = (id: string, seed: number, uses?: number): PlannedEpisode => ({
  env: { id, options: {} },
  label: id,
  seed,
  epoch: 0,
  ...(uses !== undefined && { uses }),
});
const named = (all: readonly Imitated[]) => all.map(({ sequence, label }) => [label, (sequence as { id?: number }).id]);

test("plays a demonstration once for all its uses, in the order that was asked for, and forgets it after the last", async () => {
  const { demos, asked } = recorder();
  const cache = new DemoCache(demos);
  const [once, twice] = [episode("quick", 1), episode("slow", 2, 2)];
  expect(named(await cache.play([twice, once]))).toEqual([
    ["slow", 2],
    ["quick", 1],
  ]);
  expect(cache.size).toBe(1);
  expect(named(await cache.play([once, twice]))).toEqual([
    ["quick", 1],
    ["slow", 2],
  ]);
  expect(cache.size).toBe(0);
  expect(asked).toEqual([[2, 1], [1]]);
});

test("a batch that is asked for while another plays the same demonstration waits for it", async () => {
  const { demos, asked } = recorder();
  const cache = new DemoCache(demos);
  const batches = await Promise.all([cache.play([episode("slow", 3, 3)]), cache.play([episode("slow", 3, 3)])]);
  expect(batches.map(named)).toEqual([[["slow", 3]], [["slow", 3]]]);
  expect(asked).toEqual([[3]]);
});

test("what there is no room for is played again, the oldest first, and room that was freed is used", async () => {
  const { demos, asked } = recorder();
  const cache = new DemoCache(demos, 250);
  const play = (seed: number, uses = 3) => cache.play([episode("slow", seed, uses)]);
  await play(1);
  await play(2, 2);
  await play(3);
  expect(cache.size).toBe(2);
  // The first made room for the third; the second is used up, so the first has room again.
  await play(2);
  await play(1);
  await play(3);
  expect(asked).toEqual([[1], [2], [3], [1]]);
  expect(cache.size).toBe(2);
});

test("who asked meets the error of the one that plays", async () => {
  const cache = new DemoCache({ play: () => Promise.reject(new Error("no world")), close: async () => {} });
  await expect(cache.play([episode("slow", 1, 2)])).rejects.toThrow("no world");
  await expect(cache.play([episode("slow", 1, 2)])).rejects.toThrow("no world");
});
