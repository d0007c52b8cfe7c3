import { expect, test } from "vitest";
import "../../worlds/register.ts";
import { commandsOf } from "../envs/args.ts";
import { makeEnv, WorldEnv } from "../envs/index.ts";
import { bindKeys, FIXED_KEYS, keysIn } from "./play-keys.ts";

test("directions are on the arrows, other commands on a letter of their own", () => {
  expect(bindKeys(["left", "right", "up", "down", "stop", "undo"])).toEqual([
    { key: "←", command: "left" },
    { key: "→", command: "right" },
    { key: "↑", command: "up" },
    { key: "↓", command: "down" },
    { key: "s", command: "stop" },
    { key: "d", command: "undo" },
  ]);
  expect(bindKeys(["turn_left", "turn_right", "forward"]).map(({ key }) => key)).toEqual(["←", "→", "↑"]);
});

test("in every world no two commands share a key, and none takes one that means the same everywhere", async () => {
  const worlds = [
    "frozen_lake",
    "sokoban",
    "maze_2d/easy",
    "maze_3d/easy",
    "sliding_block/easy",
    "matchstick_rotation/easy",
  ];
  for (const id of worlds) {
    const env = await makeEnv(id);
    if (!(env instanceof WorldEnv)) throw new Error(`${id} is no world`);
    const keys = bindKeys(env.world.actions.flatMap(commandsOf)).map(({ key }) => key);
    expect(new Set([...keys, ...Object.keys(FIXED_KEYS)]).size).toBe(keys.length + Object.keys(FIXED_KEYS).length);
    await env.close();
  }
});

test("keys are told apart in what a terminal sends at once, and foreign sequences are left out", () => {
  expect(keysIn("\x1b[A\x1bOBu\x1b[5~\x1b_Gi=1;OK\x1b\\\r\x7f\x03é")).toEqual([
    "↑",
    "↓",
    "u",
    "enter",
    "backspace",
    "ctrl-c",
    "é",
  ]);
  expect(keysIn("\x1b")).toEqual(["escape"]);
});
