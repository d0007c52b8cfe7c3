/**
 * One vLLM server: render, generate, and the control routes, over its HTTP interface. What a rollout needs of any inference server is `TokenServer`;
 * SGLang has another implementation of it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import type { Image } from "../../core/image.ts";
import type { Features } from "../../core/model-input.ts";
import type { TopLogprob, WeightOffer } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { encodeFeatures } from "../features.ts";
import { eventReader, HttpClient, type RequestOptions, readAnswer, ServerLost, ServerRefused } from "./http.ts";
import { EXTENSION_CLASS } from "./launch.ts";

/** A picture among the ids: for servers that take processed ones, and for those that process it themselves. */
export type Picture = {
  readonly start: number;
  readonly length: number;
  readonly image: Image;
  readonly features: Features;
};

/** Ids in, ids out. */
export type GenerateRequest = {
  readonly ids: Int32Array | readonly number[];
  readonly images: readonly Picture[];
  readonly maxTokens: number;
  readonly temperature: number;
  readonly seed: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  /** The only ids that end it; they are part of the answer. */
  readonly stopIds: readonly number[];
  readonly stopStrings?: readonly string[];
  /** Ids that can't be drawn. */
  readonly bannedIds: readonly number[];
  /** The k likeliest ids at each place. */
  readonly topLogprobs?: number;
  /** Log-probabilities of the prompt's ids. */
  readonly promptLogprobs?: boolean;
  /** The adapter that answers; absent: the model itself. */
  readonly adapter?: string;
  /** Who asks, for servers that keep a session's caches together. */
  readonly session: string;
  readonly signal?: AbortSignal;
  /** Takes the answer in parts as they are drawn. What it throws ends the request. */
  readonly onPart?: (part: Drawn) => void;
};

/** Ids with what is known of each. */
export type Drawn = {
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
  /** The weights of each id, as they were named. */
  readonly versions: readonly string[];
  readonly topLogprobs: readonly (readonly TopLogprob[])[];
};

export type Generated = Drawn & {
  /** `abort`: somebody stopped it, or the server was lost after it had said something; what is here is a beginning. */
  readonly finish: "stop" | "length" | "abort";
  readonly promptLogprobs?: Float32Array;
};

export type Probe = { readonly model: string; readonly version: string; readonly contextTokens: number };

/** How weights in a learner's memory are asked for: its machine, and a snapshot's `offer`. */
export type Offering = { readonly host: string; readonly to: (takers: number) => Promise<WeightOffer> };

export interface TokenServer {
  readonly url: string;
  /** Asks for what training needs and says what is missing, and how to start the server with it. */
  probe(): Promise<Probe>;
  healthy(): Promise<boolean>;
  generate(request: GenerateRequest): Promise<Generated>;
  /** New weights from a folder that the server can read, under a name; what was cached of the old ones is gone. */
  load(folder: string, version: string): Promise<void>;
  /** The same from a learner's memory, where servers of this kind can. */
  take?(offering: Offering, version: string): Promise<void>;
  loadAdapter(folder: string, name: string): Promise<void>;
  unloadAdapter(name: string): Promise<void>;
  /** The weights leave the GPU, and come back. */
  sleep(): Promise<void>;
  wake(): Promise<void>;
  close(): void;
}

export type ServerOptions = {
  /** Requests in flight at once; default 256. */
  readonly concurrency?: number;
  /** Most milliseconds for one answer; default an hour. */
  readonly timeoutMs?: number;
  readonly key?: string;
};

export type Rendered = {
  readonly ids: number[];
  readonly images: readonly {
    readonly hash: string;
    readonly start: number;
    readonly length: number;
    readonly data: string;
  }[];
};

const GENERATE = "/inference/v1/generate";
const CONTROL_MS = 600_000;
const PROBE_MS = 120_000;
/** How long the learner may take to say that it is gone, once a server says that nothing came. */
const LEARNER_MS = 2000;
/** vLLM clamps a bias to this. Among logits of a sane size it leaves nothing. */
const BAN = -100;
/** Pictures that a server is believed to hold; its own cache is larger. */
const REMEMBERED = 4096;

