/**
 * Short videos from a seed: a place, one or two things, and something that happens to them, such that the order of the
 * frames can be told from the label ("moving the red mug from left to right"). Nothing runs both ways: every happening is
 * different at each moment. Frames are drawn one by one, on a backdrop that is painted once.
 */
import type { Image } from "../../../src/core/index.ts";
import { backdrops, type Stage } from "./backdrops/index.ts";
import { Brush, type Color, deepen, lift } from "./brush.ts";
import { Dice } from "./dice.ts";
import { ease } from "./noise.ts";
import { Pen } from "./pen.ts";
import { drawFigure, drawLook, type Figure, inhabitants, type SceneSize } from "./scene.ts";
import { type Thing, wordsFor } from "./thing.ts";

export type Clip = {
  readonly label: string;
  /** How many frames it has. */
  readonly length: number;
  frame(index: number): Image;
};

const LENGTH = 60;

/** What is to be seen at a moment `t` from 0 to 1. */
type Shot = { readonly figures: readonly Figure[]; readonly hand?: readonly [x: number, y: number, side: number] };
type Story = { readonly label: string; at(t: number): Shot };

type Set = { readonly stage: Stage; readonly size: SceneSize; readonly dice: Dice; readonly cast: readonly Figure[] };
type Plot = { readonly habitats: readonly string[]; readonly actors: number; tell(set: Set): Story };

export function clip(seed: number, size: SceneSize = { width: 224, height: 224 }): Clip {
  const dice = new Dice(seed, "clip");
  const plot = dice.pick(plots);
  const homes = backdrops.filter(
    ({ name }) => name !== "shelf" && inhabitants(name, plot.habitats as Stage["habitat"][]).length > 0,
  );
  const backdrop = dice.pick(homes);
  const brush = new Brush(size.width, size.height);
  brush.light = dice.sign();
  const place = backdrop.paint(brush, dice.fork("backdrop"));
  const stages = place.stages.filter(({ habitat }) => plot.habitats.includes(habitat));
  const stage = (stages.length > 0 ? dice.pick(stages) : place.stages[0]) as Stage;
  const kinds = distinct(dice.shuffle(inhabitants(backdrop.name, [stage.habitat]))).filter(
    (thing) => thing.width < 1.9,
  );
  const cast = kinds.slice(0, plot.actors).map((thing) => actor(thing, stage, size, dice));
  const story = plot.tell({ stage, size, dice: dice.fork("story"), cast });
  const empty = brush.rgb.slice();
  return {
    label: story.label,
    length: LENGTH,
    frame(index) {
      brush.rgb.set(empty);
      const { figures, hand } = story.at(index / (LENGTH - 1));
      figures.forEach((figure, i) => {
        drawFigure(brush, figure, dice.fork(`actor ${i}`));
      });
      if (hand !== undefined) drawHand(brush, hand, size);
      brush.grade(place.mood.tint, 0.25);
      return brush.toImage();
    },
  };
}

function distinct(kinds: readonly Thing[]): readonly Thing[] {
  return [...new Set(kinds)];
}

/** An actor in the middle of the stage, large enough to follow. */
function actor(thing: Thing, stage: Stage, { width, height }: SceneSize, dice: Dice): Figure {
  const share = stage.habitat === "sky" ? 0.2 : 0.3;
  const size = Math.min((width * 0.3) / thing.width, height * share);
  const y = stage.habitat === "sky" ? height * 0.34 : stage.top + (stage.bottom - stage.top) * 0.72;
  return { thing, look: drawLook(thing, dice), x: width / 2, y, size, mirrored: false, tilt: 0 };
}

/** "the red mug", "the striped red mug". */
function called({ thing, look }: Figure): string {
  return `the ${wordsFor(thing, look.color, look.pattern === "plain" ? undefined : look.pattern)}`;
}

const lerp = (a: number, b: number, t: number) => a + (b - a) * t;
const GROUNDED = ["ground", "table"];
const ANYWHERE = ["ground", "table", "water", "sky"];

function one({ cast }: Set): Figure {
  return cast[0] as Figure;
}

function two({ cast }: Set): readonly [Figure, Figure] {
  return [cast[0] as Figure, (cast[1] ?? cast[0]) as Figure];
}

