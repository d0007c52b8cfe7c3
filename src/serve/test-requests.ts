/** For tests: requests that the real vLLM and our server both answer, one line each. `NAME` is the model, `STORE` a folder of weights. */
import { Image } from "../core/image.ts";
import { encodePng } from "../images/png.ts";

export type TestRequest = {
  readonly name: string;
  readonly path: string;
  /** Default POST. */
  readonly method?: "GET" | "POST";
  readonly body?: unknown;
  /** Sent as it is, instead of a body. */
  readonly raw?: string;
  readonly headers?: Readonly<Record<string, string>>;
};

export function dataUri(width: number, height: number, shade = 40): string {
  const data = Uint8Array.from(
    { length: width * height * 3 },
    (_, i) => (i * 7 + shade * 13 + Math.floor(i / 97) * 31) % 256,
  );
  return `data:image/png;base64,${Buffer.from(encodePng(new Image(width, height, data))).toString("base64")}`;
}

const say = (content: unknown) => [{ role: "user", content }];
const HELLO = say("You moved up. Look at the picture");
const shown = (url: string) => ({ type: "image_url", image_url: { url } });
const LOOK = say([
  { type: "text", text: "Look: " },
  shown(dataUri(64, 64)),
  { type: "text", text: " and " },
  shown(dataUri(64, 96, 9)),
  { type: "text", text: " go" },
]);
const TOOL = {
  type: "function",
  function: {
    name: "move",
    description: "Go there",
    parameters: { type: "object", properties: { to: { type: "string" } } },
  },
};
/** Vision ids of the tests' vocabulary, which we never sample; without this vLLM would give them a share. */
const logit_bias = { 291: -100, 292: -100, 293: -100, 294: -100, 295: -100 };
/** One image before it is expanded: start, placeholder, end. */
const IMAGE = [291, 294, 292];
const greedy = { temperature: 0, max_tokens: 6 };

const chat = (name: string, body: object): TestRequest => ({
  name: `chat: ${name}`,
  path: "/v1/chat/completions",
  body: { model: "NAME", messages: HELLO, logit_bias, ...body },
});
const completion = (name: string, body: object): TestRequest => ({
  name: `completion: ${name}`,
  path: "/v1/completions",
  body: { model: "NAME", prompt: "You moved up. Look", logit_bias, ...body },
});
const generate = (
  name: string,
  body: { sampling_params?: object | undefined; [field: string]: unknown },
): TestRequest => {
  const { sampling_params: given = { temperature: 0, max_tokens: 5 }, ...rest } = body;
  const params =
    "sampling_params" in body && body.sampling_params === undefined
      ? {}
      : { sampling_params: { logit_bias, ...given } };
  return {
    name: `generate: ${name}`,
    path: "/inference/v1/generate",
    body: { token_ids: [40, 41, 42, 43], ...params, ...rest },
  };
};
const render = (name: string, body: object): TestRequest => ({
  name: `render: ${name}`,
  path: "/v1/chat/completions/render",
  body: { model: "NAME", messages: HELLO, ...body },
});

