import { mkdir, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { openRun } from "./folder.ts";
import { listRuns } from "./list.ts";
import { differences } from "./manifest.ts";
import { withFolder } from "./test-run.ts";

afterEach(() => void vi.useRealTimers());

test("runs are listed newest first with the last value of each metric; other folders and files are not runs", async () => {
  await withFolder(async (root) => {
    await mkdir(join(root, "notes"));
    await writeFile(join(root, "readme.txt"), "hello");
    vi.useFakeTimers({ toFake: ["Date"], now: 1_000_000 });
    const old = await openRun(join(root, "old"), { config: {} });
    old.log("eval", 1, { "eval/success": 0.5 });
    old.log("train", 2, { "train/success": 0.25 });
    old.log("eval", 3, { "eval/success": 0.75 });
    await old.close("failed", "out of memory");
    const open = await openRun(join(root, "open"), { config: {} });
    vi.setSystemTime(2_000_000);
    open.log("train", 7, {});
    await open.flush();

    const runs = await listRuns(root);
    expect(runs.map(({ name, status, step }) => `${name} ${status} ${step}`)).toEqual([
      "open running 7",
      "old failed 3",
    ]);
    expect(runs[1]).toMatchObject({
      message: "out of memory",
      metrics: { "eval/success": 0.75, "train/success": 0.25 },
      missing: [],
    });
    await open.close("finished");
    expect(await listRuns(join(root, "old"))).toHaveLength(1);
    expect(await listRuns(join(root, "nowhere"))).toEqual([]);
  });
});

test("a run whose manifest is cut is still listed, and says so", async () => {
  await withFolder(async (root) => {
    const run = await openRun(join(root, "cut"), { config: {} });
    run.log("train", 4, { "train/success": 1 });
    await run.close("finished");
    await truncate(join(root, "cut", "run.json"), 40);
    const [summary] = await listRuns(root);
    expect(summary).toMatchObject({ name: "cut", status: "interrupted", step: 4, metrics: { "train/success": 1 } });
    expect(summary?.missing).toEqual(["run.json is damaged (40 characters)."]);
  });
});

test("configurations differ by value, not by the order of their fields", () => {
  const before = { a: 1, b: { c: [1, { x: 1, y: 2 }], d: null } };
  expect(differences(before, { b: { d: null, c: [1, { y: 2, x: 1 }] }, a: 1 })).toEqual([]);
  expect(differences(before, { a: 2, b: { c: [1], d: null }, e: "new" })).toEqual([
    { key: "a", before: 1, after: 2 },
    { key: "b.c", before: [1, { x: 1, y: 2 }], after: [1] },
    { key: "e", after: "new" },
  ]);
});
