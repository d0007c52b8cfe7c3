/**
 * What a model is given, on every engine: ids, and the images whose placeholders lie among them. A renderer that has already turned an image into
 * numbers (a server's render route) hands them along, and every engine uses them as they are, so that all see the same pixels.
 */
import type { Image } from "./image.ts";

/** A processed image: rows of patches in merge-block order. */
export type Features = {
  /** Names the content, as `Image.hash` names an image's. */
  readonly hash: string;
  /** Frames, and patches down and across. */
  readonly grid: readonly [time: number, height: number, width: number];
  readonly dtype: "uint8" | "bfloat16" | "float32";
  readonly data: Uint8Array;
};

/** Ids start..start+length-1 are that image's placeholders. */
export type ImageSpan = {
  readonly start: number;
  readonly length: number;
  readonly image: Image;
  readonly features?: Features;
};
export type ModelInput = { readonly ids: Int32Array; readonly images: readonly ImageSpan[] };

/** What an image is remembered by: the numbers a model gets, where they are known, else the pixels. */
export function nameOf({ image, features }: Pick<ImageSpan, "image" | "features">): string {
  return features === undefined ? image.hash : `features:${features.hash}`;
}
