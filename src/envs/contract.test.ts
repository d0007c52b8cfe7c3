/** What a user's file may get wrong, by boundary: each mistake is one EnvError or ConfigError that names the file, the member, what was given and what is wanted. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import * as core from "../core/index.ts";
import * as images from "../images/index.ts";
import * as envs from "./index.ts";
import { shareModule } from "./load.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-contract-"));
beforeAll(() => shareModule("saccade", { ...core, ...images, ...envs }));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const HEAD = `import { act, bare, Canvas, defineEnv, defineTask, defineTool, defineWorld, image, text, user, z } from "saccade";\n`;
let files = 0;

/** A file of its own for every mistake: definitions are cached by their path. */
function fileOf(source: string): string {
  const file = join(folder, `mine-${files++}.ts`);
  writeFileSync(file, HEAD + source);
  return file;
}

/** A world of two turns that is right but for `members`. */
const world = (
  members: string,
  definition = "",
) => `export default defineWorld({ id: "mine", maxTurns: 3, ${definition} create() {
  let turn = 0;
  return {
    actions: [bare("left", "go left"), bare("right", "go right")],
    reset() { turn = 0; },
    act() { turn += 1; return { valid: true, reward: 0, ended: turn === 2 }; },
    observe: () => new Canvas(8, 8).toImage(),
    task: () => "Go.",
    success: () => turn === 2,
    solve: () => [act("left")],
    save: () => ({ turn }),
    load(state) { turn = state.turn; },
    ${members}
  };
} });`;

const task = (members: string, data = '[{ question: "1 + 1", answer: "2" }]') => `export default defineTask({
  id: "mine", data: ${data}, maxTurns: 2,
  prompt: (row) => [user(text(row.question))],
  reward: (reply, row) => (reply === row.answer ? 1 : 0),
  answer: (row) => row.answer,
  ${members}
});`;

const env = (members: string) => `export default defineEnv({ id: "mine", create: () => ({
  reset: () => [user(text("hello"))],
  step: () => (${STEP} }),
  builtinReply: () => "a reply",
  ${members}
}) });`;
const STEP = `{ observation: [user(text("more"))], rewards: [{ name: "task", value: 1 }], terminated: true, truncated: false, info: { actions: [], parsed: true, wellFormed: true, valid: true }`;

/** Plays the oracle until the episode is over: every member is asked. */
async function play(file: string, options: Record<string, unknown> = {}): Promise<void> {
  const made = await envs.makeEnv(file, options);
  await made.reset(0);
  for (let turn = 0; turn < 4; turn++) {
    const step = await made.step((await made.builtinReply?.("oracle", 0)) ?? "");
    if (step.terminated || step.truncated) return;
  }
}

async function complaint(source: string, options?: Record<string, unknown>): Promise<{ error: Error; file: string }> {
  const file = fileOf(source);
  const error: unknown = await play(file, options).then(
    () => new Error("nothing was wrong"),
    (thrown: unknown) => thrown,
  );
  return { error: error as Error, file };
}

type Row = [given: string, source: string, said: string | RegExp, options?: Record<string, unknown>];

async function expectTaught(_: string, source: string, said: string | RegExp, options?: Row[3]): Promise<void> {
  const { error, file } = await complaint(source, options);
  expect(error.message).toMatch(said);
  expect(["EnvError", "ConfigError"]).toContain(error.name);
  expect(error.message.split(file)).toHaveLength(2);
}

