/**
 * Where worlds get their videos: clips of our own by default, or a folder laid out like Something-Something V2 with its
 * frames taken out: `labels/train.json` (a list of `{ id, label }`) and `frames/<id>/*.jpg` or `.png`, in the order of
 * their names. A film's stable name is `clip:<seed>` or its id.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import {
  type Awaitable,
  ConfigError,
  DataError,
  EnvError,
  type Image,
  isJsonObject,
  type Json,
  NumpyRandom,
} from "../../../src/core/index.ts";
import { decodeImage, resize } from "../../../src/images/index.ts";
import { clip } from "./clip.ts";
import { filesIn, sceneSeed } from "./source.ts";

export type Film = {
  readonly label: string;
  readonly length: number;
  /** A frame, `side` pixels wide and high. */
  frame(index: number): Awaitable<Image>;
  /** The same frame, perhaps smaller, for telling how much frames differ. */
  glance(index: number): Awaitable<Image>;
};
export type FilmSource = { pick(seed: number): string; get(name: string): Film };

/** Clips are compared at this size; it is all the same to how much of the image changes. */
const GLANCE = 48;

export function films(folder: string | undefined, side: number): FilmSource {
  return folder === undefined ? new Clips(side) : new Films(folder, side);
}

class Clips implements FilmSource {
  readonly #side: number;

  constructor(side: number) {
    this.#side = side;
  }

  pick(seed: number): string {
    return `clip:${seed}`;
  }

  get(name: string): Film {
    const seed = sceneSeed(name, "clip");
    if (seed === undefined) {
      throw new EnvError(
        `"${name}" is a video of a data set: give the option "folder", the folder that holds its frames.`,
      );
    }
    const film = clip(seed, { width: this.#side, height: this.#side });
    const small = clip(seed, { width: GLANCE, height: GLANCE });
    return { ...film, glance: (index) => small.frame(index) };
  }
}

class Films implements FilmSource {
  readonly #root: string;
  readonly #side: number;
  readonly #clips: Clips;
  readonly #labels: ReadonlyMap<string, string>;

  constructor(folder: string, side: number) {
    this.#root = resolve(folder);
    this.#side = side;
    this.#clips = new Clips(side);
    this.#labels = readLabels(join(this.#root, "labels", "train.json"));
    const frames = join(this.#root, "frames");
    this.#labels = new Map([...this.#labels].filter(([id]) => existsSync(join(frames, id))));
    if (this.#labels.size === 0) {
      throw new ConfigError(
        `There are no frames in ${frames}: extract them from the videos, for example with ` +
          "`mkdir -p frames/ID && ffmpeg -i ID.webm frames/ID/%05d.jpg`.",
      );
    }
  }

  pick(seed: number): string {
    const ids = [...this.#labels.keys()];
    return ids[new NumpyRandom(seed).integers(0, ids.length)] as string;
  }

  get(name: string): Film {
    if (sceneSeed(name, "clip") !== undefined) return this.#clips.get(name);
    const label = this.#labels.get(name);
    if (label === undefined) throw new EnvError(`The video ${name} has no label or no frames in ${this.#root}.`);
    const folder = join(this.#root, "frames", name);
    const files = filesIn(folder, [".jpg", ".jpeg", ".png"]);
    if (files.length === 0) throw new DataError(`There are no frames (JPEG or PNG) in ${folder}.`);
    const frame = async (index: number) => {
      const bytes = readFileSync(join(folder, files[index] as string));
      return resize(await decodeImage(bytes), this.#side, this.#side, "bilinear");
    };
    return { label, length: files.length, frame, glance: frame };
  }
}

/** Labels by id, sorted by id as VisGym does. */
function readLabels(file: string): Map<string, string> {
  let rows: Json;
  try {
    rows = JSON.parse(readFileSync(file, "utf8")) as Json;
  } catch (error) {
    throw new ConfigError(`${file} can't be read: it must be a JSON list of { id, label }.`, { cause: error });
  }
  const labels = (Array.isArray(rows) ? rows : []).flatMap((row): [string, string][] => {
    if (!isJsonObject(row) || typeof row.label !== "string") return [];
    // An id becomes a folder's name.
    const id = String(row.id);
    return /^[\w-]+$/.test(id) ? [[id, row.label]] : [];
  });
  return new Map(labels.sort(([a], [b]) => (a < b ? -1 : 1)));
}
