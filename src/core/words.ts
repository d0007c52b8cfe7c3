/** Words that messages share: what was given, and the nearest spelling of a name. */
import { isImage } from "./image.ts";

const MAX_TEXT = 40;
const MAX_FIELDS = 6;

/** A value that somebody's code gave, for `got …`: `the string "7"`, `a Buffer of 3 bytes`, `an object with width, pixels`. */
export function given(value: unknown): string {
  switch (typeof value) {
    case "string":
      return `the string ${JSON.stringify(value.length > MAX_TEXT ? `${value.slice(0, MAX_TEXT)}…` : value)}`;
    case "number":
      return Number.isFinite(value) ? `the number ${value}` : String(value);
    case "bigint":
      return `the bigint ${value}n`;
    case "function":
      return "a function";
    case "object":
      return value === null ? "null" : givenObject(value);
    default:
      return String(value);
  }
}

function givenObject(value: object): string {
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : `a list of ${value.length}`;
  if (isImage(value)) return "an Image";
  if (value instanceof Uint8Array) {
    return `${withArticle(value.constructor.name)} of ${value.length} bytes`;
  }
  const maker = Object.getPrototypeOf(value)?.constructor?.name;
  if (maker !== undefined && maker !== "Object" && maker !== "") return withArticle(maker);
  const fields = Object.keys(value);
  if (fields.length === 0) return "an empty object";
  if (fields.includes("role") && fields.includes("content")) return "a message";
  return `an object with ${fields.slice(0, MAX_FIELDS).join(", ")}${fields.length > MAX_FIELDS ? ", …" : ""}`;
}

function withArticle(noun: string): string {
  return `${/^[aeiou]/i.test(noun) ? "an" : "a"} ${noun}`;
}

/** ` Did you mean "left"?`, with a space before it; empty where nothing is near. */
export function didYouMean(word: string, words: readonly string[]): string {
  const close = closestWord(word, words);
  return close === undefined ? "" : ` Did you mean "${close}"?`;
}

/** The word with the fewest edits, if they are few. Both are short. */
export function closestWord(word: string, words: readonly string[]): string | undefined {
  let best: string | undefined;
  let fewest = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const candidate of words) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < fewest && distance < candidate.length) {
      fewest = distance;
      best = candidate;
    }
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}
