/** What a run prints without a terminal. */
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { LiveView } from "./live.ts";

const PLAN = { warm: 0, warmEpisodes: 0, steps: 1, stepEpisodes: 8 };

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

test("an evaluation says how many episodes were asked for, played and failed, the greedy ones included", () => {
  const printed: string[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => printed.push(String(text)) > 0);
  const view = new LiveView({ name: "lake", plan: PLAN });
  const metrics = { "eval/success": 0, "eval/asked": 64, "eval/episodes": 61, "eval/failed": 3 };
  view.see({ time: 0, step: 0, kind: "eval", metrics });
  view.see({ time: 0, step: 1, kind: "eval", metrics: { ...metrics, "eval/failed_greedy": 45 } });
  expect(printed[0]).toMatch(/64 episodes asked, 61 played, 3 failed\n/);
  expect(printed[1]).toMatch(/64 episodes asked, 61 played, 3 failed, and 45 greedy ones\n/);
});

test("the panel's step time is that of the newest step, not of an evaluation after it", () => {
  const printed: string[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => printed.push(String(text)) > 0);
  const { isTTY, columns } = process.stderr;
  Object.assign(process.stderr, { isTTY: true, columns: 80 });
  vi.stubEnv("TERM", "xterm");
  onTestFinished(() => void Object.assign(process.stderr, { isTTY, columns }));
  const view = new LiveView({ name: "lake", plan: PLAN });
  view.see({ time: 0, step: 1, kind: "train", metrics: { "time/step": 6, "time/wait": 4, "time/learn": 2 } });
  view.see({ time: 0, step: 1, kind: "eval", metrics: { "time/step": 3, "eval/success": 0.5 } });
  printed.length = 0;
  view.close();
  expect(printed.join("")).toContain("step time      6.0 s (playing 4.0 s, learning 2.0 s)");
});
