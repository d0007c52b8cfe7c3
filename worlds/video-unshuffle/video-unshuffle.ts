/**
 * video_unshuffle (VisGym): frames of a short video in the wrong order, and a label that says what happens in it; put them
 * in the order in which they were filmed, then stop. Only `stop` ends the episode and pays. Which frames are shown is
 * found when they are first looked at, since it takes a look at the whole video.
 */
import { z } from "zod";
import { type Awaitable, type Image, type Json, NumpyRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  defineWorld,
  type Fact,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  type World,
} from "../../src/envs/index.ts";
import { Saved } from "../shared/saved.ts";
import { type Film, type FilmSource, films } from "../shared/scenes/index.ts";
import { type Label, TileOrder, type Tiles } from "../shared/tile-order.ts";

const options = z.strictObject({
  frames: z.int().min(2).max(9).default(4).describe("Number of frames to order."),
  sampling: z
    .enum(["uniform", "salient", "distinct"])
    .default("distinct")
    .describe(
      "Which frames of the video to take: `uniform` evenly spaced, `salient` each different enough from the one before, `distinct` as different as possible.",
    ),
  minDifference: z
    .number()
    .min(0)
    .max(1)
    .default(0.1)
    .describe("With `salient`: smallest mean difference between frames, from 0 (equal) to 1 (black to white)."),
  maxFrames: z.int().min(10).default(10_000).describe("Maximum number of frames of a video to look at, evenly spaced."),
  tile: z.int().min(32).max(512).default(224).describe("Side of each frame, in pixels."),
  folder: z
    .string()
    .optional()
    .describe("Something-Something V2 folder with extracted frames. Without it, the world draws its own clips."),
  solver: z
    .enum(["swap", "reorder"])
    .default("swap")
    .describe("How the oracle solves it: swap by swap, or with one reordering."),
});

export class VideoUnshuffle implements World {
  readonly actions: readonly ActionSpec[];
  readonly #options: z.output<typeof options>;
  readonly #source: FilmSource;
  readonly #tiles: TileOrder;
  #video = "clip:0";
  /** What a loaded episode says of its video; absent: the video's own. */
  #label: string | undefined;
  #positions: readonly number[] | undefined;
  #film: Film | undefined;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.#source = films(given.folder, given.tile);
    const words = {
      thing: "frame",
      right: "You stopped with the frames in the order in which they were filmed.",
      wrong: "You stopped with frames out of order.",
    };
    this.#tiles = new TileOrder(given.frames, given.solver, words, label);
    this.actions = this.#tiles.actions;
    this.reset(0);
  }

  reset(seed: number): void {
    this.#begin(this.#source.pick(seed), undefined, undefined);
    this.#tiles.begin(new NumpyRandom(seed).permutation(this.#options.frames), false);
  }

  #begin(video: string, label: string | undefined, positions: readonly number[] | undefined): void {
    this.#video = video;
    this.#label = label;
    this.#positions = positions;
    this.#film = undefined;
  }

  #open(): Film {
    this.#film ??= this.#source.get(this.#video);
    return this.#film;
  }

  success(): boolean {
    return this.#tiles.success();
  }

  act(action: Action): Outcome {
    return this.#tiles.act(action);
  }

  solve(): Action[] {
    return this.#tiles.solve();
  }

  facts(): Fact[] {
    return this.#tiles.facts();
  }

  observe(mode: ObservationMode): Awaitable<Observation> {
    return this.#tiles.observe(mode, async (): Promise<Tiles> => {
      const positions = await this.#choose();
      return { ordered: await Promise.all(positions.map((position) => this.#open().frame(position))) };
    });
  }

  async #choose(): Promise<readonly number[]> {
    this.#positions ??= await chooseFrames(this.#open(), this.#options);
    return this.#positions;
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const happening = this.#label ?? this.#open().label;
    if (style === "brief") return `Order the frames of "${happening}" in time, then stop.`;
    const { frames } = this.#options;
    const view =
      mode === "text"
        ? `You see ${frames} frames of a short video in characters, brighter places having fuller ones.`
        : `You see ${frames} frames of a short video, side by side.`;
    return (
      `${view} The video shows: "${happening}". The frames lie in slots 1 to ${frames}, from left to right, and were mixed up. ` +
      "Bring them into the order in which they were filmed, the earliest in slot 1, then stop. You succeed if the order is right " +
      "when you stop."
    );
  }

  /** VisGym's `init_state`, its order being the present one. */
  async save(): Promise<Json> {
    return {
      video_id: this.#video,
      label: this.#label ?? this.#open().label,
      shuffled_order: this.#tiles.order.map((frame) => frame + 1),
      frame_positions: await this.#choose(),
      stopped: this.#tiles.stopped,
    };
  }

  load(state: Json): void {
    const saved = new Saved(state, "video_unshuffle", "video_id, label, shuffled_order");
    const { count } = this.#tiles;
    const order = saved.order("shuffled_order", 1, count).map((frame) => frame - 1);
    const positions = saved.has("frame_positions") ? saved.numbers("frame_positions", count) : undefined;
    const [video, label] = [saved.string("video_id"), saved.has("label") ? saved.string("label") : undefined];
    const stopped = saved.boolean("stopped");
    this.#begin(video, label, positions);
    this.#tiles.begin(order, stopped);
  }
}

