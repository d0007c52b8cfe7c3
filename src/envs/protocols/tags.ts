/**
 * Tags in a reply, such as `<think>…</think>`. A reply may hold anything, so one pass finds every tag and the rest works
 * on that list: many unclosed tags cost linear time, where a lazy regular expression would be quadratic.
 * Tags are matched in any case; offsets are UTF-16 units of the reply.
 */
import type { Section, Span } from "../protocol.ts";

/** A tag mark: `<name>` or `</name>` at [start, end). */
type Mark = { readonly name: string; readonly closing: boolean; readonly start: number; readonly end: number };

/** What stands between a pair of tags: [start, end) without them, [outerStart, outerEnd) with them. */
export type Block = {
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly outerStart: number;
  readonly outerEnd: number;
};

/** `names` are lower-case letters, digits, `_` and `-`. */
function marksOf(text: string, names: readonly string[]): Mark[] {
  const marks: Mark[] = [];
  for (const match of text.matchAll(new RegExp(`<(/?)(${names.join("|")})>`, "gi"))) {
    const [whole, slash, name = ""] = match;
    const start = match.index;
    marks.push({ name: name.toLowerCase(), closing: slash === "/", start, end: start + whole.length });
  }
  return marks;
}

function block(open: Mark, close: Mark): Block {
  return { name: open.name, start: open.end, end: close.start, outerStart: open.start, outerEnd: close.end };
}

/** Every closed tag of these names with something inside, in order. Of two openings in a row the second counts. */
export function findBlocks(text: string, names: readonly string[]): Block[] {
  const blocks: Block[] = [];
  const open = new Map<string, Mark>();
  for (const mark of marksOf(text, names)) {
    if (!mark.closing) {
      open.set(mark.name, mark);
      continue;
    }
    const opening = open.get(mark.name);
    open.delete(mark.name);
    if (opening !== undefined && text.slice(opening.end, mark.start).trim() !== "") blocks.push(block(opening, mark));
  }
  return blocks;
}

/**
 * The first place where these tags follow each other, each closed. `gaps`: whether anything may stand between them, or
 * only white space. Equal to the leftmost lazy match of `<a>(.*?)</a>\s*<b>(.*?)</b>…`: taking the earliest end of each
 * tag that its successor allows loses nothing, for a later end leaves the rest only less room.
 */
export function findSequence(text: string, names: readonly string[], gaps: "free" | "blank"): Block[] | undefined {
  const marks = marksOf(text, names);
  const blocks: Block[] = [];
  let next = 0;
  const find = (name: string, closing: boolean): Mark | undefined => {
    while (next < marks.length) {
      const mark = marks[next++] as Mark;
      if (mark.name === name && mark.closing === closing) return mark;
    }
    return undefined;
  };
  let open = find(names[0] ?? "", false);
  for (const [index, name] of names.entries()) {
    const following = names[index + 1];
    if (open === undefined) return undefined;
    let close = find(name, true);
    let successor: Mark | undefined;
    while (close !== undefined && following !== undefined && successor === undefined) {
      if (gaps === "free") {
        successor = find(following, false);
        if (successor === undefined) return undefined;
        break;
      }
      const mark = marks[next];
      const adjacent = mark?.name === following && !mark.closing && text.slice(close.end, mark.start).trim() === "";
      if (adjacent) {
        successor = mark;
        next += 1;
      } else {
        close = find(name, true);
      }
    }
    if (close === undefined) return undefined;
    blocks.push(block(open, close));
    open = successor;
  }
  return blocks;
}

/** The first closed tag of each name. */
export function sectionsOf(text: string, names: readonly string[]): Record<string, Section> {
  const sections: Record<string, Section> = {};
  for (const found of findBlocks(text, names)) sections[found.name] ??= sectionIn(text, found);
  return sections;
}

export function sectionIn(text: string, found: Block): Section {
  return { text: textIn(text, found), span: spanIn(text, found) };
}

export function textIn(text: string, found: Block): string {
  return text.slice(found.start, found.end).trim();
}

/** Where the text inside stands, without the white space around it. */
export function spanIn(text: string, found: Block): Span {
  const inside = text.slice(found.start, found.end);
  const start = found.start + (inside.length - inside.trimStart().length);
  return [start, start + inside.trim().length];
}

/** A tag around text that can't break out of it: tags of these names inside become `[name]`. */
export function wrap(name: string, text: string, names: readonly string[]): string {
  return `<${name}>${text.replace(new RegExp(`<(/?(?:${names.join("|")}))>`, "gi"), "[$1]")}</${name}>`;
}
