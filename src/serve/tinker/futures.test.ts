/** Results that are asked for later, or never. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Futures } from "./futures.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const MINUTE = 60_000;

test("a result stays ten minutes after it was fetched, a day when nobody fetches it, and until it is there", async () => {
  const futures = new Futures();
  const nobody = new AbortController().signal;
  const done = async () => ({ json: { done: true } });
  futures.add("fetched", done());
  futures.add("forgotten", done());
  futures.add("unfinished", new Promise(() => {}));
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect((await futures.retrieve("fetched", nobody))?.status).toBe(200);
  await vi.advanceTimersByTimeAsync(9 * MINUTE);
  expect((await futures.retrieve("fetched", nobody))?.status).toBe(200);
  await vi.advanceTimersByTimeAsync(2 * MINUTE);
  expect(await futures.retrieve("fetched", nobody)).toBeUndefined();
  expect(futures.has("forgotten")).toBe(true);
  await vi.advanceTimersByTimeAsync(24 * 60 * MINUTE);
  // Whatever is asked or added looks after those that nobody asks for.
  futures.add("next", done());
  expect(["forgotten", "unfinished", "next"].map((id) => futures.has(id))).toEqual([false, true, true]);
});
