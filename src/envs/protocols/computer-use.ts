/**
 * `computer_use`: the actions of a page as one function with an `action`, a `coordinate` and the like, as Qwen's vision-language models
 * were trained to call it (`tool-call` with `form: "computer_use"`). Coordinates are the world's own: give it `scale: 1000` for Qwen3-VL,
 * whose coordinates run from 0 to 999 over the frame whatever its size, and pixels (no scale) for Qwen2.5-VL. A coordinate outside is
 * moved to the edge. The names that OpenAI's computer tool uses (`keypress`, `scroll_y`, `x` and `y`) are read too.
 */
import { ConfigError } from "../../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { Action, ActionSpec, ArgSpec } from "../action.ts";
import { DIRECTIONS, KEYS, type KeyName } from "../pages/actions.ts";
import type { ReadAction } from "./command.ts";
import type { ToolText } from "./tool-text.ts";

export const COMPUTER_USE = "computer_use";

/** Our action for each of the tool's. */
const NAMES: Readonly<Record<string, string>> = {
  left_click: "click",
  click: "click",
  double_click: "double_click",
  triple_click: "double_click",
  left_click_drag: "drag",
  drag: "drag",
  scroll: "scroll",
  type: "type",
  key: "key",
  keypress: "key",
  wait: "wait",
  screenshot: "wait",
  terminate: "stop",
  answer: "stop",
};

const KEY_NAMES: Readonly<Record<string, KeyName>> = {
  enter: "enter",
  return: "enter",
  tab: "tab",
  esc: "escape",
  escape: "escape",
  backspace: "backspace",
  delete: "delete",
  space: "space",
  up: "up",
  arrowup: "up",
  down: "down",
  arrowdown: "down",
  left: "left",
  arrowleft: "left",
  right: "right",
  arrowright: "right",
  home: "home",
  end: "end",
  pageup: "page_up",
  pagedown: "page_down",
  page_up: "page_up",
  page_down: "page_down",
  "ctrl+a": "select_all",
  "control+a": "select_all",
  "ctrl+c": "copy",
  "control+c": "copy",
  "ctrl+v": "paste",
  "control+v": "paste",
  "shift+tab": "shift_tab",
};
/** How the tool writes our keys. */
const KEY_LISTS: Readonly<Partial<Record<KeyName, readonly string[]>>> = {
  escape: ["esc"],
  page_up: ["pageup"],
  page_down: ["pagedown"],
  select_all: ["ctrl", "a"],
  copy: ["ctrl", "c"],
  paste: ["ctrl", "v"],
  shift_tab: ["shift", "tab"],
};

type Size = { readonly width: number; readonly height: number };

/** What coordinates run to; a world without a pointer can't be used so. */
export function screenOf(specs: readonly ActionSpec[]): Size {
  const items = specs.flatMap(({ arg }) => ("items" in arg ? [arg.items] : []))[0] as readonly ArgSpec[] | undefined;
  const [x, y] = items ?? [];
  if (x?.type !== "int" || y?.type !== "int" || x.name !== "x" || y.name !== "y") {
    throw new ConfigError(
      'form: "computer_use" is for worlds with a pointer (click x y), such as pages/shop. Use form: "qwen" here.',
    );
  }
  return { width: x.max + 1, height: y.max + 1 };
}

/** The function as a model is told of it. */
export function computerTool(specs: readonly ActionSpec[]): ToolText {
  const { width, height } = screenOf(specs);
  const has = (name: string) => specs.some((spec) => spec.name === name);
  const offered = [
    ...(has("click") ? ["left_click"] : []),
    ...(has("double_click") ? ["double_click"] : []),
    ...(has("drag") ? ["left_click_drag"] : []),
    ...["scroll", "type", "key", "wait"].filter(has),
    ...(has("stop") ? ["terminate"] : []),
  ];
  const point = { type: "array", items: { type: "integer" } };
  return {
    name: COMPUTER_USE,
    description: `Act on the page in the screenshot with a mouse and a keyboard. The screen's resolution is ${width}x${height}.`,
    parameters: {
      type: "object",
      properties: {
        action: { type: "string", enum: offered, description: "What to do." },
        coordinate: { ...point, description: "(x, y): where to click or scroll, or where a drag ends." },
        ...(has("drag") && { start_coordinate: { ...point, description: "(x, y): where a drag begins." } }),
        ...(has("type") && { text: { type: "string", description: "What to type." } }),
        ...(has("key") && {
          keys: { type: "array", items: { type: "string" }, description: "Keys pressed together." },
        }),
        ...(has("scroll") && { pixels: { type: "number", description: "Above 0 scrolls up, below 0 down." } }),
        ...(has("stop") && { status: { type: "string", enum: ["success", "failure"] } }),
      },
      required: ["action"],
    },
  };
}

