/** Episodes on web pages, in the viewer: the click is drawn where it landed, on the element that it hit; what was typed is told; the pointer goes along. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { evaluateModel } from "../src/evaluate/index.ts";
import "../src/index.ts";
import { CHROMIUM, hasBrowser } from "./fixture/browser.ts";
import { OpenViewer } from "./fixture/viewer.ts";
import { href } from "./route.ts";

if (!hasBrowser && (process.env.SACCADE_REQUIRE ?? "").split(",").includes("browser")) {
  test("a browser is there", () =>
    expect.fail(`SACCADE_REQUIRE asks for a browser, and there is none at ${CHROMIUM}.`));
}

describe.skipIf(!hasBrowser)("an episode on a web page", () => {
  let folder: string;
  let viewer: OpenViewer;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "saccade-click-"));
    await evaluateModel({
      model: "agent:oracle",
      envs: ["pages/login"],
      // Frames are wider and higher than the page: marks have to go with the page.
      options: { variant: "hard", frameMultiple: 96 },
      seeds: [1],
      out: join(folder, "runs", "login"),
    });
    viewer = await OpenViewer.open(folder);
  }, 120_000);
  afterAll(async () => {
    await viewer?.close();
    await rm(folder, { recursive: true, force: true });
  });

  test("draws the pointer and the element at their places, and says what was typed", async () => {
    const { source } = viewer;
    const { rows } = await source.trajectories("login", {});
    const { record } = await source.trajectory("login", rows[0]?.key ?? "");
    const clicked = record.turns.findIndex(({ marks }) => marks?.[0]?.action === "click");
    const typed = record.turns.findIndex(({ marks }) => marks?.[0]?.action === "type");
    expect(Math.min(clicked, typed)).toBeGreaterThanOrEqual(0);
    const [mark] = record.turns[clicked]?.marks ?? [];
    const { x = -1, y = -1, box = [1, 1, 0, 0] } = mark ?? {};
    // The page is 320 by 256 in a frame of 384 by 288, and its click hit what it names.
    expect([x > box[0], x < box[0] + box[2], y > box[1], y < box[1] + box[3]]).toEqual([true, true, true, true]);
    expect(box[0] + box[2]).toBeLessThanOrEqual(320 / 384);
    const page = (turn: number) => href(["run", "login", "episode", rows[0]?.key ?? "", turn]);
    await viewer.visit(page(clicked), async (view) => {
      const image = await view.locator(".frame.large").boundingBox();
      await view.waitForSelector(".marks .click");
      const circle = await view.locator(".marks .click").first().boundingBox();
      const hit = await view.locator(".marks .hit").first().boundingBox();
      if (image === null || circle === null || hit === null) throw new Error("nothing is drawn");
      // The frame fills the width of its box and stands in the middle of its height.
      const [width, height] = [image.width, (image.width * 288) / 384];
      const top = image.y + (image.height - height) / 2;
      expect(circle.x + circle.width / 2).toBeCloseTo(image.x + x * width, -0.5);
      expect(circle.y + circle.height / 2).toBeCloseTo(top + y * height, -0.5);
      expect(hit.width).toBeGreaterThan(width * box[2] * 0.9);
      await expect.poll(() => view.locator(".marks .pointer").count()).toBe(1);
      await expect.poll(() => view.locator(".pointed-words").textContent()).toMatch(/^click on \w+/);
      await view.goto(viewer.url + page(typed));
      await view.waitForSelector(".pointed-words");
      await expect
        .poll(() => view.locator(".pointed-words").textContent())
        .toBe(`type ${JSON.stringify(record.turns[typed]?.marks?.[0]?.text)}`);
    });
  }, 120_000);
});
