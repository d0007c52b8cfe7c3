/**
 * Reads what a description says of where things are: "the box is above and to the left of me" is a box, above, left. It is forgiving: any order, synonyms,
 * compass points, pronouns, negations, several things in a sentence; what it does not understand it leaves out, and it never throws. It goes through the words
 * once with a small memory (which thing is spoken of, which directions still wait for theirs), so a hostile text costs linear time.
 *
 * Only places relative to the player count. Places in the picture ("in the top left corner"), places between other things, distances and motions ("I move
 * left") are passed over. What it can't read is listed in docs/world-model.md.
 */
import type { Span } from "../protocol.ts";
import {
  ABSOLUTE,
  AFTER_LINE,
  AUXILIARIES,
  type Axis,
  axisOf,
  BEFORE_LINE,
  CELLS,
  COLUMNS,
  COMPASS,
  COMPOUND,
  CONNECTORS,
  CONTRAST,
  COPULAS,
  COUNTS,
  DETERMINERS,
  DIFFERENCE,
  DIRECT,
  EDGES,
  ELLIPSIS,
  HANDS,
  HORIZONTAL,
  type Horizontal,
  isConnector,
  isNegation,
  LINES,
  LINKS,
  MOTIONS,
  NO_SUBJECT_AFTER,
  OBJECT_FORMS,
  OFFSETS,
  ONES,
  OPPOSITE,
  PARTICLE_VERBS,
  PICTURE,
  PLAYER,
  POSSESSIVE,
  PREPOSITIONS,
  PRONOUNS,
  ROWS,
  SAMENESS,
  SEEING,
  SEPARATORS,
  STATES,
  STILL_POSITIVE,
  UNITS,
  type Value,
  VERTICAL,
  type Vertical,
  WORD_VALUE,
} from "./reader-words.ts";

export { HORIZONTAL, type Horizontal, VERTICAL, type Vertical } from "./reader-words.ts";

/** A thing and where it is, seen from the player; an axis that was not said, or said in two ways, is absent. */
export type Placed = {
  readonly kind: string;
  readonly vertical?: Vertical;
  readonly horizontal?: Horizontal;
};
export type ReadClaim = Placed & { readonly span: Span };

/** Kinds of things in a world and other words for them, singular: `{ hole: ["pit"] }`. */
export type ThingWords = Readonly<Record<string, readonly string[]>>;

