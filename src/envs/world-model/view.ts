/**
 * What can be said of a world: the kinds of things in it, the words for where they are along each axis, what they are seen from, and the symbols of its text board.
 * Facts and claims both become `Placed`, a kind with a word index per axis, so one scorer serves every world.
 */
import type { Fact } from "../world.ts";

/** The kinds of things that a world's facts speak of: other words for each, and what it counts for (1 unless said). */
export type Things = Readonly<Record<string, { readonly words?: readonly string[]; readonly weight?: number }>>;

/** The three words along an axis, in order: `["left", "same column", "right"]`. */
export type AxisWords = readonly [string, string, string];

export type View = {
  readonly things: Things;
  readonly axes: readonly AxisWords[];
  /** What places are seen from, as facts name it. */
  readonly from: string;
  /** What the prompt calls it; `from` unless said. */
  readonly viewpoint?: string;
  /** What the prompt asks for, where that is not every thing of each kind: "every piece of furniture that you see". */
  readonly asked?: string;
  /** The prompt names the things of an episode, which differ from one to the next. */
  readonly told?: boolean;
  /** How many states tell what is so by luck; default 384, fewer where a state takes long to make. */
  readonly states?: number;
  /**
   * The symbols of the text board and what stands in such a cell, a kind of `things` or `from`: `{ S: ["player", "target"], "#": [] }`. Without them a world has no cells, and coordinates and
   * drawn boards are not read.
   */
  readonly legend?: Readonly<Record<string, readonly string[]>>;
};

/** An index into an axis' words. */
export type Place = 0 | 1 | 2;

/** A thing and where it is; an axis that was not said is undefined. */
export type Placed = { readonly kind: string; readonly at: readonly (Place | undefined)[] };

export type Cell = readonly [row: number, column: number];

/** What is in a cell: a kind, the player (the view's `from`), or the symbol of a cell without things. */
export type Located = { readonly name: string; readonly cell: Cell };

/** How a thing is seen from one of another kind. */
export type Linked = Placed & { readonly from: string };

/** Rows and columns of a board, seen from the player. */
export const GRID_AXES: readonly AxisWords[] = [
  ["above", "same row", "below"],
  ["left", "same column", "right"],
];

/** What a definition says of its view, filled up; undefined for a world without things. */
export function viewOf(given: { readonly things?: Things; readonly view?: Partial<Omit<View, "things">> }) {
  if (given.things === undefined) return undefined;
  const view: View = { axes: GRID_AXES, from: "player", ...given.view, things: given.things };
  return view;
}

export const mirrored = (place: Place) => (2 - place) as Place;

/**
 * Facts as places. `box 2` is of the kind `box`; what is not seen from the viewpoint is of a kind like `cube from stripe`, listed in one order or the other. Kinds that the view does not list
 * are left out.
 */
export function placedOf(facts: readonly Fact[], { things, axes, from }: View): Placed[] {
  return facts.flatMap(({ subject, relations, object }) => {
    const [one, other] = [bare(subject), bare(object)];
    const seen = object === from ? one : `${one} from ${other}`;
    const turned = things[seen] === undefined;
    const kind = turned ? `${other} from ${one}` : seen;
    if (things[kind] === undefined) return [];
    const at = placesIn(relations, axes);
    return [{ kind, at: turned ? at.map(opposite) : at }];
  });
}

/** How things are seen from each other, either way round, as far as facts or their cells tell. */
export function linkedOf(facts: readonly Fact[], board: readonly Located[], { things, axes, from }: View): Linked[] {
  const told = facts.flatMap(({ subject, relations, object }) => {
    const [kind, other] = [bare(subject), bare(object)];
    const at = placesIn(relations, axes);
    return object === from
      ? []
      : [
          { kind, from: other, at },
          { kind: other, from: kind, at: at.map(opposite) },
        ];
  });
  const located = board.filter(({ name }) => things[name] !== undefined);
  const seen = located.flatMap((one) =>
    located.flatMap((other) =>
      one === other ? [] : [{ kind: one.name, from: other.name, at: cellPlace(one.cell, other.cell) }],
    ),
  );
  return [...told, ...seen];
}

/** Where a cell is, seen from another. */
export const cellPlace = (cell: Cell, from: Cell): Place[] =>
  cell.map((value, axis) => (1 + Math.sign(value - (from[axis] as number))) as Place);

const bare = (name: string) => name.replace(/ \d+$/, "");
const opposite = (place: Place | undefined) => (place === undefined ? undefined : mirrored(place));

function placesIn(relations: readonly string[], axes: readonly AxisWords[]): (Place | undefined)[] {
  return axes.map((words) => {
    const place = words.findIndex((word) => relations.includes(word));
    return place < 0 ? undefined : (place as Place);
  });
}

/** A view of things from each other: a kind for each two of these. */
export function pairsOf(names: readonly string[]): Things {
  return Object.fromEntries(names.flatMap((one, i) => names.slice(i + 1).map((other) => [`${one} from ${other}`, {}])));
}
