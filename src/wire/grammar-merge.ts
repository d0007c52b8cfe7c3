/** Schemas that hold together, and schemas that never do: what `allOf`, references with neighbours and `oneOf` need to know. */
import { isDeepStrictEqual } from "node:util";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { SchemaError } from "./grammar-text.ts";

const KEYWORDS_OF: Readonly<Record<string, readonly string[]>> = {
  object: ["properties", "required", "additionalProperties", "minProperties", "maxProperties", "unevaluatedProperties"],
  array: ["items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"],
  string: ["minLength", "maxLength", "pattern", "format"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
};

/** The types that are made of a schema: those it names, or those it has keywords for. Undefined: any. */
export function typesOf(schema: JsonObject): readonly string[] | undefined {
  if (schema.type !== undefined) return [...new Set([schema.type].flat().map(String))];
  const meant = Object.entries(KEYWORDS_OF).filter(([, names]) => names.some((name) => schema[name] !== undefined));
  return meant.length === 0 ? undefined : meant.map(([type]) => type);
}

/** `unevaluated…` looks at the schema that has it and what is inside, not at its neighbours: it can't be merged with them. */
export function checkAlone(schema: Json): void {
  if (!isJsonObject(schema)) return;
  const name = ["unevaluatedProperties", "unevaluatedItems"].find((one) => schema[one] !== undefined);
  if (name !== undefined) throw new SchemaError(name, "other schemas hold together with the one that has it");
}

/** What is valid in both. */
export function mergeSchemas(a: Json, b: Json): Json {
  if (a === true) return b;
  if (b === true) return a;
  if (!isJsonObject(a) || !isJsonObject(b)) return false;
  const merged: Record<string, Json> = { ...a };
  for (const [name, value] of Object.entries(b)) {
    const other = a[name];
    merged[name] = other === undefined ? value : mergeKeyword(name, other, value);
  }
  checkClosed(a, b);
  checkClosed(b, a);
  return merged;
}

function mergeKeyword(name: string, a: Json, b: Json): Json {
  if (isDeepStrictEqual(a, b)) return a;
  const [x, y] = [a, b] as [number, number];
  switch (name) {
    case "type": {
      const [left, right] = [[a].flat() as string[], [b].flat() as string[]];
      const both = left.filter((type) => right.includes(type) || (type === "integer" && right.includes("number")));
      const more = right.filter((type) => type === "integer" && left.includes("number") && !both.includes(type));
      return [...both, ...more];
    }
    case "required":
      return [...new Set([...(a as string[]), ...(b as string[])])];
    case "properties": {
      const [left, right] = [a as JsonObject, b as JsonObject];
      const shared = Object.keys(left).filter((key) => Object.hasOwn(right, key));
      const both = shared.map((key) => [key, mergeNested(left[key] as Json, right[key] as Json)]);
      return { ...left, ...right, ...Object.fromEntries(both) };
    }
    case "enum":
      return (a as Json[]).filter((value) => (b as Json[]).some((other) => isDeepStrictEqual(value, other)));
    case "minimum":
    case "exclusiveMinimum":
    case "minLength":
    case "minItems":
    case "minProperties":
      return Math.max(x, y);
    case "maximum":
    case "exclusiveMaximum":
    case "maxLength":
    case "maxItems":
    case "maxProperties":
      return Math.min(x, y);
    case "uniqueItems":
      return a === true || b === true;
    case "items":
      return mergeNested(a, b);
    case "allOf":
      return [...(a as Json[]), ...(b as Json[])];
    case "title":
    case "description":
    case "default":
    case "examples":
    case "$comment":
    case "$defs":
    case "definitions":
    case "$schema":
      return a;
    default:
      throw new SchemaError(name, "two schemas that hold together both have it");
  }
}

/** Later, when both have been resolved. */
function mergeNested(a: Json, b: Json): Json {
  return { allOf: [a, b] };
}

/** Additional properties and items are counted from the schema that has them: another's are additional to it. */
function checkClosed(a: JsonObject, b: JsonObject): void {
  const more = a.additionalProperties;
  if (more !== undefined && more !== true) {
    const known = isJsonObject(a.properties) ? a.properties : {};
    const others = Object.keys(isJsonObject(b.properties) ? b.properties : {});
    if (others.some((name) => !Object.hasOwn(known, name))) {
      throw new SchemaError("additionalProperties", "it can't be combined with schemas that have other properties");
    }
  }
  if (b.prefixItems !== undefined && a.items !== undefined && !isDeepStrictEqual(a.prefixItems, b.prefixItems)) {
    throw new SchemaError("prefixItems", "it can't be combined with schemas that have other items");
  }
}

/** Whether no value that is made of one is valid in the other. */
export function neverBoth(a: Json, b: Json): boolean {
  if (a === false || b === false) return true;
  if (!isJsonObject(a) || !isJsonObject(b)) return false;
  const [left, right] = [valuesOf(a), valuesOf(b)];
  if (left !== undefined && right !== undefined) {
    return !left.some((value) => right.some((other) => isDeepStrictEqual(value, other)));
  }
  if (a.type !== undefined && b.type !== undefined) {
    const [mine, theirs] = [kindsOf(a.type), kindsOf(b.type)];
    if (!mine.some((type) => theirs.includes(type))) return true;
  }
  if (!isJsonObject(a.properties) || !isJsonObject(b.properties)) return false;
  if (a.type !== "object" || b.type !== "object") return false;
  const needed = [a.required, b.required].map((list) => (Array.isArray(list) ? (list as string[]) : []));
  const [first, second] = [a.properties, b.properties];
  return Object.keys(first).some(
    (name) =>
      needed.every((list) => list.includes(name)) &&
      Object.hasOwn(second, name) &&
      neverBoth(first[name] as Json, second[name] as Json),
  );
}

const kindsOf = (type: Json) => [type].flat().map((one) => (one === "integer" ? "number" : String(one)));

function valuesOf({ const: one, enum: list }: JsonObject): readonly Json[] | undefined {
  if (one !== undefined) return [one];
  return Array.isArray(list) ? (list as readonly Json[]) : undefined;
}