const models = z.looseObject({
  data: z.array(z.looseObject({ id: z.string(), max_model_len: z.number().nullish() })).min(1),
});
const info = z.looseObject({
  vllm_config: z.looseObject({
    device_config: z.looseObject({ device: z.string().optional() }).optional(),
    parallel_config: z.looseObject({ worker_extension_cls: z.string().nullish() }).optional(),
    model_config: z.looseObject({
      logprobs_mode: z.string(),
      multimodal_config: z.looseObject({ mm_device_do_normalize: z.boolean().nullish() }).nullish(),
    }),
  }),
});
const world = z.looseObject({ world_size: z.int().min(1) });
const rendered = z.looseObject({
  token_ids: z.array(z.int()),
  features: z
    .looseObject({
      mm_hashes: z.record(z.string(), z.array(z.string())),
      mm_placeholders: z.record(z.string(), z.array(z.looseObject({ offset: z.int(), length: z.int() }))),
      kwargs_data: z.record(z.string(), z.array(z.string().nullable())).nullish(),
    })
    .nullish(),
});
// 0.32 says token_id; before, the token was spelled token_id:314.
const scored = z.looseObject({ token_id: z.int().optional(), token: z.string().optional(), logprob: z.number() });
const generated = z.looseObject({
  choices: z.array(
    z.looseObject({
      token_ids: z.array(z.int()),
      finish_reason: z.string().nullish(),
      logprobs: z
        .looseObject({ content: z.array(scored.extend({ top_logprobs: z.array(scored).optional() })) })
        .nullish(),
      weight_versions: z.array(z.looseObject({ version: z.string(), start: z.int(), end: z.int() })).nullish(),
    }),
  ),
  prompt_logprobs: z.array(z.record(z.string(), z.looseObject({ logprob: z.number() })).nullable()).nullish(),
});

export class VllmServer implements TokenServer {
  readonly url: string;
  readonly #http: HttpClient;
  readonly #timeoutMs: number;
  /** What requests call it. */
  #model: string | undefined;
  #cpu = false;
  /** Hashes of pictures that this server was sent since its cache was last cleared. */
  readonly #sent = new Set<string>();

  constructor(url: string, { concurrency = 256, timeoutMs = 3_600_000, key }: ServerOptions = {}) {
    this.#http = new HttpClient(url, { concurrency, ...(key !== undefined && { key }) });
    this.url = this.#http.url;
    this.#timeoutMs = timeoutMs;
  }

