/** One vLLM server: render, generate, and the control routes, over HTTP. */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { EngineError } from "../errors.ts";
import { eventReader, type RequestOptions, ServerLost, ServerRefused } from "./http.ts";
import { EXTENSION_CLASS } from "./launch.ts";
import {
  type Drawn,
  type Generated,
  type GenerateRequest,
  type Offering,
  PROBE_MS,
  type Probe,
  ServerClient,
  type ServerOptions,
  type TokenServer,
} from "./token-server.ts";
import {
  generateBody,
  generatedSchema,
  type Rendered,
  readGenerated,
  readRendered,
  renderedSchema,
} from "./vllm-wire.ts";

const GENERATE = "/inference/v1/generate";
const RENDER_MS = 600_000;
/** How long we wait for the learner's error once a server says that nothing came. */
const LEARNER_MS = 2000;
/** How many images we count on a server to have; its own cache is larger. */
const MAX_SENT = 4096;

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
export class VllmServer implements TokenServer {
  readonly url: string;
  readonly #client: ServerClient;
  /** The model's name in requests. */
  #model: string | undefined;
  #cpu = false;
  /** Hashes of images that this server was sent since its cache was last cleared. */
  readonly #sent = new Set<string>();

  constructor(url: string, options: ServerOptions = {}) {
    this.#client = new ServerClient("vLLM", url, options);
    this.url = this.#client.url;
  }

