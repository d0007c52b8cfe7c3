/** What a run prints without a terminal. */
import { afterEach, expect, test, vi } from "vitest";
import { LiveView } from "./live.ts";

afterEach(() => vi.restoreAllMocks());

test("an evaluation says how many episodes were asked for, played and failed, the greedy ones included", () => {
  const printed: string[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => printed.push(String(text)) > 0);
  const view = new LiveView({ name: "lake", warm: 0, steps: 1 });
  const metrics = { "eval/success": 0, "eval/asked": 64, "eval/episodes": 61, "eval/failed": 3 };
  view.see({ time: 0, step: 0, kind: "eval", metrics });
  view.see({ time: 0, step: 1, kind: "eval", metrics: { ...metrics, "eval/failed_greedy": 45 } });
  expect(printed[0]).toMatch(/64 episodes asked, 61 played, 3 failed\n/);
  expect(printed[1]).toMatch(/64 episodes asked, 61 played, 3 failed, and 45 greedy ones\n/);
});
