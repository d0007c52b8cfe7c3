/** Several episodes of a run to take away: as demonstrations, frames inside, and as one film. */
import { DataError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { assistant, image, type Message, type Part, text, user } from "../core/message.ts";
import { type Demo, DemoWriter } from "../envs/index.ts";
import { recordedDemos } from "../rollout/recorded.ts";
import type { TrajectoryRecord } from "../run/trajectories.ts";
import { joinFrames } from "./film.ts";
import type { RunView } from "./run-view.ts";

/** So that what is asked for at once stays within memory. */
export const MAX_SELECTED = 500;
const MAX_FILM_FRAMES = 600;
const [TURN_MS, PAUSE_MS] = [500, 1200];

/** JSON lines for `saccade sft`. */
export async function* demonstrations(view: RunView, keys: readonly string[]): AsyncGenerator<string, void, void> {
  // Frames stand in the rows: no file is written.
  const writer = new DemoWriter("", true);
  for (const key of keys) {
    const { record } = (await view.trajectory(key)) ?? {};
    if (record === undefined) throw new DataError("One of these episodes is no longer there; choose again.");
    for (const demo of await demosOf(view, record)) yield `${writer.row(demo)}\n`;
  }
}

async function demosOf(view: RunView, record: TrajectoryRecord): Promise<Demo[]> {
  if (record.turns.some(({ request }) => request !== undefined))
    return recordedDemos(record, (hash) => view.frame(hash));
  const messages: Message[] = [];
  for (const { observation, frames, reply } of record.turns) {
    messages.push(user(...(await partsOf(view, record.id, observation, frames))), assistant(reply));
  }
  const { env, seed, reward, success } = record;
  return [{ env, seed, messages, reward, success, turns: record.turns.length }];
}

/** A frame stands in the text as "<image>". */
async function partsOf(view: RunView, id: string, told: string, frames: readonly string[]): Promise<Part[]> {
  const parts: Part[] = [];
  for (const [i, words] of told.split("<image>").entries()) {
    const hash = frames[i - 1];
    if (hash !== undefined) {
      const frame = await view.frame(hash);
      if (frame === undefined)
        throw new DataError(`Episode ${id}: its frame ${hash} is not stored, so it can't be learned from.`);
      parts.push(image(frame));
    }
    const plain = words.replace(/^\n/, "").replace(/\n$/, "");
    if (plain !== "") parts.push(text(plain));
  }
  return parts;
}

/** One episode after the other, a pause between them. */
export async function filmOfAll(view: RunView, keys: readonly string[]): Promise<Uint8Array> {
  const [images, delays]: [Image[], number[]] = [[], []];
  for (const key of keys) {
    const { record } = (await view.trajectory(key)) ?? {};
    const turns = record?.turns.map(({ frames, modelFrames = frames }) => modelFrames[0]) ?? [];
    const shown = [...turns, record?.final?.frames[0]].filter((hash) => hash !== undefined);
    for (const [i, hash] of shown.entries()) {
      if (images.length >= MAX_FILM_FRAMES) break;
      const frame = await view.frame(hash).catch(() => undefined);
      if (frame === undefined) continue;
      images.push(frame);
      delays.push(i === shown.length - 1 ? PAUSE_MS : TURN_MS);
    }
  }
  if (images.length === 0)
    throw new DataError("None of these episodes' frames is stored; there is nothing to animate.");
  return joinFrames(images, delays);
}
