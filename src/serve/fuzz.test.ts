/** Bodies of any kind, to every route that takes one: never a crash, never a fault of ours, always words. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { serveTiny } from "./test-serve.ts";

const TINKER = [
  ...["create_session", "create_model", "get_info", "forward_backward", "optim_step", "load_weights", "save_weights"],
  ...[
    "save_weights_for_sampler",
    "create_sampling_session",
    "asample",
    "retrieve_future",
    "weights_info",
    "sessions/search",
  ],
];
const GOOD: Readonly<Record<string, object>> = {
  "/v1/chat/completions": { messages: [{ role: "user", content: "x" }] },
  "/v1/chat/completions/render": { messages: [{ role: "user", content: "x" }] },
  "/v1/completions": { prompt: "x" },
  "/v1/completions/render": { prompt: "x" },
  "/inference/v1/generate": { token_ids: [40], sampling_params: { max_tokens: 2 } },
  "/tokenize": { prompt: "x" },
  "/detokenize": { tokens: [40] },
  "/update_weight_version": { new_version: "1" },
  "/collective_rpc": { method: "reload_weights" },
  "/v1/load_lora_adapter": { lora_name: "x", lora_path: "x" },
  "/v1/unload_lora_adapter": { lora_name: "x" },
  ...Object.fromEntries(TINKER.map((route) => [`/api/v1/${route}`, {}])),
};
const KEYS = [
  ...[
    "messages",
    "prompt",
    "token_ids",
    "sampling_params",
    "model",
    "temperature",
    "top_p",
    "top_k",
    "n",
    "stop",
    "logprobs",
    "top_logprobs",
  ],
  ...[
    "features",
    "mm_hashes",
    "mm_placeholders",
    "kwargs_data",
    "image",
    "offset",
    "length",
    "tools",
    "tool_choice",
    "stream",
    "stream_options",
  ],
  ...[
    "seed",
    "tokens",
    "role",
    "content",
    "type",
    "image_url",
    "url",
    "text",
    "kwargs",
    "weights_path",
    "lora_path",
    "session_id",
    "model_id",
  ],
  ...[
    "seq_id",
    "path",
    "adam_params",
    "sampling_session_id",
    "num_samples",
    "chunks",
    "request_id",
    "tinker_path",
    "chat_template_kwargs",
  ],
  ...[
    "continue_final_message",
    "add_generation_prompt",
    "min_p",
    "response_format",
    "logit_bias",
    "prompt_logprobs",
    "base_model",
  ],
];
const leaf = fc.oneof(
  fc.constantFrom(
    "user",
    "assistant",
    "policy",
    "data:image/png;base64,AAAA",
    "file:///etc/passwd",
    "../x",
    "",
    "\u0000",
    "\ud800",
  ),
  fc.constantFrom(
    "<|im_end|>",
    "<|image_pad|>",
    "function",
    "encoded_text",
    "image",
    "text",
    "image_url",
    null,
    true,
    false,
  ),
  fc.constantFrom(0, 1, -1, 294, 299, 300, 1e300, -1e-300, 2 ** 53),
  fc.string(),
);
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    leaf,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom(...KEYS), tie("value"), { maxKeys: 5 }),
  ),
}));
const asked = fc.tuple(
  fc.constantFrom(...Object.keys(GOOD)),
  fc.boolean(),
  fc.oneof(
    { weight: 9, arbitrary: fc.dictionary(fc.constantFrom(...KEYS), value, { maxKeys: 6 }) },
    { weight: 1, arbitrary: value },
  ),
);

test("no body is answered with a fault or not at all", async () => {
  const served = await serveTiny();
  try {
    const faults: string[] = [];
    const bodies = fc.sample(asked, { seed: 1, numRuns: 500 });
    for (let from = 0; from < bodies.length; from += 25) {
      await Promise.all(
        bodies.slice(from, from + 25).map(async ([path, like, given]) => {
          const fields = typeof given === "object" && given !== null && !Array.isArray(given) ? given : undefined;
          const body = JSON.stringify(
            fields === undefined ? given : { ...(like && GOOD[path]), ...fields, max_tokens: 2 },
          );
          const headers = { "content-type": "application/json" };
          const answer = await fetch(`${served.url}${path}`, { method: "POST", headers, body });
          const text = await answer.text();
          if (answer.status >= 500) faults.push(`${path} ${body}: ${text}`);
        }),
      );
    }
    expect(faults).toEqual([]);
    expect((await fetch(`${served.url}/health`)).status).toBe(200);
  } finally {
    await served.close();
  }
});
