/**
 * zoom_in_puzzle (VisGym): an image and several views cut out of it, in the wrong order; put them in order from the widest
 * view to the closest, then stop. Only `stop` ends the episode and pays. Frames equal VisGym's for the same photo but for
 * the slot numbers, which are in our own letters. Views that could not be told apart are drawn again.
 */
import { z } from "zod";
import { type Awaitable, EnvError, exact, Image, type Json, NumpyRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  defineWorld,
  type Fact,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  type World,
} from "../../src/envs/index.ts";
import { resize } from "../../src/images/index.ts";
import { Saved } from "../shared/saved.ts";
import { type ImageSource, pictures, type SceneSize, when } from "../shared/scenes/index.ts";
import { type Label, TileOrder, type Tiles } from "../shared/tile-order.ts";

const { cos, log } = exact;

const options = z.strictObject({
  views: z.int().min(2).max(9).default(4).describe("Number of views."),
  minZoom: z
    .number()
    .min(0.5)
    .max(20)
    .default(2)
    .describe("View i (from 1) has a mean zoom of `minZoom + i * zoomGap`."),
  zoomGap: z.number().min(0.1).max(10).default(1).describe("Difference in mean zoom between neighbouring views."),
  zoomSpread: z.number().min(0).max(5).default(0.3).describe("Standard deviation of the zoom."),
  nested: z.boolean().default(false).describe("Every view is inside the one before it."),
  tile: z.int().min(32).max(512).default(224).describe("Side of each view, in pixels."),
  folder: z.string().optional().describe("Folder of your own photos. Without it, the world draws its own scenes."),
  size: z
    .tuple([z.int().min(64).max(2048), z.int().min(64).max(2048)])
    .default([480, 360])
    .describe("Width and height of the scenes that the world draws, in pixels."),
  solver: z
    .enum(["swap", "reorder"])
    .default("swap")
    .describe("How the oracle solves it: swap by swap, or with one reordering."),
});

type Box = readonly [left: number, top: number, right: number, bottom: number];
type Episode = { readonly picture: string; readonly zooms: readonly number[]; readonly boxes: readonly Box[] };

/** A view must be this much narrower than the one before it. */
const CLEARLY = 0.94;