const plots: readonly Plot[] = [
  {
    habitats: ANYWHERE,
    actors: 1,
    tell(set) {
      const actor = one(set);
      const right = set.dice.chance(0.5);
      const [from, to] = right ? [0.12, 0.88] : [0.88, 0.12];
      const byHand = set.stage.habitat === "table";
      return {
        label: `moving ${called(actor)} from ${right ? "left to right" : "right to left"}`,
        at(t) {
          const x = set.size.width * lerp(from, to, t);
          const side = right ? -1 : 1;
          const figure = { ...actor, x, mirrored: !right };
          return byHand
            ? {
                figures: [figure],
                hand: [x + (side * actor.size * actor.thing.width) / 2, actor.y - actor.size * 0.5, side],
              }
            : { figures: [figure] };
        },
      };
    },
  },
  {
    habitats: ["ground", "water"],
    actors: 1,
    tell(set) {
      const actor = one(set);
      const closer = set.dice.chance(0.5);
      const x = set.size.width * set.dice.between(0.35, 0.65);
      return {
        label: `${called(actor)} ${closer ? "coming closer" : "going away"}`,
        at(t) {
          const near = closer ? t : 1 - t;
          const y = lerp(set.stage.top, set.stage.bottom, near);
          return { figures: [{ ...actor, x, y, size: actor.size * lerp(0.3, 1.4, near) }] };
        },
      };
    },
  },
  {
    habitats: GROUNDED,
    actors: 1,
    tell(set) {
      const actor = one(set);
      const up = set.dice.chance(0.5);
      return {
        label: up ? `lifting ${called(actor)} up` : `dropping ${called(actor)}`,
        at(t) {
          const fall = up ? 1 - ease(t) : t * t;
          const y = lerp(actor.size * 0.9, actor.y, fall);
          const figure = { ...actor, y };
          return up ? { figures: [figure], hand: [actor.x, y - actor.size, 0] } : { figures: [figure] };
        },
      };
    },
  },
  {
    habitats: ["ground", "table", "water"],
    actors: 2,
    tell(set) {
      const [a, b] = two(set);
      const closer = set.dice.chance(0.5);
      const mirrored = set.dice.chance(0.5);
      const place = (share: number) => set.size.width * (mirrored ? 1 - share : share);
      return {
        label: `moving ${called(a)} ${closer ? "closer to" : "away from"} ${called(b)}`,
        at(t) {
          const near = closer ? t : 1 - t;
          return {
            figures: [
              { ...b, x: place(0.8) },
              { ...a, x: place(lerp(0.14, 0.52, near)), y: a.y + 2, mirrored },
            ],
          };
        },
      };
    },
  },
  {
    habitats: GROUNDED,
    actors: 2,
    tell(set) {
      const [a, b] = two(set);
      return {
        label: `putting ${called(a)} next to ${called(b)}`,
        at(t) {
          const x = set.size.width * 0.32;
          const y = lerp(a.size * 0.7, a.y, ease(Math.min(1, t * 1.1)));
          return {
            figures: [
              { ...b, x: set.size.width * 0.7 },
              { ...a, x, y },
            ],
            hand: [x, y - a.size, 0],
          };
        },
      };
    },
  },
  {
    habitats: GROUNDED,
    actors: 1,
    tell(set) {
      const actor = one(set);
      const side = set.dice.sign();
      return {
        label: `tilting ${called(actor)} until it falls over`,
        at: (t) => ({
          figures: [
            {
              ...actor,
              x: actor.x - side * actor.size * 0.2,
              tilt: 92 * t * t * side,
              y: actor.y - Math.abs(t * t) * actor.size * actor.thing.width * 0.2,
            },
          ],
        }),
      };
    },
  },
  {
    habitats: GROUNDED,
    actors: 1,
    tell(set) {
      const actor = one(set);
      const add = set.dice.chance(0.5);
      const count = 5;
      const small = { ...actor, size: actor.size * 0.62 };
      return {
        label: add
          ? `putting ${actor.thing.plural} down one after another`
          : `taking ${actor.thing.plural} away one after another`,
        at(t) {
          const there = add ? Math.floor(t * count * 0.999) + 1 : count - Math.floor(t * count * 0.999);
          const span = set.size.width * 0.17;
          return {
            figures: Array.from({ length: there }, (_, i) => ({
              ...small,
              x: set.size.width * 0.16 + i * span,
              y: actor.y - (i % 2) * 6,
            })),
          };
        },
      };
    },
  },
  {
    habitats: ["sky", "ground"],
    actors: 1,
    tell(set) {
      const actor = one(set);
      const up = set.dice.chance(0.5);
      const drift = set.dice.between(-0.15, 0.15);
      return {
        label: `${called(actor)} ${up ? "rising into the sky" : "coming down from the sky"}`,
        at(t) {
          const high = up ? t : 1 - t;
          return {
            figures: [
              {
                ...actor,
                x: set.size.width * (0.5 + drift * high),
                y: lerp(set.size.height * 0.92, set.size.height * 0.2, high),
                size: actor.size * lerp(1.2, 0.45, high),
              },
            ],
          };
        },
      };
    },
  },
  {
    habitats: GROUNDED,
    actors: 1,
    tell(set) {
      const actor = one(set);
      const right = set.dice.chance(0.5);
      return {
        label: `throwing ${called(actor)} from ${right ? "left to right" : "right to left"}`,
        at(t) {
          const share = lerp(0.1, 0.9, right ? t : 1 - t);
          const y = actor.y - 4 * t * (1 - t) * set.size.height * 0.42;
          return {
            figures: [
              { ...actor, size: actor.size * 0.75, x: set.size.width * share, y, tilt: (right ? 1 : -1) * 300 * t },
            ],
          };
        },
      };
    },
  },
  {
    habitats: GROUNDED,
    actors: 2,
    tell(set) {
      const [a, b] = two(set);
      const right = set.dice.chance(0.5);
      const place = (share: number) => set.size.width * (right ? share : 1 - share);
      const gap = ((a.size * a.thing.width + b.size * b.thing.width) * 0.36) / set.size.width;
      return {
        label: `pushing ${called(b)} with ${called(a)}`,
        at(t) {
          const x = lerp(-0.02, 0.6, t);
          const pushed = Math.max(0.42, x + gap);
          return {
            figures: [
              { ...b, size: b.size * 0.75, x: place(pushed) },
              { ...a, size: a.size * 0.75, x: place(x), mirrored: !right },
            ],
          };
        },
      };
    },
  },
  {
    habitats: ["ground", "water"],
    actors: 1,
    tell(set) {
      const actor = one(set);
      const right = set.dice.chance(0.5);
      return {
        label: `a row of ${actor.thing.plural} coming in from the ${right ? "left" : "right"}`,
        at(t) {
          const span = Math.max(0.24, (actor.size * actor.thing.width * 0.8) / set.size.width);
          const figures = Array.from({ length: 4 }, (_, i) => {
            const share = lerp(-0.15, 0.92, t) - i * span;
            return {
              ...actor,
              size: actor.size * 0.7,
              x: set.size.width * (right ? share : 1 - share),
              mirrored: !right,
            };
          });
          return { figures };
        },
      };
    },
  },
  {
    habitats: GROUNDED,
    actors: 2,
    tell(set) {
      const [a, b] = two(set);
      const uncover = set.dice.chance(0.5);
      const front = { ...a, size: a.size * 1.25 };
      return {
        label: uncover ? `revealing ${called(b)} behind ${called(a)}` : `hiding ${called(b)} behind ${called(a)}`,
        at(t) {
          const open = uncover ? t : 1 - t;
          return {
            figures: [
              { ...b, size: b.size * 0.6, x: set.size.width * 0.4, y: b.y - 8 },
              { ...front, x: set.size.width * lerp(0.4, 0.84, open) },
            ],
          };
        },
      };
    },
  },
];

const SKIN: Color = [226, 172, 136];

/** A hand that holds: from the left (-1), from the right (1) or from above (0). */
function drawHand(brush: Brush, [x, y, side]: readonly [number, number, number], { height }: SceneSize): void {
  const pen = Pen.at(brush, { x, y, size: height * 0.16, tilt: side === 0 ? 90 : 0, mirrored: side > 0 });
  pen.limb(-9, 0.1, 0.7, -0.75, 0, 0.5, { color: [70, 96, 140] });
  pen.limb(-0.8, 0, 0.44, -0.3, 0, 0.44, SKIN);
  pen.oval(-0.2, 0, 0.32, 0.27, SKIN);
  for (const v of [0.2, 0.06, -0.08, -0.2])
    pen.limb(-0.1, v, 0.13, 0.22 - Math.abs(v - 0.03) * 0.5, v, 0.11, lift(SKIN, 0.06));
  pen.limb(-0.3, 0.2, 0.14, 0.04, 0.36, 0.12, deepen(SKIN, 0.06));
}
