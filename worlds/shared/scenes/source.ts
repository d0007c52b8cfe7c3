/**
 * Where worlds get their images: scenes of our own by default, or a user's folder of photos. An image has a stable name,
 * `scene:<seed>` or its path within the folder, which saved episodes carry; scenes can be loaded by name whatever the
 * source. Recent scenes are kept, since the members of a group look at the same one.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Awaitable, ConfigError, EnvError, type Image, NumpyRandom } from "../../../src/core/index.ts";
import { decodeImage, decodePng, isPng } from "../../../src/images/index.ts";
import { type Scene, type SceneSize, scene } from "./scene.ts";

export type ImageSource = {
  /** The name of the image that belongs to a seed. */
  pick(seed: number): string;
  /** The image of that name: at once for scenes and PNG, awaited for JPEG. */
  get(name: string): Awaitable<Image>;
  /** Its width and height; scenes need not be drawn for it. */
  size(name: string): Awaitable<SceneSize>;
};

const MAX_KEPT_BYTES = 48 * 1024 * 1024;
const kept = new Map<string, Scene>();
let keptBytes = 0;

/** `make`, or what it made for the same key a little while ago. */
export function keepScene<T extends Scene>(key: string, make: () => T): T {
  const known = kept.get(key);
  if (known !== undefined) {
    kept.delete(key);
    kept.set(key, known);
    return known as T;
  }
  const made = make();
  kept.set(key, made);
  keptBytes += made.picture.data.length + made.ids.length;
  for (const [oldest, { picture, ids }] of kept) {
    if (keptBytes <= MAX_KEPT_BYTES || oldest === key) break;
    kept.delete(oldest);
    keptBytes -= picture.data.length + ids.length;
  }
  return made;
}

/** The seed in a name like `scene:12`; undefined for other names. */
export function sceneSeed(name: string, prefix = "scene"): number | undefined {
  if (!name.startsWith(`${prefix}:`)) return undefined;
  const seed = Number(name.slice(prefix.length + 1));
  if (!Number.isSafeInteger(seed) || seed < 0) {
    throw new EnvError(`"${name}" names no ${prefix}: write ${prefix}: and a whole number, such as ${prefix}:7.`);
  }
  return seed;
}

class Scenes implements ImageSource {
  readonly #size: SceneSize;

  constructor(size: SceneSize) {
    this.#size = size;
  }

  pick(seed: number): string {
    return `scene:${seed}`;
  }

  get(name: string): Awaitable<Image> {
    const seed = sceneSeed(name);
    if (seed === undefined) {
      throw new EnvError(`"${name}" is a photo: give the option "folder", the folder that holds it.`);
    }
    const { width, height } = this.#size;
    return keepScene(`scene ${seed} ${width}x${height}`, () => scene(seed, this.#size)).picture;
  }

  size(name: string): Awaitable<SceneSize> {
    return sceneSeed(name) === undefined ? this.get(name) : this.#size;
  }
}

class Folder implements ImageSource {
  readonly #root: string;
  readonly #scenes: Scenes;
  #names: readonly string[] | undefined;

  constructor(root: string, size: SceneSize) {
    this.#root = resolve(root);
    this.#scenes = new Scenes(size);
    this.#list();
  }

  #list(): readonly string[] {
    this.#names ??= filesIn(this.#root, [".png", ".jpg", ".jpeg"]);
    if (this.#names.length === 0) {
      throw new ConfigError(`There is no image in ${this.#root}: put PNG or JPEG files there, or leave "folder" out.`);
    }
    return this.#names;
  }

  pick(seed: number): string {
    const names = this.#list();
    return names[new NumpyRandom(seed).integers(0, names.length)] as string;
  }

  get(name: string): Awaitable<Image> {
    if (sceneSeed(name) !== undefined) return this.#scenes.get(name);
    const file = findIn(this.#root, name);
    const bytes = readFileSync(file);
    return isPng(bytes) ? decodePng(bytes) : decodeImage(bytes);
  }

  size(name: string): Awaitable<SceneSize> {
    return sceneSeed(name) === undefined ? this.get(name) : this.#scenes.size(name);
  }
}

/** Scenes, or the photos of a folder. */
export function pictures(folder: string | undefined, size: SceneSize): ImageSource {
  return folder === undefined ? new Scenes(size) : new Folder(folder, size);
}

/** Paths of files with one of these endings under a folder, sorted, with forward slashes. */
export function filesIn(root: string, endings: readonly string[]): readonly string[] {
  let entries: readonly string[];
  try {
    entries = readdirSync(root, { recursive: true, encoding: "utf8" });
  } catch (error) {
    throw new ConfigError(`The folder ${root} can't be read: check its path.`, { cause: error });
  }
  return entries
    .map((entry) => entry.replaceAll("\\", "/"))
    .filter((entry) => endings.some((ending) => entry.toLowerCase().endsWith(ending)))
    .sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

/**
 * The file that a saved name means: a path within the folder, or, for states that were saved with an absolute path
 * elsewhere, the longest tail of it that is there. Nothing outside the folder is ever opened.
 */
export function findIn(root: string, name: string): string {
  const parts = name
    .replaceAll("\\", "/")
    .split("/")
    .filter((part) => part !== "" && part !== ".");
  for (let skip = 0; skip < parts.length; skip++) {
    const tail = parts.slice(skip);
    if (tail.includes("..")) continue;
    const file = join(root, ...tail);
    if (statSync(file, { throwIfNoEntry: false })?.isFile()) return file;
  }
  throw new EnvError(`"${name}" is not in ${root}: give the folder that the state was saved with.`);
}

/** `use(value)` now, or when the value has come. */
export function when<T, R>(value: Awaitable<T>, use: (value: T) => R): Awaitable<R> {
  return value instanceof Promise ? value.then(use) : use(value);
}
