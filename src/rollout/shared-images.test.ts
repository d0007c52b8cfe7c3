import { expect, test } from "vitest";
import { Canvas } from "../images/canvas.ts";
import { pngDataUri } from "../images/openai.ts";
import { sharedImage } from "./shared-images.ts";

const pixel = (red: number) => pngDataUri(new Canvas(4, 4, [red, 0, 0]).toImage());

test("an image that several episodes send is decoded once, at the same time or later", async () => {
  const url = pixel(1);
  const [one, two] = await Promise.all([sharedImage(url, "a"), sharedImage(url, "a")]);
  expect(two).toBe(one);
  expect(await sharedImage(url, "a")).toBe(one);
  const other = await sharedImage(pixel(2), "b");
  expect(other).not.toBe(one);
  expect([...other.data.slice(0, 3)]).toEqual([2, 0, 0]);
});

test("an image that can't be read is refused every time, in words", async () => {
  for (let time = 0; time < 2; time++) {
    await expect(sharedImage("data:image/png;base64,AAAA", "broken")).rejects.toThrow(/PNG|image/);
  }
  expect((await sharedImage(pixel(3), "broken")).width).toBe(4);
});
