/** Programs that bring their own loop: what they ask for is what is trained, and what fails is never trained. */
import Anthropic from "@anthropic-ai/sdk";
import { generateText, stepCountIs, tool } from "ai";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type AgentInput, defineAgent } from "../envs/agent.ts";
import type { Driver } from "../envs/env.ts";
import { encodePng } from "../images/png.ts";
import { rowsOf } from "../train/batch.ts";
import { type TokenAgentOptions, tokenAgent } from "./agents.ts";
import { builtinAgent } from "./builtin-agents.ts";
import { playDriven } from "./drive.ts";
import { frame, type Script, ScriptedSampler, testModel } from "./test-model.ts";

const CALL = '<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>';
const png = (shade: number) => Buffer.from(encodePng(frame(shade))).toString("base64");

const look = tool({
  description: "Looks.",
  inputSchema: z.object({ at: z.number() }),
  execute: async ({ at }) => ({ shade: 10 * at }),
  toModelOutput: () => ({
    type: "content",
    value: [
      { type: "text", text: "this:" },
      { type: "image-data", data: png(90), mediaType: "image/png" },
    ],
  }),
});

type Task = { readonly answer: string };

async function play(
  agent: Partial<AgentInput<Task>>,
  script: Script | undefined,
  more: Partial<TokenAgentOptions> & { maxTurns?: number; episodeTimeoutMs?: number; blindfold?: boolean } = {},
) {
  const { maxTurns, episodeTimeoutMs, blindfold = false, ...options } = more;
  const definition = defineAgent<Task>({
    id: "looker",
    tasks: [{ answer: "left" }, { answer: "right" }],
    run: async () => 0,
    ...agent,
  });
  const sampler = new ScriptedSampler(script ?? (() => "left"), 5);
  const env = await definition.create({ blindfold });
  const factory =
    script === undefined
      ? builtinAgent("oracle")
      : tokenAgent({ model: testModel, sampler: () => sampler, temperature: 0.7, maxTokens: 100, ...options });
  const trajectory = await playDriven(
    {
      name: "looker",
      env,
      seed: 0,
      agent: factory({ env, seed: 0, sibling: 0, samplingSeed: 1 }),
      ...(maxTurns !== undefined && { maxTurns }),
      ...(episodeTimeoutMs !== undefined && { episodeTimeoutMs }),
    },
    env.driver as Driver,
  );
  return { trajectory, sampler };
}

const ask: AgentInput<Task>["run"] = async ({ task, model }) => {
  const { text } = await generateText({
    model,
    tools: { look },
    stopWhen: stepCountIs(4),
    prompt: "where?",
    maxRetries: 0,
  });
  return text === task.answer ? 1 : 0;
};

describe("An agent of the AI SDK", () => {
  test("is one sequence: its tool's image is seen, sampled from and trained, and its reward is on its last reply", async () => {
    const { trajectory, sampler } = await play({ run: ask }, (_, call) => (call === 0 ? CALL : "left"));
    expect(trajectory).toMatchObject({ end: "done", reward: 1, success: true, program: { paidBy: "run" } });
    expect(trajectory.turns.map(({ reply }) => reply)).toEqual([CALL, "left"]);
    expect(trajectory.turns.map(({ reward }) => reward)).toEqual([0, 1]);
    const [sequence] = trajectory.sequences;
    expect(trajectory.sequences).toHaveLength(1);
    expect(sequence?.images.map(({ image }) => image.hash)).toEqual([frame(90).hash]);
    expect(sampler.asked[1]?.prompt.images.map(({ image }) => image.hash)).toEqual([frame(90).hash]);
    expect(sequence?.ids.filter((_, i) => sequence.sampled[i] === 1)).toEqual(
      Int32Array.from(sampler.samples.flatMap(({ ids }) => [...ids])),
    );
    expect(sequence?.versions.includes(5)).toBe(true);
    expect(rowsOf(trajectory).map(({ rewards }) => rewards.reduce((a, b) => a + b, 0))).toEqual([1]);
  });

  test("sees grey under a blindfold", async () => {
    const { trajectory } = await play({ run: ask }, (_, call) => (call === 0 ? CALL : "left"), { blindfold: true });
    expect(trajectory.sequences[0]?.images.map(({ image }) => image.hash)).toEqual([frame(128).hash]);
  });

  test("is answered by its oracle, which leaves nothing to train", async () => {
    const { trajectory } = await play(
      {
        run: ask,
        oracle: ({ turn, task }) => (turn === 0 ? { calls: [{ name: "look", arguments: { at: 1 } }] } : task.answer),
      },
      undefined,
    );
    expect(trajectory).toMatchObject({ end: "done", reward: 1, sequences: [] });
    expect(trajectory.turns.map(({ reply }) => reply)).toEqual([CALL, "left"]);
  });

  test("pays by its reward function, which sees what was said", async () => {
    const { trajectory } = await play(
      {
        run: async (episode) => void (await ask(episode)),
        reward: ({ turns, task }) => [
          { name: "looked", value: turns.some(({ calls }) => calls.length > 0) ? 0.25 : 0 },
          { name: "right", value: turns.at(-1)?.reply === task.answer ? 0.75 : 0 },
        ],
      },
      (_, call) => (call === 0 ? CALL : "left"),
    );
    expect(trajectory).toMatchObject({ reward: 1, success: true, program: { paidBy: "reward" } });
  });
});