export class ZoomInPuzzle implements World {
  readonly actions: readonly ActionSpec[];
  readonly #options: z.output<typeof options>;
  readonly #source: ImageSource;
  readonly #tiles: TileOrder;
  #episode!: Episode;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.#source = pictures(given.folder, { width: given.size[0], height: given.size[1] });
    const words = {
      thing: "view",
      right: "You stopped with the views in order.",
      wrong: "You stopped with views out of order.",
    };
    this.#tiles = new TileOrder(given.views, given.solver, words, label);
    this.actions = this.#tiles.actions;
  }

  reset(seed: number): Awaitable<void> {
    const picture = this.#source.pick(seed);
    return when(this.#source.size(picture), (size) => {
      const random = new NumpyRandom(seed);
      this.#episode = { picture, ...this.#cut(size, random) };
      this.#tiles.begin(random.permutation(this.#options.views), false);
    });
  }

  #cut(size: SceneSize, random: NumpyRandom): Pick<Episode, "zooms" | "boxes"> {
    for (let attempt = 0; ; attempt++) {
      const zooms = this.#drawZooms(random);
      const boxes: Box[] = [];
      for (const zoom of zooms) boxes.push(this.#drawBox(size, zoom, boxes.at(-1), random));
      const clear = boxes.every(([left, , right], i) => {
        const before = boxes[i - 1] ?? [0, 0, size.width];
        return right - left <= (before[2] - before[0]) * (i === 0 ? 1 : CLEARLY);
      });
      // Options may leave no room for clear differences; then any draw will do.
      if (clear || attempt === 200) return { zooms, boxes };
    }
  }

  #drawZooms(random: NumpyRandom): number[] {
    const { views, minZoom, zoomGap, zoomSpread } = this.#options;
    const drawn = Array.from({ length: views }, (_, i) => {
      const bell = Math.sqrt(-2 * log(1 - random.random())) * cos(2 * Math.PI * random.random());
      return Math.max(minZoom, minZoom + (i + 1) * zoomGap + zoomSpread * bell);
    });
    return drawn.sort((a, b) => a - b);
  }

  #drawBox({ width, height }: SceneSize, zoom: number, outer: Box | undefined, random: NumpyRandom): Box {
    const [left, top, right, bottom] = (this.#options.nested ? outer : undefined) ?? [0, 0, width, height];
    const across = Math.max(1, Math.min(Math.trunc(width / zoom), right - left));
    const down = Math.max(1, Math.min(Math.trunc(height / zoom), bottom - top));
    const x = random.integers(left, right - across + 1);
    const y = random.integers(top, bottom - down + 1);
    return [x, y, x + across, y + down];
  }

  success(): boolean {
    return this.#tiles.success();
  }

  act(action: Action): Outcome {
    return this.#tiles.act(action);
  }

  solve(): Action[] {
    return this.#tiles.solve();
  }

  facts(): Fact[] {
    return this.#tiles.facts();
  }

  observe(mode: ObservationMode): Awaitable<Observation> {
    const { picture, boxes } = this.#episode;
    const { tile } = this.#options;
    return this.#tiles.observe(mode, () =>
      when(
        this.#source.get(picture),
        (photo): Tiles => ({
          lead: resize(photo, tile, tile, "lanczos"),
          ordered: boxes.map((box) => resize(crop(photo, box), tile, tile, "lanczos")),
        }),
      ),
    );
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    if (style === "brief") return "Order the views from widest to closest, then stop.";
    const { views } = this.#options;
    const view =
      mode === "text"
        ? `You see a picture in characters, brighter places having fuller ones, and beside it ${views} views cut out of it.`
        : `On the left you see a whole picture, and beside it ${views} views cut out of it and enlarged to the same size.`;
    return (
      `${view} The views lie in slots 1 to ${views}, from left to right. Bring them into order: the view that shows most of ` +
      "the picture in slot 1, the one that shows the smallest part of it in the last slot; then stop. You succeed if the order " +
      "is right when you stop."
    );
  }

  /** VisGym's `init_state`, its order being the present one. */
  save(): Json {
    const { picture, zooms, boxes } = this.#episode;
    return {
      image_name: picture,
      zoom_levels: zooms,
      crop_boxes: boxes,
      current_view_order: this.#tiles.order,
      stopped: this.#tiles.stopped,
    };
  }

  load(state: Json): void {
    const saved = new Saved(state, "zoom_in_puzzle", "image_name, crop_boxes, current_view_order");
    const { count } = this.#tiles;
    const boxes = saved.get("crop_boxes");
    const isBox = (box: Json) => {
      const [left, top, right, bottom] = (Array.isArray(box) ? box : []) as number[];
      return (
        [left, top, right, bottom].every(Number.isInteger) &&
        Number(left) < Number(right) &&
        Number(top) < Number(bottom)
      );
    };
    if (!Array.isArray(boxes) || boxes.length !== count || !boxes.every(isBox)) {
      throw new EnvError(`crop_boxes must be a list of ${count} boxes [left, top, right, bottom] in pixels.`);
    }
    const order = saved.order("current_view_order", 0, count);
    const episode = {
      picture: saved.string("image_name"),
      zooms: saved.numbers("zoom_levels", count),
      boxes: boxes as unknown as Box[],
    };
    const stopped = saved.boolean("stopped");
    this.#episode = episode;
    this.#tiles.begin(order, stopped);
  }
}

/** Part of an image; what lies outside of it is black. */
function crop({ width, height, data }: Image, [left, top, right, bottom]: Box): Image {
  const across = right - left;
  const bytes = new Uint8Array(across * (bottom - top) * 3);
  const [from, to] = [Math.max(0, left), Math.min(width, right)];
  for (let y = Math.max(0, top); y < Math.min(height, bottom) && from < to; y++) {
    bytes.set(data.subarray((y * width + from) * 3, (y * width + to) * 3), ((y - top) * across + from - left) * 3);
  }
  return new Image(across, bottom - top, bytes);
}

/** The slot's number on a black box. */
const label: Label = {
  size: (side) => [Math.round(38 * (side / 224)), Math.round(46 * (side / 224))],
  draw(corner, slot, side) {
    corner.fillRect(0, 0, corner.width, corner.height, [0, 0, 0]);
    corner.text(String(slot), corner.width / 2, corner.height / 2, {
      size: 28 * (side / 224),
      color: [255, 255, 255],
      align: "center",
      baseline: "middle",
    });
  },
};

const evaluation = { minZoom: 0.75, zoomGap: 0.75, zoomSpread: 0.2, nested: true };

export const zoomInPuzzle = defineWorld({
  id: "zoom_in_puzzle",
  summary: "order views of a photo from the widest to the closest, then stop",
  options,
  difficulties: { easy: { views: 4 }, hard: { views: 5 } },
  variants: { eval: { easy: evaluation, hard: evaluation }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  async create(given) {
    const world = new ZoomInPuzzle(given);
    await world.reset(0);
    return world;
  },
});