test.each<Row>([
  [
    "observe() an object",
    world("observe: () => ({ width: 3, pixels: [] }),"),
    /observe\("image"\) must return an Image, a string or a list of parts.* got an object with width, pixels/,
  ],
  [
    "observe() nothing",
    world("observe() {},"),
    /observe\("image"\) must return an Image.* got undefined: is there a return\?/,
  ],
  [
    "observe() a Buffer",
    world("observe: () => Buffer.from([1, 2, 3]),"),
    /observe\("image"\) must .* got a Buffer of 3 bytes.*decodeImage/,
  ],
  [
    "observe() a canvas",
    world("observe: () => new Canvas(8, 8),"),
    /observe\("image"\) must .* got a Canvas.*toImage\(\)/,
  ],
  [
    "observe() bare pixels",
    world("observe: () => ({ width: 1, height: 1, data: new Uint8Array(3) }),"),
    /got an object with width, height, data.*new Image\(width, height, data\)/,
  ],
  ["observe() a number", world("observe: () => 7,"), /observe\("image"\) must .* got the number 7/],
  [
    "observe() a list of images",
    world("observe: () => [new Canvas(8, 8).toImage()],"),
    /observe\("image"\)\[0\] must be text\("…"\) or image\(frame\); got an Image/,
  ],
  [
    "observe() a list of strings",
    world('observe: () => ["wall"],'),
    /observe\("image"\)\[0\] must be text\("…"\) or image\(frame\); got the string "wall"/,
  ],
  [
    "observe() nothing after a turn",
    world('observe() { if (turn === 0) return "start"; },'),
    /observe\("image"\) must return .* got undefined/,
  ],
  ["observe() nothing in text", world("observe() {},"), /observe\("text"\) must return/, { observation: "text" }],
  ["task() nothing", world("task() {},"), /task\("full", "image"\) must return a string.* got undefined/],
  [
    "task() an object",
    world("task: () => ({ text: 1 }),"),
    /task\(.*\) must return a string.* got an object with text/,
  ],
  [
    "act() nothing",
    world("act() {},"),
    /act\(left\) must return \{ valid, reward, ended \}; got undefined: is there a return\?/,
  ],
  [
    "act() a reward alone",
    world("act: () => ({ reward: 1 }),"),
    /act\(left\) must return `valid`, true or false; it is missing/,
  ],
  [
    "act() done for ended",
    world("act: () => ({ valid: true, reward: 0, done: true }),"),
    /must return `ended`, true or false; it is missing.*"done".*"ended"/,
  ],
  [
    "act() a misspelt field",
    world("act: () => ({ valid: true, rewrad: 0, ended: true }),"),
    /must return `reward`, a finite number; it is missing.*"rewrad".*"reward"/,
  ],
  [
    "act() reward a string",
    world('act: () => ({ valid: true, reward: "1", ended: true }),'),
    /act\(left\) must return `reward`, a finite number; got the string "1"/,
  ],
  [
    "act() reward NaN",
    world("act: () => ({ valid: true, reward: 0 / 0, ended: true }),"),
    /`reward`, a finite number; got NaN/,
  ],
  [
    "act() ended a string",
    world('act: () => ({ valid: true, reward: 0, ended: "no" }),'),
    /`ended`, true or false; got the string "no"/,
  ],
  [
    "act() feedback a number",
    world("act: () => ({ valid: true, reward: 0, ended: true, feedback: 5 }),"),
    /`feedback`, a string.*got the number 5/,
  ],
  ["success() nothing", world("success() {},"), /success\(\) must return true or false; got undefined/],
  ["success() a number", world("success: () => 1,"), /success\(\) must return true or false; got the number 1/],
  [
    "solve() an unknown action",
    world('solve: () => [act("lft")],'),
    /solve\(\)\[0\] names the action "lft".*did you mean "left"\?.*left, right/,
  ],
  [
    "solve() strings",
    world('solve: () => ["left"],'),
    /solve\(\)\[0\] must be an action, such as act\("left"\); got the string "left"/,
  ],
  [
    "solve() one action",
    world('solve: () => act("left"),'),
    /solve\(\) must return a list of actions.* got an object with name, payload/,
  ],
  [
    "solve() nothing",
    world("solve() {},"),
    /solve\(\) must return a list of actions, \[\] where there is no plan; got undefined/,
  ],
  [
    "solve() an argument that does not fit",
    world(
      'actions: [{ name: "go", description: "go", arg: { type: "int", name: "way", min: 0, max: 3 }, example: 0 }], solve: () => [act("go", 9)],',
    ),
    /solve\(\)\[0\].*"go".* 9, but way must be a whole number from 0 to 3/,
  ],
  [
    "facts() malformed",
    world('facts: () => [{ thing: "box" }],', 'protocol: "world-model",'),
    /facts\(\)\[0\] must be \{ subject, relations, object \}.* got an object with thing/,
  ],
  [
    "facts() no list",
    world("facts: () => ({}),", 'protocol: "world-model",'),
    /facts\(\) must return a list.* got an empty object/,
  ],
  ["save() nothing", world("save() {},"), /save\(\) must return JSON.* got undefined/, { finalGoal: true }],
  [
    "save() what is no JSON",
    world("save: () => ({ turn, at: { step() {} } }),"),
    /save\(\) must return JSON.*at\.step is a function/,
    { finalGoal: true },
  ],
  [
    "save() a Map",
    world("save: () => ({ seen: new Map() }),"),
    /save\(\) must return JSON.*seen is a Map/,
    { finalGoal: true },
  ],
  [
    "actions of strings",
    world('actions: ["left", "right"],'),
    /actions\[0\] must be an action.*bare\("left", "what it does"\).* got the string "left"/,
  ],
  [
    "two actions of one name",
    world('actions: [bare("left", "a"), bare("left", "b")],'),
    /actions\[1\] is "left" again/,
  ],
  ["no actions", world("actions: [],"), /actions is empty/],
  [
    "an action without arg",
    world('actions: [{ name: "go", description: "go", example: 0 }],'),
    /actions\[0\] \("go"\): arg is missing/,
  ],
  [
    "an unknown kind of argument",
    world(
      'actions: [{ name: "go", description: "go", arg: { type: "integer", name: "way", min: 0, max: 3 }, example: 0 }],',
    ),
    /actions\[0\] \("go"\): arg\.type is one of int, .* got the string "integer".*did you mean "int"\?/,
  ],
  [
    "an argument without its bound",
    world('actions: [{ name: "go", description: "go", arg: { type: "int", name: "way", min: 0 }, example: 0 }],'),
    /actions\[0\] \("go"\): arg\.max must be a whole number; it is missing/,
  ],
  [
    "an example that does not fit",
    world(
      'actions: [{ name: "go", description: "go", arg: { type: "int", name: "way", min: 0, max: 3 }, example: 9 }],',
    ),
    /actions\[0\] \("go"\): example is 9, but way must be a whole number from 0 to 3/,
  ],
  ["a name of two words", world('actions: [bare("go left", "go")],'), /actions\[0\]: the name "go left".*no spaces/],
  [
    "create() nothing",
    'export default defineWorld({ id: "mine", create() {} });',
    /create\(\) must return a world; got undefined: is there a return\?/,
  ],
  [
    "create() a misspelt method",
    world("").replace("success:", "sucess:"),
    /create\(\) made a world without the method success\(\).*"sucess"/,
  ],
  [
    "a protocol without members",
    world("", 'protocol: { name: "mine", parse: () => ({}) },'),
    /the protocol "mine" has no maxActions.*instruction/,
  ],
])("A world with %s", expectTaught);