  /** `render`: a server that renders only. */
  async probe(role: "generate" | "render" = "generate"): Promise<Probe> {
    const timeoutMs = PROBE_MS;
    const [listed, { version }] = await Promise.all([
      this.#http.get("/v1/models", { timeoutMs }),
      this.#http.get("/version", { timeoutMs }) as Promise<{ version: string }>,
    ]);
    const [first] = this.#read(models, listed).data;
    this.#model = first?.id as string;
    const contextTokens = first?.max_model_len ?? Number.POSITIVE_INFINITY;
    if (role === "generate") {
      await this.#checkConfig();
      // What a server was not started for is said now, not in the middle of a run.
      await this.#http
        .post(GENERATE, { token_ids: [0], sampling_params: { max_tokens: 1 } }, { timeoutMs })
        .catch((error) => this.#explainForbidden(error));
    }
    return { model: this.#model, version, contextTokens };
  }

  async #checkConfig(): Promise<void> {
    const found = await this.#http.get("/server_info?config_format=json", { timeoutMs: PROBE_MS }).catch((error) => {
      if (error instanceof ServerRefused && error.status === 404) {
        throw new EngineError(
          `${this.url} has no control routes. Start it with "saccade vllm start", or with VLLM_SERVER_DEV_MODE=1 in its environment.`,
        );
      }
      throw error;
    });
    const {
      model_config: config,
      device_config: device,
      parallel_config: parallel,
    } = this.#read(info, found).vllm_config;
    const { logprobs_mode: mode } = config;
    if (mode !== "processed_logprobs") {
      throw new EngineError(
        `${this.url} reports ${mode}, which are not of the distribution that is sampled from. Start it with "saccade vllm start", or with --logprobs-mode processed_logprobs.`,
      );
    }
    this.#checkDevice(device?.device, parallel?.worker_extension_cls);
  }

  /** See launch.ts: a CPU server without our extension would keep its old head. */
  #checkDevice(device: string | undefined, extension: string | null | undefined): void {
    this.#cpu = device === "cpu";
    if (!this.#cpu || extension === EXTENSION_CLASS) return;
    throw new EngineError(
      `${this.url} runs on the CPU, where vLLM keeps a tied language head when weights are reloaded. Start it with "saccade vllm start".`,
    );
  }

  #explainForbidden(error: unknown): never {
    if (error instanceof ServerRefused && error.status === 403) {
      throw new EngineError(
        `${this.url} does not allow render and generate. Start it with "saccade vllm start", or with --enable-scale-out.`,
      );
    }
    throw error;
  }

  async healthy(): Promise<boolean> {
    return this.#http.get("/health", { timeoutMs: 5000 }).then(
      () => true,
      () => false,
    );
  }

  /** `messages` in OpenAI's form. */
  async render(
    messages: unknown,
    options: { readonly addGenerationPrompt: boolean; readonly signal?: AbortSignal },
  ): Promise<Rendered> {
    const body = {
      model: await this.#name(),
      messages,
      add_generation_prompt: options.addGenerationPrompt,
      // Required to be positive; nothing is generated here.
      max_tokens: 1,
    };
    const answer = await this.#http
      .post("/v1/chat/completions/render", body, {
        timeoutMs: CONTROL_MS,
        ...(options.signal && { signal: options.signal }),
      })
      .catch((error) => this.#explainForbidden(error));
    const { token_ids: ids, features } = this.#read(rendered, answer);
    const images = (features?.mm_hashes.image ?? []).map((hash, i) => {
      const place = features?.mm_placeholders.image?.[i];
      const data = features?.kwargs_data?.image?.[i];
      if (place === undefined || typeof data !== "string") {
        throw new EngineError(`${this.url} rendered a picture without its place or its pixels.`);
      }
      return { hash, start: place.offset, length: place.length, data };
    });
    return { ids, images };
  }

  async generate(request: GenerateRequest): Promise<Generated> {
    const hashes = request.images.map(({ features }) => features.hash);
    // Nulls stand for what the server still has; when it does not, it breaks down and gets everything.
    const known = hashes.some((hash) => this.#sent.has(hash));
    try {
      return await this.#generate(request, this.#sent);
    } catch (error) {
      if (!(known && error instanceof ServerRefused && error.status >= 500)) throw error;
      for (const hash of hashes) this.#sent.delete(hash);
      return this.#generate(request, this.#sent);
    }
  }

  async #generate(request: GenerateRequest, sent: Set<string>): Promise<Generated> {
    const { images, signal, onPart } = request;
    const body = {
      model: request.adapter ?? (await this.#name()),
      token_ids: Array.from(request.ids),
      sampling_params: samplingParams(request),
      ...(images.length > 0 && { features: wireFeatures(images, sent) }),
    };
    const options = {
      headers: { "x-session-id": request.session },
      timeoutMs: this.#timeoutMs,
      ...(signal && { signal }),
    };
    // A stream leaves the prompt's log-probabilities out.
    const streams = onPart !== undefined && !request.promptLogprobs;
    const answer = streams
      ? await this.#stream(body, options, onPart)
      : this.#readGenerated(await this.#http.post(GENERATE, body, options));
    for (const { features } of images) remember(sent, features.hash);
    if (!streams) onPart?.(answer);
    return answer;
  }

  /** An answer that breaks off is a beginning: what was said can't be taken back. */
  async #stream(
    body: object,
    options: RequestOptions,
    onPart: NonNullable<GenerateRequest["onPart"]>,
  ): Promise<Generated> {
    const parts: Generated[] = [];
    let finish: Generated["finish"] = "abort";
    const onEvent = (data: string) => {
      if (data === "[DONE]") return;
      const event: unknown = JSON.parse(data);
      if (typeof event === "object" && event !== null && "error" in event) {
        throw new ServerRefused(`${this.url}${GENERATE}`, 500, data);
      }
      const { choices } = this.#read(generated, event);
      if (choices.length === 0) return;
      const part = this.#readGenerated(event);
      if (choices[0]?.finish_reason) finish = part.finish;
      if (part.ids.length === 0) return;
      onPart(part);
      parts.push(part);
    };
    try {
      await this.#http.post(GENERATE, { ...body, stream: true }, { ...options, onText: eventReader(onEvent) });
    } catch (error) {
      const broke = error instanceof ServerLost || error instanceof ServerRefused;
      if (!broke || parts.length === 0) throw error;
    }
    return {
      ids: parts.flatMap((part) => part.ids),
      logprobs: parts.flatMap((part) => part.logprobs),
      versions: parts.flatMap((part) => part.versions),
      topLogprobs: parts.flatMap((part) => part.topLogprobs),
      finish,
    };
  }

  #readGenerated(answer: unknown): Generated {
    const { choices, prompt_logprobs: prompt } = this.#read(generated, answer);
    const [choice] = choices;
    const ids = choice?.token_ids ?? [];
    const content = choice?.logprobs?.content ?? [];
    if (content.length !== ids.length) {
      throw new EngineError(`${this.url} gave ${ids.length} ids with ${content.length} log-probabilities.`);
    }
    const logprobs = content.map((entry, i) => {
      if (idOf(entry) !== ids[i]) throw new EngineError(`${this.url} gave log-probabilities of other ids.`);
      return entry.logprob;
    });
    const versions = ids.map(
      (_, i) => choice?.weight_versions?.find(({ start, end }) => start <= i && i < end)?.version ?? "",
    );
    const reason = choice?.finish_reason;
    return {
      ids,
      logprobs,
      versions,
      finish: reason === "length" || reason === "abort" ? reason : "stop",
      topLogprobs: content.map(({ top_logprobs = [] }) =>
        top_logprobs.map((entry) => ({ id: idOf(entry), logprob: entry.logprob })),
      ),
      ...(prompt && {
        promptLogprobs: Float32Array.from(prompt, (place) => Object.values(place ?? {})[0]?.logprob ?? 0),
      }),
    };
  }

  load(folder: string, version: string): Promise<void> {
    return this.#swap(version, () =>
      this.#control("/collective_rpc", { method: "reload_weights", kwargs: { weights_path: folder } }),
    );
  }

  /** Over a process group that lives as long as the transfer, so that a server which died and came back needs nothing else. */
  take({ host, to }: Offering, version: string): Promise<void> {
    return this.#swap(version, async () => {
      const { world_size: takers } = this.#read(
        world,
        await this.#http.get("/get_world_size", { timeoutMs: PROBE_MS }),
      );
      const { port, backend, names, dtypes, shapes, give } = await to(takers);
      const taken = async () => {
        await this.#control("/init_weight_transfer_engine", { init_info: { host, port, size: takers + 1, backend } });
        await this.#control("/start_weight_update");
        await this.#control("/update_weights", { update_info: { names, dtypes, shapes } });
        await this.#control("/finish_weight_update");
      };
      const given = give();
      const why = given.then(
        () => undefined,
        (error: unknown) => error,
      );
      // When the learner dies both sides fail, and it is the learner's words that count.
      const told = async (error: unknown): Promise<never> => {
        throw (await Promise.race([why, sleep(LEARNER_MS)])) ?? error;
      };
      await Promise.all([taken().catch(told), given]);
    });
  }

  /** Requests that run meanwhile are held, and go on with the new weights from ids that are read anew. */
  async #swap(version: string, bring: () => Promise<unknown>): Promise<void> {
    await this.#control("/pause?mode=keep&clear_cache=true");
    this.#sent.clear();
    try {
      await bring();
      if (this.#cpu) await this.#control("/collective_rpc", { method: "saccade_after_reload" });
      // The pause clears these too where its promise is kept; what the vision tower made of a picture is named by the picture alone.
      await this.#control("/reset_encoder_cache");
      await this.#control("/reset_prefix_cache");
      await this.#control("/update_weight_version", { new_version: version });
    } finally {
      await this.#control("/resume");
    }
  }

  async loadAdapter(folder: string, name: string): Promise<void> {
    await this.#control("/v1/load_lora_adapter", { lora_name: name, lora_path: folder }).catch((error) => {
      if (error instanceof ServerRefused && error.status === 404 && !/adapter/i.test(error.message)) {
        throw new EngineError(
          `${this.url} takes no adapters. Start it with "saccade vllm start --lora-rank N", or with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.`,
        );
      }
      throw error;
    });
  }

  async unloadAdapter(name: string): Promise<void> {
    await this.#control("/v1/unload_lora_adapter", { lora_name: name });
  }

  async sleep(): Promise<void> {
    this.#sent.clear();
    await this.#control("/sleep?level=1&mode=wait");
  }

  async wake(): Promise<void> {
    await this.#control("/wake_up");
  }

  /** The name of the weights that it says it has. */
  async weightVersion(): Promise<string> {
    const { weight_version: version } = (await this.#http.get("/weight_info", { timeoutMs: PROBE_MS })) as {
      weight_version: string;
    };
    return version;
  }

  close(): void {
    this.#http.close();
  }

  #control(path: string, body: unknown = {}): Promise<unknown> {
    return this.#http.post(path, body, { timeoutMs: CONTROL_MS, control: true });
  }

  async #name(): Promise<string> {
    if (this.#model === undefined) await this.probe("render");
    return this.#model as string;
  }

  #read<T>(schema: z.ZodType<T>, answer: unknown): T {
    return readAnswer(schema, answer, this.url, "vLLM");
  }
}

