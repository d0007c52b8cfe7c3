/** One writer per run folder, whoever comes at the same time. */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isLocked, LOCK_FILE, lockRun } from "./lock.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "saccade-lock-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

test.each([
  ["no lock", undefined],
  ["the lock of a process that is gone", JSON.stringify({ pid: 2 ** 30, started: null, token: "old" })],
  ["a lock that was cut off while it was written", '{"pid": 12'],
])("of many who find %s at once, one gets it, and its lock alone is left", async (_, before) => {
  for (let round = 0; round < 20; round++) {
    if (before !== undefined) await writeFile(join(folder, LOCK_FILE), before);
    const all = await Promise.allSettled(Array.from({ length: 6 }, () => lockRun(folder)));
    const held = all.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    expect(held).toHaveLength(1);
    for (const one of all) if (one.status === "rejected") expect(String(one.reason)).toContain("is writing to");
    expect(await readdir(folder)).toEqual([LOCK_FILE]);
    expect(JSON.parse(await readFile(join(folder, LOCK_FILE), "utf8"))).toMatchObject({ pid: process.pid });
    expect(await isLocked(folder)).toBe(true);
    await held[0]?.();
    expect(await readdir(folder)).toEqual([]);
  }
});