test.each<Row>([
  [
    "one message",
    task("prompt: (row) => user(text(row.question)),"),
    /prompt\(row 0\) must return a string or a list of messages.* got a message\. Put it in a list/,
  ],
  [
    "content as a string",
    task('prompt: (row) => [{ role: "user", content: row.question }],'),
    /prompt\(row 0\)\[0\]\.content must be a list of parts.* got the string "1 \+ 1".*fromOpenAI/,
  ],
  [
    "a string for a part",
    task("prompt: (row) => [user(row.question)],"),
    /prompt\(row 0\)\[0\]\.content\[0\] must be text\("…"\) or image\(frame\); got the string "1 \+ 1"/,
  ],
  [
    "an unknown part",
    task('prompt: () => [{ role: "user", content: [{ type: "img", image: 3 }] }],'),
    /content\[0\]\.type is "text" or "image"; got the string "img"/,
  ],
  [
    "an unknown role",
    task('prompt: () => [{ role: "usr", content: [] }],'),
    /prompt\(row 0\)\[0\]\.role is one of .*; got the string "usr", did you mean "user"\?/,
  ],
  ["nothing", task("prompt() {},"), /prompt\(row 0\) must return .* got undefined: is there a return\?/],
  ["no messages", task("prompt: () => [],"), /prompt\(row 0\) returned no messages/],
  [
    "a text that is none",
    task("prompt: (row) => [user(text(row.qestion))],"),
    /prompt\(row 0\)\[0\]\.content\[0\]\.text must be a string; got undefined/,
  ],
  [
    "the path of an image",
    task('prompt: () => [user(image("cat.png"))],'),
    /image\(\) takes an Image; got the string "cat\.png".*await readImage\("cat\.png"\)/,
  ],
  [
    "the bytes of an image",
    task("prompt: () => [user(image(Buffer.from([1, 2])))],"),
    /image\(\) takes an Image; got a Buffer of 2 bytes.*decodeImage/,
  ],
])("A task whose prompt is %s", expectTaught);

