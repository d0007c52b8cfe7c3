import { appendFile, mkdir, readdir, readFile, rename, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { DataError } from "../core/errors.ts";
import { CheckpointStore } from "./checkpoints.ts";
import { weights, withFolder } from "./test-run.ts";

async function withStore(keep: number, body: (store: CheckpointStore, folder: string) => Promise<void>): Promise<void> {
  await withFolder((folder) => {
    const store = new CheckpointStore(folder, { keep });
    return body(store, store.folder);
  });
}

test("a saved checkpoint comes back with its files and state", async () => {
  await withStore(2, async (store) => {
    expect(await store.latest()).toBeUndefined();
    const nested = async (folder: string) => {
      await weights(5)(folder);
      await mkdir(join(folder, "critic"));
      await writeFile(join(folder, "critic", "model.bin"), "critic");
    };
    await store.save(5, nested, { random: [1, 2], position: 40 });
    const found = await store.latest();
    expect(found).toMatchObject({ step: 5, state: { random: [1, 2], position: 40 } });
    expect(found?.note).toBeUndefined();
    expect(await readFile(join(found!.path, "critic", "model.bin"), "utf8")).toBe("critic");
  });
});

test("the last K and the best stay, the others go", async () => {
  await withStore(2, async (store, folder) => {
    for (const [step, score] of [0.1, 0.9, 0.3, 0.4, 0.9].entries()) {
      await store.save(step, weights(step));
      expect(await store.offerBest(step, score, "eval/success")).toBe(step < 2);
    }
    expect(await readdir(folder)).toEqual(["best.json", "latest.json", "step-1", "step-3", "step-4"]);
    expect(await store.best()).toMatchObject({ step: 1, score: 0.9, metric: "eval/success" });
    expect(await store.offerBest(4, Number.NaN, "eval/success")).toBe(false);
    await expect(store.offerBest(9, 1, "eval/success")).rejects.toThrow("Save it first");
  });
});

test("a best of another evaluation is not compared: the new one takes its place, however low", async () => {
  await withStore(2, async (store) => {
    await store.save(1, weights(1));
    expect(await store.offerBest(1, 0.9, "eval/success", "seeds 0 to 63")).toBe(true);
    await store.save(2, weights(2));
    expect(await store.offerBest(2, 0.4, "eval/success", "seeds 0 to 63")).toBe(false);
    expect(await store.offerBest(2, 0.4, "eval/success", "seeds 0 to 255")).toBe(true);
    await store.save(3, weights(3));
    expect(await store.offerBest(3, 0.3, "eval/success", "seeds 0 to 255")).toBe(false);
    expect(await store.best()).toMatchObject({ step: 2, score: 0.4, evaluation: "seeds 0 to 255" });
  });
});

test("a run taken back to an earlier step keeps what it saves now", async () => {
  await withStore(2, async (store, folder) => {
    for (const [age, step] of [20, 30].entries()) {
      await store.save(step, weights(step));
      const path = join(folder, `step-${step}`, "checkpoint.json");
      await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, "utf8")), saved: 1000 + age }));
    }
    await store.save(12, weights(12));
    expect((await store.latest())?.step).toBe(12);
    expect(await store.steps()).toEqual([12, 30]);
  });
});

test("a checkpoint whose making failed leaves no trace", async () => {
  await withStore(2, async (store, folder) => {
    await store.save(1, weights(1));
    const failing = async (path: string) => {
      await weights(2)(path);
      throw new Error("disk full");
    };
    await expect(store.save(2, failing)).rejects.toThrow("disk full");
    expect(await readdir(folder)).toEqual(["latest.json", "step-1"]);
  });
});

describe("a process killed while it saved step 2", () => {
  const started = async (store: CheckpointStore) => {
    await store.save(1, weights(1));
  };

  test("in the middle of its files: the half-made folder is ignored, then removed", async () => {
    await withStore(2, async (store, folder) => {
      await started(store);
      await mkdir(join(folder, ".tmp-77-0-step-2"));
      await writeFile(join(folder, ".tmp-77-0-step-2", "model.bin"), "half");
      await writeFile(join(folder, ".tmp-77-1-latest.json"), '{"st');
      expect(await store.latest()).toMatchObject({ step: 1 });
      expect((await store.recover()).join()).toContain("2 half-made");
      expect(await readdir(folder)).toEqual(["latest.json", "step-1"]);
      expect(await store.recover()).toEqual([]);
    });
  });

  test("before the pointer moved: it goes on from step 1, and saves step 2 again", async () => {
    await withStore(2, async (store, folder) => {
      await started(store);
      const pointer = await readFile(join(folder, "latest.json"));
      await store.save(2, weights(2));
      await writeFile(join(folder, "latest.json"), pointer);
      expect(await store.latest()).toMatchObject({ step: 1 });
      expect((await store.latest())?.note).toBeUndefined();
      await store.save(2, weights(22));
      expect(await readFile(join((await store.latest())!.path, "model.bin"), "utf8")).toContain("weights of 22");
      expect(await readdir(folder)).toEqual(["latest.json", "step-1", "step-2"]);
    });
  });

  test("while an earlier step 2 stood aside: it is put back", async () => {
    await withStore(2, async (store, folder) => {
      await store.save(2, weights(2));
      await rename(join(folder, "step-2"), join(folder, ".old-step-2"));
      expect((await store.recover()).join()).toContain("put back");
      expect(await store.latest()).toMatchObject({ step: 2 });
    });
  });

  test("before the very first pointer: the whole checkpoint is found, and it says so", async () => {
    await withStore(2, async (store, folder) => {
      await started(store);
      await rm(join(folder, "latest.json"));
      expect(await store.latest()).toMatchObject({ step: 1, note: expect.stringContaining("latest.json is missing") });
    });
  });
});

describe("a damaged checkpoint", () => {
  test.each(["model.bin", "optimizer.bin", "checkpoint.json"])(
    "with %s cut anywhere gives way to the one before",
    async (name) => {
      await withStore(3, async (store, folder) => {
        for (const step of [1, 2, 3]) await store.save(step, weights(step));
        const path = join(folder, "step-3", name);
        const { size } = await stat(path);
        for (const cut of [size - 3, size >> 1, 1, 0]) {
          await truncate(path, cut);
          const found = await store.latest();
          expect(found?.step).toBe(2);
          expect(found?.note).toMatch(/^Continuing from step-2: step-3: /);
          expect(found?.note).toContain(name);
        }
        await rm(path);
        expect((await store.latest())?.note).toContain(`${name} is missing`);
        await appendFile(join(folder, "step-2", "model.bin"), "more");
        expect((await store.latest())?.step).toBe(1);
      });
    },
  );

  test("pointed to by a damaged pointer is still found", async () => {
    await withStore(2, async (store, folder) => {
      for (const step of [9, 10]) await store.save(step, weights(step));
      await truncate(join(folder, "latest.json"), 4);
      expect(await store.latest()).toMatchObject({ step: 10, note: expect.stringContaining("latest.json is damaged") });
      await rm(join(folder, "step-10"), { recursive: true });
      await writeFile(join(folder, "latest.json"), '{"step":10}');
      expect(await store.latest()).toMatchObject({ step: 9, note: expect.stringContaining("is missing") });
    });
  });

  test("that is the only one is an error that says so, not a silent start from nothing", async () => {
    await withStore(2, async (store, folder) => {
      await store.save(1, weights(1));
      await truncate(join(folder, "step-1", "model.bin"), 7);
      await expect(store.latest()).rejects.toThrow(DataError);
      await expect(store.latest()).rejects.toThrow("model.bin has 7 bytes instead of");
    });
  });
});
