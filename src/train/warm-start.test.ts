/** The warm start: what it plays and what it hands to the learner. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import * as core from "../core/index.ts";
import type { Datum, Learner } from "../engine/engine.ts";
import * as envs from "../envs/index.ts";
import { shareModule } from "../envs/load.ts";
import * as images from "../images/index.ts";
import { type ChatModel, chatModel, loadChat } from "../model/chat.ts";
import { createFolder } from "../model/folder.ts";
import { testModel } from "../rollout/test-model.ts";
import { openData } from "./data.ts";
import { DemoPlayer } from "./demo-player.ts";
import type { Recipe, RecipeInput } from "./recipe.ts";
import { signalsEnv, tinyRecipe } from "./test-run.ts";
import { warmStart } from "./warm-start.ts";

/** Runs a warm start over a learner that learns nothing, and gives the batches it was handed. */
async function batches(
  changes: Partial<RecipeInput>,
  model: ChatModel = testModel,
  folder = "none",
  signal?: AbortSignal,
): Promise<Datum[][]> {
  const recipe = tinyRecipe("none", changes);
  const seen: Datum[][] = [];
  const policy = {
    async forwardBackward(data: readonly Datum[]) {
      seen.push([...data]);
      return { loss: 1, metrics: {}, outputs: data.map(({ targets }) => new Float32Array(targets.length)) };
    },
    step: async () => ({ gradNorm: 1, applied: true }),
  } as unknown as Learner;
  const plan = recipe.warmStart as NonNullable<Recipe["warmStart"]>;
  const done = await warmStart({
    recipe,
    plan,
    data: await openData(recipe),
    model,
    folder,
    policy,
    from: 0,
    ...(signal && { signal }),
    onUpdate: async () => {},
    onStop: async () => {},
  });
  expect(done).toBe(signal?.aborted !== true);
  return seen;
}

const optimizer = { learningRate: 0.001 };

test("split turns are imitated as they are played: a sequence per turn, its own reply alone carrying loss", async () => {
  const changes = { envs: [signalsEnv(3)], warmStart: { episodes: 4, batch: 2, optimizer } };
  const joined = await batches(changes);
  const split = await batches({ ...changes, turns: "split", history: 1 });
  expect(joined.map((batch) => batch.length)).toEqual([2, 2]);
  expect(split.map((batch) => batch.length)).toEqual([6, 6]);
  const shownImages = (batch: readonly Datum[]) => batch.map(({ input }) => input.images.length);
  expect(shownImages(joined[0] as Datum[])).toEqual([3, 3]);
  // The first turn, one before the present, the present.
  expect(shownImages(split[0] as Datum[])).toEqual([1, 2, 3, 1, 2, 3]);
  const trained = (batch: readonly Datum[]) =>
    batch.reduce((sum, { weights }) => sum + weights.filter((weight) => weight > 0).length, 0);
  expect(trained(split[0] as Datum[])).toBe(trained(joined[0] as Datum[]));
});

test("a mixture is imitated in the proportions of its weights, as it is played", async () => {
  const envs = [
    { ...signalsEnv(1), weight: 3 },
    { ...signalsEnv(2), weight: 1 },
  ];
  const seen = (await batches({ envs, warmStart: { episodes: 64, batch: 8, optimizer } })).flat();
  const short = seen.filter(({ input }) => input.images.length === 1).length;
  expect(seen).toHaveLength(64);
  // 48 are expected; half of them, as without weights, would be five standard deviations away.
  expect(short).toBeGreaterThan(40);
  expect(short).toBeLessThan(57);
});

test("noise begins after its share of the episodes; before, the oracle plays", async () => {
  const changes = { envs: [signalsEnv(3)] };
  const taught = async (more: object) =>
    (await batches({ ...changes, warmStart: { episodes: 8, batch: 4, optimizer, ...more } })).map((batch) =>
      batch.map(({ targets }) => [...targets]),
    );
  const [clean, noisy] = [await taught({}), await taught({ noise: 1 })];
  expect(noisy[0]).not.toEqual(clean[0]);
  expect(noisy[1]).not.toEqual(clean[1]);
  expect(await taught({ noise: 1, noiseAfter: 0.5 })).toEqual([clean[0], noisy[1]]);
});

