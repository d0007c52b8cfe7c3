/** The OpenAI face: what the official SDK and our own evaluation get from it, and what it refuses. */
import { connect } from "node:net";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image } from "../core/image.ts";
import { image, text, user } from "../core/message.ts";
import { openModel } from "../evaluate/models.ts";
import { loadChat } from "../model/chat.ts";
import { dataUri } from "./test-requests.ts";
import { type Served, serveTiny } from "./test-serve.ts";

let served: Served;
let client: OpenAI;
beforeAll(async () => {
  served = await serveTiny();
  client = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none", maxRetries: 0 });
});
afterAll(() => served.close());

const MESSAGES = [{ role: "user" as const, content: "You moved up. Look at the image" }];
const LOOK = [
  {
    role: "user" as const,
    content: [
      { type: "text" as const, text: "Look: " },
      { type: "image_url" as const, image_url: { url: dataUri(64, 96) } },
    ],
  },
];
const greedy = { model: "policy", temperature: 0, max_tokens: 8 };
type Extra = { token_ids?: number[] };
/** Fields of vLLM that OpenAI's types do not have. */
const more = (fields: object) => fields as object as Record<never, never>;

describe("the official SDK", () => {
  test("lists the model", async () => {
    const models = await client.models.list();
    expect(models.data.map(({ id }) => id)).toEqual(["policy"]);
  });

  test("chats about an image, and gets the ids, log-probabilities and text that the sampler gave", async () => {
    const answer = await client.chat.completions.create({
      ...greedy,
      messages: LOOK,
      logprobs: true,
      top_logprobs: 2,
      ...more({ return_token_ids: true }),
    });
    const [choice] = answer.choices;
    const ids = (choice as Extra).token_ids as number[];
    const sampler = await served.engine.sampler(served.folder);
    const { renderer, tokenizer, generation } = await loadChat(served.folder);
    const data = Buffer.from(LOOK[0]!.content[1]!.image_url!.url.split(",")[1]!, "base64");
    const { decodePng } = await import("../images/png.ts");
    const prompt = renderer.prompt([user(text("Look: "), image(decodePng(data)))]);
    const sample = await sampler.sample(
      prompt,
      { maxTokens: 8, temperature: 0, seed: 0, stopIds: generation.eos },
      { sequence: "check" },
    );
    await sampler.close();
    expect(ids).toEqual([...sample.ids]);
    expect(choice!.logprobs!.content!.map(({ logprob }) => Math.fround(logprob))).toEqual([...sample.logprobs]);
    expect(choice!.logprobs!.content!.every(({ top_logprobs: top }) => top.length === 2)).toBe(true);
    expect(tokenizer.decode(ids, { skipSpecial: true })).toContain(choice!.message.content);
    expect(answer.usage).toMatchObject({ prompt_tokens: prompt.ids.length, completion_tokens: ids.length });
  });

  test("a stream's pieces are the whole answer, with usage at the end", async () => {
    const asked = { ...greedy, messages: MESSAGES, max_tokens: 24, ...more({ return_token_ids: true }) };
    const whole = await client.chat.completions.create({ ...asked, stream: false });
    const stream = await client.chat.completions.create({
      ...asked,
      stream: true,
      stream_options: { include_usage: true },
    });
    let said = "";
    const ids: number[] = [];
    const ends: unknown[] = [];
    let usage: unknown;
    for await (const { choices, usage: counted } of stream) {
      said += choices[0]?.delta.content ?? "";
      ids.push(...((choices[0] as Extra | undefined)?.token_ids ?? []));
      if (choices[0]?.finish_reason) ends.push(choices[0].finish_reason);
      usage ??= counted;
    }
    expect(said).toBe(whole.choices[0]!.message.content);
    expect(ids).toEqual((whole.choices[0] as Extra).token_ids);
    expect(ends).toEqual([whole.choices[0]!.finish_reason]);
    expect(usage).toMatchObject({ completion_tokens: ids.length });
  });

  test("the same seed gives the same answers, and choices of one request differ", async () => {
    const asked = { model: "policy", messages: MESSAGES, max_tokens: 12, temperature: 1, n: 3, seed: 5 };
    const [first, second] = [await client.chat.completions.create(asked), await client.chat.completions.create(asked)];
    const words = first.choices.map(({ message }) => message.content);
    expect(second.choices.map(({ message }) => message.content)).toEqual(words);
    expect(new Set(words).size).toBeGreaterThan(1);
  });

  test("many choices of one request are no leak of listeners to Node", async () => {
    const warnings: Error[] = [];
    const warn = (warning: Error) => warnings.push(warning);
    process.on("warning", warn);
    const { choices } = await client.chat.completions.create({
      model: "policy",
      messages: MESSAGES,
      max_tokens: 2,
      n: 20,
    });
    await new Promise((done) => setImmediate(done));
    process.off("warning", warn);
    expect([choices.length, warnings.map(({ name }) => name)]).toEqual([20, []]);
  });

  test("a stop string ends an answer and is not in it, streamed or whole", async () => {
    const asked = { ...greedy, messages: MESSAGES, max_tokens: 24 };
    const full = (await client.chat.completions.create(asked)).choices[0]!.message.content!;
    const stop = full.slice(2, 4);
    const cut = await client.chat.completions.create({ ...asked, stop });
    expect(cut.choices[0]).toMatchObject({
      finish_reason: "stop",
      message: { content: full.slice(0, full.indexOf(stop)) },
    });
    let said = "";
    for await (const piece of await client.chat.completions.create({ ...asked, stop: [stop], stream: true })) {
      said += piece.choices[0]?.delta.content ?? "";
    }
    expect(said).toBe(full.slice(0, full.indexOf(stop)));
  });

  test("tools reach the model's prompt", async () => {
    const tools = [{ type: "function" as const, function: { name: "walk_there", parameters: { type: "object" } } }];
    const answer = await client.chat.completions.create({
      ...greedy,
      messages: MESSAGES,
      tools,
      ...more({ return_token_ids: true }),
    });
    const { tokenizer } = await loadChat(served.folder);
    const prompt = tokenizer.decode((answer as unknown as { prompt_token_ids: number[] }).prompt_token_ids);
    expect(prompt).toContain('"name": "walk_there"');
    expect(answer.choices).toHaveLength(1);
  });

  test("completes text and ids", async () => {
    const asked = { ...greedy, logprobs: 1 };
    const byText = await client.completions.create({ ...asked, prompt: "You moved" });
    const { tokenizer } = await loadChat(served.folder);
    const byIds = await client.completions.create({ ...asked, prompt: [...tokenizer.encode("You moved")] });
    expect(byIds.choices[0]!.text).toBe(byText.choices[0]!.text);
    expect(byText.choices[0]!.logprobs!.tokens).toHaveLength(byText.usage!.completion_tokens);
    const pieces: string[] = [];
    for await (const piece of await client.completions.create({ ...greedy, prompt: "You moved", stream: true })) {
      pieces.push(piece.choices[0]!.text);
    }
    expect(pieces.join("")).toBe(byText.choices[0]!.text);
  });

  test.each<[string, object, number]>([
    ["an unknown model", { model: "other" }, 404],
    [
      "an image on the web",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "http://127.0.0.1/x.png" } }] }] },
      400,
    ],
    [
      "an image in a file",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "file:///etc/passwd" } }] }] },
      400,
    ],
    ["a penalty that no engine knows", { presence_penalty: 1 }, 400],
    [
      "a call of a tool that is not there",
      {
        tools: [{ type: "function", function: { name: "x" } }],
        tool_choice: { type: "function", function: { name: "y" } },
      },
      400,
    ],
  ])("%s is an APIError with status and message", async (_, change, status) => {
    const asked = { ...greedy, messages: MESSAGES, ...change } as typeof greedy & { messages: typeof MESSAGES };
    await expect(client.chat.completions.create(asked)).rejects.toMatchObject({ status });
  });

  test("who leaves a stream ends its work", async () => {
    const stream = await client.chat.completions.create({
      model: "policy",
      messages: MESSAGES,
      max_tokens: 900,
      stream: true,
      ...more({ ignore_eos: true }),
    });
    for await (const piece of stream) if (piece.choices[0]?.delta.content) break;
    await expect
      .poll(async () => await (await fetch(`${served.url}/metrics`)).text())
      .toMatch(/num_requests_running\{[^}]*\} 0\n[\s\S]*finished_reason="abort"\} 1\n/);
  });
});

