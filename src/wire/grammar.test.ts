/** What a grammar allows is valid by the schema, keyword by keyword; what it can't keep to, it names. ajv is the judge. */
import { describe, expect, test } from "vitest";
import type { Json } from "../core/json.ts";
import { answerGrammar } from "./grammar-schema.ts";
import { SchemaError } from "./grammar-text.ts";
import { Speaker, validator } from "./test-grammar.ts";
import { CALL_TAGS, parseToolCalls } from "./tools.ts";

const name = { type: "string", maxLength: 6 };

const SCHEMAS: readonly [string, Json][] = [
  ["anything", {}],
  ["several types", { type: ["null", "boolean", "integer"] }],
  ["bounds of whole numbers", { type: "integer", minimum: -27, maximum: 131 }],
  ["bounds of numbers", { type: "number", exclusiveMinimum: -1, maximum: 12.5 }],
  ["a number without an upper bound", { type: "number", minimum: 98 }],
  ["lengths", { type: "string", minLength: 18, maxLength: 40 }],
  ["a pattern", { type: "string", pattern: '^(ab|c+)[^a-y"]{2,3}\\d?\\.\\w*$' }],
  ["a pattern of other letters", { type: "string", pattern: "^[äöü]{3}\\S$" }],
  ["values", { enum: ["abba", "ab", "abb", 'say "hi"', 12, 1.5, null, { a: [1, "b"] }, "é〇"] }],
  ["one value", { type: "object", properties: { kind: { const: "sight" } }, required: ["kind"] }],
  [
    "properties that may be left out",
    {
      type: "object",
      properties: { a: name, b: { type: "boolean" }, c: { type: "null" }, "d e": name },
      required: ["b", "d e"],
      additionalProperties: false,
    },
  ],
  ["required properties that are not described", { required: ["x", "y"], additionalProperties: { type: "null" } }],
  [
    "other properties beside named ones",
    { properties: { ab: { type: "integer" }, ac: { type: "null" } }, additionalProperties: { type: "boolean" } },
  ],
  ["how many properties", { properties: { a: {}, b: { type: "null" } }, minProperties: 1, maxProperties: 2 }],
  ["lists", { type: "array", items: { type: "boolean" }, minItems: 2, maxItems: 19 }],
  ["tuples", { prefixItems: [{ type: "null" }, { type: "boolean" }], items: { type: "integer" }, minItems: 1 }],
  ["tuples and nothing else", { type: "array", prefixItems: [{ type: "null" }], items: false }],
  ["alternatives", { anyOf: [{ type: "null" }, { type: "object", properties: { a: name }, required: ["a"] }] }],
  [
    "exclusive alternatives that a property tells apart",
    {
      oneOf: ["press", "turn"].map((kind) => ({
        type: "object",
        properties: { kind: { const: kind }, by: { type: "integer" } },
        required: ["kind"],
      })),
    },
  ],
  [
    "schemas that hold together",
    {
      allOf: [
        { type: "object", properties: { a: { type: "number", minimum: 3 } }, required: ["a"] },
        { properties: { a: { type: "integer", maximum: 5 }, b: { type: "null" } } },
      ],
    },
  ],
  [
    "references, to itself as well",
    {
      $ref: "#/$defs/node",
      $defs: {
        node: {
          type: "object",
          properties: { value: { type: "boolean" }, next: { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }] } },
          required: ["value", "next"],
        },
      },
    },
  ],
  [
    "a reference with neighbours",
    { $ref: "#/$defs/n", minimum: 5, description: "five or six", $defs: { n: { type: "integer", maximum: 6 } } },
  ],
];

