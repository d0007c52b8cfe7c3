/**
 * referring_dot_pointing (VisGym): put a dot on the thing that a phrase describes ("striped mug", "smaller red car"), then
 * stop. A new dot replaces the last. Only `stop` ends the episode and pays: 1 if the dot lies on the thing. Scenes and
 * phrases are our own, or RefCOCO+'s photos, expressions (a pickle) and polygons.
 */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import {
  type Awaitable,
  ConfigError,
  EnvError,
  Image,
  isJsonObject,
  type Json,
  NumpyRandom,
} from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  act,
  defineWorld,
  type Fact,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  stopAction,
  type World,
} from "../../src/envs/index.ts";
import { copyBytes, shades } from "../../src/images/index.ts";
import { type Dot, factsOf, isBright, listThings, PLACE, paintDot, pixelAt, placeOf } from "../shared/dots.ts";
import { Saved } from "../shared/saved.ts";
import { maskOf, readRows } from "../shared/scenes/coco.ts";
import { Dice } from "../shared/scenes/dice.ts";
import { keepScene, pictures, referringScene, type Scene, sceneSeed, when } from "../shared/scenes/index.ts";
import { readPickle } from "../shared/scenes/pickle.ts";
import { restOf, type Script } from "../shared/script.ts";

const options = z.strictObject({
  radius: z.int().min(1).max(30).default(5).describe("Radius of the dot, in pixels."),
  acceptAnyOfKind: z.boolean().default(false).describe("Accept any object of the same kind."),
  folder: z
    .string()
    .optional()
    .describe(
      "RefCOCO+ folder with `refs(<split>).p` or `refs.json`, and `instances.json`. Without it, the world draws its own scenes.",
    ),
  images: z
    .string()
    .optional()
    .describe("Folder of the RefCOCO+ photos. Without it, they are looked for below `folder`."),
  split: z.string().default("unc").describe("RefCOCO+ split."),
  size: z
    .tuple([z.int().min(96).max(2048), z.int().min(96).max(2048)])
    .default([320, 240])
    .describe("Width and height of the scenes that the world draws, in pixels."),
  solverSteps: z
    .int()
    .min(1)
    .max(100)
    .default(3)
    .describe("Number of dots that the oracle places, each nearer to the middle of the object."),
  solverDecimals: z
    .int()
    .min(0)
    .max(4)
    .default(4)
    .describe("Decimals of the oracle's places, where they still hit the object."),
});

type Id = string | number;
type Subject = {
  readonly phrase: string;
  readonly width: number;
  readonly height: number;
  /** 1 where a dot is right. */
  readonly mask: Uint8Array;
  readonly scene?: Scene;
};
type Source = {
  pick(seed: number): Id;
  open(id: Id, sentence: number): Subject;
  picture(id: Id): Awaitable<Image>;
};

