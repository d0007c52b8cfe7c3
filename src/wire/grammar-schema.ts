/**
 * JSON schemas as EBNF. What the grammar makes is valid by the schema; it need not be everything that is: properties come in the order of the schema, ones
 * that it does not name are only made where it asks for them, and text has no needless escapes. A keyword that can't be kept to is refused by its name,
 * never ignored.
 */
import { isDeepStrictEqual } from "node:util";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { FORMATS } from "./grammar-formats.ts";
import { checkAlone, mergeSchemas, neverBoth, typesOf } from "./grammar-merge.ts";
import { PatternError, patternGrammar } from "./grammar-pattern.ts";
import {
  characters,
  complement,
  intersect,
  literal,
  PLAIN,
  type Ranges,
  Rules,
  SchemaError,
  wholeNumbers,
} from "./grammar-text.ts";

/** Keywords that change nothing about what is valid. */
const ANNOTATIONS = new Set([
  ...["title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"],
  ...["$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs", "definitions", "$vocabulary"],
  ...["contentEncoding", "contentMediaType", "contentSchema", "then", "else"],
]);
export const SUPPORTED: readonly string[] = [
  ...["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"],
  ...["properties", "required", "additionalProperties", "minProperties", "maxProperties", "unevaluatedProperties"],
  ...["items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"],
  ...["minLength", "maxLength", "pattern", "format"],
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
];
const DRAFTS = /^https?:\/\/json-schema\.org\/(draft\/(2020-12|2019-09)|draft-0[4-7])\/schema#?$/;
/** Longer texts and lists are not asked for: the grammar would be too large. */
const MAX_COUNT = 1024;
const MAX_DIGITS = 15;
const MAX_INDENT = 32;
const ASCII = intersect(PLAIN, [[0, 0x7f]]);
const MAX_DEPTH = 200;
const MAX_STEPS = 10_000;
/** Characters of a grammar: compiling a longer one would hold up other requests. */
const MAX_GRAMMAR = 65_536;
const TOO_LARGE = "it is too large, or has no end";

export type CallGrammar = {
  readonly tools: readonly { readonly name: string; readonly parameters: Json }[];
  readonly open: string;
  readonly close: string;
  readonly isParallel: boolean;
};

/** An answer is JSON of this schema, or calls of these tools, or either. */
export function answerGrammar({ schema, calls }: { readonly schema?: Json; readonly calls?: CallGrammar }): string {
  const rules = new Rules();
  const ways: string[] = [];
  if (schema !== undefined) ways.push(new SchemaGrammar(schema, rules).root());
  if (calls !== undefined) {
    const { open, close, isParallel } = calls;
    const each = calls.tools.map(({ name, parameters }) => {
      const before = `${open}\n{"name": ${JSON.stringify(name)}, "arguments": `;
      const given = new SchemaGrammar(parameters, rules, true).root();
      return `${literal(before)} ${given} ${literal(`}\n${close}`)}`;
    });
    const call = rules.add(each.join(" | "));
    ways.push(isParallel ? `${call} ("\\n" ${call})*` : call);
  }
  const text = rules.text(ways.join(" | "));
  if (text.length > MAX_GRAMMAR) throw new SchemaError("the schema", TOO_LARGE);
  return text;
}

type Place = {
  readonly path: string /** References that were followed without anything being written. */;
  readonly via: readonly string[];
};

class SchemaGrammar {
  readonly #root: Json;
  readonly #rules: Rules;
  readonly #isArguments: boolean;
  readonly #refs = new Map<string, string>();
  readonly #ignoresSiblings: boolean;
  readonly #ws: string;
  #anything: string | undefined;
  #steps = 0;
  #depth = 0;

  constructor(root: Json, rules: Rules, isArguments = false) {
    this.#root = root;
    this.#rules = rules;
    this.#isArguments = isArguments;
    const draft = isJsonObject(root) ? root.$schema : undefined;
    if (draft !== undefined && !(typeof draft === "string" && DRAFTS.test(draft))) {
      throw new SchemaError("$schema", `${JSON.stringify(draft)} is not a supported draft`);
    }
    // Before 2019, what stood beside a reference did not count.
    this.#ignoresSiblings = typeof draft === "string" && /draft-0[4-7]/.test(draft);
    this.#ws = rules.add(`(" " | "\\n" ${rules.repeat('" "', 0, MAX_INDENT)})?`);
  }