test("A task's prompt and say may be a string: what the user says", async () => {
  const file = fileOf(
    task('prompt: (row) => row.question, reward: () => ({ rewards: [], done: false, say: "Again." }),'),
  );
  const made = await envs.makeEnv(file);
  expect(await made.reset(0)).toEqual([core.user(core.text("1 + 1"))]);
  expect((await made.step("3")).observation).toEqual([core.user(core.text("Again."))]);
});

test.each<Row>([
  [
    "a string",
    task('reward: () => "1",'),
    /reward\(reply, row 0, 1\) must return a finite number or \{ rewards, done \}; got the string "1"/,
  ],
  ["nothing", task("reward() {},"), /reward\(reply, row 0, 1\) must return .* got undefined: is there a return\?/],
  ["true", task("reward: () => true,"), /reward\(reply, row 0, 1\) must return .* got true.*Number\(…\)/],
  ["NaN", task("reward: () => 0 / 0,"), /reward\(reply, row 0, 1\) must return a finite number.* got NaN/],
  [
    "{ reward }",
    task("reward: () => ({ reward: 1 }),"),
    /reward\(reply, row 0, 1\) must return `rewards`.*it is missing/,
  ],
  ["without done", task("reward: () => ({ rewards: [] }),"), /`done`, true or false; it is missing/],
  [
    "a part that is a string",
    task('reward: () => ({ rewards: [{ name: "task", value: "1" }], done: true }),'),
    /rewards\[0\]\.value \("task"\) must be a finite number; got the string "1"/,
  ],
  [
    "a part without a name",
    task("reward: () => ({ rewards: [{ value: 1 }], done: true }),"),
    /rewards\[0\]\.name must be .* got undefined/,
  ],
  [
    "numbers for parts",
    task("reward: () => ({ rewards: [1], done: true }),"),
    /rewards\[0\] must be \{ name, value \}.* got the number 1/,
  ],
  [
    "success as text",
    task('reward: () => ({ rewards: [], done: true, success: "yes" }),'),
    /`success`, true or false.*got the string "yes"/,
  ],
  [
    "words that are none",
    task("reward: () => ({ rewards: [], done: false, say: [5] }),"),
    /say\[0\] must be a message/,
  ],
  ["an answer that is a number", task("answer: () => 2,"), /answer\(row 0, 1\) must return a string; got the number 2/],
])("A task whose reward is %s", expectTaught);

const CALL = `'<tool_call>{"name": "go", "arguments": {"n": 1}}</tool_call>'`;
const tool = (run: string, more = "") =>
  task(
    `tools: [defineTool({ name: "go", description: "goes", input: z.object({ n: z.int() }), run: ${run}, ${more} })], answer: () => ${CALL},`,
  );

