/**
 * An image in memory: RGB bytes, row by row, three bytes a pixel. PNG and base64 exist only at the edges.
 * An image is never written to after it was made, so it can be shared by turns, siblings and caches; its hash names it.
 */
import { ImageError } from "./errors.ts";
import { sha256 } from "./platform.ts";

/** The most pixels an image may have (64 Mpx, 192 MB of RGB); checked before memory is spent. */
export const MAX_PIXELS = 64 * 1024 * 1024;

export class Image {
  readonly width: number;
  readonly height: number;
  /** RGB, `width * height * 3` bytes. Treat as read-only. */
  readonly data: Uint8Array;
  #hash: string | undefined;

  /** Takes ownership of `data`. `hash`: where it is known already. */
  constructor(width: number, height: number, data: Uint8Array, hash?: string) {
    checkSize(width, height);
    if (data.length !== width * height * 3) {
      throw new ImageError(
        `A ${width}×${height} RGB image has ${width * height * 3} bytes, but ${data.length} were given.`,
      );
    }
    this.width = width;
    this.height = height;
    this.data = data;
    this.#hash = hash;
  }

  /** 32 hexadecimal digits of SHA-256 over size and pixels, computed when first asked for. */
  get hash(): string {
    this.#hash ??= hexadecimal(sha256(`${this.width}x${this.height}:`, this.data).subarray(0, 16));
    return this.#hash;
  }
}

function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Structural, so that images made by another copy of this module are images too. */
export function isImage(value: unknown): value is Image {
  if (value instanceof Image) return true;
  if (typeof value !== "object" || value === null) return false;
  const image = value as Partial<Image>;
  const isSized = typeof image.width === "number" && typeof image.height === "number";
  // Caches go by the hash: a canvas has pixels too, and no name for them.
  return isSized && image.data instanceof Uint8Array && "hash" in value;
}

/** What to do with something that was given in an image's place; empty where it is not known. */
export function imageHint(value: unknown): string {
  if (typeof value === "string") {
    return ` Read a file with await readImage(${JSON.stringify(value)}) of "saccade/images".`;
  }
  if (value instanceof Uint8Array) return " Decode the bytes of a PNG or JPEG with await decodeImage(bytes).";
  if (typeof value !== "object" || value === null) return "";
  if ("toImage" in value) return " Call its toImage().";
  return "data" in value ? " Make it with new Image(width, height, data), data being RGB bytes." : "";
}

/** Throws unless `width × height` is a size we are willing to hold. */
export function checkSize(width: number, height: number): void {
  if (!Number.isInteger(width) || !Number.isInteger(height) || width < 1 || height < 1) {
    throw new ImageError(`An image needs a whole width and height of at least 1, got ${width}×${height}.`);
  }
  if (width * height > MAX_PIXELS) {
    throw new ImageError(
      `A ${width}×${height} image has more than ${MAX_PIXELS} pixels; make it smaller before loading it.`,
    );
  }
}