/** Which frames of a video are shown, in the order of time. */
export async function chooseFrames(
  film: Film,
  {
    frames: count,
    sampling,
    minDifference,
    maxFrames,
  }: Pick<z.output<typeof options>, "frames" | "sampling" | "minDifference" | "maxFrames">,
): Promise<number[]> {
  const step = (film.length - 1) / (count + 1);
  const uniform = Array.from({ length: count }, (_, i) => Math.trunc((i + 1) * step));
  if (sampling === "uniform" || film.length <= count) return uniform;
  const looked = Math.min(film.length, maxFrames);
  const candidates = Array.from({ length: looked }, (_, i) => Math.trunc((i * (film.length - 1)) / (looked - 1)));
  const grey = (index: number) => Promise.resolve(film.glance(index)).then(greyOf);
  if (sampling === "salient") {
    const chosen = [0];
    let last = await grey(0);
    for (const index of candidates.slice(1)) {
      if (chosen.length === count) break;
      const now = await grey(index);
      if (difference(last, now) < minDifference) continue;
      chosen.push(index);
      last = now;
    }
    return chosen.length === count ? chosen : uniform;
  }
  const greys = await Promise.all(candidates.map(grey));
  return mostDistinct(greys, count).map((i) => candidates[i] as number);
}

/** The two that differ most, then one by one what differs most from all that were chosen. */
function mostDistinct(greys: readonly Uint8Array[], count: number): number[] {
  let pair: [number, number] = [0, greys.length - 1];
  let most = -1;
  for (let a = 0; a < greys.length; a++) {
    for (let b = a + 1; b < greys.length; b++) {
      const apart = difference(greys[a] as Uint8Array, greys[b] as Uint8Array);
      if (apart <= most) continue;
      most = apart;
      pair = [a, b];
    }
  }
  const chosen: number[] = [...pair];
  const nearest = greys.map((grey) => Math.min(...pair.map((one) => difference(grey, greys[one] as Uint8Array))));
  while (chosen.length < count) {
    let best = -1;
    nearest.forEach((apart, i) => {
      if (!chosen.includes(i) && (best < 0 || apart > (nearest[best] as number))) best = i;
    });
    chosen.push(best);
    greys.forEach((grey, i) => {
      nearest[i] = Math.min(nearest[i] as number, difference(grey, greys[best] as Uint8Array));
    });
  }
  return chosen.sort((a, b) => a - b);
}

function greyOf({ width, height, data }: Image): Uint8Array {
  const grey = new Uint8Array(width * height);
  for (let i = 0, at = 0; i < grey.length; i++, at += 3) {
    grey[i] = 0.299 * (data[at] as number) + 0.587 * (data[at + 1] as number) + 0.114 * (data[at + 2] as number) + 0.5;
  }
  return grey;
}

/** The mean difference of two frames, from 0 (the same) to 1. */
function difference(a: Uint8Array, b: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += Math.abs((a[i] as number) - (b[i] as number));
  return sum / a.length / 255;
}

/** The slot's number on a box through which the frame still shows a little. */
const label: Label = {
  size(side) {
    const box = Math.max(12, Math.round((side * 28) / 224));
    return [box, box];
  },
  draw(corner, slot) {
    const box = corner.width;
    const { data } = corner;
    for (let i = 0; i < data.length; i++) data[i] = Math.round((data[i] as number) * 0.4);
    corner.text(String(slot), box / 2, box / 2, {
      size: box * 0.8,
      color: [255, 255, 255],
      align: "center",
      baseline: "middle",
      weight: 1.4,
    });
  },
};

const evaluation = { sampling: "salient", minDifference: 0.15, maxFrames: 100 };

export const videoUnshuffle = defineWorld({
  id: "video_unshuffle",
  summary: "put the frames of a short video in order, then stop",
  options,
  difficulties: { easy: { frames: 4 }, hard: { frames: 5 } },
  variants: { eval: { easy: evaluation, hard: evaluation }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new VideoUnshuffle(given),
});
