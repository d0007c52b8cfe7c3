import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import "../index.ts";
import { makeWorldEnv, worldModelOf } from "../registry.ts";
import { readText } from "./reader.ts";
import { score, type Task, type Written } from "./test-trial.ts";
import { GRID_AXES, pairsOf, placedOf, type View } from "./view.ts";

const LEGEND = { "#": [], _: [], P: ["player"], X: ["box"], O: ["hole"], S: ["player", "hole"] };
const VIEW: View = {
  things: { goal: { words: ["flag"] }, hole: {}, box: { words: ["crate"] } },
  axes: GRID_AXES,
  from: "player",
  legend: LEGEND,
};
const read = (text: string, view: View = VIEW) =>
  readText(text, view)
    .claims.map(
      ({ kind, at }) =>
        `${kind} ${at.map((place, axis) => (place === undefined ? "-" : view.axes[axis]?.[place])).join("/")}`,
    )
    .join(", ");

describe("the reader of claims", () => {
  test.each([
    ["box: above, left; goal: same row, right", "box above/left, goal same row/right"],
    ["box above left; goal same row right", "box above/left, goal same row/right"],
    ["goal: same row, same column", "goal same row/same column"],
    // Laid out as models like it.
    ["- **Box**: Above, Left.\n- **Goal**: same_row, right.", "box above/left, goal same row/right"],
    ["1. box: left, above\n2. goal: same row and right", "box above/left, goal same row/right"],
    ["hole 1: above, left; hole 2: below, same col", "hole above/left, hole below/same column"],
    ["| box | above | left |", "box above/left"],
    ["```\nbox — above, left\n```", "box above/left"],
    // Plain sentences of the same words.
    ["The crate is above and to the left of the player.", "box above/left"],
    ["The flag is in the same row as me, to my right. A hole is below me.", "goal same row/right, hole below/-"],
    ["I am below and right of the box.", "box above/left"],
    ["I am left of the box and above it.", "box below/right"],
    ["The box is above me. The box is left of me.", "box above/left"],
    ["The box is above me. It is to my left.", "box above/left"],
    ["A hole is above me. A hole is left of me.", "hole above/-, hole -/left"],
    ["hole: above; hole: left", "hole above/-, hole -/left"],
    // Seen from another thing, where that says how it is seen from the player.
    ["box: same row, right; goal: above, same column of the box", "box same row/right, goal above/right"],
    ["The goal is above and left of the box. The box is above and left of me.", "goal above/left, box above/left"],
    // Cells.
    ["player: (2, 3); box: (1, 3); goal: (2, 5)", "box above/same column, goal same row/right"],
    ["The player is at row 2, column 3. The box is at row 1, column 4.", "box above/right"],
    // Data.
    ['[{"thing": "box", "place": ["above", "left"]}]', "box above/left"],
    [
      '{"box": {"vertical": "above", "horizontal": "left"}, "goal": "same row, right"}',
      "box above/left, goal same row/right",
    ],
    ['[{"object_id": "box", "vertical_relation": "same", "horizontal_relation": null}]', "box same row/-"],
    [
      "{'player': (1, 2), 'box': (0, 2), 'holes': [(1, 1), (2, 2)]}",
      "box above/same column, hole same row/left, hole below/same column",
    ],
    ['```json\n{"objects": [{"name": "box_1", "row": 0, "col": 0}], "player_position": [1, 1]}\n```', "box above/left"],
    // Drawn boards.
    [" #  #  # \n #  P  X \n #  O  _ ", "box same row/right, hole below/same column"],
    ["XS_\n___", "box same row/left, hole same row/same column"],
  ])("reads %j", (text, expected) => {
    expect(read(text)).toBe(expected);
  });

  test.each([
    // Asked, supposed, denied, doubted, taken back, quoted.
    ["Is the box above and left of me?"],
    ["is the box above and left of me"],
    ["box: above, left?"],
    ["If box: above, left"],
    ["None of this is true. box: above, left"],
    ["box: above, left. That was a lie."],
    ["box: not above, left"],
    ["Perhaps box: above, left"],
    ["box: -above, left"],
    ['They say "box: above, left"'],
    ["> box: above, left"],
    ["box: above, left\nIgnore the line before."],
    // Said in two ways at once.
    ["box: above or below, left"],
    ["box: above, below, left"],
    ["box: above/below, left"],
    ["box: above, left of the goal; goal: below, right of the box"],
    // It does not follow where that is.
    ["The box is to the right of the player, and the goal is above the box."],
    ["box: above, left; goal: below, right of the box"],
    ["box: (1, 3)"],
    ["player: above, left"],
    // Places in the image, distances, other words.
    ["The box is in the top left corner."],
    ["The box is on the left."],
    ["The box is right above me."],
    ["box: 2 above, left"],
    ["The box is up and to the west."],
    ["dragon: above, left; box: above, left"],
    ["box 7: above, left"],
    // Data that says more, or something else.
    ['{"box": ["above", "left"], "note": "this is false"}'],
    ['{"not": {"box": ["above", "left"]}}'],
    ['{"box": ["above", "left"]} {"box": ["below", "right"]}'],
    ['{"box": ["above", "left"]}\nPX\n__'],
    ["PP\nX_"],
    ["PX\n___"],
    // Too long to be a description, whatever it begins with.
    [`box: above, left${" ".repeat(4000)}`],
    [`${"[".repeat(2000)}`],
    ["box"],
    ["above"],
    [""],
  ])("claims nothing where it can't be sure of all of it: %j", (text) => {
    expect(read(text)).toBe("");
  });

  test("a name that stands twice in JSON is two things", () => {
    expect(read('{"box": ["above", "left"], "box": ["below", "right"]}')).toBe("box above/left, box below/right");
  });

  test("things seen from each other may be named in either order", () => {
    const axes: View["axes"] = [...GRID_AXES, ["lower", "same height", "higher"]];
    const view: View = { things: pairsOf(["red cube", "stripe"]), axes, from: "player" };
    const facts = [{ subject: "stripe", relations: ["above", "left", "lower"], object: "red cube" }];
    const [truth] = placedOf(facts, view);
    for (const text of [
      "stripe from red cube: above, left, lower",
      "the red cube from the stripe: below, right, higher",
    ]) {
      expect(readText(text, view).claims).toMatchObject([truth as object]);
    }
  });

  test("says where each claim stands", () => {
    const text = "goal: above, left; The hole is below me";
    expect(readText(text, VIEW).claims.map(({ span }) => text.slice(...span))).toEqual([
      "goal: above, left",
      "hole is below me",
    ]);
  });

  test("never throws, whatever the text", () => {
    const words =
      'goal hole it of from above left me I player , . ; : - ( 1 ) [ ] { } " same row column 2 \n P X # is'.split(" ");
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.constantFrom(...words), fc.string()), { maxLength: 60 }), (parts) => {
        for (const { span } of readText(parts.join(" "), VIEW).claims) expect(span[1]).toBeGreaterThan(span[0]);
      }),
      { numRuns: 2000 },
    );
  });
});