  /** `render`: a server that renders only. */
  async probe(role: "generate" | "render" = "generate"): Promise<Probe> {
    const timeoutMs = PROBE_MS;
    const [{ model, contextTokens }, { version }] = await Promise.all([
      this.#client.listed(),
      this.#client.http.get("/version", { timeoutMs }) as Promise<{ version: string }>,
    ]);
    this.#model = model;
    if (role === "generate") {
      await this.#checkConfig();
      // Fail now, not in the middle of a run.
      await this.#client.http
        .post(GENERATE, { token_ids: [0], sampling_params: { max_tokens: 1 } }, { timeoutMs })
        .catch((error) => this.#explainForbidden(error));
    }
    return { model, version, contextTokens };
  }

  async #checkConfig(): Promise<void> {
    const found = await this.#client.http
      .get("/server_info?config_format=json", { timeoutMs: PROBE_MS })
      .catch((error) => {
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
    } = this.#client.read(info, found).vllm_config;
    const { logprobs_mode: mode } = config;
    if (mode !== "processed_logprobs") {
      throw new EngineError(
        `${this.url} reports ${mode}, which do not describe the distribution that it samples from. Start it with "saccade vllm start", or with --logprobs-mode processed_logprobs.`,
      );
    }
    this.#checkDevice(device?.device, parallel?.worker_extension_cls);
  }

  /** See launch.ts: a CPU server without our extension would keep its old language head. */
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

  healthy(): Promise<boolean> {
    return this.#client.healthy();
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
    const answer = await this.#client.http
      .post("/v1/chat/completions/render", body, {
        timeoutMs: RENDER_MS,
        ...(options.signal && { signal: options.signal }),
      })
      .catch((error) => this.#explainForbidden(error));
    return readRendered(this.#client.read(renderedSchema, answer), this.url);
  }

  async generate(request: GenerateRequest): Promise<Generated> {
    const hashes = request.images.map(({ features }) => features.hash);
    // We send null for images that the server has. If it lost them it answers 500 and gets everything.
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
    const body = generateBody(request, request.adapter ?? (await this.#name()), sent);
    const options = {
      headers: { "x-session-id": request.session },
      timeoutMs: this.#client.timeoutMs,
      ...(signal && { signal }),
    };
    // Streams have no log-probabilities of the prompt.
    const { http } = this.#client;
    const streams = onPart !== undefined && !request.promptLogprobs;
    const answer = streams
      ? await this.#stream(body, options, onPart)
      : readGenerated(this.#client.read(generatedSchema, await http.post(GENERATE, body, options)), this.url);
    for (const { features } of images) remember(sent, features.hash);
    if (!streams) onPart?.(answer);
    return answer;
  }

  /** An answer that breaks off is returned as far as it came, since `onPart` has seen it. */
  async #stream(body: object, options: RequestOptions, onPart: (part: Drawn) => void): Promise<Generated> {
    const parts: Generated[] = [];
    let finish: Generated["finish"] = "abort";
    const onEvent = (data: string) => {
      if (data === "[DONE]") return;
      const event: unknown = JSON.parse(data);
      if (typeof event === "object" && event !== null && "error" in event) {
        throw new ServerRefused(`${this.url}${GENERATE}`, 500, data);
      }
      const answer = this.#client.read(generatedSchema, event);
      if (answer.choices.length === 0) return;
      const part = readGenerated(answer, this.url);
      if (answer.choices[0]?.finish_reason) finish = part.finish;
      if (part.ids.length === 0) return;
      onPart(part);
      parts.push(part);
    };
    try {
      await this.#client.http.post(GENERATE, { ...body, stream: true }, { ...options, onText: eventReader(onEvent) });
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

  load(folder: string, version: string): Promise<void> {
    return this.#swap(version, () =>
      this.#client.control("/collective_rpc", { method: "reload_weights", kwargs: { weights_path: folder } }),
    );
  }

  /** The process group lives as long as the transfer, so a restarted server needs nothing else. */
  take({ host, to }: Offering, version: string): Promise<void> {
    return this.#swap(version, async () => {
      const { world_size: takers } = this.#client.read(
        world,
        await this.#client.http.get("/get_world_size", { timeoutMs: PROBE_MS }),
      );
      const { port, backend, names, dtypes, shapes, give } = await to(takers);
      const taken = async () => {
        await this.#client.control("/init_weight_transfer_engine", {
          init_info: { host, port, size: takers + 1, backend },
        });
        await this.#client.control("/start_weight_update");
        await this.#client.control("/update_weights", { update_info: { names, dtypes, shapes } });
        await this.#client.control("/finish_weight_update");
      };
      const given = give();
      const why = given.then(
        () => undefined,
        (error: unknown) => error,
      );
      // When the learner dies, both sides fail: report the learner's error.
      const told = async (error: unknown): Promise<never> => {
        throw (await Promise.race([why, sleep(LEARNER_MS)])) ?? error;
      };
      await Promise.all([taken().catch(told), given]);
    });
  }

  /** Running requests are held and continue with the new weights; their ids are read again. */
  async #swap(version: string, bring: () => Promise<unknown>): Promise<void> {
    await this.#client.control("/pause?mode=keep&clear_cache=true");
    this.#sent.clear();
    try {
      await bring();
      if (this.#cpu) await this.#client.control("/collective_rpc", { method: "saccade_after_reload" });
      // The pause should clear these, too. The encoder cache is keyed by the image alone, so stale entries would be used.
      await this.#client.control("/reset_encoder_cache");
      await this.#client.control("/reset_prefix_cache");
      await this.#client.control("/update_weight_version", { new_version: version });
    } finally {
      await this.#client.control("/resume");
    }
  }

  async loadAdapter(folder: string, name: string): Promise<void> {
    await this.#client.control("/v1/load_lora_adapter", { lora_name: name, lora_path: folder }).catch((error) => {
      if (error instanceof ServerRefused && error.status === 404 && !/adapter/i.test(error.message)) {
        throw new EngineError(
          `${this.url} takes no adapters. Start it with "saccade vllm start --lora-rank N", or with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.`,
        );
      }
      throw error;
    });
  }

  async unloadAdapter(name: string): Promise<void> {
    await this.#client.control("/v1/unload_lora_adapter", { lora_name: name });
  }

  async sleep(): Promise<void> {
    this.#sent.clear();
    await this.#client.control("/sleep?level=1&mode=wait");
  }

  async wake(): Promise<void> {
    await this.#client.control("/wake_up");
  }

  close(): void {
    this.#client.http.close();
  }

  async #name(): Promise<string> {
    if (this.#model === undefined) await this.probe("render");
    return this.#model as string;
  }
}

function remember(sent: Set<string>, hash: string): void {
  sent.delete(hash);
  sent.add(hash);
  if (sent.size <= MAX_SENT) return;
  for (const oldest of sent) {
    sent.delete(oldest);
    return;
  }
}
