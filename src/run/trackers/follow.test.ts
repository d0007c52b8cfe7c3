/** What trackers are told of a run: everything once, also over a kill, and nothing that a dead server can hold up. */
import { readdir, readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { expect, test } from "vitest";
import { loadEvents } from "../events.ts";
import { openRun } from "../folder.ts";
import { record, testImage, withFolder } from "../test-run.ts";
import { Follower, LiveTrackers } from "./follow.ts";
import { openTrackers } from "./open.ts";
import { metricTable, toCsv, toParquet } from "./table.ts";
import type { Tracked, Tracker } from "./tracker.ts";

/** Keeps what it hears; `failing` makes it refuse. */
class Listener implements Tracker {
  readonly label = "a listener";
  readonly heard: Tracked[] = [];
  closed: string | undefined;
  failing = false;

  async open() {
    return {};
  }

  async write(items: readonly Tracked[]) {
    if (this.failing) throw new Error("no room");
    this.heard.push(...items);
  }

  async close(status: string) {
    this.closed = status;
  }

  get successes(): number[] {
    return this.heard.flatMap(({ values }) =>
      values.flatMap((value) => (value.tag === "train/success" && "scalar" in value ? [value.scalar] : [])),
    );
  }
}

const open = (folder: string) => openRun(folder, { config: { seed: 1, optimizer: { learningRate: 0.1 } } });

test("a tracker hears every event once, over calls, failures and a new process", () =>
  withFolder(async (folder) => {
    const run = await open(folder);
    await run.begin();
    const first = new Listener();
    const follower = new Follower(folder, first, { cursor: "test" });
    run.log("train", 1, { "train/success": 0.1 });
    await run.events.flush();
    await follower.catchUp();
    run.log("train", 2, { "train/success": 0.2 });
    run.log("alarm", 2, {}, { message: "the policy is blind" });
    await run.events.flush();
    first.failing = true;
    await expect(follower.catchUp()).rejects.toThrow("no room");
    first.failing = false;
    await follower.catchUp();
    await follower.catchUp();
    expect(first.successes).toEqual([0.1, 0.2]);
    expect(first.heard.flatMap(({ values }) => values)).toContainEqual({
      tag: "text/alarm",
      text: "the policy is blind",
    });
    run.log("train", 3, { "train/success": 0.3 });
    await run.close("finished");
    const second = new Listener();
    await new Follower(folder, second, { cursor: "test" }).catchUp();
    expect(second.successes).toEqual([0.3]);
  }));

test("a resumed run makes void what comes after its checkpoint, and keeps the checkpoint's step", () =>
  withFolder(async (folder) => {
    const first = await open(folder);
    await first.begin();
    for (const step of [1, 2, 3]) {
      first.log("train", step, { "train/success": step });
      if (step === 2) await first.saveCheckpoint(2, async () => {}, {});
    }
    await first.close("stopped");
    const second = await open(folder);
    await second.begin();
    await second.close("finished");
    const listener = new Listener();
    await new Follower(folder, listener).catchUp();
    expect(listener.heard.filter(({ restart }) => restart).map(({ step }) => step)).toEqual([3]);
  }));

test("an evaluation brings strips of its episodes and what was said in them", () =>
  withFolder(async (folder) => {
    const run = await open(folder);
    await run.begin();
    const episodes = [0, 1].map((sibling) => record(1, sibling, { split: "eval", group: `maze#${sibling}` }));
    run.keep(
      1,
      episodes,
      (episode) => episode,
      ({ sibling }) => [testImage(sibling)],
    );
    run.log("eval", 1, { "eval/success": 0.5 }, { data: { rewards: [[0, 3]] } });
    await run.close("finished");
    const listener = new Listener();
    await new Follower(folder, listener).catchUp();
    const values = listener.heard.flatMap(({ values }) => values);
    const strip = values.find((value) => "png" in value);
    expect(strip).toMatchObject({ tag: "episodes/0", width: 16, height: 16 });
    expect(values).toContainEqual(
      expect.objectContaining({ tag: "episodes/0/text", text: expect.stringContaining("<action>left</action>") }),
    );
    expect(values).toContainEqual(
      expect.objectContaining({ tag: "rewards", histogram: expect.objectContaining({ count: 3 }) }),
    );
  }));

/** A server that answers as told, or never. */
async function serving(answer: "refuse" | "hang"): Promise<{ server: Server; url: string }> {
  const server = createServer((_, response) => {
    if (answer === "refuse") response.writeHead(503).end("down for repairs");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test.each(["refuse", "hang"] as const)(
  "a server that %ss is named once, and TensorBoard still hears",
  async (answer) => {
    const { server, url } = await serving(answer);
    try {
      await withFolder(async (folder) => {
        const run = await open(folder);
        await run.begin();
        const problems: string[] = [];
        const trackers = openTrackers(["tensorboard", { name: "mlflow", url, experiment: "e" }]);
        const live = new LiveTrackers(folder, trackers, (problem) => problems.push(problem), 5);
        for (let step = 1; step <= 20; step++) run.log("train", step, { "train/success": step / 20 });
        await run.close("finished");
        server.closeAllConnections();
        if (answer === "hang") server.close();
        await live.close("finished");
        expect(problems).toEqual([expect.stringMatching(/MLflow at .* does not take this run's metrics/)]);
        const [name] = await readdir(join(folder, "tensorboard"));
        const bytes = await readFile(join(folder, "tensorboard", name ?? ""));
        expect(bytes.toString("latin1").split("train/success")).toHaveLength(21);
      });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  },
);

test("the end of a run waits for a server that hangs as long as it was told to, and no longer", async () => {
  const { server, url } = await serving("hang");
  try {
    await withFolder(async (folder) => {
      const run = await open(folder);
      await run.begin();
      const problems: string[] = [];
      const trackers = openTrackers([{ name: "mlflow", url, experiment: "e" }]);
      const live = new LiveTrackers(folder, trackers, (problem) => problems.push(problem), 60_000);
      run.log("train", 1, { "train/success": 1 });
      await run.close("finished");
      await live.close("finished", 50);
      expect(problems).toEqual([expect.stringContaining("no answer within 50 ms at the end of the run")]);
    });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("a table has a row for each event with metrics, as CSV and as Parquet", () =>
  withFolder(async (folder) => {
    const run = await open(folder);
    await run.begin();
    run.log("train", 1, { "train/success": 0.25 });
    run.log("note", 1, {}, { message: "no metrics" });
    run.log("train", 2, { "train/reward": Number.NaN });
    await run.close("finished");
    const { events } = await loadEvents(folder);
    const table = metricTable(events.filter(({ kind }) => kind !== "end"));
    const [head, first, second] = toCsv(table).split("\n");
    expect(head).toBe("step,time,kind,train/reward,train/success");
    expect(first).toMatch(/^1,\d{4}-.*Z,train,,0.25$/);
    expect(second).toMatch(/^2,.*,train,NaN,$/);
    const bytes = await toParquet(table);
    const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
    expect(await parquetReadObjects({ file })).toMatchObject([
      { step: 1, kind: "train", "train/success": 0.25 },
      { step: 2, kind: "train", "train/reward": Number.NaN },
    ]);
  }));
