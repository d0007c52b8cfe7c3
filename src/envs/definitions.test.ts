/** What may be wrong with a file before anything is played: its definition, its rows, its images, the names in it. Each mistake is one line that names the fix. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import "../index.ts";
import { encodePng, Image, makeEnv, playDemo } from "../index.ts";
import { readDemos } from "./demos.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-definitions-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let made = 0;

/** A folder of its own for every mistake, with these files in it. */
function write(files: Record<string, string | Uint8Array>): string {
  const place = join(folder, String(made++));
  mkdirSync(place);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(place, name, ".."), { recursive: true });
    writeFileSync(join(place, name), content);
  }
  return place;
}

const HEAD = `import { bare, defineEnv, defineTask, defineWorld, image, text, user, z } from "saccade";\nimport { fromOpenAI, readImage } from "saccade/images";\n`;
const world = (fields: string) => `${HEAD}export default defineWorld({ id: "mine", ${fields} });`;
const create = `create: () => ({ actions: [bare("a", "b")], reset() {}, act: () => ({ valid: true, reward: 0, ended: true }), observe: () => "x", task: () => "x", success: () => true }),`;
const task = (data: string, fields = "") => `${HEAD}export default defineTask({
  id: "mine", data: ${data}, prompt: (row) => [user(text(row.question))], reward: () => 1, answer: () => "x", ${fields} });`;

type Mistake = [what: string, files: Record<string, string | Uint8Array>, said: RegExp];

test.each<Mistake>([
  [
    "no default export",
    { "env.ts": "export const x = 1;" },
    /env\.ts: its default export must be made with defineWorld.* it has an object with x\./,
  ],
  [
    "a definition under another name",
    { "env.ts": world(create).replace("export default", "export const mine =") },
    /it exports one as "mine": write export default/,
  ],
  ["a class", { "env.ts": "export default class Mine {}" }, /it has a function/],
  [
    "a recipe",
    { "env.ts": 'export default { name: "r", model: "m", envs: [], optimizer: {} };' },
    /this is a recipe, for saccade train/,
  ],
  [
    "a misspelt import",
    { "env.ts": 'import { defineWrld } from "saccade";\nexport default defineWrld({});' },
    /env\.ts could not be loaded: "saccade" has no export "defineWrld"\. Did you mean "defineWorld"\?/,
  ],
  [
    "a misspelt field",
    { "env.ts": world(`maxTurn: 5, ${create}`) },
    /env\.ts.*defineWorld\(\): there is no field "maxTurn"\. Did you mean "maxTurns"\?/,
  ],
  [
    "no id",
    { "env.ts": world(create).replace('id: "mine",', "") },
    /defineWorld\(\): id must be a string; got undefined/,
  ],
  ["no create", { "env.ts": world("") }, /defineWorld\(\): create must be a function that makes one; got undefined/],
  [
    "options that are no schema",
    { "env.ts": world(`options: { size: 3 }, ${create}`) },
    /defineWorld\(\): options must be a zod object.* got an object with size/,
  ],
  [
    "a turn limit that is a string",
    { "env.ts": world(`maxTurns: "5", ${create}`) },
    /defineWorld\(\): maxTurns must be a whole number of at least 1; got the string "5"/,
  ],
  [
    "an unknown field of an environment",
    { "env.ts": `${HEAD}export default defineEnv({ id: "mine", row: () => 3, create() {} });` },
    /defineEnv\(\): there is no field "row"\. Did you mean "rows"\?/,
  ],
  [
    "an environment that is none",
    { "env.ts": `${HEAD}export default defineEnv({ id: "mine", create() {} });` },
    /env\.ts: create\(\) must return an environment; got undefined/,
  ],
  [
    "a task's misspelt field",
    { "env.ts": task("[{}]").replace("prompt:", "promt:") },
    /defineTask\(\): there is no field "promt"\. Did you mean "prompt"\?/,
  ],
  ["a task without a prompt", { "env.ts": task("[{}]", "prompt: undefined,") }, /Task "mine" has no prompt\(row\)/],
  [
    "a task whose prompt is text",
    { "env.ts": task("[{}]", 'prompt: "Add.",') },
    /Task "mine": prompt must be a function; got the string "Add\."/,
  ],
  [
    "a task's data that is none",
    { "env.ts": task("5") },
    /Task "mine": data must be a file's path or a list of rows; got the number 5/,
  ],
])("A file with %s", async (_, files, said) => {
  const file = join(write(files), "env.ts");
  await expect(makeEnv(file)).rejects.toThrow(said);
  await expect(makeEnv(file)).rejects.toThrow(file);
});

test.each<Mistake>([
  [
    "a misspelt path",
    { "rows.jsonl": '{"question": "x"}\n' },
    /There is no file .*row\.jsonl\. Did you mean "rows\.jsonl"\?/,
  ],
  ["no folder", {}, /There is no file .*row\.jsonl\. Check the path\./],
  [
    "a list in one file",
    { "row.jsonl": '[\n{"question": "x"}\n]\n' },
    /row\.jsonl:1: the file is one JSON list, and each line must hold one JSON object/,
  ],
  ["a list in one line", { "row.jsonl": '[{"question": "x"}]\n' }, /row\.jsonl:1: the file is one JSON list/],
  [
    "a row that is no object",
    { "row.jsonl": '{"question": "x"}\n"hello"\n' },
    /row\.jsonl:2: a row must be a JSON object.* got the string "hello"/,
  ],
  ["a line that is cut", { "row.jsonl": '{"question": "x"}\n{"quest\n' }, /row\.jsonl:2: not JSON/],
])("Rows with %s", async (_, files, said) => {
  const place = write({ "env.ts": task('"row.jsonl"'), ...files });
  await expect(makeEnv(join(place, "env.ts"))).rejects.toThrow(said);
});

