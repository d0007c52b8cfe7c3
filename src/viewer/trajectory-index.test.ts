import { appendFile, readdir, readFile, readlink, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { withFolder } from "../run/test-run.ts";
import { writeRun, writeStep } from "./test-viewer.ts";
import { TrajectoryIndex } from "./trajectory-index.ts";

async function contents(run: string) {
  const index = await TrajectoryIndex.open(run);
  try {
    await index.refresh(true);
    return await everything(index);
  } finally {
    await index.close();
  }
}

async function everything(index: TrajectoryIndex) {
  const rows = [...index.rows()];
  const records = await Promise.all(rows.map(({ key }) => index.record(key)));
  const found = await Promise.all(
    ["left", "nicht", "maze#900"].map(async (text) => [...(await index.search(text))].sort()),
  );
  return { rows, records, found, missing: index.missing };
}

/** Files under a folder that this process has open. */
async function openFiles(folder: string): Promise<string[]> {
  const numbers = await readdir("/proc/self/fd");
  const names = await Promise.all(numbers.map((number) => readlink(`/proc/self/fd/${number}`).catch(() => "")));
  return names.filter((name) => name.startsWith(folder));
}

describe("the index", () => {
  test("grown step by step, closed and opened in between, is the one that is built at once", () =>
    withFolder(async (run) => {
      const writer = await writeRun(run, { steps: 1 });
      for (let step = 2; step <= 6; step++) {
        await contents(run);
        writeStep(writer, step);
        await writer.flush();
      }
      await writer.close("finished");
      const grown = await contents(run);
      await rm(join(run, ".view"), { recursive: true });
      const built = await contents(run);
      expect(grown).toEqual(built);
      expect(grown.rows).toHaveLength(27);
      expect(grown.records.every((record) => record !== undefined)).toBe(true);
      expect(grown.found.map((keys) => keys.length)).toEqual([18 + 3, 6, 3]);
    }));

  test("what a step's file gained before many newer ones came is read too", () =>
    withFolder(async (run) => {
      const writer = await writeRun(run, { steps: 1 });
      const index = await TrajectoryIndex.open(run);
      await index.refresh(true);
      const [row] = [...index.rows()].filter(({ step }) => step === 1);
      const record = await index.record(row?.key ?? "");
      if (record === undefined) throw new Error("there is no episode");
      writer.trajectories.append(1, [{ ...record, id: "late" }]);
      for (let step = 2; step <= 9; step++) writeStep(writer, step);
      await writer.flush();
      await index.refresh();
      expect([...index.rows()].filter(({ id }) => id === "late")).toHaveLength(1);
      await index.close();
      await writer.close("finished");
    }));

  test("opened again, it reads no trajectory a second time", () =>
    withFolder(async (run) => {
      await (await writeRun(run)).close("finished");
      const before = await contents(run);
      const lines = await readFile(join(run, ".view/index.jsonl"), "utf8");
      expect(await contents(run)).toEqual(before);
      expect(await readFile(join(run, ".view/index.jsonl"), "utf8")).toBe(lines);
    }));

  test("a step that was played again has only its later rows", () =>
    withFolder(async (run) => {
      await (await writeRun(run)).close("finished");
      const path = join(run, "trajectories/step-3.jsonl");
      const index = await TrajectoryIndex.open(run);
      await index.refresh(true);
      const before = await readFile(path, "utf8");
      const [first = ""] = before.split("\n");
      await rm(path);
      // Longer than the file it replaces, so that only its identity tells.
      await writeFile(path, `${first.replace("left", `jump${" ".repeat(before.length)}`)}\n`);
      expect(await index.refresh()).toEqual([3]);
      expect([...index.rows()].filter(({ step }) => step === 3)).toHaveLength(1);
      expect((await index.search("jump")).size).toBe(1);
      const grown = await everything(index);
      await index.close();
      expect(await contents(run)).toEqual(grown);
    }));

  test("a row that is there twice counts once, as its later one", () =>
    withFolder(async (run) => {
      await (await writeRun(run)).close("finished");
      const path = join(run, "trajectories/step-3.jsonl");
      const [first = ""] = (await readFile(path, "utf8")).split("\n");
      await appendFile(path, `${first.replace('"reward":0', '"reward":77')}\n`);
      const { rows } = await contents(run);
      expect(rows).toHaveLength(14);
      expect(rows.filter(({ step, reward }) => step === 3 && reward === 77)).toHaveLength(1);
    }));

  test("damaged files of the index are made anew", () =>
    withFolder(async (run) => {
      await (await writeRun(run)).close("finished");
      const whole = await contents(run);
      const harms = [
        () => truncate(join(run, ".view/text.txt"), 10),
        () => truncate(join(run, ".view/index.jsonl"), 400),
        () => writeFile(join(run, ".view/index.jsonl"), '{"format":0}\n{"other":1}\n'),
        () => writeFile(join(run, ".view/index.jsonl"), "not json\n{}\n"),
        () => rm(join(run, ".view/text.txt")),
      ];
      for (const harm of harms) {
        await harm();
        expect(await contents(run)).toEqual(whole);
      }
    }));

  test.runIf(process.platform === "linux")("an index that can't be opened leaves no file open and no lock", () =>
    withFolder(async (run) => {
      await (await writeRun(run, { steps: 1 })).close("finished");
      const before = await contents(run);
      const file = join(run, ".view", "index.jsonl");
      await appendFile(file, '{"step":1,"textEnd":0,"identity":"x","end":0}\n');
      await expect(TrajectoryIndex.open(run)).rejects.toThrow();
      expect(await openFiles(run)).toEqual([]);
      await rm(file);
      expect(await contents(run)).toEqual(before);
    }),
  );

  test("lines that are damaged in the middle or cut at the end are named, and the rest is there", () =>
    withFolder(async (run) => {
      await (await writeRun(run)).close("finished");
      const path = join(run, "trajectories/step-1.jsonl");
      const lines = (await readFile(path, "utf8")).split("\n");
      await writeFile(path, `${[lines[0], lines[1]?.slice(0, 40), lines[2]].join("\n")}\n${lines[3]?.slice(0, 50)}`);
      const { rows, missing } = await contents(run);
      expect(rows.filter(({ step }) => step === 1).map(({ sibling }) => sibling)).toEqual([0, 2]);
      expect(missing.join()).toMatch(/40 bytes at byte \d+ are not a whole line.*cut off after 50 bytes/s);
    }));

  test("a second viewer of the same run sees the same with an index of its own", () =>
    withFolder(async (run) => {
      await (await writeRun(run)).close("finished");
      const first = await TrajectoryIndex.open(run);
      await first.refresh(true);
      expect(await contents(run)).toEqual(await everything(first));
      await first.close();
    }));

  test("search finds a text wherever chunks of the file are cut, and never across two trajectories", () =>
    withFolder(async (run) => {
      await (await writeRun(run, { steps: 0 })).close("finished");
      const rows = Array.from({ length: 9 }, (_, i) => ({
        id: `e#${i}/0`,
        env: "e",
        step: 1,
        split: "train",
        temperature: 1,
        turns: [
          { observation: "", frames: [], reply: `${"x".repeat(1024 * 1024 - i)}needle${i}`, actions: [], parsed: true },
        ],
      }));
      const lines = rows.map((row) => JSON.stringify(row)).join("\n");
      await writeFile(join(run, "trajectories/step-1.jsonl"), `${lines}\n`);
      const index = await TrajectoryIndex.open(run);
      await index.refresh(true);
      expect((await index.search("NEEDLE")).size).toBe(9);
      for (let i = 0; i < 9; i++) expect((await index.search(`xneedle${i}`)).size).toBe(1);
      expect((await index.search("needle0\n\n\0e#1")).size).toBe(0);
      await index.close();
    }));
});
