/**
 * jigsaw (VisGym): the pieces of a cut image lie in the wrong places; put them right by swaps of two or by naming a whole
 * new order, then stop. Only `stop` ends the episode and pays. As in VisGym a piece has a white frame of one pixel, and where
 * the image can't be cut evenly the first rows and columns are a pixel larger. Frames equal VisGym's byte for byte.
 */
import { z } from "zod";
import { type Awaitable, Image, type Json, NumpyRandom } from "../../src/core/index.ts";
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
import { copyBytes } from "../../src/images/index.ts";
import { reordered, reorderTo, sameOrder, swapped, swapsTo, withDetours } from "../shared/arrange.ts";
import { placeWords } from "../shared/places.ts";
import { Saved } from "../shared/saved.ts";
import { Dice } from "../shared/scenes/dice.ts";
import { type ImageSource, pictures, when } from "../shared/scenes/index.ts";

const options = z.strictObject({
  rows: z.int().min(1).max(8).default(2).describe("Rows of pieces."),
  columns: z.int().min(2).max(8).default(2).describe("Columns of pieces."),
  border: z.int().min(0).max(8).default(1).describe("White border around each piece, in pixels."),
  folder: z.string().optional().describe("Folder of your own photos. Without it, the world draws its own scenes."),
  size: z
    .tuple([z.int().min(32).max(2048), z.int().min(32).max(2048)])
    .default([324, 240])
    .describe("Width and height of the scenes that the world draws, in pixels."),
  solver: z
    .enum(["swap", "reorder"])
    .default("swap")
    .describe("How the oracle solves it: swap by swap, or with one reordering."),
  solverSteps: z
    .int()
    .min(0)
    .max(100)
    .default(0)
    .describe("Minimum number of oracle swaps. The oracle adds swaps that it takes back."),
});

type Episode = {
  readonly picture: string;
  /** Piece `goal[k]` is the k-th of the image, row by row. */
  readonly goal: readonly number[];
  readonly start: readonly number[];
};
/** The image as it was cut: where columns and rows begin, and one more where the last ends; the rows of each part in its frame. */
type Cut = {
  readonly photo: Image;
  readonly parts: readonly (readonly Uint8Array[])[];
  readonly xs: readonly number[];
  readonly ys: readonly number[];
  readonly even: boolean;
};

