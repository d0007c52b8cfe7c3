/** The three wires say the same conversation in three ways: what one reads, the others read too, and what is answered comes back in the vendor's form. */
import { describe, expect, test } from "vitest";
import type { JsonObject } from "../core/json.ts";
import { respondWith } from "./answer.ts";
import { ApiError } from "./errors.ts";
import type { WireAnswer, WireRequest } from "./wire.ts";
import { createWires } from "./wires.ts";

const wires = createWires();
const chat = wires["/v1/chat/completions"];
const responses = wires["/v1/responses"];
const messages = wires["/v1/messages"];

const PIXEL = "iVBORw0KGgo=";
const URI = `data:image/png;base64,${PIXEL}`;
const PARAMETERS = { type: "object", properties: { x: { type: "integer" } }, required: ["x"] };

const asChat = {
  model: "m",
  max_completion_tokens: 9,
  messages: [
    { role: "system", content: "Be brief." },
    {
      role: "user",
      content: [
        { type: "text", text: "Look" },
        { type: "image_url", image_url: { url: URI } },
      ],
    },
    {
      role: "assistant",
      content: [{ type: "text", text: "I press twice." }],
      reasoning_content: "a button",
      tool_calls: [
        { id: "a", type: "function", function: { name: "press", arguments: '{"x":1}' } },
        { id: "b", type: "function", function: { name: "press", arguments: '{"x":2}' } },
      ],
    },
    {
      role: "tool",
      tool_call_id: "a",
      content: [
        { type: "text", text: "seen" },
        { type: "image_url", image_url: { url: URI } },
      ],
    },
    { role: "tool", tool_call_id: "b", content: "gone" },
    { role: "user", content: "Go on." },
  ],
  tools: [{ type: "function", function: { name: "press", description: "a button", parameters: PARAMETERS } }],
  tool_choice: { type: "function", function: { name: "press" } },
  parallel_tool_calls: false,
  stop: ["END"],
};

const asResponses = {
  model: "m",
  max_output_tokens: 9,
  instructions: "Be brief.",
  input: [
    {
      role: "user",
      content: [
        { type: "input_text", text: "Look" },
        { type: "input_image", image_url: URI },
      ],
    },
    { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "a button" }] },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "I press twice." }] },
    { type: "function_call", call_id: "a", name: "press", arguments: '{"x":1}' },
    { type: "function_call", call_id: "b", name: "press", arguments: '{"x":2}' },
    {
      type: "function_call_output",
      call_id: "a",
      output: [
        { type: "input_text", text: "seen" },
        { type: "input_image", image_url: URI },
      ],
    },
    { type: "function_call_output", call_id: "b", output: "gone" },
    { role: "user", content: "Go on." },
  ],
  tools: [{ type: "function", name: "press", description: "a button", parameters: PARAMETERS, strict: true }],
  tool_choice: { type: "function", name: "press" },
  parallel_tool_calls: false,
  stop: ["END"],
};

const IMAGE = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } };
const asMessages = {
  model: "m",
  max_tokens: 9,
  system: [{ type: "text", text: "Be brief." }],
  messages: [
    { role: "user", content: [{ type: "text", text: "Look" }, IMAGE] },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "a button", signature: "s" },
        { type: "text", text: "I press twice." },
        { type: "tool_use", id: "a", name: "press", input: { x: 1 } },
        { type: "tool_use", id: "b", name: "press", input: { x: 2 } },
      ],
    },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "a", content: [{ type: "text", text: "seen" }, IMAGE] },
        { type: "tool_result", tool_use_id: "b", content: "gone" },
      ],
    },
    { role: "user", content: "Go on." },
  ],
  tools: [{ name: "press", description: "a button", input_schema: PARAMETERS }],
  tool_choice: { type: "tool", name: "press", disable_parallel_tool_use: true },
  stop_sequences: ["END"],
};

