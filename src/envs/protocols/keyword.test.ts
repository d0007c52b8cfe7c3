import { describe, expect, test } from "vitest";
import { type ActionSpec, type ArgSpec, act, bare } from "../action.ts";
import { makeProtocol } from "./index.ts";

const direction: ArgSpec = { type: "int", name: "direction", min: 0, max: 3, labels: ["right", "up", "left", "down"] };
const int = (name: string, max: number): ArgSpec => ({ type: "int", name, min: 0, max });
const real = (name: string): ArgSpec => ({ type: "real", name });
const maze: readonly ActionSpec[] = [
  { name: "move", description: "move one cell", arg: direction, example: 0, shorthand: true },
  bare("stop", "end the episode", 4),
];
const specs: readonly ActionSpec[] = [
  {
    name: "slide",
    description: "slide",
    arg: { type: "tuple", items: [int("block", 10), direction] },
    example: [7, 0],
  },
  {
    name: "shift",
    description: "shift",
    arg: { type: "list", items: ["dx", "dy", "turn"].map(real) },
    example: [1, 0, 0],
  },
  {
    name: "place",
    description: "place",
    arg: { type: "tuple", items: [int("patch", 4), int("row", 5), int("column", 5)] },
    example: [0, 2, 3],
  },
  {
    name: "order",
    description: "order",
    arg: { type: "permutation", name: "order", size: 4, start: 0 },
    example: [0, 1, 2, 3],
  },
  ...maze,
];
const keyword = makeProtocol("keyword");

describe("SkyRL's maze words", () => {
  test.each([
    ["<action>right</action>", act("move", 0)],
    ["<action>up</action>", act("move", 1)],
    ["<ACTION> Left </action>", act("move", 2)],
    ["<action>DOWN</action>", act("move", 3)],
    ["<action>stop</action>", act("stop")],
    ["First <action>left</action>, no: <action>down</action>", act("move", 3)],
    ["<action>left</action> then <action></action>", act("move", 2)],
    ["write <action> and <action>left</action>", act("move", 2)],
  ])("%j is read", (reply, action) => {
    const parsed = keyword.parse(reply, maze);
    expect(parsed).toMatchObject({ actions: [action], wellFormed: true });
    expect(parsed.problem).toBeUndefined();
  });

  test("the span is the command inside the tag that counts", () => {
    const reply = "<action>left</action> <action> down </action>";
    expect(reply.slice(...keyword.parse(reply, maze).span!)).toBe("down");
    const first = makeProtocol("keyword", { pick: "first" }).parse(reply, maze);
    expect(reply.slice(...first.span!)).toBe("left");
    expect(first.actions).toEqual([act("move", 2)]);
  });
});

describe("the command grammar", () => {
  test.each([
    ["slide 7 right", act("slide", [7, 0])],
    ["slide 7 0", act("slide", [7, 0])],
    ["Slide (7, RIGHT)", act("slide", [7, 0])],
    ["('slide', (7, 0))", act("slide", [7, 0])],
    ["place 0 2 3", act("place", [0, 2, 3])],
    ["place 0, 2,3", act("place", [0, 2, 3])],
    ["shift -3.5 4 90", act("shift", [-3.5, 4, 90])],
    ["shift +1e-3 .5 -0", act("shift", [0.001, 0.5, 0])],
    ["order 2 0 1 3", act("order", [2, 0, 1, 3])],
    ["order [2, 0, 1, 3]", act("order", [2, 0, 1, 3])],
    ["move left", act("move", 2)],
    ["move 2", act("move", 2)],
    ["stop", act("stop")],
    ["stop stop", act("stop")],
  ])("reads %j", (command, action) => {
    expect(keyword.parse(`<action>${command}</action>`, specs).actions).toEqual([action]);
  });

  test.each([
    ["slide 7", "'slide' takes 2 values"],
    ["slide 7 right now", "'slide' takes 2 values"],
    ["slide right 7", "block must be a whole number from 0 to 10"],
    ["slide 7.0 right", "block must be a whole number from 0 to 10"],
    ["slide 7 north", "direction must be 0 (right), 1 (up), 2 (left) or 3 (down)"],
    ["shift nan 0 0", "dx must be any number"],
    ["shift 1e999 0 0", "dx must be any number"],
    ["order 2 0 1 1", "each once"],
    ["stop left", "'stop' takes no argument"],
    ["left right", "There is no action 'left'"],
    ["lefft", "did you mean 'left'?"],
    ["<|im_end|>", "There is no such action."],
    ["()", "The action is empty."],
  ])("does not read %j and says why", (command, problem) => {
    const parsed = keyword.parse(`<action>${command}</action>`, specs);
    expect(parsed).toMatchObject({ actions: [], wellFormed: false });
    expect(parsed.problem).toContain(problem);
  });

  test("a name goes before a label of the same word, in reading and in printing", () => {
    const both = [...maze, bare("left", "turn left")];
    expect(keyword.parse("<action>left</action>", both).actions).toEqual([act("left")]);
    expect(keyword.print([act("move", 2)], both)).toBe("<action>move left</action>");
  });
});

describe("options", () => {
  test("without a tag nothing is read, unless lenient and the reply is the command alone", () => {
    const lenient = makeProtocol("keyword", { lenient: true });
    expect(keyword.parse("left", maze)).toMatchObject({ actions: [], wellFormed: false });
    expect(keyword.parse("left", maze).problem).toContain(
      "<action>…</action>. The actions are right, up, left, down, stop.",
    );
    expect(lenient.parse(" left\n", maze)).toMatchObject({
      actions: [act("move", 2)],
      wellFormed: false,
      span: [1, 5],
    });
    expect(lenient.parse("I go left", maze).actions).toEqual([]);
    expect(lenient.parse("left <action>up</action>", maze).actions).toEqual([act("move", 1)]);
  });

  test("the tag can have another name", () => {
    const move = makeProtocol("keyword", { tag: "move" });
    expect(move.parse("<move>left</move><action>up</action>", maze).actions).toEqual([act("move", 2)]);
  });

  test("with several actions allowed every tag counts, in order, up to the limit and the first that can't be read", () => {
    const three = makeProtocol("keyword", { maxActions: 3 });
    const tags = (...words: string[]) => words.map((word) => `<action>${word}</action>`).join(" ");
    const played = (reply: string) => three.parse(reply, maze).actions.map(({ payload }) => payload);
    expect(played(tags("right", "up"))).toEqual([0, 1]);
    expect(played(tags("right", "up", "left", "down"))).toEqual([0, 1, 2]);
    expect(three.parse(tags("right", "up", "left", "down"), maze).problem).toContain("at most 3");
    expect(played(tags("right", "hop", "left"))).toEqual([0]);
    expect(three.parse(tags("right", "hop", "left"), maze).wellFormed).toBe(false);
  });

  test("the brief instruction of a world of words is one line that lists them", () => {
    expect(keyword.instruction(maze, "brief")).toBe("Answer <action>X</action>, X one of right up left down stop.");
  });
});
