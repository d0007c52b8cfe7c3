import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openRun } from "./folder.ts";
import { deleteRun, listRuns } from "./list.ts";
import { changeNotes, NO_NOTES, NOTES_FILE, readNotes } from "./notes.ts";
import { withFolder } from "./test-run.ts";

const madeRun = async (root: string, name: string) => {
  const path = join(root, name);
  await (await openRun(path, { config: {} })).close("finished");
  return path;
};

test("notes are changed field by field, survive in the run folder and are listed with the run", async () => {
  await withFolder(async (root) => {
    const path = await madeRun(root, "one");
    expect(await readNotes(path)).toEqual(NO_NOTES);
    await changeNotes(path, { tags: ["baseline", " lr ", "lr", ""], star: true });
    await changeNotes(path, { note: "first that learned" });
    const whole = { tags: ["baseline", "lr"], note: "first that learned", star: true, archived: false };
    expect(JSON.parse(await readFile(join(path, NOTES_FILE), "utf8"))).toEqual(whole);
    expect((await listRuns(root))[0]?.notes).toEqual(whole);
    // A run that goes on does not mind the file.
    await (await openRun(path, { config: {}, mode: "resume" })).close("finished");
    expect(await readNotes(path)).toEqual(whole);
  });
});

test("notes can be changed while the run is being written", async () => {
  await withFolder(async (root) => {
    const run = await openRun(join(root, "live"), { config: {} });
    await changeNotes(run.path, { star: true });
    run.log("train", 1, {});
    await run.close("finished");
    expect(await readNotes(run.path)).toMatchObject({ star: true });
  });
});

test("a damaged file counts as no notes, and wrong fields as missing", async () => {
  await withFolder(async (root) => {
    const path = await madeRun(root, "one");
    await writeFile(join(path, NOTES_FILE), '{"tags": ["a"');
    expect(await readNotes(path)).toEqual(NO_NOTES);
    await writeFile(join(path, NOTES_FILE), '{"tags": ["a", 3], "note": 7, "star": "yes", "archived": true}');
    expect(await readNotes(path)).toEqual({ tags: ["a"], note: "", star: false, archived: true });
  });
});

test("tags of two words, tags without end, and folders without a run are refused", async () => {
  await withFolder(async (root) => {
    const path = await madeRun(root, "one");
    await expect(changeNotes(path, { tags: ["two words"] })).rejects.toThrow("A tag is one word");
    await expect(changeNotes(path, { tags: ["a,b"] })).rejects.toThrow("without a comma");
    await expect(changeNotes(path, { tags: ["x".repeat(41)] })).rejects.toThrow("40 characters");
    await expect(changeNotes(path, { note: "x".repeat(10_001) })).rejects.toThrow("10000 characters");
    await expect(changeNotes(root, { star: true })).rejects.toThrow("is not a run folder");
    expect(await readNotes(path)).toEqual(NO_NOTES);
  });
});

test("deleting removes a run whole, and refuses other folders and runs that are being written", async () => {
  await withFolder(async (root) => {
    const gone = await madeRun(root, "gone");
    await madeRun(root, "kept");
    const live = await openRun(join(root, "live"), { config: {} });
    await expect(deleteRun(root)).rejects.toThrow("nothing was deleted");
    await expect(deleteRun(live.path)).rejects.toThrow("stop it first");
    await deleteRun(gone);
    expect(await readdir(root)).toEqual(["kept", "live"]);
    await live.close("finished");
  });
});

test("what a killed deletion left behind is not listed as a run", async () => {
  await withFolder(async (root) => {
    await madeRun(root, ".tmp-1-0-half");
    expect(await listRuns(root)).toEqual([]);
  });
});
