import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DataError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { assistant, image, imagesOf, text, user } from "../core/message.ts";
import { fromOpenAI, toOpenAI } from "./openai.ts";
import { encodePng } from "./png.ts";

const uri = (testImage: Image) => `data:image/png;base64,${Buffer.from(encodePng(testImage)).toString("base64")}`;
const dot = new Image(1, 1, Uint8Array.of(9, 8, 7));

/** JSON as it arrives: `-0` has no JSON form. */
const json = fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.parse(JSON.stringify(value)));
const testImage = fc
  .tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 4 }))
  .chain(([width, height]) =>
    fc
      .uint8Array({ minLength: width * height * 3, maxLength: width * height * 3 })
      .map((data) => new Image(width, height, data)),
  );

/** An object with these fields, some absent, and unknown ones beside them. */
function record(required: Record<string, fc.Arbitrary<unknown>>, optional: Record<string, fc.Arbitrary<unknown>> = {}) {
  const known = fc.record({ ...required, ...optional }, { requiredKeys: Object.keys(required) });
  const extra = fc.dictionary(
    fc.string({ minLength: 1 }).map((key) => `x_${key}`),
    json,
    { maxKeys: 2 },
  );
  return fc.tuple(extra, known).map(([unknown, fields]) => ({ ...unknown, ...fields }));
}

const textPart = record({ type: fc.constant("text"), text: fc.string() });
const imagePart = record({
  type: fc.constant("image_url"),
  image_url: record({ url: testImage.map(uri) }, { detail: fc.constantFrom("low", "high", "auto") }),
});
const toolCall = record({
  id: fc.string(),
  type: fc.constant("function"),
  function: record({ name: fc.string(), arguments: fc.string() }),
});
const wireMessage = record(
  { role: fc.constantFrom("system", "developer", "user", "assistant", "tool") },
  {
    content: fc.oneof(fc.string(), fc.constant(null), fc.array(fc.oneof(textPart, imagePart), { maxLength: 4 })),
    name: fc.oneof(fc.string(), fc.constant(null)),
    tool_calls: fc.oneof(fc.array(toolCall, { maxLength: 3 }), fc.constant(null)),
    tool_call_id: fc.oneof(fc.string(), fc.constant(null)),
  },
);

describe("toOpenAI and fromOpenAI", () => {
  test("writing what was read gives the same JSON", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(wireMessage, { maxLength: 4 }), async (wire) => {
        expect(toOpenAI(await fromOpenAI(wire))).toEqual(wire);
      }),
      { numRuns: 200 },
    );
  });

  test("reading what was written gives the same pixels, in order", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(testImage, { maxLength: 4 }), async (shownImages) => {
        const message = user(text("look"), ...shownImages.map(image), text("what now?"));
        const [read] = await fromOpenAI(JSON.parse(JSON.stringify(toOpenAI([message]))));
        expect(read).toEqual(message);
        expect(imagesOf(read!).map((one) => one.hash)).toEqual(shownImages.map((one) => one.hash));
      }),
      { numRuns: 50 },
    );
  });

  test("messages made by hand take the usual form", () => {
    const call = { id: "c1", name: "move", arguments: '{"to": 1}' };
    expect(
      toOpenAI([
        user(text("hi")),
        user(image(dot)),
        assistant(""),
        { role: "assistant", content: [], toolCalls: [call] },
        { role: "tool", content: [text("done")], toolCallId: "c1" },
      ]),
    ).toEqual([
      { role: "user", content: "hi" },
      { role: "user", content: [{ type: "image_url", image_url: { url: uri(dot) } }] },
      { role: "assistant", content: "" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c1", type: "function", function: { name: "move", arguments: '{"to": 1}' } }],
      },
      { role: "tool", content: "done", tool_call_id: "c1" },
    ]);
  });

  test("a plain message read from JSON equals one made by hand", async () => {
    expect(await fromOpenAI([{ role: "user", content: "hi" }])).toEqual([user(text("hi"))]);
  });

  const withPart = (part: unknown) => [{ role: "user", content: [{ type: "text", text: "" }, part] }];
  test.each([
    ["not a list", { role: "user" }, "messages must be a list"],
    ["a message that is not an object", [null], "messages[0] must be an object"],
    ["no role", [{ content: "x" }], "messages[0].role is missing; it must be a string"],
    ["an unknown role", [{ role: "robot" }], "messages[0].role is 'robot'; it must be one of"],
    ["a number for content", [{ role: "user", content: 3 }], "messages[0].content must be a string, a list of parts"],
    ["a part of another type", withPart({ type: "input_audio" }), "messages[0].content[1].type is 'input_audio'"],
    ["a part without type", withPart({ text: "x" }), "messages[0].content[1].type is missing"],
    ["a text part without text", withPart({ type: "text", text: 1 }), "messages[0].content[1].text must be a string"],
    [
      "an image part with a bare string",
      withPart({ type: "image_url", image_url: "data:" }),
      "messages[0].content[1].image_url must be an object",
    ],
    [
      "a web address",
      withPart({ type: "image_url", image_url: { url: "https://x.org/a.png" } }),
      "messages[0].content[1].image_url.url: this is a web address, and Saccade downloads nothing: embed",
    ],
    [
      "a path",
      withPart({ type: "image_url", image_url: { url: "a.png" } }),
      "messages[0].content[1].image_url.url: this must be a data URI",
    ],
    [
      "image bytes that are none",
      withPart({ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }),
      "messages[0].content[1].image_url.url: This image is of an unknown format",
    ],
    [
      "a tool call of another type",
      [{ role: "assistant", tool_calls: [{ id: "1", type: "custom" }] }],
      "messages[0].tool_calls[0].type is 'custom'",
    ],
    [
      "a tool call without arguments",
      [{ role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "f" } }] }],
      "messages[0].tool_calls[0].function.arguments is missing",
    ],
    ["tool calls that are no list", [{ role: "assistant", tool_calls: {} }], "messages[0].tool_calls must be a list"],
    ["a name that is no string", [{ role: "user", name: 1 }], "messages[0].name must be a string"],
  ])("refuses %s and names the place", async (_, wire, message) => {
    await expect(fromOpenAI(wire)).rejects.toThrow(DataError);
    await expect(fromOpenAI(wire)).rejects.toThrow(message);
  });
});
