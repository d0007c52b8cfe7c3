import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ConfigError, EnvError, Image } from "../../../src/core/index.ts";
import { encodePng } from "../../../src/images/index.ts";
import { clip } from "./clip.ts";
import { COUNTABLE, countingScene, pictures, referringScene, type Scene, scene } from "./index.ts";
import { lookFor } from "./test-look.ts";

const size = { width: 128, height: 96 };

/** Pixels of each object, straight from the id buffer. */
function census({ ids }: Scene): Map<number, number> {
  const pixels = new Map<number, number>();
  for (const id of ids) if (id !== 0) pixels.set(id, (pixels.get(id) ?? 0) + 1);
  return pixels;
}

describe("scenes", () => {
  // The bytes were recorded once; a machine or an engine that draws others can't exchange episodes by name.
  test("a seed has the recorded bytes on every machine", () => {
    const hashes = [
      ...[0, 1, 2, 3, 4, 5, 6, 7, 4_294_967_296, 9_007_199_254_740_991].map((seed) => scene(seed, size).picture.hash),
      countingScene(5, "sheep", 6, size).picture.hash,
      referringScene(5, size).scene.picture.hash,
      clip(5, { width: 64, height: 64 }).frame(30).hash,
    ];
    expect(hashes).toEqual(RECORDED);
  });

  test("a scene is the same whatever was drawn before it", () => {
    const first = scene(11, size);
    scene(12, size);
    countingScene(3, "cow", 4, size);
    const again = scene(11, size);
    expect(again.picture.hash).toBe(first.picture.hash);
    expect(again.objects).toEqual(first.objects);
  });

  test("neighbouring seeds give different pictures, and all places are seen", () => {
    const scenes = Array.from({ length: 60 }, (_, seed) => scene(seed, { width: 64, height: 48 }));
    expect(new Set(scenes.map(({ picture }) => picture.hash)).size).toBe(60);
    expect(new Set(scenes.map(({ backdrop }) => backdrop)).size).toBe(8);
  });

  test("objects are what the id buffer shows: pixels, centre and box", () => {
    for (let seed = 0; seed < 20; seed++) {
      const it = scene(seed, size);
      const pixels = census(it);
      expect([...pixels.keys()].sort((a, b) => a - b)).toEqual(it.objects.map(({ id }) => id));
      for (const object of it.objects) {
        expect(object.pixels).toBe(pixels.get(object.id));
        const { x, y, width, height } = object.box;
        const [cx, cy] = object.centre;
        expect(cx >= x && cx < x + width && cy >= y && cy < y + height).toBe(true);
      }
    }
  });

  test("a picture is detailed at every scale: crops of a ninth still hold many colours", () => {
    for (let seed = 0; seed < 12; seed++) {
      const { picture } = scene(seed, { width: 240, height: 180 });
      const colors = new Set<number>();
      for (let y = 100; y < 160; y++) {
        for (let x = 80; x < 160; x++) {
          const i = (y * 240 + x) * 3;
          colors.add(
            ((picture.data[i]! >> 2) << 12) | ((picture.data[i + 1]! >> 2) << 6) | (picture.data[i + 2]! >> 2),
          );
        }
      }
      expect(colors.size, `seed ${seed}`).toBeGreaterThan(60);
    }
  });
});

describe("counting scenes", () => {
  test("hold exactly the number asked for, each clearly seen", () => {
    let strangers = 0;
    for (let seed = 0; seed < 80; seed++) {
      const kind = COUNTABLE[(seed * 7) % COUNTABLE.length] as string;
      const count = 2 + ((seed * 11) % 29);
      const it = countingScene(seed, kind, count, { width: 320, height: 240 });
      const pixels = census(it);
      const those = it.objects.filter((object) => object.kind === kind);
      expect(those, `${count} × ${kind}`).toHaveLength(count);
      for (const { id } of those) expect(pixels.get(id), `${count} × ${kind}, seed ${seed}`).toBeGreaterThanOrEqual(24);
      strangers += it.objects.length - count;
    }
    expect(strangers).toBeGreaterThan(160);
  });

  test("an unknown kind is refused with the kinds there are", () => {
    expect(() => countingScene(0, "tree", 3)).toThrow("sheep");
  });
});

