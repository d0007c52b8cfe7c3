/**
 * Reads what a description claims, in the form that the prompt prescribes: `box: above, left; target: same row, right`. Around the same words it takes plain sentences ("The box is above
 * and left of the player."), places seen from another thing ("target: above the box"), cells (`box: (1, 2)` with the player's own), and what `reader-data.ts` rewrites: JSON and drawn boards.
 *
 * It reads all of a text or nothing. One word that it does not know may deny, doubt or ask what the rest says, so such a text claims nothing, and its writer gets what silence gets.
 * The words are few on purpose: free English is a chat model's to read (`evaluate/chat-judge.ts`). It never throws, and reads a text in linear time.
 */
import type { Span } from "../protocol.ts";
import { rewriteData } from "./reader-data.ts";
import {
  type Cell,
  cellPlace,
  type Linked,
  type Located,
  mirrored,
  type Place,
  type Placed,
  type View,
} from "./view.ts";

export type ReadClaim = Placed & { readonly span: Span };

/** What a text claims of things seen from the player, and what that was drawn from: cells, and places seen from another thing. These must be so as well. */
export type Reading = {
  readonly claims: readonly ReadClaim[];
  readonly cells: readonly Located[];
  readonly links: readonly Linked[];
};

/** Longer texts are no descriptions; a part of one may say the opposite of the rest. */
const MAX_CHARACTERS = 4000;