describe("a request", () => {
  const seen = ({ wire: _, writer: __, sampling, options, ...rest }: WireRequest) => ({
    ...rest,
    tools: [rest.tools, options.variables?.tools],
    sampled: [sampling.max_tokens, sampling.stop],
  });
  const expected = seen(chat.parse(asChat));

  test("means the same on every wire: images, thoughts, parallel calls, images in results, tools and stops", () => {
    expect(expected.messages).toEqual(asChat.messages);
    expect(expected).toMatchObject({ toolChoice: { name: "press" }, parallelCalls: false, sampled: [9, ["END"]] });
    expect(seen(responses.parse(asResponses))).toEqual(expected);
    expect(seen(messages.parse(asMessages))).toEqual(expected);
  });

  test("names its schema where the vendor has it", () => {
    const schema = { type: "object" };
    const hello = [{ role: "user", content: "hi" }];
    const found = [
      chat.parse({
        messages: hello,
        response_format: { type: "json_schema", json_schema: { name: "a", schema, strict: true } },
      }),
      responses.parse({ input: "hi", text: { format: { type: "json_schema", name: "a", schema } } }),
      messages.parse({ max_tokens: 1, messages: hello, output_config: { format: { type: "json_schema", schema } } }),
      messages.parse({ max_tokens: 1, messages: hello, output_format: { type: "json_schema", schema } }),
    ].map(({ format }) => format);
    expect(found.map((format) => format.type === "schema" && format.schema)).toEqual([schema, schema, schema, schema]);
  });

  test("that ends with the assistant's words goes on with them, on Anthropic's wire", () => {
    const asked = {
      max_tokens: 4,
      messages: [
        { role: "user", content: "A letter?" },
        { role: "assistant", content: "It is" },
      ],
    };
    expect(messages.parse(asked).options).toMatchObject({ generationPrompt: false, continueFinal: true });
  });

  test.each<[string, () => unknown]>([
    ["tools.0: web_search", () => responses.parse({ input: "x", tools: [{ type: "web_search" }] })],
    ["background", () => responses.parse({ input: "x", background: true })],
    ["conversation", () => responses.parse({ input: "x", conversation: "conv_1" })],
    ["previous_response_id|not known", () => responses.parse({ input: "x", previous_response_id: "resp_0" })],
    ["item_reference|not known", () => responses.parse({ input: [{ type: "item_reference", id: "msg_0" }] })],
    ["computer_call", () => responses.parse({ input: [{ type: "computer_call" }] })],
    ["max_tokens", () => messages.parse({ messages: [{ role: "user", content: "x" }] })],
    [
      "document",
      () =>
        messages.parse({ max_tokens: 1, messages: [{ role: "user", content: [{ type: "document", source: {} }] }] }),
    ],
    [
      "base64",
      () =>
        messages.parse({
          max_tokens: 1,
          messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url: "http://x" } }] }],
        }),
    ],
    [
      "not one of the tools",
      () => chat.parse({ ...asChat, tool_choice: { type: "function", function: { name: "pull" } } }),
    ],
    ["thinking", () => messages.parse({ ...asMessages, thinking: { type: "enabled", budget_tokens: 1024 } })],
  ])("with what can't be served (%s) is refused by name", (words, parse) => {
    const refused = (() => {
      try {
        parse();
        return undefined;
      } catch (error) {
        return error;
      }
    })();
    expect(refused).toBeInstanceOf(ApiError);
    expect((refused as ApiError).message).toMatch(new RegExp(words));
  });
});

const ANSWER: WireAnswer = {
  id: "1f",
  created: 7,
  model: "m",
  promptTokens: 20,
  choices: [
    {
      text: "Now: ",
      calls: [
        { id: "c", type: "function", function: { name: "press", arguments: '{"x":3}' } },
        { id: "d", type: "function", function: { name: "press", arguments: '{"x":4}' } },
      ],
      finish: "stop",
      stopReason: null,
      tokens: 5,
    },
  ],
};

async function events(response: Response): Promise<{ event: string | undefined; data: JsonObject }[]> {
  const blocks = (await response.text()).split("\n\n").filter((block) => block.includes("data: {"));
  return blocks.map((block) => ({
    event: /^event: (.*)$/m.exec(block)?.[1],
    data: JSON.parse(/^data: (.*)$/m.exec(block)?.[1] as string),
  }));
}

