/** What continues a conversation, what forks one, and that ids are sampled and trained once. */
import { describe, expect, test } from "vitest";
import { image, type Message, type Part, text, user } from "../core/message.ts";
import { decodeImage } from "../images/decode.ts";
import { encodePng } from "../images/png.ts";
import { OutOfTokens, PromptTooLong } from "./agents.ts";
import { Conversations } from "./conversations.ts";
import type { Said } from "./matching.ts";
import { frame, type Script, ScriptedSampler, testModel } from "./test-model.ts";

const CALL = '<tool_call>\n{"name": "look", "arguments": {"at": 1, "far": true}}\n</tool_call>';
const TOOLS = [{ type: "function", function: { name: "look" } }];

function said(reply: string): Said {
  const call = /<tool_call>([\s\S]*?)<\/tool_call>/.exec(reply);
  if (call === null) return { text: reply, calls: [] };
  const { name, arguments: given } = JSON.parse(call[1] as string) as { name: string; arguments: unknown };
  return { text: reply.slice(0, call.index), calls: [{ name, arguments: JSON.stringify(given) }] };
}

function start(script: Script, more: { contextTokens?: number } = {}) {
  const sampler = new ScriptedSampler(script, 3);
  const options = { model: testModel, sampler, temperature: 0.7, maxTokens: 200, contextTokens: 4096, ...more };
  const conversations = new Conversations({ ...options, name: "test", seed: [1, 2] });
  const ask = async (messages: readonly Message[], variables = {}, count = 1, untrained = false) => {
    const opened = await conversations.open({ messages, variables });
    const samples = await opened.sample({
      ...{ count, untrained, signal: new AbortController().signal },
      read: (ids) => said(testModel.renderer.decode(ids).text),
    });
    return { prompt: opened.prompt, samples };
  };
  return { sampler, conversations, ask };
}

const assistant = (reply: string, toolCalls?: { name: string; arguments: string; id?: string }[]): Message => ({
  role: "assistant",
  content: reply === "" ? [] : [text(reply)],
  ...(toolCalls && { toolCalls: toolCalls.map((call) => ({ id: "call-1", ...call })) }),
});
const tool = (...content: Part[]): Message => ({ role: "tool", toolCallId: "call-1", content });
const first: Message[] = [{ role: "system", content: [text("Look and say.")] }, user(text("where?"), image(frame(10)))];

/** Two turns, the reply of the first sent back as `back`. */
async function second(reply: string, back: Message, script?: Script) {
  const parts = start(script ?? ((_, call) => (call === 0 ? reply : "left")));
  const one = await parts.ask(first, { tools: TOOLS });
  const two = await parts.ask([...first, back, tool(text("a wall"), image(frame(90)))], { tools: TOOLS });
  return { ...parts, one, two };
}

