/** What a drawable thing is, and the colours things come in. */
import type { Color, Paint } from "./brush.ts";
import type { Dice } from "./dice.ts";
import { checks, dots, stripes } from "./patterns.ts";
import type { Pen } from "./pen.ts";

/** Colours by the name a person would give them. */
export const COLORS = {
  red: [208, 52, 46],
  orange: [238, 134, 42],
  yellow: [247, 204, 66],
  green: [74, 152, 72],
  teal: [42, 150, 150],
  blue: [50, 104, 196],
  purple: [130, 78, 170],
  pink: [240, 138, 166],
  white: [242, 240, 232],
  grey: [150, 152, 160],
  black: [54, 52, 58],
  brown: [134, 88, 54],
} as const satisfies Record<string, Color>;
export type ColorName = keyof typeof COLORS;

export const PATTERNS = ["plain", "striped", "spotted", "checked"] as const;
export type PatternName = (typeof PATTERNS)[number];

/** How one thing looks. */
export type Look = { readonly color: ColorName; readonly pattern: PatternName };

export type Ink = {
  readonly color: Color;
  /** The thing's main paint, with its pattern. */
  readonly coat: Paint;
  readonly dice: Dice;
};

export type Habitat = "ground" | "table" | "water" | "sky";

export type Thing = {
  readonly name: string;
  readonly plural: string;
  /** Its width when it is 1 high. */
  readonly width: number;
  /** Its height in a scene where a cow is 1; for things on tables, where a mug is 1. */
  readonly height: number;
  readonly habitat: readonly Habitat[];
  /** Colours it may have; the first is the one people expect. */
  readonly colors: readonly ColorName[];
  readonly patterns?: readonly PatternName[];
  /** What has the colour, where it is not the thing itself: a snowman's scarf. */
  readonly wears?: string;
  draw(pen: Pen, ink: Ink): void;
};

/** "striped red mug", "snowman with a red scarf"; `pattern` may be left out. */
export function wordsFor(thing: Thing, color: ColorName, pattern?: PatternName): string {
  if (thing.wears !== undefined) return `${thing.name} with a ${color} ${thing.wears}`;
  return [...(pattern === undefined ? [] : [pattern]), color, thing.name].join(" ");
}

export const DARK: Color = [44, 38, 46];
export const LIGHT: Color = [250, 247, 240];
export const GLASS: Color = [168, 208, 226];
export const STEEL: Color = [176, 182, 190];
export const WOOD: Color = [156, 106, 62];
export const LEAF: Color = [84, 150, 62];

export function inkOf(look: Look, dice: Dice): Ink {
  const color = COLORS[look.color];
  const pattern =
    look.pattern === "striped"
      ? stripes(5)
      : look.pattern === "spotted"
        ? dots(6)
        : look.pattern === "checked"
          ? checks(8)
          : undefined;
  return { color, coat: pattern === undefined ? { color } : { color, pattern, accent: LIGHT }, dice };
}

export function plain(color: Color, grain = 0.05): Paint {
  return { color, flat: true, grain };
}