describe("Sub-agents", () => {
  test("are sequences of their own that share the reward, or have a part of it", async () => {
    const run: AgentInput<Task>["run"] = async ({ model }) => {
      const say = (prompt: string) => generateText({ model, prompt, maxRetries: 0 });
      await Promise.all([say("one"), say("two")]);
      await say("sum");
      return [
        { name: "task", value: 1 },
        { name: "own", value: 0.5, conversation: 0 },
      ];
    };
    const { trajectory } = await play({ run }, (_, call) => ["a", "b", "c"][call] as string);
    expect(trajectory.sequences).toHaveLength(3);
    const rows = rowsOf(trajectory).map(({ rewards }) => rewards.reduce((a, b) => a + b, 0));
    expect(rows).toEqual([0.5, 0, 1]);
    expect(trajectory.program?.branches).toHaveLength(3);
  });
});

describe("Other clients", () => {
  test("OpenAI's chat, streamed, with an image in the prompt", async () => {
    const run: AgentInput<Task>["run"] = async ({ baseURL, apiKey }) => {
      const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
      const url = `data:image/png;base64,${png(40)}`;
      const messages = [
        {
          role: "user" as const,
          content: [
            { type: "text" as const, text: "where?" },
            { type: "image_url" as const, image_url: { url } },
          ],
        },
      ];
      const stream = await client.chat.completions.create({ model: "m", messages, stream: true });
      let said = "";
      for await (const { choices } of stream) said += choices[0]?.delta.content ?? "";
      return said === "left" ? 1 : 0;
    };
    const { trajectory } = await play({ run }, () => "left");
    expect(trajectory).toMatchObject({ end: "done", reward: 1 });
    expect(trajectory.sequences[0]?.images.map(({ image }) => image.hash)).toEqual([frame(40).hash]);
  });

  test("Anthropic's, with a tool whose result is an image", async () => {
    const run: AgentInput<Task>["run"] = async ({ baseURL, apiKey }) => {
      const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey, maxRetries: 0 });
      const tools = [
        { name: "look", input_schema: { type: "object" as const, properties: { at: { type: "number" } } } },
      ];
      const messages: Anthropic.MessageParam[] = [{ role: "user", content: "where?" }];
      const common = { model: "m", max_tokens: 8000, tools };
      const first = await client.messages.create({ ...common, messages });
      const use = first.content.find((block) => block.type === "tool_use");
      if (use === undefined) return 0;
      const source = { type: "base64" as const, media_type: "image/png" as const, data: png(70) };
      messages.push(
        { role: "assistant", content: first.content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: [{ type: "image", source }] }] },
      );
      const second = await client.messages.create({ ...common, messages });
      return second.content[0]?.type === "text" && second.content[0].text === "left" ? 1 : 0;
    };
    const { trajectory } = await play({ run }, (_, call) => (call === 0 ? CALL : "left"));
    expect(trajectory).toMatchObject({ end: "done", reward: 1 });
    expect(trajectory.sequences).toHaveLength(1);
    expect(trajectory.sequences[0]?.images.map(({ image }) => image.hash)).toEqual([frame(70).hash]);
  });
});

describe("An episode is not trained", () => {
  const failing: [string, Partial<AgentInput<Task>>, Script, RegExp][] = [
    [
      "whose agent throws",
      {
        run: async (e) => {
          await ask(e);
          throw new Error("broken tool");
        },
      },
      () => "left",
      /broken tool/,
    ],
    ["whose agent asks nothing", { run: async () => 1 }, () => "left", /without a request/],
    ["without a reward", { run: async (e) => void (await ask(e)) }, () => "left", /gave no reward/],
  ];
  test.each(failing)("%s", async (_, agent, script, error) => {
    const { trajectory } = await play(agent, script);
    expect(trajectory).toMatchObject({ end: "env_error", sequences: [], success: false });
    expect(trajectory.error).toMatch(error);
  });

  test("whose sampler failed, also where the agent hides it", async () => {
    const run: AgentInput<Task>["run"] = (episode) => ask(episode).catch(() => 1);
    const { trajectory } = await play({ run }, () => Promise.reject(new Error("engine down")));
    expect(trajectory).toMatchObject({ end: "engine_error", sequences: [] });
    expect(trajectory.error).toMatch(/engine down/);
  });

  test("that hangs, and its address is closed", async () => {
    let address = "";
    const run: AgentInput<Task>["run"] = async (episode) => {
      await ask(episode);
      address = episode.baseURL;
      return new Promise(() => {});
    };
    const { trajectory } = await play({ run }, () => "left", { episodeTimeoutMs: 2000 });
    expect(trajectory).toMatchObject({ end: "env_timeout", sequences: [] });
    const answer = await fetch(`${address}/models`);
    expect(answer.status).toBe(410);
  });
});

