import { describe, expect, test } from "vitest";
import { Image } from "../core/image.ts";
import { image, type Message, text, textOf, user } from "../core/message.ts";
import "../index.ts";
import { z } from "zod";
import { compileTemplate, type TemplateMessage } from "../model/template.ts";
import { writeCall } from "./protocols/tool-text.ts";
import { makeEnv, register } from "./registry.ts";
import { defineTask, type TaskInput } from "./task.ts";
import { defineTool } from "./tools.ts";

type Row = { readonly secret: number };
const testImage = new Image(4, 4, new Uint8Array(48).fill(9));
const guess = defineTool({
  name: "guess",
  description: "Guesses the number.",
  input: z.object({ number: z.int().min(0).describe("a whole number") }),
  run: ({ number }, { row, turn, maxTurns }: { row: Row; turn: number; maxTurns: number }) =>
    number === row.secret ? { say: "Yes.", reward: 1, done: true } : `No, try ${turn} of ${maxTurns}.`,
});
const look = defineTool({ name: "look", description: "Shows it.", input: z.object({}), run: () => testImage });
const broken = defineTool({
  name: "broken",
  description: "Never works.",
  input: z.object({}),
  run: () => {
    throw new Error("out of order");
  },
});
let made = 0;
async function task(changes: Partial<TaskInput<Row>> = {}, options: Record<string, unknown> = {}) {
  const definition = defineTask<Row>({
    id: `guesses-${made++}`,
    data: [{ secret: 7 }],
    tools: [guess, look, broken],
    prompt: () => [user(text("Which number?"))],
    ...changes,
  });
  register(definition);
  const env = await makeEnv(definition.id, options);
  return { env, first: await env.reset(0) };
}
const call = (name: string, args: unknown = {}) =>
  `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`;
const said = (messages: readonly Message[]) => messages.map(textOf).join("|");

describe("a reply that calls tools", () => {
  test("is answered by them and goes on; the tool may pay and end", async () => {
    const { env } = await task();
    const first = await env.step(`<think>hm</think>${call("guess", { number: 3 })}`);
    expect(first).toMatchObject({
      terminated: false,
      truncated: false,
      success: false,
      rewards: [{ name: "task", value: 0 }],
    });
    expect(said(first.observation)).toBe("<tool_response>\nNo, try 1 of 8.\n</tool_response>");
    const reply = `so ${call("guess", { number: 7 })}`;
    const second = await env.step(reply);
    expect(second).toMatchObject({ terminated: true, success: true, rewards: [{ name: "task", value: 1 }] });
    // Paid where the call ends.
    expect(reply.slice(...(second.rewards[0]?.span ?? [0, 0]))).toBe('{"name":"guess","arguments":{"number":7}}');
    expect(second.info.actions).toEqual([{ name: "guess", payload: { number: 7 } }]);
  });

  test("may show an image, and several calls are answered in order", async () => {
    const { env } = await task();
    const { observation, terminated } = await env.step(call("look") + call("guess", { number: 1 }));
    expect(terminated).toBe(false);
    expect(observation).toEqual([
      user(
        text("<tool_response>\n"),
        image(testImage),
        text("\n</tool_response>"),
        text("\n"),
        text("<tool_response>\n"),
        text("No, try 1 of 8."),
        text("\n</tool_response>"),
      ),
    ]);
  });

  test("calls behind the one that ended the episode are not run", async () => {
    let ran = 0;
    const count = defineTool({ name: "count", description: "Counts.", input: z.object({}), run: () => String(++ran) });
    const { env } = await task({ tools: [guess, count] });
    await env.step(call("guess", { number: 7 }) + call("count"));
    expect(ran).toBe(0);
  });

  test.each([
    [
      "arguments that do not fit",
      call("guess", { number: "seven" }),
      /The arguments of guess do not fit: number: .*expected number/,
    ],
    ["a number that is out of bounds", call("guess", { number: -1 }), /number: .*>=0/],
    ["arguments left out", '<tool_call>{"name":"guess"}</tool_call>', /The arguments of guess do not fit: number/],
    ["a tool that throws", call("broken"), /broken failed: out of order/],
    [
      "a tool that is not there",
      call("gues", { number: 7 }),
      /There is no such tool; did you mean guess\? The tools are guess, look, broken\./,
    ],
    ["no JSON", "<tool_call>guess 7</tool_call>", /not a JSON object/],
    ["no name", '<tool_call>{"arguments":{}}</tool_call>', /has no "name"/],
  ])("%s is a result that says so, costs the turn and ends nothing", async (_, reply, problem) => {
    const { env } = await task();
    const step = await env.step(reply);
    expect(step).toMatchObject({ terminated: false, info: { valid: false } });
    expect(said(step.observation)).toMatch(problem);
    expect(await env.step(call("guess", { number: 7 }))).toMatchObject({ success: true });
  });

  test("is the last when no turn is left", async () => {
    const { env } = await task({}, { maxTurns: 1 });
    expect(await env.step(call("guess", { number: 1 }))).toMatchObject({ terminated: false, truncated: true });
  });
});

