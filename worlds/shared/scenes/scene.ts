/**
 * Images of places with things in them, from a seed. A scene is its image, a buffer that says which object each pixel
 * belongs to, and the objects: what they are called, how they look, where they are. `scene` is any place with what belongs
 * there; `countingScene` holds an exact number of one kind among others.
 */
import { ConfigError, exact, type Image } from "../../../src/core/index.ts";
import { type Backdrop, backdrops, type Place, type Stage } from "./backdrops/index.ts";
import { Brush } from "./brush.ts";
import { Dice } from "./dice.ts";
import { Pen } from "./pen.ts";
import { type ColorName, type Habitat, inkOf, type Look, type PatternName, type Thing } from "./thing.ts";
import { thingNamed } from "./things/index.ts";

const { pow } = exact;

export type SceneObject = {
  /** Its number in the id buffer, from 1. */
  readonly id: number;
  readonly kind: string;
  readonly plural: string;
  readonly color: ColorName;
  readonly pattern: PatternName;
  /** Height in pixels as drawn, whatever hides it. */
  readonly height: number;
  /** The mean of its visible pixels. */
  readonly centre: readonly [x: number, y: number];
  readonly box: { readonly x: number; readonly y: number; readonly width: number; readonly height: number };
  /** How many of its pixels are seen. */
  readonly pixels: number;
};
export type Scene = {
  readonly backdrop: string;
  readonly picture: Image;
  /** The object of every pixel, row by row; 0 is the backdrop. */
  readonly ids: Uint8Array;
  readonly objects: readonly SceneObject[];
};
export type SceneSize = { readonly width: number; readonly height: number };

/** A thing somewhere, before it is drawn. */
export type Figure = {
  readonly thing: Thing;
  readonly look: Look;
  readonly x: number;
  readonly y: number;
  readonly size: number;
  readonly mirrored: boolean;
  readonly tilt: number;
};

const SIZE: SceneSize = { width: 320, height: 240 };

/** What is at home in each place; the same kind may be listed twice to be seen more often. */
const INHABITANTS: Readonly<Record<string, readonly string[]>> = {
  country: [
    "sheep",
    "sheep",
    "cow",
    "cow",
    "pig",
    "dog",
    "rabbit",
    "hen",
    "hen",
    "tractor",
    "bicycle",
    "tent",
    "mushroom",
    "bird",
    "balloon",
    "butterfly",
    "kite",
    "plane",
    "snail",
    "frog",
    "chair",
    "crate",
    "bucket",
    "ball",
  ],
  street: ["car", "car", "car", "bus", "lorry", "bicycle", "dog", "cat", "bird", "balloon", "plane"],
  seaside: [
    "umbrella",
    "umbrella",
    "ball",
    "bucket",
    "dog",
    "turtle",
    "chair",
    "crate",
    "sailing boat",
    "sailing boat",
    "steamboat",
    "duck",
    "bird",
    "bird",
    "balloon",
    "kite",
    "plane",
  ],
  winter: ["penguin", "penguin", "snowman", "dog", "rabbit", "gift", "tent", "bird", "balloon", "crate"],
  pond: ["duck", "duck", "duck", "sailing boat", "fish", "bird", "butterfly", "balloon"],
  desert: ["elephant", "tent", "turtle", "snail", "car", "lorry", "crate", "bird", "balloon", "plane"],
  table: [
    "apple",
    "pear",
    "orange",
    "lemon",
    "banana",
    "strawberry",
    "cherry",
    "bunch of grapes",
    "watermelon slice",
    "pineapple",
    "carrot",
    "aubergine",
    "tomato",
    "mug",
    "teapot",
    "vase",
    "candle",
    "bottle",
    "jar",
    "hat",
    "cat",
    "lamp",
    "clock",
    "gift",
  ],
  shelf: [
    "book",
    "book",
    "book",
    "book",
    "book",
    "mug",
    "teapot",
    "vase",
    "lamp",
    "clock",
    "candle",
    "bottle",
    "jar",
    "potted plant",
    "cactus",
    "guitar",
    "owl",
    "ball",
    "gift",
    "hat",
    "cat",
    "apple",
    "pear",
    "crate",
  ],
};

/** Kinds that can be counted: none of them is part of a backdrop. */
export const COUNTABLE: readonly string[] = [
  ...new Set(
    Object.entries(INHABITANTS).flatMap(([place, kinds]) =>
      kinds.filter((kind) => !(place === "shelf" && kind === "cactus")),
    ),
  ),
];

/** The kinds that belong in a place and in one of these habitats; some are listed more than once. */
export function inhabitants(backdrop: string, habitats: readonly Habitat[]): readonly Thing[] {
  const kinds = (INHABITANTS[backdrop] ?? []).map(thingNamed);
  return kinds.filter((thing) => thing.habitat.some((habitat) => habitats.includes(habitat)));
}