function samplingParams(request: GenerateRequest): Record<string, unknown> {
  return {
    n: 1,
    max_tokens: request.maxTokens,
    temperature: request.temperature,
    seed: request.seed,
    top_p: request.topP ?? 1,
    top_k: request.topK ?? 0,
    min_p: request.minP ?? 0,
    logprobs: request.topLogprobs ?? 0,
    ...(request.promptLogprobs && { prompt_logprobs: 0 }),
    // The model's own end-of-text ids are ours to name.
    ignore_eos: true,
    stop_token_ids: request.stopIds,
    ...(request.stopStrings?.length && { stop: request.stopStrings, include_stop_str_in_output: true }),
    logit_bias: Object.fromEntries(request.bannedIds.map((id) => [id, BAN])),
    skip_special_tokens: false,
  };
}

const encoded = new WeakMap<Features, string>();

function wireFeatures(images: GenerateRequest["images"], sent: ReadonlySet<string>): unknown {
  const kwargs = images.map(({ features }) => {
    if (sent.has(features.hash)) return null;
    const known = encoded.get(features) ?? encodeFeatures(features);
    encoded.set(features, known);
    return known;
  });
  return {
    mm_hashes: { image: images.map(({ features }) => features.hash) },
    mm_placeholders: { image: images.map(({ start, length }) => ({ offset: start, length })) },
    kwargs_data: { image: kwargs },
  };
}

function remember(sent: Set<string>, hash: string): void {
  sent.delete(hash);
  sent.add(hash);
  if (sent.size <= REMEMBERED) return;
  for (const oldest of sent) {
    sent.delete(oldest);
    return;
  }
}

function idOf({ token_id: id, token }: z.output<typeof scored>): number {
  return id ?? Number(token?.replace("token_id:", ""));
}
