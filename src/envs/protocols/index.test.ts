/** What holds for every protocol, over random worlds and hostile replies. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ConfigError, EnvError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { type Action, type ActionSpec, type ArgSpec, bare } from "../action.ts";
import { makeProtocol, protocolNames, protocolOptions } from "./index.ts";

const variants: readonly [string, Record<string, unknown>][] = [
  ["tuple", {}],
  ["tuple", { pick: "first" }],
  ["tuple", { tags: true }],
  ["tuple", { tags: true, pick: "first" }],
  ["keyword", {}],
  ["keyword", { pick: "first", tag: "do" }],
  ["keyword", { maxActions: 4 }],
  ["think", {}],
  ["think", { separator: "|", strict: true, tag: "action" }],
  ["think", { thinking: false, separator: "\n" }],
  ["world-model", {}],
  ["world-model", { thinking: "free", separator: "~~", maxActions: 2 }],
  ["tool-call", {}],
  ["tool-call", { maxActions: 3 }],
];

const identifier = fc.stringMatching(/^[a-z][a-zA-Z0-9_]{0,7}$/);

/** An argument with a generator of payloads that fit it. */
type Arg = { readonly arg: ArgSpec; readonly payload: fc.Arbitrary<Json> };

const intArg: fc.Arbitrary<Arg> = fc
  .tuple(identifier, fc.integer({ min: -400, max: 400 }), fc.nat(30), fc.boolean())
  .map(([name, min, extent, labelled]) => {
    const labels = Array.from({ length: extent + 1 }, (_, index) => `way${index}`);
    const arg: ArgSpec = { type: "int", name, min, max: min + extent, ...(labelled ? { labels } : {}) };
    return { arg, payload: fc.integer({ min, max: min + extent }) };
  });
const realArg: fc.Arbitrary<Arg> = fc
  .tuple(identifier, fc.constantFrom({}, { min: -1, max: 1 }, { min: 0 }, { min: -360, max: 360, whole: true }))
  .map(([name, bounds]: [string, { min?: number; max?: number; whole?: boolean }]) => ({
    arg: { type: "real", name, ...bounds },
    payload: bounds.whole
      ? fc.integer({ min: -360, max: 360 })
      : fc.double({ ...bounds, noNaN: true, noDefaultInfinity: true }).map((x) => x + 0),
  }));
const permutationArg: fc.Arbitrary<Arg> = fc
  .tuple(identifier, fc.integer({ min: 1, max: 9 }), fc.integer({ min: 0, max: 1 }))
  .map(([name, size, start]) => {
    const numbers = Array.from({ length: size }, (_, index) => start + index);
    const payload = fc.shuffledSubarray(numbers, { minLength: size, maxLength: size });
    return { arg: { type: "permutation", name, size, start }, payload };
  });
const leafArg = fc.oneof(intArg, realArg, permutationArg);
function sequenceOf(item: fc.Arbitrary<Arg>): fc.Arbitrary<Arg> {
  return fc
    .tuple(fc.constantFrom("tuple" as const, "list" as const), fc.array(item, { minLength: 1, maxLength: 3 }))
    .map(([type, items]) => ({
      arg: { type, items: items.map(({ arg }) => arg) },
      payload: fc.tuple(...items.map(({ payload }) => payload)),
    }));
}
const anyArg = fc.oneof(leafArg, sequenceOf(leafArg), sequenceOf(sequenceOf(leafArg)));

/** Specs with distinct names, and some actions that fit them. */
const world = fc
  .uniqueArray(identifier, { minLength: 1, maxLength: 5, selector: (name) => name.toLowerCase() })
  .chain((names) =>
    fc.tuple(
      ...names.map((name) =>
        fc.oneof(
          fc.constant({ spec: bare(name, "do it"), payload: fc.constant<Json>(name) }),
          fc.tuple(anyArg, fc.boolean()).chain(([{ arg, payload }, shorthand]) =>
            payload.map((example) => ({
              spec: { name, description: "do it", arg, example, shorthand } as ActionSpec,
              payload,
            })),
          ),
        ),
      ),
    ),
  )
  .chain((entries) => {
    const action = fc
      .constantFrom(...entries)
      .chain(({ spec, payload }) => payload.map((value): Action => ({ name: spec.name, payload: value })));
    const specs: readonly ActionSpec[] = entries.map(({ spec }) => spec);
    return fc.record({ specs: fc.constant(specs), actions: fc.array(action, { minLength: 1, maxLength: 5 }) });
  });

const scraps = fc.constantFrom(
  ...["<think>", "</think>", "<answer>", "</answer>", "<action>", "</action>", "<tool_call>", "</tool_call>"],
  ...["<observation>", "</observation>", "<prediction>", "</prediction>", "<justification>", "</justification>"],
  ...[
    "('move', 0)",
    "(",
    ")",
    "[",
    "]",
    "'",
    '"',
    "\\",
    ",",
    "move",
    "left",
    "1e9",
    '{"name":"move"',
    "}",
    "```",
    "<",
    ">",
  ],
  ...["\u0000", "\ud800", "\udfff", "😀", "İ", "\n", " ", "action:", "◁think▷", "-", "0x", "\u2028"],
);
const scrapText = fc.array(scraps, { maxLength: 40 }).map((pieces) => pieces.join(""));

const maze: readonly ActionSpec[] = [
  {
    name: "move",
    description: "move one cell",
    arg: { type: "int", name: "direction", min: 0, max: 3, labels: ["right", "up", "left", "down"] },
    example: 0,
    shorthand: true,
  },
  bare("stop", "end the episode", 4),
];