describe("what is said", () => {
  const speaker = new Speaker(1);

  test.each(SCHEMAS)("is valid: %s", async (_, schema) => {
    const grammar = answerGrammar({ schema });
    const isValid = validator(schema);
    for (let i = 0; i < 6; i++) {
      const said = await speaker.say(grammar);
      expect(said).toBeDefined();
      expect([said, isValid(JSON.parse(said as string))]).toEqual([said, true]);
    }
  });

  test("is one of the values, whatever they share", async () => {
    for (const letters of [
      ["a", "b", "c"],
      ["a", "é", "〇"],
    ]) {
      for (let round = 0; round < 6; round++) {
        const word = () => Array.from({ length: 1 + speaker.pick(6) }, () => letters[speaker.pick(3)]).join("");
        const words = Array.from({ length: 3 + speaker.pick(30) }, word);
        const grammar = answerGrammar({ schema: { enum: words } });
        for (let i = 0; i < 6; i++) expect(words).toContain(JSON.parse((await speaker.say(grammar)) as string));
      }
    }
  });

  test("is within bounds, wherever they lie", async () => {
    for (let round = 0; round < 12; round++) {
      const [low = 0, high = 0] = [speaker.pick(2000) - 1000, speaker.pick(2000) - 1000].sort((a, b) => a - b);
      const schema = { type: round % 2 === 0 ? "integer" : "number", minimum: low, exclusiveMaximum: high + 2 };
      const grammar = answerGrammar({ schema });
      const isValid = validator(schema);
      for (let i = 0; i < 10; i++) {
        const said = (await speaker.say(grammar)) as string;
        expect([schema, said, isValid(JSON.parse(said))]).toEqual([schema, said, true]);
      }
    }
  });

  test.each([
    ["date", (text: string) => new Date(text).toISOString().startsWith(text)],
    ["date-time", (text: string) => !Number.isNaN(Date.parse(text))],
    ["uuid", (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text)],
    ["email", (text: string) => /^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(text) && !text.includes("..")],
    ["ipv4", (text: string) => text.split(".").every((part) => Number(part) < 256)],
    ["uri", (text: string) => URL.canParse(text)],
  ])("has its format: %s", async (format, isValid) => {
    const grammar = answerGrammar({ schema: { type: "string", format } });
    for (let i = 0; i < 5; i++) {
      const said = JSON.parse((await speaker.say(grammar)) as string) as string;
      expect([said, isValid(said)]).toEqual([said, true]);
    }
  });

  test("is calls of the tools, several where that is allowed, and a schema beside them is an answer too", async () => {
    const tools = [
      { name: "press", parameters: { type: "object", properties: { x: { type: "boolean" } }, required: ["x"] } },
      { name: "wait", parameters: {} },
    ];
    const said = async (isParallel: boolean, schema?: Json) => {
      const calls = { tools, ...CALL_TAGS, isParallel };
      const grammar = answerGrammar({ calls, ...(schema !== undefined && { schema }) });
      return Promise.all(Array.from({ length: 12 }, async () => (await speaker.say(grammar)) as string));
    };
    const several = (await said(true)).map((text) => parseToolCalls(text));
    expect(several.every(({ content, calls }) => content === null && calls.length > 0)).toBe(true);
    expect(Math.max(...several.map(({ calls }) => calls.length))).toBeGreaterThan(1);
    expect(new Set((await said(false)).map((text) => parseToolCalls(text).calls.length))).toEqual(new Set([1]));
    const either = await said(false, { type: "null" });
    expect(new Set(either.map((text) => text === "null" || parseToolCalls(text).calls.length))).toEqual(
      new Set([true, 1]),
    );
  });
});

describe("a schema is refused by the keyword", () => {
  test.each<[string, Json]>([
    ["not", { not: {} }],
    ["multipleOf", { type: "integer", multipleOf: 3 }],
    ["uniqueItems", { type: "array", uniqueItems: true }],
    ["if", { if: {}, else: {} }],
    ["contains", { type: "array", contains: {} }],
    ["patternProperties", { patternProperties: { a: {} } }],
    ["propertyNames", { propertyNames: { maxLength: 3 } }],
    ["dependentRequired", { dependentRequired: { a: ["b"] } }],
    ["$dynamicRef", { $dynamicRef: "#a" }],
    ["$ref", { $ref: "http://example.com/schema" }],
    ["$ref", { $ref: "#/$defs/none" }],
    ["$ref", { $ref: "#" }],
    ["$schema", { $schema: "http://example.com/own" }],
    ["pattern", { type: "string", pattern: "^(?=a)b" }],
    ["pattern", { type: "string", pattern: "\\bword" }],
    ["format", { type: "string", format: "iri" }],
    ["oneOf", { oneOf: [{ type: "integer" }, { type: "number" }] }],
    ["allOf", { allOf: "x" }],
    ["additionalProperties", { allOf: [{ additionalProperties: false }, { properties: { a: {} } }] }],
    ["unevaluatedProperties", { allOf: [{ unevaluatedProperties: false }, { properties: { a: {} } }] }],
    ["type", { type: "text" }],
    ["minimum", { type: "integer", minimum: 3.2, maximum: 3.8 }],
    ["false", { type: "object", properties: { a: false }, required: ["a"] }],
    ["colour", { colour: "red" }],
    ["the schema", { enum: Array.from({ length: 9000 }, (_, i) => `value ${i}`) }],
    [
      "the schema",
      {
        $ref: "#/$defs/a",
        $defs: { a: { properties: { x: { $ref: "#/$defs/a", minProperties: 1 } }, required: ["x"] } },
      },
    ],
  ])("%s of %j", (keyword, schema) => {
    const refuse = () => answerGrammar({ schema });
    expect(refuse).toThrow(SchemaError);
    expect(refuse).toThrow(`${keyword}: `);
  });
});
