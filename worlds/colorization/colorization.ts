/**
 * colorization (VisGym): a disc in a photo has lost its colour and wears another; turn its hue and change its saturation on
 * the colour wheel until it fits its surroundings again, then stop. Only `stop` ends the episode and pays. Colours are
 * OpenCV's: hue in steps of two degrees, saturation and brightness from 0 to 255; the disc keeps its brightness.
 */
import { z } from "zod";
import { type Awaitable, EnvError, exact, Image, type Json, NumpyRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  act,
  defineWorld,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  stopAction,
  type World,
} from "../../src/envs/index.ts";
import { copyBytes } from "../../src/images/index.ts";
import { Saved } from "../shared/saved.ts";
import { Dice } from "../shared/scenes/dice.ts";
import { type ImageSource, pictures, when } from "../shared/scenes/index.ts";
import { chunksOf, restOf, type Script, withDetours } from "../shared/script.ts";

const { atan2, cos, sin } = exact;

const options = z.strictObject({
  circle: z.int().min(4).max(200).default(50).describe("Radius of the disc, in pixels."),
  ring: z
    .int()
    .min(4)
    .max(300)
    .optional()
    .describe("Radius of a grey ring around the disc, in pixels. Without it, there is no ring."),
  accuracyRadius: z
    .number()
    .positive()
    .max(200)
    .default(28)
    .describe("Tolerance for the colour: larger accepts colours that are farther off."),
  minBrightness: z
    .number()
    .min(0)
    .max(255)
    .default(45)
    .describe("Lowest mean brightness of a disc that may be chosen."),
  maxBrightness: z
    .number()
    .min(0)
    .max(255)
    .default(210)
    .describe("Highest mean brightness of a disc that may be chosen."),
  minSaturation: z
    .number()
    .min(0)
    .max(255)
    .default(40)
    .describe(
      "Lowest saturation of the target colour, where the photo has such a place. The hue of grey cannot be seen.",
    ),
  folder: z.string().optional().describe("Folder of your own photos. Without it, the world draws its own scenes."),
  size: z
    .tuple([z.int().min(32).max(2048), z.int().min(32).max(2048)])
    .default([320, 240])
    .describe("Width and height of the scenes that the world draws, in pixels."),
  solverSteps: z
    .int()
    .min(0)
    .max(100)
    .default(0)
    .describe("Minimum number of oracle steps. The oracle adds steps that it takes back."),
  solver: z
    .enum(["steps", "direct"])
    .default("steps")
    .describe("How the oracle moves: in several random steps, or with one turn and one change of saturation."),
  wheel: z.int().min(32).max(512).default(256).describe("Side of the colour wheel, in pixels."),
});

/** How far from the middle of a wheel of 256 pixels the pointer goes, and its ring. */
const REACH = 126 / 256;
const POINTER = 5 / 256;
const MIN_POINTER = 2;
/** Closer than this the oracle stops. */
const HUE_TOLERANCE = 10;
const SATURATION_TOLERANCE = 20;
/** Half the thickness of outlines, in pixels. */
const STROKE = 1.6;

/** Hue in degrees from 0 to 360, saturation and brightness from 0 to 255. */
type Hsv = { readonly hue: number; readonly saturation: number; readonly value: number };
type Colour = { readonly hue: number; readonly saturation: number };
type Episode = {
  readonly picture: string;
  readonly place: readonly [x: number, y: number];
  readonly target: Hsv;
  readonly start: Colour;
};
/** Everything but the disc's colour and the pointer; where the disc's pixels are, and how bright. */
type Scene = {
  readonly width: number;
  readonly height: number;
  readonly bytes: Uint8Array;
  readonly disc: readonly (readonly [at: number, value: number])[];
  /** The colours around the disc, in words. */
  readonly around: string;
};