describe("a request goes on with its conversation, and the sampled ids stay,", () => {
  const args = '{"at":1,"far":true}';
  test.each<[string, string, Message]>([
    ["as it was said", CALL, assistant("", [{ name: "look", arguments: args }])],
    [
      "with the keys of arguments in another order",
      CALL,
      assistant("", [{ name: "look", arguments: '{ "far":true, "at":1 }' }]),
    ],
    ["with another id of the call", CALL, assistant("", [{ name: "look", arguments: args, id: "toolu_9" }])],
    ["with white space trimmed", `  I look. \n${CALL}`, assistant("I look.", [{ name: "look", arguments: args }])],
    [
      "without its thoughts",
      `<think>hm, a wall?</think>I look.\n${CALL}`,
      assistant("I look.", [{ name: "look", arguments: args }]),
    ],
    [
      "without thoughts that the template opened",
      `hm, a wall?</think>I look.\n${CALL}`,
      assistant("I look.", [{ name: "look", arguments: args }]),
    ],
  ])("%s", async (_, reply, back) => {
    const { conversations, one, two } = await second(reply, back);
    const [sequence, ...others] = conversations.sequences();
    expect(others).toEqual([]);
    const sampled = one.samples[0]?.ids as Int32Array;
    const before = one.prompt.ids.length;
    expect(two.prompt.ids.slice(0, before)).toEqual(one.prompt.ids);
    expect(two.prompt.ids.slice(before, before + sampled.length)).toEqual(sampled);
    expect(sequence?.ids.filter((_, i) => sequence.sampled[i] === 1)).toEqual(
      Int32Array.from([...sampled, ...(two.samples[0]?.ids ?? [])]),
    );
    expect(sequence?.images.map(({ image }) => image.hash)).toEqual([frame(10).hash, frame(90).hash]);
  });

  test("with its text and its call in two messages", async () => {
    const parts = start((_, call) => (call === 0 ? `I look.\n${CALL}` : "left"));
    await parts.ask(first);
    await parts.ask([
      ...first,
      assistant("I look."),
      assistant("", [{ name: "look", arguments: args }]),
      tool(text("a wall")),
    ]);
    expect(parts.conversations.sequences()).toHaveLength(1);
  });

  test("with its images encoded anew", async () => {
    const parts = start(() => "left");
    await parts.ask(first);
    const again = await decodeImage(encodePng(frame(10)));
    const sent = [first[0] as Message, user(text("where?"), image(again)), assistant("left"), user(text("now?"))];
    await parts.ask(sent);
    expect(parts.conversations.sequences()).toHaveLength(1);
  });

  test("where the model did not end its turn, with the end forced and without loss", async () => {
    const ids = testModel.renderer.reply("left").slice(0, -1);
    const parts = start((_, call) => (call === 0 ? [...ids] : "right"));
    const one = await parts.ask(first);
    const two = await parts.ask([...first, assistant("left"), user(text("now?"))]);
    const at = one.prompt.ids.length + ids.length;
    expect(two.prompt.ids[at]).toBe(testModel.renderer.endOfTurn);
    const [sequence] = parts.conversations.sequences();
    expect(sequence?.forced).toEqual([at]);
    expect(sequence?.sampled[at]).toBe(0);
  });
});

