/**
 * Settings by dotted name over an object that is there, as `--set envs.0.options.size=8` gives them: fields replace fields one by one, a whole
 * number names an entry of a list, and null leaves a field out.
 */
import { ConfigError } from "./errors.ts";

/** Names through which a setting would reach what every object inherits. */
const INHERITED = new Set(["__proto__", "constructor", "prototype"]);

/** Refuses names that no setting has; `setting` begins the message. */
export function checkSettingName(name: string, setting: string): void {
  if (name === "") throw new ConfigError(`${setting}: a name between the dots is empty.`);
  if (INHERITED.has(name)) throw new ConfigError(`${setting}: "${name}" cannot be set. Name a field.`);
}

/** `over` on top of `base`; neither is changed. */
export function mergeSettings(base: unknown, over: unknown, path: readonly string[] = []): unknown {
  if (!isRecord(over) || (!isRecord(base) && !Array.isArray(base))) return over === undefined ? base : over;
  if (Array.isArray(base)) return mergeList(base, over, path);
  const merged: Record<string, unknown> = { ...base };
  for (const [name, value] of Object.entries(over)) {
    checkSettingName(name, [...path, name].join("."));
    if (value === null) delete merged[name];
    else merged[name] = mergeSettings(merged[name], value, [...path, name]);
  }
  return merged;
}

function mergeList(base: readonly unknown[], over: Record<string, unknown>, path: readonly string[]): unknown[] {
  for (const name of Object.keys(over)) checkEntry(name, base.length, path.join("."));
  return base.flatMap((entry, index) => {
    const value = over[index];
    return value === null ? [] : [mergeSettings(entry, value, [...path, `${index}`])];
  });
}

/** Refuses a name that is no entry of a list with so many. */
export function checkEntry(name: string, length: number, list: string): void {
  if (/^(0|[1-9]\d*)$/.test(name) && Number(name) < length) return;
  const wanted =
    length === 0 ? "it is empty, so set it whole" : `write ${list}.0${length > 1 ? ` to ${list}.${length - 1}` : ""}`;
  throw new ConfigError(`${list}.${name}: ${list} is a list of ${length}; ${wanted}.`);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
