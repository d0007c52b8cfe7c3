/**
 * counting (VisGym): how many of a kind of thing are in the image? Put dots on them if it helps, guess, and stop. Only
 * `stop` ends the episode and pays: 1 if the last guess is exactly right; dots do not matter. Scenes are our own, with just
 * that number of things, or photos with LVIS's annotations.
 */
import { basename, dirname, resolve } from "node:path";
import { z } from "zod";
import { type Awaitable, ConfigError, EnvError, Image, type Json, NumpyRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  act,
  bare,
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
import { factsOf, listThings, PLACE, paintDot, pixelAt, placeOf } from "../shared/dots.ts";
import { Saved } from "../shared/saved.ts";
import { centreOf, maskOf, readRows } from "../shared/scenes/coco.ts";
import { COUNTABLE, countingScene, keepScene, pictures, type Scene, sceneSeed, when } from "../shared/scenes/index.ts";

const options = z.strictObject({
  minCount: z.int().min(0).max(60).default(2).describe("Lowest number of things to count."),
  maxCount: z.int().min(1).max(60).default(10).describe("Highest number of things to count."),
  radius: z.int().min(1).max(30).default(5).describe("Radius of the dots, in pixels."),
  kinds: z.array(z.string()).optional().describe("Count only these kinds. Without it, every kind may be asked for."),
  annotations: z.string().optional().describe("LVIS annotation file, to play on real photos."),
  folder: z.string().optional().describe("Folder of the LVIS photos. Without it, the folder of the annotation file."),
  size: z
    .tuple([z.int().min(64).max(2048), z.int().min(64).max(2048)])
    .default([320, 240])
    .describe("Width and height of the scenes that the world draws, in pixels."),
  solver: z
    .enum(["mark_all", "guess_only"])
    .default("mark_all")
    .describe("Whether the oracle marks things with dots before it guesses."),
  solverMarks: z.int().min(0).max(100).default(15).describe("Maximum number of dots that the oracle places."),
});

/** More dots than anyone needs; every one of them is drawn again in every frame. */
const MAX_DOTS = 100;

type Episode = {
  readonly file: string;
  readonly category: string;
  readonly count: number;
  readonly categoryId: number;
  readonly imageId: number;
};
type Sample = Episode & { readonly centres: readonly (readonly [number, number])[] };

/** The kinds there are and the photos or scenes to count them in. */
type Source = {
  pick(seed: number): Episode;
  picture(episode: Episode): Awaitable<Image>;
  /** The middle of each thing; none when they are not known. */
  centres(episode: Episode): readonly (readonly [number, number])[];
  scene(episode: Episode): Scene | undefined;
};

export class Counting implements World {
  readonly actions: readonly ActionSpec[];
  readonly #options: z.output<typeof options>;
  readonly #source: Source;
  #episode!: Episode;
  #marks: readonly (readonly [number, number])[] = [];
  #guess: number | null = null;
  #stopped = false;
  #image: Image | undefined;
  /** The last frame, and the dots on it. */
  #frame: { readonly marks: readonly (readonly [number, number])[]; readonly image: Image } | undefined;

  constructor(given: z.output<typeof options>) {
    if (given.minCount > given.maxCount) throw new ConfigError("counting: minCount must not be above maxCount.");
    this.#options = given;
    this.#source = given.annotations === undefined ? new Scenes(given) : new Photos(given.annotations, given);
    this.actions = [
      {
        name: "mark",
        description:
          "put a dot on the picture, at shares of its width and height from the top left corner, to keep track",
        arg: PLACE,
        example: [0.25, 0.6],
      },
      bare("undo", "take the last dot away", 6),
      {
        name: "guess",
        description: `say how many there are (from ${given.minCount} to ${given.maxCount}); the last guess counts`,
        arg: { type: "int", name: "count", min: 0, max: given.maxCount },
        example: Math.max(given.minCount, Math.min(5, given.maxCount)),
      },
      stopAction("end the episode, once you have guessed"),
    ];
    this.reset(0);
  }

  reset(seed: number): void {
    this.#begin(this.#source.pick(seed));
  }

  #begin(episode: Episode): void {
    this.#episode = episode;
    this.#marks = [];
    this.#guess = null;
    this.#stopped = false;
    this.#image = undefined;
    this.#frame = undefined;
  }

  success(): boolean {
    return this.#stopped && this.#guess === this.#episode.count;
  }

  act({ name, payload }: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (name === "stop") {
      this.#stopped = true;
      if (this.#guess === null)
        return { valid: true, feedback: "You stopped without a guess.", reward: 0, ended: true };
      return this.success()
        ? { valid: true, feedback: "You stopped with the right number.", reward: 1, ended: true }
        : { valid: true, feedback: "You stopped with a wrong number.", reward: 0, ended: true };
    }
    if (name === "mark" && this.#marks.length >= MAX_DOTS) {
      const feedback = `There are ${MAX_DOTS} dots already, and no more fit: take some away first.`;
      return { valid: false, feedback, reward: 0, ended: false };
    }
    if (name === "mark") this.#marks = [...this.#marks, payload as [number, number]];
    else if (name === "undo") this.#marks = this.#marks.slice(0, -1);
    else this.#guess = Number(payload);
    return { valid: true, reward: 0, ended: false };
  }

  observe(mode: ObservationMode): Awaitable<Observation> {
    if (mode === "text" && this.#source.scene(this.#episode) !== undefined) return this.#text(undefined);
    return when(this.#open(), (picture) => (mode === "text" ? this.#text(picture) : this.#draw(picture)));
  }

  #open(): Awaitable<Image> {
    if (this.#image !== undefined) return this.#image;
    const episode = this.#episode;
    return when(this.#source.picture(episode), (picture) => {
      if (episode === this.#episode) this.#image = picture;
      return picture;
    });
  }

  #draw(picture: Image): Image {
    const { marks: known, image } = this.#frame ?? { marks: [], image: picture };
    if (known === this.#marks) return image;
    // One dot more than in the last frame is the usual case.
    const more = known.length < this.#marks.length && known.every((mark, i) => mark === this.#marks[i]);
    const bytes = copyBytes(more ? image.data : picture.data);
    for (const mark of more ? this.#marks.slice(known.length) : this.#marks) {
      paintDot(bytes, picture, pixelAt(mark, picture), this.#options.radius, [255, 0, 0]);
    }
    this.#frame = { marks: this.#marks, image: new Image(picture.width, picture.height, bytes) };
    return this.#frame.image;
  }

  /** VisGym has no text view of this world; ours lists what is in a scene, or sketches a photo in characters. */
  #text(photo: Image | undefined): string {
    const scene = this.#source.scene(this.#episode);
    const seen = scene === undefined ? shades(photo as Image, 72) : listThings(scene);
    const marks = this.#marks.map(([x, y]) => `(${x}, ${y})`).join(" ") || "none";
    return `${seen}\ndots: ${marks}\nguess: ${this.#guess ?? "none"}`;
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { category } = this.#episode;
    if (style === "brief") return `Count: ${category}. Guess how many, then stop.`;
    const { minCount, maxCount } = this.#options;
    const view = mode === "text" ? "You are told what is in a picture." : "You see a picture.";
    return (
      `${view} Find out how many things of this kind are in it: ${category}. There are ${minCount} to ${maxCount} of them; other ` +
      "things may be there too. You may put dots on the picture, so that none is counted twice or left out; dots earn nothing by " +
      "themselves. Guess the number, then stop. You succeed if your last guess is exactly right when you stop."
    );
  }

  facts(): Fact[] {
    const scene = this.#source.scene(this.#episode);
    return scene === undefined ? [] : factsOf(scene);
  }

  solve(): Awaitable<Action[]> {
    if (this.#stopped) return [];
    const { count } = this.#episode;
    const end = this.#guess === count ? [act("stop")] : [act("guess", count), act("stop")];
    if (this.#options.solver === "guess_only" || this.#guess !== null) return end;
    return when(this.#open(), (picture) => {
      const places = this.#source
        .centres(this.#episode)
        .slice(0, this.#options.solverMarks)
        .map(([x, y]) => placeOf([Math.trunc(x), Math.trunc(y)], picture));
      // Dots are gone on with as long as they are the oracle's own.
      const followed = this.#marks.every((mark, i) => mark[0] === places[i]?.[0] && mark[1] === places[i]?.[1]);
      return followed ? [...places.slice(this.#marks.length).map((place) => act("mark", place)), ...end] : end;
    });
  }

  /** VisGym's `init_state`, and what has been played since. */
  save(): Json {
    const { file, category, count, categoryId, imageId } = this.#episode;
    return {
      file_name: file,
      category_name: category,
      true_count: count,
      cat_id: categoryId,
      img_id: imageId,
      marks: this.#marks,
      guess: this.#guess,
      stopped: this.#stopped,
    };
  }

  load(state: Json): void {
    const saved = new Saved(state, "counting", "file_name, category_name, true_count");
    const marks = saved.get("marks") ?? [];
    const isMark = (mark: Json) =>
      Array.isArray(mark) && mark.length === 2 && mark.every((at) => typeof at === "number" && at >= 0 && at <= 1);
    if (!Array.isArray(marks) || !marks.every(isMark))
      throw new EnvError("marks must be a list of places [x, y], 0 to 1.");
    const episode: Episode = {
      file: saved.string("file_name"),
      category: saved.string("category_name"),
      count: saved.integer("true_count", { min: 0 }),
      categoryId: saved.integer("cat_id", { fallback: -1 }),
      imageId: saved.integer("img_id", { fallback: -1 }),
    };
    const guess = saved.has("guess") ? saved.integer("guess", { min: 0 }) : null;
    const stopped = saved.boolean("stopped");
    this.#begin(episode);
    this.#marks = marks as [number, number][];
    this.#guess = guess;
    this.#stopped = stopped;
  }
}

class Scenes implements Source {
  readonly #options: z.output<typeof options>;
  readonly #kinds: readonly string[];

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    const unknown = given.kinds?.find((kind) => !COUNTABLE.includes(kind));
    if (unknown !== undefined) {
      throw new ConfigError(`counting: "${unknown}" can't be counted; the kinds are ${COUNTABLE.join(", ")}.`);
    }
    this.#kinds = given.kinds ?? COUNTABLE;
  }

  pick(seed: number): Episode {
    const random = new NumpyRandom(seed);
    const category = this.#kinds[random.integers(0, this.#kinds.length)] as string;
    const count = random.integers(this.#options.minCount, this.#options.maxCount + 1);
    return { file: `counting:${seed}`, category, count, categoryId: COUNTABLE.indexOf(category), imageId: seed };
  }

  scene({ file, category, count }: Episode): Scene {
    const seed = sceneSeed(file, "counting");
    if (seed === undefined) {
      throw new EnvError(`"${file}" is a photo: give the option "annotations", the file that describes it.`);
    }
    const [width, height] = this.#options.size;
    return keepScene(`${file} ${count} ${category} ${width}x${height}`, () =>
      countingScene(seed, category, count, { width, height }),
    );
  }

  picture(episode: Episode): Image {
    return this.scene(episode).picture;
  }

  centres(episode: Episode): readonly (readonly [number, number])[] {
    const those = this.scene(episode).objects.filter(({ kind }) => kind === episode.category);
    return those.map(({ centre }) => centre);
  }
}

/** One sample an image: the first of its kinds, in the order of the annotations, that is there often enough and not too often. */
class Photos implements Source {
  readonly #samples: readonly Sample[];
  readonly #folder: ReturnType<typeof pictures>;

  constructor(annotations: string, { folder, minCount, maxCount, kinds, size }: z.output<typeof options>) {
    const file = resolve(annotations);
    this.#folder = pictures(folder ?? dirname(file), { width: size[0], height: size[1] });
    type Photo = {
      file: string;
      width: number;
      height: number;
      open: readonly number[];
      kinds: Map<number, (readonly [number, number])[]>;
    };
    const photos = new Map<number, Photo>();
    const names = new Map<number, string>();
    const numbersIn = (value: Json | undefined) => (Array.isArray(value) ? (value as number[]) : []);
    // Images and categories first: the annotations may come before them in the file.
    readRows(file, ["images", "categories"], (list, row) => {
      const id = Number(row.id);
      if (list === "categories") names.set(id, String(row.name));
      else {
        const name = typeof row.file_name === "string" ? row.file_name : basename(String(row.coco_url ?? ""));
        const open = numbersIn(row.not_exhaustive_category_ids);
        photos.set(id, { file: name, width: Number(row.width), height: Number(row.height), open, kinds: new Map() });
      }
    });
    readRows(file, ["annotations"], (_, row) => {
      const photo = photos.get(Number(row.image_id));
      if (photo === undefined) return;
      const kind = Number(row.category_id);
      const [x = 0, y = 0, width = 0, height = 0] = numbersIn(row.bbox);
      const centre = centreOf(maskOf(row.segmentation, photo.width, photo.height), photo.width);
      const centres = photo.kinds.get(kind) ?? [];
      photo.kinds.set(kind, [...centres, centre ?? [x + width / 2, y + height / 2]]);
    });
    this.#samples = [...photos]
      .flatMap(([imageId, photo]): Sample[] => {
        for (const [categoryId, centres] of photo.kinds) {
          const category = names.get(categoryId) ?? `category ${categoryId}`;
          const fits = centres.length >= minCount && centres.length <= maxCount && (kinds?.includes(category) ?? true);
          if (!fits || photo.open.includes(categoryId)) continue;
          return [{ file: photo.file, category, count: centres.length, categoryId, imageId, centres }];
        }
        return [];
      })
      .sort((a, b) => a.imageId - b.imageId);
    if (this.#samples.length === 0) {
      throw new ConfigError(`${file} has no image with ${minCount} to ${maxCount} things of a kind: widen the range.`);
    }
  }

  pick(seed: number): Episode {
    return this.#samples[new NumpyRandom(seed).integers(0, this.#samples.length)] as Sample;
  }

  picture({ file }: Episode): Awaitable<Image> {
    return this.#folder.get(file);
  }

  /** Found by file and kind: VisGym's own states have lost the image's number. */
  centres({ file, category }: Episode): readonly (readonly [number, number])[] {
    const same = (sample: Sample) => basename(sample.file) === basename(file) && sample.category === category;
    return this.#samples.find(same)?.centres ?? [];
  }

  scene(): undefined {
    return undefined;
  }
}

export const counting = defineWorld({
  id: "counting",
  summary: "count the things of one kind in a photo, then stop",
  options,
  difficulties: { easy: { minCount: 2, maxCount: 20 }, hard: { minCount: 5, maxCount: 30 } },
  variants: { eval: { easy: {}, hard: {} }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new Counting(given),
});
