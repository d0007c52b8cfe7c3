import { describe, expect, test } from "vitest";
import type { Action } from "../action.ts";
import { Grid, KEYS, PAGE_ACTIONS, pageActions } from "../pages/actions.ts";
import { makeProtocol } from "./index.ts";

const specs = pageActions(new Grid({ width: 320, height: 256 }, 1000), PAGE_ACTIONS, ["hello"]);
const protocol = makeProtocol("tool-call", { form: "computer_use" });
const call = (args: unknown) =>
  `<tool_call>\n${JSON.stringify({ name: "computer_use", arguments: args })}\n</tool_call>`;

describe("tool-call in the form of computer_use", () => {
  test("every action of a page is read back from what is printed", () => {
    const actions: Action[] = [
      { name: "click", payload: [0, 999] },
      { name: "double_click", payload: [5, 6] },
      { name: "drag", payload: [1, 2, 3, 4] },
      { name: "scroll", payload: [500, 500, 0] },
      { name: "scroll", payload: [500, 500, 1] },
      { name: "type", payload: 'say "hi", all' },
      ...KEYS.map((_, key) => ({ name: "key", payload: key })),
      { name: "wait", payload: "wait" },
      { name: "stop", payload: "stop" },
    ];
    for (const action of actions) {
      expect(protocol.parse(protocol.print([action], specs), specs).actions).toEqual([action]);
    }
  });

  test("the system message has one tool, with the resolution of the scale", () => {
    const system = protocol.system?.(specs) ?? "";
    expect(system).toContain('"name": "computer_use"');
    expect(system).toContain("1000x1000");
    expect(system.match(/"type": "function"/g)).toHaveLength(1);
  });

  test.each([
    [
      { action: "left_click", coordinate: [1000, -3] },
      { name: "click", payload: [999, 0] },
    ],
    [
      { action: "left_click", coordinate: [12.7, 40] },
      { name: "click", payload: [12, 40] },
    ],
    [
      { type: "click", x: 30, y: 40, button: "left" },
      { name: "click", payload: [30, 40] },
    ],
    [
      { type: "keypress", keys: ["CTRL", "A"] },
      { name: "key", payload: KEYS.indexOf("select_all") },
    ],
    [
      { type: "scroll", x: 1, y: 2, scroll_x: 0, scroll_y: 300 },
      { name: "scroll", payload: [1, 2, 1] },
    ],
    [
      {
        type: "drag",
        path: [
          { x: 1, y: 2 },
          { x: 3, y: 4 },
        ],
      },
      { name: "drag", payload: [1, 2, 3, 4] },
    ],
    [
      { action: "answer", text: "42" },
      { name: "stop", payload: "stop" },
    ],
  ])("%j is read", (args, action) => {
    expect(protocol.parse(call(args), specs).actions).toEqual([action]);
  });

  test.each([
    [{}],
    [{ action: "left_click" }],
    [{ action: "left_click", coordinate: ["a", 1] }],
    [{ action: "fly" }],
    [{ action: "key", keys: ["q"] }],
    [7],
  ])("%j is a problem in words, never an error", (args) => {
    const { actions, problem } = protocol.parse(call(args), specs);
    expect(actions).toEqual([]);
    expect(problem).toMatch(/\w+/);
  });
});
