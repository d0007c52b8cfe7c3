/** Formats of text as EBNF. They make a part of what is valid: months have at most 28 days, and the time of day has no leap second. */
import type { Rules } from "./grammar-text.ts";

const DIGIT = "[0-9]";
const HEX = "[0-9a-f]";
const times = (what: string, count: number) => Array(count).fill(what).join(" ");
const date = '("19" | "20") [0-9] [0-9] "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | "1" [0-9] | "2" [0-8])';
const hour = '([01] [0-9] | "2" [0-3])';
const minute = "[0-5] [0-9]";
const byte = '("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9] [0-9] | [0-9])';

function time(rules: Rules): string {
  const fraction = `"." ${rules.repeat(DIGIT, 1, 6)}`;
  return `${hour} ":" ${minute} ":" ${minute} (${fraction})? ("Z" | [+-] ${hour} ":" ${minute})`;
}

function host(rules: Rules): string {
  const some = (most: number) => rules.repeat("[a-z0-9]", 1, most);
  const label = rules.add(`[a-z] (${some(20)})? ("-" ${some(10)})?`);
  return `${label} ${rules.repeat(`"." ${label}`, 1, 3)}`;
}

export const FORMATS: Readonly<Record<string, (rules: Rules) => string>> = {
  date: () => date,
  time,
  "date-time": (rules) => `${date} "T" ${time(rules)}`,
  uuid: () =>
    `${times(HEX, 8)} "-" ${times(HEX, 4)} "-4" ${times(HEX, 3)} "-" [89ab] ${times(HEX, 3)} "-" ${times(HEX, 12)}`,
  email: (rules) => {
    const some = (most: number) => rules.repeat("[a-z0-9]", 1, most);
    return `${some(20)} ${rules.repeat(`[._-] ${some(10)}`, 0, 2)} "@" ${host(rules)}`;
  },
  hostname: host,
  ipv4: () => `${byte} ${times(`"." ${byte}`, 3)}`,
  uri: (rules) => {
    const step = `"/" ${rules.repeat("[a-zA-Z0-9_~-]", 0, 30)}`;
    return `"http" "s"? "://" ${host(rules)} ${rules.repeat(step, 0, 4)}`;
  },
};
