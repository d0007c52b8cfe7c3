/**
 * True geometry problems, drawn to scale. A seed decides the kind, the numbers, the turn of the figure and whether choices are offered. What is drawn is checked before it is given out:
 * the laws solved from what is given, and the diagram measured in pixels, both give the answer (`check.ts`).
 */
import { EnvError, type Image, mixSeed, NumpyRandom } from "../../src/core/index.ts";
import type { Point } from "../../src/images/index.ts";
import { type Law, type Measure, measure, solve } from "./check.ts";
import { amountOf, type Exact, latexOf } from "./exact.ts";
import { type Drawing, drawFigure, type Figure } from "./figure.ts";
import { TEMPLATES } from "./templates.ts";

export const KINDS = ["angles", "parallels", "similar", "right", "circles", "areas"] as const;
export type Kind = (typeof KINDS)[number];

/** What a template makes of its dice. */
export type Draft = {
  readonly figure: Figure;
  readonly quantities: Readonly<Record<string, Measure>>;
  /** What the labels say. */
  readonly given: Readonly<Record<string, number>>;
  readonly laws: readonly Law[];
  readonly sought: string;
  readonly answer: Exact;
  /** What can't be seen in the diagram: which point is the centre, which lines touch. */
  readonly told: string;
  /** "Find x." */
  readonly question: string;
  /** The way to the answer, as one would write it. */
  readonly steps: string;
};

export type Dice = {
  /** A whole number from `low` to `high`, a multiple of the option `step` for angles. */
  angle(low: number, high: number): number;
  integer(low: number, high: number): number;
  pick<T>(choices: readonly T[]): T;
};

export type ProblemOptions = {
  readonly kinds: readonly Kind[];
  /** Pixels of the image's sides. */
  readonly size: number;
  /** Angles are multiples of this. */
  readonly step: number;
  /** The most degrees by which a figure is turned. */
  readonly turn: number;
  /** How often choices are offered. */
  readonly choices: number;
};

export type Problem = {
  readonly kind: Kind;
  readonly picture: Image;
  /** The question with what the diagram does not say; `brief` is the question alone. Choices are in both. */
  readonly question: string;
  readonly brief: string;
  /** LaTeX, or the letter of the right choice. */
  readonly truth: string;
  readonly value: number;
  readonly choices: readonly string[];
  readonly steps: string;
  readonly draft: Draft;
  readonly drawing: Drawing;
};

const MAX_TRIES = 400;
const LETTERS = ["A", "B", "C", "D"] as const;

export function makeProblem(seed: number, options: ProblemOptions): Problem {
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const random = new NumpyRandom(mixSeed("geometry3k", seed, attempt));
    const kind = options.kinds[random.integers(0, options.kinds.length)] as Kind;
    const templates = TEMPLATES[kind];
    const dice = diceOf(random, options.step);
    const draft = (templates[random.integers(0, templates.length)] as (typeof templates)[number])(dice);
    if (draft === undefined) continue;
    const figure = turned(draft.figure, random.integers(-options.turn, options.turn + 1));
    const drawing = drawFigure(figure, options.size);
    if (drawing === undefined || problemWith(draft, drawing) !== undefined) continue;
    const offered = random.random() < options.choices ? choicesFor(draft.answer, random) : undefined;
    const list =
      offered === undefined ? "" : ` ${offered.shown.map((value, i) => `${LETTERS[i]}) ${value}`).join("  ")}`;
    return {
      kind,
      picture: drawing.image,
      question: `${draft.told === "" ? "" : `${draft.told} `}${draft.question}${list}`,
      brief: `${draft.question}${list}`,
      truth: offered === undefined ? latexOf(draft.answer) : (LETTERS[offered.right] as string),
      value: amountOf(draft.answer),
      choices: offered?.shown ?? [],
      steps: draft.steps,
      draft: { ...draft, figure },
      drawing,
    };
  }
  throw new EnvError(
    `No problem of the kinds ${options.kinds.join(", ")} fits ${options.size} pixels: choose a larger size.`,
  );
}

/** What is wrong with a problem: where the laws or the drawn diagram do not give its answer. */
export function problemWith(draft: Draft, drawing: Drawing): string | undefined {
  const value = amountOf(draft.answer);
  const solved = solve(draft.given, draft.laws)[draft.sought];
  if (solved === undefined) return "the laws do not decide the answer";
  if (!close(solved, value)) return `the laws give ${solved}, the answer is ${value}`;
  for (const [name, what] of Object.entries(draft.quantities)) {
    const drawn = measure(what, drawing.places, drawing.scale);
    const said = name === draft.sought ? value : draft.given[name];
    if (said !== undefined && !close(drawn, said)) return `${name} is said to be ${said} and drawn as ${drawn}`;
  }
  return undefined;
}

function close(a: number, b: number): boolean {
  return Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(b));
}

function diceOf(random: NumpyRandom, step: number): Dice {
  return {
    angle: (low, high) => step * random.integers(Math.ceil(low / step), Math.floor(high / step) + 1),
    integer: (low, high) => random.integers(low, high + 1),
    pick: (choices) => choices[random.integers(0, choices.length)] as (typeof choices)[number],
  };
}

function turned(figure: Figure, degrees: number): Figure {
  const [c, s] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  const turn = ([x, y]: Point): Point => [x * c - y * s, x * s + y * c];
  return {
    ...figure,
    points: Object.fromEntries(Object.entries(figure.points).map(([name, point]) => [name, turn(point)])),
  };
}

/** The answer among three others of its form, in random order. */
function choicesFor(answer: Exact, random: NumpyRandom): { shown: string[]; right: number } | undefined {
  const value = amountOf(answer);
  const shown = [answer];
  for (let tries = 0; shown.length < LETTERS.length && tries < 100; tries++) {
    const at = random.integers(0, answer.length);
    const changed = answer.map((term, i) => (i === at ? { ...term, p: otherNumber(term.p, random) } : term));
    const other = amountOf(changed);
    if (other > 0 && shown.every((exact) => Math.abs(amountOf(exact) - other) > 0.02 * value)) shown.push(changed);
  }
  if (shown.length < LETTERS.length) return undefined;
  const order = random.permutation(shown.length);
  const mixed = Array.from(order, (i) => latexOf(shown[i] as Exact));
  return { shown: mixed, right: Array.from(order).indexOf(0) };
}

function otherNumber(p: number, random: NumpyRandom): number {
  const size = Math.max(1, Math.round(Math.abs(p) * 0.1));
  return random.random() < 0.3 ? 2 * p : p + size * (random.integers(0, 9) - 4);
}
