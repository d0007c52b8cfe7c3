/**
 * Reads what a description says of where things are: "the box is above and to the left of me" is a box, above, left. It is forgiving: any order, synonyms,
 * compass points, pronouns, negations, several things in a sentence; what it does not understand it leaves out, and it never throws. It goes through the words
 * once with a small memory (which thing is spoken of, which directions still wait for theirs), so a hostile text costs linear time.
 *
 * Only places relative to the player count. Places in the picture ("in the top left corner"), places between other things, distances and motions ("I move
 * left") are passed over. What it can't read is listed in docs/world-model.md.
 */
import type { Span } from "../protocol.ts";

export const VERTICAL = ["above", "same row", "below"] as const;
export const HORIZONTAL = ["left", "same column", "right"] as const;
export type Vertical = (typeof VERTICAL)[number];
export type Horizontal = (typeof HORIZONTAL)[number];

/** A thing and where it is, seen from the player; an axis that was not said, or said in two ways, is absent. */
export type Placed = {
  readonly kind: string;
  readonly vertical?: Vertical;
  readonly horizontal?: Horizontal;
};
export type ReadClaim = Placed & { readonly span: Span };

/** Kinds of things in a world and other words for them, singular: `{ hole: ["pit"] }`. */
export type ThingWords = Readonly<Record<string, readonly string[]>>;

type Value = Vertical | Horizontal;
type Axis = "vertical" | "horizontal";

const set = (words: string) => new Set(words.split(" "));
const PLAYER = set("i me myself you player agent figure character hero we us avatar");
const PRONOUNS = set("it this that");
const ONES = set("one another other others first second third fourth latter former");
const UNITS = set(
  "cell cells row rows column columns step steps square squares tile tiles space spaces block blocks move moves field fields",
);
const POSSESSIVE = set("my your our");
const DETERMINERS = set(
  "the a an my your our its their this that current own where single only nearest one another other next red yellow green blue dark brown grey gray golden wooden small big large",
);
const LINKS = set("of from than to as with");
const HANDS = set("hand side");
const COPULAS = set(
  "is are am was were be lies lie sits sit stands stand remains remain stays stay standing sitting resting placed located positioned found there",
);
const MOTIONS = set(
  "move moves moving moved push pushes pushing pushed go goes going went step steps stepping walk walks walking head heads heading slide slides sliding shift shifts shifting pull pulls travel action look looks looking get gets getting reach reaching",
);
const NEGATIONS = set("not never neither nor without isn't aren't isnt arent wasn't doesn't don't won't cannot");
const STILL_POSITIVE = set("far only just quite too");
const CONTRAST = set("but instead rather however");
const SEPARATORS = set(", and or ; . : & plus another one");
const CLAUSE_STARTS = set(", and but while so because that when where whereas");
const SHARING = set("share shares are have");
const SEEING = set("see sees seeing find finds notice spot shows there");
const DIRECT = set("directly straight exactly immediately due precisely");
const COUNTS: Readonly<Record<string, number>> = {
  both: 2,
  two: 2,
  three: 3,
  four: 4,
  five: 5,
  six: 6,
  seven: 7,
  eight: 8,
};
const CONNECTORS = set(
  "and or nor but to the a an on in at , - / bit little slightly somewhat further also both one two three four five as well side hand diagonally then",
);
const ABSOLUTE = set("corner corners edge edges border wall walls half quadrant");
const PICTURE = set("board map grid lake room picture image frame screen puzzle area");