/** How a thing of this kind looks, drawn from what it may be. */
export function drawLook(thing: Thing, dice: Dice): Look {
  const color = dice.chance(0.25) ? (thing.colors[0] as ColorName) : dice.pick(thing.colors);
  // Patterns are white on a colour: on white they could not be told from white on red.
  const plain = thing.patterns === undefined || color === "white" || dice.chance(0.5);
  const pattern = plain ? "plain" : dice.pick(thing.patterns ?? ["plain"]);
  return { color, pattern };
}

export function scene(seed: number, size: SceneSize = SIZE): Scene {
  const dice = new Dice(seed, "scene");
  return compose(dice, dice.pick(backdrops), size, (place, backdrop) => {
    const roll = dice.fork("things");
    const figures: Figure[] = [];
    for (const stage of place.stages) {
      const kinds = inhabitants(backdrop.name, [stage.habitat]);
      if (stage.rows !== undefined) figures.push(...furnish(stage.rows, stage, kinds, size, roll));
      else {
        const count = {
          ground: roll.whole(3, 6),
          table: roll.whole(6, 10),
          water: roll.whole(2, 4),
          sky: roll.whole(0, 2),
        }[stage.habitat];
        const flock = roll.pick(kinds);
        for (let i = 0; i < count; i++) {
          const thing = stage.habitat === "ground" && roll.chance(0.4) ? flock : roll.pick(kinds);
          const figure = put(figures, thing, drawLook(thing, roll), stage, size, roll, 1, 0.22);
          if (figure !== undefined) figures.push(figure);
        }
      }
    }
    return figures;
  });
}

/** `count` things of `kind`, and some of other kinds, none hidden by more than a sliver. */
export function countingScene(seed: number, kind: string, count: number, size: SceneSize = SIZE): Scene {
  const thing = thingNamed(kind);
  const homes = backdrops.filter((backdrop) => INHABITANTS[backdrop.name]?.includes(kind));
  if (homes.length === 0) throw new ConfigError(`"${kind}" can't be counted; the kinds are ${COUNTABLE.join(", ")}.`);
  const dice = new Dice(seed, `counting ${kind} ${count}`);
  return compose(dice, dice.pick(homes), size, (place, backdrop) => {
    const others = (INHABITANTS[backdrop.name] ?? []).filter((name) => name !== kind).map(thingNamed);
    // Smaller until all of them fit: a crowd stands farther off.
    for (let scale = 1; ; scale *= 0.9) {
      const roll = dice.fork(`crowd ${scale}`);
      const figures: Figure[] = [];
      const stages = place.stages.filter((stage) => thing.habitat.includes(stage.habitat));
      const stage = stages[0] as Stage;
      for (let i = 0; i < count; i++) {
        const figure = put(figures, thing, drawLook(thing, roll), stage, size, roll, scale, 0.06);
        if (figure === undefined) break;
        figures.push(figure);
      }
      if (figures.length < count) continue;
      const strangers = roll.whole(2, 6);
      for (let i = 0; i < strangers; i++) {
        const other = roll.pick(others);
        const home = roll.pick(place.stages.filter(({ habitat }) => other.habitat.includes(habitat)));
        if (home === undefined) continue;
        const figure = put(figures, other, drawLook(other, roll), home, size, roll, scale, 0.06);
        if (figure !== undefined) figures.push(figure);
      }
      return figures;
    }
  });
}

/** Paints a backdrop and the figures that `fill` puts on it, far ones first. */
export function compose(
  dice: Dice,
  backdrop: Backdrop,
  { width, height }: SceneSize,
  fill: (place: Place, backdrop: Backdrop) => readonly Figure[],
): Scene {
  const brush = new Brush(width, height);
  brush.light = dice.sign();
  const place = backdrop.paint(brush, dice.fork(backdrop.name));
  const figures = [...fill(place, backdrop)].sort((a, b) => rank(a) - rank(b) || a.y - b.y || a.x - b.x);
  figures.forEach((figure, index) => {
    brush.id = index + 1;
    drawFigure(brush, figure, dice.fork(`figure ${index}`));
  });
  brush.id = 0;
  brush.grade(place.mood.tint, 0.3);
  return { backdrop: backdrop.name, picture: brush.toImage(), ids: brush.ids, objects: survey(brush, figures) };
}

/** What is in the sky lies behind what stands on the ground. */
function rank({ thing }: Figure): number {
  return thing.habitat[0] === "sky" ? 0 : 1;
}

