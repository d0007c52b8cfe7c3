import { appendFile, readdir, readFile, stat, truncate } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { record, withFolder } from "./test-run.ts";
import {
  type KeepReason,
  keepPolicy,
  numbers,
  readTrajectories,
  type TrajectoryRecord,
  TrajectoryStore,
  trajectorySteps,
} from "./trajectories.ts";

describe("keepPolicy", () => {
  const episode = (group: string, sibling: number, reward: number, error?: string) => ({
    ...{ group, sibling, reward, success: reward >= 1 },
    ...(error !== undefined && { error }),
  });
  const kept = (result: { kept: { episode: { group: string; sibling: number }; why: KeepReason }[] }) =>
    result.kept.map(({ episode: { group, sibling }, why }) => `${group}${sibling} ${why}`);

  test("keeps best, median and worst of each group and every error, and counts the rest", () => {
    const rewards = [0.2, 1, 0, 0.5, 0.4];
    const episodes = [
      ...rewards.map((reward, i) => episode("a", i, reward)),
      episode("a", 5, 9, "the environment threw"),
      episode("b", 0, 0),
    ];
    const result = keepPolicy(episodes);
    expect(kept(result)).toEqual(["a5 error", "a1 best", "a4 median", "a2 worst", "b0 best"]);
    expect(result.dropped).toBe(2);
  });

  test("is the same whatever the order of siblings, also among equals", () => {
    const equal = [0, 1, 2, 3, 4].map((i) => episode("a", i, 1));
    expect(kept(keepPolicy(equal))).toEqual(["a0 best", "a2 median", "a4 worst"]);
    expect(kept(keepPolicy(equal.toReversed()))).toEqual(kept(keepPolicy(equal)));
  });

  test("two siblings are best and worst; limits bound groups and errors and are counted", () => {
    expect(kept(keepPolicy([episode("a", 0, 0), episode("a", 1, 1)]))).toEqual(["a1 best", "a0 worst"]);
    const many = Array.from({ length: 30 }, (_, i) => episode(`g${i}`, 0, 0, i < 10 ? "broken" : undefined));
    const result = keepPolicy(many, { maxGroups: 4, maxErrors: 3 });
    expect(kept(result).filter((line) => line.endsWith("error"))).toHaveLength(3);
    expect(kept(result).filter((line) => line.endsWith("best"))).toEqual([
      "g100 best",
      "g110 best",
      "g120 best",
      "g130 best",
    ]);
    expect(result.dropped).toBe(23);
  });
});

test("numbers read back as the same 32-bit floats, and say null where one is not finite", () => {
  const values = new Float32Array(2000);
  for (let i = 0; i < values.length; i++) values[i] = Math.sin(i * 12.9898) * 10 ** ((i % 60) - 30);
  expect(Float32Array.from(JSON.parse(JSON.stringify(numbers(values))) as number[])).toEqual(values);
  expect(numbers(Float32Array.of(0.1, Number.NaN, Number.POSITIVE_INFINITY, 0))).toEqual([0.1, null, null, 0]);
});

test("rows come back as they were given, tokens included", async () => {
  await withFolder(async (folder) => {
    const tokens: TrajectoryRecord["tokens"] = [
      {
        ids: [1, 9, 9, 5, 2],
        kinds: "piisf",
        samplerLogprobs: numbers(Float32Array.of(0, 0, 0, -0.7, 0)),
        learnerLogprobs: numbers(Float32Array.of(0, 0, 0, -0.7, 0)),
        advantages: [0, 0, 0, 1.5, 0],
        clipped: [3],
        images: [{ start: 1, length: 2, hash: "ab" }],
        replies: [{ turn: 0, start: 3, end: 4 }],
      },
    ];
    const rows = [record(3, 0, { tokens }), record(3, 1, { error: "boom", end: "env_error" })];
    const store = await TrajectoryStore.open(folder);
    store.append(3, rows.slice(0, 1));
    store.append(3, [() => rows[1]!]);
    store.append(12, [record(12, 0)]);
    await store.flush();
    expect(await readTrajectories(folder, 3)).toEqual(rows);
    expect(await trajectorySteps(folder)).toEqual([3, 12]);
  });
});

test("an evaluation played again after a crash counts once, the later time", async () => {
  await withFolder(async (folder) => {
    const store = await TrajectoryStore.open(folder);
    const evaluated = (reward: number, temperature = 1) => record(1, 0, { split: "eval", reward, temperature });
    store.append(1, [record(1, 0), evaluated(0), evaluated(0.3, 0)]);
    store.append(1, [evaluated(1)]);
    await store.flush();
    expect((await readTrajectories(folder, 1)).map(({ reward }) => reward)).toEqual([0, 1, 0.3]);
  });
});

test("a cut at every byte leaves readable rows, says what is missing, and can be appended to", async () => {
  await withFolder(async (folder) => {
    const store = await TrajectoryStore.open(folder);
    store.append(1, [record(1, 0), record(1, 1)]);
    await store.flush();
    const path = join(folder, "trajectories", "step-1.jsonl");
    const { size } = await stat(path);
    const first = (await readFile(path)).indexOf(0x0a);
    for (let cut = size - 1; cut > 0; cut -= 3) {
      await truncate(path, cut);
      const missing: string[] = [];
      const rows = await readTrajectories(folder, 1, missing);
      const whole = cut >= size - 1 ? 2 : cut >= first ? 1 : 0;
      expect(rows).toHaveLength(whole);
      expect(missing).toHaveLength([size - 1, first, first + 1].includes(cut) ? 0 : 1);
    }
    store.append(1, [record(1, 2)]);
    await store.flush();
    const missing: string[] = [];
    expect(await readTrajectories(folder, 1, missing)).toEqual([record(1, 2)]);
    expect(missing).toEqual([]);
  });
});

test("the byte budget holds over a reopening, and rows beyond it or the backlog are counted", async () => {
  await withFolder(async (folder) => {
    const bytes = Buffer.byteLength(JSON.stringify(record(1, 0))) + 1;
    const first = await TrajectoryStore.open(folder);
    first.append(1, [record(1, 0), record(1, 1)]);
    await first.flush();
    const second = await TrajectoryStore.open(folder, { maxBytes: bytes * 4, maxPending: 5 });
    second.append(
      2,
      Array.from({ length: 8 }, (_, i) => record(2, i)),
    );
    await second.flush();
    expect(second.counts).toEqual({ written: 2, bytes: bytes * 4, overBudget: 3, overBacklog: 3, failed: 0 });
    await second.discardAfter(1);
    expect(second.counts.bytes).toBe(bytes * 2);
  });
});

test("a row that can't be built is counted and harms no other", async () => {
  await withFolder(async (folder) => {
    const store = await TrajectoryStore.open(folder);
    const broken = () => {
      throw new Error("no such turn");
    };
    store.append(1, [broken, record(1, 1)]);
    await store.flush();
    expect(store.counts).toMatchObject({ written: 1, failed: 1 });
    expect(store.problem).toBe("no such turn");
  });
});

test("a resumed run removes the files of steps it plays again", async () => {
  await withFolder(async (folder) => {
    const store = await TrajectoryStore.open(folder);
    for (const step of [1, 2, 10, 11]) store.append(step, [record(step, 0)]);
    await store.discardAfter(2);
    await appendFile(join(folder, "trajectories", "notes.txt"), "mine");
    expect(await readdir(join(folder, "trajectories"))).toEqual(["notes.txt", "step-1.jsonl", "step-2.jsonl"]);
  });
});