const DIRECTIONS: Readonly<Record<Value, ReadonlySet<string>>> = {
  above: set("above over atop up upward upwards upper north northern northward higher top overhead"),
  below: set("below under beneath underneath down downward downwards lower south southern southward bottom"),
  left: set("left leftward leftwards lefthand west western westward"),
  right: set("right rightward rightwards righthand east eastern eastward"),
  "same row": set("level"),
  "same column": set(""),
};
/** These take what they speak of at once ("above me"); the others need a link ("left of me"). */
const PREPOSITIONS = set("above over atop below under beneath underneath");
const COMPOUND = /^(north|south|up|top|upper|lower|bottom|down)(east|west|left|right)$/;
const OPPOSITE: Readonly<Record<Value, Value>> = {
  above: "below",
  below: "above",
  left: "right",
  right: "left",
  "same row": "same row",
  "same column": "same column",
};
const ROWS = set("row line level height rank");
const COLUMNS = set("column file");
const CELLS = set("cell spot square place position tile location field");

const WORD_VALUE = new Map<string, Value>(
  Object.entries(DIRECTIONS).flatMap(([value, words]) =>
    [...words].map((word): [string, Value] => [word, value as Value]),
  ),
);
const isConnector = (word: string) => CONNECTORS.has(word) || UNITS.has(word) || DIRECT.has(word) || /^\d+$/.test(word);
const axisOf = (value: Value): Axis => ((VERTICAL as readonly string[]).includes(value) ? "vertical" : "horizontal");

type Word = { readonly text: string; readonly start: number; readonly end: number };
/** `values` say how `figure` lies to `ground`. */
type Direction = {
  readonly values: readonly Value[];
  readonly negated: boolean;
  readonly direct: boolean;
  /** It goes on with the one before, as in "upper-left" or "in my row to the right"; a comma or an "and" begins the next of several. */
  readonly tight: boolean;
  readonly ground: string;
  readonly start: number;
  readonly end: number;
};
type Item = {
  readonly kind: string;
  readonly said: Record<Axis, Set<Value>>;
  readonly excluded: Record<Axis, Set<Value>>;
  direct: boolean;
  /** How many things it stands for: "both holes". */
  times: number;
  start: number;
  end: number;
};
/** What the sentence speaks of; `item` is what was said of it last. */
type Figure = {
  readonly kind: string;
  readonly word?: string;
  readonly plural: boolean;
  readonly count: number;
  readonly start: number;
  readonly end: number;
  /** It may be the thing that was spoken of before. */
  resumed?: boolean;
  items: Item[];
};

/** Descriptions are a few sentences; more than this is not read. */
const LONGEST = 4000;

export function readClaims(text: string, things: ThingWords): ReadClaim[] {
  return new Reader(text.slice(0, LONGEST), things).read();
}

class Reader {
  readonly #words: readonly Word[];
  readonly #kinds = new Map<string, { kind: string; plural: boolean }>();
  readonly #items: Item[] = [];
  #at = 0;
  #figure: Figure | undefined;
  /** The figure followed its directions: "above me is the box". */
  #inverted = false;
  #pending: Direction[] = [];
  /** Directions that wait for what they are seen from, and where the next of them may stand. */
  #open: Omit<Direction, "ground">[] = [];
  #openEnd = 0;
  /** The word after the last direction. */
  #lastDirection = 0;
  #lastKind: string | undefined;
  #lastThing: Figure | undefined;
  #negated = false;
  #silenced = false;
  #motion = false;
  #direct = false;

