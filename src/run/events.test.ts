import { appendFile, readFile, stat, truncate } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { addEvent, EventWriter, loadEvents, type PlacedEvent, type RunEvent, readEvents, series } from "./events.ts";
import { tailStart } from "./jsonl.ts";
import { withFolder } from "./test-run.ts";

function train(step: number, metrics: RunEvent["metrics"] = { "train/success": step / 10 }): RunEvent {
  return { step, time: 1000 + step, kind: "train", metrics };
}

async function write(folder: string, events: readonly RunEvent[]): Promise<string> {
  const { writer } = await EventWriter.open(folder);
  for (const event of events) writer.append(event);
  await writer.close();
  return join(folder, "events.jsonl");
}

describe("the writer", () => {
  test("keeps every event in order under concurrent appends and flushes", async () => {
    await withFolder(async (folder) => {
      const { writer } = await EventWriter.open(folder);
      const flushes: Promise<void>[] = [];
      for (let step = 0; step < 500; step++) {
        writer.append(train(step));
        if (step % 7 === 0) flushes.push(writer.flush(step % 70 === 0));
        if (step % 50 === 0) await flushes.at(-1);
      }
      await Promise.all(flushes);
      await writer.close();
      const { events, missing } = await loadEvents(folder);
      expect(events.map(({ step }) => step)).toEqual(Array.from({ length: 500 }, (_, i) => i));
      expect(missing).toEqual([]);
    });
  });

  test("has written exactly `position` bytes after a flush", async () => {
    await withFolder(async (folder) => {
      const { writer } = await EventWriter.open(folder);
      for (let step = 0; step < 3; step++) {
        writer.append({ ...train(step), message: "größer 🧭" });
        await writer.flush();
        expect((await stat(join(folder, "events.jsonl"))).size).toBe(writer.position);
      }
      await writer.close();
    });
  });

  test("removes a line cut in half when opened, says so, and goes on after the last whole one", async () => {
    await withFolder(async (folder) => {
      const path = await write(folder, [train(1), train(2)]);
      await appendFile(path, '{"step":3,"time":');
      const { writer, repaired } = await EventWriter.open(folder);
      expect(repaired).toContain("cut off after 17 bytes");
      writer.append(train(4));
      await writer.close();
      const { events, missing } = await loadEvents(folder);
      expect(events.map(({ step }) => step)).toEqual([1, 2, 4]);
      expect(missing).toEqual([]);
    });
  });

  test("refuses an event after it was closed", async () => {
    await withFolder(async (folder) => {
      const { writer } = await EventWriter.open(folder);
      await writer.close();
      expect(() => writer.append(train(1))).toThrow("closed");
    });
  });
});