export const REQUESTS: readonly TestRequest[] = [
  { name: "models", method: "GET", path: "/v1/models" },
  { name: "health", method: "GET", path: "/health" },
  { name: "no such route", method: "GET", path: "/v1/nothing" },
  { name: "a route that is not read", method: "GET", path: "/v1/chat/completions" },
  chat("greedy", { ...greedy, return_token_ids: true }),
  chat("no model named", { ...greedy, model: undefined, return_token_ids: true }),
  chat("images", { ...greedy, messages: LOOK, return_token_ids: true }),
  chat("log-probabilities", { ...greedy, logprobs: true, return_token_ids: true }),
  chat("top log-probabilities", { ...greedy, logprobs: true, top_logprobs: 3, return_token_ids: true }),
  chat("tokens as ids", { ...greedy, logprobs: true, top_logprobs: 1, return_tokens_as_token_ids: true }),
  chat("two greedy choices", { ...greedy, n: 2 }),
  chat("three choices", { temperature: 1, max_tokens: 1, n: 3, top_k: 1, return_token_ids: true }),
  chat("top-k 1 is greedy", {
    temperature: 0.7,
    max_tokens: 6,
    top_k: 1,
    logprobs: true,
    top_logprobs: 2,
    return_token_ids: true,
  }),
  chat("a limit by its newer name", { temperature: 0, max_completion_tokens: 2, return_token_ids: true }),
  chat("end of sequence ignored", { ...greedy, max_tokens: 24, ignore_eos: true, return_token_ids: true }),
  chat("streamed", { ...greedy, stream: true, return_token_ids: true }),
  chat("streamed with usage and log-probabilities", {
    ...greedy,
    stream: true,
    stream_options: { include_usage: true },
    logprobs: true,
    top_logprobs: 2,
  }),
  chat("streamed with usage in every piece", {
    ...greedy,
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },
  }),
  chat("tools that may not be called", { ...greedy, tools: [TOOL], tool_choice: "none", return_token_ids: true }),
  chat("a conversation", {
    ...greedy,
    return_token_ids: true,
    messages: [
      { role: "system", content: "Reply with one action." },
      ...HELLO,
      { role: "assistant", content: "left" },
      ...say("Again."),
    ],
  }),
  chat("no generation prompt", { ...greedy, add_generation_prompt: false, return_token_ids: true }),
  chat("a message that goes on", {
    ...greedy,
    return_token_ids: true,
    add_generation_prompt: false,
    continue_final_message: true,
    messages: [...HELLO, { role: "assistant", content: "The goal is" }],
  }),
  chat("both prompts at once", { ...greedy, add_generation_prompt: true, continue_final_message: true }),
  chat("unknown fields", { ...greedy, foo: 1, return_token_ids: true }),
  chat("unknown model", { ...greedy, model: "nope" }),
  chat("messages missing", { ...greedy, messages: undefined }),
  chat("messages that are text", { ...greedy, messages: "x" }),
  chat("no messages", { ...greedy, messages: [] }),
  chat("a message without a role", { ...greedy, messages: [{ content: "x" }] }),
  chat("temperature below 0", { temperature: -1, max_tokens: 2 }),
  chat("temperature that is text", { temperature: "hot", max_tokens: 2 }),
  chat("top-p above 1", { top_p: 1.5, max_tokens: 2 }),
  chat("top-k below −1", { top_k: -3, max_tokens: 2 }),
  chat("no tokens", { max_tokens: 0 }),
  chat("more tokens than the context", { max_tokens: 100_000 }),
  chat("no choices", { ...greedy, n: 0 }),
  chat("top log-probabilities without log-probabilities", { ...greedy, top_logprobs: 2 }),
  chat("too many top log-probabilities", { ...greedy, logprobs: true, top_logprobs: 50 }),
  chat("an image that is none", { ...greedy, messages: say([shown("data:image/png;base64,AAAA")]) }),
  chat("stream options without a stream", { ...greedy, stream_options: { include_usage: true } }),
  { name: "chat: broken JSON", path: "/v1/chat/completions", raw: '{"messages": [' },
  { name: "chat: another type", path: "/v1/chat/completions", raw: "{}", headers: { "content-type": "text/plain" } },
  chat("a prompt that is too long", { ...greedy, messages: say("up ".repeat(2000)) }),
  completion("greedy", { ...greedy, return_token_ids: true }),
  completion("ids", { ...greedy, prompt: [40, 41, 42], return_token_ids: true }),
  completion("several prompts", { ...greedy, prompt: ["You moved", "Look"], return_token_ids: true }),
  completion("log-probabilities", { ...greedy, logprobs: 2, return_token_ids: true }),
  completion("streamed", { ...greedy, stream: true, stream_options: { include_usage: true } }),
  completion("default length", { temperature: 0, return_token_ids: true }),
  completion("an empty prompt", { ...greedy, prompt: "" }),
  completion("a suffix", { ...greedy, suffix: "x" }),
  completion("no prompt", { ...greedy, prompt: undefined }),
  {
    name: "tokenize: text",
    path: "/tokenize",
    body: { model: "NAME", prompt: "You moved up.", return_token_strs: true },
  },
  { name: "tokenize: messages", path: "/tokenize", body: { model: "NAME", messages: HELLO } },
  { name: "tokenize: nothing", path: "/tokenize", body: { model: "NAME" } },
  { name: "detokenize", path: "/detokenize", body: { model: "NAME", tokens: [40, 41, 42, 256, 260] } },
  { name: "detokenize: no ids", path: "/detokenize", body: { model: "NAME" } },
  render("text", { ...greedy, return_token_offsets: true }),
  render("options", {
    max_tokens: 32,
    temperature: 1,
    top_p: 1,
    logprobs: true,
    top_logprobs: 0,
    seed: 5,
    stop: ["x"],
    stream: true,
    cache_salt: "v1",
  }),
  render("images", { ...greedy, messages: LOOK }),
  render("unknown model", { model: "nope" }),
  {
    name: "render: completions",
    path: "/v1/completions/render",
    body: { model: "NAME", prompt: ["You moved", "up"], max_tokens: 4 },
  },
  generate("greedy", {}),
  generate("its own id", { request_id: "mine", sampling_params: { temperature: 0, max_tokens: 3, logprobs: 0 } }),
  generate("log-probabilities", { sampling_params: { temperature: 0, max_tokens: 3, logprobs: 2 } }),
  generate("log-probabilities of the prompt", {
    sampling_params: { temperature: 0, max_tokens: 2, prompt_logprobs: 0 },
  }),
  generate("two choices", { sampling_params: { temperature: 1, top_k: 1, n: 2, max_tokens: 3 } }),
  generate("streamed", {
    stream: true,
    stream_options: { include_usage: true },
    sampling_params: { temperature: 0, max_tokens: 3, logprobs: 0 },
  }),
  generate("stop ids", {
    sampling_params: { temperature: 0, max_tokens: 5, stop_token_ids: Array.from({ length: 280 }, (_, i) => i) },
  }),
  generate("unknown fields", { foo: 2, sampling_params: { temperature: 0, max_tokens: 2, foo: 1 } }),
  generate("unknown model", { model: "zzz" }),
  generate("no ids", { token_ids: [] }),
  generate("negative ids", { token_ids: [-1] }),
  generate("ids beyond the vocabulary", { token_ids: [99_999] }),
  generate("no sampling parameters", { sampling_params: undefined }),
  generate("temperature below 0", { sampling_params: { temperature: -1 } }),
  generate("temperature that is text", { sampling_params: { temperature: "hot" } }),
  generate("too many choices", { sampling_params: { n: 100_000 } }),
  generate("content parts", {
    token_ids: [40, ...IMAGE, 41, ...IMAGE, 42],
    content_parts: [dataUri(64, 64), dataUri(64, 96, 9)].map((url) => ({ type: "image_url", url })),
    sampling_params: { temperature: 0, max_tokens: 4, logprobs: 1 },
    return_token_ids: true,
  }),
  generate("features and content parts", {
    content_parts: [{ type: "image_url", url: "x" }],
    features: { mm_hashes: { image: ["a"] }, mm_placeholders: { image: [{ offset: 0, length: 1 }] } },
  }),
  generate("features that are none", {
    features: {
      mm_hashes: { image: ["a"] },
      mm_placeholders: { image: [{ offset: 0, length: 1 }] },
      kwargs_data: { image: ["AAAA"] },
    },
  }),
  { name: "weight info", method: "GET", path: "/weight_info" },
  { name: "update weight version", path: "/update_weight_version", body: { new_version: "7" } },
  { name: "weight info after that", method: "GET", path: "/weight_info" },
  generate("the version of its weights", {}),
  { name: "update weight version: nothing", path: "/update_weight_version", body: {} },
  { name: "pause", path: "/pause?mode=abort" },
  { name: "is paused", method: "GET", path: "/is_paused" },
  { name: "resume", path: "/resume" },
  { name: "is not paused", method: "GET", path: "/is_paused" },
  { name: "pause: a mode that is none", path: "/pause?mode=sideways" },
  { name: "reset prefix cache", path: "/reset_prefix_cache" },
  { name: "reload weights", path: "/collective_rpc", body: { method: "reload_weights" } },
  { name: "collective rpc: no method", path: "/collective_rpc", body: {} },
  {
    name: "adapter: a folder that is not there",
    path: "/v1/load_lora_adapter",
    body: { lora_name: "a", lora_path: "STORE/none" },
  },
  { name: "adapter: no name", path: "/v1/load_lora_adapter", body: { lora_path: "STORE/none" } },
  { name: "adapter: unload what is not loaded", path: "/v1/unload_lora_adapter", body: { lora_name: "a" } },
  { name: "adapter: load", path: "/v1/load_lora_adapter", body: { lora_name: "tuned", lora_path: "STORE/adapter" } },
  {
    name: "adapter: load it again",
    path: "/v1/load_lora_adapter",
    body: { lora_name: "tuned", lora_path: "STORE/adapter" },
  },
  { name: "models with an adapter", method: "GET", path: "/v1/models" },
  generate("with an adapter", { model: "tuned", sampling_params: { temperature: 0, max_tokens: 5, logprobs: 0 } }),
  { name: "adapter: unload", path: "/v1/unload_lora_adapter", body: { lora_name: "tuned" } },
  generate("with an adapter that is gone", { model: "tuned" }),
];

export type TestAnswer = { readonly status: number; readonly type: string; readonly text: string };

export async function ask(url: string, request: TestRequest, model: string, store: string): Promise<TestAnswer> {
  const body = request.raw ?? (request.body === undefined ? undefined : JSON.stringify(request.body));
  const answer = await fetch(`${url}${request.path}`, {
    method: request.method ?? "POST",
    // A connection of its own: vLLM closes one after five idle seconds, and a busy test learns of that only when it writes into it.
    headers: {
      connection: "close",
      ...(body !== undefined && { "content-type": "application/json" }),
      ...request.headers,
    },
    ...(body !== undefined && { body: body.replaceAll('"NAME"', JSON.stringify(model)).replaceAll("STORE", store) }),
  });
  return { status: answer.status, type: answer.headers.get("content-type") ?? "", text: await answer.text() };
}