test("a reply without a call is the last: reward() pays it, and nothing where there is none", async () => {
  const { env } = await task();
  expect(await env.step("It is 7.")).toMatchObject({ terminated: true, success: false, rewards: [{ value: 0 }] });
  const { env: graded } = await task({ reward: (reply, { secret }) => Number(reply.includes(String(secret))) });
  expect(await graded.step("It is 7.")).toMatchObject({ terminated: true, success: true, rewards: [{ value: 1 }] });
});

describe("tools are made known", () => {
  test("in a system message, as Qwen's template writes it", async () => {
    const { first } = await task({ tools: [guess] });
    expect(first.map(({ role }) => role)).toEqual(["system", "user"]);
    expect(textOf(first[0] as Message)).toBe(
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>\n" +
        '{"type": "function", "function": {"name": "guess", "description": "Guesses the number.", "parameters": {"type": "object", "properties": {"number": {"type": "integer", "minimum": 0, "maximum": 9007199254740991, "description": "a whole number"}}, "required": ["number"]}}}\n' +
        '</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
    );
  });

  test("behind a system message of the task's own", async () => {
    const system: Message = { role: "system", content: [text("Be brief.")] };
    const { first } = await task({ prompt: () => [system, user(text("Which?"))] });
    expect(first).toHaveLength(2);
    expect(textOf(first[0] as Message)).toMatch(/^Be brief\.\n\n# Tools\n/);
  });

  test("plainly in the prompt, and answered plainly", async () => {
    const { env, first } = await task({}, { form: "tags" });
    expect(first.map(({ role }) => role)).toEqual(["user"]);
    expect(said(first)).toMatch(/^Which number\?\n\nTools you can call:\n- guess: Guesses the number\./);
    expect(said((await env.step(call("guess", { number: 1 }))).observation)).toBe("No, try 1 of 8.");
  });
});

/** What Qwen3's chat template does with tools: signatures, calls and answers, ChatML around them. */
const QWEN = `{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- "# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>" }}
{%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
{{- "\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}{{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{%- if message.content or not loop.first %}{{- '\\n' }}{%- endif %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- endif %}
{%- endfor %}`;

test.each([["Be brief."], [undefined]])(
  "an episode reads as Qwen's template would write it from tools, calls and answers (system: %s)",
  async (system) => {
    const own: Message[] = system === undefined ? [] : [{ role: "system", content: [text(system)] }];
    const { env, first } = await task({ tools: [guess], prompt: () => [...own, user(text("Which number?"))] });
    const calls = [3, 9].map((number) => ({ name: "guess", arguments: { number } }));
    const reply = `Let me see.\n${calls.map((one) => writeCall(one.name, one.arguments, "qwen")).join("\n")}`;
    const { observation } = await env.step(reply);
    const template = compileTemplate(QWEN);
    const plain = (message: Message): TemplateMessage => ({ role: message.role, content: textOf(message) });
    const ours = [...first.map(plain), { role: "assistant", content: reply }, ...observation.map(plain)];
    const answers = [...textOf(observation[0] as Message).matchAll(/<tool_response>\n(.*)\n<\/tool_response>/g)];
    const theirs: TemplateMessage[] = [
      ...own.map(plain),
      { role: "user", content: "Which number?" },
      { role: "assistant", content: "Let me see.", tool_calls: calls.map((one) => ({ function: one })) },
      ...answers.map(([, answer]) => ({ role: "tool", content: answer as string })),
    ];
    const { name, description, parameters } = guess;
    const tools = [{ type: "function", function: { name, description, parameters } }];
    expect(answers).toHaveLength(2);
    expect(template(ours, false)).toBe(template(theirs, false, { tools }));
  },
);

test("two tools of one name, a name that can't be called and a task that pays nothing are refused", () => {
  expect(() => defineTask({ id: "twice", data: [1], tools: [look, look], prompt: () => [] })).toThrow(
    'two tools named "look"',
  );
  expect(() => defineTool({ name: "my tool", description: "", input: z.object({}), run: () => "" })).toThrow(
    "can't be the name of a tool",
  );
  expect(() => defineTask({ id: "unpaid", data: [1], prompt: () => [] })).toThrow("neither reward() nor tools");
});
