/**
 * The official `openai` client and Vercel's AI SDK, unmodified, with a model that was taught to call a tool: chat with images, tools, streams and
 * log-probabilities. What one of them reads, the other reads too.
 */
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { JsonObject } from "../core/json.ts";
import { image, type Message, text, user } from "../core/message.ts";
import { decodePng } from "../images/png.ts";
import { loadChat } from "../model/chat.ts";
import { dataUri } from "./test-requests.ts";
import { type Served, serveTiny } from "./test-serve.ts";

const CALL = '<tool_call>\n{"name": "walk", "arguments": {"way": "up"}}\n</tool_call>';
const WALK = {
  type: "function" as const,
  function: {
    name: "walk",
    description: "take a step",
    parameters: { type: "object", properties: { way: { type: "string" } }, required: ["way"] },
  },
};
const IMAGE = dataUri(64, 96);
const SAID = "You moved up.";
const ASKED = "Look at the image";
const model = "policy";

let served: Served;
let openai: OpenAI;
beforeAll(async () => {
  served = await serveTiny();
  await teach(served);
  openai = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none", maxRetries: 0 });
}, 300_000);
afterAll(() => served.close());

/** Until it says nothing else: a sentence of an image, and a call where there is a tool. */
async function teach({ engine, folder, url }: Served): Promise<void> {
  const { renderer, tokenizer, generation } = await loadChat(folder);
  const learner = await engine.learner({ folder, seed: 1 });
  const seen = image(decodePng(Buffer.from(IMAGE.split(",")[1] as string, "base64")));
  const lessons: [Message[], string, JsonObject][] = [
    [[user(text(ASKED), seen)], SAID, {}],
    [[user(text("Go on."))], CALL, { tools: [WALK] as unknown as JsonObject[] }],
    [[user(text("Hello."))], SAID, {}],
  ];
  const data = lessons.map(([messages, reply, variables]) => {
    const prompt = renderer.prompt(messages, { variables });
    const said = [...tokenizer.encode(reply), ...[...generation.eos].slice(0, 1)];
    const ids = Int32Array.from([...prompt.ids, ...said]);
    const targets = new Int32Array(ids.length).fill(-1);
    const weights = new Float32Array(ids.length);
    for (const [i, id] of said.entries()) {
      targets[prompt.ids.length - 1 + i] = id;
      weights[prompt.ids.length - 1 + i] = 1 / said.length;
    }
    return { input: { ids, images: prompt.images }, targets, weights };
  });
  for (let step = 0; step < 150; step++) {
    await learner.forwardBackward(data, { name: "cross-entropy" });
    await learner.step({ name: "adamw", learningRate: 0.01, maxGradNorm: 1 });
  }
  await learner.export(`${folder}-taught`);
  await learner.close();
  const body = JSON.stringify({ method: "reload_weights", kwargs: { weights_path: "model-taught" } });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${url}/collective_rpc`, { method: "POST", headers, body });
  expect(answer.status, await answer.text()).toBe(200);
}

describe("the openai client", () => {
  const greedy = { model, temperature: 0, max_tokens: 64 };
  const look = [
    {
      role: "user" as const,
      content: [
        { type: "text" as const, text: ASKED },
        { type: "image_url" as const, image_url: { url: IMAGE } },
      ],
    },
  ];

  test("chats about an image, with log-probabilities", async () => {
    const { choices } = await openai.chat.completions.create({
      ...greedy,
      messages: look,
      logprobs: true,
      top_logprobs: 2,
    });
    expect(choices[0]).toMatchObject({ finish_reason: "stop", message: { content: SAID } });
    const content = choices[0]!.logprobs!.content!;
    expect(content.map(({ token }) => token).join("")).toContain(SAID);
    expect(content.every(({ logprob, top_logprobs: top }) => logprob <= 0 && top[0]!.logprob === logprob)).toBe(true);
  });

  test("gets a tool call, whole and streamed, and a runner of the client's calls the tool", async () => {
    const asked = { ...greedy, messages: [{ role: "user" as const, content: "Go on." }], tools: [WALK] };
    const { choices } = await openai.chat.completions.create(asked);
    const call = choices[0]!.message.tool_calls![0] as OpenAI.ChatCompletionMessageFunctionToolCall;
    expect([choices[0]!.finish_reason, call.function]).toEqual([
      "tool_calls",
      { name: "walk", arguments: '{"way":"up"}' },
    ]);
    const stream = openai.chat.completions.stream(asked);
    const last = await stream.finalChatCompletion();
    expect(last.choices[0]!.message.tool_calls![0]).toMatchObject({ function: call.function });
    const walked: string[] = [];
    const walk = { ...WALK.function, parse: JSON.parse, function: ({ way }: { way: string }) => void walked.push(way) };
    const runner = openai.chat.completions.runTools(
      { ...asked, tools: [{ type: "function", function: walk }] } as unknown as Parameters<
        typeof openai.chat.completions.runTools
      >[0],
      { maxChatCompletions: 1 },
    );
    await runner.done();
    expect(walked).toEqual(["up"]);
  });
});

describe.each([
  [
    "@ai-sdk/openai-compatible",
    () => createOpenAICompatible({ name: "saccade", baseURL: `${served.url}/v1`, includeUsage: true })(model),
  ],
  ["@ai-sdk/openai", () => createOpenAI({ baseURL: `${served.url}/v1`, apiKey: "none" }).chat(model)],
])("Vercel's AI SDK with %s", (_, make) => {
  const content = [
    { type: "text" as const, text: ASKED },
    { type: "image" as const, image: IMAGE },
  ];

  test("chats about an image, whole and streamed", async () => {
    const asked = {
      model: make(),
      temperature: 0,
      maxOutputTokens: 64,
      messages: [{ role: "user" as const, content }],
    };
    const whole = await generateText(asked);
    expect([whole.text, whole.finishReason]).toEqual([SAID, "stop"]);
    const stream = streamText(asked);
    const pieces: string[] = [];
    for await (const piece of stream.textStream) pieces.push(piece);
    expect(pieces.join("")).toBe(SAID);
    expect(pieces.length).toBeGreaterThan(1);
    expect((await stream.usage).outputTokens).toBe(whole.usage.outputTokens);
  });

  test("calls the tool, whole and streamed", async () => {
    const walked: string[] = [];
    const walk = tool({
      description: WALK.function.description,
      inputSchema: jsonSchema<{ way: string }>(WALK.function.parameters as Parameters<typeof jsonSchema>[0]),
      execute: async ({ way }) => {
        walked.push(way);
        return "done";
      },
    });
    const asked = {
      model: make(),
      temperature: 0,
      maxOutputTokens: 64,
      prompt: "Go on.",
      tools: { walk },
      stopWhen: stepCountIs(1),
    };
    const whole = await generateText(asked);
    expect(whole.toolCalls.map(({ toolName, input }) => [toolName, input])).toEqual([["walk", { way: "up" }]]);
    const stream = streamText(asked);
    await stream.consumeStream();
    expect((await stream.toolCalls).map(({ input }) => input)).toEqual([{ way: "up" }]);
    expect(walked).toEqual(["up", "up"]);
  });
});

test("Vercel's AI SDK gets log-probabilities", async () => {
  const { providerMetadata } = await generateText({
    model: createOpenAI({ baseURL: `${served.url}/v1`, apiKey: "none" }).chat(model),
    temperature: 0,
    prompt: "Hello.",
    maxOutputTokens: 16,
    providerOptions: { openai: { logprobs: 2 } },
  });
  const logprobs = providerMetadata?.openai?.logprobs as unknown as { token: string; logprob: number }[];
  expect(logprobs.length).toBeGreaterThan(1);
  expect(logprobs.every(({ logprob }) => logprob <= 0)).toBe(true);
});
