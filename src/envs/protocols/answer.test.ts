import { describe, expect, test } from "vitest";
import { type ActionSpec, act, bare } from "../action.ts";
import { makeProtocol } from "./index.ts";

const specs: readonly ActionSpec[] = [
  ...["left", "down", "right", "up"].map((name) => bare(name, `go ${name}`)),
  { name: "push", description: "push", arg: { type: "int", name: "box", min: 0, max: 9 }, example: 1 },
];
const names = (options: Record<string, unknown>, reply: string, protocol = "think") =>
  makeProtocol(protocol, options)
    .parse(reply, specs)
    .actions.map(({ name }) => name);

describe("think", () => {
  const think = makeProtocol("think");

  test.each([
    ["<think>hm</think><answer>left, down</answer>", ["left", "down"]],
    ["<think></think>\n<answer>LEFT</answer>", ["left"]],
    ["Sure! <think>a\nb</think> <answer>left</answer> Done.", ["left"]],
    ["<think>a</think><answer>left</answer><think>b</think><answer>up</answer>", ["left"]],
    ["<think>a</think>b</think><answer>left</answer>", ["left"]],
    ["<think>x</think><answer>, left,, down ,</answer>", ["left", "down"]],
    ["<think>x</think><answer>left,up,left,up,left,up,left</answer>", ["left", "up", "left", "up", "left"]],
    ["<think>x</think> so <answer>left</answer>", []],
    ["<answer>left</answer>", []],
    ["<think>x</think><answer>left", []],
    ["<think>x</think><answer></answer>", []],
  ])("%j gives %j", (reply, expected) => {
    const parsed = think.parse(reply, specs);
    expect(parsed.actions.map(({ name }) => name)).toEqual(expected);
    expect(parsed.wellFormed).toBe(expected.length > 0);
    expect(parsed.problem === undefined).toBe(expected.length > 0 && expected.length < 5);
  });

  test("an unknown action ends the list: what stands before it is kept", () => {
    const parsed = think.parse("<think>x</think><answer>left, jump, up</answer>", specs);
    expect(parsed.actions).toEqual([act("left")]);
    expect(parsed.wellFormed).toBe(true);
    expect(parsed.problem).toContain("no action 'jump'");
    expect(parsed.problem).toContain("The actions before it count");
  });

  test("hands over the thoughts and the place of the answer", () => {
    const reply = "<think> why </think><answer> push 3, up </answer>";
    const parsed = think.parse(reply, specs);
    expect(parsed.sections).toEqual({
      think: { text: "why", span: [8, 11] },
      answer: { text: "push 3, up", span: parsed.span },
    });
    expect(reply.slice(...parsed.span!)).toBe("push 3, up");
    expect(parsed.actions).toEqual([act("push", 3), act("up")]);
  });

  test("strict forbids text around the tags", () => {
    expect(names({ strict: true }, " <think>x</think><answer>left</answer>\n")).toEqual(["left"]);
    expect(names({ strict: true }, "So: <think>x</think><answer>left</answer>")).toEqual([]);
    expect(names({ strict: true }, "<think>x</think><answer>left</answer>!")).toEqual([]);
  });

  test("without thinking the answer stands alone", () => {
    expect(names({ thinking: false }, "<answer>left</answer>")).toEqual(["left"]);
    expect(names({ thinking: false, strict: true }, "<think>x</think><answer>left</answer>")).toEqual([]);
  });

  test("separator, limit, bonus and tag are options", () => {
    const options = { separator: "|", maxActions: 2, bonus: 0.5, tag: "action" };
    expect(names(options, "<think></think><action>left|push, 3|up</action>")).toEqual(["left", "push"]);
    const protocol = makeProtocol("think", options);
    expect(protocol.maxActions).toBe(2);
    expect(protocol.formatReward).toEqual({ kind: "bonus", bonus: 0.5 });
    expect(think.formatReward).toEqual({ kind: "bonus", bonus: 0.1 });
  });
});

describe("world-model", () => {
  const full = "<observation>o</observation> <think>t</think>\n<answer>left, up</answer><prediction>p</prediction>";

  test("gives actions and all four sections", () => {
    const parsed = makeProtocol("world-model").parse(`Well. ${full}`, specs);
    expect(parsed.actions).toEqual([act("left"), act("up")]);
    const texts = Object.entries(parsed.sections).map(([name, { text }]) => [name, text]);
    expect(texts).toEqual(Object.entries({ observation: "o", think: "t", answer: "left, up", prediction: "p" }));
    expect(parsed.wellFormed).toBe(true);
  });

  test.each(["observation", "think", "answer", "prediction"])("needs <%s>, and still hands over the rest", (tag) => {
    const parsed = makeProtocol("world-model").parse(full.replace(`<${tag}>`, ""), specs);
    expect(parsed).toMatchObject({ actions: [], wellFormed: false });
    expect(Object.keys(parsed.sections)).toHaveLength(3);
    expect(parsed.problem).toContain("<prediction>…</prediction>");
  });

  test("free thinking allows any text between the tags, required thinking does not", () => {
    const free = "<observation>o</observation> I think. <answer>left</answer> Then: <prediction>p</prediction>";
    expect(names({ thinking: "free" }, free, "world-model")).toEqual(["left"]);
    expect(names({ thinking: "free" }, full, "world-model")).toEqual(["left", "up"]);
    expect(names({}, full.replace("</observation>", "</observation> so"), "world-model")).toEqual([]);
  });
});
