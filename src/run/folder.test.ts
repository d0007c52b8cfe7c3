import { spawn } from "node:child_process";
import { cp, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ConfigError, type DataError } from "../core/errors.ts";
import { PythonRandom } from "../core/random-python.ts";
import { loadEvents, series } from "./events.ts";
import { openRun, type RunFolder } from "./folder.ts";
import { readFrameBytes } from "./frames.ts";
import { listRuns } from "./list.ts";
import { readManifest } from "./manifest.ts";
import { record, testImage, weights, withFolder } from "./test-run.ts";
import { readTrajectories, trajectorySteps } from "./trajectories.ts";

const JITI = join(import.meta.dirname, "../../node_modules/jiti/lib/jiti-cli.mjs");

const options = { config: { seed: 1, optimizer: { learningRate: 0.1 } } };

async function trainSteps(run: RunFolder, from: number, to: number, saveEvery = 2): Promise<void> {
  for (let step = from; step <= to; step++) {
    run.log("train", step, { "train/success": step / 10 });
    const episodes = [0, 1, 2, 3].map((sibling) => record(step, sibling));
    run.keep(
      step,
      episodes,
      (episode) => episode,
      ({ sibling }) => [testImage(sibling)],
    );
    if (step % saveEvery === 0) {
      await run.saveCheckpoint(step, weights(step), { position: step });
      await run.checkpoints.offerBest(step, step === 2 ? 1 : 0.5, "eval/success");
    }
  }
}

/** What a killed process leaves: files as they are, the lock of a process that is gone. */
async function abandon(run: RunFolder): Promise<void> {
  await run.flush();
  await run.events.close();
  await writeFile(join(run.path, "run.lock"), JSON.stringify({ pid: 2 ** 30, started: null, token: "" }));
}

