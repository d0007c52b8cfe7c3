/** The bytes of an event file, against those that TensorBoard's own classes write (golden/make-tensorboard.py), and buckets of histograms. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { encodeEvent, fileVersion, frame, sessionStart } from "./tensorboard-file.ts";
import { histogramOf } from "./tracker.ts";

test("every kind of event has the bytes that TensorBoard itself writes", async () => {
  const time = 1_700_000_001_500;
  const png = Uint8Array.from({ length: 40 }, (_, i) => i);
  const histogram = { min: 0, max: 1, count: 4, sum: 3, sumOfSquares: 3, edges: [0.5, 1], counts: [1, 3] };
  const ours = [
    fileVersion(1_700_000_000_250),
    encodeEvent({
      step: 0,
      time,
      values: [
        { tag: "train/success", scalar: 0 },
        { tag: "train/reward", scalar: -1.25 },
      ],
    }),
    encodeEvent({
      step: 300,
      time,
      values: [
        { tag: "policy/kl", scalar: Number.POSITIVE_INFINITY },
        { tag: "größe", scalar: 1e-8 },
      ],
    }),
    sessionStart(7, time),
    encodeEvent({ step: 123_456_789_012, time, values: [{ tag: "frames", png, width: 3, height: 200 }] }),
    encodeEvent({ step: 2, time, values: [{ tag: "notes", text: "alarm: blind ✗" }] }),
    encodeEvent({ step: 3, time, values: [{ tag: "rewards", histogram }] }),
  ];
  const theirs = await readFile(join(import.meta.dirname, "golden/tensorboard.bin"));
  expect(Buffer.concat(ours.map(frame)).toString("hex")).toBe(theirs.toString("hex"));
});

test("a histogram counts each value once, the largest in the last bucket", () => {
  const made = histogramOf([
    [0, 5],
    [0.5, 2],
    [1, 3],
    [Number.NaN, 9],
  ]);
  expect(made).toMatchObject({ min: 0, max: 1, count: 10, sum: 4, sumOfSquares: 3.5 });
  expect(made.counts[0]).toBe(5);
  expect(made.counts[15]).toBe(2);
  expect(made.counts.at(-1)).toBe(3);
  expect(made.edges.at(-1)).toBe(1);
  expect(histogramOf([[1, 4]])).toMatchObject({ min: 1, max: 1, count: 4, counts: [4] });
  expect(histogramOf([]).counts).toEqual([]);
});
