import { describe, expect, test } from "vitest";
import { type ActionSpec, type ArgSpec, act, bare } from "../action.ts";
import { makeProtocol } from "./index.ts";

const direction: ArgSpec = { type: "int", name: "direction", min: 0, max: 3, labels: ["right", "up", "left", "down"] };
const cell: ArgSpec = {
  type: "tuple",
  items: ["row", "column"].map((name) => ({ type: "int", name, min: 0, max: 2 })),
};
const specs: readonly ActionSpec[] = [
  { name: "move", description: "move", arg: direction, example: 0, shorthand: true },
  {
    name: "swap",
    description: "swap",
    arg: { type: "tuple", items: [cell, cell] },
    example: [
      [0, 0],
      [0, 1],
    ],
  },
  {
    name: "order",
    description: "order",
    arg: { type: "permutation", name: "order", size: 3, start: 0 },
    example: [0, 1, 2],
  },
  { name: "mark", description: "mark", arg: { type: "real", name: "x" }, example: 0.5 },
  bare("stop", "end", 4),
];
const protocol = makeProtocol("tool-call");
const call = (json: string) => `<tool_call>${json}</tool_call>`;
const swapped = act("swap", [
  [0, 1],
  [2, 0],
]);

test.each([
  ['{"name":"move","arguments":{"direction":"right"}}', act("move", 0)],
  ['\n{"name": "move", "arguments": {"direction": 1}}\n', act("move", 1)],
  ['{"name":"move","arguments":"{\\"direction\\": \\"left\\"}"}', act("move", 2)],
  ['{"type":"function","function":{"name":"move","arguments":{"direction":"down"}}}', act("move", 3)],
  ['{"function":{"name":"move","arguments":"[3]"}}', act("move", 3)],
  ['{"name":"move","arguments":[2]}', act("move", 2)],
  ['{"name":"move","arguments":"left"}', act("move", 2)],
  ['{"name":"left"}', act("move", 2)],
  ['{"name":"swap","arguments":{"row":0,"column":1,"row_2":2,"column_2":0}}', swapped],
  ['{"name":"swap","arguments":[0,1,2,0]}', swapped],
  ['{"name":"swap","arguments":[[0,1],[2,0]]}', swapped],
  ['{"name":"order","arguments":{"order":[2,0,1]}}', act("order", [2, 0, 1])],
  ['{"name":"order","arguments":[2,0,1]}', act("order", [2, 0, 1])],
  ['{"name":"mark","arguments":{"x":-1e-3}}', act("mark", -0.001)],
  ['{"name":"mark","arguments":{"x":"0.5"}}', act("mark", 0.5)],
  ['{"name":"stop"}', act("stop")],
  ['{"name":"stop","arguments":{}}', act("stop")],
  ['{"name":"stop","arguments":null}', act("stop")],
  ['{"name":"Stop","arguments":""}', act("stop")],
])("reads %s", (json, action) => {
  expect(protocol.parse(call(json), specs)).toMatchObject({ actions: [action], wellFormed: true });
});

test.each([
  ["move right", "not a JSON object"],
  ["[1]", "not a JSON object"],
  ['{"arguments":{}}', 'no "name"'],
  ['{"name":1}', 'no "name"'],
  [
    '{"name":"moove","arguments":{"direction":1}}',
    "did you mean 'move'? The actions are move, swap, order, mark, stop.",
  ],
  ['{"name":"move"}', "direction: 0 (right)"],
  ['{"name":"move","arguments":{}}', "direction: 0 (right)"],
  ['{"name":"move","arguments":{"dir":1}}', "direction: 0 (right)"],
  ['{"name":"move","arguments":{"direction":1,"speed":2}}', "direction: 0 (right)"],
  ['{"name":"move","arguments":{"direction":4}}', "direction: 0 (right)"],
  ['{"name":"move","arguments":{"direction":{}}}', "direction: 0 (right)"],
  ['{"name":"move","arguments":{"__proto__":1}}', "direction: 0 (right)"],
  ['{"name":"mark","arguments":{"x":1e999}}', "x: any number"],
  ['{"name":"stop","arguments":{"why":"done"}}', "no arguments"],
  [`{"name":"swap","arguments":${"[".repeat(50_000)}${"]".repeat(50_000)}}`, "row: a whole number"],
])("does not read %s and says why", (json, problem) => {
  const parsed = protocol.parse(call(json), specs);
  expect(parsed).toMatchObject({ actions: [], wellFormed: false });
  expect(parsed.problem).toContain(problem);
});

test.each(["```json\n%\n```", "```\n%```", "``` % ```"])("a code fence inside the tag is taken off: %j", (fence) => {
  const json = '{"name":"move","arguments":{"direction":1}}';
  const parsed = protocol.parse(call(fence.replace("%", json)), specs);
  expect(parsed).toMatchObject({ actions: [act("move", 1)], wellFormed: true });
  expect(protocol.parse(`\`\`\`json\n${call(json)}\n\`\`\``, specs).actions).toEqual([act("move", 1)]);
});

test("a fence around nothing but white space is read at once", () => {
  const blank = call(`\`\`\`json${"\n".repeat(200_000)}{`);
  expect(protocol.parse(blank, specs)).toMatchObject({ actions: [] });
  expect(protocol.parse(call(`\`\`\`${" \n".repeat(200_000)}\`\`\``), specs)).toMatchObject({ actions: [] });
});

test("a call without its tag is not read, fenced or not", () => {
  const json = '```json\n{"name":"move","arguments":{"direction":1}}\n```';
  expect(protocol.parse(json, specs)).toMatchObject({ actions: [], wellFormed: false });
});

describe("several calls", () => {
  const calls = ["left", "up", "down"].map((name) => call(`{"name":"${name}"}`)).join("\n");

  test("the last counts when a reply holds one action", () => {
    const { actions, span } = protocol.parse(`${calls} done`, specs);
    expect(actions).toEqual([act("move", 3)]);
    expect(calls.slice(...span!)).toBe('{"name":"down"}');
  });

  test("all count in order up to the limit", () => {
    const two = makeProtocol("tool-call", { maxActions: 2 }).parse(calls, specs);
    expect(two.actions).toEqual([act("move", 2), act("move", 1)]);
    expect(two.problem).toContain("at most 2");
  });
});

test("a reply without a call is told the form and the names", () => {
  expect(protocol.parse("left", specs).problem).toBe(
    'No action was found in the reply. Write it as <tool_call>{"name":"move","arguments":{"direction":"right"}}</tool_call>. ' +
      "The actions are move, swap, order, mark, stop.",
  );
});
