/**
 * `definePage`: a web page as an environment. An author says where the page is and how it is judged; the browser, the pointer, frames,
 * protocols and replay are the same for all. A page may judge itself: where `reset`, `task`, `reward`, `success` and `solve` are left
 * out, its own `world.start(seed, options)`, `world.goal()`, `world.score()`, `world.done()` and `world.plan()` are asked.
 */
import { z } from "zod";
import { ConfigError } from "../../core/errors.ts";
import type { Awaitable, Json } from "../../core/json.ts";
import type { Action } from "../action.ts";
import { defineWorld, type OptionsSchema, type WorldDefinition, type WorldInput } from "../define.ts";
import { type Move, PAGE_ACTIONS, type PageActionName, type Viewport } from "./actions.ts";

/** What the agent sees where a page does not say it. */
export const DEFAULT_VIEW: NonNullable<PageSpec["viewport"]> = { width: 320, height: 240 };

/** The page, as the functions of its author see it. */
export interface PageView {
  /** Runs a function, or an expression, in the page; arguments and result are JSON. */
  evaluate<R = Json>(script: string | ((...args: never[]) => R), ...args: Json[]): Promise<R>;
  /** Lets the page's clock run. */
  advance(ms: number): Promise<void>;
}

export type PageSpec = {
  /** One of these: a document, a folder that is served (`open` names its page), or the address of a site on this machine. */
  readonly html?: string | ((seed: number) => Awaitable<string>);
  readonly files?: string;
  readonly url?: string;
  /** Which page of the folder, `/index.html`. */
  readonly open?: string | ((seed: number) => string);
  /** A site on another machine, which must be allowed. */
  readonly allowNetwork?: boolean;
  /** What the agent sees, in pixels; 320 by 240 if absent. `x` and `y` say where in the window it begins, if not in the upper left corner. */
  readonly viewport?: Viewport & { readonly x?: number; readonly y?: number };
  /** The size of the window, where the page lays itself out for more than is shown. */
  readonly window?: Viewport;
  readonly theme?: "light" | "dark" | ((seed: number) => "light" | "dark");
  readonly actions?: readonly PageActionName[];
  /** What a random agent types. */
  readonly words?: readonly string[];
  /** The page starts another episode by itself, exactly as after loading, so it is loaded once: many times faster. */
  readonly inPlace?: boolean;
  /** A page that does not answer for so long is given up, and its episode with it. */
  readonly timeoutMs?: number;
  reset?(page: PageView, seed: number): Awaitable<void>;
  /** This episode's instruction. */
  readonly task?: string | ((page: PageView) => Awaitable<string>);
  /** How much is done, usually from 0 to 1; an action earns what it adds. */
  reward?(page: PageView): Awaitable<number>;
  success?(page: PageView): Awaitable<boolean>;
  /** Whether the episode is over; absent: when it succeeded. */
  ended?(page: PageView): Awaitable<boolean>;
  /** What to do next. */
  solve?(page: PageView): Awaitable<readonly Move[]>;
};

export const pageOptions = z.strictObject({
  scale: z
    .int()
    .min(2)
    .max(10_000)
    .optional()
    .describe(
      "Coordinates are cells of a grid with this many columns and rows; without it, pixels. Use 1000 for Qwen3-VL.",
    ),
  actions: z
    .array(z.enum(PAGE_ACTIONS))
    .min(1)
    .optional()
    .describe("Actions that the agent may use. By default the actions of the page."),
  marks: z
    .boolean()
    .default(false)
    .describe("Draw a number on everything that can be clicked, and offer `click_mark`."),
});

type PageFields = Partial<Omit<WorldDefinition, "kind" | "id" | "create" | "options">> & { readonly id: string };

export type PageInput<S extends OptionsSchema> = PageFields & {
  /** Options of its own, next to `scale`, `actions` and `marks`. */
  readonly options?: S;
} & (PageSpec | { page(options: z.output<S>): Awaitable<PageSpec> });

const SPEC = [
  "html",
  "files",
  "url",
  "open",
  "allowNetwork",
  "viewport",
  "window",
  "theme",
  "actions",
  "words",
  "inPlace",
  "timeoutMs",
  "reset",
  "task",
  "reward",
  "success",
  "ended",
  "solve",
] as const satisfies readonly (keyof PageSpec)[];

let loading: Promise<typeof import("./world.ts")> | undefined;

/** The browser's side is loaded when somebody plays; once, as loaders of sources may hand out half a file that is asked for twice. */
function pageWorld(): Promise<typeof import("./world.ts")> {
  loading ??= import("./world.ts");
  return loading;
}

export function definePage<S extends OptionsSchema>(input: PageInput<S>): WorldDefinition {
  const own = input.options;
  const schema = z.strictObject({ ...pageOptions.shape, ...(own?.shape ?? {}) });
  const fields = Object.entries(input).filter(([name]) => name !== "page" && !SPEC.includes(name as keyof PageSpec));
  const spec = Object.fromEntries(Object.entries(input).filter(([name]) => SPEC.includes(name as keyof PageSpec)));
  if (!("page" in input)) checkSpec(spec, input.id);
  return defineWorld({
    maxActions: 1,
    needs: "a browser",
    ...(Object.fromEntries(fields) as PageFields),
    options: schema,
    create: async (given) => {
      const { scale, actions, marks, ...rest } = given as z.output<typeof pageOptions> & Record<string, Json>;
      const made = "page" in input ? await input.page(rest as z.output<S>) : (spec as PageSpec);
      checkSpec(made, input.id);
      const { PageWorld } = await pageWorld();
      return new PageWorld(made, { scale, actions, marks, options: rest });
    },
  } as WorldInput<typeof schema, Action>) as WorldDefinition;
}

function checkSpec(spec: PageSpec, id: unknown): void {
  const sources = (["html", "files", "url"] as const).filter((name) => spec[name] !== undefined);
  if (sources.length !== 1) {
    const got = sources.length === 0 ? "none" : sources.join(" and ");
    throw new ConfigError(`definePage(): "${id}" needs one of html, files and url; got ${got}.`);
  }
  const { viewport = DEFAULT_VIEW, window } = spec;
  const { x = 0, y = 0, width, height } = viewport;
  const isInside =
    x >= 0 && y >= 0 && (window === undefined || (x + width <= window.width && y + height <= window.height));
  if (isInside) return;
  const size = window === undefined ? "" : ` and the window is ${window.width}×${window.height}`;
  throw new ConfigError(
    `definePage(): the viewport of "${id}" is ${width}×${height} at ${x}, ${y}${size}: it must lie inside the window.`,
  );
}