type Word = { readonly text: string; readonly start: number; readonly end: number };
/** `values` say how `figure` lies to `ground`. */
type Direction = {
  readonly values: readonly Value[];
  readonly negated: boolean;
  readonly direct: boolean;
  /** It goes on with the one before, as in "upper-left" or "in my row to the right"; a comma or an "and" begins the next of several. */
  readonly tight: boolean;
  readonly ground: string;
  /** "to its right" */
  readonly own?: boolean;
  /** Its ground is "it". */
  readonly pronoun?: boolean;
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
  /** It stands in a list after a thing whose place was said before it. */
  coordinated?: boolean;
  /** Things before it in a list: what is said is said of them too. */
  others?: readonly Figure[];
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
  /** Directions since the last denial. */
  #denied = 0;
  /** The last direction was a row or column that is shared. */
  #lastSame = false;
  #clauseStart = 0;
  /** The ground just read is "it". */
  #pronoun = false;
  /** …or "its". */
  #own = false;
  /** What places are seen from where the sentence does not say so beside them. */
  #from = "player";
  /** "me" stands in this sentence. */
  #playerSeen = false;
  /** What was said of the last thing that followed its directions. */
  #places: readonly Direction[] = [];

  constructor(text: string, things: ThingWords) {
    this.#words = [...text.matchAll(/[a-z]+(?:['’][a-z]+)?|\d+|[^\sa-z\d]|\n/gi)].map((match) => {
      const whole = COMPASS.get(match[0]) ?? match[0];
      return { text: whole.toLowerCase().replace("’", "'"), start: match.index, end: match.index + match[0].length };
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
    } else if (word === "," || word === ":") {
      this.#pause();
    } else if (
      (word === "instead" && this.#word(1) === "of") ||
      (word === "rather" && this.#word(1) === "than") ||
      (word === "opposed" && this.#word(1) === "to")
    ) {
      this.#deny();
      this.#at += 1;
    } else if (word === "far" && this.#word(1) === "from" && !isNegation(this.#word(-1))) {
      this.#deny();
    } else if (CONTRAST.has(word) || (word === "and" && this.#denied > 1)) {
      // "neither above nor below me and to the left"
      this.#negated = false;
    } else if (isNegation(word)) {
      const idle = STILL_POSITIVE.has(this.#word(1)) || (STILL_POSITIVE.has(word) && isNegation(this.#word(-1)));
      if (!idle) this.#deny();
    } else if (word === "no" || word === "zero" || word === "0") {
      if (this.#no()) return;
    } else if (DIRECT.has(word) || this.#isRightAbove()) {
      // "the row directly above mine" says nothing of columns.
      this.#direct = !ROWS.has(this.#word(-1)) && !COLUMNS.has(this.#word(-1));
    } else if (COPULAS.has(word) && !UNITS.has(word)) {
      this.#motion = false;
      const before = this.#word(-1);
      if (STATES.has(word) && !isNegation(before) && this.#denied > 0) this.#negated = false;
      if (this.#on()) return;
    } else if (/^(relative|compared|respect|relation|seen|viewed|looking)$/.test(word) && this.#seenFrom()) {
      return;
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
    return /^\d+$/.test(before) || COUNTS.has(before) || ["one", "a", "few", "several"].includes(before);
  }

  /** "right above me" is straight above; "the goal is right above", without a place to see it from, may be a diagonal. */
  #isRightAbove(): boolean {
    if (this.#word() !== "right" || !PREPOSITIONS.has(this.#word(1)) || DETERMINERS.has(this.#word(-1))) return false;
    let at = this.#at + 2;
    while (DETERMINERS.has(this.#words[at]?.text ?? "")) at += 1;
    return this.#thingAt(at) !== undefined;
  }

  /** "relative to the goal I am …" */
  #seenFrom(): boolean {
    if (!LINKS.has(this.#word(1))) return false;
    let at = this.#at + 2;
    while (DETERMINERS.has(this.#words[at]?.text ?? "") || this.#isAdjective(this.#words[at]?.text ?? "")) {
      if (this.#thingAt(at) !== undefined) break;
      at += 1;
    }
    const kind = this.#thingAt(at)?.kind;
    if (kind === undefined || kind === "player") return false;
    this.#from = kind;
    this.#at = at + 1;
    return true;
  }

  #deny(): void {
    if (!this.#negated) this.#denied = 0;
    this.#negated = true;
  }

  #pause(): void {
    this.#motion = false;
    this.#negated = false;
    this.#silenced = false;
  }

  /** "no hole above me", "no longer above me", "no higher", "no horizontal offset", "zero columns away". */
  #no(): boolean {
    const start = this.#words[this.#at]?.start ?? 0;
    for (let at = this.#at + 1; at < this.#at + 5; at++) {
      const word = this.#words[at]?.text ?? "";
      if (this.#kinds.has(word)) {
        this.#silenced = true;
        this.#at = at + 1;
        return true;
      }
      if (OFFSETS.has(word) || (/^(rows?|columns?)$/.test(word) && this.#word() !== "no")) {
        const words = this.#words.slice(this.#at, at + 1).map(({ text }) => text);
        const across = words.some((one) => /^(horizontal|sideways|lateral|columns?)$/.test(one));
        const up = words.some((one) => /^(vertical|rows?)$/.test(one));
        if (across === up) break;
        this.#at = at + 1;
        const end = this.#words[at]?.end ?? start;
        this.#close();
        const values: readonly Value[] = [across ? "same column" : "same row"];
        // "zero rows above me": the direction says nothing more.
        while (isConnector(this.#word()) || this.#plain() !== undefined) this.#at += 1;
        this.#say({ values, tight: false, start, end, ground: "player", negated: false, direct: false });
        return true;
      }
      if (/^[.,;:]$/.test(word)) break;
    }
    const denies = /^(longer|means|way)$/.test(this.#word(1)) || WORD_VALUE.has(this.#word(1));
    if (this.#word() === "no" && denies) this.#deny();
    return false;
  }

  #endSentence(): void {
    this.#close();
    this.#inheritPlaces();
    // "Above me is the box, a bit left."; "…; further left, too."
    const said = this.#figure ?? this.#lastThing;
    const goesOn = this.#inverted || (this.#figure === undefined && this.#isEllipsis());
    if (goesOn && said !== undefined) for (const one of this.#pending) this.#attach(said, one);
    this.#clauseStart = this.#at + 1;
    this.#playerSeen = false;
    this.#from = "player";
    this.#places = [];
    this.#figure = undefined;
    this.#inverted = false;
    this.#pending = [];
    this.#negated = false;
    this.#silenced = false;
    this.#motion = false;
    this.#direct = false;
  }

  /** Nothing in this clause but directions: it speaks of the thing before it. */
  #isEllipsis(): boolean {
    const words = this.#words.slice(this.#clauseStart, this.#at);
    return words.every(({ text }) => ELLIPSIS.has(text) || isConnector(text) || this.#isPlaceWord(text));
  }

  #isPlaceWord(word: string): boolean {
    return WORD_VALUE.has(word) || COMPOUND.test(word) || SAMENESS.has(word) || ROWS.has(word) || COLUMNS.has(word);
  }

  /** "Above me are a hole and the goal": what was said of the first holds for the others. */
  #inheritPlaces(): void {
    const figure = this.#figure;
    if (figure === undefined || !figure.coordinated || figure.items.length > 0) return;
    for (const one of this.#places) this.#attach(figure, one);
  }

  /** "I am on the goal", "the goal is where I am": in the same cell. */
  #on(): boolean {
    if (this.#figure === undefined) return false;
    let at = 1;
    while (DIRECT.has(this.#word(at)) || ["just", "right", "now", "already"].includes(this.#word(at))) at += 1;
    let kind: string | undefined;
    if (this.#word(at) === "where" && PLAYER.has(this.#word(at + 1)) && COPULAS.has(this.#word(at + 2))) {
      kind = "player";
      at += 2;
    } else if (["on", "at", "upon", "inside"].includes(this.#word(at))) {
      at += 1;
      while (
        DETERMINERS.has(this.#word(at)) ||
        (this.#isAdjective(this.#word(at)) && this.#kinds.has(this.#word(at + 1)))
      )
        at += 1;
      kind = this.#thingAt(this.#at + at)?.kind;
      const owned = this.#word(at).endsWith("'s") && !CELLS.has(this.#word(at + 1));
      if (owned) return false;
      if (kind === "player" && CELLS.has(this.#word(at + 1))) at += 1;
      else if (kind === undefined && POSSESSIVE.has(this.#word(at - 1)) && CELLS.has(this.#word(at))) kind = "player";
    }
    if (kind === undefined || (kind === "player") === (this.#figure.kind === "player")) return false;
    const start = this.#words[this.#at]?.start ?? 0;
    this.#at += at + 1;
    const end = this.#words[this.#at - 1]?.end ?? start;
    this.#close();
    const here = { values: ["same row", "same column"], tight: false, start, end } as const;
    this.#say({ ...here, ground: kind, negated: this.#negated, direct: false });
    return true;
  }

  #thingAt(at: number): { readonly kind: string; readonly plural: boolean } | undefined {
    const word = (this.#words[at]?.text ?? "").replace(/'(s|m|re|ll|d|ve)$/, "");
    return PLAYER.has(word) ? { kind: "player", plural: false } : this.#kinds.get(word);
  }

  /** A direction at this place, with the thing it is seen from, if that follows. */
  #direction(): boolean {
    const same = this.#same();
    const read = same ?? this.#plain();
    if (read === undefined) return false;
    this.#lastSame = same !== undefined;
    const start = this.#words[this.#at]?.start ?? 0;
    const previous = this.#word(-1);
    const between = this.#words.slice(this.#lastDirection, this.#at);
    const tight = this.#lastDirection > 0 && !between.some(({ text }) => SEPARATORS.has(text));
    this.#at += read.length;
    const first = this.#at;
    this.#lastDirection = this.#at;
    this.#pronoun = false;
    this.#own = previous === "its" || previous === "their";
    const ground = this.#ground(read.preposition) ?? (this.#own ? this.#lastKind : undefined);
    const end = this.#words[this.#at - 1]?.end ?? start;
    if (this.#isAbsolute()) return true;
    const joined = this.#words.slice(this.#openEnd, first - read.length).every(({ text }) => isConnector(text));
    if (!joined) this.#close();
    const one = {
      values: read.values,
      tight,
      start,
      end,
      negated: this.#negated,
      direct: this.#direct,
      own: this.#own,
      pronoun: this.#pronoun,
    };
    this.#direct = false;
    // "Not directly above me" denies only how.
    if (this.#motion || this.#silenced || (one.negated && one.direct)) return true;
    this.#denied += 1;
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
    // "over to the left", "up to three", "lined up"
    if (word === "over" && ["to", "on", "there", "here", "at", "in", "by"].includes(this.#word(1))) return undefined;
    if (
      ["up", "down"].includes(word) &&
      (PARTICLE_VERBS.has(this.#word(-1)) || (this.#word(1) === "to" && /^(\d|two|three|four)/.test(this.#word(2))))
    )
      return undefined;
    const onTop = word === "top" && this.#word(-1) === "on";
    return { values: [value], length: 1, preposition: PREPOSITIONS.has(word) || onTop };
  }

  /** "same row", "the column that I am in", "aligned vertically", "its row is mine", "to neither side", "the same cell". */
  #same(): { readonly values: readonly Value[]; readonly length: number; readonly preposition: boolean } | undefined {
    const word = this.#word();
    const found = (values: readonly Value[], length = 1) => ({ values, length, preposition: false });
    if (/^(aligned|alignment|lined|line|level)$/.test(word)) {
      const near = this.#words.slice(Math.max(this.#clauseStart, this.#at - 3), this.#at + 5).map(({ text }) => text);
      if (near.includes("vertically")) return found([word === "level" ? "same row" : "same column"]);
      if (near.includes("horizontally")) return found(["same row"]);
    }
    if (/^sides?$/.test(word) && /^n?either$/.test(this.#word(-1))) return found(["left", "right"]);
    if (CELLS.has(word) || word === "feet") {
      const mine = this.#lineModifiers().some((one) => SAMENESS.has(one));
      const shared = this.#word(-1) === "same" || this.#sharing();
      const within = ["in", "on", "at", "occupies"].includes(
        this.#words[this.#at - this.#lineModifiers().length - 1]?.text ?? "",
      );
      if (shared || (mine && within) || (word === "feet" && mine)) return found(["same row", "same column"]);
    }
    const value = this.#lineValue();
    if (value === undefined) return undefined;
    const before = this.#lineModifiers();
    const beyond = this.#words[this.#at - before.length - 1]?.text ?? "";
    if (before.some((one) => DIFFERENCE.has(one)) && !before.includes("same")) {
      this.#negated = !this.#negated;
      return found([value]);
    }
    // "my row or column"
    const joined =
      /^(and|or|nor)$/.test(beyond) &&
      this.#lastDirection > 0 &&
      this.#lastDirection >= this.#at - before.length - 1 &&
      this.#lastSame;
    if (joined || before.some((one) => SAMENESS.has(one)) || this.#sharing()) return found([value]);
    return this.#whoseLine() ? found([value]) : undefined;
  }

  #lineValue(): Value | undefined {
    const word = this.#word();
    if (COLUMNS.has(word)) return "same column";
    if (ROWS.has(word)) return "same row";
    if (!LINES.has(word)) return undefined;
    const before = this.#lineModifiers();
    return before.includes("vertical")
      ? "same column"
      : before.includes("horizontal") || before.includes("same")
        ? "same row"
        : undefined;
  }

  /** The words before a noun that belong to it. */
  #lineModifiers(): readonly string[] {
    const words: string[] = [];
    for (let at = this.#at - 1; at >= 0 && words.length < 5; at--) {
      const word = this.#words[at]?.text ?? "";
      if (!SAMENESS.has(word) && !DIFFERENCE.has(word) && !BEFORE_LINE.has(word)) break;
      words.push(word);
    }
    return words;
  }

  /** "share a row", "sharing the player's column" */
  #sharing(): boolean {
    const before = this.#words[this.#at - this.#lineModifiers().length - 1]?.text ?? "";
    return /^shar(e|es|ed|ing)$/.test(before);
  }

  /** "row that I am in", "column of the player", "row is the same as mine" */
  #whoseLine(): boolean {
    let [relative, stated] = [false, false];
    for (let at = this.#at + 1; at < this.#at + 8; at++) {
      const word = this.#words[at]?.text ?? "";
      // "a column to my right" is another one.
      if (SAMENESS.has(word)) return !WORD_VALUE.has(this.#words[at + 1]?.text ?? "");
      // "the row is the goal's" says nothing of the player's; "below me in the column is the goal" even less.
      if (this.#thingAt(at) !== undefined) return !stated;
      if (!AFTER_LINE.has(word)) return false;
      if (/^(that|which|where|occupied)$/.test(word)) relative = true;
      if (/^(is|are)$/.test(word) && !relative) stated = true;
    }
    return false;
  }

  /** What the direction just read is seen from; moves past it. */
  #ground(preposition: boolean): string | undefined {
    let at = this.#at;
    const text = () => this.#words[at]?.text ?? "";
    while (HANDS.has(text()) || (text() === "-" && HANDS.has(this.#words[at + 1]?.text ?? ""))) at += 1;
    const same = this.#lastSame;
    const linked = LINKS.has(text()) || (same && AFTER_LINE.has(text()) && !/^(is|are|am|a|an|the)$/.test(text()));
    if (linked) at += 1;
    if (!linked && !preposition && !(same && PLAYER.has(text()))) return undefined;
    if (text() === "it" || text() === "them") {
      if (this.#lastKind !== undefined) this.#at = at + 1;
      this.#pronoun = true;
      // "The goal is below it": nothing is below itself.
      const itself = this.#figure !== undefined && this.#figure.kind === this.#lastKind && !this.#inverted;
      if (itself && this.#playerSeen) this.#own = true;
      return itself && !this.#own ? "player" : this.#lastKind;
    }
    if (text() === "here") {
      this.#at = at + 1;
      return "player";
    }
    while (DETERMINERS.has(text()) || (same && AFTER_LINE.has(text()))) at += 1;
    const before = this.#words[at - 1]?.text ?? "";
    if (CELLS.has(text()) && (POSSESSIVE.has(before) || /^(own|current|present|this)$/.test(before))) {
      this.#at = at + 1;
      return "player";
    }
    // "the position of the player"
    if (CELLS.has(text()) && this.#words[at + 1]?.text === "of") {
      at += 2;
      while (DETERMINERS.has(text())) at += 1;
    }
    // "one more dangerous pit": what is said of a thing before its name.
    for (let more = 0; more < 2 && this.#thingAt(at) === undefined && this.#isAdjective(text()); more++) at += 1;
    const kind = this.#thingAt(at)?.kind;
    if (kind === undefined) {
      // "over my head"
      if (!POSSESSIVE.has(before) || !preposition) return undefined;
      this.#at += 2;
      return "player";
    }
    at += 1;
    if (CELLS.has(text())) at += 1;
    // "above where I am", "in the row that I am in"
    if (kind === "player" && COPULAS.has(text()) && (same || before === "where" || linked)) {
      at += 1;
      if (/^(in|on|at)$/.test(text()) && (same || before === "where")) at += 1;
    }
    this.#at = at;
    if (kind !== "player") this.#lastKind = kind;
    return kind;
  }

  /** A word of no other use here. */
  #isAdjective(word: string): boolean {
    const known = [
      COPULAS,
      MOTIONS,
      SEEING,
      LINKS,
      CONTRAST,
      CONNECTORS,
      AFTER_LINE,
      PRONOUNS,
      CELLS,
      PICTURE,
      ABSOLUTE,
    ];
    return (
      /^[a-z]+$/.test(word) &&
      !isNegation(word) &&
      !this.#isPlaceWord(word) &&
      !known.some((words) => words.has(word) && !/^(further|more)$/.test(word))
    );
  }

  /** "the left edge", "the top row", "the top of the board": a place in the picture. */
  #isAbsolute(): boolean {
    let at = this.#at;
    const text = () => this.#words[at]?.text ?? "";
    if (text() === "-") at += 1;
    if (WORD_VALUE.has(text())) at += 1;
    while (HANDS.has(text())) at += 1;
    if (text() === "most") return true;
    // "the upper row" is a row of the board, "an upper row" one above.
    const some = this.#word(-2) === "a" || this.#word(-2) === "an";
    const edge = !some && EDGES.has(this.#word(-1));
    if (ABSOLUTE.has(text()) || (edge && (ROWS.has(text()) || COLUMNS.has(text())))) return true;
    if (!LINKS.has(text())) return false;
    at += 1;
    while (DETERMINERS.has(text())) at += 1;
    return PICTURE.has(text());
  }

  /** Directions in a row share what they are seen from: "below and to the left of the box". */
  #close(ground = this.#from): void {
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
    // "My place is below the box."
    const mine = CELLS.has(word) && POSSESSIVE.has(this.#word(-1)) && STATES.has(this.#word(1));
    const known = mine ? { kind: "player", plural: false } : this.#thingAt(this.#at);
    if (known !== undefined) {
      const before = this.#word(-1);
      if (known.kind === "player" && !mine && !this.#isSubject()) {
        this.#playerSeen ||= OBJECT_FORMS.has(word);
        return false;
      }
      const count = COUNTS.get(before) ?? (/^\d$/.test(before) ? Number(before) : 1);
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
      !ROWS.has(this.#word(1)) &&
      !this.#kinds.has(this.#word(1)) &&
      this.#word(1) !== "of"
    ) {
      this.#at += 1;
      this.#enter({ kind: this.#lastKind, plural: word === "others", count: 1, start, end, items: [] });
      return true;
    }
    const [bare = ""] = word.split("'");
    const spoken =
      bare === "it" || bare === "they" || bare !== word || COPULAS.has(this.#word(1)) || isNegation(this.#word(1));
    // "Its column is left of mine."
    const whose = /^(its|their)$/.test(word) && this.#figure === undefined && !WORD_VALUE.has(this.#word(1));
    // "Above me: that is where the goal is": the thing is still to come.
    const cleft = this.#figure === undefined && this.#pending.length + this.#open.length > 0;
    if (((PRONOUNS.has(bare) && spoken) || whose) && !cleft && this.#lastThing !== undefined) {
      this.#at += 1;
      this.#enter({ ...this.#lastThing, start, end });
      return true;
    }
    return false;
  }

  /** The player is spoken of ("I am below the box"), not in passing ("I see", "for the player"). */
  #isSubject(): boolean {
    const [bare = "", tail] = this.#word().split("'");
    // "the player's left", "I've got a hole above me"
    if (OBJECT_FORMS.has(bare) || tail === "s" || tail === "ve") return false;
    let at = this.#at - 1;
    while (DETERMINERS.has(this.#words[at]?.text ?? "")) at -= 1;
    const before = this.#words[at]?.text ?? "";
    if (LINKS.has(before) || PREPOSITIONS.has(before) || NO_SUBJECT_AFTER.has(before)) return false;
    if (tail !== undefined || bare.endsWith("self")) return true;
    let next = 1;
    while (AUXILIARIES.has(this.#word(next)) || isNegation(this.#word(next))) next += 1;
    const verb = this.#word(next);
    if (/^shares?$/.test(verb)) return this.#figure === undefined;
    if (/^(have|has|there|found)$/.test(verb)) return false;
    return COPULAS.has(verb) || next > 1 || verb === "occupy";
  }

  /** "The goal is above me. The goal is left of me." speaks of one goal, as long as the one does not deny the other. */
  #resumed(word: string, { kind, plural }: { readonly kind: string; readonly plural: boolean }) {
    const last = this.#lastThing;
    const same = !plural && this.#word(-2) === "the" && last?.kind === kind && last.word === word && !last.plural;
    return { word, resumed: same, items: same ? last.items : [] };
  }

  #enter(figure: Figure): void {
    this.#close();
    this.#inheritPlaces();
    // "There isn't a hole above me."
    this.#silenced = this.#negated && this.#denied === 0 && figure.kind !== "player" && this.#pending.length === 0;
    this.#negated = false;
    this.#coordinate(figure);
    // "Going by the picture, I'm …"
    if (figure.kind === "player") this.#motion = false;
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
    this.#places = waiting;
    for (const one of waiting) this.#attach(figure, one);
  }

  /** "the goal and a hole": one statement of both. */
  #coordinate(figure: Figure): void {
    const last = this.#figure;
    if (last === undefined || last.kind === "player" || figure.kind === "player" || figure.word === undefined) return;
    const between = this.#words.filter(({ start, end }) => start >= last.end && end <= figure.start);
    const listed = between.every(
      ({ text }) => text === "and" || text === "," || DETERMINERS.has(text) || COUNTS.has(text),
    );
    if (!listed || between.length === 0) return;
    if (this.#inverted) figure.coordinated = true;
    else if (last.items.length === 0) figure.others = [...(last.others ?? []), last].slice(-8);
  }

  #attach(figure: Figure, given: Direction): void {
    for (const other of figure.others ?? []) this.#attachOne(other, given);
    this.#attachOne(figure, given);
  }

  #attachOne(figure: Figure, given: Direction): void {
    // "the goal has me to its right"
    const own = figure.kind !== "player" && given.ground === figure.kind && given.own;
    // …and "the agent has the goal to its right".
    const values = own && this.#playerSeen ? given.values.map((value) => OPPOSITE[value]) : given.values;
    const one = own ? { ...given, ground: "player", values } : given;
    if (figure.kind === "player") {
      // "I have reached the goal, we are in the same cell."
      const shared = one.values.every((value) => value.startsWith("same"));
      if (one.ground === "player" && shared && this.#lastThing !== undefined) this.#attachOne(this.#lastThing, one);
      if (one.ground === "player") return;
      // "I am above the box": the box is below me.
      const mirrored = { ...one, values: one.values.map((value) => OPPOSITE[value]) };
      // "I am left of the box. I am also above it."
      const before = one.pronoun && this.#lastThing?.kind === one.ground ? this.#lastThing.items.at(-1) : undefined;
      const last = figure.items.at(-1) ?? before;
      const goesOn = last?.kind === one.ground && mirrored.values.every((value) => last.said[axisOf(value)].size === 0);
      if (goesOn) extend(last, mirrored);
      else this.#add(figure, newItem(one.ground, one), mirrored);
      const { start, end } = one;
      this.#lastThing = {
        kind: one.ground,
        plural: false,
        count: 1,
        start,
        end,
        items: goesOn ? [last] : figure.items.slice(-1),
      };
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