export class Jigsaw implements World {
  readonly actions: readonly ActionSpec[];
  readonly #options: z.output<typeof options>;
  readonly #source: ImageSource;
  readonly #pieces: number;
  #episode!: Episode;
  /** The piece at each place, row by row. */
  #current: readonly number[] = [];
  /** Actions played, and the oracle's detours with the orders it expects. */
  #moves = 0;
  #script: { readonly plan: readonly Action[]; readonly orders: readonly (readonly number[])[] } | undefined;
  #stopped = false;
  #cut: Cut | undefined;
  #edges: readonly string[] | undefined;
  #frame: { readonly bytes: Uint8Array; readonly order: readonly number[] } | undefined;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    const { rows, columns, folder, size } = given;
    this.#pieces = rows * columns;
    this.#source = pictures(folder, { width: size[0], height: size[1] });
    const row = { type: "int", name: "row", min: 0, max: rows - 1 } as const;
    const column = { type: "int", name: "column", min: 0, max: columns - 1 } as const;
    const place = { type: "tuple", items: [row, column] } as const;
    this.actions = [
      {
        name: "swap",
        description: "exchange the pieces at two places, each given as (row, column), counted from 0 at the top left",
        arg: { type: "tuple", items: [place, place] },
        example: [
          [0, 0],
          [rows - 1, columns - 1],
        ],
      },
      {
        name: "reorder",
        description:
          `lay all pieces anew: places are numbered row by row from 0 to ${this.#pieces - 1}, and the k-th number you ` +
          "give is the place whose piece goes to place k",
        arg: { type: "permutation", name: "order", size: this.#pieces, start: 0 },
        example: [1, 0, ...Array.from({ length: this.#pieces - 2 }, (_, i) => i + 2)],
      },
      stopAction("end the episode, once the picture is whole"),
    ];
    this.reset(0);
  }

  reset(seed: number): void {
    const random = new NumpyRandom(seed);
    const start = Array.from({ length: this.#pieces }, (_, i) => i);
    let goal = random.permutation(this.#pieces);
    while (sameOrder(goal, start)) goal = random.permutation(this.#pieces);
    this.#begin({ picture: this.#source.pick(seed), goal, start }, start, 0, false);
  }

  #begin(episode: Episode, current: readonly number[], moves: number, stopped: boolean): void {
    this.#episode = episode;
    this.#current = current;
    this.#moves = moves;
    this.#stopped = stopped;
    this.#script = undefined;
    this.#cut = undefined;
    this.#edges = undefined;
    this.#frame = undefined;
  }

  success(): boolean {
    return this.#stopped && sameOrder(this.#current, this.#episode.goal);
  }

  act(action: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (action.name === "stop") {
      this.#stopped = true;
      return this.success()
        ? { valid: true, feedback: "You stopped with every piece in its place.", reward: 1, ended: true }
        : { valid: true, feedback: "You stopped with pieces in wrong places.", reward: 0, ended: true };
    }
    this.#current = this.#after(this.#current, action);
    this.#moves += 1;
    return { valid: true, reward: 0, ended: false };
  }

  #after(order: readonly number[], { name, payload }: Action): readonly number[] {
    if (name === "reorder") return reordered(order, payload as number[]);
    const [[r1, c1], [r2, c2]] = payload as [[number, number], [number, number]];
    const { columns } = this.#options;
    return swapped(order, r1 * columns + c1, r2 * columns + c2);
  }

  observe(mode: ObservationMode): Awaitable<Observation> {
    return when(this.#cutUp(), (cut) => (mode === "text" ? this.#text(cut) : this.#image(cut)));
  }

  #cutUp(): Awaitable<Cut> {
    if (this.#cut !== undefined) return this.#cut;
    const episode = this.#episode;
    return when(this.#source.get(episode.picture), (photo) => {
      const { rows, columns, border } = this.#options;
      const [xs, ys] = [starts(photo.width, columns), starts(photo.height, rows)];
      const cut: Cut = {
        photo,
        xs,
        ys,
        parts: this.#current.map((_, part) =>
          framed(photo, xs, ys, Math.floor(part / columns), part % columns, border),
        ),
        even: photo.width % columns === 0 && photo.height % rows === 0,
      };
      if (episode === this.#episode) this.#cut = cut;
      return cut;
    });
  }

  /** The part of the image that lies at a place, as its number in the image. */
  #partAt(place: number): number {
    return this.#episode.goal.indexOf(this.#current[place] as number);
  }

  #image(cut: Cut): Image {
    const { rows, columns, border } = this.#options;
    const { photo } = cut;
    const width = photo.width + 2 * border * columns;
    const height = photo.height + 2 * border * rows;
    const known = cut.even ? this.#frame : undefined;
    const bytes = known === undefined ? new Uint8Array(width * height * 3) : copyBytes(known.bytes);
    this.#current.forEach((piece, place) => {
      if (known?.order[place] !== piece) this.#lay(bytes, width, height, cut, place);
    });
    this.#frame = { bytes, order: this.#current };
    return new Image(width, height, bytes);
  }

  /** A piece that is larger than its place hangs over the next, which is laid after it, and is cut off at the edge. */
  #lay(bytes: Uint8Array, width: number, height: number, { parts, xs, ys }: Cut, place: number): void {
    const { columns, border } = this.#options;
    const [row, column] = [Math.floor(place / columns), place % columns];
    const left = (xs[column] as number) + 2 * border * column;
    const top = (ys[row] as number) + 2 * border * row;
    const room = (width - left) * 3;
    const lines = parts[this.#partAt(place)] as readonly Uint8Array[];
    for (let y = 0; y < lines.length && top + y < height; y++) {
      const line = lines[y] as Uint8Array;
      bytes.set(line.length <= room ? line : line.subarray(0, room), ((top + y) * width + left) * 3);
    }
  }

  /** VisGym has no text view of this world; ours tells the colours along the edges of every piece, which is what fits. */
  #text(cut: Cut): string {
    const { columns } = this.#options;
    this.#edges ??= this.#current.map((_, part) => edgesOf(cut, Math.floor(part / columns), part % columns));
    const edges = this.#edges;
    return this.#current
      .map((_, place) => `(${Math.floor(place / columns)}, ${place % columns}) ${edges[this.#partAt(place)]}`)
      .join("\n");
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    if (style === "brief") {
      return mode === "text"
        ? "Lay the pieces so that edges with the same colours meet, then stop."
        : "Put the pieces of the picture in their places, then stop.";
    }
    const { rows, columns } = this.#options;
    const view =
      mode === "text"
        ? `A picture was cut into ${rows} rows and ${columns} columns of pieces, and the pieces were mixed up. For every place, ` +
          "(row, column) counted from the top left, you are told three colours along each edge of the piece that lies there: " +
          "top and bottom from left to right, left and right from top to bottom. Where pieces belong together, their colours are alike."
        : `You see a picture that was cut into ${rows} rows and ${columns} columns of pieces, each with a thin white frame. ` +
          "The pieces were mixed up; none was turned.";
    return (
      `${view} Move pieces until the picture is whole, then stop. You succeed if every piece is in its place when you stop; ` +
      "a finished picture does not end the episode by itself."
    );
  }