  constructor(text: string, things: ThingWords) {
    this.#words = [...text.matchAll(/[a-z]+(?:['’][a-z]+)?|\d+|[^\sa-z\d]|\n/gi)].map((match) => {
      const [whole] = match;
      return { text: whole.toLowerCase().replace("’", "'"), start: match.index, end: match.index + whole.length };
    });
    for (const [kind, others] of Object.entries(things)) {
      for (const word of [kind, ...others]) {
        this.#kinds.set(word, { kind, plural: false });
        for (const plural of [`${word}s`, `${word}es`]) this.#kinds.set(plural, { kind, plural: true });
      }
    }
  }

  read(): ReadClaim[] {
    while (this.#at < this.#words.length) this.#step();
    this.#endSentence();
    return this.#items.flatMap(claimOf);
  }

  #word(offset = 0): string {
    return this.#words[this.#at + offset]?.text ?? "";
  }

  #step(): void {
    const word = this.#word();
    if (/^[.;!?\n]$/.test(word)) {
      this.#endSentence();
    } else if (word === ",") {
      this.#pause();
    } else if ((word === "instead" && this.#word(1) === "of") || (word === "rather" && this.#word(1) === "than")) {
      this.#negated = true;
      this.#at += 1;
    } else if (CONTRAST.has(word)) {
      this.#negated = false;
    } else if (NEGATIONS.has(word) && !STILL_POSITIVE.has(this.#word(1))) {
      this.#negated = true;
    } else if (word === "no") {
      this.#no();
    } else if (DIRECT.has(word) || this.#isRightAbove()) {
      this.#direct = true;
    } else if (COPULAS.has(word)) {
      this.#motion = false;
      if (this.#on()) return;
    } else if (SEEING.has(word)) {
      this.#motion = false;
    } else if (MOTIONS.has(word) && !(UNITS.has(word) && this.#countsUnits())) {
      this.#motion = true;
    } else if (this.#direction() || this.#thing()) {
      return;
    }
    this.#at += 1;
  }

  /** "two steps": a distance, no motion. */
  #countsUnits(): boolean {
    const before = this.#word(-1);
    return /^\d+$/.test(before) || before in COUNTS || ["one", "a", "few", "several"].includes(before);
  }

  /** "right above me" is straight above; "the goal is right above", without a place to see it from, may be a diagonal. */
  #isRightAbove(): boolean {
    if (this.#word() !== "right" || !PREPOSITIONS.has(this.#word(1)) || DETERMINERS.has(this.#word(-1))) return false;
    let at = this.#at + 2;
    while (DETERMINERS.has(this.#words[at]?.text ?? "")) at += 1;
    return this.#thingAt(at) !== undefined;
  }

  #pause(): void {
    this.#motion = false;
    this.#negated = false;
    this.#silenced = false;
  }

  /** "no hole above me", "no longer above me". */
  #no(): void {
    if (this.#word(1) === "longer") this.#negated = true;
    if (!this.#kinds.has(this.#word(1))) return;
    this.#silenced = true;
    this.#at += 1;
  }

  #endSentence(): void {
    this.#close();
    // "Above me is the box, a bit left."
    const said = this.#figure ?? this.#lastThing;
    if (this.#inverted && said !== undefined) for (const one of this.#pending) this.#attach(said, one);
    this.#figure = undefined;
    this.#inverted = false;
    this.#pending = [];
    this.#negated = false;
    this.#silenced = false;
    this.#motion = false;
    this.#direct = false;
  }

  /** "I am on the goal": in the same cell. */
  #on(): boolean {
    if (this.#word(1) !== "on" && this.#word(1) !== "at") return false;
    let at = 2;
    while (DETERMINERS.has(this.#word(at))) at += 1;
    const kind = this.#thingAt(this.#at + at)?.kind;
    if (kind === undefined || this.#figure === undefined) return false;
    const start = this.#words[this.#at]?.start ?? 0;
    this.#at += at + 1;
    const end = this.#words[this.#at - 1]?.end ?? start;
    this.#close();
    const here = { values: ["same row", "same column"], tight: false, start, end } as const;
    this.#say({ ...here, ground: kind, negated: this.#negated, direct: false });
    return true;
  }

  #thingAt(at: number): { readonly kind: string; readonly plural: boolean } | undefined {
    const word = (this.#words[at]?.text ?? "").replace(/'s$/, "");
    return PLAYER.has(word) ? { kind: "player", plural: false } : this.#kinds.get(word);
  }

  /** A direction at this place, with the thing it is seen from, if that follows. */
  #direction(): boolean {
    const read = this.#same() ?? this.#plain();
    if (read === undefined) return false;
    const start = this.#words[this.#at]?.start ?? 0;
    const previous = this.#word(-1);
    const between = this.#words.slice(this.#lastDirection, this.#at);
    const tight = this.#lastDirection > 0 && !between.some(({ text }) => SEPARATORS.has(text));
    const itsOwn = previous === "its" || previous === "their";
    this.#at += read.length;
    const first = this.#at;
    this.#lastDirection = this.#at;
    const ground = this.#ground(read.preposition) ?? (itsOwn ? this.#lastKind : undefined);
    const end = this.#words[this.#at - 1]?.end ?? start;
    if (this.#isAbsolute()) return true;
    const joined = this.#words.slice(this.#openEnd, first - read.length).every(({ text }) => isConnector(text));
    if (!joined) this.#close();
    const one = { values: read.values, tight, start, end, negated: this.#negated, direct: this.#direct };
    this.#direct = false;
    if (this.#motion || this.#silenced) return true;
    this.#open.push(one);
    this.#openEnd = this.#at;
    if (ground !== undefined) this.#close(ground);
    return true;
  }

  #plain(): { readonly values: readonly Value[]; readonly length: number; readonly preposition: boolean } | undefined {
    const word = this.#word();
    const compound = COMPOUND.exec(word);
    if (compound !== null) {
      const values = compound.slice(1).flatMap((part) => WORD_VALUE.get(part) ?? []);
      return { values, length: 1, preposition: false };
    }
    const value = WORD_VALUE.get(word);
    if (value === undefined || (word === "right" && ["now", "away", "after", "next"].includes(this.#word(1))))
      return undefined;
    if (word === "level" && this.#word(1) !== "with") return undefined;
    // "over to the left", "over there"
    if (word === "over" && ["to", "on", "there", "here", "at"].includes(this.#word(1))) return undefined;
    const onTop = word === "top" && this.#word(-1) === "on";
    return { values: [value], length: 1, preposition: PREPOSITIONS.has(word) || onTop };
  }

  /** "same row", "my column", "the player's row", "aligned vertically", "the same cell". */
  #same(): { readonly values: readonly Value[]; readonly length: number; readonly preposition: boolean } | undefined {
    const word = this.#word();
    const [first, second] = [this.#word(1), this.#word(2)];
    const found = (values: readonly Value[], length: number) => ({ values, length, preposition: false });
    if (word === "aligned" || word === "alignment") {
      if (first === "vertically") return found(["same column"], 2);
      return first === "horizontally" ? found(["same row"], 2) : undefined;
    }
    if (word === "vertically" && first.startsWith("align")) return found(["same column"], 2);
    if (word === "horizontally" && first.startsWith("align")) return found(["same row"], 2);
    // "the row of the player", "the column I am in": whose it is follows.
    if ((word === "row" || word === "column") && (this.#isOfThing() || this.#isMine())) {
      return found([word === "row" ? "same row" : "same column"], this.#isMine() ? 3 : 1);
    }
    if (word !== "same" && !POSSESSIVE.has(word) && !/^(player|agent|figure)'s$/.test(word)) return undefined;
    if (first === "vertical" && second === "line") return found(["same column"], 3);
    if (first === "horizontal" && second === "line") return found(["same row"], 3);
    if (COLUMNS.has(first)) return found(["same column"], 2);
    if (ROWS.has(first)) return found(["same row"], 2);
    return word === "same" && CELLS.has(first) ? found(["same row", "same column"], 2) : undefined;
  }

  /** "row of the player" */
  #isOfThing(): boolean {
    if (this.#word(1) !== "of") return false;
    let at = this.#at + 2;
    while (DETERMINERS.has(this.#words[at]?.text ?? "")) at += 1;
    return this.#thingAt(at) !== undefined;
  }

  /** "row I am in", "column I stand on" */
  #isMine(): boolean {
    return PLAYER.has(this.#word(1)) && COPULAS.has(this.#word(2));
  }

  /** What the direction just read is seen from; moves past it. */
  #ground(preposition: boolean): string | undefined {
    let at = this.#at;
    const text = () => this.#words[at]?.text ?? "";
    while (HANDS.has(text()) || (text() === "-" && HANDS.has(this.#words[at + 1]?.text ?? ""))) at += 1;
    const linked = LINKS.has(text());
    if (linked) at += 1;
    if (!linked && !preposition) return undefined;
    if (text() === "it" || text() === "them") {
      if (this.#lastKind !== undefined) this.#at = at + 1;
      return this.#lastKind;
    }
    while (DETERMINERS.has(text())) at += 1;
    if (CELLS.has(text()) && POSSESSIVE.has(this.#words[at - 1]?.text ?? "")) {
      this.#at = at + 1;
      return "player";
    }
    const kind = this.#thingAt(at)?.kind;
    if (kind === undefined) return undefined;
    this.#at = at + 1;
    if (kind !== "player") this.#lastKind = kind;
    return kind;
  }

  /** "the left edge", "the top row", "the top of the board": a place in the picture. */
  #isAbsolute(): boolean {
    let at = this.#at;
    const text = () => this.#words[at]?.text ?? "";
    if (text() === "-") at += 1;
    if (WORD_VALUE.has(text())) at += 1;
    if (text() === "most") return true;
    // "the upper row" is a row of the board, "an upper row" one above.
    const some = this.#word(-2) === "a" || this.#word(-2) === "an";
    const edge = !some && set("top bottom upper lower left right").has(this.#word(-1));
    if (ABSOLUTE.has(text()) || (edge && (ROWS.has(text()) || COLUMNS.has(text())))) return true;
    if (!LINKS.has(text())) return false;
    at += 1;
    while (DETERMINERS.has(text())) at += 1;
    return PICTURE.has(text());
  }

  /** Directions in a row share what they are seen from: "below and to the left of the box". */
  #close(ground = "player"): void {
    const open = this.#open;
    this.#open = [];
    for (const one of open) this.#say({ ...one, ground });
  }

  #say(one: Direction): void {
    if (this.#figure !== undefined && !this.#inverted) this.#attach(this.#figure, one);
    else this.#pending.push(one);
  }

  /** A thing, or a word that stands for one. */
  #thing(): boolean {
    const word = this.#word();
    const { start, end } = this.#words[this.#at] as Word;
    const known = this.#thingAt(this.#at);
    if (known !== undefined) {
      const before = this.#word(-1);
      // "the row I share": the player, spoken of in passing, does not end what is said of a thing.
      const inPassing = known.kind === "player" && this.#figure !== undefined && this.#figure.kind !== "player";
      if (inPassing && (!CLAUSE_STARTS.has(before) || SHARING.has(this.#word(1)))) return false;
      const count = COUNTS[before] ?? (/^\d$/.test(before) ? Number(before) : 1);
      this.#at += 1;
      this.#enter({
        ...known,
        count: known.plural ? count : 1,
        start,
        end,
        ...this.#resumed(word, known),
      });
      return true;
    }
    if (
      ONES.has(word) &&
      this.#lastKind !== undefined &&
      !UNITS.has(this.#word(1)) &&
      !this.#kinds.has(this.#word(1)) &&
      this.#word(1) !== "of"
    ) {
      this.#at += 1;
      this.#enter({ kind: this.#lastKind, plural: word === "others", count: 1, start, end, items: [] });
      return true;
    }
    const contracted = word.endsWith("'s");
    const pronoun = PRONOUNS.has(contracted ? word.slice(0, -2) : word);
    if (pronoun && this.#lastThing !== undefined && (contracted || COPULAS.has(this.#word(1)))) {
      this.#at += 1;
      this.#enter({ ...this.#lastThing, start, end });
      return true;
    }
    return false;
  }

  /** "The goal is above me. The goal is left of me." speaks of one goal, as long as the one does not deny the other. */
  #resumed(word: string, { kind, plural }: { readonly kind: string; readonly plural: boolean }) {
    const last = this.#lastThing;
    const same = !plural && this.#word(-2) === "the" && last?.kind === kind && last.word === word && !last.plural;
    return { word, resumed: same, items: same ? last.items : [] };
  }

  #enter(figure: Figure): void {
    this.#close();
    this.#silenced = false;
    this.#negated = false;
    if (figure.kind !== "player") {
      this.#lastKind = figure.kind;
      this.#lastThing = figure;
    }
    const waiting = this.#pending;
    // "To the north you find the flag": the player is no answer to a direction that is seen from it.
    const answers = figure.kind !== "player" || waiting.some(({ ground }) => ground !== "player");
    this.#figure = figure;
    this.#inverted = waiting.length > 0 && answers;
    if (!this.#inverted) {
      if (figure.kind === "player" && waiting.length > 0) this.#figure = undefined;
      return;
    }
    this.#pending = [];
    for (const one of waiting) this.#attach(figure, one);
  }

  #attach(figure: Figure, one: Direction): void {
    if (figure.kind === "player") {
      if (one.ground === "player") return;
      // "I am above the box": the box is below me.
      const mirrored = { ...one, values: one.values.map((value) => OPPOSITE[value]) };
      const last = figure.items.at(-1);
      const goesOn = last?.kind === one.ground && mirrored.values.every((value) => last.said[axisOf(value)].size === 0);
      if (goesOn) extend(last, mirrored);
      else this.#add(figure, newItem(one.ground, one), mirrored);
      return;
    }
    if (one.ground !== "player") return;
    const denies = (item: Item) =>
      one.values.some((value) => item.said[axisOf(value)].size > 0 && !item.said[axisOf(value)].has(value));
    if (figure.resumed && figure.items.some(denies)) figure.items = [];
    figure.resumed = false;
    const last = figure.items.at(-1);
    const goesOn = last !== undefined && (!figure.plural || one.tight);
    if (goesOn) {
      extend(last, one);
      return;
    }
    const item = newItem(figure.kind, { start: Math.min(figure.start, one.start), end: Math.max(figure.end, one.end) });
    item.times = figure.count;
    // "Both holes": what is said of them apart stands for one each.
    if (last !== undefined && figure.plural) for (const other of [...figure.items, item]) other.times = 1;
    this.#add(figure, item, one);
  }

  #add(figure: Figure, item: Item, one: Direction): void {
    figure.items.push(item);
    this.#items.push(item);
    extend(item, one);
  }
}

function newItem(kind: string, { start, end }: { readonly start: number; readonly end: number }): Item {
  const sets = () => ({ vertical: new Set<Value>(), horizontal: new Set<Value>() });
  return { kind, said: sets(), excluded: sets(), direct: false, times: 1, start, end };
}

function extend(item: Item, one: Direction): void {
  for (const value of one.values) (one.negated ? item.excluded : item.said)[axisOf(value)].add(value);
  item.direct ||= one.direct && !one.negated;
  item.start = Math.min(item.start, one.start);
  item.end = Math.max(item.end, one.end);
}

function claimOf(item: Item): ReadClaim[] {
  const vertical = settled(item, "vertical", VERTICAL);
  const horizontal = settled(item, "horizontal", HORIZONTAL);
  if (vertical === undefined && horizontal === undefined) return [];
  const straight = item.direct && item.said.vertical.size + item.said.horizontal.size === 1;
  const up = vertical ?? (straight ? "same row" : undefined);
  const across = horizontal ?? (straight ? "same column" : undefined);
  const claim: ReadClaim = {
    kind: item.kind,
    ...(up !== undefined && { vertical: up }),
    ...(across !== undefined && { horizontal: across }),
    span: [item.start, item.end],
  };
  return Array.from({ length: item.times }, () => claim);
}

/** The one value that was said, or that is left when the others are denied. */
function settled<V extends Value>(item: Item, axis: Axis, all: readonly V[]): V | undefined {
  const said = all.filter((value) => item.said[axis].has(value));
  const left = all.filter((value) => !item.excluded[axis].has(value));
  if (said.length === 1) return left.includes(said[0] as V) ? said[0] : undefined;
  return said.length === 0 && left.length === 1 ? left[0] : undefined;
}
