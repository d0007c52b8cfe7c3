/** What a rollout needs of any inference server, ids in and ids out, and what the clients of vLLM and SGLang share. */
import { z } from "zod";
import type { Features, ImageSpan } from "../../core/model-input.ts";
import type { SamplingParams, TopLogprob, WeightOffer } from "../engine.ts";
import { HttpClient, readAnswer } from "./http.ts";

/** An image among the ids: some servers take its features, others the image itself. */
export type PromptImage = Pick<ImageSpan, "start" | "length" | "image"> & { readonly features: Features };

export type GenerateRequest = Omit<SamplingParams, "rawLogprobs" | "stopIds"> & {
  readonly ids: Int32Array | readonly number[];
  readonly images: readonly PromptImage[];
  /** The only ids that end the answer; they are part of it. */
  readonly stopIds: readonly number[];
  /** Ids that are never sampled. */
  readonly bannedIds: readonly number[];
  /** The adapter that answers; default: the model itself. */
  readonly adapter?: string;
  /** Servers keep the caches of one session together. */
  readonly session: string;
  readonly signal?: AbortSignal;
  /** Called with each part of the answer as it is sampled. An error that it throws ends the request. */
  readonly onPart?: (part: Drawn) => void;
};

export type Drawn = {
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
  /** The name of the weights that sampled each id. */
  readonly versions: readonly string[];
  readonly topLogprobs: readonly (readonly TopLogprob[])[];
};

export type Generated = Drawn & {
  /** `abort`: the request was stopped, or the server was lost halfway; the ids are only the beginning. */
  readonly finish: "stop" | "length" | "abort";
  readonly promptLogprobs?: Float32Array;
};

export type Probe = { readonly model: string; readonly version: string; readonly contextTokens: number };

/** How servers reach weights in a learner's memory: its machine, and a snapshot's `offer`. */
export type Offering = { readonly host: string; readonly to: (takers: number) => Promise<WeightOffer> };

export interface TokenServer {
  readonly url: string;
  /** Checks that the server has what training needs; errors say how to start it. */
  probe(): Promise<Probe>;
  healthy(): Promise<boolean>;
  generate(request: GenerateRequest): Promise<Generated>;
  /** Loads named weights from a folder that the server can read, and clears the caches of the old ones. */
  load(folder: string, version: string): Promise<void>;
  /** The same from a learner's memory, where this kind of server can. */
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
  /** Milliseconds for one answer; default one hour. */
  readonly timeoutMs?: number;
  readonly key?: string;
};

const CONTROL_MS = 600_000;
export const PROBE_MS = 120_000;
/** vLLM clamps a bias to this, which is enough to ban an id. */
const BAN = -100;

const models = z.looseObject({
  data: z.array(z.looseObject({ id: z.string(), max_model_len: z.number().nullish() })).min(1),
});

export class ServerClient {
  readonly url: string;
  readonly http: HttpClient;
  readonly timeoutMs: number;
  readonly #kind: string;

  constructor(kind: string, url: string, { concurrency = 256, timeoutMs = 3_600_000, key }: ServerOptions = {}) {
    this.http = new HttpClient(url, { concurrency, ...(key !== undefined && { key }) });
    this.url = this.http.url;
    this.timeoutMs = timeoutMs;
    this.#kind = kind;
  }

  async listed(): Promise<Omit<Probe, "version">> {
    const [first] = this.read(models, await this.http.get("/v1/models", { timeoutMs: PROBE_MS })).data;
    return { model: first?.id as string, contextTokens: first?.max_model_len ?? Number.POSITIVE_INFINITY };
  }

  healthy(): Promise<boolean> {
    return this.http.get("/health", { timeoutMs: 5000 }).then(
      () => true,
      () => false,
    );
  }

  control(path: string, body: unknown = {}): Promise<unknown> {
    return this.http.post(path, body, { timeoutMs: CONTROL_MS, control: true });
  }

  read<T>(schema: z.ZodType<T>, answer: unknown): T {
    return readAnswer(schema, answer, this.url, this.#kind);
  }
}

/** The settings that vLLM and SGLang call by the same names. */
export function sharedParams(request: GenerateRequest) {
  return {
    n: 1,
    temperature: request.temperature,
    top_p: request.topP ?? 1,
    min_p: request.minP ?? 0,
    // We name the ids that end an answer, not the model.
    ignore_eos: true,
    stop_token_ids: request.stopIds,
    ...(request.stopStrings?.length && { stop: request.stopStrings }),
    ...(request.bannedIds.length > 0 && { logit_bias: Object.fromEntries(request.bannedIds.map((id) => [id, BAN])) }),
    skip_special_tokens: false,
  };
}

export function finishOf(reason: string | null | undefined): Generated["finish"] {
  return reason === "length" || reason === "abort" ? reason : "stop";
}
