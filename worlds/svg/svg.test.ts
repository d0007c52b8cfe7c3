import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { Image, Json } from "../../src/core/index.ts";
import { act, makeWorld, makeWorldEnv } from "../../src/envs/index.ts";
import { refusal } from "./draw.ts";
import { icon } from "./icons.ts";

const make = (options = {}) => makeWorld("svg", { size: 96, ...options });
const svg = (inside: string) => `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">${inside}</svg>`;

describe("svg", () => {
  test("a house's window is beside its door, never over it", () => {
    let houses = 0;
    for (let seed = 0; seed < 600; seed++) {
      const drawn = icon(seed);
      if (!drawn.includes('fill="#fff6bf"')) continue;
      houses += 1;
      // Door and window are drawn last.
      const [door, window] = [...drawn.matchAll(/<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"/g)]
        .slice(-2)
        .map((found) => found.slice(1).map(Number) as [number, number, number, number]);
      if (door === undefined || window === undefined) throw new Error(drawn);
      const apart = (axis: 0 | 1) =>
        Math.max(door[axis], window[axis]) -
        Math.min(door[axis] + door[axis === 0 ? 2 : 3], window[axis] + window[axis === 0 ? 2 : 3]);
      expect(Math.max(apart(0), apart(1)), `seed ${seed}`).toBeGreaterThanOrEqual(1.9);
    }
    expect(houses).toBeGreaterThan(10);
  });

  test("the better a drawing, the higher its score: nothing, something else, the right place, the right colour, the same", async () => {
    const folder = mkdtempSync(join(tmpdir(), "saccade-svg-"));
    const target = svg(
      '<rect x="8" y="8" width="30" height="30" fill="#d7263d"/><circle cx="46" cy="46" r="12" fill="#1f6fb2"/>',
    );
    writeFileSync(join(folder, "a.svg"), target);
    const drawings = [
      svg(""),
      svg('<circle cx="14" cy="52" r="8" fill="#2e933c"/>'),
      svg('<rect x="8" y="8" width="30" height="30" fill="#2e933c"/>'),
      svg('<rect x="8" y="8" width="30" height="30" fill="#d7263d"/>'),
      svg('<rect x="8" y="8" width="30" height="30" fill="#d7263d"/><circle cx="45" cy="46" r="12" fill="#1f6fb2"/>'),
      target,
    ];
    const scores: number[] = [];
    for (const drawing of drawings) {
      const world = await make({ folder });
      await world.reset(0);
      const { reward, valid } = await world.act(act("draw", drawing));
      expect(valid).toBe(true);
      scores.push(reward);
    }
    rmSync(folder, { recursive: true });
    expect(scores[0]).toBe(0);
    expect(scores[5]).toBe(1);
    for (let i = 1; i < 6; i++) expect(scores[i], `${scores}`).toBeGreaterThanOrEqual(scores[i - 1] as number);
    expect(scores[2]).toBeGreaterThan(scores[1] as number);
    expect(scores[3]).toBeGreaterThan((scores[2] as number) + 0.1);
  });

  test("an episode is worth its best drawing, however often it is drawn", async () => {
    const world = await make();
    await world.reset(3);
    const half = icon(3).replace(/<\/svg>$/, '<rect x="0" y="0" width="20" height="64" fill="#000"/></svg>');
    const first = (await world.act(act("draw", half))).reward;
    expect(first).toBeGreaterThan(0);
    expect(await world.act(act("draw", half))).toMatchObject({ reward: 0, ended: false });
    expect(await world.act(act("draw", svg("")))).toMatchObject({ valid: true, reward: 0, ended: false });
    const last = await world.act(act("draw", icon(3)));
    expect(last).toMatchObject({ ended: true });
    expect(first + last.reward).toBeCloseTo(1, 12);
    expect(await world.success()).toBe(true);
  });

  test.each([
    ['<image href="/etc/passwd"/>', /<image> is not drawn/],
    ['<use href="#a"/>', /<use> is not drawn/],
    ['<filter id="f"/>', /<filter> is not drawn/],
    ["<g>".repeat(40), /24 deep/],
    ['<path d="M0 0L1e9 4"/>', /Numbers/],
    ['<path stroke-dasharray="0.0001" d="M0 0L9 9"/>', /Dashed/],
    ['<rect width="1"/>'.repeat(1001), /1000 elements/],
    ["<!DOCTYPE svg>", /DOCTYPE/],
  ])("a drawing with %s is refused with a sentence", async (inside, message) => {
    const world = await make();
    await world.reset(0);
    const outcome = await world.act(act("draw", svg(inside)));
    expect(outcome).toMatchObject({ valid: false, reward: 0, ended: false });
    expect(outcome.feedback).toMatch(message);
  });

  test("a document that is not closed draws nothing and says why", async () => {
    const world = await make();
    await world.reset(0);
    const outcome = await world.act(act("draw", '<svg xmlns="http://www.w3.org/2000/svg"><rect'));
    expect(outcome).toMatchObject({ valid: false, reward: 0, ended: false });
    expect(outcome.feedback).toMatch(/can't be read/);
  });

  test.each(["tuple", "keyword", "think", "world-model", "tool-call"])(
    "%s carries a whole document, commas, quotes and all",
    async (protocol) => {
      const env = await makeWorldEnv("svg", { protocol, size: 96 });
      await env.reset(11);
      const reply = await env.oracleReply();
      expect(reply).toContain("viewBox");
      const step = await env.step(reply);
      expect(step).toMatchObject({ terminated: true, success: true });
      expect(step.info.played).toEqual(["draw"]);
    },
  );

  test("a document without its name counts, and so does one without a namespace", async () => {
    const env = await makeWorldEnv("svg", { size: 96 });
    await env.reset(2);
    const bare = icon(2).replace(' xmlns="http://www.w3.org/2000/svg"', "");
    const step = await env.step(`<think>a, b</think><answer>\n${bare}\n</answer>`);
    expect(step).toMatchObject({ terminated: true, success: true });
  });

  test("every icon may be drawn by a model, and no two seeds of forty look the same", async () => {
    const world = await make();
    const hashes = new Set<string>();
    for (let seed = 0; seed < 40; seed++) {
      expect(refusal(icon(seed))).toBeUndefined();
      await world.reset(seed);
      hashes.add(((await world.observe("image")) as Image).hash);
    }
    expect(hashes.size).toBe(40);
  });

  test("the text view has a letter for every cell of the target and of the drawing", async () => {
    const world = await make();
    await world.reset(0);
    const before = String(await world.observe("text"));
    expect(before).toContain("your drawing: nothing yet");
    await world.act(act("draw", icon(1)));
    const after = String(await world.observe("text")).split("\n");
    expect(after.filter((line) => line.length === 24)).toHaveLength(48);
  });

  describe("a folder of SVG files", () => {
    const folder = mkdtempSync(join(tmpdir(), "saccade-svg-"));
    afterAll(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(
      join(folder, "wide.svg"),
      '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20" fill="red"/></svg>',
    );

    test("is drawn in the middle of the canvas, and its name is what a saved episode carries", async () => {
      const world = await make({ folder });
      await world.reset(9);
      expect(await world.save?.()).toEqual({ target: "wide.svg", drawing: null, best: 0 });
      const picture = (await world.observe("image")) as Image;
      const at = (x: number, y: number) => [
        ...picture.data.subarray((y * picture.width + x) * 3, (y * picture.width + x) * 3 + 3),
      ];
      expect(at(48, 48)).toEqual([255, 0, 0]);
      expect(at(48, 10)).toEqual([255, 255, 255]);
      const plan = (await world.solve?.()) ?? [];
      expect(await world.act(plan[0] as (typeof plan)[0])).toMatchObject({ reward: 1, ended: true });
    });

    test("without SVG files is refused", async () => {
      await expect(make({ folder: join(folder, "..", "nowhere-at-all") })).rejects.toThrow("can't be read");
    });
  });

  test.each([
    [{}, /target/],
    [{ target: "icon:x" }, /icon/],
    [{ target: "a.svg" }, /folder/],
    [{ target: "icon:1", drawing: 4 }, /drawing/],
    [{ target: "icon:1", best: 2 }, /best/],
    [{ target: "icon:1", drawing: svg("<image/>") }, /image/],
  ])("a state %j is refused by name", async (state, message) => {
    const world = await make();
    expect(() => world.load?.(state as Json)).toThrow(message);
  });
});