describe("the reader", () => {
  test("survives a cut at every byte: whole lines come back, and a cut line is reported", async () => {
    await withFolder(async (folder) => {
      const path = await write(folder, [train(1), { ...train(2), message: "größer 🧭" }, train(3)]);
      const bytes = await readFile(path);
      for (let cut = bytes.length; cut >= 0; cut--) {
        await truncate(path, cut);
        const { events, missing } = await loadEvents(folder);
        const head = bytes.subarray(0, cut);
        const lines = head.toString("latin1").split("\n");
        const rest = lines.pop() as string;
        const onlyNewlineLost = rest.length > 0 && bytes[cut] === 0x0a;
        expect(events.length).toBe(lines.length + (onlyNewlineLost ? 1 : 0));
        expect(missing.length).toBe(rest.length > 0 && !onlyNewlineLost ? 1 : 0);
      }
    });
  });

  test("goes on after damage in the middle, and counts what it does not name", async () => {
    await withFolder(async (folder) => {
      const path = await write(folder, [train(1)]);
      await appendFile(
        path,
        `${"\0\0\0\n".repeat(8)}${JSON.stringify({ kind: "train" })}\n${JSON.stringify(train(2))}\n`,
      );
      const { events, missing } = await loadEvents(folder);
      expect(events.map(({ step }) => step)).toEqual([1, 2]);
      expect(missing).toHaveLength(7);
      expect(missing.join("\n")).toContain("3 more damaged lines");
      expect(missing.join("\n")).toContain("is not an event");
    });
  });

  test("says when there is no file", async () => {
    await withFolder(async (folder) => {
      expect(await loadEvents(folder)).toEqual({ events: [], missing: ["events.jsonl is missing."] });
    });
  });

  test("brings back metrics that are not finite", async () => {
    await withFolder(async (folder) => {
      const metrics = { a: Number.NaN, b: Number.POSITIVE_INFINITY, c: Number.NEGATIVE_INFINITY, d: 0.1 };
      await write(folder, [train(1, metrics)]);
      expect((await loadEvents(folder)).events[0]?.metrics).toEqual(metrics);
    });
  });

  test("streams: the first event of a file larger than memory buffers may be comes at once", async () => {
    await withFolder(async (folder) => {
      const path = await write(folder, [train(1)]);
      await truncate(path, 3 * 2 ** 30);
      for await (const { event } of readEvents(folder)) {
        expect(event.step).toBe(1);
        return;
      }
      expect.unreachable("no event came");
    });
  });

  test("reads lines of every length across its buffers, in order and with their places", async () => {
    await withFolder(async (folder) => {
      const lengths = Array.from({ length: 300 }, (_, i) => (i % 50 === 0 ? 400_000 : i * 37));
      const path = await write(
        folder,
        lengths.map((length, i) => ({ ...train(i), message: "ü".repeat(length) })),
      );
      const bytes = await readFile(path);
      let count = 0;
      let place = 0;
      for await (const { event, start, end } of readEvents(folder)) {
        expect([event.step, event.message?.length, start]).toEqual([count, lengths[count], place]);
        expect(bytes[end - 1]).toBe(0x0a);
        place = end;
        count++;
      }
      expect([count, place]).toEqual([300, bytes.length]);
    });
  });

  test("finds the start of a line near the end, for readers that want only the newest", async () => {
    await withFolder(async (folder) => {
      const path = await write(
        folder,
        Array.from({ length: 100 }, (_, i) => train(i)),
      );
      const { events, missing } = await loadEvents(folder, await tailStart(path, 500));
      expect(missing).toEqual([]);
      expect(events.length).toBeGreaterThan(3);
      expect(events.at(-1)?.step).toBe(99);
      expect(await tailStart(path, 1e9)).toBe(0);
    });
  });

  test("can follow a live file from where it stopped", async () => {
    await withFolder(async (folder) => {
      const { writer } = await EventWriter.open(folder);
      writer.append(train(1));
      await writer.flush();
      const seen: PlacedEvent[] = [];
      for await (const placed of readEvents(folder)) addEvent(seen, placed);
      writer.append(train(2));
      await writer.close();
      for await (const placed of readEvents(folder, [], seen.at(-1)?.end)) addEvent(seen, placed);
      expect(seen.map(({ event }) => event.step)).toEqual([1, 2]);
    });
  });
});

test("a resume makes void what was logged after its checkpoint, and nothing else", async () => {
  await withFolder(async (folder) => {
    const { writer } = await EventWriter.open(folder);
    writer.append({ ...train(375), kind: "sft" });
    writer.append(train(1));
    await writer.flush();
    const from = writer.position;
    writer.append(train(2, { "train/success": 0.9 }));
    writer.append({ ...train(2), kind: "resume", metrics: {}, from });
    writer.append(train(2, { "train/success": 0.5 }));
    await writer.close();
    const { events } = await loadEvents(folder);
    expect(events.map(({ kind, step }) => `${kind} ${step}`)).toEqual(["sft 375", "train 1", "resume 2", "train 2"]);
    expect(series(events, "train/success").at(-1)).toEqual({ step: 2, value: 0.5 });
  });
});
