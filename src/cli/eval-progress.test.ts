/** What an evaluation says while it is at work. */
import { afterEach, expect, test } from "vitest";
import type { EpisodeResult } from "../evaluate/index.ts";
import { noUsage } from "../evaluate/usage.ts";
import { EvalProgress, episodeNote } from "./eval-progress.ts";

let open: EvalProgress | undefined;
afterEach(() => open?.close());

function started(terminal: boolean) {
  const said: string[] = [];
  const clock = { ms: 0 };
  open = new EvalProgress({ write: (text) => said.push(text), terminal, now: () => clock.ms });
  return { progress: open, said, clock };
}

test("without a terminal every phase begins with a line, and silence never lasts ten seconds", () => {
  const { progress, said, clock } = started(false);
  progress.see("envs", 0, 34);
  expect(said).toEqual(["eval: opening environments 0/34, 0 s\n"]);
  for (let s = 1; s <= 25; s++) {
    clock.ms = 1000 * s;
    progress.tick();
  }
  expect(said.slice(1)).toEqual(["eval: opening environments 0/34, 10 s\n", "eval: opening environments 0/34, 20 s\n"]);
  progress.see("floors", 0, 34);
  expect(said.at(-1)).toBe("eval: floors and ceilings 0/34, 25 s\n");
});

test("the estimate counts this phase and this run alone", () => {
  const { progress, said, clock } = started(false);
  progress.see("floors", 0, 2);
  clock.ms = 60_000;
  progress.see("play", 40, 100);
  clock.ms = 80_000;
  progress.see("play", 60, 100, "frozen_lake#3 solved");
  expect(said.at(-1)).toBe("eval: episodes 60/100, 80 s, about 40 s left, frozen_lake#3 solved\n");
  clock.ms = 280_000;
  progress.see("play", 100, 100);
  expect(said.at(-1)).toBe("eval: episodes 100/100, 4 min 40 s\n");
});

test("on a terminal one line of at most 80 columns is redrawn every second, and ended once", () => {
  const { progress, said, clock } = started(true);
  progress.see("model", 0, 1);
  clock.ms = 1000;
  progress.tick();
  progress.see("play", 1, 3, `a_rather_long_environment/with_a_name#1000000000 ${"x".repeat(60)}`);
  const frames = said.map((text) => text.replace("\r\x1b[2K", ""));
  expect(frames.slice(0, 2)).toEqual([
    "░░░░░░░░░░░░ eval: opening the model 0 s",
    "░░░░░░░░░░░░ eval: opening the model 1 s",
  ]);
  for (const frame of frames) expect(frame.length).toBeLessThan(80);
  progress.close();
  progress.close();
  expect(said.at(-1)).toBe("\n");
  expect(said.filter((text) => text.includes("\n"))).toHaveLength(1);
});

test("an episode without success is not solved; only one that we could not play failed", () => {
  const played: EpisodeResult = {
    key: "k",
    model: "m",
    env: "sokoban",
    seed: 3,
    repeat: 0,
    time: 0,
    ms: 1,
    scored: true,
    success: false,
    reward: 0,
    turns: 1,
    unparsed: 0,
    invalid: 0,
    cut: 0,
    end: "terminated",
    usage: noUsage(),
  };
  expect(episodeNote(played)).toBe("sokoban#3 not solved");
  expect(episodeNote({ ...played, success: true })).toBe("sokoban#3 solved");
  expect(episodeNote({ ...played, scored: false, end: "env-error" })).toBe("sokoban#3 env-error");
});