export class ReferringDotPointing implements World {
  readonly actions: readonly ActionSpec[] = [
    {
      name: "mark",
      description:
        "put the dot at shares of the picture's width and height, from the top left corner; it replaces the last one",
      arg: PLACE,
      example: [0.25, 0.6],
    },
    stopAction("end the episode, once the dot is on the thing"),
  ];
  readonly #options: z.output<typeof options>;
  readonly #source: Source;
  #id: Id = 0;
  #sentence = 0;
  #mark: readonly [number, number] | null = null;
  #moves = 0;
  #stopped = false;
  #subject: Subject | undefined;
  #frame: Image | undefined;
  #script: Script | undefined;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.#source = given.folder === undefined ? new Scenes(given) : new RefCoco(given.folder, given);
    this.reset(0);
  }

  reset(seed: number): void {
    this.#begin(this.#source.pick(seed), 0, null, 0, false);
  }

  #begin(id: Id, sentence: number, mark: readonly [number, number] | null, moves: number, stopped: boolean): void {
    this.#id = id;
    this.#sentence = sentence;
    this.#mark = mark;
    this.#moves = moves;
    this.#stopped = stopped;
    this.#subject = undefined;
    this.#frame = undefined;
    this.#script = undefined;
  }

  /** Scenes are drawn when something needs them. */
  #open(): Subject {
    this.#subject ??= this.#source.open(this.#id, this.#sentence);
    return this.#subject;
  }

  success(): boolean {
    return this.#stopped && this.#hits();
  }

  /** Whether the dot is where it should be. */
  #hits(): boolean {
    if (this.#mark === null) return false;
    const { mask, width, height } = this.#open();
    const [x, y] = pixelAt(this.#mark, { width, height });
    return mask[y * width + x] === 1;
  }

  act({ name, payload }: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (name === "stop") {
      this.#stopped = true;
      if (this.#mark === null) return { valid: true, feedback: "You stopped without a dot.", reward: 0, ended: true };
      return this.success()
        ? { valid: true, feedback: "You stopped with the dot on the right thing.", reward: 1, ended: true }
        : { valid: true, feedback: "You stopped with the dot somewhere else.", reward: 0, ended: true };
    }
    this.#mark = payload as [number, number];
    this.#moves += 1;
    return { valid: true, reward: 0, ended: false };
  }

  observe(mode: ObservationMode): Awaitable<Observation> {
    const { scene } = this.#open();
    if (mode === "text" && scene !== undefined) return this.#text(listThings(scene));
    const draw = (picture: Image) => {
      this.#frame = picture;
      return mode === "text" ? this.#text(shades(picture, 72)) : this.#draw(picture);
    };
    return this.#frame === undefined ? when(this.#source.picture(this.#id), draw) : draw(this.#frame);
  }

  #draw(picture: Image): Image {
    if (this.#mark === null) return picture;
    const dot = pixelAt(this.#mark, picture);
    const bytes = copyBytes(picture.data);
    paintDot(bytes, picture, dot, this.#options.radius, isBright(picture, dot) ? [0, 255, 0] : [255, 0, 0]);
    return new Image(picture.width, picture.height, bytes);
  }

  /** VisGym has no text view of this world; ours lists what is in a scene, or sketches a photo in characters. */
  #text(seen: string): string {
    return `${seen}\ndot: ${this.#mark === null ? "none" : `(${this.#mark.join(", ")})`}`;
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { phrase } = this.#open();
    if (style === "brief") return `Put the dot on: ${phrase}. Then stop.`;
    const view = mode === "text" ? "You are told what is in a picture." : "You see a picture.";
    return (
      `${view} Put a dot on the thing that these words describe: "${phrase}". Places are shares of the picture's width and ` +
      "height: (0, 0) is the top left corner, (1, 1) the bottom right one. You may move the dot as often as you like; then stop. You " +
      "succeed if the dot lies on that thing when you stop."
    );
  }

  facts(): Fact[] {
    const { scene } = this.#open();
    return scene === undefined ? [] : factsOf(scene);
  }

  solve(): Action[] {
    if (this.#stopped) return [];
    this.#script ??= this.#plan();
    const rest = restOf(this.#script, this.#moves, JSON.stringify(this.#mark));
    if (rest !== undefined) return rest;
    return this.#hits() ? [act("stop")] : (this.#script.plan.slice(-2) as Action[]);
  }

  /** From some point of the thing in even steps to its middle, or to the point of it that is nearest to the middle. */
  #plan(): Script {
    const { mask, width, height } = this.#open();
    const { solverSteps, solverDecimals } = this.#options;
    const pixels: number[] = [];
    mask.forEach((inside, i) => {
      if (inside === 1) pixels.push(i);
    });
    if (pixels.length === 0) return { plan: [act("stop")], states: [] };
    const at = (i: number): Dot => [i % width, Math.floor(i / width)];
    const mean = (k: 0 | 1) => pixels.reduce((sum, i) => sum + at(i)[k], 0) / pixels.length;
    const middle = [mean(0), mean(1)] as const;
    const away = (i: number) => (at(i)[0] - middle[0]) ** 2 + (at(i)[1] - middle[1]) ** 2;
    const goal = at(pixels.reduce((best, i) => (away(i) < away(best) ? i : best)));
    const from = at(new Dice(pixels.length, `${this.#id}`).pick(pixels));
    const marks = Array.from({ length: solverSteps }, (_, i) => {
      const t = (i + 1) / solverSteps;
      const along = (k: 0 | 1) => Math.round(from[k] + (goal[k] - from[k]) * t);
      const exact = placeOf([along(0), along(1)], { width, height });
      const coarse = exact.map((one) => Number(one.toFixed(solverDecimals))) as [number, number];
      const [x, y] = pixelAt(coarse, { width, height });
      return mask[y * width + x] === 1 ? coarse : exact;
    });
    return {
      plan: [...marks.map((place) => act("mark", place)), act("stop")],
      states: [null, ...marks].map((mark) => JSON.stringify(mark)),
    };
  }

  /** VisGym's `init_state`, and what has been played since. */
  save(): Json {
    return {
      ref_id: this.#id,
      sentence_idx: this.#sentence,
      mark: this.#mark,
      moves: this.#moves,
      stopped: this.#stopped,
    };
  }

  load(state: Json): void {
    const saved = new Saved(state, "referring_dot_pointing", "ref_id, sentence_idx");
    const id = saved.get("ref_id");
    if (typeof id !== "number" && typeof id !== "string")
      throw new EnvError("ref_id must be a number or scene:<seed>.");
    const mark = saved.has("mark") ? saved.numbers("mark", 2) : null;
    if (mark?.some((share) => share < 0 || share > 1)) throw new EnvError("mark must be a place [x, y], 0 to 1.");
    const moves = saved.integer("moves", { min: 0, fallback: 0 });
    const sentence = saved.integer("sentence_idx", { min: 0, fallback: 0 });
    this.#begin(id, sentence, mark as [number, number] | null, moves, saved.boolean("stopped"));
  }
}

class Scenes implements Source {
  readonly #options: z.output<typeof options>;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
  }

  pick(seed: number): Id {
    return `scene:${seed}`;
  }

  #scene(id: Id) {
    const seed = typeof id === "string" ? sceneSeed(id) : undefined;
    if (seed === undefined) {
      throw new EnvError(`Expression ${id} belongs to RefCOCO+: give the option "folder", the folder that holds it.`);
    }
    const [width, height] = this.#options.size;
    return keepScene(`referring ${seed} ${width}x${height}`, () => {
      const { scene, target, phrase } = referringScene(seed, { width, height });
      return { ...scene, target, phrase };
    });
  }

  open(id: Id): Subject {
    const scene = this.#scene(id);
    const { target, phrase, objects, picture } = scene;
    const right = objects.filter((object) =>
      this.#options.acceptAnyOfKind ? object.kind === target.kind : object.id === target.id,
    );
    const ids = new Set(right.map((object) => object.id));
    const mask = scene.ids.map((object) => (ids.has(object) ? 1 : 0));
    return { phrase, width: picture.width, height: picture.height, mask, scene };
  }

  picture(id: Id): Image {
    return this.#scene(id).picture;
  }
}

type Reference = {
  readonly image: number;
  readonly annotation: number;
  readonly category: number;
  readonly sentences: readonly string[];
};
type Photo = { readonly file: string; readonly width: number; readonly height: number };

class RefCoco implements Source {
  readonly #references = new Map<number, Reference>();
  readonly #photos = new Map<number, Photo>();
  readonly #polygons = new Map<
    number,
    { readonly image: number; readonly category: number; readonly shape: Json | undefined }
  >();
  readonly #ids: readonly number[];
  readonly #folder: ReturnType<typeof pictures>;
  readonly #any: boolean;

  constructor(folder: string, { split, size, acceptAnyOfKind, images }: z.output<typeof options>) {
    const root = resolve(folder);
    this.#folder = pictures(images ?? root, { width: size[0], height: size[1] });
    this.#any = acceptAnyOfKind;
    readRows(join(root, "instances.json"), ["images", "annotations"], (list, row) => {
      if (list === "images") {
        const photo = { file: String(row.file_name), width: Number(row.width), height: Number(row.height) };
        this.#photos.set(Number(row.id), photo);
      } else {
        const polygon = { image: Number(row.image_id), category: Number(row.category_id), shape: row.segmentation };
        this.#polygons.set(Number(row.id), polygon);
      }
    });
    for (const row of readReferences(root, split)) {
      const sentences = (Array.isArray(row.sentences) ? row.sentences : []).map((sentence) =>
        isJsonObject(sentence) ? String(sentence.sent) : "",
      );
      this.#references.set(Number(row.ref_id), {
        image: Number(row.image_id),
        annotation: Number(row.ann_id),
        category: Number(row.category_id),
        sentences,
      });
    }
    this.#ids = [...this.#references.keys()].filter((id) => this.#usable(id)).sort((a, b) => a - b);
    if (this.#ids.length === 0) throw new ConfigError(`${root} has no expression with a photo and polygons.`);
  }

  /** Run-length masks are left out, as VisGym does. */
  #usable(id: number): boolean {
    const reference = this.#references.get(id) as Reference;
    const shape = this.#polygons.get(reference.annotation)?.shape;
    return this.#photos.has(reference.image) && Array.isArray(shape) && shape.length > 0;
  }

  pick(seed: number): Id {
    return this.#ids[new NumpyRandom(seed).integers(0, this.#ids.length)] as number;
  }

  #find(id: Id): { readonly reference: Reference; readonly photo: Photo } {
    const reference = this.#references.get(Number(id));
    const photo = reference === undefined ? undefined : this.#photos.get(reference.image);
    if (reference === undefined || photo === undefined) {
      throw new EnvError(`There is no expression ${id}: give the folder and split that the state was saved with.`);
    }
    return { reference, photo };
  }

  open(id: Id, sentence: number): Subject {
    const { reference, photo } = this.#find(id);
    const { width, height } = photo;
    const mask = new Uint8Array(width * height);
    for (const [annotation, { image, category, shape }] of this.#polygons) {
      const same = this.#any && image === reference.image && category === reference.category;
      if (!same && annotation !== reference.annotation) continue;
      maskOf(shape, width, height).forEach((inside, i) => {
        if (inside === 1) mask[i] = 1;
      });
    }
    const phrase = reference.sentences[sentence];
    if (phrase === undefined)
      throw new EnvError(`Expression ${id} has ${reference.sentences.length} sentences, not ${sentence + 1}.`);
    return { phrase, width, height, mask };
  }

  picture(id: Id): Awaitable<Image> {
    return this.#folder.get(this.#find(id).photo.file);
  }
}

/** From Python's pickle, or from the same list as JSON. */
function readReferences(root: string, split: string): Record<string, Json>[] {
  let rows: Json;
  try {
    rows = readPickle(readFileSync(join(root, `refs(${split}).p`)));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    try {
      rows = JSON.parse(readFileSync(join(root, "refs.json"), "utf8")) as Json;
    } catch (cause) {
      throw new ConfigError(`${root} holds neither refs(${split}).p nor refs.json: give RefCOCO+'s folder.`, { cause });
    }
  }
  return (Array.isArray(rows) ? rows : []).filter(isJsonObject) as Record<string, Json>[];
}

export const referringDotPointing = defineWorld({
  id: "referring_dot_pointing",
  summary: "put a dot on the object that a phrase describes, then stop",
  options,
  difficulties: { easy: {}, hard: {} },
  variants: { eval: { easy: {}, hard: {} }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new ReferringDotPointing(given),
});
