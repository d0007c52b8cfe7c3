/** What an evaluation does about a server that is not there, and what it sends back of what a model said. */
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { assistant, type Message, text, user } from "../core/message.ts";
import { toModelMessages, withoutTokens } from "./chat-agent.ts";
import { evaluateModel } from "./evaluate.ts";
import { realClock } from "./gate.ts";
import { type Answer, TestServer, type Wire } from "./test-server.ts";

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "saccade-chat-"));
});
afterAll(() => rm(root, { recursive: true, force: true }));

/** A port that nobody listens on: it was free a moment ago. */
async function deadPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const address = server.address();
  await new Promise((done) => server.close(done));
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** Ten minutes pass at once, and are added up. */
function quickClock() {
  const waited = { ms: 0 };
  const wait = async (ms: number) => {
    waited.ms += ms;
  };
  return { waited, clock: { ...realClock, wait } };
}

const SEEDS = { envs: ["frozen_lake"], seeds: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] };

describe("A server that is not there", () => {
  test("is named with the reason at the first failure, and given up on within seconds", async () => {
    const model = `http://127.0.0.1:${await deadPort()}/v1#nobody`;
    const { clock, waited } = quickClock();
    const reasons: string[] = [];
    const playing = evaluateModel({
      model,
      ...SEEDS,
      out: join(root, "dead"),
      clock,
      onTrouble: (reason) => reasons.push(reason),
    });
    await expect(playing).rejects.toThrow(/nobody can't be asked: .*ECONNREFUSED.* \(asked 3 times\)/);
    expect(reasons).toHaveLength(1);
    expect(reasons[0]).toMatch(/ECONNREFUSED/);
    // Eight episodes at a time, each of which waits twice.
    expect(waited.ms).toBeLessThan(8 * 3000);
  });

  test.each<[string, Answer]>([
    ["answers every request with an error", { status: 500 }],
    ["cuts every connection", "drop"],
  ])("one that %s stops the evaluation when the first request is given up", async (name, answer) => {
    const server = await new TestServer(() => answer).start();
    try {
      const playing = evaluateModel({
        ...server.model("server"),
        ...SEEDS,
        out: join(root, name),
        concurrency: 1,
        retries: 4,
        clock: quickClock().clock,
      });
      await expect(playing).rejects.toThrow(/can't be asked/);
      expect(server.asked.length).toBe(answer === "drop" ? 3 : 5);
    } finally {
      await server.stop();
    }
  });

  test.each<Wire>(["openai", "anthropic", "google", "server"])(
    "one that redirects stops the evaluation, and the other address sees no key (%s)",
    async (wire) => {
      const elsewhere = await new TestServer(() => ({ text: "<action>left</action>" })).start();
      const { baseUrl, model } = elsewhere.model(wire);
      const target = baseUrl ?? model.split("#")[0];
      const server = await new TestServer(() => ({ status: 307, headers: { location: `${target}/there` } })).start();
      try {
        const playing = evaluateModel({
          ...server.model(wire),
          ...SEEDS,
          out: join(root, `redirect ${wire}`),
          clock: quickClock().clock,
        });
        await expect(playing).rejects.toThrow(/redirects to http/);
        expect([elsewhere.asked, elsewhere.complaints]).toEqual([[], []]);
      } finally {
        await server.stop();
        await elsewhere.stop();
      }
    },
  );

  test("one that answered before is waited for as long as ever", async () => {
    const server = await new TestServer((_, call) =>
      call >= 1 && call <= 6 ? "drop" : { text: "<action>left</action>" },
    ).start();
    try {
      const { report } = await evaluateModel({
        ...server.model("server"),
        envs: ["frozen_lake"],
        seeds: [0],
        maxTurns: 2,
        options: { protocol: "keyword" },
        out: join(root, "patient"),
        clock: quickClock().clock,
      });
      expect(report.complete).toBe(true);
    } finally {
      await server.stop();
    }
  });
});

describe("Control tokens in what was said", () => {
  test.each([
    ["a <|image_pad|> b", "a <| image_pad |> b"],
    ["<|im_end|>\n<|im_start|>user", "<| im_end |>\n<| im_start |>user"],
    ["<｜end▁of▁sentence｜>", "<｜ end▁of▁sentence ｜>"],
    ["<image><start_of_image>[IMG]", "< image >< start_of_image >[ IMG ]"],
  ])("%j is sent as %j", (said, sent) => {
    expect(withoutTokens(said)).toBe(sent);
    expect(withoutTokens(sent)).toBe(sent);
  });

  test.each([
    "<action>('move', 0)</action>",
    "<observation>a | b</observation>",
    "x <| y |> z",
    "if a<b || c>d",
    "<think>…</think>",
  ])("%j stays as it is", (said) => {
    expect(withoutTokens(said)).toBe(said);
  });

  test("are text in every message of a conversation, and the messages themselves are not changed", () => {
    const bad = "<|vision_start|><|image_pad|>";
    const system: Message = { role: "system", content: [text(bad)] };
    const conversation = [system, user(text(bad)), assistant(bad), user(text(`You said: ${bad}`))];
    expect(JSON.stringify(toModelMessages(conversation))).not.toMatch(/<\|\w/);
    expect(conversation[2]?.content[0]).toEqual(text(bad));
  });
});
