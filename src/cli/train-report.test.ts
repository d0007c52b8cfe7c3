import { resolve } from "node:path";
import { expect, test } from "vitest";
import { nextCommands } from "./train-report.ts";

test("what to run next works from here, under each other, and says what it is for where there is room", () => {
  expect(nextCommands(resolve("runs/lake"), "frozen_lake")).toEqual([
    "  saccade view                                 look at the run in a browser",
    "  saccade play frozen_lake --agent runs/lake   watch the model play",
    "  saccade eval runs/lake                       measure it again",
  ]);
  expect(nextCommands(resolve("runs/lake"), resolve("env.ts"))[1]).toMatch(
    /^ {2}saccade play \.\/env\.ts --agent runs\/lake {3}/,
  );
  // The viewer finds only the runs of ./runs by itself.
  expect(nextCommands(resolve("elsewhere/lake"), undefined, 60)).toEqual([
    "  saccade view elsewhere/lake   look at the run in a browser",
    "  saccade eval elsewhere/lake   measure it again",
  ]);
  expect(nextCommands(resolve("elsewhere/lake"), undefined, 50)).toEqual([
    "  saccade view elsewhere/lake",
    "  saccade eval elsewhere/lake   measure it again",
  ]);
});
