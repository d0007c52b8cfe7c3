/**
 * svg (VAGEN): write an SVG document that looks like the image. Every drawing is rendered beside the target and scored by
 * what both have in common (`svg-score.ts`; nothing for a blank canvas, 1 for the same image). A turn pays by how much it
 * beats the best drawing before it, so an episode is worth its best drawing; one that is good enough ends it. Targets are icons
 * drawn from the seed, or a user's folder of SVG files.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { ConfigError, EnvError, Image, isJsonObject, type Json, NumpyRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  act,
  defineWorld,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  type World,
} from "../../src/envs/index.ts";
import { Canvas } from "../../src/images/index.ts";
import { filesIn, findIn, sceneSeed } from "../shared/scenes/source.ts";
import { type Drawing, drawSvg, loadResvg, type Resvg, refusal } from "./draw.ts";
import { icon } from "./icons.ts";
import { type Features, features, score } from "./score.ts";

const weight = z.number().nonnegative();

const options = z.strictObject({
  size: z.int().min(48).max(1024).default(224).describe("Side of each of the two squares, in pixels."),
  folder: z.string().optional().describe("Folder of SVG files to copy instead of the built-in icons."),
  threshold: z.number().min(0).max(1).default(0.9).describe("Score from which the episode ends as a success."),
  weights: z
    .strictObject({
      structure: weight.default(0.3).describe("Edges."),
      colour: weight.default(0.3).describe("Colours."),
      scales: weight.default(0.4).describe("Structural similarity over several scales."),
    })
    .prefault({})
    .refine(({ structure, colour, scales }) => structure + colour + scales > 0, "must not all be 0")
    .describe("Weights of the parts of the score."),
  maxLength: z.int().min(100).max(16000).default(12000).describe("Longest document that is read, in characters."),
});

type Options = z.output<typeof options>;
type Drawn = { readonly picture: Image; readonly features: Features };
/** `target` is `icon:<seed>`, or a path within the folder. */
type Episode = { readonly target: string; readonly drawing: string | null; readonly best: number };

const GAP = 8;
const SAMPLES = [0, 1, 2, 3, 4, 5, 6, 7].map((seed) => icon(seed));
const EXAMPLE =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><circle cx="32" cy="24" r="14" fill="#d7263d"/></svg>';
/** Rows and columns of the text view, and its letters. */
const LETTERS = 24;
const PALETTE: readonly (readonly [letter: string, name: string, color: readonly [number, number, number]])[] = [
  [".", "white", [255, 255, 255]],
  ["k", "black", [25, 25, 35]],
  ["g", "grey", [125, 125, 130]],
  ["r", "red", [215, 38, 61]],
  ["o", "orange", [244, 120, 50]],
  ["y", "yellow", [240, 190, 30]],
  ["n", "green", [46, 147, 60]],
  ["t", "teal", [27, 153, 139]],
  ["b", "blue", [31, 111, 178]],
  ["v", "violet", [91, 58, 158]],
  ["p", "pink", [210, 90, 160]],
  ["w", "brown", [122, 74, 36]],
  ["l", "pale", [232, 232, 236]],
];

/** Images and scores are pure functions of their documents; the last few are kept, since groups draw alike. */
const MAX_KEPT = 64;

class Svg implements World {
  readonly actions: readonly ActionSpec[];
  readonly #options: Options;
  readonly #resvg: Resvg;
  readonly #files: readonly string[];
  readonly #drawings = new Map<string, Drawn | { readonly problem: string }>();
  readonly #blank: Features;
  #episode: Episode | undefined;
  #target: { readonly source: string; readonly drawn: Drawn } | undefined;

