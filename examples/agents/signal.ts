/** The task of all three agents: a signal shows one of four colours, and only a look at it tells which. */
import { Canvas, encodePng, type Image, NumpyRandom } from "saccade";

export const COLOURS = {
  red: [220, 40, 40],
  green: [40, 180, 60],
  blue: [50, 80, 220],
  yellow: [230, 200, 40],
} as const;
export const NAMES = Object.keys(COLOURS) as (keyof typeof COLOURS)[];
export const QUESTION = "Which colour does the signal show?";

export type Task = { readonly colour: keyof typeof COLOURS; readonly seed: number };

/** The task of a seed. */
export function taskOf(seed: number): Task {
  return { colour: NAMES[new NumpyRandom(seed).integers(0, NAMES.length)] as Task["colour"], seed };
}

/** What the tool `look` shows: a lamp on a dark background, brighter or darker, a little to one side. */
export function draw({ colour, seed }: Task): Image {
  const random = new NumpyRandom(seed + 1);
  const light = 0.7 + 0.3 * random.random();
  const [red, green, blue] = COLOURS[colour].map((value) => Math.round(value * light)) as [number, number, number];
  const shade = random.integers(10, 60);
  const canvas = new Canvas(32, 32, [shade, shade, shade]);
  canvas.disc(13 + random.integers(0, 7), 13 + random.integers(0, 7), 10, [red, green, blue]);
  return canvas.toImage();
}

export const png = (task: Task) => Buffer.from(encodePng(draw(task))).toString("base64");

/** Answers in the model's place, for a warm start: the first look, then the colour. `random` knows how to look, and guesses. */
export const answers = {
  oracle: ({ task, turn }: { task: Task; turn: number }) => (turn === 0 ? LOOK : task.colour),
  random: ({ turn, random }: { turn: number; random: NumpyRandom }) =>
    turn === 0 ? LOOK : (NAMES[random.integers(0, NAMES.length)] as string),
};
const LOOK = { calls: [{ name: "look", arguments: {} }] };
