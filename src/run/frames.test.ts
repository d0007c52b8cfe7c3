import { readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DataError } from "../core/errors.ts";
import { encodePng } from "../images/png.ts";
import { FrameStore, readFrame } from "./frames.ts";
import { testImage, withFolder } from "./test-run.ts";

const pngs = async (folder: string) => (await readdir(join(folder, "frames"))).sort();

async function bytesOf(folder: string): Promise<number> {
  let bytes = 0;
  for (const name of await pngs(folder)) bytes += (await stat(join(folder, "frames", name))).size;
  return bytes;
}

test("each distinct frame is stored once, and reads back pixel for pixel", async () => {
  await withFolder(async (folder) => {
    const store = await FrameStore.open(folder);
    const hashes = Array.from({ length: 60 }, (_, i) => store.put(testImage(i % 6)));
    await store.flush();
    expect(new Set(hashes).size).toBe(6);
    expect(await pngs(folder)).toEqual([...new Set(hashes)].map((hash) => `${hash}.png`).sort());
    expect(store.counts).toEqual({ stored: 6, bytes: await bytesOf(folder), overBudget: 0, overBacklog: 0, failed: 0 });
    expect((await readFrame(folder, hashes[4]!))?.data).toEqual(testImage(4).data);
    expect(await readFrame(folder, testImage(99).hash)).toBeUndefined();
  });
});

test("the byte budget is never passed, also over a reopening, and each dropped frame is counted once", async () => {
  await withFolder(async (folder) => {
    const maxBytes = encodePng(testImage(1)).length * 5;
    const first = await FrameStore.open(folder, { maxBytes });
    for (let i = 0; i < 3; i++) first.put(testImage(i));
    await first.flush();
    const second = await FrameStore.open(folder, { maxBytes });
    for (let round = 0; round < 2; round++) for (let i = 0; i < 20; i++) second.put(testImage(i));
    await second.flush();
    for (let i = 0; i < 20; i++) second.put(testImage(i));
    await second.flush();
    const { stored, bytes, overBudget } = second.counts;
    expect(bytes).toBe(await bytesOf(folder));
    expect(bytes).toBeLessThanOrEqual(maxBytes);
    expect(stored).toBe((await pngs(folder)).length);
    expect(stored).toBeGreaterThanOrEqual(4);
    expect(overBudget).toBe(20 - stored);
  });
});

test("a backlog beyond its bound drops frames instead of holding their memory", async () => {
  await withFolder(async (folder) => {
    const store = await FrameStore.open(folder, { maxPendingBytes: 3 * 16 * 16 * 3 });
    for (let i = 0; i < 10; i++) store.put(testImage(i));
    expect(store.counts.overBacklog).toBe(7);
    await store.flush();
    for (let i = 3; i < 6; i++) store.put(testImage(i));
    await store.flush();
    expect(store.counts).toMatchObject({ stored: 6, overBacklog: 4 });
  });
});

test("a frame damaged on disk is reported when read, and written again when it is seen again", async () => {
  await withFolder(async (folder) => {
    const image = testImage(7);
    const path = join(folder, "frames", `${image.hash}.png`);
    const first = await FrameStore.open(folder);
    first.put(image);
    await first.flush();
    const { size } = await stat(path);
    for (const cut of [0, 5, size >> 1, size - 1]) {
      await truncate(path, cut);
      await expect(readFrame(folder, image.hash)).rejects.toThrow(DataError);
      const store = await FrameStore.open(folder);
      store.put(image);
      await store.flush();
      expect((await readFrame(folder, image.hash))?.data).toEqual(image.data);
      expect(store.counts.bytes).toBe(size);
    }
  });
});

test("half-written files of a killed process are removed at opening", async () => {
  await withFolder(async (folder) => {
    await FrameStore.open(folder);
    await writeFile(join(folder, "frames", ".tmp-1-0-abc.png"), "half");
    await FrameStore.open(folder);
    expect(await pngs(folder)).toEqual([]);
  });
});

test("a disk that refuses stops nothing and is counted", async () => {
  await withFolder(async (folder) => {
    const store = await FrameStore.open(folder);
    await rm(join(folder, "frames"), { recursive: true });
    store.put(testImage(1));
    await store.flush();
    expect(store.counts).toMatchObject({ stored: 0, bytes: 0, failed: 1 });
    expect(store.problem).toContain("ENOENT");
  });
});

test("a name that is no hash reads nothing", async () => {
  await withFolder(async (folder) => {
    await writeFile(join(folder, "secret.png"), await readFile(import.meta.filename));
    await expect(readFrame(folder, "../secret")).rejects.toThrow("32 hexadecimal digits");
  });
});
