/** A saved episode as an animated GIF: the first image of every turn, and the one after the last reply. */
import { setImmediate as nextTick } from "node:timers/promises";
import { DataError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { encodeGif } from "../images/gif.ts";
import type { TrajectoryRecord } from "../run/trajectories.ts";
import type { RunView } from "./run-view.ts";

const MAX_FRAMES = 500;
/** How long the last frame shows. */
const LAST_MS = 2000;
/** Header and loop extension of what `encodeGif` writes, and the byte that ends it. */
const [HEAD, TAIL] = [13 + 19, 1];

export async function filmOf(
  view: RunView,
  record: TrajectoryRecord,
  { delayMs = 500, frames = "model" as "model" | "env" } = {},
): Promise<Uint8Array> {
  const shown = [
    ...record.turns.map((turn) => (frames === "model" ? (turn.modelFrames ?? turn.frames) : turn.frames)[0]),
    record.final?.frames[0],
  ].filter((hash) => hash !== undefined);
  const images: Image[] = [];
  for (const hash of shown.slice(0, MAX_FRAMES)) {
    const image = await view.frame(hash).catch(() => undefined);
    if (image !== undefined) images.push(image);
  }
  if (images.length === 0) throw new DataError("None of this episode's frames is stored; there is nothing to animate.");
  return joinFrames(
    images,
    images.map((_, i) => (i < images.length - 1 ? delayMs : LAST_MS)),
  );
}

/** `encodeGif` frame by frame, so that others get the thread in between. Frames of different sizes are encoded at once. */
export async function joinFrames(images: readonly Image[], delays: readonly number[]): Promise<Uint8Array> {
  const [first] = images;
  const same = images.every(({ width, height }) => width === first?.width && height === first.height);
  if (!same) return encodeGif(images, { delayMs: delays });
  const pieces: Uint8Array[] = [];
  for (const [i, image] of images.entries()) {
    const gif = encodeGif([image], { delayMs: delays[i] as number });
    const from = i === 0 ? 0 : HEAD;
    pieces.push(gif.subarray(from, i === images.length - 1 ? gif.length : gif.length - TAIL));
    await nextTick();
  }
  return Buffer.concat(pieces);
}
