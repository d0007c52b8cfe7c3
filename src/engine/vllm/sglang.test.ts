/** SGLang behind the same seam: bodies in its documented form. No SGLang server was run; docs/guide/vllm.md says so. */
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Image } from "../../core/image.ts";
import { decodePng } from "../../images/png.ts";
import { Fleet, type Weights } from "./fleet.ts";
import { SglangServer } from "./sglang.ts";
import type { GenerateRequest } from "./token-server.ts";

const { body: RECORDED } = JSON.parse(
  readFileSync(new URL("golden/sglang_generate.json", import.meta.url), "utf8"),
) as { body: { output_ids: number[]; meta_info: Record<string, unknown> } };

type Body = Record<string, unknown> & { sampling_params?: { temperature: number } };
const asked: { path: string; body: Body }[] = [];
let answer: (path: string, body: Body) => unknown;
let server: Server;
let client: SglangServer;
/** What the server calls its weights, and what it tells of tempered logits. */
let state = { version: "default", tempers: true };

/** The recorded answer with the log-probabilities that a request for them adds. */
function generated({ input_ids: ids, sampling_params: params }: Body): unknown {
  const gap = state.tempers ? 1 / (params?.temperature || 1) : 1;
  const { output_ids: drawn, meta_info: meta } = RECORDED;
  return {
    ...RECORDED,
    meta_info: {
      ...meta,
      prompt_tokens: (ids as number[]).length,
      weight_version: state.version,
      output_token_logprobs: drawn.map((id, i) => [0 - i / 8, id, null]),
      output_top_logprobs: drawn.map((id) => [
        [-0.5, id, null],
        [-0.5 - gap, id + 1, null],
      ]),
      input_token_logprobs: (ids as number[]).map((id, i) => [i === 0 ? null : -1.5, id, null]),
    },
  };
}

function usual(path: string, body: Body): unknown {
  switch (path) {
    case "/v1/models":
      return { object: "list", data: [{ id: "policy", object: "model", owned_by: "sglang", max_model_len: 512 }] };
    case "/get_server_info":
      return { version: "0.5.9", model_path: "policy" };
    case "/generate":
      return generated(body);
    case "/update_weights_from_disk":
      state.version = String(body.weight_version);
      return { success: true, message: "Succeeded to update model weights.", num_paused_requests: 0 };
    default:
      return { success: true, message: "" };
  }
}

beforeEach(async () => {
  asked.length = 0;
  state = { version: "default", tempers: true };
  answer = usual;
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const body = (text === "" ? {} : JSON.parse(text)) as Body;
    asked.push({ path: request.url ?? "", body });
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(answer(request.url ?? "", body)));
  });
  await new Promise<void>((started) => server.listen(0, "127.0.0.1", started));
  client = new SglangServer(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { timeoutMs: 5000 });
});
afterEach(async () => {
  client.close();
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
});

const request = (more: Partial<GenerateRequest> = {}): GenerateRequest => ({
  ids: [1, 2, 3],
  images: [],
  maxTokens: 32,
  temperature: 1,
  seed: 5,
  stopIds: [128009],
  bannedIds: [90, 91],
  session: "a",
  ...more,
});

test("a recorded answer is read: ids, log-probabilities, likeliest ids, the prompt's own, the version", async () => {
  state.version = "7";
  const drawn = await client.generate(request({ topLogprobs: 2, promptLogprobs: true }));
  expect(drawn.ids).toEqual(RECORDED.output_ids);
  expect(drawn.logprobs.slice(0, 3)).toEqual([0, -0.125, -0.25]);
  expect(drawn.topLogprobs[0]).toEqual([
    { id: 5018, logprob: -0.5 },
    { id: 5019, logprob: -1.5 },
  ]);
  expect([...(drawn.promptLogprobs ?? [])]).toEqual([0, -1.5, -1.5]);
  expect(new Set(drawn.versions)).toEqual(new Set(["7"]));
  expect(drawn.finish).toBe("stop");
});

