/**
 * Whether two answers to a geometry problem say the same. As graders of this data set do, text is cleaned first (`\boxed`, units, degrees, percent signs, thousands, a
 * leading `x =`); equal texts are equal answers. Otherwise both are read as formulas and compared by value, with their variables set to a few fixed numbers, so
 * `\frac{10}{\sqrt{2}}` is `5\sqrt{2}`. A whole number must be given as one (`\sqrt{16}` is not `4`), and a fraction in lowest terms, as there.
 */
import { evaluate, parseFormula } from "./formula.ts";

const MAX_CHARACTERS = 512;
/** Of a value: rounding is not an answer, so decimals must be exact. */
const TOLERANCE = 1e-9;
/** What variables are set to: nothing in a formula is likely to vanish or cancel there. */
const PROBES = [1.618_033_98, 2.236_067_97, 0.577_215_66];

export function sameAnswer(given: string, truth: string): boolean {
  const [mine, right] = [cleanAnswer(given), cleanAnswer(truth)];
  if (mine === "" || mine.length > MAX_CHARACTERS || right === "") return false;
  if (plain(mine) === plain(right)) return true;
  const [these, those] = [membersOf(mine), membersOf(right)];
  if (these === undefined || those === undefined || these.brackets !== those.brackets) return false;
  return (
    these.members.length === those.members.length &&
    these.members.every((member, i) => sameMember(member, those.members[i] as string))
  );
}

/** The answer that a reply without a call gives: its last `\boxed{…}`, or its last line. */
export function answerOf(reply: string): string {
  const lines = reply.split("\n").filter((line) => line.trim() !== "");
  return boxedOf(reply) ?? (lines.at(-1) ?? "").slice(0, MAX_CHARACTERS);
}

function sameMember(given: string, truth: string): boolean {
  if (plain(given) === plain(truth)) return true;
  const [part, whole] = [fractionOf(given), fractionOf(truth)];
  if (part !== undefined && whole !== undefined) return part === whole;
  if (isWhole(given) !== isWhole(truth)) return false;
  const [mine, right] = [parseFormula(given), parseFormula(truth)];
  if (mine === undefined || right === undefined) return false;
  return PROBES.every((probe) => near(evaluate(mine, probe), evaluate(right, probe)));
}

function near(a: number, b: number): boolean {
  return (
    Number.isFinite(a) && Number.isFinite(b) && Math.abs(a - b) <= TOLERANCE * Math.max(1, Math.abs(a), Math.abs(b))
  );
}

/** Without spaces, but for those between digits: `2 1/2` is not `21/2`. */
const plain = (text: string) => text.replaceAll(/(?<!\d)\s+|\s+(?!\d)/g, "").toLowerCase();
const isWhole = (text: string) => /^[+-]?\d+(?:\.0*)?$/.test(plain(text));

/** `a/b` of whole numbers, however it is written. */
function fractionOf(text: string): string | undefined {
  const found = /^(-?)(?:(\d+)\/(\d+)|\\frac\{(\d+)\}\{(\d+)\})$/.exec(plain(text));
  return found === null ? undefined : `${found[1]}${found[2] ?? found[4]}/${found[3] ?? found[5]}`;
}

const UNITS =
  "millimet(?:er|re)s?|centimet(?:er|re)s?|kilomet(?:er|re)s?|met(?:er|re)s?|inch(?:es)?|foot|feet|yards?|miles?|mm|cm|km|ft|yd|mi|units?|degrees?|deg|percent";
const UNIT = new RegExp(
  `(?<![a-z\\\\])(?:sq(?:uare)?\\.?\\s*)?(?:${UNITS})(?![a-z])(?:\\s*\\^\\s*\\{?\\s*[23]\\s*\\}?|[²³])?`,
  "gi",
);

/** The answer without what says nothing about its value. */
export function cleanAnswer(answer: string): string {
  let text = (boxedOf(answer) ?? answer).slice(0, 4 * MAX_CHARACTERS);
  text = text
    .replaceAll(/\\(?:left|right|displaystyle|[!,;: ])|\$|~/g, " ")
    .replaceAll(/\\[dtc]frac/g, "\\frac")
    .replaceAll(/\\frac\s*(\d)\s*(\d)/g, "\\frac{$1}{$2}")
    .replaceAll(/\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}/g, " $1 ")
    .replaceAll(/\^\s*\{?\s*\\circ\s*\}?|\\circ|\\degree|°|º/g, " ")
    .replaceAll(/\\?%/g, " ")
    .replaceAll("−", "-")
    .replaceAll(/(?<=\d),(?=\d{3}(?!\d))/g, (comma, at: number, whole: string) => (isInList(whole, at) ? comma : ""))
    .replaceAll(UNIT, " ")
    // `m` and `in` alone are units only behind a value.
    .replace(/(?<=[\d)}]\s+)(?:m|in)\.?(?:\s*\^\s*\{?[23]\}?)?\s*$/, "")
    .trim()
    .replace(/^(?:m\s*)?(?:\\angle|∠|\\triangle)?\s*[A-Za-z]{1,3}\s*=(?!=)\s*/, "")
    .replace(/^(?:\\approx|≈)\s*/, "")
    .replace(/(?<!\.)\.\s*$/, "")
    .trim();
  return text.replaceAll(/\s+/g, " ");
}

/** Between brackets a comma parts coordinates, not thousands. */
function isInList(text: string, at: number): boolean {
  const before = text.slice(0, at);
  return before.lastIndexOf("(") > before.lastIndexOf(")") || before.lastIndexOf("[") > before.lastIndexOf("]");
}

/** What stands in the last `\boxed{…}`, braces inside it counted. */
function boxedOf(text: string): string | undefined {
  const start = text.lastIndexOf("\\boxed");
  const open = start < 0 ? -1 : text.indexOf("{", start);
  if (open < 0) return undefined;
  let depth = 0;
  for (let i = open; i < text.length; i++) {
    depth += text[i] === "{" ? 1 : text[i] === "}" ? -1 : 0;
    if (depth === 0) return text.slice(open + 1, i);
  }
  return undefined;
}

/** `(1, 2)` is a pair in round brackets; anything else is one member. */
function membersOf(text: string): { readonly brackets: string; readonly members: readonly string[] } | undefined {
  const inside = /^([([])(.*)([)\]])$/s.exec(text);
  const parts = inside === null ? [] : splitOutside(inside[2] as string);
  if (inside === null || parts.length < 2) return { brackets: "", members: [text] };
  return { brackets: `${inside[1]}${inside[3]}`, members: parts.map((part) => part.trim()) };
}

function splitOutside(text: string): string[] {
  const parts = [""];
  let depth = 0;
  for (const character of text) {
    depth += "([{".includes(character) ? 1 : ")]}".includes(character) ? -1 : 0;
    if (character === "," && depth === 0) parts.push("");
    else parts[parts.length - 1] += character;
  }
  return parts;
}
