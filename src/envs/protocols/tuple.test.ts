import { describe, expect, test } from "vitest";
import { type ActionSpec, act, bare } from "../action.ts";
import { makeProtocol } from "./index.ts";

const specs: readonly ActionSpec[] = [
  { name: "move", description: "move one cell", arg: { type: "int", name: "direction", min: 0, max: 3 }, example: 0 },
  {
    name: "mark",
    description: "mark a point",
    arg: {
      type: "tuple",
      items: [
        { type: "real", name: "x", min: -1, max: 1 },
        { type: "real", name: "y", min: -1, max: 1 },
      ],
    },
    example: [0.5, 0.5],
  },
  bare("stop", "end the episode", 4),
];

const move0 = act("move", 0);
const move1 = act("move", 1);

/** Replies and what the two readers make of them: [reply, last, first]. A string is part of the problem. */
const replies = [
  ["('move', 0)", move0, move0],
  ['("move", 0)', move0, move0],
  ["(move, 0)", move0, move0],
  ["( move , 0 )", move0, move0],
  ["('move', 0,)", move0, move0],
  ["('move', +0)", move0, move0],
  ["('move', True)", move1, move1],
  ["('move',\n  0)", move0, move0],
  ["('mark', (0.5, 0.5))", act("mark", [0.5, 0.5]), act("mark", [0.5, 0.5])],
  ["('mark', [5e-1, -1])", act("mark", [0.5, -1]), act("mark", [0.5, -1])],
  ["(mark, (.5, 1E-1,))", act("mark", [0.5, 0.1]), act("mark", [0.5, 0.1])],
  ["('stop', 'stop')", act("stop"), act("stop")],
  ["('stop', 'x')", act("stop", "x"), act("stop", "x")],
  // What models put around it.
  ["```python\n('move', 0)\n```", move0, move0],
  ["`('move', 0)`", move0, move0],
  ["(`move`, 0)", move0, move0],
  ["<|begin_of_box|>('move', 0)<|end_of_box|>", move0, move0],
  ["◁think▷hm (right?)◁/think▷('move', 0)", move0, move0],
  ["Action: ('move', 0).", move0, move0],
  ["(action: move, 0)", move0, move0],
  ["((('move', 0)))", move0, move0],
  ["I go up (see the wall), so ('move', 1) (I think)", move1, move1],
  ["a ( that never closes ('move', 0)", move0, move0],
  // Which one counts.
  ["('move', 0) or ('move', 1)", move1, move0],
  ["(left, 3) then ('move', 1)", move1, move1],
  ["('move', 1) then (note, 3)", "no action 'note'", move1],
  ["('stop',) then ('move', 1)", move1, move1],
  ["('move', 1) then ('stop',)", "but this one has 1", move1],
  ["<answer>('move', 0)</answer> and not ('move', 1)", move0, move0],
  ["('move', 1) <action>('move', 1)</action> <action>('move', 0)</action>", move0, move0],
  // What was said last is what was meant: nothing before it is played in its place.
  ["('move', 0) <action>right</action>", "No action was found", "No action was found"],
  ["('move', 0), no: <answer>('move', )</answer>", "but this one has 1", "but this one has 1"],
  ["('move', 0) or rather ('move', --1)", "no tuple that can be read", move0],
  ["('move', 0), then ('move', 1", "no tuple that can be read", move0],
  ["('move', 0), then ('move', north)", "no tuple that can be read", move0],
  ["('move', 0), then (move, north)", "no tuple that can be read", move0],
  ["('move', 0), then ('stop')", "no tuple that can be read", move0],
  ["('move', 0) ('mark', (0.5, x))", "no tuple that can be read", move0],
  ["('move', 0) or ('move', 99999999999999999999)", "direction must be a whole number from 0 to 3", move0],
  ["('move', 0) (left, I think)", move0, move0],
  // What can't be played.
  ["", "No action was found", "No action was found"],
  ["go right", "No action was found", "No action was found"],
  ["move, 0", "No action was found", "No action was found"],
  ["['move', 0]", "No action was found", "No action was found"],
  ["(0, 'move')", "No action was found", "No action was found"],
  ["('move', 0", "no tuple that can be read", "No action was found"],
  ["(stop, stop)", "no tuple that can be read", "No action was found"],
  ["('stop',)", "but this one has 1", "but this one has 1"],
  ["('move', 0, 1)", "but this one has 3", "but this one has 3"],
  ["('mvoe', 0)", "did you mean 'move'? The actions are move, mark, stop.", "did you mean 'move'?"],
  ["('<image>', 0)", "There is no such action.", "There is no such action."],
  ["('Move', 0)", "did you mean 'move'?", "did you mean 'move'?"],
  ["('move', 4)", "direction must be a whole number from 0 to 3", "direction must be a whole number"],
  ["('move', 1.0)", "direction must be a whole number from 0 to 3", "direction must be a whole number"],
  ["('move', --1)", "no tuple that can be read", "No action was found"],
  ["('move', 99999999999999999999)", "direction must be a whole number", "direction must be a whole number"],
  ["('mark', 0.5)", "must hold 2 values, (x, y)", "must hold 2 values, (x, y)"],
  ["('mark', (0.5, 1e9))", "y must be a number from -1 to 1", "y must be a number from -1 to 1"],
  ["('stop', 'stop!')", "a word of at most 4 letters", "a word of at most 4 letters"],
] as const;