test("a request bans what can't be drawn, ends only where it is told to, and leaves nothing to defaults", async () => {
  const image = new Image(2, 1, Uint8Array.of(1, 2, 3, 4, 5, 6));
  const features = () => {
    throw new Error("pixels are processed over there");
  };
  const testImage = {
    start: 1,
    length: 1,
    image,
    get features() {
      return features();
    },
  };
  await client.generate(request({ images: [testImage], adapter: "policy-v3" }));
  const { body } = asked.at(-1) as (typeof asked)[number];
  expect(body).toMatchObject({
    input_ids: [1, 2, 3],
    return_logprob: true,
    lora_path: "policy-v3",
    sampling_params: {
      n: 1,
      max_new_tokens: 32,
      temperature: 1,
      top_p: 1,
      top_k: -1,
      min_p: 0,
      sampling_seed: 5,
      ignore_eos: true,
      stop_token_ids: [128009],
      logit_bias: { 90: -100, 91: -100 },
    },
  });
  const [sent] = body.image_data as [string];
  expect(decodePng(Buffer.from(sent.split(",")[1] ?? "", "base64")).hash).toBe(image.hash);
});

test("a prompt that came out with other ids, or without log-probabilities, is refused", async () => {
  answer = (path, body) => (path === "/generate" ? generated({ ...body, input_ids: [1, 2] }) : usual(path, body));
  await expect(client.generate(request())).rejects.toThrow(/a prompt of 3 ids into 2/);
  answer = () => ({ ...RECORDED, meta_info: { ...RECORDED.meta_info, prompt_tokens: 3 } });
  await expect(client.generate(request())).rejects.toThrow(/log-probabilities/);
});

test("a server that reports what it had before temperature is refused at the start", async () => {
  expect(await client.probe()).toEqual({ model: "policy", version: "0.5.9", contextTokens: 512 });
  state.tempers = false;
  await expect(client.probe()).rejects.toThrow(/SGLANG_RETURN_ORIGINAL_LOGPROB/);
});

test("new weights: stopped, loaded under their name, continued; a failure is an error and leaves nothing paused", async () => {
  const fleet = new Fleet([client], { everyMs: 20, onTrouble: () => undefined });
  const weights: Weights = { kind: "reload", folder: "/exchange/version-2", version: 2 };
  const { versions } = await fleet.generate(request(), () => weights);
  expect(new Set(versions)).toEqual(new Set(["2"]));
  expect(asked.map(({ path }) => path)).toEqual([
    "/pause_generation",
    "/update_weights_from_disk",
    "/continue_generation",
    "/generate",
  ]);
  expect(asked[1]?.body).toEqual({ model_path: "/exchange/version-2", weight_version: "2", flush_cache: true });
  answer = (path, body) =>
    path === "/update_weights_from_disk" ? { success: false, message: "no such folder" } : usual(path, body);
  await expect(fleet.load({ ...weights, version: 3 })).rejects.toThrow(/no such folder/);
  expect(
    asked
      .map(({ path }) => path)
      .filter((path) => path !== "/health")
      .at(-1),
  ).toBe("/continue_generation");
  fleet.close();
});

test("adapters, sleep and wake take SGLang's routes", async () => {
  await client.loadAdapter("/exchange/version-3", "policy-v3");
  await client.unloadAdapter("policy-v3");
  await client.sleep();
  await client.wake();
  expect(asked).toEqual([
    { path: "/load_lora_adapter", body: { lora_name: "policy-v3", lora_path: "/exchange/version-3" } },
    { path: "/unload_lora_adapter", body: { lora_name: "policy-v3" } },
    { path: "/pause_generation", body: { mode: "abort" } },
    { path: "/release_memory_occupation", body: { tags: ["kv_cache", "weights"] } },
    { path: "/resume_memory_occupation", body: { tags: ["kv_cache", "weights"] } },
    { path: "/continue_generation", body: {} },
  ]);
});