describe.each(variants)("%s %j", (name, options) => {
  const protocol = makeProtocol(name, options);

  test("any action that it prints parses back to itself, whatever the sections say", () => {
    const sections = fc.dictionary(fc.constantFrom("think", "observation", "justification", "prediction"), scrapText);
    fc.assert(
      fc.property(world, sections, ({ specs, actions }, said) => {
        const some = actions.slice(0, protocol.maxActions);
        const reply = protocol.print(some, specs, said);
        const parsed = protocol.parse(reply, specs);
        expect(parsed.actions).toStrictEqual(some);
        expect(parsed.wellFormed).toBe(true);
        expect(parsed.problem).toBeUndefined();
        expect(parsed.span).toBeDefined();
        for (const { text, span } of Object.values(parsed.sections)) expect(reply.slice(...span)).toBe(text);
      }),
    );
  });

  test("the instruction is one line when brief, and names every action when full", () => {
    fc.assert(
      fc.property(world, ({ specs }) => {
        expect(protocol.instruction(specs, "brief")).not.toContain("\n");
        const full = protocol.instruction(specs, "full");
        for (const { name: action, shorthand, arg } of specs) {
          const labels = shorthand && arg.type === "int" && arg.labels;
          expect(full).toContain(labels ? labels[0] : action);
        }
      }),
      { numRuns: 20 },
    );
  });

  test("no reply makes it throw, and what it gives is consistent", () => {
    fc.assert(
      fc.property(fc.oneof(scrapText, fc.string({ unit: "binary" })), (reply) => {
        const { actions, problem, span, sections } = protocol.parse(reply, maze);
        expect(actions.length).toBeLessThanOrEqual(protocol.maxActions);
        if (actions.length === 0) expect(problem).toMatch(/\S/);
        else expect(span).toBeDefined();
        if (span !== undefined) expect(0 <= span[0] && span[0] <= span[1] && span[1] <= reply.length).toBe(true);
        for (const { text, span } of Object.values(sections)) expect(reply.slice(...span)).toBe(text);
      }),
      { numRuns: 300 },
    );
  });

  test.each(
    [
      "(",
      "('",
      "('a',",
      "('a',(",
      "(a,",
      "[",
      "'",
      "\\",
      "-",
      "1",
      "<think>",
      "<action>",
      "</answer>",
      "\u0000",
      "\ud800",
    ]
      .concat([
        "<tool_call>{",
        "<observation></observation><think></think>",
        "<answer>a,</answer>",
        "`",
        "action ",
        "\n",
      ])
      .concat(["('move', [1,", "('''", "('a' 'b' "]),
  )("100 kB of %j are answered", (unit) => {
    const parsed = protocol.parse(unit.repeat(Math.ceil(100_000 / unit.length)), maze);
    expect(parsed.actions).toEqual([]);
    expect(parsed.problem).toMatch(/\S/);
  });

  test("printing what the world does not know, or more than a reply holds, is an error of the caller", () => {
    expect(() => protocol.print([{ name: "fly", payload: 0 }], maze)).toThrow(EnvError);
    expect(() => protocol.print([{ name: "move", payload: 9 }], maze)).toThrow(EnvError);
    const many = Array.from({ length: protocol.maxActions + 1 }, () => ({ name: "move", payload: 0 }));
    expect(() => protocol.print(many, maze)).toThrow(EnvError);
  });

  test("an author's example that does not fit never makes a reply throw", () => {
    const specs = maze.map((spec) => ({ ...spec, example: null }));
    const nested: ActionSpec = {
      name: "go",
      description: "go",
      arg: { type: "tuple", items: [maze[0]!.arg] },
      example: 3,
    };
    for (const reply of ["", "<action>go</action>", "('go', 1)", '<tool_call>{"name":"go"}</tool_call>']) {
      expect(protocol.parse(reply, [nested, ...specs]).actions).toEqual([]);
    }
  });
});

test("tuples carry any word for an action without argument, and print it as it is", () => {
  const protocol = makeProtocol("tuple");
  fc.assert(
    fc.property(fc.stringMatching(/^[A-Za-z0-9]{1,4}$/), (payload) => {
      const action = { name: "stop", payload };
      expect(protocol.parse(protocol.print([action], maze), maze).actions).toEqual([action]);
    }),
  );
});

describe("makeProtocol", () => {
  test("makes every protocol from its defaults, under its own name", () => {
    for (const name of protocolNames) expect(makeProtocol(name).name).toBe(name);
    expect(Object.keys(protocolOptions)).toEqual([...protocolNames]);
  });

  test.each([
    ["thnik", {}, 'Did you mean "think"?'],
    ["constructor", {}, "The protocols are tuple, keyword, think, world-model, tool-call."],
    ["think", { maxAction: 2 }, "Its options are thinking, strict, separator, maxActions, bonus, tag."],
    ["think", { maxActions: 0 }, "maxActions"],
    ["think", { tag: "think" }, "tag"],
    ["world-model", { tag: "prediction" }, "tag"],
    ["keyword", { tag: "a b" }, "tag"],
    ["think", { separator: " " }, "separator"],
    ["think", { separator: "a" }, "separator"],
    ["tuple", { pick: "best" }, "pick"],
  ])("refuses %s %j and names the fix", (name, options, message) => {
    expect(() => makeProtocol(name, options)).toThrow(ConfigError);
    expect(() => makeProtocol(name, options)).toThrow(message);
  });
});
