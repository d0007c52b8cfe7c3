import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { imagesOf, type Message, textOf } from "../../src/core/index.ts";
import { envRows, makeEnv, playDemo } from "../../src/envs/index.ts";
import { encodePng } from "../../src/images/index.ts";
import "../../src/index.ts";
import { sameAnswer } from "./answers.ts";
import { measure, solve } from "./check.ts";
import { crosses, overlap } from "./figure.ts";
import { KINDS, makeProblem, problemWith } from "./problems.ts";

const DEFAULTS = { kinds: KINDS, size: 224, step: 1, turn: 20, choices: 0.3 };
const folder = mkdtempSync(join(tmpdir(), "saccade-geometry-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const said = (messages: readonly Message[]) => messages.map(textOf).join("|");
const call = (answer: unknown) =>
  `<tool_call>${JSON.stringify({ name: "calc_score", arguments: { answer } })}</tool_call>`;

describe("generated problems", () => {
  const problems = Array.from({ length: 500 }, (_, seed) => makeProblem(seed, DEFAULTS));

  test("500 of them: solving the laws and measuring the picture both give the answer", () => {
    for (const { draft, drawing, value } of problems) {
      expect(problemWith(draft, drawing)).toBeUndefined();
      expect(solve(draft.given, draft.laws)[draft.sought]).toBeCloseTo(value, 6);
      const sought = draft.quantities[draft.sought];
      expect(sought && measure(sought, drawing.places, drawing.scale)).toBeCloseTo(value, 6);
      // Nothing is given away: what is asked for is not among what is given.
      expect(Object.keys(draft.given)).not.toContain(draft.sought);
    }
  });

  test("every label lies in the picture, on no line and on no other label", () => {
    for (const { draft, drawing } of problems) {
      const { labels, places } = drawing;
      const lines = [...draft.figure.segments, ...(draft.figure.dashed ?? [])];
      labels.forEach((label, i) => {
        expect(
          Math.min(label.x, label.y, 224 - label.x - label.width, 224 - label.y - label.height),
        ).toBeGreaterThanOrEqual(0);
        for (const other of labels.slice(i + 1)) expect(overlap(label, other)).toBe(false);
        for (const [a, b] of lines) {
          expect(crosses({ a: places[a] as never, b: places[b] as never }, label)).toBe(false);
        }
      });
    }
  });

  test("all kinds come, numbers, fractions, roots, pi and choices among their answers", () => {
    expect(new Set(problems.map(({ kind }) => kind))).toEqual(new Set(KINDS));
    const truths = problems.map(({ truth }) => truth);
    for (const form of [/^\d+$/, /\\frac/, /\\sqrt/, /\\pi/, /^[A-D]$/]) {
      expect(truths.filter((truth) => form.test(truth)).length, String(form)).toBeGreaterThan(5);
    }
    // One choice is right and the others are not.
    for (const { truth, choices, value } of problems.filter(({ choices }) => choices.length > 0)) {
      const right = choices["ABCD".indexOf(truth)] as string;
      expect(choices.filter((choice) => sameAnswer(choice, right))).toEqual([right]);
      expect(Number.isNaN(Number(right)) || Math.abs(Number(right) - value) < 1e-9).toBe(true);
    }
  });

  test("a seed decides its problem; a wrong answer or a bent figure is found out", () => {
    expect(makeProblem(7, DEFAULTS).picture.hash).toBe(problems[7]?.picture.hash);
    const { draft, drawing } = makeProblem(7, DEFAULTS);
    expect(problemWith({ ...draft, answer: [{ p: 1 }] }, drawing)).toMatch(/the laws give/);
    const [name = ""] = draft.figure.segments[0] ?? [];
    const [x = 0, y = 0] = drawing.places[name] ?? [];
    expect(problemWith(draft, { ...drawing, places: { ...drawing.places, [name]: [x + 9, y + 5] } })).toMatch(
      /drawn as/,
    );
    expect(problemWith({ ...draft, laws: [] }, drawing)).toMatch(/do not decide/);
  });

  test("small pictures for small models are sound as well", () => {
    for (let seed = 0; seed < 100; seed++) {
      const { draft, drawing } = makeProblem(seed, { ...DEFAULTS, size: 64, step: 10 });
      expect(problemWith(draft, drawing)).toBeUndefined();
    }
  });
});

describe("an episode", () => {
  test("shows one diagram, takes answers through calc_score and ends on the right one", async () => {
    const env = await makeEnv("geometry3k", { choices: 0, kinds: ["angles"] });
    const first = await env.reset(5);
    expect(first.flatMap(imagesOf)).toHaveLength(1);
    expect(said(first)).toContain('"name": "calc_score"');
    const { value } = makeProblem(5, { ...DEFAULTS, choices: 0, kinds: ["angles"] });
    const wrong = await env.step(call(String(value + 1)));
    expect(wrong).toMatchObject({ terminated: false, success: false, rewards: [{ value: 0 }] });
    expect(said(wrong.observation)).toContain("Score 0: the answer is not right. You have 2 more tries.");
    expect(said((await env.step(call(value + 2))).observation)).toContain("one more try");
    const right = await env.step(call(`x = ${value}^\\circ`));
    expect(right).toMatchObject({ terminated: true, success: true, rewards: [{ value: 1 }] });
  });

  test("tells the direction where that is asked for", async () => {
    const env = await makeEnv("geometry3k", {
      choices: 0,
      kinds: ["angles"],
      verdict: "direction",
      prompt: "brief",
      form: "tags",
    });
    await env.reset(5);
    const { value } = makeProblem(5, { ...DEFAULTS, choices: 0, kinds: ["angles"] });
    expect(said((await env.step(call(value - 1))).observation)).toBe("larger");
    expect(said((await env.step(call("many"))).observation)).toBe("wrong");
  });

  test("near slips are wrong by one to three steps and heed the verdict, so that noise still tells what the diagram shows", async () => {
    const options = { choices: 0, kinds: ["parallels"], step: 5, slips: "near", verdict: "direction" };
    const env = await makeEnv("geometry3k", options);
    const numberIn = (reply: string) => Number(/"answer": "(\d+)"/.exec(reply)?.[1]);
    const away = new Set<number>();
    for (let seed = 0; seed < 100; seed++) {
      await env.reset(seed);
      const reply = (await env.builtinReply?.("random", seed)) ?? "";
      const { value } = makeProblem(seed, { ...DEFAULTS, choices: 0, kinds: ["parallels"], step: 5 });
      const said = numberIn(reply);
      away.add(said - value);
      await env.step(reply);
      const again = numberIn((await env.builtinReply?.("random", seed)) ?? "");
      expect(Math.sign(again - said)).toBe(Math.sign(value - said));
      expect(again).not.toBe(value);
    }
    expect([...away].sort((a, b) => a - b)).toEqual([-15, -10, -5, 5, 10, 15]);
  });

  test("without a call the boxed answer is graded, once", async () => {
    const env = await makeEnv("geometry3k", { choices: 0 });
    await env.reset(9);
    const { truth } = makeProblem(9, { ...DEFAULTS, choices: 0 });
    expect(await env.step(`So it is \\boxed{${truth}}.`)).toMatchObject({ terminated: true, success: true });
    await env.reset(9);
    expect(await env.step("I can't tell.")).toMatchObject({ terminated: true, success: false });
  });

  test("a choice may be given by its letter or its value", async () => {
    const seed =
      Array.from({ length: 50 }, (_, i) => i).find(
        (i) => makeProblem(i, { ...DEFAULTS, choices: 1 }).choices.length > 0,
      ) ?? 0;
    const { truth, choices } = makeProblem(seed, { ...DEFAULTS, choices: 1 });
    const env = await makeEnv("geometry3k", { choices: 1 });
    for (const answer of [truth, `(${truth})`, truth.toLowerCase(), choices["ABCD".indexOf(truth)]]) {
      await env.reset(seed);
      expect(await env.step(call(answer))).toMatchObject({ success: true });
    }
    await env.reset(seed);
    expect(await env.step(call(truth === "A" ? "B" : "A"))).toMatchObject({ success: false, terminated: false });
  });

  test("the oracle solves 200 of 200, in both forms; guesses rarely do; blindfolded, every diagram is the same", async () => {
    for (const form of ["qwen", "tags"]) {
      const env = await makeEnv("geometry3k", { form });
      for (let seed = 0; seed < 100; seed++) {
        expect(await playDemo("geometry3k", env, seed)).toMatchObject({ success: true, turns: 1 });
      }
    }
    const env = await makeEnv("geometry3k", { maxTurns: 1 });
    let right = 0;
    for (let seed = 0; seed < 300; seed++) {
      await env.reset(seed);
      right += Number((await env.step((await env.builtinReply?.("random", seed)) ?? "")).success);
    }
    expect(right).toBeLessThan(15);
    const blind = await makeEnv("geometry3k", { blindfold: true });
    expect((await blind.reset(1)).flatMap(imagesOf)[0]?.hash).toBe((await blind.reset(2)).flatMap(imagesOf)[0]?.hash);
  });
});

describe("rows of the data set", () => {
  const golden = join(import.meta.dirname, "golden", "geometry3k.parquet");

  test("Parquet in Hugging Face's layout plays, and its truth is graded as the data set writes it", async () => {
    expect(await envRows("geometry3k", { data: golden })).toBe(3);
    expect(await envRows("geometry3k")).toBeUndefined();
    const env = await makeEnv("geometry3k", { data: golden });
    const first = await env.reset(0);
    expect(first.flatMap(imagesOf).map(({ width, height }) => [width, height])).toEqual([[40, 30]]);
    expect(said(first)).toContain("Find x.");
    expect(said(first)).not.toContain("<image>");
    expect(await env.step(call("5\\sqrt{3}"))).toMatchObject({ success: true });
    expect(await playDemo("geometry3k", env, 1)).toMatchObject({ success: true });
    await expect(async () => env.reset(3)).rejects.toThrow("has rows 0 to 2; there is no row 3");
  });

  test("rows as SkyRL prepares them play too", async () => {
    const url = `data:image/png;base64,${Buffer.from(encodePng(makeProblem(1, DEFAULTS).picture)).toString("base64")}`;
    const row = {
      prompt: [
        {
          role: "user",
          content: [
            { type: "image_url", image_url: { url } },
            { type: "text", text: "Long words. Find y." },
          ],
        },
      ],
      env_class: "geometry3k",
      reward_spec: { method: "rule", ground_truth: "12" },
      extra_info: { split: "train", index: 0, problem: "<image>Find y.", answer: "12" },
    };
    const file = join(folder, "rows.jsonl");
    writeFileSync(file, `${JSON.stringify(row)}\n`);
    const env = await makeEnv("geometry3k", { data: file });
    expect(said(await env.reset(0))).toContain("Find y.");
    expect(await env.step(call(12))).toMatchObject({ success: true });
  });

  test.each([
    ["no answer", { images: [], problem: "?" }, /:1 has no answer/],
    ["no problem", { answer: "1" }, /:1 is not a row of Geometry-3K/],
    ["no bytes", { images: [{ path: "a.png" }], problem: "?", answer: "1" }, /:1: an image has no bytes/],
  ])("%s is an error that names the row", async (_, row, problem) => {
    const file = join(folder, `${_}.jsonl`);
    writeFileSync(file, `${JSON.stringify(row)}\n`);
    const env = await makeEnv("geometry3k", { data: file });
    await expect(async () => env.reset(0)).rejects.toThrow(problem);
  });
});