describe("An episode is trained as far as it came", () => {
  test("where the context is full: the client is told, and what it had is kept", async () => {
    const run: AgentInput<Task>["run"] = async ({ model }) => {
      await generateText({ model, prompt: "where?", maxRetries: 0 });
      await generateText({ model, prompt: "where? ".repeat(80), maxRetries: 0 });
      return 1;
    };
    const { trajectory } = await play({ run }, () => "left", { contextTokens: 100 });
    expect(trajectory).toMatchObject({ end: "max_tokens", reward: 0, success: false });
    expect(trajectory.sequences).toHaveLength(1);
  });

  test("where it asked as often as it may", async () => {
    const { trajectory } = await play({ run: ask }, () => CALL, { maxTurns: 2 });
    expect(trajectory).toMatchObject({ end: "max_turns" });
    expect(trajectory.turns).toHaveLength(2);
    expect(trajectory.sequences).toHaveLength(1);
  });
});

describe("Only the policy is trained:", () => {
  const run: AgentInput<Task>["run"] = async ({ model }) => {
    await generateText({ model, prompt: "one", topP: 0.5, maxRetries: 0 });
    await generateText({ model, prompt: "two", temperature: 0.1, maxRetries: 0 });
    return 1;
  };
  test("top-p is refused in the vendor's form", async () => {
    const { trajectory } = await play({ run }, () => "left");
    expect(trajectory).toMatchObject({ end: "env_error" });
    expect(trajectory.error).toMatch(/top_p changes what the model would say/);
  });

  test("or served and left out; the temperature is the recipe's", async () => {
    const { trajectory, sampler } = await play({ run }, () => "left", { clientLimits: "exclude" });
    expect(trajectory).toMatchObject({ end: "done" });
    expect(sampler.asked.map(({ params }) => [params.topP, params.temperature])).toEqual([
      [0.5, 0.7],
      [undefined, 0.7],
    ]);
    expect(trajectory.sequences).toHaveLength(1);
    expect(trajectory.sequences[0]?.replies.map(({ turn }) => turn)).toEqual([1]);
    expect(trajectory.turns.map(({ reward }) => reward)).toEqual([0, 1]);
  });
});

describe("An address", () => {
  test("asks for its key, refuses pages of other sites and unknown routes, and counts tokens", async () => {
    const run: AgentInput<Task>["run"] = async (episode) => {
      const { baseURL, apiKey } = episode;
      const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "where?" }] });
      const post = (path: string, headers: Record<string, string>) =>
        fetch(`${baseURL}${path}`, {
          method: "POST",
          body,
          headers: { "content-type": "application/json", ...headers },
        });
      const found = [
        await post("/messages", {}),
        await post("/messages", { "x-api-key": `${apiKey}x` }),
        await post("/messages", { "x-api-key": apiKey, origin: "http://evil.example" }),
        await post("/nowhere", { "x-api-key": apiKey }),
        await post("/messages/count_tokens", { "x-api-key": apiKey }),
      ];
      expect(found.map(({ status }) => status)).toEqual([401, 401, 403, 404, 200]);
      expect(await found[4]?.json()).toEqual({ input_tokens: expect.any(Number) });
      return ask(episode);
    };
    const { trajectory } = await play({ run }, () => "left");
    expect(trajectory).toMatchObject({ end: "done", reward: 1 });
  });

  test("takes a posted reward", async () => {
    const run: AgentInput<Task>["run"] = async (episode) => {
      await ask(episode);
      const headers = { "content-type": "application/json", authorization: `Bearer ${episode.apiKey}` };
      const body = JSON.stringify({ reward: 0.5, success: true });
      await fetch(`${episode.baseURL.replace(/\/v1$/, "")}/reward`, { method: "POST", body, headers });
    };
    const { trajectory } = await play({ run }, () => "left");
    expect(trajectory).toMatchObject({ end: "done", reward: 0.5, success: true, program: { paidBy: "post" } });
  });
});

test("a request that is sent again with its Idempotency-Key acts once; equal requests without one are samples of their own", async () => {
  const run: AgentInput<Task>["run"] = async ({ baseURL, apiKey }) => {
    const ask = async (headers: Record<string, string>) => {
      const response = await fetch(`${baseURL}/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json", ...headers },
        body: JSON.stringify({ model: "policy", messages: [{ role: "user", content: "where?" }] }),
      });
      return (await response.json()) as { choices: { message: { content: string } }[] };
    };
    const [first, again] = [await ask({ "idempotency-key": "one" }), await ask({ "idempotency-key": "one" })];
    expect(again).toEqual(first);
    const others = [await ask({}), await ask({})];
    expect(others.map(({ choices }) => choices[0]?.message.content)).toEqual(["reply 1", "reply 2"]);
    return 1;
  };
  const { trajectory, sampler } = await play({ run }, (_, call) => `reply ${call}`);
  expect(trajectory.error).toBeUndefined();
  expect(sampler.samples).toHaveLength(3);
});
