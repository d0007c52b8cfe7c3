/** For tests: episodes that were recorded from VisGym's Python, and a way to play them again. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Image, Json } from "../../src/core/index.ts";
import { type Action, acceptAction, type Outcome, PyTuple, parseLiteral, type World } from "../../src/envs/index.ts";
import { decodePng } from "../../src/images/index.ts";

export type RecordedStep = {
  readonly action: string;
  readonly reward: number;
  readonly terminated: boolean;
  readonly ok: boolean;
  readonly feedback_kind: "done" | "unreadable" | "not_a_pair" | "payload" | "name" | "world";
  /** The original crashed here. */
  readonly raises?: string;
};
export type Recorded<Step, State = Record<string, Json>> = {
  readonly seed: number;
  readonly state: State;
  readonly mode: string;
  readonly plan_len: number;
  readonly steps: readonly (RecordedStep & Step)[];
  readonly frame: { readonly w: number; readonly h: number; readonly sha1: string };
};

export const PHOTOS = fileURLToPath(new URL("./golden/photos", import.meta.url));

/** Recordings lie with their world: `maze_2d_easy` in `maze-2d/golden`. */
function golden(file: string): Buffer {
  const id = file.replace(/_(easy|hard).*$/, "");
  const folder = id.startsWith("fetch_") ? "fetch" : id.replaceAll("_", "-");
  return readFileSync(fileURLToPath(new URL(`../${folder}/golden/${file}`, import.meta.url)));
}

export function recorded<Episode>(file: string): Episode[] {
  return JSON.parse(golden(`${file}.json`).toString()) as Episode[];
}

export function goldenFrame(file: string): Image {
  return decodePng(golden(`${file}.png`));
}

/** The mean absolute difference of two images' bytes. */
export function difference(a: Image, b: Image): number {
  if (a.width !== b.width || a.height !== b.height) return 255;
  return a.data.reduce((sum, value, i) => sum + Math.abs(value - (b.data[i] as number)), 0) / a.data.length;
}

type Read = { readonly action: Action } | { readonly kind: RecordedStep["feedback_kind"] };

/** A recorded string as an action, or why VisGym's rules refuse it. */
export function readRecorded(world: World, text: string): Read {
  const literal = parseLiteral(text);
  if (literal === undefined) return { kind: "unreadable" };
  if (!(literal instanceof PyTuple) || literal.items.length !== 2) return { kind: "not_a_pair" };
  const [name, payload = null] = literal.items;
  const spec = world.actions.find((candidate) => candidate.name === name);
  if (spec === undefined) return { kind: "name" };
  const accepted = acceptAction(spec, payload);
  return accepted.ok ? { action: { name: spec.name, payload: accepted.payload } } : { kind: "payload" };
}

/** Plays a recorded string and says what became of it, in the recording's own terms. */
export async function playRecorded(world: World, text: string): Promise<Omit<RecordedStep, "action">> {
  const read = readRecorded(world, text);
  if ("kind" in read) return { reward: 0, terminated: false, ok: false, feedback_kind: read.kind };
  const { valid, reward, ended }: Outcome = await world.act(read.action);
  return { reward, terminated: ended, ok: valid, feedback_kind: valid ? "done" : "world" };
}