test.each<Row>([
  [
    "returns nothing",
    tool("() => {}"),
    /the tool go must return a string, an Image, a list of parts or \{ say, reward, done \}; got undefined/,
  ],
  ["returns a number", tool("() => 5"), /the tool go must return .* got the number 5/],
  ["returns another object", tool("() => ({ answer: 3 })"), /the tool go must return .* got an object with answer/],
  ["says a number", tool("() => ({ say: 5 })"), /the tool go: say must .* got the number 5/],
  [
    "pays a string",
    tool('() => ({ say: "x", reward: "1" })'),
    /the tool go must return `reward`, a finite number; got the string "1"/,
  ],
  ["has no code", tool("undefined"), /the tool "go": run must be a function; it is missing/],
  ["has no schema", tool('() => "x"', "input: { n: 1 },"), /the tool "go": input must be a zod object.*z\.object/],
  [
    "is not made with defineTool",
    task('tools: [{ name: "go", description: "x", run() {} }],'),
    /tools\[0\] must be made with defineTool/,
  ],
])("A tool that %s", expectTaught);

test.each<Row>([
  [
    "reset() a string",
    env('reset: () => "hello",'),
    /reset\(0\) must return a list of messages, such as \[user\(text\("…"\)\)\]; got the string "hello"/,
  ],
  [
    "reset() nothing",
    env("reset() {},"),
    /reset\(0\) must return a list of messages.* got undefined: is there a return\?/,
  ],
  [
    "step() nothing",
    env("step() {},"),
    /step\(reply\) must return \{ observation, rewards, terminated, truncated, info \}; got undefined/,
  ],
  [
    "step() a tuple",
    env("step: () => [[], 1, true, false, {}],"),
    /step\(reply\) must return \{ observation, .* got a list of 5/,
  ],
  [
    "step() a sum",
    env(`step: () => (${STEP}, rewards: undefined, reward: 1 }),`),
    /step\(reply\) must return `rewards`.*it is missing.*"reward".*"rewards"/,
  ],
  [
    "step() done",
    env(`step: () => (${STEP}, terminated: undefined, done: true }),`),
    /must return `terminated`, true or false; it is missing.*"done".*"terminated"/,
  ],
  ["step() without info", env(`step: () => (${STEP}, info: undefined }),`), /must return `info`.*it is missing/],
  [
    "step() with an image",
    env(`step: () => (${STEP}, observation: new Canvas(8, 8).toImage() }),`),
    /step\(reply\)\.observation must be a list of messages.* got an Image/,
  ],
  [
    "builtinReply() a number",
    env("builtinReply: () => 5,"),
    /builtinReply\("oracle"\) must return a string, null or undefined; got the number 5/,
  ],
])("An environment whose %s", expectTaught);

test("What is right is not complained about", async () => {
  for (const source of [world(""), task(""), env("")])
    expect((await complaint(source)).error.message).toBe("nothing was wrong");
});

test("A frozen world is checked like any other, and a world of the user's own keeps what is its own", async () => {
  const frozen = fileOf(`export default defineWorld({ id: "mine", create: () => Object.freeze({
    actions: [bare("left", "go")], reset() {}, act() {}, observe: () => "x", task: () => "Go.", success: () => true, solve: () => [act("left")],
  }) });`);
  await expect(play(frozen)).rejects.toThrow("act(left) must return { valid, reward, ended }; got undefined");
  const own = fileOf(`class Mine {
    #turn = 0; actions = [bare("left", "go")]; reset() { this.#turn = 0; } act() { this.#turn += 1; return { valid: true, reward: 0, ended: true }; }
    observe() { return "x"; } task() { return "Go."; } success() { return true; } solve() { return [act("left")]; } get turn() { return this.#turn; }
  }
  export default defineWorld({ id: "mine", create: () => new Mine() });`);
  const made = await envs.makeWorldEnv(own);
  await made.reset(0);
  await made.step((await made.builtinReply("oracle")) as string);
  expect(made.world).toMatchObject({ turn: 1 });
});