const set = (words: string) => new Set(words.split(" "));
const PLAYER = "player agent me i you myself yourself".split(" ");
const ARTICLES = set("the a an another");
/** Between a place and what it is seen from: "left of me", "the same row as me". */
const LINKS = set("of from than as");
/** These need no link: "above me". */
const PREPOSITIONS = set("above below behind");
/** Passed over once a thing is spoken of; before it they ask ("is the box above me"), or say whose ("in my dream …"). */
const FILLERS = set("is are am be will and to on in at my your side = # →");
const AT_A_SIDE = set("on in at");
const PUNCTUATION = set(", : ( ) • | \" '");
/** Left out wherever it stands: "same_row", "**box**". */
const DECORATION = /^[_*`]$/;
/** A dash before a blank or between words, which is no minus. */
const isDash = (text: string, at: number) =>
  /[-–—]/.test(text.charAt(at)) &&
  (/\s/.test(text.charAt(at + 1)) || /\w.\w/.test(text.slice(Math.max(0, at - 1), at + 2)));

type Meaning =
  /** The player has no kind. */
  | { readonly type: "thing"; readonly kind?: string; readonly turned?: boolean }
  | { readonly type: "place"; readonly axis: number; readonly place: Place }
  | { readonly type: "cell"; readonly cell: Cell }
  | { readonly type: Plain };
type Plain = "number" | "it" | "link" | "end" | "line" | "filler" | "punctuation" | "unknown";
type Token = Meaning & { readonly word: string; readonly definite: boolean; readonly span: Span };
type Phrase = { readonly words: readonly string[]; readonly meaning: Meaning };
type Seen = { readonly axis: number; readonly place: Place; readonly from?: string };

/** One thing that the text speaks of, and where: seen from the player or from a thing of another kind, or in a cell. */
type Item = {
  readonly kind: string;
  /** "The box": it may be the one spoken of before. */
  readonly definite: boolean;
  /** It is named the other way round: `stripe from cube` for `cube from stripe`. */
  readonly turned: boolean;
  label?: number;
  seen: Seen[];
  cell?: Cell;
  span: Span;
};

/** What a text claims; nothing where any of it is not in the form. */
export function readText(text: string, view: View): Reading {
  const nothing: Reading = { claims: [], cells: [], links: [] };
  if (text.length > MAX_CHARACTERS) return nothing;
  const data = rewriteData(text, view);
  const said = parse(lex(data?.lines ?? text, view));
  const reading = said && resolve(said.items, said.player, view);
  if (data === undefined || reading === undefined) return reading ?? nothing;
  const claims = reading.claims.map((claim) => ({ ...claim, span: [0, text.length] as const }));
  return { ...reading, claims, cells: data.drawn ?? reading.cells };
}

/** The phrases that a view gives a meaning, by their first word, longest first. */
function vocabulary({ things, axes, from, viewpoint = from }: View): Map<string, Phrase[]> {
  const list: Phrase[] = [];
  const add = (phrase: string, meaning: Meaning) =>
    list.push({ words: phrase.split(" ").filter((word) => !ARTICLES.has(word)), meaning });
  for (const [kind, { words = [] }] of Object.entries(things)) {
    for (const word of [kind, ...words]) add(word, { type: "thing", kind });
    const [one, other] = kind.split(" from ");
    if (other !== undefined) add(`${other} from ${one}`, { type: "thing", kind, turned: true });
  }
  for (const word of [...PLAYER, from, viewpoint]) add(word, { type: "thing" });
  axes.forEach((words, axis) => {
    words.forEach((word, place) => {
      add(word, { type: "place", axis, place: place as Place });
      if (word.endsWith("column")) add(word.replace("column", "col"), { type: "place", axis, place: place as Place });
    });
  });
  list.sort((a, b) => b.words.length - a.words.length);
  const byFirst = new Map<string, Phrase[]>();
  for (const phrase of list) {
    const first = phrase.words[0] ?? "";
    byFirst.set(first, [...(byFirst.get(first) ?? []), phrase]);
  }
  return byFirst;
}

function lex(text: string, view: View): Token[] {
  const words: { readonly word: string; readonly definite: boolean; readonly span: Span }[] = [];
  let article = "";
  for (const { 0: given, index } of text.matchAll(/[a-z]+(?:['’][a-z]+)?|\d+|\n|\S/gi)) {
    const word = given.toLowerCase().replace("’", "'");
    if (ARTICLES.has(word)) article = word;
    else if (!DECORATION.test(word) && !isDash(text, index)) {
      words.push({ word, definite: article === "the", span: [index, index + given.length] });
      article = "";
    }
  }
  const known = vocabulary(view);
  const tokens: Token[] = [];
  for (let at = 0; at < words.length; ) {
    const first = words[at] as (typeof words)[number];
    const phrase = known.get(first.word)?.find((one) => one.words.every((word, i) => words[at + i]?.word === word));
    const next = words.slice(at, at + 5).map(({ word }) => word);
    const cell = phrase === undefined && view.legend !== undefined ? readCell(next) : undefined;
    const length = phrase?.words.length ?? cell?.length ?? 1;
    const meaning = phrase?.meaning ?? cell?.meaning ?? { type: plainType(first.word) };
    tokens.push({ ...meaning, ...first, span: [first.span[0], words[at + length - 1]?.span[1] ?? first.span[1]] });
    at += length;
  }
  return tokens;
}

/** `(1, 2)`, `[1, 2]` or `row 1, column 2`: counted from the top left. */
function readCell([a, b, c, d, e]: readonly string[]): { meaning: Meaning; length: number } | undefined {
  const cell = (row = "", column = "", length: number) =>
    /^\d+$/.test(row) && /^\d+$/.test(column)
      ? { meaning: { type: "cell", cell: [Number(row), Number(column)] } as const, length }
      : undefined;
  if ((a === "(" && e === ")") || (a === "[" && e === "]")) return c === "," ? cell(b, d, 5) : undefined;
  const isColumn = (word: string | undefined) => word === "column" || word === "col";
  if (a !== "row") return undefined;
  return isColumn(c) ? cell(b, d, 4) : (c === "," || c === "and") && isColumn(d) ? cell(b, e, 5) : undefined;
}

function plainType(word: string): Plain {
  if (word === "it") return "it";
  if (word === "\n") return "line";
  if (word === "." || word === ";") return "end";
  if (LINKS.has(word)) return "link";
  if (/^\d+$/.test(word)) return "number";
  return FILLERS.has(word) ? "filler" : PUNCTUATION.has(word) ? "punctuation" : "unknown";
}

type Said = { readonly items: Item[]; readonly player: Cell | undefined };

/** The things that a text speaks of; undefined where it has a word or an order of words that is not understood. */
function parse(tokens: readonly Token[]): Said | undefined {
  const items: Item[] = [];
  let player: Cell | undefined;
  /** What is spoken of: a thing, or `null` for the player. */
  let subject: Item | null | undefined;
  /** Places that may still be told what they are seen from. */
  let open: { axis: number; place: Place; span: Span }[] = [];
  /** Something was said of the subject. */
  let spoken = true;

  const say = (item: Item, from?: string, back = false): boolean => {
    for (const { axis, place, span } of open) {
      if (item.seen.some((one) => one.axis === axis && one.from === from)) return false;
      item.seen.push({
        axis,
        place: back !== item.turned ? mirrored(place) : place,
        ...(from !== undefined && { from }),
      });
      item.span = [Math.min(item.span[0], span[0]), Math.max(item.span[1], span[1])];
    }
    open = [];
    spoken = true;
    return true;
  };
  /** What is open is seen from the player; then nothing is spoken of. */
  const finish = (): boolean => {
    if (open.length > 0 && (!subject || !say(subject))) return false;
    subject = undefined;
    return spoken;
  };
  const begin = (next: Item | null): boolean => {
    if (!finish()) return false;
    subject = next;
    spoken = false;
    return true;
  };
  const newItem = (token: Token, kind: string): Item => {
    const { span, definite } = token;
    const turned = token.type === "thing" && token.turned === true;
    const item: Item = { kind, definite, turned, seen: [], span };
    items.push(item);
    return item;
  };

  const read = (token: Token, i: number): boolean => {
    const before = tokens[i - 1];
    const linked = before?.type === "link" || (before?.type === "place" && PREPOSITIONS.has(before.word));
    switch (token.type) {
      case "thing": {
        if (!linked || open.length === 0) return begin(token.kind === undefined ? null : newItem(token, token.kind));
        if (subject === null) return token.kind !== undefined && say(newItem(token, token.kind), undefined, true);
        if (!subject || subject.kind === token.kind || !say(subject, token.kind)) return false;
        subject.span = [subject.span[0], token.span[1]];
        return true;
      }
      case "it": {
        const last = items.at(-1);
        if (last === undefined) return false;
        // "I am left of the box and above it."
        return linked && open.length > 0 ? subject === null && say(last, undefined, true) : begin(last);
      }
      case "place":
        open.push(token);
        // "right above me" may be straight above, where that is not the order of the axes; "on the left" a side of the image.
        if (before?.type === "place" && before.word === "right" && before.axis > token.axis) return false;
        if (before?.type === "filler" && AT_A_SIDE.has(before.word) && token.place !== 1) return false;
        return subject !== undefined;
      case "cell":
        if (subject === null && player === undefined) player = token.cell;
        else if (subject && subject.cell === undefined && subject.seen.length + open.length === 0) {
          subject.cell = token.cell;
          subject.span = [subject.span[0], token.span[1]];
        } else return false;
        spoken = true;
        return true;
      case "number": {
        const named =
          before?.type === "thing" || (/^[#(]$/.test(before?.word ?? "") && tokens[i - 2]?.type === "thing");
        if (named && subject && subject.label === undefined) subject.label = Number(token.word);
        // "1. box: …"
        else return subject === undefined && /^[.)]$/.test(tokens[i + 1]?.word ?? "");
        return true;
      }
      case "link":
        return tokens[i + 1]?.type === "thing" || tokens[i + 1]?.type === "it";
      case "end":
        return finish();
      case "line":
        return spoken || open.length > 0 ? finish() : true;
      case "filler":
        return subject !== undefined;
      case "punctuation":
        return true;
      default:
        return false;
    }
  };
  return tokens.every(read) && finish() ? { items, player } : undefined;
}

/** Where each thing is seen from the player; undefined where that does not follow, or is said in two ways. */
function resolve(given: readonly Item[], player: Cell | undefined, { axes, from }: View): Reading | undefined {
  const items = merged(given);
  if (!wellLabelled(items)) return undefined;
  const places = new Map<Item, (Place | undefined)[]>();
  for (let pending: readonly Item[] = items; pending.length > 0; ) {
    const waiting = pending.filter(({ seen }) =>
      seen.some((place) => place.from && pending.some((one) => one.kind === place.from)),
    );
    // A circle: each is seen from the other.
    if (waiting.length === pending.length) return undefined;
    for (const item of pending.filter((one) => !waiting.includes(one))) {
      const at =
        item.cell === undefined ? placeOf(item, items, places, axes.length) : player && cellPlace(item.cell, player);
      if (at === undefined) return undefined;
      places.set(item, at);
    }
    pending = waiting;
  }
  const claims = items.map((item) => ({ kind: item.kind, at: places.get(item) ?? [], span: item.span }));
  const cells = items.flatMap(({ kind, cell }) => (cell === undefined ? [] : [{ name: kind, cell }]));
  const links = items.flatMap(({ kind, seen }) =>
    seen.flatMap((one) =>
      one.from === undefined
        ? []
        : [{ kind, from: one.from, at: axes.map((_, axis) => (axis === one.axis ? one.place : undefined)) }],
    ),
  );
  return { claims, cells: player === undefined ? cells : [{ name: from, cell: player }, ...cells], links };
}

function placeOf(item: Item, items: readonly Item[], places: ReadonlyMap<Item, (Place | undefined)[]>, axes: number) {
  const at = new Array<Place | undefined>(axes).fill(undefined);
  for (const { axis, place, from } of item.seen) {
    const grounds = items.filter(({ kind }) => kind === from);
    const ground = from === undefined ? 1 : grounds.length === 1 ? places.get(grounds[0] as Item)?.[axis] : undefined;
    // Above something that is below: nobody knows.
    if (ground === undefined || (ground - 1) * (place - 1) < 0) return undefined;
    const seen = ground === 1 ? place : ground;
    if (at[axis] !== undefined && at[axis] !== seen) return undefined;
    at[axis] = seen;
  }
  return at;
}

/** "The box is above me. The box is left of me." speaks of one box. */
function merged(items: readonly Item[]): Item[] {
  const list: Item[] = [];
  for (const item of items) {
    const last = list.at(-1);
    const goesOn = last?.kind === item.kind && last.label === item.label && item.definite && !last.cell && !item.cell;
    if (goesOn && !item.seen.some(({ axis }) => last.seen.some((one) => one.axis === axis))) {
      last.seen = [...last.seen, ...item.seen];
      last.span = [last.span[0], Math.max(last.span[1], item.span[1])];
    } else list.push(item);
  }
  return list;
}

/** Numbers of things of a kind are those of a list, from 0 or 1: nobody speaks of box 7 where there is one. */
function wellLabelled(items: readonly Item[]): boolean {
  return items.every(({ kind, label }) => {
    if (label === undefined) return true;
    const labels = items.filter((one) => one.kind === kind).map((one) => one.label ?? -1);
    return new Set(labels).size === labels.length && Math.max(...labels) <= labels.length && !labels.includes(-1);
  });
}