  solve(): Action[] {
    if (this.#stopped) return [];
    const { solverSteps } = this.#options;
    const { start } = this.#episode;
    if (solverSteps > 0) {
      this.#script ??= this.#plan(start, solverSteps);
      const { plan, orders } = this.#script;
      // As long as the plan was followed it is gone on with; anything else is put right the short way.
      if (sameOrder(orders[this.#moves] ?? [], this.#current)) return plan.slice(this.#moves);
    }
    return [...this.#plan(this.#current, 0).plan];
  }

  #plan(from: readonly number[], steps: number): { plan: Action[]; orders: (readonly number[])[] } {
    const { columns, solver } = this.#options;
    const { goal, picture } = this.#episode;
    const place = (at: number) => [Math.floor(at / columns), at % columns];
    const swaps = solver === "swap" ? swapsTo(from, goal) : [];
    const all = withDetours(swaps, this.#pieces, steps, new Dice(goal.length, `${picture} ${goal}`));
    const plan = all.map(([a, b]) => act("swap", [place(a), place(b)]));
    if (solver === "reorder" && !sameOrder(from, goal)) plan.push(act("reorder", reorderTo(from, goal)));
    const orders: (readonly number[])[] = [from];
    for (const action of plan) orders.push(this.#after(orders.at(-1) as readonly number[], action));
    return { plan: [...plan, act("stop")], orders };
  }

  /** Where every piece lies, seen from its place in the image; pieces are named by where they lie. */
  facts(): Fact[] {
    const { columns } = this.#options;
    return this.#current.map((_, place) => {
      const home = this.#partAt(place);
      const [row, column] = [Math.floor(place / columns), place % columns];
      return {
        subject: `piece at (${row}, ${column})`,
        relations: placeWords(row - Math.floor(home / columns), column - (home % columns)),
        object: "its place",
      };
    });
  }

  /** VisGym's `init_state`, and what has been played since. */
  save(): Json {
    const { picture, goal, start } = this.#episode;
    return {
      image_name: picture,
      current_state: this.#current,
      target_state: goal,
      start_state: start,
      moves: this.#moves,
      stopped: this.#stopped,
    };
  }

  load(state: Json): void {
    const saved = new Saved(state, "jigsaw", "image_name, current_state, target_state");
    const order = (field: string) => saved.order(field, 0, this.#pieces);
    const current = order("current_state");
    const start = saved.has("start_state") ? order("start_state") : current;
    this.#begin(
      { picture: saved.string("image_name"), goal: order("target_state"), start },
      current,
      saved.integer("moves", { min: 0, fallback: 0 }),
      saved.boolean("stopped"),
    );
  }
}

/** Where each of `parts` begins along `length` pixels, and where the last ends; the first ones are larger. */
function starts(length: number, parts: number): number[] {
  return Array.from({ length: parts + 1 }, (_, i) => i * Math.floor(length / parts) + Math.min(i, length % parts));
}

/** The rows of a part with its white frame. */
function framed(
  { width, data }: Image,
  xs: readonly number[],
  ys: readonly number[],
  row: number,
  column: number,
  border: number,
): Uint8Array[] {
  const [left, right] = [xs[column] as number, xs[column + 1] as number];
  const [top, bottom] = [ys[row] as number, ys[row + 1] as number];
  return Array.from({ length: bottom - top + 2 * border }, (_, y) => {
    const line = new Uint8Array((right - left + 2 * border) * 3).fill(255);
    const from = top + y - border;
    if (from >= top && from < bottom) {
      line.set(data.subarray((from * width + left) * 3, (from * width + right) * 3), border * 3);
    }
    return line;
  });
}

function edgesOf({ photo, xs, ys }: Cut, row: number, column: number): string {
  const [x0, x1] = [xs[column] as number, (xs[column + 1] as number) - 1];
  const [y0, y1] = [ys[row] as number, (ys[row + 1] as number) - 1];
  const at = (from: number, to: number, share: number) => Math.round(from + (to - from) * share);
  const hex = (x: number, y: number) => {
    const i = (y * photo.width + x) * 3;
    return `#${Buffer.from(photo.data.subarray(i, i + 3)).toString("hex")}`;
  };
  const shares = [1 / 6, 1 / 2, 5 / 6];
  const across = (y: number) => shares.map((share) => hex(at(x0, x1, share), y)).join(" ");
  const down = (x: number) => shares.map((share) => hex(x, at(y0, y1, share))).join(" ");
  return `top ${across(y0)}; right ${down(x1)}; bottom ${across(y1)}; left ${down(x0)}`;
}

export const jigsaw = defineWorld({
  id: "jigsaw",
  summary: "put the pieces of a photo in their places, then stop",
  options,
  difficulties: { easy: { rows: 2, columns: 2 }, hard: { rows: 3, columns: 3 } },
  variants: { eval: { easy: {}, hard: {} }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new Jigsaw(given),
});