export function drawFigure(brush: Brush, figure: Figure, dice: Dice): void {
  const { thing, look, x, y, size, mirrored, tilt } = figure;
  const pen = Pen.at(brush, { x, y, size, mirrored, tilt });
  const afloat = thing.habitat.includes("water");
  if (thing.habitat[0] !== "sky") pen.shadow(thing.width * (afloat ? 1 : 0.9), afloat ? 0.3 : 0.45);
  thing.draw(pen, inkOf(look, dice));
}

/** Somewhere on the stage where the figure hides little of the others; undefined when there is no room. */
export function put(
  others: readonly Figure[],
  thing: Thing,
  look: Look,
  stage: Stage,
  { width }: SceneSize,
  dice: Dice,
  scale: number,
  overlap: number,
): Figure | undefined {
  for (let attempt = 0; attempt < 60; attempt++) {
    const depth = dice.roll();
    const bottom = stage.rows === undefined ? stage.top + (stage.bottom - stage.top) * depth : dice.pick(stage.rows);
    const size =
      (stage.far + (stage.near - stage.far) * depth) * pow(thing.height, 0.6) * scale * dice.between(0.88, 1.12);
    const half = (size * thing.width) / 2;
    if (2 * half > width * 0.8) continue;
    const x = dice.between(half + 2, width - half - 2);
    const y = stage.habitat === "sky" ? Math.max(bottom, size + 2) : bottom;
    const tilt = stage.habitat === "sky" ? dice.between(-8, 8) : thing.habitat[0] === "table" ? 0 : dice.between(-2, 2);
    const figure: Figure = { thing, look, x, y, size, mirrored: dice.chance(0.5), tilt };
    if (y - size < 1) continue;
    if (others.every((other) => covered(figure, other) <= overlap)) return figure;
  }
  return undefined;
}

/** How much of the smaller figure's box the two boxes share. */
function covered(a: Figure, b: Figure): number {
  const [aw, bw] = [a.size * a.thing.width, b.size * b.thing.width];
  const across = Math.min(a.x + aw / 2, b.x + bw / 2) - Math.max(a.x - aw / 2, b.x - bw / 2);
  const down = Math.min(a.y, b.y) - Math.max(a.y - a.size, b.y - b.size);
  if (across <= 0 || down <= 0) return 0;
  return (across * down) / Math.min(aw * a.size, bw * b.size);
}

/** Things side by side on every board. */
function furnish(
  rows: readonly number[],
  stage: Stage,
  kinds: readonly Thing[],
  { width }: SceneSize,
  dice: Dice,
): Figure[] {
  const figures: Figure[] = [];
  for (const y of rows) {
    let x = width * dice.between(0.06, 0.1);
    while (x < width * 0.93) {
      const thing = dice.pick(kinds);
      const run = thing.name === "book" ? dice.whole(3, 7) : 1;
      for (let i = 0; i < run; i++) {
        const size = stage.near * Math.min(1.55, thing.height) * dice.between(0.9, 1.05);
        const span = size * thing.width * (thing.name === "book" ? 0.9 : 1);
        if (x + span > width * 0.94) break;
        const lean = run > 1 && i === run - 1 && dice.chance(0.5) ? -9 : 0;
        figures.push({
          thing,
          look: drawLook(thing, dice),
          x: x + span / 2 + (lean === 0 ? 0 : size * 0.08),
          y,
          size,
          mirrored: dice.chance(0.5),
          tilt: lean,
        });
        x += span + (lean === 0 ? 0 : size * 0.12);
      }
      x += width * dice.between(0.012, 0.05);
    }
  }
  return figures;
}

/** The objects as they are seen: pixels, centres and boxes from the id buffer. Those that can't be seen are left out. */
function survey(brush: Brush, figures: readonly Figure[]): SceneObject[] {
  const { width, height, ids } = brush;
  const seen = figures.map(() => ({ n: 0, sx: 0, sy: 0, x0: width, y0: height, x1: 0, y1: 0 }));
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      const id = ids[i] as number;
      const sum = id === 0 ? undefined : seen[id - 1];
      if (sum === undefined) continue;
      sum.n += 1;
      sum.sx += x;
      sum.sy += y;
      if (x < sum.x0) sum.x0 = x;
      if (x > sum.x1) sum.x1 = x;
      if (y < sum.y0) sum.y0 = y;
      if (y > sum.y1) sum.y1 = y;
    }
  }
  return figures.flatMap(({ thing, look, size }, index): SceneObject[] => {
    const { n, sx, sy, x0, y0, x1, y1 } = seen[index] as (typeof seen)[number];
    if (n === 0) return [];
    return [
      {
        id: index + 1,
        kind: thing.name,
        plural: thing.plural,
        ...look,
        height: size,
        centre: [sx / n, sy / n],
        box: { x: x0, y: y0, width: x1 - x0 + 1, height: y1 - y0 + 1 },
        pixels: n,
      },
    ];
  });
}
