/** The attacks of `npm run prove -- hostile`, smaller and fewer: nothing ends a server, reaches a file or fetches an address. */
import { expect, test } from "vitest";
import { attackAll } from "./hostile.ts";

test("no hostile request is answered with a fault, and nothing outside is touched", async () => {
  const reports = await attackAll({ share: 1 / 16, mutations: 300, stalled: 2, torch: false });
  expect(reports.flatMap(({ name, faults }) => faults.map((fault) => `${name}: ${fault}`))).toEqual([]);
  for (const { statuses } of reports)
    expect(Object.keys(statuses)).toEqual(expect.arrayContaining(["400", "401", "404"]));
}, 300_000);