const cat = encodePng(new Image(2, 1, new Uint8Array(6)));
const wire = (url: string) => JSON.stringify([{ role: "user", content: [{ type: "image_url", image_url: { url } }] }]);
const shown = (prompt: string) => task("[{}]", `prompt: async () => ${prompt},`);
const read = shown('[user(image(await readImage(new URL("cat.png", import.meta.url))))]');

test.each<Mistake>([
  [
    "that is not there",
    { "env.ts": read, "cats.png": cat },
    /There is no file .*cat\.png\. Did you mean "cats\.png"\?/,
  ],
  ["that is a folder", { "env.ts": read, "cat.png/x": "" }, /cat\.png is a folder/],
  ["that is empty", { "env.ts": read, "cat.png": "" }, /cat\.png: This image is empty/],
  ["that is a GIF", { "env.ts": read, "cat.png": "GIF89a" }, /cat\.png: This image is a GIF. Convert it/],
  ["that is a WebP", { "env.ts": read, "cat.png": "RIFF....WEBPVP8 " }, /cat\.png: This image is a WebP/],
  ["that is cut off", { "env.ts": read, "cat.png": cat.subarray(0, 40) }, /cat\.png: The PNG is broken: it ends early/],
  [
    "in a row, by its path",
    { "env.ts": shown(`fromOpenAI(${wire("cat.png")})`) },
    /messages\[0\]\.content\[0\]\.image_url\.url: this must be a data URI.* got the string "cat\.png"/,
  ],
])("An image %s is an error that names the task's file and the image", async (_, files, said) => {
  const file = join(write(files), "env.ts");
  const error: Error = await makeEnv(file)
    .then((env) => env.reset(0))
    .then(
      () => new Error("nothing was wrong"),
      (thrown) => thrown,
    );
  expect(error.message).toMatch(said);
  expect(error.message).toContain(`${file}: prompt(row 0)`);
});

test("readImage reads PNG and JPEG by content, and a prompt shows what it read", async () => {
  const file = join(write({ "env.ts": read, "cat.png": cat }), "env.ts");
  const [message] = await (await makeEnv(file)).reset(0);
  expect(message?.content).toMatchObject([{ type: "image", image: { width: 2, height: 1 } }]);
});

const demo = (content: unknown, reply = "assistant") =>
  `${JSON.stringify({
    messages: [
      { role: "user", content },
      { role: reply, content: "x" },
    ],
  })}\n`;
const framed = (url: string) => demo([{ type: "image_url", image_url: { url } }]);

test.each<Mistake>([
  [
    "no messages",
    { "d.jsonl": `${demo("x")}{}\n` },
    /d\.jsonl:2: a demonstration needs `messages`, a list; got undefined/,
  ],
  ["an unknown role", { "d.jsonl": demo("x", "asistant") }, /d\.jsonl:1: messages\[1\]\.role is 'asistant'/],
  ["no reply", { "d.jsonl": demo("x", "user") }, /d\.jsonl:1: a demonstration needs at least one assistant message/],
  [
    "a frame that is no image",
    { "d.jsonl": framed("d.frames/a.png"), "d.frames/a.png": "GIF89a" },
    /d\.jsonl:1: .*d\.frames\/a\.png: This image is a GIF/,
  ],
  [
    "a frame that is cut off",
    { "d.jsonl": framed("d.frames/a.png"), "d.frames/a.png": cat.subarray(0, 40) },
    /d\.jsonl:1: .*d\.frames\/a\.png: The PNG is broken/,
  ],
  [
    "a frame that is not there",
    { "d.jsonl": framed("d.frames/a.png") },
    /d\.jsonl:1: .*the frame .*d\.frames\/a\.png can't be read/,
  ],
  ["a frame elsewhere", { "d.jsonl": framed("../a.png") }, /d\.jsonl:1: .*\.\.\/a\.png leads out of the folder/],
])("Demonstrations with %s are an error that names the line", async (_, files, said) => {
  const file = join(write(files), "d.jsonl");
  const reading = async () => {
    for await (const _ of readDemos(file)) void 0;
  };
  await expect(reading()).rejects.toThrow(said);
});

test("The frames of demonstrations are PNG or JPEG, whatever their names end with", async () => {
  const file = join(write({ "d.jsonl": framed("d.frames/a.jpg"), "d.frames/a.jpg": cat }), "d.jsonl");
  for await (const { messages } of readDemos(file)) {
    expect(messages[0]?.content).toMatchObject([{ type: "image", image: { width: 2 } }]);
  }
});

test("Noise on a task without slip() says what to add", async () => {
  const file = join(write({ "env.ts": task('[{ question: "x" }]') }), "env.ts");
  const noisy = playDemo(file, await makeEnv(file), 0, undefined, { probability: 1, labels: "played" });
  await expect(noisy).rejects.toThrow(
    `${file}: noise plays a wrong reply now and then, and this environment has none: give a task slip(row, random)`,
  );
});

test.each([
  ["froze_lake", /There is no environment "froze_lake"\. Did you mean "frozen_lake"\?/],
  ["maze_2d/esy", /has no difficulty "esy"; it has "easy", "hard"\. Did you mean "easy"\?/],
  [
    "frozen_lake",
    /Protocol "tuple": there is no option "tgs"\. Did you mean "tags"\?/,
    { protocol: { name: "tuple", tgs: true } },
  ],
  ["frozen_lake", /There is no protocol "tupl"\. Did you mean "tuple"\?/, { protocol: "tupl" }],
] as [string, RegExp, Record<string, unknown>?][])("%s: %s", async (name, said, options) => {
  await expect(makeEnv(name, options ?? {})).rejects.toThrow(said);
});
