/** Requests with something wrong in them are answered in words, at once, and never as a fault; fuzz.prove.ts sends a hundred thousand. */
import { expect, test } from "vitest";
import { fuzz } from "./test-fuzz.ts";

test("no request to the Tinker face is answered with a fault", async () => {
  const { sent, protobuf, counts, faults } = await fuzz(2000, 1);
  expect(faults).toEqual([]);
  expect([sent, protobuf > 500]).toEqual([2000, true]);
  // Some of all kinds: refused, accepted and done, accepted and failed.
  for (const kind of ["200", "400", "404", "done", "user"]) expect(counts[kind]).toBeGreaterThan(20);
}, 300_000);
