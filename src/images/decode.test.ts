import { describe, expect, test } from "vitest";
import { ImageError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { decodeImage } from "./decode.ts";
import { encodePng } from "./png.ts";

/** 16×12, grey. */
const JPEG =
  "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAUDBAQEAwUEBAQFBQUGBwwIBwcHBw8LCwkMEQ8SEhEPERETFhwXExQaFRERGCEYGh0dHx8fExciJCIeJBweHx7/wAALCAAMABABAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/APGfD3gX7v7n9K9G8PeBfu/uf0r0Pw9pFj8v7qvR/D2kWPy/uq//2Q==";

describe("decodeImage", () => {
  test("tells PNG and JPEG apart by their bytes", async () => {
    const image = new Image(2, 1, Uint8Array.of(1, 2, 3, 4, 5, 6));
    expect((await decodeImage(encodePng(image))).data).toEqual(image.data);
    expect((await decodeImage(Buffer.from(JPEG, "base64"))).width).toBe(16);
  });

  test.each([
    ["GIF89a......", "a GIF"],
    ["RIFF\x01\x02\x03\x04WEBPVP8 ", "a WebP"],
    ["BM......", "a BMP"],
    ["II*\0....", "a TIFF"],
    ["\0\0\0\x1cftypavif", "an AVIF"],
    ["\0\0\0\x1cftypheic", "a HEIC"],
    ["<svg xmlns=", "text (SVG or HTML)"],
    ["", "empty"],
    ["what is this", "of an unknown format"],
  ])("names the format of %j and asks for PNG or JPEG", async (start, name) => {
    const result = decodeImage(Buffer.from(start, "latin1"));
    await expect(result).rejects.toThrow(ImageError);
    await expect(result).rejects.toThrow(`This image is ${name}. Convert it to PNG or JPEG first.`);
  });
});
