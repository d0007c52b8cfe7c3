import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { ImageError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { decodeJpeg } from "./jpeg.ts";

/** 16×12, red 15x, green 20y, blue 9(x + y); saved by Pillow 13.0.0. */
const BASELINE =
  "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUVDA8XGBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBT/wAARCAAMABADAREAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwD5U8G/Av8A1f8Ao/6VOGxR5OQcVbe8e7eDfgX/AKv/AEf9K+rw2K8z+kcg4q2949w8G+EdM/d/uK/LsNUlof5lZBmOI094928G+ENM+T9xX1WGqSP6RyDMcRp7x//Z";
const PROGRESSIVE =
  "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAUDBAQEAwUEBAQFBQUGBwwIBwcHBw8LCwkMEQ8SEhEPERETFhwXExQaFRERGCEYGh0dHx8fExciJCIeJBweHx7/2wBDAQUFBQcGBw4ICA4eFBEUHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh7/wgARCAAMABADASIAAhEBAxEB/8QAFAABAAAAAAAAAAAAAAAAAAAABv/EABUBAQEAAAAAAAAAAAAAAAAAAAAE/9oADAMBAAIQAxAAAAEYjQpE3//EABcQAQEBAQAAAAAAAAAAAAAAAAQAAgP/2gAIAQEAAQUCOGOGPyxH5Yv/xAAXEQADAQAAAAAAAAAAAAAAAAAAAwUh/9oACAEDAQE/AY9pmH//xAAWEQEBAQAAAAAAAAAAAAAAAAADAAH/2gAIAQIBAT8BBtv/xAAVEAEBAAAAAAAAAAAAAAAAAAAAMf/aAAgBAQAGPwKIiP/EABYQAQEBAAAAAAAAAAAAAAAAAAAhMf/aAAgBAQABPyHFxYyM/9oADAMBAAIAAwAAABAv/8QAFREBAQAAAAAAAAAAAAAAAAAAAFH/2gAIAQMBAT8QsP/EABURAQEAAAAAAAAAAAAAAAAAAAAh/9oACAECAQE/EIH/xAAWEAEBAQAAAAAAAAAAAAAAAADxABD/2gAIAQEAAT8QIiNzn//Z";
const GREY =
  "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAUDBAQEAwUEBAQFBQUGBwwIBwcHBw8LCwkMEQ8SEhEPERETFhwXExQaFRERGCEYGh0dHx8fExciJCIeJBweHx7/wAALCAAMABABAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/APGfD3gX7v7n9K9G8PeBfu/uf0r0Pw9pFj8v7qvR/D2kWPy/uq//2Q==";
const CMYK =
  "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAbEhQXFBEbFxYXHhwbIChCKyglJShROj0wQmBVZWRfVV1baniZgWpxkHNbXYW1hpCeo6utq2eAvMm6pseZqKuk/8AAFAgADAAQBEMRAE0RAFkRAEsRAP/EAB8AAAEFAQEBAQEBAAAAAAAAAAABAgMEBQYHCAkKC//EALUQAAIBAwMCBAMFBQQEAAABfQECAwAEEQUSITFBBhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJChYXGBkaJSYnKCkqNDU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TFxsfIycrS09TV1tfY2drh4uPk5ebn6Onq8fLz9PX29/j5+v/aAA4EQwBNAFkASwAAPwDJsO1Z39m/7NZltb9OK6aujsO1H9m/7Nattb9OKK5yw7V1HkR+lMtkXjiiujsO1HkR+latsi8cUV//2Q==";

const bytes = (base64: string) => Uint8Array.from(Buffer.from(base64, "base64"));
const digest = (image: Image) => createHash("sha256").update(image.data).digest("hex").slice(0, 16);

describe("decodeJpeg", () => {
  test.each([
    ["a baseline file", BASELINE, "c75419af1f732708"],
    ["a progressive file with subsampled colour", PROGRESSIVE, "3411fe4149ad7ed1"],
    ["a grey file", GREY, "072c080496877f65"],
  ])("gives Pillow's pixels for %s", async (_, file, expected) => {
    const image = await decodeJpeg(bytes(file));
    expect([image.width, image.height]).toEqual([16, 12]);
    expect(digest(image)).toBe(expected);
  });

  test("reads from the middle of a buffer", async () => {
    const padded = Buffer.concat([Buffer.alloc(7), bytes(GREY), Buffer.alloc(3)]);
    const image = await decodeJpeg(padded.subarray(7, padded.length - 3));
    expect(digest(image)).toBe("072c080496877f65");
  });

  test("refuses truncations, and reads good files that come with or after bad ones", async () => {
    const good = bytes(BASELINE);
    const lengths = [0, 2, 3, 20, 150, 300, 600, good.length - 40, good.length - 2];
    const results = await Promise.allSettled(
      lengths.flatMap((length) => [decodeJpeg(good.subarray(0, length)), decodeJpeg(good)]),
    );
    for (const [i, result] of results.entries()) {
      if (i % 2 === 0) expect(result).toMatchObject({ status: "rejected", reason: expect.any(ImageError) });
      else expect(result.status === "fulfilled" && digest(result.value)).toBe("c75419af1f732708");
    }
  });

  test("never ends in anything but an image or an ImageError when a byte is wrong", async () => {
    const good = bytes(GREY);
    for (let at = 0; at < good.length; at += 9) {
      const bad = good.slice();
      bad[at]! ^= 0xff;
      const result = await decodeJpeg(bad).catch((error: unknown) => error);
      expect(result instanceof Image || result instanceof ImageError).toBe(true);
    }
  });

  test("checks the size before decoding", async () => {
    const huge = bytes(GREY);
    const frame = Buffer.from(huge).indexOf(Buffer.from([0xff, 0xc0]));
    huge.set([0xff, 0xff, 0xff, 0xff], frame + 5);
    await expect(decodeJpeg(huge)).rejects.toThrow(/more than \d+ pixels/);
    huge.set([0, 0, 0, 5], frame + 5);
    await expect(decodeJpeg(huge)).rejects.toThrow(/at least 1/);
  });

  test("says what to do with CMYK", async () => {
    await expect(decodeJpeg(bytes(CMYK))).rejects.toThrow(/save it as RGB/);
  });

  test("leaves no ImageData on the global object", async () => {
    await decodeJpeg(bytes(GREY));
    expect("ImageData" in globalThis).toBe(false);
  });
});
