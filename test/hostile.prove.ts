/** `npm run prove -- hostile`: an attacker with the key against `serve`, `view` and the PyTorch worker; prints what each answered, its memory and its health. */
import { expect, test } from "vitest";
import { TORCH } from "../src/engine/torch/test-worker.ts";
import { attackAll } from "./hostile.ts";

const MAX_MIB = 1024;
const MAX_MS = 1000;

test("10,000 hostile requests and more: no crash, no file outside, memory and health within bounds", async () => {
  const reports = await attackAll({ share: 1, mutations: 10_000, stalled: 12, torch: TORCH });
  for (const { name, sent, statuses, idle, most, slowest, asked, faults } of reports) {
    console.log(
      `${name}: ${sent} requests, ${JSON.stringify(statuses)}; ${idle.toFixed(0)} MiB idle, at most ${(most - idle).toFixed(0)} MiB more; ` +
        `health asked ${asked} times, slowest ${slowest.toFixed(0)} ms; ${faults.length} faults`,
    );
  }
  expect(reports.flatMap(({ name, faults }) => faults.map((fault) => `${name}: ${fault}`))).toEqual([]);
  for (const { name, idle, most, slowest } of reports) {
    expect(most - idle, `${name}: MiB above idle`).toBeLessThan(MAX_MIB);
    expect(slowest, `${name}: slowest health`).toBeLessThan(MAX_MS);
  }
});
