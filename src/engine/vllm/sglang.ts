/**
 * One SGLang server behind the same seam, written from SGLang's documentation and tested on bodies in its form. This project never ran an SGLang server.
 *
 * Differences from vLLM: there is no render route, so the model folder makes the ids. Images travel as PNG and the server processes them. It turns prompts
 * with images into text and back, which may change ids that no tokenizer would choose: we refuse an answer to a prompt of another length. An answer names
 * one version, so running requests are stopped when weights change, and continue as new ones.
 */
import { z } from "zod";
import { ConfigError } from "../../core/errors.ts";
import type { Image } from "../../core/image.ts";
import { pngDataUri } from "../../images/openai.ts";
import type { TopLogprob } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { ServerRefused } from "./http.ts";
import {
  finishOf,
  type Generated,
  type GenerateRequest,
  PROBE_MS,
  type Probe,
  ServerClient,
  type ServerOptions,
  sharedParams,
  type TokenServer,
} from "./token-server.ts";

/** Log-probability, id, and its text where the request asked for it. */
const scored = z.union([
  z.tuple([z.number().nullable(), z.int()]),
  z.tuple([z.number().nullable(), z.int(), z.unknown()]),
]);
const generated = z.looseObject({
  output_ids: z.array(z.int()),
  meta_info: z.looseObject({
    prompt_tokens: z.int(),
    finish_reason: z.looseObject({ type: z.string() }).nullish(),
    weight_version: z.string().nullish(),
    output_token_logprobs: z.array(scored).nullish(),
    output_top_logprobs: z.array(z.array(scored).nullable()).nullish(),
    input_token_logprobs: z.array(scored).nullish(),
  }),
});
const done = z.looseObject({ success: z.boolean(), message: z.string().nullish() });

export class SglangServer implements TokenServer {
  readonly url: string;
  readonly #client: ServerClient;

  constructor(url: string, options: ServerOptions = {}) {
    this.#client = new ServerClient("SGLang", url, options);
    this.url = this.#client.url;
  }

  async probe(): Promise<Probe> {
    const timeoutMs = PROBE_MS;
    const [listed, { version = "unknown" }] = await Promise.all([
      this.#client.listed(),
      this.#client.http.get("/get_server_info", { timeoutMs }) as Promise<{ version?: string }>,
    ]);
    await this.#checkLogprobs();
    return { ...listed, version };
  }

  /** At temperature 2 the two likeliest ids are half as far apart, unless the server reports values from before temperature. */
  async #checkLogprobs(): Promise<void> {
    const apart = async (temperature: number) => {
      const { topLogprobs } = await this.generate({
        ids: [0],
        images: [],
        maxTokens: 1,
        temperature,
        seed: 0,
        stopIds: [],
        bannedIds: [],
        topLogprobs: 2,
        session: "probe",
      });
      const [first, second] = topLogprobs[0] ?? [];
      return (first?.logprob ?? 0) - (second?.logprob ?? 0);
    };
    const [plain, tempered] = [await apart(1), await apart(2)];
    if (plain === 0 || Math.abs(tempered / plain - 0.5) < 0.25) return;
    throw new EngineError(
      `${this.url} reports log-probabilities that do not describe the distribution it samples from. Start it without SGLANG_RETURN_ORIGINAL_LOGPROB.`,
    );
  }

  healthy(): Promise<boolean> {
    return this.#client.healthy();
  }

  async generate(request: GenerateRequest): Promise<Generated> {
    const { ids, images, signal } = request;
    const body = {
      input_ids: Array.from(ids),
      ...(images.length > 0 && { image_data: images.map(({ image }) => encodedOf(image)) }),
      sampling_params: samplingParams(request),
      return_logprob: true,
      logprob_start_len: request.promptLogprobs ? 0 : -1,
      top_logprobs_num: request.topLogprobs ?? 0,
      ...(request.adapter !== undefined && { lora_path: request.adapter }),
    };
    const answer = await this.#client.http.post("/generate", body, {
      timeoutMs: this.#client.timeoutMs,
      ...(signal && { signal }),
    });
    const drawn = this.#readGenerated(answer, request);
    request.onPart?.(drawn);
    return drawn;
  }

  #readGenerated(answer: unknown, request: GenerateRequest): Generated {
    const { output_ids: ids, meta_info: meta } = this.#client.read(generated, answer);
    if (meta.prompt_tokens !== request.ids.length) {
      throw new EngineError(
        `${this.url} turned a prompt of ${request.ids.length} ids into ${meta.prompt_tokens}: it processes images differently from the model folder, or it tokenized a reply again.`,
      );
    }
    const content = (meta.output_token_logprobs ?? []).map(entryOf);
    if (content.length !== ids.length || content.some(({ id }, i) => id !== ids[i])) {
      throw new EngineError(`${this.url} sent ${ids.length} ids, but log-probabilities of other ids.`);
    }
    return {
      ids,
      logprobs: content.map(({ logprob }) => logprob),
      versions: ids.map(() => meta.weight_version ?? ""),
      finish: finishOf(meta.finish_reason?.type),
      topLogprobs: ids.map((_, i) => (meta.output_top_logprobs?.[i] ?? []).map(entryOf)),
      ...(request.promptLogprobs && {
        promptLogprobs: Float32Array.from(meta.input_token_logprobs ?? [], (entry) => entryOf(entry).logprob),
      }),
    };
  }

  async load(folder: string, version: string): Promise<void> {
    await this.#client.control("/pause_generation", { mode: "abort" });
    try {
      await this.#must("/update_weights_from_disk", { model_path: folder, weight_version: version, flush_cache: true });
    } finally {
      await this.#client.control("/continue_generation");
    }
  }

  async loadAdapter(folder: string, name: string): Promise<void> {
    await this.#must("/load_lora_adapter", { lora_name: name, lora_path: folder });
  }

  async unloadAdapter(name: string): Promise<void> {
    await this.#must("/unload_lora_adapter", { lora_name: name });
  }

  /** Stops running requests; they continue as new ones. */
  async sleep(): Promise<void> {
    await this.#client.control("/pause_generation", { mode: "abort" });
    await this.#client.control("/release_memory_occupation", { tags: ["kv_cache", "weights"] });
  }

  async wake(): Promise<void> {
    await this.#client.control("/resume_memory_occupation", { tags: ["kv_cache", "weights"] });
    await this.#client.control("/continue_generation");
  }

  close(): void {
    this.#client.http.close();
  }

  /** These routes report failures with status 200. */
  async #must(path: string, body: unknown): Promise<void> {
    const { success, message } = this.#client.read(done, await this.#client.control(path, body));
    if (!success) throw new ServerRefused(`${this.url}${path}`, 500, JSON.stringify({ message }));
  }
}

function samplingParams(request: GenerateRequest): Record<string, unknown> {
  if (request.grammar !== undefined) {
    throw new ConfigError("Grammars are not sent to SGLang: use vLLM for schemas and forced tool calls.");
  }
  return {
    ...sharedParams(request),
    max_new_tokens: request.maxTokens,
    top_k: request.topK ?? -1,
    // Used by servers that run with --enable-deterministic-inference.
    sampling_seed: request.seed,
    no_stop_trim: true,
  };
}

const encoded = new WeakMap<Image, string>();

function encodedOf(image: Image): string {
  const uri = encoded.get(image) ?? pngDataUri(image);
  encoded.set(image, uri);
  return uri;
}

function entryOf([logprob, id]: z.output<typeof scored>): TopLogprob {
  // The first id of a prompt has none.
  return { id, logprob: logprob ?? 0 };
}