async function filesUnder(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

test.each([1, 2 ** 20])(
  "of a budget of %i bytes, frames that are not stored are counted and said once",
  async (maxBytes) => {
    await withFolder(async (folder) => {
      const run = await openRun(folder, { ...options, frames: { maxBytes } });
      await run.begin();
      await trainSteps(run, 1, 2);
      const dropped = maxBytes === 1 ? 3 : 0;
      const said = run.lossNote();
      expect(run.lossNote()).toBeUndefined();
      await trainSteps(run, 3, 4);
      await run.close("finished");
      const { events } = await loadEvents(folder);
      expect(said ?? "").toMatch(
        dropped > 0 ? /^3 frames were not stored so far: the byte budget.*frameBudgetMB/ : /^$/,
      );
      expect(events.at(-1)?.metrics).toMatchObject({ "log/frames_dropped": dropped, "log/frames": 3 - dropped });
      expect(events.filter(({ kind }) => kind === "note")).toEqual([]);
    });
  },
);

test("frames that are lost at the very end are said too", async () => {
  await withFolder(async (folder) => {
    const run = await openRun(folder, { ...options, frames: { maxBytes: 1 } });
    await run.begin();
    await trainSteps(run, 1, 1);
    await run.close("finished");
    const notes = (await loadEvents(folder)).events.filter(({ kind }) => kind === "note");
    expect(notes.map(({ message }) => message)).toEqual([expect.stringMatching(/^3 frames were not stored/)]);
  });
});

test("a run is created, written, closed and read back", async () => {
  await withFolder(async (folder) => {
    const run = await openRun(folder, { ...options, seeds: { train: [0, 99] }, versions: { saccade: "1.2.3" } });
    expect(await run.begin()).toBeUndefined();
    expect(run.notes).toEqual([]);
    await trainSteps(run, 1, 4);
    expect(run.counts).toMatchObject({ "log/frames": 3, "log/frames_dropped": 0, "log/trajectories_unkept": 4 });
    await run.close("finished");
    const { manifest } = await readManifest(folder);
    expect(manifest).toMatchObject({ status: "finished", step: 4, seeds: { train: [0, 99] }, ...options });
    expect(manifest?.versions).toMatchObject({ saccade: "1.2.3", node: process.version });
    const { events } = await loadEvents(folder);
    expect(events.map(({ kind }) => kind).join(" ")).toBe("start train train checkpoint train train checkpoint end");
    expect((await readTrajectories(folder, 3)).map(({ sibling, kept }) => `${sibling} ${kept}`)).toEqual([
      "3 best",
      "2 median",
      "0 worst",
    ]);
    expect((await readdir(folder)).sort()).toEqual([
      "checkpoints",
      "events.jsonl",
      "frames",
      "run.json",
      "trajectories",
    ]);
  });
});

test.runIf(process.platform !== "win32")(
  "episodes, frames, events and settings are for the user alone to read",
  async () => {
    await withFolder(async (folder) => {
      const run = await openRun(folder, options);
      await trainSteps(run, 1, 2);
      await run.close("finished");
      const entries = await readdir(folder, { recursive: true, withFileTypes: true });
      const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
      // Weights are for whoever may serve them.
      const own = files.filter((file) => !file.includes("checkpoints"));
      expect(own.length).toBeGreaterThan(5);
      for (const file of own) expect([file, (await stat(file)).mode & 0o777]).toEqual([file, 0o600]);
    });
  },
);

test("a killed run goes on from its checkpoint, and steps played again count once", async () => {
  await withFolder(async (folder) => {
    const first = await openRun(folder, options);
    await first.begin();
    await trainSteps(first, 1, 5);
    await abandon(first);
    expect((await listRuns(folder))[0]).toMatchObject({ status: "interrupted", step: 5, bestStep: 2 });

    const second = await openRun(folder, { config: { seed: 1, optimizer: { learningRate: 0.2 } } });
    const checkpoint = await second.begin();
    expect(checkpoint).toMatchObject({ step: 4, state: { position: 4 } });
    expect(second.notes).toEqual(["The configuration changed: optimizer.learningRate was 0.1, is 0.2."]);
    expect(await trajectorySteps(folder)).toEqual([1, 2, 3, 4]);
    await trainSteps(second, 5, 6);
    await second.close("stopped", "Ctrl-C");

    const { events, missing } = await loadEvents(folder);
    expect(missing).toEqual([]);
    expect(events.filter(({ kind }) => kind === "train").map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(events.filter(({ kind }) => kind === "checkpoint").map(({ step }) => step)).toEqual([2, 4, 6]);
    expect(series(events, "train/success")).toHaveLength(6);
    expect((await listRuns(folder))[0]).toMatchObject({ status: "stopped", message: "Ctrl-C", step: 6 });
    expect((await readManifest(folder)).manifest?.resumes).toMatchObject([{ changed: ["optimizer.learningRate"] }]);
  });
});

test("a run killed before its first checkpoint starts anew, and nothing of before counts", async () => {
  await withFolder(async (folder) => {
    const first = await openRun(folder, options);
    await first.begin();
    await trainSteps(first, 1, 2, 100);
    await abandon(first);
    const second = await openRun(folder, options);
    expect(await second.begin()).toBeUndefined();
    await second.close("stopped");
    expect((await loadEvents(folder)).events.map(({ kind }) => kind)).toEqual(["resume", "end"]);
    expect(await trajectorySteps(folder)).toEqual([]);
  });
});

describe("opening is refused", () => {
  test("while another process writes, and allowed once it closed", async () => {
    await withFolder(async (folder) => {
      const run = await openRun(folder, options);
      await expect(openRun(folder, options)).rejects.toThrow(`Process ${process.pid} is writing`);
      await run.close("finished");
      await (await openRun(folder, options)).close("finished");
    });
  });

  test("for a folder that holds something else, no run to resume, or a run where a new one was asked for", async () => {
    await withFolder(async (folder) => {
      const inside = join(folder, "run");
      await (await openRun(inside, options)).close("finished");
      await expect(openRun(inside, { ...options, mode: "new" })).rejects.toThrow("already");
      await expect(openRun(folder, options)).rejects.toThrow("other files (run)");
      await expect(openRun(join(folder, "none"), { ...options, mode: "resume" })).rejects.toThrow(ConfigError);
      expect((await readdir(folder)).sort()).toEqual(["none", "run"]);
      expect(await readdir(join(folder, "none"))).toEqual([]);
    });
  });
});

test("a misspelt metric is refused when it is logged", async () => {
  await withFolder(async (folder) => {
    const run = await openRun(folder, options);
    expect(() => run.log("train", 1, { "train/sucess": 1 })).toThrow("no metric");
    await run.close("finished");
  });
});

test("whatever file is cut, wherever: the folder opens, goes on from a whole checkpoint, and says what is missing", async () => {
  await withFolder(async (root) => {
    const whole = join(root, "whole");
    const run = await openRun(whole, options);
    await run.begin();
    await trainSteps(run, 1, 7);
    await abandon(run);
    const random = new PythonRandom(4);
    for (const path of await filesUnder(whole)) {
      const name = path.slice(whole.length + 1);
      const { size } = await stat(path);
      for (const cut of [0, random.randrange(size), random.randrange(size)]) {
        const copy = join(root, "copy");
        await rm(copy, { recursive: true, force: true });
        await cp(whole, copy, { recursive: true });
        await truncate(join(copy, name), cut);

        const said = [...(await listRuns(root)).flatMap(({ missing }) => missing)];
        for (const step of await trajectorySteps(copy)) await readTrajectories(copy, step, said);
        for (const frame of await readdir(join(copy, "frames"))) {
          await readFrameBytes(copy, frame.slice(0, -4)).catch((error: DataError) => said.push(error.message));
        }
        const again = await openRun(copy, options);
        const checkpoint = await again.begin();
        const step = checkpoint?.step ?? 0;
        expect([6, 4], name).toContain(step);
        expect(await readFile(join(checkpoint!.path, "model.bin"), "utf8")).toContain(`weights of ${step} `);
        said.push(...again.notes);

        // Not noticed, because nothing is lost: the lock, a last newline, whole lines cut off after the checkpoint.
        const text = (await readFile(path)).subarray(0, cut).toString("latin1");
        const lineCut = name.endsWith(".jsonl") && (cut === 0 || text.endsWith("\n") || text.endsWith("}"));
        const harmless = name === "run.lock" || cut >= size - 1 || lineCut;
        if (!harmless || (name === "events.jsonl" && cut === 0)) expect(said, `${name} cut at ${cut}`).not.toEqual([]);

        await trainSteps(again, step + 1, 8);
        await again.close("finished");
        const { missing } = await loadEvents(copy);
        expect(missing).toEqual([]);
        expect((await again.checkpoints.latest())?.step).toBe(8);
      }
    }
  });
});

test("a process killed at any instant leaves all it said was saved, whole", async () => {
  await withFolder(async (folder) => {
    const random = new PythonRandom(1);
    const writer = join(import.meta.dirname, "test-writer.ts");
    let reported = 0;
    for (let round = 0; round < 6; round++) {
      const child = spawn(process.execPath, [JITI, writer, folder], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const stopAfter = random.randrange(1, 12);
      let printed = "";
      child.stdout.on("data", (data: Buffer) => {
        printed += data.toString();
        // After a different number of turns of the event loop each time, so that the kill falls into different places of a save.
        let wait = random.randrange(20);
        const kill = () => (wait-- > 0 ? setImmediate(kill) : child.kill("SIGKILL"));
        if (printed.split("\n").length > stopAfter) kill();
      });
      await new Promise((resolve) => child.once("close", resolve));
      expect(child.signalCode).toBe("SIGKILL");
      reported = Number(printed.trim().split("\n").at(-1));

      const run = await openRun(folder, { config: { seed: 1 } });
      const checkpoint = await run.begin();
      expect(checkpoint!.step).toBeGreaterThanOrEqual(reported);
      expect(checkpoint).toMatchObject({ state: { position: checkpoint!.step } });
      expect(checkpoint!.note).toBeUndefined();
      await run.close("stopped");
      const { events, missing } = await loadEvents(folder);
      expect(missing).toEqual([]);
      const steps = events.filter(({ kind }) => kind === "train").map(({ step }) => step);
      expect(steps).toEqual(Array.from({ length: checkpoint!.step }, (_, i) => i + 1));
      for (const step of steps) {
        const rows = await readTrajectories(folder, step);
        expect(rows).toHaveLength(3);
      }
      const leftovers = (await filesUnder(folder)).filter((path) => path.includes(".tmp-") || path.includes(".old-"));
      expect(leftovers).toEqual([]);
    }
    expect(reported).toBeGreaterThan(6);
  });
});
