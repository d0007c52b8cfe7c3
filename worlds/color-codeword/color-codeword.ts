/**
 * color_codeword: a small test of memory. A secret code of colours is shown one colour at a time, each filling the
 * image; then the screen shows a question mark and the agent must say the whole code. No single image holds the
 * answer, so a policy that loses earlier frames (or never sees them) can't beat chance.
 */
import { z } from "zod";
import { EnvError, type Image, isJsonObject, type Json, NumpyRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  act,
  bare,
  defineWorld,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  type World,
} from "../../src/envs/index.ts";
import { Canvas, type Color } from "../../src/images/index.ts";

const PALETTE: readonly (readonly [name: string, color: Color])[] = [
  ["red", [222, 38, 38]],
  ["green", [34, 160, 60]],
  ["blue", [36, 80, 224]],
  ["yellow", [250, 220, 40]],
  ["purple", [128, 44, 172]],
  ["orange", [248, 138, 24]],
  ["cyan", [40, 205, 226]],
  ["white", [255, 255, 255]],
];
const BACKGROUND: Color = [64, 66, 74];
const QUESTION: Color = [176, 178, 186];

const options = z.strictObject({
  length: z.int().min(2).max(8).default(3).describe("Number of colours in the code."),
  colors: z.int().min(2).max(PALETTE.length).default(4).describe("Number of colours that codes are drawn from."),
  size: z.int().min(8).max(512).default(64).describe("Side of the frame, in pixels."),
});

export class ColorCodeword implements World {
  readonly actions: readonly ActionSpec[];
  readonly #length: number;
  readonly #names: readonly string[];
  /** An image per colour, then the question mark. */
  readonly #frames: readonly Image[];
  #code: readonly number[] = [];
  /** Colours that were left behind: the image shows `code[passed]`, or the question mark after the last. */
  #passed = 0;
  #answer: readonly number[] | undefined;

  constructor({ length, colors, size }: z.output<typeof options>) {
    const palette = PALETTE.slice(0, colors);
    this.#length = length;
    this.#names = palette.map(([name]) => name);
    this.#frames = [...palette.map(([, color]) => drawSquare(size, color)), drawQuestion(size)];
    const items = Array.from({ length }, (_, i) => ({
      type: "int" as const,
      name: `color ${i + 1}`,
      min: 0,
      max: colors - 1,
      labels: this.#names,
    }));
    this.actions = [
      bare("next", "see the next color"),
      {
        name: "say",
        description: `answer with all ${length} colors of the code in order, which ends the episode`,
        arg: { type: "list", items },
        example: items.map((_, i) => i % colors),
        ends: true,
      },
    ];
  }

  reset(seed: number): void {
    const random = new NumpyRandom(seed);
    this.#code = Array.from({ length: this.#length }, () => random.integers(this.#names.length));
    this.#passed = 0;
    this.#answer = undefined;
  }

  success(): boolean {
    return this.#answer?.every((color, i) => color === this.#code[i]) ?? false;
  }

  act(action: Action): Outcome {
    if (this.#answer !== undefined) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (action.name === "say") {
      this.#answer = (action.payload as readonly number[]).slice();
      if (this.success()) return { valid: true, feedback: "Right, that is the code.", reward: 1, ended: true };
      const feedback = `Wrong, the code was ${this.#words(this.#code)}.`;
      return { valid: true, feedback, reward: 0, ended: true, ending: "guessed a wrong code" };
    }
    if (this.#passed === this.#length) {
      const feedback = `All ${this.#length} colors have been shown; say the code.`;
      return { valid: false, feedback, reward: 0, ended: false };
    }
    this.#passed += 1;
    return { valid: true, reward: 0, ended: false };
  }

  #words(code: readonly number[]): string {
    return code.map((color) => this.#names[color]).join(" ");
  }

  observe(mode: ObservationMode): Observation {
    const color = this.#code[this.#passed];
    if (mode === "image") return this.#frames[color ?? this.#names.length] as Image;
    return color === undefined
      ? "All colors have been shown. What was the code?"
      : `The color is ${this.#names[color]}.`;
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const length = this.#length;
    if (style === "brief") return `Remember the ${length} colors, then say them in order.`;
    const [view, end] =
      mode === "text"
        ? ["You are told one color at a time", "you are asked for the code"]
        : ["You see one color at a time, as a big square", "a question mark appears"];
    return (
      `There is a secret code of ${length} colors, and a color can occur more than once. ${view}, beginning with the ` +
      `first of the code; ask for the next until ${end}. Colors are not shown again, so remember them. Then say the whole ` +
      "code, from the first color to the last. You have one try: you succeed if every color is right, and the episode ends."
    );
  }

  solve(): Action[] {
    if (this.#answer !== undefined) return [];
    return [...Array.from({ length: this.#length - this.#passed }, () => act("next")), act("say", this.#code)];
  }

  save(): Json {
    const names = (code: readonly number[]) => code.map((color) => this.#names[color] as string);
    return { code: names(this.#code), passed: this.#passed, answer: this.#answer ? names(this.#answer) : null };
  }

  load(state: Json): void {
    if (!isJsonObject(state)) throw new EnvError("A saved color_codeword episode is { code, passed, answer }.");
    const code = this.#indices(state.code, "code");
    const answer = state.answer == null ? undefined : this.#indices(state.answer, "answer");
    const passed = state.passed;
    if (typeof passed !== "number" || !Number.isInteger(passed) || passed < 0 || passed > this.#length) {
      throw new EnvError(`passed must be a whole number from 0 to ${this.#length}.`);
    }
    this.#code = code;
    this.#passed = passed;
    this.#answer = answer;
  }

  #indices(value: Json | undefined, field: string): number[] {
    const indices = Array.isArray(value) ? value.map((name) => this.#names.indexOf(name)) : [];
    if (indices.length !== this.#length || indices.includes(-1)) {
      throw new EnvError(`${field} must be a list of ${this.#length} colors out of ${this.#names.join(", ")}.`);
    }
    return indices;
  }
}

function drawSquare(size: number, color: Color): Image {
  const canvas = new Canvas(size, size, BACKGROUND);
  const margin = Math.round(size / 8);
  canvas.fillRect(margin, margin, size - 2 * margin, size - 2 * margin, color);
  return canvas.toImage();
}

function drawQuestion(size: number): Image {
  const canvas = new Canvas(size, size, BACKGROUND);
  const style = { size: size * 0.75, color: QUESTION, weight: 1.4 };
  canvas.text("?", size / 2, size / 2, { ...style, align: "center", baseline: "middle" });
  return canvas.toImage();
}

export const colorCodeword = defineWorld({
  id: "color_codeword",
  summary: "remember a code of colors shown one at a time, then say it",
  options,
  protocol: "keyword",
  maxTurns: 9,
  create: (given) => new ColorCodeword(given),
});
