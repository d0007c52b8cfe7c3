/**
 * Structured answers and forced calls of a model that was taught nothing, through the clients of OpenAI, Anthropic and Vercel, unmodified: the grammar alone
 * makes what it says valid. All three wires, whole and streamed.
 */

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { generateObject, generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { dataUri } from "./test-requests.ts";
import { type Served, serveTiny } from "./test-serve.ts";

const MODEL = "policy";
const LOOK = "Look at the image";
const IMAGE = dataUri(64, 96);
const BYTES = IMAGE.split(",")[1] as string;
const Sight = z.object({
  colour: z.enum(["red", "blue"]),
  count: z.int().min(0).max(9),
  marks: z.array(z.boolean()).min(1).max(3),
  note: z.string().max(12).nullable(),
});
const PRESS = {
  name: "press",
  description: "press a button",
  parameters: {
    type: "object",
    properties: { x: { type: "integer", minimum: 0, maximum: 63 }, hard: { type: "boolean" } },
    required: ["x", "hard"],
    additionalProperties: false,
  },
} as const;
const Pressed = z.strictObject({ x: z.int().min(0).max(63), hard: z.boolean() });

let served: Served;
let openai: OpenAI;
let anthropic: Anthropic;
beforeAll(async () => {
  served = await serveTiny();
  openai = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none", maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: served.url, apiKey: "none", maxRetries: 0 });
}, 60_000);
afterAll(() => served.close());

describe("the openai client", () => {
  const content = [
    { type: "text" as const, text: LOOK },
    { type: "image_url" as const, image_url: { url: IMAGE } },
  ];
  const asked = { model: MODEL, messages: [{ role: "user" as const, content }], max_tokens: 200 };
  const tools = [{ type: "function" as const, function: { ...PRESS, strict: true } }];

  test("parses chat completions into the schema, each of several", async () => {
    const { choices } = await openai.chat.completions.parse({
      ...asked,
      response_format: zodResponseFormat(Sight, "sight"),
      n: 3,
      seed: 1,
    });
    expect(choices.map(({ message }) => Sight.safeParse(message.parsed).success)).toEqual([true, true, true]);
    expect(new Set(choices.map(({ message }) => message.content)).size).toBeGreaterThan(1);
  });

  test("must call a tool when it is told to, whole and streamed", async () => {
    for (const choice of ["required", { type: "function", function: { name: "press" } }] as const) {
      const whole = await openai.chat.completions.create({ ...asked, tools, tool_choice: choice, seed: 2 });
      const calls = whole.choices[0]!.message.tool_calls!;
      expect(whole.choices[0]!.finish_reason).toBe("tool_calls");
      for (const call of calls) {
        if (call.type === "function") Pressed.parse(JSON.parse(call.function.arguments));
      }
      const stream = openai.chat.completions.stream({ ...asked, tools, tool_choice: choice, seed: 2 });
      const last = await stream.finalChatCompletion();
      const made = (list: typeof calls) => list.map((call) => call.type === "function" && call.function.arguments);
      expect(made(last.choices[0]!.message.tool_calls!).map((text) => JSON.parse(String(text)))).toEqual(
        made(calls).map((text) => JSON.parse(String(text))),
      );
    }
  });

  test("parses responses, and goes on from one by its id", async () => {
    const input = [
      {
        role: "user" as const,
        content: [
          { type: "input_text" as const, text: LOOK },
          { type: "input_image" as const, image_url: IMAGE, detail: "auto" as const },
        ],
      },
    ];
    const text = { format: zodTextFormat(Sight, "sight") };
    const first = await openai.responses.parse({ model: MODEL, input, text, max_output_tokens: 200 });
    Sight.parse(first.output_parsed);
    const next = { model: MODEL, input: "And now?", previous_response_id: first.id, text, max_output_tokens: 200 };
    const stream = openai.responses.stream(next);
    const last = await stream.finalResponse();
    Sight.parse(last.output_parsed);
    expect(last.usage!.input_tokens).toBeGreaterThan(first.usage!.input_tokens + first.usage!.output_tokens);
  });
});

describe("Vercel's AI SDK with its default model, which speaks Responses", () => {
  const model = () => createOpenAI({ baseURL: `${served.url}/v1`, apiKey: "none" })(MODEL);
  const messages = [
    {
      role: "user" as const,
      content: [
        { type: "text" as const, text: LOOK },
        { type: "image" as const, image: IMAGE },
      ],
    },
  ];
  const press = (pressed: unknown[]) =>
    tool({
      description: PRESS.description,
      inputSchema: jsonSchema<{ x: number; hard: boolean }>(PRESS.parameters as never),
      execute: async (given) => {
        pressed.push(given);
        return { seen: "a light" };
      },
      toModelOutput: () => ({
        type: "content",
        value: [
          { type: "text", text: "a light" },
          { type: "media", data: BYTES, mediaType: "image/png" },
        ],
      }),
    });

  test("generates objects", async () => {
    const { object } = await generateObject({ model: model(), schema: Sight, messages, maxOutputTokens: 200 });
    Sight.parse(object);
  });

  test("streams text with tools over several steps, with images in the results", async () => {
    const pressed: unknown[] = [];
    const stream = streamText({
      model: model(),
      messages,
      tools: { press: press(pressed) },
      toolChoice: "required",
      maxOutputTokens: 200,
      stopWhen: stepCountIs(3),
    });
    await stream.consumeStream();
    const steps = await stream.steps;
    expect(steps).toHaveLength(3);
    expect(pressed.length).toBeGreaterThanOrEqual(3);
    for (const given of pressed) Pressed.parse(given);
    const tokens = steps.map(({ usage }) => usage.inputTokens as number);
    // Calls and images of earlier steps are part of the prompt, though the client only names the calls.
    expect(tokens[1]! - tokens[0]!).toBeGreaterThan(20);
    expect(tokens[2]! - tokens[1]!).toBeGreaterThan(20);
  });

  test("ends with an object after its tools", async () => {
    const { output } = await generateText({
      model: model(),
      prompt: "Hello.",
      output: Output.object({ schema: Sight }),
      maxOutputTokens: 200,
    });
    Sight.parse(output);
  });
});

describe("Anthropic's client", () => {
  const image = {
    type: "image" as const,
    source: { type: "base64" as const, media_type: "image/png" as const, data: BYTES },
  };
  const asked = {
    model: MODEL,
    max_tokens: 200,
    messages: [{ role: "user" as const, content: [{ type: "text" as const, text: LOOK }, image] }],
    tools: [{ name: PRESS.name, description: PRESS.description, input_schema: PRESS.parameters as never }],
    tool_choice: { type: "any" as const },
  };

  test("calls tools, whole and streamed, and sends images back as their results", async () => {
    const first = await anthropic.messages.create(asked);
    const uses = first.content.filter((block) => block.type === "tool_use");
    expect([first.stop_reason, uses.length > 0]).toEqual(["tool_use", true]);
    for (const { input } of uses) Pressed.parse(input);
    const results = uses.map(({ id }) => ({ type: "tool_result" as const, tool_use_id: id, content: [image] }));
    const longer = {
      ...asked,
      tool_choice: { type: "tool" as const, name: "press" },
      messages: [
        ...asked.messages,
        { role: "assistant" as const, content: first.content },
        { role: "user" as const, content: results },
      ],
    };
    const last = await anthropic.messages.stream(longer).finalMessage();
    expect(last.content.map(({ type }) => type)).toEqual(["tool_use"]);
    for (const block of last.content) if (block.type === "tool_use") Pressed.parse(block.input);
    const { input_tokens: counted } = await anthropic.messages.countTokens({
      model: MODEL,
      messages: longer.messages,
      tools: longer.tools,
    });
    expect(counted).toBe(last.usage.input_tokens);
    expect(counted).toBeGreaterThan(first.usage.input_tokens + first.usage.output_tokens);
  });

  test("gets an object, and errors that it understands", async () => {
    const { tools: _, tool_choice: __, ...plain } = asked;
    const schema = z.toJSONSchema(Sight) as { [key: string]: unknown };
    const { content } = await anthropic.messages.create({
      ...plain,
      output_config: { format: { type: "json_schema", schema } },
    });
    Sight.parse(JSON.parse((content[0] as { text: string }).text));
    await expect(anthropic.messages.create({ ...plain, model: "nope" })).rejects.toBeInstanceOf(
      Anthropic.NotFoundError,
    );
    await expect(anthropic.messages.create({ ...plain, messages: [] })).rejects.toThrow(/at least one message/);
  });

  test("is understood through Vercel's AI SDK as well", async () => {
    const model = createAnthropic({ baseURL: `${served.url}/v1`, apiKey: "none" })(MODEL);
    const { toolCalls } = await generateText({
      model,
      prompt: "Go on.",
      tools: { press: tool({ inputSchema: Pressed }) },
      toolChoice: "required",
      maxOutputTokens: 200,
    });
    for (const { input } of toolCalls) Pressed.parse(input);
    expect(toolCalls.length).toBeGreaterThan(0);
  });
});

describe("a schema that can't be kept to", () => {
  test.each([
    ["not", { not: { type: "string" } }],
    ["multipleOf", { type: "number", multipleOf: 0.5 }],
    ["uniqueItems", { type: "array", uniqueItems: true }],
    ["if", { if: { type: "string" } }],
    ["patternProperties", { patternProperties: { a: {} } }],
  ])("is refused by its keyword (%s)", async (keyword, schema) => {
    const format = { type: "json_schema" as const, json_schema: { name: "x", schema } };
    const asked = { model: MODEL, messages: [{ role: "user" as const, content: "x" }], response_format: format };
    const refused = await openai.chat.completions.create(asked).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(OpenAI.BadRequestError);
    expect((refused as Error).message).toContain(`response_format: ${keyword}:`);
  });
});

describe("a retry", () => {
  const asked = { model: MODEL, messages: [{ role: "user", content: "Hello." }], max_tokens: 12, temperature: 1 };
  const post = async (body: object, headers: Record<string, string> = {}) => {
    const answer = await fetch(`${served.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
    return { status: answer.status, text: await answer.text() };
  };

  test("with the same key acts once; with another body under that key it is refused", async () => {
    const key = { "idempotency-key": "one" };
    const [first, second] = await Promise.all([post(asked, key), post(asked, key)]);
    expect(second).toEqual(first);
    expect(await post(Object.fromEntries(Object.entries(asked).reverse()), key)).toEqual(first);
    expect((await post({ ...asked, max_tokens: 3 }, key)).status).toBe(409);
  });

  test("that the client counts acts once; equal bodies that it does not count are samples of their own", async () => {
    const count = (n: number) => ({ "x-stainless-retry-count": String(n) });
    const streamed = { ...asked, stream: true };
    const first = await post(streamed, count(0));
    const sibling = await post(streamed, count(0));
    expect(sibling.text).not.toBe(first.text);
    expect((await post(streamed, count(1))).text).toBe(sibling.text);
    expect((await post(asked)).text).not.toBe((await post(asked)).text);
  });

  test("after an error acts again", async () => {
    const key = { "idempotency-key": "two" };
    expect((await post({ ...asked, model: "nope" }, key)).status).toBe(404);
    expect((await post(asked, key)).status).toBe(200);
  });
});
