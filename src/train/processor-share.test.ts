import { expect, test } from "vitest";
import { type ProcessorReading, processorShare } from "./processor-share.ts";

const reading = (threads: Record<string, [ran: number, waited: number]>, busy: number, own: number) =>
  ({
    threads: new Map(Object.entries(threads).map(([id, [ran, waited]]) => [id, { ran, waited }])),
    busy,
    own,
  }) satisfies ProcessorReading;
const start = reading({ a: [100, 100], b: [100, 100] }, 1000, 200);

test("next to programs that take three quarters of the processors, a program runs at a quarter of its speed", () => {
  // In 400 ms of two processors, two threads run for 100 ms each and wait for three times as long; the others have all the rest.
  const share = processorShare(start, reading({ a: [200, 400], b: [200, 400] }, 1800, 200));
  expect(share).toBeCloseTo(1 / 4);
});

test("threads of one program that wait for each other do not make the machine busy", () => {
  expect(processorShare(start, reading({ a: [200, 200], b: [200, 200] }, 1200, 400))).toBe(1);
});

test("threads that began or ended meanwhile are left out", () => {
  expect(processorShare(start, reading({ b: [200, 100], c: [900, 900] }, 1200, 300))).toBe(1);
});

test("where a system does not tell how long threads waited, nothing is said", () => {
  expect(processorShare(reading({}, 0, 0), reading({}, 100, 50))).toBeUndefined();
});