  root(): string {
    const root = this.#isArguments ? asObject(this.#root) : this.#root;
    return this.#schema(root, { path: "#", via: [] });
  }

  #schema(schema: Json, place: Place): string {
    this.#steps += 1;
    this.#depth += 1;
    // A reference with neighbours may lead to itself again and again.
    if (this.#depth > MAX_DEPTH || this.#steps > MAX_STEPS) throw new SchemaError("the schema", TOO_LARGE);
    const made = this.#inside(schema, place);
    this.#depth -= 1;
    return made;
  }

  #inside(schema: Json, place: Place): string {
    if (schema === true) return this.#any();
    if (schema === false) throw new SchemaError("false", `no value is valid at ${place.path}`);
    if (!isJsonObject(schema))
      throw new SchemaError("the schema", `at ${place.path} it must be an object or a boolean`);
    const asserted = this.#checked(schema, place);
    const { $ref, allOf, anyOf, oneOf, ...rest } = asserted;
    if ($ref !== undefined)
      return this.#reference($ref, this.#ignoresSiblings ? {} : { ...asserted, $ref: undefined as never }, place);
    if (allOf !== undefined) {
      const { allOf: _, ...others } = asserted;
      const parts = listOf("allOf", allOf).map((part) => this.#resolved(part, place));
      if (parts.length > 1 || Object.keys(others).length > 0) parts.forEach(checkAlone);
      return this.#schema(
        [...parts, others].reduce((a, b) => mergeSchemas(a, b)),
        place,
      );
    }
    if (anyOf !== undefined || oneOf !== undefined) {
      const name = anyOf !== undefined ? "anyOf" : "oneOf";
      if (anyOf !== undefined && oneOf !== undefined) throw new SchemaError("oneOf", "it can't be combined with anyOf");
      const parts = listOf(name, asserted[name]).filter((part) => part !== false);
      if (parts.length === 0) throw new SchemaError(name, "no value is valid");
      const merged = parts.map((part) => {
        if (Object.keys(rest).length === 0) return part;
        const whole = this.#resolved(part, place);
        checkAlone(whole);
        return mergeSchemas(whole, rest);
      });
      if (name === "oneOf") {
        const whole = merged.map((part) => this.#resolved(part, place));
        for (const [i, a] of whole.entries()) {
          for (const b of whole.slice(i + 1)) {
            if (!neverBoth(a, b)) throw new SchemaError("oneOf", "a value may be valid in two of its schemas");
          }
        }
      }
      return this.#rules.add(merged.map((part) => this.#schema(part, place)).join(" | "));
    }
    if (rest.enum !== undefined || rest.const !== undefined) return this.#values(rest, place);
    const types = typesOf(rest);
    if (types === undefined) return this.#any();
    if (types.length === 0) throw new SchemaError("type", "no value is valid");
    return this.#rules.add(types.map((type) => this.#typed(type, rest, place)).join(" | "));
  }

  /** Without annotations; throws for keywords that can't be kept to. */
  #checked(schema: JsonObject, { path }: Place): JsonObject {
    if (path !== "#" && (typeof schema.$id === "string" || typeof schema.id === "string")) {
      throw new SchemaError("$id", `only the whole schema may have one, not ${path}`);
    }
    const asserted = Object.entries(schema).filter(
      ([name, value]) => value !== undefined && !ANNOTATIONS.has(name) && !name.startsWith("x-"),
    );
    if (this.#ignoresSiblings && schema.$ref !== undefined) return { $ref: schema.$ref };
    for (const [name] of asserted) {
      if (!SUPPORTED.includes(name)) throw new SchemaError(name, "this keyword is not supported");
    }
    return Object.fromEntries(asserted);
  }

  #reference(ref: Json, others: JsonObject, place: Place): string {
    const { $ref: _, ...beside } = others;
    if (Object.keys(beside).length > 0) {
      checkAlone(this.#target(ref));
      return this.#schema(mergeSchemas(this.#target(ref), this.#checked(beside, place)), place);
    }
    const name = String(ref);
    if (place.via.includes(name)) throw new SchemaError("$ref", `${name} refers to itself`);
    const known = this.#refs.get(name);
    if (known !== undefined) return known;
    const rule = this.#rules.reserve();
    this.#refs.set(name, rule);
    const via = [...place.via, name];
    this.#rules.set(rule, this.#schema(this.#target(ref), { path: name === "#" ? "#" : name, via }));
    return rule;
  }

