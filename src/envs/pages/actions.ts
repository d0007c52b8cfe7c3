/**
 * What can be done on a page: pointer, keys and waiting, as actions that every protocol can write. Coordinates are whole numbers:
 * pixels of the frame, or with `scale: n` a grid of n by n cells over it, whatever its size (1000 is what Qwen3-VL was trained with; a
 * tiny model learns 16 sooner). A grid value means the middle of its cell.
 */
import type { Json } from "../../core/json.ts";
import { type Action, type ActionSpec, type ArgSpec, bare, stopAction } from "../action.ts";

export const PAGE_ACTIONS = ["click", "double_click", "drag", "scroll", "type", "key", "wait", "stop"] as const;
export type PageActionName = (typeof PAGE_ACTIONS)[number];

/** Keys by the names that replies use, in the order of their numbers. */
export const KEYS = [
  "enter",
  "tab",
  "escape",
  "backspace",
  "delete",
  "space",
  "up",
  "down",
  "left",
  "right",
  "home",
  "end",
  "page_up",
  "page_down",
  "select_all",
  "copy",
  "paste",
  "shift_tab",
] as const;
export type KeyName = (typeof KEYS)[number];

export const DIRECTIONS = ["up", "down", "left", "right"] as const;
export type Direction = (typeof DIRECTIONS)[number];

export type Viewport = { readonly width: number; readonly height: number };
/** In CSS pixels from the top left corner of the view. */
export type Box = { readonly x: number; readonly y: number; readonly width: number; readonly height: number };

/** What an oracle wants done; the world turns places into coordinates. */
export type Move =
  | { readonly click: Box }
  | { readonly double_click: Box }
  | { readonly drag: readonly [from: Box, to: Box] }
  | { readonly scroll: Direction; readonly at?: Box }
  | { readonly type: string }
  | { readonly key: KeyName }
  | { readonly wait: true }
  | { readonly stop: true };

const MAX_TEXT = 200;

/** Coordinates of replies and pixels of the frame. */
export class Grid {
  readonly columns: number;
  readonly rows: number;
  readonly #view: Viewport;

  constructor(view: Viewport, scale: number | undefined) {
    this.#view = view;
    this.columns = scale ?? view.width;
    this.rows = scale ?? view.height;
  }

  /** The pixel that a coordinate means. */
  pixel(x: number, y: number): { readonly x: number; readonly y: number } {
    const { width, height } = this.#view;
    return {
      x: Math.min(width - 1, Math.floor(((x + 0.5) * width) / this.columns)),
      y: Math.min(height - 1, Math.floor(((y + 0.5) * height) / this.rows)),
    };
  }

  /** The coordinate whose pixel is inside the box, as near to its middle as can be; where none is, the nearest. */
  aim({ x, y, width, height }: Box): [x: number, y: number] {
    const place = (middle: number, size: number, cells: number) =>
      Math.max(0, Math.min(cells - 1, Math.round((middle * cells) / size - 0.5)));
    return [place(x + width / 2, this.#view.width, this.columns), place(y + height / 2, this.#view.height, this.rows)];
  }
}

/** The specs of the chosen actions. `samples` are the texts that a random agent types. */
export function pageActions(grid: Grid, names: readonly PageActionName[], samples: readonly string[]): ActionSpec[] {
  const x: ArgSpec = { type: "int", name: "x", min: 0, max: grid.columns - 1 };
  const y: ArgSpec = { type: "int", name: "y", min: 0, max: grid.rows - 1 };
  const at = [Math.floor(grid.columns / 2), Math.floor(grid.rows / 3)];
  const to = [Math.floor(grid.columns / 4), Math.floor(grid.rows / 2)];
  const specs: Readonly<Record<PageActionName, ActionSpec>> = {
    click: {
      name: "click",
      description: "click at a point of the page, counted from its top left corner",
      arg: { type: "tuple", items: [x, y] },
      example: at,
      weight: 8,
    },
    double_click: {
      name: "double_click",
      description: "click twice at a point",
      arg: { type: "tuple", items: [x, y] },
      example: at,
      weight: 1,
    },
    drag: {
      name: "drag",
      description: "press at the first point, move to the second and let go",
      arg: { type: "tuple", items: [x, y, { ...x, name: "to_x" }, { ...y, name: "to_y" }] },
      example: [...at, ...to],
      weight: 2,
    },
    scroll: {
      name: "scroll",
      description: "scroll what is at a point by half a screen",
      arg: { type: "tuple", items: [x, y, { type: "int", name: "direction", min: 0, max: 3, labels: DIRECTIONS }] },
      example: [...at, 1],
      weight: 1,
    },
    type: {
      name: "type",
      description: "type a text where the cursor is",
      arg: { type: "text", name: "text", maxLength: MAX_TEXT, samples },
      example: samples[0] ?? "hello",
      weight: 2,
    },
    key: {
      name: "key",
      description: "press a key",
      arg: { type: "int", name: "name", min: 0, max: KEYS.length - 1, labels: KEYS },
      example: 0,
      weight: 1,
    },
    wait: { ...bare("wait", "let a second pass"), weight: 1 },
    stop: { ...stopAction("end the episode when the task is done"), weight: 1 },
  };
  return PAGE_ACTIONS.filter((name) => names.includes(name)).map((name) => specs[name]);
}

/** An oracle's move as an action. */
export function actionOf(move: Move, grid: Grid, view: Viewport): Action {
  const whole: Box = { x: 0, y: 0, ...view };
  const action = (name: PageActionName, payload: Json): Action => ({ name, payload });
  if ("click" in move) return action("click", grid.aim(move.click));
  if ("double_click" in move) return action("double_click", grid.aim(move.double_click));
  if ("drag" in move) return action("drag", [...grid.aim(move.drag[0]), ...grid.aim(move.drag[1])]);
  if ("scroll" in move) return action("scroll", [...grid.aim(move.at ?? whole), DIRECTIONS.indexOf(move.scroll)]);
  if ("type" in move) return action("type", move.type);
  if ("key" in move) return action("key", KEYS.indexOf(move.key));
  return "wait" in move ? action("wait", "wait") : action("stop", "stop");
}