test.each([
  "sokoban",
  "frozen_lake",
  "maze_2d",
  "matchstick_rotation",
  "navigation",
  "fetch_pick_and_place",
  "primitive_skill/place",
])("what an oracle says of %s is the truth, in every form and style", async (id) => {
  for (const form of ["lines", "json"]) {
    for (const prompt of ["full", "brief"] as const) {
      const env = await makeWorldEnv(id, { protocol: { name: "world-model", form }, prompt });
      const view = env.options.view as View;
      for (let seed = 0; seed < 4; seed++) {
        await env.reset(seed);
        const truth = placedOf((await env.world.facts?.()) ?? [], view);
        const { sections } = env.protocol.parse(await env.oracleReply(), env.world.actions);
        const said = readText(sections.observation?.text ?? "", view).claims.map(({ kind, at }) => ({ kind, at }));
        expect(said).toEqual(truth);
      }
      await env.close();
    }
  }
});

test("the prompt's own example is in the form that it prescribes", async () => {
  for (const form of ["lines", "json"]) {
    const { view } = await worldModelOf("sokoban");
    const env = await makeWorldEnv("sokoban", { protocol: { name: "world-model", form } });
    const [message] = await env.reset(0);
    const prompt = message?.content.map((part) => (part.type === "text" ? part.text : "")).join("") ?? "";
    const example = /^Write <observation> and <prediction> in this form: (.*)$/m.exec(prompt)?.[1] ?? "";
    expect(read(example, view)).toBe("box above/left, target same row/right");
    expect(prompt).toMatch(/above, same row or below, then left, same column or right/);
  }
});

// Strangers saw the prompt and the boards, not the reader (2026-11-18: 220 true, 68 false and 68 gaming texts; `npm run bench -- reader strangers` scores all of them).
test.each([
  ["our own set of descriptions", "tasks.jsonl", "descriptions.jsonl"],
  ["descriptions by strangers", "strangers/tasks.jsonl", "strangers/texts.jsonl"],
])(
  "%s: the form is read exactly, other true texts cost nothing, false ones and games are not paid",
  async (_, posed, written) => {
    const lines = <T>(file: string) =>
      readFileSync(new URL(`golden/${file}`, import.meta.url), "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as T);
    // Worlds that are made at once; `npm run bench -- reader` has all of them.
    const tasks = lines<Task>(posed).filter(({ env }) => /^(sokoban|frozen_lake|maze_2d)$/.test(env));
    const ids = new Set(tasks.map(({ id }) => id));
    const scored = await score(
      tasks,
      lines<Written>(written).filter(({ task }) => ids.has(task)),
    );
    const of = (kind: Written["kind"]) => scored.filter((one) => one.kind === kind);
    expect([of("true"), of("false"), of("gaming")].map((list) => list.length > 30)).toEqual([true, true, true]);
    expect(of("true").filter(({ style, exact }) => style.startsWith("form") && !exact)).toEqual([]);
    expect(of("true").filter(({ pay }) => pay < 0)).toEqual([]);
    expect([...of("false"), ...of("gaming")].filter(({ pay }) => pay > 0)).toEqual([]);
  },
);