  /** A schema that can be merged: what it refers to, if it is nothing but a reference. */
  #resolved(schema: Json, place: Place, seen: readonly string[] = []): Json {
    if (!isJsonObject(schema) || schema.$ref === undefined) return schema;
    const name = String(schema.$ref);
    if (seen.includes(name) || place.via.includes(name)) throw new SchemaError("$ref", `${name} refers to itself`);
    const { $ref, ...beside } = this.#checked(schema, place);
    const target = this.#resolved(this.#target($ref as Json), place, [...seen, name]);
    return Object.keys(beside).length === 0 ? target : mergeSchemas(target, beside);
  }

  #target(ref: Json): Json {
    if (typeof ref !== "string" || !/^#(\/|$)/.test(ref)) {
      throw new SchemaError("$ref", `${JSON.stringify(ref)} is not a place inside the schema, such as #/$defs/name`);
    }
    let found: Json | undefined = this.#root;
    for (const step of ref.split("/").slice(1)) {
      const key = decode(step).replaceAll("~1", "/").replaceAll("~0", "~");
      const inside: unknown = found;
      if (Array.isArray(inside)) found = inside[Number(key)] as Json | undefined;
      else found = isJsonObject(inside) && Object.hasOwn(inside, key) ? inside[key] : undefined;
      if (found === undefined) throw new SchemaError("$ref", `there is nothing at ${ref}`);
      if (isJsonObject(found) && found !== this.#root && typeof found.$id === "string") {
        throw new SchemaError("$id", "only the whole schema may have one");
      }
    }
    return found as Json;
  }

  #any(): string {
    if (this.#anything !== undefined) return this.#anything;
    this.#anything = this.#rules.reserve();
    const types = ["object", "array", "string", "number", "boolean", "null"];
    const place = { path: "any", via: [] };
    this.#rules.set(this.#anything, types.map((type) => this.#typed(type, {}, place)).join(" | "));
    return this.#anything;
  }

  #values(schema: JsonObject, place: Place): string {
    const { enum: list, const: one, type: _, ...others } = schema;
    const [other] = Object.keys(others);
    if (other !== undefined) throw new SchemaError(other, "it can't be combined with enum or const");
    const types = typesOf({ ...(schema.type !== undefined && { type: schema.type }) });
    const values = (list === undefined ? [one as Json] : listOf("enum", list)).filter(
      (value) =>
        (one === undefined || isDeepStrictEqual(value, one)) &&
        (types === undefined || types.some((type) => isOfType(value, type))),
    );
    if (values.length === 0)
      throw new SchemaError(list === undefined ? "const" : "enum", `no value is valid at ${place.path}`);
    return this.#rules.add(values.map((value) => this.#value(value)).join(" | "));
  }

  /** This very value, white space free. */
  #value(value: Json): string {
    if (Array.isArray(value)) {
      const items = (value as readonly Json[]).map((item) => this.#value(item));
      return this.#between("[", items.join(` "," ${this.#ws} `), "]");
    }
    if (!isJsonObject(value)) return literal(JSON.stringify(value));
    const fields = Object.entries(value).map(([key, field]) => `${this.#key(key)} ${this.#value(field)}`);
    return this.#between("{", fields.join(` "," ${this.#ws} `), "}");
  }

  #key(name: string): string {
    return `${literal(`${JSON.stringify(name)}:`)} ${this.#ws}`;
  }

  #between(open: string, inside: string, close: string): string {
    if (inside === "") return `${literal(open)} ${this.#ws} ${literal(close)}`;
    return `${literal(open)} ${this.#ws} ${inside} ${this.#ws} ${literal(close)}`;
  }

  #typed(type: string, schema: JsonObject, place: Place): string {
    switch (type) {
      case "object":
        return this.#object(schema, place);
      case "array":
        return this.#array(schema, place);
      case "string":
        return this.#string(schema);
      case "number":
      case "integer":
        return this.#number(type, schema);
      case "boolean":
        return '("true" | "false")';
      case "null":
        return '"null"';
      default:
        throw new SchemaError("type", `${JSON.stringify(type)} is not a type`);
    }
  }

  #object(schema: JsonObject, { path }: Place): string {
    const { properties: given = {}, required: needed = [], additionalProperties: more } = schema;
    if (!isJsonObject(given)) throw new SchemaError("properties", "it must be an object");
    const names = listOf("required", needed).map(String);
    const extra = names.filter((name) => !Object.hasOwn(given, name));
    const inside = (name: string): Place => ({ path: `${path}/${name}`, via: [] });
    const fields = [
      ...Object.entries(given).filter(([name, value]) => value !== false || names.includes(name)),
      ...extra.map((name): [string, Json] => [name, more ?? true]),
    ];
    // Others are made where the schema says what they are, or says nothing of any.
    const isOpen =
      (more !== undefined && more !== false) ||
      (more === undefined && fields.length === 0 && given !== undefined && Object.keys(given).length === 0);
    const mayMore = isOpen && !(more === undefined && schema.unevaluatedProperties !== undefined);
    const [least, most] = [countOf(schema, "minProperties") ?? 0, countOf(schema, "maxProperties")];
    const isBounded = least > names.length || (most !== undefined && (mayMore || most < fields.length));
    let written = fields;
    let others = mayMore;
    if (isBounded) {
      // As many as are needed, in order, and no more.
      const chosen = fields.filter(([name], i) => names.includes(name) || i < Math.max(least - names.length, 0));
      if (chosen.length < least || (most !== undefined && chosen.length > most)) {
        const keyword = most !== undefined && chosen.length > most ? "maxProperties" : "minProperties";
        throw new SchemaError(keyword, "the properties that the schema names do not meet it");
      }
      written = chosen;
      others = false;
    }
    const isNeeded = (name: string) => isBounded || names.includes(name);
    const pairs = written.map(([name, value]) => ({
      pair: `${this.#key(name)} ${this.#schema(value, inside(name))}`,
      isNeeded: isNeeded(name),
    }));
    const comma = `"," ${this.#ws}`;
    let rest = '""';
    let start = '""';
    if (others) {
      const value = this.#schema(more ?? true, { path: `${path}/*`, via: [] });
      const taken = [...Object.keys(given), ...extra];
      const pair = this.#rules.add(`"\\"" ${this.#otherKey(taken)} "\\":" ${this.#ws} ${value}`);
      rest = this.#rules.add(`(${comma} ${pair})*`);
      start = this.#rules.add(`(${pair} ${rest})?`);
    }
    for (const { pair, isNeeded } of pairs.reverse()) {
      const first = `${pair} ${rest}`;
      start = this.#rules.add(isNeeded ? first : `${first} | ${start}`);
      rest = this.#rules.add(isNeeded ? `${comma} ${first}` : `(${comma} ${pair})? ${rest}`);
    }
    return this.#between("{", start === '""' ? "" : start, "}");
  }

  /** Names without escapes that are none of these. */
  #otherKey(taken: readonly string[]): string {
    const plain = this.#rules.add(characters(PLAIN));
    const words = taken.map((name) => [...name].map((char) => char.codePointAt(0) as number));
    const node = (depth: number, alive: readonly (readonly number[])[]): string => {
      if (alive.length === 0) return this.#rules.add(`${plain}*`);
      const isWord = alive.some((word) => word.length === depth);
      const next = new Map<number, (readonly number[])[]>();
      for (const word of alive) {
        const code = word[depth];
        if (code !== undefined) next.set(code, [...(next.get(code) ?? []), word]);
      }
      const here: Ranges = [...next.keys()].sort((a, b) => a - b).map((code) => [code, code]);
      const isAscii = here.every(([code]) => code < 0x80);
      const free = intersect(isAscii ? PLAIN : ASCII, complement(here));
      const ways = [
        ...(isWord ? [] : ['""']),
        `${characters(free)} ${plain}*`,
        ...[...next].flatMap(([code, words]) =>
          intersect(PLAIN, [[code, code]]).length === 0
            ? []
            : [`${characters([[code, code]])} ${node(depth + 1, words)}`],
        ),
      ];
      return this.#rules.add(ways.join(" | "));
    };
    return node(0, words);
  }

  #array(schema: JsonObject, { path }: Place): string {
    const { prefixItems, items, additionalItems } = schema;
    if (schema.uniqueItems === true) throw new SchemaError("uniqueItems", "a grammar can't compare items");
    const isTuple = Array.isArray(items);
    const first =
      prefixItems !== undefined ? listOf("prefixItems", prefixItems) : isTuple ? (items as readonly Json[]) : [];
    const after = isTuple ? additionalItems : items;
    const least = countOf(schema, "minItems") ?? 0;
    const most = countOf(schema, "maxItems") ?? Number.POSITIVE_INFINITY;
    if (most < least) throw new SchemaError("maxItems", "it is below minItems");
    const place: Place = { path: `${path}/items`, via: [] };
    const cut = first.indexOf(false);
    const heads = (cut < 0 ? first : first.slice(0, cut)).slice(
      0,
      most === Number.POSITIVE_INFINITY ? undefined : most,
    );
    // Beyond those that the schema lists, items are made where it says what they are, or lists none, or needs them.
    const isListed = first.length > 0;
    const mayMore =
      cut < 0 &&
      after !== false &&
      (after !== undefined || least > heads.length || (!isListed && schema.unevaluatedItems === undefined));
    if (!mayMore && heads.length < least) throw new SchemaError("minItems", "there can't be as many items");
    if (schema.unevaluatedItems !== undefined && after === undefined && least > heads.length) {
      throw new SchemaError("unevaluatedItems", "more items are needed than the schema evaluates");
    }
    const comma = `"," ${this.#ws}`;
    let tail = '""';
    if (mayMore && most > heads.length) {
      const [from, to] = [Math.max(least - heads.length, 0), most - heads.length];
      if (from > MAX_COUNT) throw new SchemaError("minItems", `at most ${MAX_COUNT} are supported`);
      const item = this.#schema(after ?? true, place);
      if (heads.length > 0)
        return this.#between("[", this.#heads(heads, place, least, this.#counted(`${comma} ${item}`, from, to)), "]");
      const several = `${item} ${this.#counted(`${comma} ${item}`, Math.max(from - 1, 0), to - 1)}`;
      tail = this.#rules.add(from > 0 ? several : `(${several})?`);
      return this.#between("[", tail, "]");
    }
    return this.#between("[", heads.length === 0 ? "" : this.#heads(heads, place, least, '""'), "]");
  }

  /** Items by their place; those beyond `least` may be left out with all that follow. */
  #heads(heads: readonly Json[], place: Place, least: number, tail: string): string {
    let rest = tail;
    for (let i = heads.length - 1; i >= 0; i--) {
      const item = this.#schema(heads[i] as Json, place);
      const comma = i === 0 ? "" : `"," ${this.#ws} `;
      rest = this.#rules.add(i < least ? `${comma}${item} ${rest}` : `(${comma}${item} ${rest})?`);
    }
    return rest;
  }

  #string(schema: JsonObject): string {
    const { pattern, format } = schema;
    const least = countOf(schema, "minLength") ?? 0;
    const most = countOf(schema, "maxLength") ?? Number.POSITIVE_INFINITY;
    const isBounded = least > 0 || most < Number.POSITIVE_INFINITY;
    if (most < least) throw new SchemaError("maxLength", "it is below minLength");
    if (least > MAX_COUNT) throw new SchemaError("minLength", `at most ${MAX_COUNT} is supported`);
    if (pattern !== undefined) {
      if (isBounded) throw new SchemaError("pattern", "it can't be combined with minLength or maxLength");
      if (format !== undefined) throw new SchemaError("format", "it can't be combined with pattern");
      try {
        return `"\\"" ${this.#rules.add(patternGrammar(String(pattern), this.#rules))} "\\""`;
      } catch (error) {
        if (!(error instanceof PatternError)) throw error;
        throw new SchemaError("pattern", `${JSON.stringify(pattern)} has no grammar: ${error.message}`);
      }
    }
    if (format !== undefined) {
      const made = FORMATS[String(format)]?.(this.#rules);
      if (made === undefined) {
        throw new SchemaError("format", `${JSON.stringify(format)} is not one of ${Object.keys(FORMATS).join(", ")}`);
      }
      if (isBounded) throw new SchemaError("format", "it can't be combined with minLength or maxLength");
      return `"\\"" ${this.#rules.add(made)} "\\""`;
    }
    const char = this.#rules.add(
      `${characters(PLAIN)} | "\\\\" ["\\\\/bfnrt] | "\\\\u" ([0-9a-cefA-CEF] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] | [dD] [0-7] [0-9a-fA-F] [0-9a-fA-F])`,
    );
    return `"\\"" ${this.#counted(char, least, most)} "\\""`;
  }

  /** Not all of a large number of them can be allowed. */
  #counted(what: string, least: number, most: number): string {
    const until = most === Number.POSITIVE_INFINITY ? most : Math.min(most, least + MAX_COUNT);
    return this.#rules.repeat(what, least, until);
  }

  #number(type: string, schema: JsonObject): string {
    const isWhole = type === "integer";
    const { multipleOf } = schema;
    if (multipleOf !== undefined && !(isWhole && multipleOf === 1)) {
      throw new SchemaError("multipleOf", "a grammar can't divide");
    }
    const bound = (name: string) => {
      const value = schema[name];
      if (value === undefined) return undefined;
      if (typeof value !== "number") throw new SchemaError(name, "it must be a number");
      return value;
    };
    const edge = 10 ** MAX_DIGITS - 1;
    const [low, above] = [bound("minimum"), bound("exclusiveMinimum")];
    const [high, below] = [bound("maximum"), bound("exclusiveMaximum")];
    const digits = (least: number, most: number) => this.#rules.repeat("[0-9]", least, most);
    const fraction = `"." ${digits(0, MAX_DIGITS - 1)} [1-9]`;
    if (low === undefined && above === undefined && high === undefined && below === undefined) {
      const whole = `"-"? ("0" | [1-9] ${digits(0, MAX_DIGITS - 1)})`;
      return this.#rules.add(
        isWhole ? whole : `${whole} ("." ${digits(1, MAX_DIGITS)})? ([eE] [+-]? ${digits(1, 2)})?`,
      );
    }
    const from = Math.max(
      low === undefined ? -edge : Math.ceil(low),
      above === undefined ? -edge : Math.floor(above) + 1,
      -edge,
    );
    const to = Math.min(
      high === undefined ? edge : Math.floor(high),
      below === undefined ? edge : Math.ceil(below) - 1,
      edge,
    );
    const ways: string[] = [];
    if (from <= to) {
      if (to >= 0) ways.push(wholeNumbers(Math.max(from, 0), to));
      if (from < 0) ways.push(`"-" ${wholeNumbers(Math.max(-to, 1), -from)}`);
    }
    if (!isWhole) {
      // Between two whole numbers, both within the bounds.
      const [least, most] = [Math.max(low ?? -edge, above ?? -edge), Math.min(high ?? edge, below ?? edge)];
      const [start, end] = [Math.ceil(least), Math.floor(most) - 1];
      if (end >= Math.max(start, 0)) ways.push(`${wholeNumbers(Math.max(start, 0), end)} ${fraction}`);
      if (start < 0 && start <= end) ways.push(`"-" ${wholeNumbers(Math.max(-end - 1, 0), -start - 1)} ${fraction}`);
    }
    if (ways.length === 0) {
      const keyword = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"].find(
        (name) => schema[name] !== undefined,
      );
      throw new SchemaError(keyword ?? "minimum", "no whole number of at most 15 digits is within the bounds");
    }
    return this.#rules.add(ways.join(" | "));
  }
}

/** Arguments of tools are objects, also where a schema does not say so. */
function asObject(schema: Json): Json {
  if (schema === true) return { type: "object" };
  if (!isJsonObject(schema) || schema.type !== undefined) return schema;
  return Object.keys(schema).length === 0 || schema.properties !== undefined ? { ...schema, type: "object" } : schema;
}

function listOf(keyword: string, value: Json | undefined): readonly Json[] {
  if (!Array.isArray(value)) throw new SchemaError(keyword, "it must be a list");
  return value as readonly Json[];
}

function countOf(schema: JsonObject, name: string): number | undefined {
  const value = schema[name];
  if (value === undefined) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0) {
    throw new SchemaError(name, "it must be a whole number, 0 or more");
  }
  return value;
}

function isOfType(value: Json, type: string): boolean {
  switch (type) {
    case "object":
      return isJsonObject(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}

function decode(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}