/** The arguments of the call that an action is. */
export function computerArgs({ name, payload }: Action): JsonObject {
  const [x = 0, y = 0, third = 0, fourth = 0] = (Array.isArray(payload) ? payload : []).map(Number);
  switch (name) {
    case "click":
      return { action: "left_click", coordinate: [x, y] };
    case "drag":
      return { action: "left_click_drag", start_coordinate: [x, y], coordinate: [third, fourth] };
    case "scroll":
      return { action: "scroll", coordinate: [x, y], pixels: third === 0 ? 100 : -100 };
    case "type":
      return { action: "type", text: payload };
    case "key": {
      const key = KEYS[Number(payload)] as KeyName;
      return { action: "key", keys: KEY_LISTS[key] ?? [key] };
    }
    case "stop":
      return { action: "terminate", status: "success" };
    default:
      return name === "double_click" ? { action: name, coordinate: [x, y] } : { action: name };
  }
}

/** The action that a call means. */
export function readComputerCall(args: Json, specs: readonly ActionSpec[]): ReadAction {
  const given = isJsonObject(args) ? args : {};
  const asked = String(given.action ?? given.type ?? "");
  const name = Object.hasOwn(NAMES, asked) ? NAMES[asked] : undefined;
  if (name === undefined || !specs.some((spec) => spec.name === name)) {
    const { parameters } = computerTool(specs);
    const { action } = parameters.properties as { action: { enum: string[] } };
    return { ok: false, problem: `"action" must be one of ${action.enum.join(", ")}.` };
  }
  const payload = payloadOf(name, given, screenOf(specs));
  if (payload === undefined) return { ok: false, problem: `'${asked}' lacks what it needs: ${NEEDED[name] ?? ""}` };
  return { ok: true, action: { name, payload } };
}

const NEEDED: Readonly<Record<string, string>> = {
  click: 'write "coordinate": [x, y].',
  double_click: 'write "coordinate": [x, y].',
  drag: 'write "start_coordinate": [x, y] and "coordinate": [x, y].',
  type: 'write "text": "…".',
  key: 'write "keys": ["enter"].',
};

function payloadOf(name: string, given: JsonObject, screen: Size): Json | undefined {
  const at = pointOf(given.coordinate ?? ("x" in given ? [given.x ?? null, given.y ?? null] : undefined), screen);
  switch (name) {
    case "click":
    case "double_click":
      return at;
    case "drag": {
      const path = Array.isArray(given.path) ? given.path : [];
      const from = pointOf(given.start_coordinate ?? path[0], screen);
      const to = at ?? pointOf(path.at(-1), screen);
      return from === undefined || to === undefined ? undefined : [...from, ...to];
    }
    case "scroll": {
      const [x, y] = at ?? [Math.floor(screen.width / 2), Math.floor(screen.height / 2)];
      const up = given.scroll_y === undefined ? Number(given.pixels ?? -1) > 0 : Number(given.scroll_y) < 0;
      return [x, y, DIRECTIONS.indexOf(up ? "up" : "down")];
    }
    case "type":
      return typeof given.text === "string" ? given.text.slice(0, 200) : undefined;
    case "key": {
      const keys = (Array.isArray(given.keys) ? given.keys : [given.keys ?? given.text ?? ""]).map((key) =>
        String(key).toLowerCase(),
      );
      const key = keys.join("+");
      return Object.hasOwn(KEY_NAMES, key) ? KEYS.indexOf(KEY_NAMES[key] as KeyName) : undefined;
    }
    default:
      return name;
  }
}

function pointOf(value: Json | undefined, { width, height }: Size): [number, number] | undefined {
  const [x, y] = Array.isArray(value) ? value : isJsonObject(value ?? null) ? Object.values(value as JsonObject) : [];
  if (typeof x !== "number" || typeof y !== "number" || !Number.isFinite(x) || !Number.isFinite(y)) return undefined;
  const inside = (one: number, size: number) => Math.max(0, Math.min(size - 1, Math.floor(one)));
  return [inside(x, width), inside(y, height)];
}