describe("a request opens another conversation", () => {
  const args = '{"at":1,"far":true}';
  test.each<[string, Message]>([
    ["where an argument was changed", assistant("", [{ name: "look", arguments: '{"at":2,"far":true}' }])],
    ["where a call was left out", assistant("")],
    ["where words were changed", assistant("I look!", [{ name: "look", arguments: args }])],
  ])("%s", async (_, back) => {
    const { conversations, two } = await second(`I look.\n${CALL}`, back);
    expect(conversations.sequences()).toHaveLength(2);
    expect(conversations.branches()).toEqual([
      { at: 0, turns: [0] },
      { parent: 0, at: 2, turns: [1] },
    ]);
    // Nothing of the first conversation was sampled into what it shares, so it is rendered as the client has it.
    expect(two.prompt.ids).toEqual(
      testModel.renderer.prompt([...first, back, tool(text("a wall"), image(frame(90)))], {
        variables: { tools: TOOLS },
      }).ids,
    );
  });

  test("where an image has other pixels, the system text or the tools differ", async () => {
    const parts = start(() => "left");
    await parts.ask(first, { tools: TOOLS });
    const next = [assistant("left"), user(text("now?"))];
    await parts.ask([first[0] as Message, user(text("where?"), image(frame(11))), ...next], { tools: TOOLS });
    await parts.ask([{ role: "system", content: [text("Say.")] }, ...first.slice(1), ...next], { tools: TOOLS });
    await parts.ask([...first, ...next], {});
    expect(parts.conversations.sequences()).toHaveLength(4);
  });

  test("where it goes back to an earlier turn: sampled ids are kept as context and carry loss once", async () => {
    const parts = start((_, call) => ["left", "right", "up", "down"][call] as string);
    const one = await parts.ask(first);
    const turn = [...first, assistant("left"), user(text("now?"))];
    const two = await parts.ask(turn);
    await parts.ask([...turn, assistant("right"), user(text("and now?"))]);
    const four = await parts.ask([...turn, assistant("edited"), user(text("and now?"))]);
    const [main, fork] = parts.conversations.sequences();
    const shared = one.prompt.ids.length + (one.samples[0]?.ids.length as number);
    expect(four.prompt.ids.slice(0, shared)).toEqual(two.prompt.ids.slice(0, shared));
    expect(fork?.sampled.slice(0, shared).includes(1)).toBe(false);
    expect(main?.replies.map(({ turn }) => turn)).toEqual([0, 1, 2]);
    expect(fork?.replies.map(({ turn }) => turn)).toEqual([3]);
    expect(parts.conversations.branches()[1]).toEqual({ parent: 0, at: 4, turns: [3] });
  });

  test("for each of several answers, and goes on with the one that comes back", async () => {
    const parts = start((_, call) => ["left", "right", "up"][call] as string);
    const { samples } = await parts.ask(first, {}, 2);
    expect(samples.map(({ ids }) => testModel.renderer.decode(ids).text)).toEqual(["left", "right"]);
    await parts.ask([...first, assistant("right"), user(text("now?"))]);
    expect(parts.conversations.branches()).toEqual([
      { at: 0, turns: [0] },
      { parent: 0, at: 2, turns: [1, 2] },
    ]);
    const seeds = parts.sampler.asked.map(({ params }) => params.seed);
    expect(new Set(seeds).size).toBe(3);
  });

  test("where an equal request is being answered, and where it came before", async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const parts = start(async (_, call) => {
      if (call === 1) await gate;
      return ["left", "up", "down", "right"][call] as string;
    });
    await parts.ask(first);
    const next = [...first, assistant("left"), user(text("now?"))];
    const waiting = parts.ask(next);
    const other = parts.ask(next);
    await other;
    open();
    await waiting;
    await parts.ask(next);
    expect(parts.conversations.sequences().map(({ replies }) => replies.length)).toEqual([2, 1, 1]);
    const seeds = parts.sampler.asked.slice(1).map(({ params }) => params.seed);
    expect(new Set(seeds).size).toBe(3);
  });
});

describe("An answer", () => {
  test("that fails leaves no trace, and the request can be sent again", async () => {
    let fails = true;
    const parts = start((_, call) => {
      if (call === 1 && fails) throw new Error("lost");
      return "left";
    });
    await parts.ask(first);
    const next = [...first, assistant("left"), user(text("now?"))];
    await expect(parts.ask(next)).rejects.toThrow("lost");
    fails = false;
    await parts.ask(next);
    expect(parts.conversations.sequences()).toHaveLength(1);
    expect(parts.conversations.turns).toHaveLength(2);
  });

  test("that was not drawn from the policy is context without loss", async () => {
    const parts = start(() => "left");
    await parts.ask(first, {}, 1, true);
    expect(parts.conversations.sequences()).toEqual([]);
    await parts.ask([...first, assistant("left"), user(text("now?"))]);
    const [sequence] = parts.conversations.sequences();
    expect(sequence?.replies.map(({ turn }) => turn)).toEqual([1]);
  });

  test("needs room: the first prompt is our mistake, a later one a full context", async () => {
    const small = start(() => "left", { contextTokens: 12 });
    await expect(small.ask(first)).rejects.toThrow(PromptTooLong);
    const parts = start(() => "left", { contextTokens: 80 });
    await parts.ask(first);
    const long = [...first, assistant("left"), user(text("now? ".repeat(100)))];
    await expect(parts.ask(long)).rejects.toThrow(OutOfTokens);
    await parts.ask([...first, assistant("left"), user(text("now?"))]);
    expect(parts.conversations.sequences()).toHaveLength(1);
  });

  test("releases what its sampler keeps when the episode is over", async () => {
    const parts = start(() => "left");
    await parts.ask(first, {}, 2);
    parts.conversations.close();
    expect(new Set(parts.sampler.released)).toEqual(new Set(parts.sampler.asked.map(({ sequence }) => sequence)));
  });
});
