import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError, DataError } from "../core/errors.ts";
import {
  checkDisjoint,
  makeTickets,
  parseTicket,
  readTickets,
  ticketLines,
  ticketSeed,
  writeTickets,
} from "./tickets.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-tickets-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe("tickets on disk", () => {
  test("what is written is read back, extra columns included", async () => {
    const tickets = [
      { env: "maze_2d/easy", seed: 3, options: { maze_width: 9 }, level: { stage: 1 }, note: null },
      { env: "./my-world.ts" },
    ];
    const file = join(folder, "a.jsonl");
    await writeTickets(file, tickets);
    expect(await readTickets(file)).toEqual(tickets);
    writeFileSync(file, ticketLines(tickets));
    expect(await readTickets(file)).toEqual(tickets);
  });

  test("SkyRL's rows are tickets: the placeholder goes, other columns stay", () => {
    const prompt = [{ role: "user", content: "placeholder" }];
    const row = { prompt, env_class: "visgym", visgym_env_id: "maze_2d/easy" };
    expect(parseTicket(row, "row 1")).toEqual({ env: "maze_2d/easy" });
    expect(parseTicket({ ...row, seed: 5, visgym_kwargs: { maze_width: 9 }, data_source: "m" }, "row 1")).toEqual({
      env: "maze_2d/easy",
      seed: 5,
      options: { maze_width: 9 },
      data_source: "m",
    });
    expect(parseTicket({ ...row, seed: null, visgym_kwargs: null }, "row 1")).toEqual({ env: "maze_2d/easy" });
  });

  test("SkyRL's Parquet rows are tickets, what is null there being absent", async () => {
    expect(await readTickets(fileURLToPath(new URL("./golden/tickets.parquet", import.meta.url)))).toEqual([
      { env: "maze_2d/easy", seed: 5, options: { maze_width: 9 } },
      { env: "sliding_block/easy", options: { moves: 3 } },
    ]);
  });

  test.each([
    [{ seed: 1 }, "names its environment"],
    [{ env: "" }, "names its environment"],
    [{ env: 5 }, "names its environment"],
    [{ env_class: "visgym" }, "names its environment"],
    [{ env: "x", options: [1] }, '"options" must be an object'],
    [{ env: "x", seed: -1 }, "The seed of t.jsonl:4 must be a whole number"],
    [{ env: "x", seed: "1" }, "whole number"],
  ])("%o is refused", (row, message) => {
    expect(() => parseTicket(row, "t.jsonl:4")).toThrow(message);
  });

  test("an empty file is refused", async () => {
    const file = join(folder, "empty.jsonl");
    writeFileSync(file, "\n");
    await expect(readTickets(file)).rejects.toThrow(DataError);
  });

  test("validation rows count their seeds up, training rows have none", () => {
    expect(makeTickets("m", { rows: 2, split: "val", firstSeed: 7 })).toEqual([
      { env: "m", seed: 7 },
      { env: "m", seed: 8 },
    ]);
    expect(makeTickets("m", { rows: 2, split: "train", options: { a: 1 } })).toEqual([
      { env: "m", options: { a: 1 } },
      { env: "m", options: { a: 1 } },
    ]);
  });
});

describe("ticketSeed", () => {
  test("is one fixed number for a run seed, epoch and row", () => {
    expect(ticketSeed(42, 3, 17)).toBe(ticketSeed(42, 3, 17));
    expect([ticketSeed(0, 0, 0), ticketSeed(0, 0, 1), ticketSeed(0, 1, 0), ticketSeed(1, 0, 0)]).toEqual([
      1976742232, 1936319521, 194848092, 562632815,
    ]);
  });

  test("is well mixed: neighbours give unrelated seeds in 0..2^31-1, every bit half the time", () => {
    const seeds = [];
    for (let run = 0; run < 5; run++) {
      for (let epoch = 0; epoch < 20; epoch++) {
        for (let row = 0; row < 50; row++) seeds.push(ticketSeed(run, epoch, row));
      }
    }
    expect(new Set(seeds).size).toBeGreaterThan(4995);
    expect(seeds.every((seed) => seed >= 0 && seed < 2 ** 31)).toBe(true);
    for (let bit = 0; bit < 31; bit++) {
      const share = seeds.filter((seed) => (seed >>> bit) & 1).length / seeds.length;
      expect(Math.abs(share - 0.5)).toBeLessThan(0.04);
    }
  });

  test("keeps away from reserved seeds, and moves only the seeds that are reserved", () => {
    const first = ticketSeed(42, 0, 0);
    const reserved = new Set([first]);
    const second = ticketSeed(42, 0, 0, reserved);
    expect(second).not.toBe(first);
    expect(ticketSeed(42, 0, 0, reserved)).toBe(second);
    expect(ticketSeed(42, 0, 1, reserved)).toBe(ticketSeed(42, 0, 1));
    const third = ticketSeed(42, 0, 0, new Set([first, second]));
    expect([first, second]).not.toContain(third);
  });
});

describe("checkDisjoint", () => {
  const rows = (env: string, from: number, count: number) =>
    Array.from({ length: count }, (_, i) => ({ env, seed: from + i }));

  test("lets through rows that share no seed of an environment", () => {
    checkDisjoint(rows("a/easy", 0, 50), [...rows("a/easy", 50, 50), ...rows("a/hard", 0, 50), ...rows("b", 0, 50)]);
    checkDisjoint([{ env: "a/easy" }], rows("a/easy", 0, 50));
    checkDisjoint(rows("ab", 0, 5), rows("a", 0, 5));
  });

  test("refuses one shared seed", () => {
    expect(() => checkDisjoint(rows("a", 0, 5001), rows("a", 5000, 16))).toThrow(ConfigError);
    expect(() => checkDisjoint(rows("a", 0, 5001), rows("a", 5000, 16))).toThrow(
      "1 training episodes are also validation episodes: a seed 5000.",
    );
  });

  test("names the first ten and counts each once", () => {
    const train = [...rows("a", 0, 49), ...rows("a", 0, 49)];
    expect(() => checkDisjoint(train, rows("a", 0, 49))).toThrow(/^49 .*a seed 9, and 39 more\./);
  });

  test("an id without a difficulty counts as all of its difficulties", () => {
    expect(() => checkDisjoint(rows("a", 1, 1), rows("a/easy", 1, 1))).toThrow("a seed 1");
    expect(() => checkDisjoint(rows("./w.ts#hard", 1, 1), rows("./w.ts", 1, 1))).toThrow("./w.ts#hard seed 1");
  });
});
