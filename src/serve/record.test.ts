/** `saccade serve --record`: agents that somebody else starts, recorded; what comes out of it is what `sft` learns. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import { DemoWriter, readDemos } from "../envs/demos.ts";
import { openModel } from "../evaluate/models.ts";
import { Canvas } from "../images/canvas.ts";
import { pngDataUri } from "../images/openai.ts";
import { recordedDemos } from "../rollout/recorded.ts";
import { readFrame } from "../run/frames.ts";
import { readTrajectories, type TrajectoryRecord, trajectorySteps } from "../run/trajectories.ts";
import { sequencesOf } from "../train/sft.ts";
import type { RecordOptions } from "./record.ts";
import { startServer } from "./server.ts";
import { createServable } from "./test-serve.ts";

let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "saccade-record-"));
  await createServable(join(root, "model"));
}, 60_000);
afterAll(() => rm(root, { recursive: true, force: true }));

const RED = pngDataUri(new Canvas(32, 32, [220, 40, 40]).toImage());
const tools = [
  { type: "function" as const, function: { name: "look", parameters: { type: "object", properties: {} } } },
];

/** A hosted model at the edge: it calls the tool, and once it was sent an image, it says the colour. */
async function startProvider() {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString();
      const seen = body.includes("iVBORw0KGgo");
      const call = { id: "call_1", type: "function", function: { name: "look", arguments: "{}" } };
      const message = seen
        ? { role: "assistant", content: "red" }
        : { role: "assistant", content: null, tool_calls: [call] };
      const finish_reason = seen ? "stop" : "tool_calls";
      response.writeHead(200, { "content-type": "application/json" });
      response.end(
        JSON.stringify({
          ...{ id: "1", object: "chat.completion", created: 0, model: "teacher" },
          choices: [{ index: 0, message, finish_reason }],
          usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
        }),
      );
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () => new Promise((done) => server.close(done)),
  };
}

async function recording(folder: string, model: RecordOptions["model"], idleSeconds?: number) {
  const options = { folder: join(root, folder), model, ...(idleSeconds !== undefined && { idleSeconds }) };
  return startServer({ record: options });
}

async function episodes(folder: string): Promise<TrajectoryRecord[]> {
  const path = join(root, folder);
  const steps = await trajectorySteps(path);
  return (await Promise.all(steps.map((step) => readTrajectories(path, step)))).flat();
}

const post = (url: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

test("a hosted model's episode is recorded with its calls, images and reward, and is learned as reinforcement learning would meet it", async () => {
  const provider = await startProvider();
  const upstream = await openModel(`${provider.url}/v1#teacher`);
  const server = await recording("hosted", upstream);
  const client = new OpenAI({ baseURL: `${server.url}/episodes/first/v1`, apiKey: "unused", maxRetries: 0 });
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Which colour?" }];
  const asked = await client.chat.completions.create({ model: "any", messages, tools });
  const said = asked.choices[0]?.message as OpenAI.ChatCompletionMessage;
  expect(said.tool_calls?.[0]).toMatchObject({ function: { name: "look", arguments: "{}" } });
  const result = [{ type: "image_url" as const, image_url: { url: RED } }];
  const id = said.tool_calls?.[0]?.id ?? "";
  const seen = { role: "tool", tool_call_id: id, content: result } as unknown as OpenAI.ChatCompletionToolMessageParam;
  const last = await client.chat.completions.create({ model: "any", messages: [...messages, said, seen], tools });
  expect(last.choices[0]?.message.content).toBe("red");
  expect((await post(`${server.url}/episodes/first`, { reward: 1 })).status).toBe(200);
  expect((await post(`${server.url}/episodes/first`, { reward: 1 })).status).toBe(404);
  await server.close();
  await provider.stop();

  const [record, ...more] = await episodes("hosted");
  expect(more).toEqual([]);
  expect(record).toMatchObject({ env: "recorded", reward: 1, success: true, end: "done", program: { paidBy: "post" } });
  expect(record?.turns.map(({ request }) => request?.calls.map(({ name }) => name))).toEqual([["look"], []]);
  expect(record?.turns[1]?.frames).toHaveLength(1);

  const demos = await recordedDemos(record as TrajectoryRecord, (hash) => readFrame(join(root, "hosted"), hash));
  const file = join(root, "demos.jsonl");
  const writer = new DemoWriter(file, false);
  await writeFile(file, `${demos.map((demo) => writer.row(demo)).join("\n")}\n`);
  const { value: demo } = await readDemos(file).next();
  const engine = new NativeEngine({ threads: 1 });
  const student = await engine.chat(join(root, "model"));
  const [sequence, ...others] = await sequencesOf(demo, student, {});
  expect(others).toEqual([]);
  const { ids, sampled } = sequence as NonNullable<typeof sequence>;
  const learned = student.renderer.decode(ids.filter((_, i) => sampled[i] === 1)).text;
  expect(learned).toContain('"name": "look"');
  expect(learned).toContain("red");
  // The student's own template printed the tools, which no reply did.
  expect(student.renderer.decode(ids.filter((_, i) => sampled[i] === 0)).text).toContain('"parameters"');
  await engine.close();
});

test("a folder's episode is named by header or key, ends by silence, and its sampled ids are in the run folder", async () => {
  const model = await openModel(join(root, "model"), { temperature: 1, maxTokens: 4 });
  const ask = (url: string, headers: Record<string, string>) =>
    post(`${url}/v1/chat/completions`, { messages: [{ role: "user", content: "hello" }] }, headers);
  const patient = await recording("own", model);
  expect((await ask(patient.url, { "x-saccade-episode": "a" })).status).toBe(200);
  expect((await post(`${patient.url}/reward`, 0.5, { "x-saccade-episode": "a" })).status).toBe(200);
  expect((await ask(patient.url, { "x-saccade-episode": "../up" })).status).toBe(400);
  await patient.close();
  const brisk = await recording("own", model, 1);
  expect((await ask(brisk.url, { authorization: "Bearer sk-secret-of-somebody" })).status).toBe(200);
  await expect.poll(async () => (await episodes("own")).length, { timeout: 20_000 }).toBe(2);
  await brisk.close();
  await model.close();
  const found = await episodes("own");
  const paid = found.map(({ program, reward }) => [program?.paidBy, reward]);
  expect(paid.sort()).toEqual([
    ["nobody", 0],
    ["post", 0.5],
  ]);
  for (const { tokens } of found) expect(tokens?.[0]?.kinds).toContain("s");
  const text = await readFile(join(root, "own", "trajectories", "step-2.jsonl"), "utf8");
  expect(text).toContain("key-");
  expect(text).not.toContain("sk-secret");
});

test("a bad reward is refused and the episode goes on; a folder that is there goes on with another step", async () => {
  const model = await openModel(join(root, "model"), { temperature: 1, maxTokens: 2 });
  for (const step of [1, 2]) {
    const server = await recording("again", model);
    const body = { messages: [{ role: "user", content: "hello" }] };
    expect((await post(`${server.url}/episodes/x/v1/chat/completions`, body)).status).toBe(200);
    expect((await post(`${server.url}/episodes/x/reward`, { reward: "much" })).status).toBe(400);
    expect((await post(`${server.url}/episodes/x/reward`, { reward: step })).status).toBe(200);
    await server.close();
  }
  await model.close();
  expect((await episodes("again")).map(({ reward, step }) => [step, reward])).toEqual([
    [1, 1],
    [2, 2],
  ]);
});
