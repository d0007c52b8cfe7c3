/** The screen of a game, for every world that comes with Saccade, at three widths of 24 rows. */
import { expect, test } from "vitest";
import "../../worlds/register.ts";
import { worlds } from "../../worlds/index.ts";
import { imagesOf, textOf } from "../core/index.ts";
import { commandsOf } from "../envs/args.ts";
import { makeEnv, WorldEnv } from "../envs/index.ts";
import { bindKeys, FIXED_KEYS } from "./play-keys.ts";
import { screenRows } from "./play-screen.ts";

/** Need a browser with pages, or a download. */
const ELSEWHERE = ["pages", "miniwob", "geometry3k"];
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape codes take no room
const visible = (row: string) => row.replaceAll(/\x1b\[[0-9;]*m/g, "");

test.each(worlds.map(({ id }) => id).filter((id) => !ELSEWHERE.includes(id)))(
  "%s has its board, its rules and every key on one screen",
  async (id) => {
    const env = await makeEnv(id);
    if (!(env instanceof WorldEnv)) throw new Error(`${id} is no world`);
    const seen = await env.reset(0);
    const { actions } = env.world;
    const bindings = bindKeys(actions.flatMap(commandsOf));
    const typed = actions
      .filter((spec) => commandsOf(spec).length === 0)
      .map((spec) => env.describe([{ name: spec.name, payload: spec.example }]));
    const rules = [await env.world.task("full", "image"), await env.world.task("brief", "image")];
    const [image] = seen.flatMap(imagesOf).slice(-1);
    const state = {
      title: `${id} · seed 0 · turn 0 of ${env.options.maxTurns} · reward 0`,
      ...{ rules, bindings, typed, keys: Object.entries(FIXED_KEYS), message: "" },
      board: image ?? seen.map(textOf).join("\n"),
    };
    for (const columns of [60, 80, 120]) {
      const rows = screenRows(state, { columns, rows: 24, color: true }).map(visible);
      const screen = rows.join("\n");
      expect([columns, rows.length, Math.max(...rows.map((row) => [...row].length)) <= columns]).toEqual([
        columns,
        24,
        true,
      ]);
      expect(rows[1]).toMatch(/▀/);
      // A word may be broken into two rows, but none is lost.
      const words = screen.replaceAll(/▀/g, " ").replaceAll(/\s+/g, " ");
      for (const { key, command } of bindings)
        expect([columns, words]).toEqual([columns, expect.stringContaining(`${key} ${command}`)]);
      for (const [key, word] of Object.entries(FIXED_KEYS)) expect(words).toContain(`${key} ${word}`);
      for (const example of typed.slice(0, 3)) expect(words).toContain(example);
      expect([columns, screen]).toEqual([columns, expect.not.stringContaining("…")]);
    }
    await env.close();
  },
);
