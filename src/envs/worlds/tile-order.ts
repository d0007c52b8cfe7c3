/**
 * What video_unshuffle and zoom_in_puzzle share: tiles side by side in numbered slots, put in order by `swap` and `reorder`
 * (slots count from 1), and `stop`, which ends the episode and pays.
 */
import { Image } from "../../core/image.ts";
import type { Awaitable } from "../../core/json.ts";
import { Canvas } from "../../images/canvas.ts";
import { shades } from "../../images/terminal.ts";
import { type Action, type ActionSpec, act, stopAction } from "../action.ts";
import { when } from "../pictures/index.ts";
import type { Observation, ObservationMode, Outcome } from "../world.ts";
import { reordered, reorderTo, sameOrder, swapped, swapsTo } from "./arrange.ts";

/** Characters across a tile in the text view. */
const COLUMNS = 32;

export type Tiles = {
  /** A tile before the slots, which never moves. */
  readonly lead?: Image;
  /** In their true order. */
  readonly ordered: readonly Image[];
};
export type TileWords = { readonly thing: string; readonly right: string; readonly wrong: string };

export class TileOrder {
  readonly actions: readonly ActionSpec[];
  readonly count: number;
  readonly #words: TileWords;
  readonly #solver: "swap" | "reorder";
  readonly #label: (tile: Canvas, slot: number) => void;
  /** The tile in each slot; solved when ascending. */
  order: readonly number[] = [];
  stopped = false;
  #tiles: Tiles | undefined;
  /** Tiles with the number of their slot, by tile and slot, and tiles in characters. */
  #labelled = new Map<number, Image>();
  #sketches = new Map<Image, readonly string[]>();

  constructor(
    count: number,
    solver: "swap" | "reorder",
    words: TileWords,
    label: (tile: Canvas, slot: number) => void,
  ) {
    this.count = count;
    this.#solver = solver;
    this.#words = words;
    this.#label = label;
    const slot = { type: "int", name: "slot", min: 1, max: count } as const;
    this.actions = [
      {
        name: "swap",
        description: `exchange the ${words.thing}s in two slots`,
        arg: { type: "tuple", items: [slot, slot] },
        example: [1, count],
      },
      {
        name: "reorder",
        description: `lay all ${words.thing}s anew: the k-th number you give is the slot whose ${words.thing} goes to slot k`,
        arg: { type: "permutation", name: "order", size: count, start: 1 },
        example: [2, 1, ...Array.from({ length: count - 2 }, (_, i) => i + 3)],
      },
      stopAction(`end the episode, once the ${words.thing}s are in order`),
    ];
  }

  begin(order: readonly number[], stopped: boolean): void {
    this.order = order;
    this.stopped = stopped;
    this.#tiles = undefined;
    this.#labelled = new Map();
    this.#sketches = new Map();
  }

  success(): boolean {
    return this.stopped && this.order.every((tile, slot) => tile === slot);
  }

  act({ name, payload }: Action): Outcome {
    if (this.stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (name === "stop") {
      this.stopped = true;
      const solved = this.success();
      const feedback = solved ? this.#words.right : this.#words.wrong;
      return { valid: true, feedback, reward: solved ? 1 : 0, ended: true };
    }
    const slots = (payload as number[]).map((slot) => slot - 1);
    this.order =
      name === "swap" ? swapped(this.order, slots[0] as number, slots[1] as number) : reordered(this.order, slots);
    return { valid: true, reward: 0, ended: false };
  }

  solve(): Action[] {
    if (this.stopped) return [];
    const goal = Array.from(this.order, (_, slot) => slot);
    if (sameOrder(this.order, goal)) return [act("stop")];
    const from1 = (slots: readonly number[]) => slots.map((slot) => slot + 1);
    if (this.#solver === "reorder") return [act("reorder", from1(reorderTo(this.order, goal))), act("stop")];
    return [...swapsTo(this.order, goal).map((slots) => act("swap", from1(slots))), act("stop")];
  }

  observe(mode: ObservationMode, load: () => Awaitable<Tiles>): Awaitable<Observation> {
    const draw = (tiles: Tiles) => {
      this.#tiles = tiles;
      return mode === "text" ? this.#text(tiles) : this.#picture(tiles);
    };
    return this.#tiles === undefined ? when(load(), draw) : draw(this.#tiles);
  }

  #picture({ lead, ordered }: Tiles): Image {
    const side = (ordered[0] as Image).width;
    const shown = this.order.map((tile, slot) => this.#withNumber(ordered[tile] as Image, tile, slot));
    return sideBySide(lead === undefined ? shown : [lead, ...shown], side);
  }

  #withNumber(image: Image, tile: number, slot: number): Image {
    const key = tile * this.count + slot;
    let labelled = this.#labelled.get(key);
    if (labelled === undefined) {
      const canvas = Canvas.from(image);
      this.#label(canvas, slot + 1);
      labelled = new Image(canvas.width, canvas.height, canvas.data);
      this.#labelled.set(key, labelled);
    }
    return labelled;
  }

  /** VisGym has no text view of these worlds; ours draws the tiles in characters. */
  #text({ lead, ordered }: Tiles): string {
    const parts = this.order.map((tile, slot) => [`slot ${slot + 1}`, this.#sketch(ordered[tile] as Image)] as const);
    const all = lead === undefined ? parts : [["whole picture", this.#sketch(lead)] as const, ...parts];
    const heads = all.map(([head]) => head.padEnd(COLUMNS)).join("|");
    const rows = all[0]?.[1] ?? [];
    return [heads, ...rows.map((_, row) => all.map(([, sketch]) => sketch[row]).join("|"))].join("\n");
  }

  #sketch(image: Image): readonly string[] {
    let sketch = this.#sketches.get(image);
    if (sketch === undefined) {
      sketch = shades(image, COLUMNS).split("\n");
      this.#sketches.set(image, sketch);
    }
    return sketch;
  }
}

function sideBySide(tiles: readonly Image[], side: number): Image {
  const stride = side * 3;
  const bytes = Buffer.allocUnsafeSlow(tiles.length * side * stride);
  tiles.forEach(({ data }, place) => {
    const source = Buffer.from(data.buffer, data.byteOffset, data.length);
    for (let row = 0; row < side; row++) {
      source.copy(bytes, (row * tiles.length + place) * stride, row * stride, (row + 1) * stride);
    }
  });
  return new Image(tiles.length * side, side, new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length));
}
