import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { type Placed, readClaims } from "./reader.ts";
import { matchClaims } from "./score.ts";
import { describePlaces } from "./speak.ts";
import { drawThings, GARDENER, NEIGHBOUR, SETS } from "./test-descriptions.ts";

const THINGS = { goal: ["flag", "exit"], hole: ["pit"], box: ["crate"] };

const short = ({ kind, vertical, horizontal }: Placed) => `${kind} ${vertical ?? "-"}/${horizontal ?? "-"}`;
const read = (text: string) => readClaims(text, THINGS).map(short);

describe("the reader of claims", () => {
  test.each([
    // Order.
    ["The box is above and to the left of me.", "box above/left"],
    ["Above me and to the left is the crate.", "box above/left"],
    ["to the left is a hole, to the right is the goal", "hole -/left, goal -/right"],
    ["left of me is a hole and right of me is the goal", "hole -/left, goal -/right"],
    ["Below me, slightly right, the box.", "box below/right"],
    // Seen from the other side.
    ["I am below and to the right of the box.", "box above/left"],
    ["I stand left of the flag, one row below it.", "goal above/right"],
    ["The player is above the box and left of the goal.", "box below/-, goal -/right"],
    // Other words.
    ["To the north-east you find the flag.", "goal above/right"],
    ["The flag is two rows up and one column to the left.", "goal above/left"],
    ["The exit lies in my column, further down.", "goal below/same column"],
    ["Northwest: goal. East: pit.", "goal above/left, hole -/right"],
    [
      "A pit is right below me; the goal is level with me on the right side.",
      "hole below/same column, goal same row/right",
    ],
    ["I am on the goal.", "goal same row/same column"],
    // Several.
    ["There are two holes, one above me and one to the left.", "hole above/-, hole -/left"],
    ["Holes: above-left, below, and right of me.", "hole above/left, hole below/-, hole -/right"],
    ["Both holes are above me.", "hole above/-, hole above/-"],
    ["The goal is above me. The goal is to my left.", "goal above/left"],
    // Negations.
    ["The box is not above me but below. It is to my right.", "box below/right"],
    ["The goal is neither left nor right of me, and it is above.", "goal above/same column"],
    ["No hole is above me.", ""],
    ["The goal is not above me.", ""],
    ["The goal is not far above me.", "goal above/-"],
    ["There isn't a hole above me, but one is below me.", "hole below/-"],
    ["Far from being on my left, the goal is on my right.", "goal -/right"],
    ["The goal is to the upper left of me, not directly above me.", "goal above/left"],
    // Rows and columns that are shared, however it is said.
    ["I share a column with the goal, which is above me.", "goal above/same column"],
    ["The goal's row is the same as mine and it is to the left.", "goal same row/left"],
    ["The flag is upward from me, with no horizontal offset.", "goal above/same column"],
    ["The goal is in a different column, to the right, but in the same row.", "goal same row/right"],
    ["The goal is in the row directly above mine.", "goal above/-"],
    ["The goal is exactly where I am.", "goal same row/same column"],
    // Lists, and places seen from a thing.
    ["The goal and a hole are above me.", "goal above/-, hole above/-"],
    ["Above me are a hole and the goal.", "hole above/-, goal above/-"],
    ["The goal has me on its left.", "goal -/right"],
    ["The agent has the goal to its right.", "goal -/right"],
    ["Relative to the goal I am above and to the left.", "goal below/right"],
    ["The goal is above me; also to the left.", "goal above/left"],
    // What is no claim about a thing and the player.
    ["I move left. I push the box up. After moving up, the goal will be left of me.", "goal -/left"],
    ["The goal is in the top left corner of the board.", ""],
    ["The box is below and to the right of the goal.", ""],
    ["The goal is above and below and left and right of me.", ""],
    ["goal goal goal", ""],
  ])("%s", (text, expected) => {
    expect(read(text).join(", ")).toBe(expected);
  });

  test("says where each claim stands", () => {
    const text = "Well: the goal is above me, and a hole lies to my left.";
    expect(readClaims(text, THINGS).map(({ span }) => text.slice(...span))).toEqual([
      "goal is above me",
      "hole lies to my left",
    ]);
  });

  test("reads back whatever the oracle says, in both styles", () => {
    const random = new NumpyRandom(3);
    for (let i = 0; i < 3000; i++) {
      const things = drawThings(random);
      const text = describePlaces(things, random, i % 2 === 0 ? "full" : "brief", i % 3 === 0 ? "next" : "now");
      expect(read(text).sort(), text).toEqual(things.map(short).sort());
    }
  });

  test("never throws, whatever the text", () => {
    const words = "goal hole it one not no neither above left of me I , . - both same row its 's on is".split(" ");
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.constantFrom(...words), fc.string()), { maxLength: 60 }), (parts) => {
        for (const { span } of readClaims(parts.join(" "), THINGS)) expect(span[1]).toBeGreaterThan(span[0]);
      }),
      { numRuns: 2000 },
    );
  });
});

test.each(SETS)(
  "of 2,000 descriptions of another hand ($name) at least 95 in a hundred are read exactly as they were meant",
  ({ say }) => {
    const random = new NumpyRandom(11);
    let right = 0;
    const misread: string[] = [];
    for (let i = 0; i < 2000; i++) {
      const said = drawThings(random).map((thing, k) => say(thing, random, k));
      const text = said.map((one) => one.text).join(" ");
      const expected = said.flatMap((one) => one.claims.map(short)).sort();
      if (read(text).sort().join() === expected.join()) right += 1;
      else misread.push(`${text}\n    meant ${expected.join(", ")}\n    read  ${read(text).sort().join(", ")}`);
    }
    expect(right / 2000, misread.slice(0, 12).join("\n")).toBeGreaterThanOrEqual(0.95);
  },
);

test.each([NEIGHBOUR, GARDENER])(
  "of 2,000 descriptions of a hand that never helped to mend the reader ($name), 95 in a hundred things said are read as they were meant",
  ({ name, say }) => {
    const random = new NumpyRandom(12);
    let [exact, agreement] = [0, 0];
    const misread: string[] = [];
    for (let i = 0; i < 2000; i++) {
      const said = drawThings(random).map((thing, k) => say(thing, random, k));
      const text = said.map((one) => one.text).join(" ");
      const meant = said.flatMap((one) => one.claims);
      const claims = readClaims(text, THINGS);
      const same = claims.map(short).sort().join() === meant.map(short).sort().join();
      exact += Number(same);
      // What a claim leaves out is no fault: each is compared with what was meant, axis by axis.
      agreement += same ? 1 : matchClaims(claims, meant, { goal: 1, hole: 1 }).f1;
      if (!same)
        misread.push(`${text}\n    meant ${meant.map(short).join(", ")}\n    read  ${claims.map(short).join(", ")}`);
    }
    console.log(`${name}: ${exact / 2000} read exactly, agreement ${agreement / 2000}`);
    expect(agreement / 2000, misread.slice(0, 12).join("\n")).toBeGreaterThanOrEqual(0.95);
  },
);
