/** A hundred thousand requests to the Tinker face, most with something wrong in them: `npm run prove -- tinker/fuzz`. */
import { expect, test } from "vitest";
import { fuzz } from "./test-fuzz.ts";

test("a hundred thousand requests, no fault", async () => {
  const { sent, protobuf, counts, faults } = await fuzz(100_000, Number(process.env.SACCADE_SEED ?? 2));
  process.stdout.write(`${sent} requests, ${protobuf} of them protobuf: ${JSON.stringify(counts)}\n`);
  expect(faults).toEqual([]);
});
