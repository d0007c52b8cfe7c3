/**
 * What video_unshuffle and zoom_in_puzzle share: tiles side by side in numbered slots, put in order by `swap` and `reorder`
 * (slots count from 1), and `stop`, which ends the episode and pays.
 */
import { type Awaitable, Image } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  act,
  type Fact,
  type Observation,
  type ObservationMode,
  type Outcome,
  stopAction,
} from "../../src/envs/index.ts";
import { Canvas, freshBytes, shades } from "../../src/images/index.ts";
import { reordered, reorderTo, sameOrder, swapped, swapsTo } from "./arrange.ts";
import { when } from "./scenes/index.ts";

/** Characters across a tile in the text view. */
const COLUMNS = 32;

export type Tiles = {
  /** A tile before the slots, which never moves. */
  readonly lead?: Image;
  /** In their true order. */
  readonly ordered: readonly Image[];
};
/** A number in the lower right corner of a tile with `side` pixels: its box, and how to draw it over what is there. */
export type Label = {
  size(side: number): readonly [width: number, height: number];
  draw(corner: Canvas, slot: number, side: number): void;
};
export type TileWords = { readonly thing: string; readonly right: string; readonly wrong: string };

export class TileOrder {
  readonly actions: readonly ActionSpec[];
  readonly count: number;
  readonly #words: TileWords;
  readonly #solver: "swap" | "reorder";
  readonly #label: Label;
  /** The tile in each slot; solved when ascending. */
  order: readonly number[] = [];
  stopped = false;
  #tiles: Tiles | undefined;
  /** The last image, which stands until the order changes. */
  #shown: { readonly order: readonly number[]; readonly picture: Image } | undefined;
  /** Rows of tiles, of tiles with the number of a slot (by tile and slot), and tiles in characters. */
  #rows = new Map<Image, Rows>();
  #labelled = new Map<number, Rows>();
  #sketches = new Map<Image, readonly string[]>();

  constructor(count: number, solver: "swap" | "reorder", words: TileWords, label: Label) {
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
    this.#shown = undefined;
    this.#rows = new Map();
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

  /** On which side of its place every tile lies; tiles are named by their slots. */
  facts(): Fact[] {
    return this.order.map((tile, slot) => ({
      subject: `${this.#words.thing} in slot ${slot + 1}`,
      relations: [tile === slot ? "same column" : slot < tile ? "left" : "right"],
      object: "its place",
    }));
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
      return mode === "text" ? this.#text(tiles) : this.#frame(tiles);
    };
    return this.#tiles === undefined ? when(load(), draw) : draw(this.#tiles);
  }

  #frame({ lead, ordered }: Tiles): Image {
    if (this.#shown !== undefined && sameOrder(this.#shown.order, this.order)) return this.#shown.picture;
    const side = (ordered[0] as Image).width;
    const tiles = this.order.map((tile, slot) => this.#inSlot(ordered[tile] as Image, tile, slot));
    if (lead !== undefined) tiles.unshift(this.#rowsOf(lead));
    const bytes = freshBytes(tiles.length * side * side * 3);
    // From left to right, then down: memory that is written in its order is written in half the time.
    for (let row = 0, at = 0; row < side; row++) {
      for (const rows of tiles) {
        bytes.set(rows[row] as Uint8Array, at);
        at += side * 3;
      }
    }
    const picture = new Image(tiles.length * side, side, bytes);
    this.#shown = { order: this.order, picture };
    return picture;
  }

  #rowsOf(image: Image): Rows {
    const rows = this.#rows.get(image) ?? rowsOf(image);
    this.#rows.set(image, rows);
    return rows;
  }

  /** The rows of a tile with a slot's number in its corner. */
  #inSlot(image: Image, tile: number, slot: number): Rows {
    const key = tile * this.count + slot;
    let rows = this.#labelled.get(key);
    if (rows === undefined) {
      const [width, height] = this.#label.size(image.width);
      const corner = new Canvas(width, height, null);
      corner.draw(image, width - image.width, height - image.height);
      this.#label.draw(corner, slot + 1, image.width);
      const lower = new Canvas(image.width, height, null);
      lower.draw(image, 0, height - image.height);
      lower.draw(corner.toImage(), image.width - width, 0);
      rows = [...this.#rowsOf(image).slice(0, -height), ...rowsOf(lower)];
      this.#labelled.set(key, rows);
    }
    return rows;
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

/** Views of an image's rows: made once, since making them takes as long as copying what they show. */
type Rows = readonly Uint8Array[];
function rowsOf({ width, height, data }: Pick<Image, "width" | "height" | "data">): Rows {
  return Array.from({ length: height }, (_, row) => data.subarray(row * width * 3, (row + 1) * width * 3));
}