  constructor(given: Options, resvg: Resvg) {
    this.#options = given;
    this.#resvg = resvg;
    this.#files = given.folder === undefined ? [] : filesIn(resolve(given.folder), [".svg"]);
    if (given.folder !== undefined && this.#files.length === 0) {
      throw new ConfigError(`There is no SVG file in ${given.folder}: put some there, or leave "folder" out.`);
    }
    this.#blank = features(new Image(given.size, given.size, new Uint8Array(given.size * given.size * 3).fill(255)));
    this.actions = [
      {
        name: "draw",
        description: "draw an SVG document on a white canvas, in place of your drawing so far",
        arg: { type: "text", name: "svg", opening: "<svg", maxLength: given.maxLength, samples: SAMPLES },
        example: EXAMPLE,
        shorthand: true,
      },
    ];
  }

  get #now(): Episode {
    if (this.#episode === undefined)
      throw new EnvError("There is no episode yet; call reset(seed) or load(state) first.");
    return this.#episode;
  }

  reset(seed: number): void {
    const files = this.#files;
    const target = files[new NumpyRandom(seed).integers(0, Math.max(1, files.length))] ?? `icon:${seed}`;
    this.#begin({ target, drawing: null, best: 0 });
  }

  #begin(episode: Episode): void {
    const source = this.#sourceOf(episode.target);
    const drawn = this.#draw(source);
    if ("problem" in drawn) throw new EnvError(`${episode.target}: ${drawn.problem}`);
    this.#target = { source, drawn };
    this.#episode = episode;
  }

  #sourceOf(target: string): string {
    const seed = sceneSeed(target, "icon");
    if (seed !== undefined) return icon(seed);
    const { folder } = this.#options;
    if (folder === undefined)
      throw new EnvError(`"${target}" is a file: give the option "folder", the folder that holds it.`);
    return readFileSync(findIn(resolve(folder), target), "utf8");
  }

  #draw(source: string): Drawn | { readonly problem: string } {
    const known = this.#drawings.get(source);
    if (known !== undefined) return known;
    const drawing: Drawing = drawSvg(this.#resvg, source, this.#options.size);
    const drawn = "problem" in drawing ? drawing : { picture: drawing.picture, features: features(drawing.picture) };
    this.#drawings.set(source, drawn);
    if (this.#drawings.size > MAX_KEPT) this.#drawings.delete(this.#drawings.keys().next().value as string);
    return drawn;
  }

  success(): boolean {
    return this.#now.best >= this.#options.threshold;
  }

  act(action: Action): Outcome {
    if (this.success()) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    const drawing = action.payload as string;
    const problem = refusal(drawing);
    const drawn = problem === undefined ? this.#draw(drawing) : { problem };
    if ("problem" in drawn) {
      return { valid: false, feedback: `Nothing was drawn. ${drawn.problem}`, reward: 0, ended: false };
    }
    const reached = this.#score(drawn);
    const reward = Math.max(0, reached - this.#now.best);
    this.#episode = { ...this.#now, drawing, best: Math.max(this.#now.best, reached) };
    const ended = this.success();
    const feedback = ended
      ? `Your drawing scores ${percent(reached)}: good enough.`
      : `Your drawing scores ${percent(reached)}, your best so far ${percent(this.#now.best)}.`;
    return { valid: true, feedback, reward, ended };
  }

  #score(drawn: Drawn): number {
    const target = this.#target?.drawn.features as Features;
    return score(target, drawn.features, this.#blank, this.#options.weights);
  }

  observe(mode: ObservationMode): Observation {
    const { size } = this.#options;
    const target = this.#target?.drawn.picture as Image;
    const { drawing } = this.#now;
    const drawn = drawing === null ? undefined : this.#draw(drawing);
    const mine = drawn !== undefined && "picture" in drawn ? drawn.picture : undefined;
    if (mode === "text") return this.#text(target, mine);
    const canvas = new Canvas(size * 2 + GAP, size, [128, 128, 136]);
    canvas.draw(target, 0, 0);
    canvas.draw(mine ?? new Image(size, size, new Uint8Array(size * size * 3).fill(255)), size + GAP, 0);
    return canvas.toImage();
  }

  #text(target: Image, mine: Image | undefined): string {
    const legend = PALETTE.map(([letter, name]) => `${letter} ${name}`).join(", ");
    const drawn = mine === undefined ? "nothing yet" : `\n${letters(mine)}`;
    return `colours: ${legend}\ntarget:\n${letters(target)}\nyour drawing: ${drawn}`;
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    if (style === "brief") return "Write an SVG that looks like the target.";
    const { threshold } = this.#options;
    const view =
      mode === "text"
        ? `You see a target picture in ${LETTERS} rows of letters, one letter a colour, and your own drawing the same way.`
        : "You see two squares: on the left the target, on the right your drawing so far, which is empty at first.";
    return (
      `${view} Write an SVG document that looks like the target. Use a square viewBox, such as 0 0 64 64, and plain shapes ` +
      "(path, rect, circle, ellipse, line, polyline, polygon, g, gradients); text, images and filters are not drawn. Each drawing is scored " +
      "by its edges, its colours and its likeness at several scales, from 0 % (no better than an empty canvas) to 100 % (the same picture), " +
      "and your best one counts. You may draw again to improve on it. " +
      `You succeed, and the episode ends, with ${percent(threshold)} or more.`
    );
  }

  /** The target's own document, where it is one that may be drawn. */
  solve(): Action[] {
    const source = this.#target?.source.trim() ?? "";
    const start = source.indexOf("<svg");
    const document = source.slice(Math.max(0, start));
    const writable = start >= 0 && document.length <= this.#options.maxLength && refusal(document) === undefined;
    return this.success() || !writable ? [] : [act("draw", document)];
  }

  save(): Json {
    return { ...this.#now };
  }

  load(state: Json): void {
    const { target, drawing = null, best = 0 } = isJsonObject(state) ? state : {};
    if (typeof target !== "string")
      throw new EnvError("A saved svg episode is { target, drawing, best }; target is missing.");
    if (drawing !== null && typeof drawing !== "string") throw new EnvError("drawing must be an SVG document or null.");
    if (typeof best !== "number" || !(best >= 0 && best <= 1)) throw new EnvError("best must be a number from 0 to 1.");
    if (drawing !== null) {
      const problem = refusal(drawing);
      if (problem !== undefined) throw new EnvError(`drawing: ${problem}`);
    }
    this.#begin({ target, drawing, best });
  }
}

function percent(value: number): string {
  return `${(Math.floor(value * 1000) / 10).toFixed(1)} %`;
}

/** A letter for the mean colour of each cell. */
function letters({ width, data }: Image): string {
  const rows: string[] = [];
  for (let row = 0; row < LETTERS; row++) {
    let line = "";
    for (let column = 0; column < LETTERS; column++) {
      const [sum, count] = [[0, 0, 0], { pixels: 0 }];
      const edge = (i: number) => Math.floor((i * width) / LETTERS);
      for (let y = edge(row); y < edge(row + 1); y++) {
        for (let x = edge(column); x < edge(column + 1); x++, count.pixels++) {
          for (let k = 0; k < 3; k++) sum[k] = (sum[k] as number) + (data[(y * width + x) * 3 + k] as number);
        }
      }
      line += nearestLetter(sum.map((value) => value / count.pixels));
    }
    rows.push(line);
  }
  return rows.join("\n");
}

function nearestLetter(color: readonly number[]): string {
  let best = "";
  let least = Infinity;
  for (const [letter, , named] of PALETTE) {
    const distance = named.reduce((sum, value, k) => sum + (value - (color[k] as number)) ** 2, 0);
    if (distance < least) [best, least] = [letter, distance];
  }
  return best;
}

export const svg = defineWorld({
  id: "svg",
  summary: "write an SVG document that looks like the image",
  options,
  protocol: "think",
  maxTurns: 3,
  maxActions: 1,
  // Nothing of resvg is loaded before a world needs it.
  create: async (given) => new Svg(given, await loadResvg()),
});