describe("named objects", () => {
  test("the phrase fits the target and nothing else, and says nothing about places", () => {
    let attributes = 0;
    for (let seed = 0; seed < 150; seed++) {
      const { scene: it, target, phrase } = referringScene(seed, size);
      expect(phrase).not.toMatch(/left|right|top|bottom|behind|front|near|middle/);
      expect(lookFor(phrase, it), phrase).toEqual([target.id]);
      if (phrase !== target.kind) attributes += 1;
    }
    expect(attributes).toBeGreaterThan(120);
  });
});

describe("clips", () => {
  test("every pair of frames that a puzzle would show differs, whichever way it is played", () => {
    const labels = new Set<string>();
    for (let seed = 0; seed < 24; seed++) {
      const film = clip(seed, { width: 64, height: 64 });
      labels.add(film.label.replace(/the .*? (from|coming|going|until|up|closer|away|next|rising)/, "$1"));
      const hashes = [6, 18, 30, 42, 54].map((index) => film.frame(index).hash);
      expect(new Set(hashes).size, film.label).toBe(5);
      expect(film.frame(18).hash).toBe(hashes[1]);
    }
    expect(labels.size).toBeGreaterThan(8);
  });
});

describe("sources", () => {
  const folder = mkdtempSync(join(tmpdir(), "saccade-pictures-"));
  mkdirSync(join(folder, "sub"));
  const red = new Image(2, 2, new Uint8Array(12).fill(200));
  writeFileSync(join(folder, "b.png"), encodePng(red));
  writeFileSync(join(folder, "sub", "a.PNG"), encodePng(new Image(1, 1, new Uint8Array(3))));
  writeFileSync(join(folder, "notes.txt"), "no picture");

  test("a folder's pictures have their relative paths as names, chosen by seed alone", async () => {
    const source = pictures(folder, size);
    const names = Array.from({ length: 30 }, (_, seed) => source.pick(seed));
    expect(new Set(names)).toEqual(new Set(["b.png", "sub/a.PNG"]));
    expect(Array.from({ length: 30 }, (_, seed) => pictures(folder, size).pick(seed))).toEqual(names);
    expect((await source.get("b.png")).hash).toBe(red.hash);
  });

  test("names cross over: scenes load with a folder, and absolute paths of another machine find the same file", async () => {
    const source = pictures(folder, size);
    expect((await source.get("scene:3")).hash).toBe(scene(3, size).picture.hash);
    expect((await source.get("/elsewhere/data/sub/a.PNG")).width).toBe(1);
  });

  test("JPEG photos are read, awaited", async () => {
    const jpeg = join(mkdtempSync(join(tmpdir(), "saccade-jpeg-")), "photo.jpg");
    writeFileSync(jpeg, Buffer.from(GREY_JPEG, "base64"));
    const source = pictures(join(jpeg, ".."), size);
    expect((await source.get(source.pick(0))).width).toBe(16);
  });

  test("what is missing or outside the folder is refused with what to do", () => {
    const source = pictures(folder, size);
    expect(() => source.get("nothing.png")).toThrow(EnvError);
    expect(() => source.get("../secret.png")).toThrow("is not in");
    expect(() => pictures(undefined, size).get("b.png")).toThrow('"folder"');
    expect(() => pictures(join(folder, "none"), size)).toThrow(ConfigError);
    expect(() => source.get("scene:x")).toThrow("scene:7");
  });
});

/** 16×12, saved by Pillow. */
const GREY_JPEG =
  "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAUDBAQEAwUEBAQFBQUGBwwIBwcHBw8LCwkMEQ8SEhEPERETFhwXExQaFRERGCEYGh0dHx8fExciJCIeJBweHx7/wAALCAAMABABAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/APGfD3gX7v7n9K9G8PeBfu/uf0r0Pw9pFj8v7qvR/D2kWPy/uq//2Q==";

const RECORDED: readonly string[] = [
  "35073a73273aa0498c6874f46223dc22",
  "219323b1cb7ec40fe4b77ba162003c00",
  "1ab2e1c93b939c3e84b4b1f5f7228e51",
  "2a4f17752d5871e4880c893f3a8f44f8",
  "27ed2acc6027d784b35e2c28428f1f95",
  "a20f0045fd13ba4efeba24ecd2b51c1c",
  "b8706e2db0a08da01042c556ea7830c3",
  "97b5f40c9d13c000dea9edc6e1488ac2",
  "ca3945d3675d04b39372192867d14be1",
  "cd6ff9ed90003c63ce990874adb720b3",
  "90373e6d05a8e4de5ac2ee2b48f7bb62",
  "d87d7bd473da9dc861c0a899a37c1470",
  "1e68ffe75972128cd82a952ab3a8a23f",
];