export class Colorization implements World {
  readonly actions: readonly ActionSpec[] = [
    {
      name: "rotate",
      description:
        "turn the hue by so many degrees, clockwise around the wheel, or counter-clockwise if negative; it goes round and round",
      arg: { type: "real", name: "degrees", min: -360, max: 360 },
      example: 30,
    },
    {
      name: "saturate",
      description:
        "add so much saturation, or take it away if negative; it stays between 0 (grey) and 255 (full colour)",
      arg: { type: "real", name: "amount", min: -255, max: 255, whole: true },
      example: -20,
    },
    stopAction("end the episode, once the disc fits its surroundings"),
  ];
  readonly #options: z.output<typeof options>;
  readonly #source: ImageSource;
  #episode!: Episode;
  #colour: Colour = { hue: 0, saturation: 0 };
  #moves = 0;
  #stopped = false;
  #script: Script | undefined;
  #scene: Scene | undefined;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.#source = pictures(given.folder, { width: given.size[0], height: given.size[1] });
  }

  reset(seed: number): Awaitable<void> {
    const picture = this.#source.pick(seed);
    return when(this.#source.get(picture), (photo) => {
      const random = new NumpyRandom(seed);
      const place = this.#choosePlace(photo, random);
      const start = { hue: random.uniform(0, 360), saturation: random.integers(0, 256) };
      this.#begin({ picture, place, target: hsvAt(photo, ...place), start }, start, 0, false);
    });
  }

  /** Of fifty places, one of the calmest fifth among those that are neither too dark nor too bright nor too grey. */
  #choosePlace(photo: Image, random: NumpyRandom): readonly [number, number] {
    const { circle, minBrightness, maxBrightness, minSaturation } = this.#options;
    const { width, height } = photo;
    const reach = Math.min(Math.floor(circle / 2), 20);
    const centre = [Math.floor(width / 2), Math.floor(height / 2)] as const;
    if (width <= 2 * circle || height <= 2 * circle) return centre;
    const places = Array.from({ length: 50 }, () => {
      const x = random.integers(circle, width - circle);
      const y = random.integers(circle, height - circle);
      return { x, y, ...survey(photo, x, y, reach) };
    });
    const bright = places.filter(({ brightness }) => brightness >= minBrightness && brightness <= maxBrightness);
    const vivid = bright.filter(({ saturation }) => saturation >= minSaturation);
    const fit = (vivid.length > 0 ? vivid : bright).sort((a, b) => a.unrest - b.unrest);
    const calm = fit.filter(({ unrest }) => unrest <= 1500);
    const best = calm.slice(0, Math.max(1, Math.floor(calm.length / 5)));
    const chosen = best.length > 0 ? best[random.integers(0, best.length)] : fit[0];
    return chosen === undefined ? centre : [chosen.x, chosen.y];
  }

  #begin(episode: Episode, colour: Colour, moves: number, stopped: boolean): void {
    this.#episode = episode;
    this.#colour = colour;
    this.#moves = moves;
    this.#stopped = stopped;
    this.#script = undefined;
    this.#scene = undefined;
  }

  /** The largest distance of colours that counts as a fit, a degree of hue counting double. */
  get threshold(): number {
    const { accuracyRadius, circle } = this.#options;
    return (accuracyRadius / circle) * Math.sqrt(360 * 360 + 2 * 255 * 255) * 0.3;
  }

  success(): boolean {
    const { target } = this.#episode;
    const hue = 2 * Math.abs(shortest(target.hue - this.#colour.hue));
    const saturation = target.saturation - this.#colour.saturation;
    return this.#stopped && Math.sqrt(hue * hue + saturation * saturation) <= this.threshold;
  }

  act(action: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (action.name === "stop") {
      this.#stopped = true;
      return this.success()
        ? { valid: true, feedback: "You stopped with the disc in its colour.", reward: 1, ended: true }
        : { valid: true, feedback: "You stopped with the disc in another colour.", reward: 0, ended: true };
    }
    this.#colour = changed(this.#colour, action);
    this.#moves += 1;
    return { valid: true, reward: 0, ended: false };
  }

  observe(mode: ObservationMode): Awaitable<Observation> {
    return when(this.#open(), (scene) => (mode === "text" ? this.#text(scene) : this.#frame(scene)));
  }

  #open(): Awaitable<Scene> {
    if (this.#scene !== undefined) return this.#scene;
    const episode = this.#episode;
    return when(this.#source.get(episode.picture), (photo) => {
      const scene = drawScene(photo, episode, this.#options);
      if (episode === this.#episode) this.#scene = scene;
      return scene;
    });
  }

  #frame({ width, height, bytes, disc }: Scene): Image {
    const { hue, saturation } = this.#colour;
    const frame = copyBytes(bytes);
    const shades: Rgb[] = [];
    for (const [at, value] of disc) {
      shades[value] ??= rgbOf(Math.floor(hue / 2), saturation, value);
      const shade = shades[value] as Rgb;
      frame[at] = shade[0];
      frame[at + 1] = shade[1];
      frame[at + 2] = shade[2];
    }
    const angle = (hue * Math.PI) / 180;
    const { wheel } = this.#options;
    const radius = (saturation / 255) * REACH * wheel;
    const [x, y] = [Math.trunc(wheel / 2 + cos(angle) * radius), Math.trunc(wheel / 2 + sin(angle) * radius)];
    drawRing(frame, width, wheel, height, x, y, Math.max(MIN_POINTER, Math.round(POINTER * wheel)));
    return new Image(width, height, frame);
  }

  /** VisGym has no text view of this world; ours tells the disc's colour and those around it. */
  #text({ around }: Scene): string {
    const { hue, saturation } = this.#colour;
    return `disc: hue ${hue.toFixed(1)}, saturation ${saturation}\naround it, clockwise from the top: ${around}`;
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    if (style === "brief") {
      return mode === "text"
        ? "Give the disc the colour that was there, then stop."
        : "Give the circled disc the colour that fits the picture, then stop.";
    }
    const { ring } = this.#options;
    const view =
      mode === "text"
        ? "A disc in a picture was given a wrong colour. You are told its hue (degrees on the colour wheel, 0 is red) and " +
          "saturation (0 to 255), and the colours at eight places around it."
        : "On the right you see a picture with a disc in a black circle that was given a wrong colour" +
          `${ring === undefined ? "" : ", ringed with grey"}. On the left is a colour wheel: the direction from its middle is the ` +
          "hue, red being at the right, and the distance from the middle is the saturation; a small black ring marks the disc's " +
          "present colour.";
    return (
      `${view} Change hue and saturation until the disc has the colour it had before, as its surroundings and what it belongs ` +
      "to suggest, then stop. Light and shade of the disc are right already. You succeed if the colour is close enough when you stop."
    );
  }

  /** Hue in two to four steps, then saturation in one to three, then stop. */
  solve(): Action[] {
    if (this.#stopped) return [];
    const { target, start, picture } = this.#episode;
    const dice = new Dice(Math.round(start.hue * 1000), picture);
    const parts = (): [number, number] =>
      this.#options.solver === "direct" ? [1, 1] : [dice.whole(2, 4), dice.whole(1, 3)];
    this.#script ??= this.#write(this.#steps(start, parts, dice), dice);
    const rest = restOf(this.#script, this.#moves, JSON.stringify(this.#colour));
    if (rest !== undefined) return rest;
    return [...this.#steps(this.#colour, () => [1, 1], new Dice(Math.round(target.hue))), act("stop")];
  }

  #steps(from: Colour, parts: () => readonly [number, number], dice: Dice): Action[] {
    const { target } = this.#episode;
    const hue = shortest(target.hue - from.hue);
    const saturation = target.saturation - from.saturation;
    const distance = Math.sqrt(4 * hue * hue + saturation * saturation);
    if (Math.abs(hue) <= HUE_TOLERANCE && Math.abs(saturation) <= SATURATION_TOLERANCE && distance <= this.threshold)
      return [];
    const [turns, changes] = parts();
    return [
      ...chunksOf(Math.round(hue), turns, dice).map((by) => act("rotate", by)),
      ...chunksOf(saturation, changes, dice).map((by) => act("saturate", by)),
    ];
  }

  #write(steps: readonly Action[], dice: Dice): Script {
    const plan = withDetours(steps, this.#options.solverSteps, dice, () => {
      const by = dice.sign() * dice.whole(10, 90);
      // A turn can always be taken back; a saturation that was cut off at its end can't.
      return [act("rotate", by), act("rotate", -by)];
    });
    const states = [this.#episode.start];
    for (const action of plan) states.push(changed(states.at(-1) as Colour, action));
    return { plan: [...plan, act("stop")], states: states.map((state) => JSON.stringify(state)) };
  }

  /** VisGym's `init_state`, its colour being the present one, and what has been played since. */
  save(): Json {
    const { picture, place, target, start } = this.#episode;
    return {
      user_image_path: picture,
      target_pos: place,
      target_hue: target.hue,
      target_sat: target.saturation,
      target_val: target.value,
      current_hue: this.#colour.hue,
      current_sat: this.#colour.saturation,
      start_hue: start.hue,
      start_sat: start.saturation,
      moves: this.#moves,
      stopped: this.#stopped,
    };
  }

  load(state: Json): void {
    const saved = new Saved(state, "colorization", "user_image_path, target_pos, target_hue");
    const hue = (field: string, fallback?: number) =>
      saved.number(field, { min: 0, max: 360, ...(fallback === undefined ? {} : { fallback }) });
    const byte = (field: string, fallback?: number) =>
      saved.number(field, { min: 0, max: 255, ...(fallback === undefined ? {} : { fallback }) });
    const [x, y] = saved.numbers("target_pos", 2) as [number, number];
    if (![x, y].every((at) => Number.isInteger(at) && at >= 0)) {
      throw new EnvError("target_pos must be a place [x, y] in the image, in whole pixels.");
    }
    const target = { hue: hue("target_hue"), saturation: byte("target_sat"), value: byte("target_val") };
    const colour = { hue: hue("current_hue"), saturation: byte("current_sat") };
    const start = { hue: hue("start_hue", colour.hue), saturation: byte("start_sat", colour.saturation) };
    const picture = saved.string("user_image_path");
    const moves = saved.integer("moves", { min: 0, fallback: 0 });
    this.#begin({ picture, place: [x, y], target, start }, colour, moves, saved.boolean("stopped"));
  }
}

function changed({ hue, saturation }: Colour, { name, payload }: Action): Colour {
  const by = Number(payload);
  if (name === "saturate") return { hue, saturation: Math.max(0, Math.min(255, saturation + by)) };
  const turned = (hue + by) % 360;
  return { hue: turned < 0 ? turned + 360 : turned, saturation };
}

/** A turn as one of at most half a circle. */
function shortest(degrees: number): number {
  const turn = ((degrees % 360) + 360) % 360;
  return turn > 180 ? turn - 360 : turn;
}

type Rgb = readonly [number, number, number];

/** OpenCV's bytes: hue 0 to 179, saturation and brightness 0 to 255. */
function rgbOf(hue: number, saturation: number, value: number): Rgb {
  const s = saturation / 255;
  const channel = (shift: number) => {
    const k = (shift + hue / 30) % 6;
    return Math.round(value * (1 - s * Math.max(0, Math.min(k, 4 - k, 1))));
  };
  return [channel(5), channel(3), channel(1)];
}

function hsvAt({ width, height, data }: Image, x: number, y: number): Hsv {
  const i = (Math.min(y, height - 1) * width + Math.min(x, width - 1)) * 3;
  const [r = 0, g = 0, b = 0] = data.subarray(i, i + 3);
  const value = Math.max(r, g, b);
  const range = value - Math.min(r, g, b);
  return { hue: 2 * hueOf(r, g, b, value, range), saturation: saturationOf(value, range), value };
}

/** 0 to 179; `range` is from the smallest channel to the largest, which is `value`. */
function hueOf(r: number, g: number, b: number, value: number, range: number): number {
  const sixth =
    range === 0 ? 0 : value === r ? (g - b) / range : value === g ? 2 + (b - r) / range : 4 + (r - g) / range;
  return Math.round((sixth < 0 ? sixth + 6 : sixth) * 30) % 180;
}

function saturationOf(value: number, range: number): number {
  return value === 0 ? 0 : Math.round((255 * range) / value);
}

/** How restless the square around a place is, how bright, and how saturated its middle. */
function survey(photo: Image, x: number, y: number, reach: number) {
  // An episode looks at 80,000 pixels here, so nothing is made for one of them.
  const { width, height, data } = photo;
  let [hues, saturations, values, hues2, saturations2, values2, count] = [0, 0, 0, 0, 0, 0, 0];
  for (let row = Math.max(0, y - reach); row < Math.min(height, y + reach); row++) {
    for (let column = Math.max(0, x - reach); column < Math.min(width, x + reach); column++, count++) {
      const i = (row * width + column) * 3;
      const [r, g, b] = [data[i] as number, data[i + 1] as number, data[i + 2] as number];
      const value = Math.max(r, g, b);
      const range = value - Math.min(r, g, b);
      const hue = hueOf(r, g, b, value, range);
      const saturation = saturationOf(value, range);
      hues += hue;
      hues2 += hue * hue;
      saturations += saturation;
      saturations2 += saturation * saturation;
      values += value;
      values2 += value * value;
    }
  }
  const variance = (squares: number, sum: number) => squares / count - (sum / count) ** 2;
  return {
    unrest: 2 * variance(hues2, hues) + variance(saturations2, saturations) + variance(values2, values),
    brightness: values / count,
    saturation: hsvAt(photo, x, y).saturation,
  };
}

/** Hue (0 to 179) and saturation of every pixel of a wheel of each side; hue 255 is outside. The same for all episodes. */
const wheels = new Map<number, Uint8Array>();
function wheelOf(side: number): Uint8Array {
  const known = wheels.get(side);
  if (known !== undefined) return known;
  const middle = side / 2;
  const wheel = new Uint8Array(side * side * 2);
  for (let y = 0, i = 0; y < side; y++) {
    for (let x = 0; x < side; x++, i += 2) {
      const [dx, dy] = [x - middle, y - middle];
      const distance = Math.sqrt(dx * dx + dy * dy);
      const degrees = (atan2(dy, dx) * 180) / Math.PI;
      wheel[i] = distance > middle ? 255 : Math.floor((degrees < 0 ? degrees + 360 : degrees) / 2) % 180;
      wheel[i + 1] = Math.floor((255 * distance) / middle);
    }
  }
  wheels.set(side, wheel);
  return wheel;
}

type Drawn = Pick<z.output<typeof options>, "circle" | "ring" | "wheel">;

function drawScene(photo: Image, { place, target }: Episode, { circle, ring, wheel }: Drawn): Scene {
  const width = wheel + photo.width;
  const height = Math.max(wheel, photo.height);
  const bytes = new Uint8Array(width * height * 3);
  const hues = wheelOf(wheel);
  for (let i = 0; i < wheel * wheel; i++) {
    if (hues[2 * i] === 255) continue;
    const at = (Math.floor(i / wheel) * width + (i % wheel)) * 3;
    bytes.set(rgbOf(hues[2 * i] as number, hues[2 * i + 1] as number, target.value), at);
  }
  for (let y = 0; y < photo.height; y++) {
    bytes.set(photo.data.subarray(y * photo.width * 3, (y + 1) * photo.width * 3), (y * width + wheel) * 3);
  }
  const disc: [number, number][] = [];
  const outer = Math.max(circle, ring ?? 0);
  for (let y = Math.max(0, place[1] - outer); y <= Math.min(photo.height - 1, place[1] + outer); y++) {
    for (let x = Math.max(0, place[0] - outer); x <= Math.min(photo.width - 1, place[0] + outer); x++) {
      const distance = Math.sqrt((x - place[0]) * (x - place[0]) + (y - place[1]) * (y - place[1]));
      const at = (y * width + wheel + x) * 3;
      if (distance < circle - STROKE) disc.push([at, hsvAt(photo, x, y).value]);
      else if (distance > circle + STROKE && ring !== undefined && distance <= ring) bytes.fill(128, at, at + 3);
    }
  }
  drawRing(bytes, width, width, photo.height, wheel + place[0], place[1], circle, wheel);
  return { width, height, bytes, disc, around: surroundings(photo, place, outer + 4) };
}

/** A black circle within columns `left..right-1` and the first `bottom` rows. */
function drawRing(
  bytes: Uint8Array,
  width: number,
  right: number,
  bottom: number,
  cx: number,
  cy: number,
  radius: number,
  left = 0,
): void {
  const reach = radius + 2;
  for (let y = Math.max(0, cy - reach); y <= Math.min(bottom - 1, cy + reach); y++) {
    for (let x = Math.max(left, cx - reach); x <= Math.min(right - 1, cx + reach); x++) {
      const distance = Math.sqrt((x - cx) * (x - cx) + (y - cy) * (y - cy));
      if (Math.abs(distance - radius) <= STROKE) bytes.fill(0, (y * width + x) * 3, (y * width + x) * 3 + 3);
    }
  }
}

function surroundings(photo: Image, [cx, cy]: readonly [number, number], radius: number): string {
  const inside = (value: number, length: number) => Math.max(0, Math.min(length - 1, Math.round(value)));
  return Array.from({ length: 8 }, (_, i) => {
    const angle = (i * Math.PI) / 4;
    const x = inside(cx + sin(angle) * radius, photo.width);
    const { hue, saturation } = hsvAt(photo, x, inside(cy - cos(angle) * radius, photo.height));
    return `hue ${hue} saturation ${saturation}`;
  }).join("; ");
}

const evaluation = { circle: 20, ring: 30, minBrightness: 25, maxBrightness: 230 };

export const colorization = defineWorld({
  id: "colorization",
  summary: "restore the colour of a disc in a photo, then stop",
  options,
  difficulties: { easy: { accuracyRadius: 11 }, hard: { accuracyRadius: 16 } },
  variants: {
    eval: { easy: evaluation, hard: evaluation },
    registered: { easy: {}, hard: {} },
    // As released, hard tolerates more than easy; here it tolerates less.
    strict: { easy: { ...evaluation, accuracyRadius: 16 }, hard: { ...evaluation, accuracyRadius: 11 } },
  },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  async create(given) {
    const world = new Colorization(given);
    await world.reset(0);
    return world;
  },
});