describe.each(["last", "first"] as const)("the reader that takes the %s tuple", (pick) => {
  const protocol = makeProtocol("tuple", { pick });
  test.each(replies.map(([reply, last, first]) => [reply, pick === "last" ? last : first] as const))(
    "reads %j",
    (reply, expected) => {
      const parsed = protocol.parse(reply, specs);
      if (typeof expected === "string") {
        expect(parsed.actions).toEqual([]);
        expect(parsed.problem).toContain(expected);
        expect(parsed.wellFormed).toBe(false);
      } else {
        expect(parsed.actions).toEqual([expected]);
        expect(parsed.problem).toBeUndefined();
        expect(parsed.wellFormed).toBe(true);
      }
    },
  );
});

test("a whole reply that is a tuple without brackets is read as VisGym's step reads it", () => {
  expect(makeProtocol("tuple").parse("'move', 0", specs).actions).toEqual([move0]);
  expect(makeProtocol("tuple", { pick: "first" }).parse("'move', 0", specs).actions).toEqual([]);
});

test("the span is where the tuple stands in the reply as it was written", () => {
  const reply = "```\nAction: I say\t(`move`, 0)\n```";
  const { span } = makeProtocol("tuple").parse(reply, specs);
  expect(reply.slice(...span!)).toBe("(`move`, 0)");
});

describe("with tags", () => {
  const protocol = makeProtocol("tuple", { tags: true });
  const full = "<observation>a maze</observation><justification>free</justification><action>('move', 0)</action>";

  test("pays 0.8 task and 0.2 format; without tags the task alone", () => {
    expect(protocol.formatReward).toEqual({ kind: "mixture", task: 0.8, format: 0.2 });
    expect(makeProtocol("tuple").formatReward).toEqual({ kind: "none" });
  });

  test.each([
    [full, true],
    [full.replace("('move', 0)", "go right"), true],
    [full.replace("a maze", " \n"), false],
    [full.replace("<justification>free</justification>", ""), false],
    ["('move', 0)", false],
  ])("%j: all three tags filled is %s, whatever the action", (reply, wellFormed) => {
    expect(protocol.parse(reply, specs).wellFormed).toBe(wellFormed);
  });

  test("reads a bare tuple too, and hands over the sections", () => {
    expect(protocol.parse("('move', 0)", specs).actions).toEqual([move0]);
    const { sections } = protocol.parse(full, specs);
    expect(sections).toMatchObject({
      observation: { text: "a maze" },
      justification: { text: "free" },
      action: { text: "('move', 0)" },
    });
  });
});