test("our own evaluation plays against it by url#name", async () => {
  const model = await openModel(`${served.url}/v1#policy`, { temperature: 0, maxTokens: 8 });
  const agent = model.agent({ seed: 1 } as never);
  const testImage = new Image(64, 64, new Uint8Array(64 * 64 * 3).fill(90));
  const reply = await agent.reply([user(text("Go on. "), image(testImage))], AbortSignal.timeout(60_000));
  expect(reply).toBeDefined();
  await model.close();
});

describe("tokens", () => {
  const post = async (path: string, body: object) => {
    const headers = { "content-type": "application/json" };
    return (await fetch(`${served.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) })).json();
  };

  test("text goes to ids and back; messages are rendered", async () => {
    const { tokenizer, renderer } = await loadChat(served.folder);
    const asked = await post("/tokenize", { prompt: "You moved up.", return_token_strs: true });
    expect(asked).toMatchObject({ tokens: [...tokenizer.encode("You moved up.")], max_model_len: 1024 });
    expect(await post("/detokenize", { tokens: (asked as { tokens: number[] }).tokens })).toEqual({
      prompt: "You moved up.",
    });
    expect(await post("/tokenize", { messages: MESSAGES })).toMatchObject({
      tokens: [...renderer.prompt([user(text(MESSAGES[0]!.content))]).ids],
      token_strs: null,
    });
  });

  test("metrics count what was asked and drawn, by vLLM's names", async () => {
    const before = await metrics();
    await client.completions.create({ ...greedy, max_tokens: 3, prompt: [40, 41, 42], ...more({ ignore_eos: true }) });
    const after = await metrics();
    expect(after["vllm:prompt_tokens_total"]! - before["vllm:prompt_tokens_total"]!).toBe(3);
    expect(after["vllm:generation_tokens_total"]! - before["vllm:generation_tokens_total"]!).toBe(3);
    expect(after["vllm:e2e_request_latency_seconds_count"]! - before["vllm:e2e_request_latency_seconds_count"]!).toBe(
      1,
    );
  });

  async function metrics(): Promise<Record<string, number>> {
    const lines = (await (await fetch(`${served.url}/metrics`)).text()).split("\n");
    return Object.fromEntries(
      lines
        .filter((line) => line !== "" && !line.startsWith("#"))
        .map((line) => [line.split("{")[0]!, Number(line.split(" ").at(-1))]),
    );
  }
});

describe("who may ask", () => {
  test("beyond this machine a key is needed, on every route but /health", async () => {
    await expect(serveTiny({ host: "0.0.0.0" })).rejects.toThrow("key");
    const locked = await serveTiny({ host: "0.0.0.0", key: "a-key-of-24-characters-x" });
    try {
      const url = `http://127.0.0.1:${locked.port}`;
      expect((await fetch(`${url}/health`)).status).toBe(200);
      for (const path of ["/v1/models", "/metrics", "/version"]) {
        const answer = await fetch(`${url}${path}`);
        expect([answer.status, await answer.json()]).toEqual([401, { error: "Unauthorized" }]);
      }
      const known = new OpenAI({ baseURL: `${url}/v1`, apiKey: "a-key-of-24-characters-x" });
      expect((await known.models.list()).data).toHaveLength(1);
    } finally {
      await locked.close();
    }
  });

  test.each(["evil.example", "127.0.0.1.evil.example", "evil.example:80"])(
    "who asks for %s does not mean this server",
    async (host) => {
      // fetch sets Host itself.
      const socket = connect(served.port, "127.0.0.1");
      socket.end(`GET /v1/models HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
      let said = "";
      for await (const part of socket) said += String(part);
      expect(said).toMatch(/^HTTP\/1\.1 403 [\s\S]*does not answer to that host name/);
    },
  );

  test("pages of other sites are refused", async () => {
    const answer = await fetch(`${served.url}/v1/models`, { headers: { Origin: "http://evil.example" } });
    expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([403, null]);
  });
});