test("different worlds play at once, and their demonstrations come in the order that was asked for", async () => {
  shareModule("saccade", { ...core, ...images, ...envs });
  const root = await mkdtemp(join(tmpdir(), "saccade-at-once-"));
  const file = join(root, "world.ts");
  // Each waits in reset until the other is there, as in a browser; one after the other they would wait for ever.
  await writeFile(
    file,
    `import { act, bare, defineWorld, Image, z } from "saccade";
const here = new Set(); let met = () => {}; const both = new Promise((go) => { met = go; });
export default defineWorld({
  id: "meeting", summary: "meeting", options: z.strictObject({ who: z.string() }), protocol: "keyword", maxTurns: 1,
  create: ({ who }) => ({
    actions: [bare(who, who)], reset() { here.add(who); if (here.size === 2) met(); return both; },
    act: () => ({ valid: true, reward: 1, ended: true }), observe: () => new Image(32, 32, new Uint8Array(3072)),
    task: () => "Go.", success: () => true, solve: () => [act(who)],
  }),
});
`,
  );
  const episodes = ["one", "two", "two", "one"].map((who, seed) => ({ env: { id: file, options: { who } }, seed }));
  const player = new DemoPlayer(testModel, {
    noise: { probability: 0, labels: "played" },
    layout: { contextTokens: 4096 },
  });
  const said = (await player.play(episodes)).map(({ sequence, at }) => [
    at,
    /one|two/.exec(
      Array.from(sequence.ids, (id) => testModel.textOf(id))
        .join("")
        .split("assistant")
        .at(-1) ?? "",
    )?.[0],
  ]);
  await player.close();
  await rm(root, { recursive: true, force: true });
  expect(said).toEqual([
    [0, "one"],
    [1, "two"],
    [2, "two"],
    [3, "one"],
  ]);
});

test("threads play what the main thread plays: the same ids, weights and images, as the model sees them", async () => {
  const folder = await mkdtemp(join(tmpdir(), "saccade-demos-"));
  try {
    await createFolder(folder, { preset: "nano" });
    const chat = await loadChat(folder);
    // Its frames of 225 × 225 are resized.
    const envs = [{ env: "maze_2d/easy", options: { maxTurns: 3 } }];
    const play = (threads: number, more = {}) =>
      batches(
        {
          envs,
          warmStart: { episodes: 10, batch: 2, noise: 0.3, threads, optimizer },
          sampling: { contextTokens: 4096 },
          ...more,
        },
        chatModel(chat),
        folder,
      );
    const views = (batches: Datum[][]) =>
      batches.flat().map(({ input }) => input.images.map(({ image }) => chat.processor.view(image).hash));
    const bare = (batches: Datum[][]) =>
      batches.map((batch) =>
        batch.map(({ input: { ids, images }, ...rest }) => ({
          ...rest,
          ids,
          images: images.map(({ image, ...span }) => ({ ...span, hash: image.hash })),
        })),
      );
    const [here, there] = [await play(0), await play(2)];
    expect(here).toHaveLength(5);
    expect(bare(there)).toEqual(bare(here));
    expect(views(there)).toEqual(views(here));
    await expect(play(2, { sampling: { contextTokens: 64 } })).rejects.toThrow(/the context has 64/);
  } finally {
    await rm(folder, { recursive: true });
  }
}, 60_000);

test("worlds that were played are closed, on the main thread and on threads, and so is one that was interrupted before it began", async () => {
  shareModule("saccade", { ...core, ...images, ...envs });
  const root = await mkdtemp(join(tmpdir(), "saccade-closed-"));
  const folder = join(root, "model");
  await createFolder(folder, { preset: "nano" });
  const model = chatModel(await loadChat(folder));
  const file = join(root, "world.ts");
  const note = join(root, "closed");
  await writeFile(
    file,
    `import { appendFileSync } from "node:fs";
import { act, bare, defineWorld, Image, z } from "saccade";
export default defineWorld({
  id: "closing", summary: "closing", options: z.strictObject({}), protocol: "keyword", maxTurns: 2,
  create: () => ({
    actions: [bare("go", "go")], reset() {}, act: () => ({ valid: true, reward: 1, ended: true }),
    observe: () => new Image(32, 32, new Uint8Array(3072)), task: () => "Go.", success: () => true, solve: () => [act("go")],
    close() { appendFileSync(${JSON.stringify(note)}, "closed\\n"); },
  }),
});
`,
  );
  const closed = async () => (await readFile(note, "utf8").catch(() => "")).split("\n").length - 1;
  const plan = { episodes: 8, batch: 4, optimizer };
  const played = [{ env: file, options: {} }];
  await batches({ envs: played, warmStart: plan }, model, folder);
  expect(await closed()).toBe(1);
  await batches({ envs: played, warmStart: { ...plan, threads: 2 } }, model, folder);
  expect(await closed()).toBe(3);
  // Nobody waits for its first batch; an error of it would be nobody's.
  await batches({ envs: played, warmStart: { ...plan, threads: 2 } }, model, folder, AbortSignal.abort());
  await rm(root, { recursive: true, force: true });
});
