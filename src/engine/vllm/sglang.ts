/**
 * One SGLang server behind the same seam. Written from SGLang's documentation and tested on bodies in its form; no SGLang server was run by this project.
 *
 * What differs from vLLM: there is no render route, so ids come from the model folder. Pictures travel as PNG and are processed over there. Prompts with
 * pictures are turned into text and back there, so ids that no tokenizer would choose may come out as others: an answer to a prompt of another length is
 * refused. An answer names one version, so running requests are stopped when weights change, and go on as new ones.
 */
import { z } from "zod";
import type { Image } from "../../core/image.ts";
import { pngDataUri } from "../../images/openai.ts";
import type { TopLogprob } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { HttpClient, readAnswer, ServerRefused } from "./http.ts";
import type { Generated, GenerateRequest, Probe, ServerOptions, TokenServer } from "./server.ts";

const CONTROL_MS = 600_000;
const PROBE_MS = 120_000;
const BAN = -100;

const models = z.looseObject({
  data: z.array(z.looseObject({ id: z.string(), max_model_len: z.number().nullish() })).min(1),
});
/** Log-probability, id, and its text where that was asked for. */
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
  readonly #http: HttpClient;
  readonly #timeoutMs: number;

  constructor(url: string, { concurrency = 256, timeoutMs = 3_600_000, key }: ServerOptions = {}) {
    this.#http = new HttpClient(url, { concurrency, ...(key !== undefined && { key }) });
    this.url = this.#http.url;
    this.#timeoutMs = timeoutMs;
  }

  async probe(): Promise<Probe> {
    const timeoutMs = PROBE_MS;
    const [listed, info] = await Promise.all([
      this.#http.get("/v1/models", { timeoutMs }),
      this.#http.get("/get_server_info", { timeoutMs }) as Promise<{ version?: string }>,
    ]);
    const [first] = this.#read(models, listed).data;
    await this.#checkLogprobs();
    return {
      model: first?.id as string,
      version: info.version ?? "unknown",
      contextTokens: first?.max_model_len ?? Number.POSITIVE_INFINITY,
    };
  }

  /** At temperature 2 the likeliest two are half as far apart, unless the server reports what it had before temperature. */
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
      `${this.url} reports log-probabilities of another distribution than it samples from. Start it without SGLANG_RETURN_ORIGINAL_LOGPROB.`,
    );
  }

  async healthy(): Promise<boolean> {
    return this.#http.get("/health", { timeoutMs: 5000 }).then(
      () => true,
      () => false,
    );
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
    const answer = await this.#http.post("/generate", body, {
      timeoutMs: this.#timeoutMs,
      ...(signal && { signal }),
    });
    const drawn = this.#readGenerated(answer, request);
    request.onPart?.(drawn);
    return drawn;
  }

  #readGenerated(answer: unknown, request: GenerateRequest): Generated {
    const { output_ids: ids, meta_info: meta } = this.#read(generated, answer);
    if (meta.prompt_tokens !== request.ids.length) {
      throw new EngineError(
        `${this.url} made ${meta.prompt_tokens} ids of a prompt of ${request.ids.length}: it processes pictures in another way than the model folder, or it tokenized a reply anew.`,
      );
    }
    const content = (meta.output_token_logprobs ?? []).map(entryOf);
    if (content.length !== ids.length || content.some(({ id }, i) => id !== ids[i])) {
      throw new EngineError(`${this.url} gave ${ids.length} ids and log-probabilities of other ones.`);
    }
    const reason = meta.finish_reason?.type;
    return {
      ids,
      logprobs: content.map(({ logprob }) => logprob),
      versions: ids.map(() => meta.weight_version ?? ""),
      finish: reason === "length" || reason === "abort" ? reason : "stop",
      topLogprobs: ids.map((_, i) => (meta.output_top_logprobs?.[i] ?? []).map(entryOf)),
      ...(request.promptLogprobs && {
        promptLogprobs: Float32Array.from(meta.input_token_logprobs ?? [], (entry) => entryOf(entry).logprob),
      }),
    };
  }

  async load(folder: string, version: string): Promise<void> {
    await this.#control("/pause_generation", { mode: "abort" });
    try {
      await this.#must("/update_weights_from_disk", { model_path: folder, weight_version: version, flush_cache: true });
    } finally {
      await this.#control("/continue_generation");
    }
  }

  async loadAdapter(folder: string, name: string): Promise<void> {
    await this.#must("/load_lora_adapter", { lora_name: name, lora_path: folder });
  }

  async unloadAdapter(name: string): Promise<void> {
    await this.#must("/unload_lora_adapter", { lora_name: name });
  }

  /** Nothing may run meanwhile: what does is stopped, and goes on as a new request. */
  async sleep(): Promise<void> {
    await this.#control("/pause_generation", { mode: "abort" });
    await this.#control("/release_memory_occupation", { tags: ["kv_cache", "weights"] });
  }

  async wake(): Promise<void> {
    await this.#control("/resume_memory_occupation", { tags: ["kv_cache", "weights"] });
    await this.#control("/continue_generation");
  }

  close(): void {
    this.#http.close();
  }

  #control(path: string, body: unknown = {}): Promise<unknown> {
    return this.#http.post(path, body, { timeoutMs: CONTROL_MS, control: true });
  }

  /** These say in a good answer that they failed. */
  async #must(path: string, body: unknown): Promise<void> {
    const { success, message } = this.#read(done, await this.#control(path, body));
    if (!success) throw new ServerRefused(`${this.url}${path}`, 500, JSON.stringify({ message }));
  }

  #read<T>(schema: z.ZodType<T>, answer: unknown): T {
    return readAnswer(schema, answer, this.url, "SGLang");
  }
}

function samplingParams(request: GenerateRequest): Record<string, unknown> {
  return {
    n: 1,
    max_new_tokens: request.maxTokens,
    temperature: request.temperature,
    top_p: request.topP ?? 1,
    top_k: request.topK ?? -1,
    min_p: request.minP ?? 0,
    // Heard by servers that run with --enable-deterministic-inference.
    sampling_seed: request.seed,
    // The model's own end-of-text ids are ours to name.
    ignore_eos: true,
    stop_token_ids: request.stopIds,
    ...(request.stopStrings?.length && { stop: request.stopStrings }),
    no_stop_trim: true,
    skip_special_tokens: false,
    ...(request.bannedIds.length > 0 && {
      logit_bias: Object.fromEntries(request.bannedIds.map((id) => [String(id), BAN])),
    }),
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