describe("an answer", () => {
  test("on the chat wire has its calls beside its text", async () => {
    const body = (await respondWith(chat.parse(asChat), ANSWER).json()) as JsonObject;
    expect(body).toMatchObject({
      id: "chatcmpl-1f",
      choices: [{ finish_reason: "tool_calls", message: { content: "Now: ", tool_calls: ANSWER.choices[0]!.calls } }],
      usage: { prompt_tokens: 20, completion_tokens: 5 },
    });
  });

  test("on the Responses wire is items, and the events build the same items", async () => {
    const body = (await respondWith(responses.parse(asResponses), ANSWER).json()) as { output: JsonObject[] };
    expect(body).toMatchObject({
      id: "resp_1f",
      status: "completed",
      output: [
        { type: "message", content: [{ type: "output_text", text: "Now: " }] },
        { type: "function_call", call_id: "c", name: "press", arguments: '{"x":3}' },
        { type: "function_call", call_id: "d" },
      ],
      usage: { input_tokens: 20, output_tokens: 5, total_tokens: 25 },
    });
    const stream = await events(respondWith(responses.parse({ ...asResponses, stream: true }), ANSWER));
    expect(stream.every(({ event, data }, i) => event === data.type && data.sequence_number === i)).toBe(true);
    const done = stream.filter(({ event }) => event === "response.output_item.done").map(({ data }) => data.item);
    const { response } = stream.at(-1)!.data as { response: { output: JsonObject[]; status: string } };
    expect([stream.at(-1)!.event, response.output]).toEqual(["response.completed", done]);
    const plain = (items: JsonObject[]) => items.map(({ id: _, ...item }) => item);
    expect(plain(response.output)).toEqual(plain(body.output));
  });

  test("can be named on the Responses wire, by item and whole, as long as it is remembered", async () => {
    const wire = createWires({ maxCharacters: 3000 })["/v1/responses"];
    const body = (await respondWith(wire.parse({ input: "one" }), ANSWER).json()) as { output: { id: string }[] };
    const more = { type: "function_call_output", call_id: "c", output: "ok" };
    const named = body.output.map(({ id }) => ({ type: "item_reference", id }));
    const byItem = wire.parse({ input: [{ role: "user", content: "one" }, ...named, more] });
    const whole = wire.parse({ input: [more], previous_response_id: "resp_1f" });
    expect(byItem.messages).toEqual(whole.messages);
    expect(whole.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    expect(whole.messages[1]).toMatchObject({ tool_calls: [{ id: "c" }, { id: "d" }] });
    for (let i = 0; i < 10; i++) {
      respondWith(wire.parse({ input: "another" }), { ...ANSWER, id: `other${i}` });
    }
    expect(() => wire.parse({ input: [more], previous_response_id: "resp_1f" })).toThrow(/not known/);
    respondWith(wire.parse({ input: "another", store: false }), { ...ANSWER, id: "unkept" });
    expect(() => wire.parse({ input: "x", previous_response_id: "resp_unkept" })).toThrow(/not known/);
  });

  test("on Anthropic's wire is blocks, and the events build the same blocks", async () => {
    const body = (await respondWith(messages.parse(asMessages), ANSWER).json()) as { content: JsonObject[] };
    expect(body).toMatchObject({
      id: "msg_1f",
      type: "message",
      stop_reason: "tool_use",
      content: [
        { type: "text", text: "Now: " },
        { type: "tool_use", id: "c", name: "press", input: { x: 3 } },
        { type: "tool_use", id: "d", name: "press", input: { x: 4 } },
      ],
      usage: { input_tokens: 20, output_tokens: 5 },
    });
    const stream = await events(respondWith(messages.parse({ ...asMessages, stream: true }), ANSWER));
    expect(stream.map(({ event }) => event)).toEqual([
      "message_start",
      ...Array(3).fill(["content_block_start", "content_block_delta", "content_block_stop"]).flat(),
      "message_delta",
      "message_stop",
    ]);
    expect(stream.at(-2)!.data).toMatchObject({ delta: { stop_reason: "tool_use" }, usage: { output_tokens: 5 } });
  });

  test("says why it ended, in the vendor's words", async () => {
    const ended = async (finish: "stop" | "length", stopReason: string | null) => {
      const answer = { ...ANSWER, choices: [{ ...ANSWER.choices[0]!, calls: [], finish, stopReason }] };
      const read = async <T>(request: WireRequest) => (await respondWith(request, answer).json()) as T;
      const { choices } = await read<{ choices: { finish_reason: string }[] }>(chat.parse(asChat));
      const { status } = await read<{ status: string }>(responses.parse(asResponses));
      const message = await read<{ stop_reason: string; stop_sequence: string | null }>(messages.parse(asMessages));
      return [choices[0]!.finish_reason, status, message.stop_reason, message.stop_sequence];
    };
    expect(await ended("stop", null)).toEqual(["stop", "completed", "end_turn", null]);
    expect(await ended("length", null)).toEqual(["length", "incomplete", "max_tokens", null]);
    expect(await ended("stop", "END")).toEqual(["stop", "completed", "stop_sequence", "END"]);
  });
});

test("errors are in the vendor's form", async () => {
  const error = new ApiError(404, "There is no such model.");
  expect([chat.error(error).status, await chat.error(error).json()]).toEqual([
    404,
    { error: { message: "There is no such model.", type: "NotFoundError", param: null, code: 404 } },
  ]);
  expect(await responses.error(error).json()).toMatchObject({ error: { message: "There is no such model." } });
  expect([messages.error(error).status, await messages.error(error).json()]).toEqual([
    404,
    { type: "error", error: { type: "not_found_error", message: "There is no such model." } },
  ]);
});
