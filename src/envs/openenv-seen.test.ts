/** Images in OpenEnv observations, in every form in use, and the text around them. */
import { describe, expect, test } from "vitest";
import { Image } from "../core/image.ts";
import type { JsonObject } from "../core/json.ts";
import { encodePng } from "../images/png.ts";
import { observationParts } from "./openenv-seen.ts";

const frame = new Image(
  10,
  12,
  Uint8Array.from({ length: 360 }, (_, i) => (i * 7) % 256),
);
const lists = Array.from({ length: 12 }, (_, y) =>
  Array.from({ length: 10 }, (_, x) => [...frame.data.subarray((y * 10 + x) * 3, (y * 10 + x) * 3 + 3)]),
);
const base64 = Buffer.from(encodePng(frame)).toString("base64");
const seen = async (observation: JsonObject, fields?: string[]) =>
  (await observationParts(observation, fields)).map((part) => (part.type === "text" ? part.text : part.image.hash));

describe("an observation", () => {
  test.each<[string, JsonObject]>([
    ["nested lists", { screenshot: lists }],
    ["nested lists with a channel of opacity", { screenshot: lists.map((row) => row.map((pixel) => [...pixel, 255])) }],
    ["a data URI", { screenshot: `data:image/png;base64,${base64}` }],
    ["base64 of a file", { image_b64: base64 }],
    ["MCP's image content", { result: { content: [{ type: "image", data: base64, mimeType: "image/png" }] } }],
    ["a list of images", { frames: [base64] }],
  ])("with %s shows the image", async (_, observation) => {
    expect(await seen({ ...observation, metadata: { a: 1 }, done: false })).toContain(frame.hash);
  });

  test("with one text says it plainly, with marks for images in their places; several fields are JSON", async () => {
    expect(await seen({ text: "You are here." })).toEqual(["You are here."]);
    expect(await seen({ text: "See <image> and go.", images: [base64] })).toEqual(["See ", frame.hash, " and go."]);
    expect(await seen({ a: "x", b: 2 })).toEqual(['{"a":"x","b":2}']);
    expect(await seen({ url: "http://x", shot: base64, n: 1 })).toEqual([
      '{"url":"http://x","shot":"<image> 1","n":1}',
      frame.hash,
    ]);
    expect(await seen({})).toEqual(["(nothing)"]);
  });

  test("does not take a small board, features or broken rows for an image, unless the field is named", async () => {
    const board = [
      [
        [0, 1, 2],
        [3, 4, 5],
      ],
    ];
    expect(await seen({ board })).toEqual(['{"board":[[[0,1,2],[3,4,5]]]}']);
    expect((await seen({ board }, ["board"])).join()).not.toContain("[");
    expect((await seen({ shot: lists }, [])).join()).not.toContain(frame.hash);
    const ragged = lists.map((row, i) => (i === 3 ? row.slice(1) : row));
    expect(await seen({ ragged })).not.toContain(frame.hash);
    expect(await seen({ far: lists.map((row) => row.map((pixel) => pixel.map((value) => value * 2))) })).toHaveLength(
      1,
    );
  });

  test("of shares of 1 is scaled to bytes", async () => {
    const shares = lists.map((row) => row.map((pixel) => pixel.map((value) => value / 255)));
    expect(await seen({ screenshot: shares })).toEqual([frame.hash]);
  });
});
