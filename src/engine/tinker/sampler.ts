/** A snapshot at the server. Every turn sends the whole prompt again; the server may keep what it computed. */
import { ConfigError, DataError } from "../../core/errors.ts";
import type { ModelInput } from "../../core/model-input.ts";
import type { SamplingClient, SamplingParams as WireParams } from "../../tinker/index.ts";
import { checkSampling } from "../check-sampling.ts";
import type { Datum, Sample, SampleContext, Sampler, SamplingParams, Scores } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { checkDatum } from "../losses.ts";
import { inputOf } from "./convert.ts";
import { asEngine, type TinkerServer } from "./server.ts";

export class TinkerSampler implements Sampler {
  readonly version: number;
  readonly #server: TinkerServer;
  readonly #client: SamplingClient;
  #closed = false;

  constructor(server: TinkerServer, client: SamplingClient, version: number) {
    this.#server = server;
    this.#client = client;
    this.version = version;
  }

  async sample(prompt: ModelInput, params: SamplingParams, context: SampleContext): Promise<Sample> {
    this.#checkOpen();
    checkSampling(params);
    if (prompt.ids.length === 0) throw new DataError("A sequence needs at least one id.");
    if (params.grammar !== undefined)
      throw new ConfigError("Tinker can't follow a grammar: leave schemas and forced tool calls out.");
    if (params.minP !== undefined) throw new ConfigError("Tinker has no min-p: leave minP out.");
    if (params.rawLogprobs && params.temperature !== 1)
      throw new ConfigError("Tinker gives log-probabilities of the tempered distribution only: set temperature to 1.");
    const { signal, onToken } = context;
    signal?.throwIfAborted();
    await this.#server.checkSees(prompt);
    const { topLogprobs: top = 0 } = params;
    const found = await asEngine(
      this.#client.sample(inputOf(prompt), wireParams(params), {
        ...(params.promptLogprobs && { include_prompt_logprobs: true }),
        ...(top > 0 && { topk_sample_logprobs: top }),
        ...(signal && { signal }),
      }),
    );
    const [sequence] = found.sequences;
    if (sequence === undefined || sequence.tokens.length === 0 || sequence.logprobs?.length !== sequence.tokens.length)
      throw new EngineError("The server's sample is empty, or does not have one log-probability per token.");
    const { tokens: ids, logprobs, topk_logprobs: tops } = sequence;
    this.#server.used.prefill += prompt.ids.length;
    this.#server.used.sample += ids.length;
    const likeliest = tops?.map((row) => (row ?? []).map(([id, logprob]) => ({ id, logprob })));
    if (top > 0 && likeliest === undefined)
      throw new EngineError("The server returns no top tokens: leave topLogprobs out.");
    ids.forEach((id, i) => {
      onToken?.(id, logprobs[i] as number, likeliest?.[i]);
    });
    return {
      ids,
      logprobs,
      stopReason: sequence.stop_reason,
      version: this.version,
      ...(params.rawLogprobs && { rawLogprobs: logprobs }),
      ...(params.promptLogprobs && {
        promptLogprobs: Float32Array.from(found.prompt_logprobs ?? [], (one) => one ?? 0),
      }),
      ...(likeliest && { topLogprobs: likeliest }),
    };
  }

  async score(data: readonly Datum[]): Promise<Scores[]> {
    this.#checkOpen();
    return Promise.all(data.map((datum) => this.#scoreOne(datum)));
  }

  release(): void {}

  async close(): Promise<void> {
    this.#closed = true;
  }

  /** The server scores what follows what: targets must be the next ids, and only the last may lie beyond the input. */
  async #scoreOne(datum: Datum): Promise<Scores> {
    checkDatum(datum);
    const { input, targets, temperature = 1 } = datum;
    if (temperature !== 1) throw new ConfigError("Tinker scores at temperature 1 only: set sampling.temperature to 1.");
    const { ids } = input;
    const beyond = targets.at(-1) ?? -1;
    for (let i = 0; i + 1 < ids.length; i++) {
      const target = targets[i] as number;
      if (target >= 0 && target !== ids[i + 1])
        throw new DataError(`Tinker scores a sequence's own ids: position ${i} asks for ${target}, not ${ids[i + 1]}.`);
    }
    await this.#server.checkSees(input);
    const prompt = beyond < 0 ? inputOf(input) : inputOf(input).appendInt(beyond);
    const found = await asEngine(this.#client.computeLogprobs(prompt));
    if (found.length !== prompt.length)
      throw new EngineError(`The server scored ${found.length} of ${prompt.length} positions.`);
    this.#server.used.prefill += prompt.length;
    return { logprobs: Float32Array.from(targets, (target, i) => (target < 0 ? 0 : (found[i + 1] ?? 0))) };
  }

  #checkOpen(): void {
    if (this.#closed)
      throw new EngineError(`The sampler of version ${this.version} is closed. Publish or open another.`);
  }
}

function wireParams({ maxTokens, temperature, seed, topK, topP, stopIds, stopStrings }: SamplingParams): WireParams {
  // The server ends at its own end of text besides.
  const stop = stopStrings?.length ? stopStrings : stopIds?.length ? stopIds : undefined;
  return {
    max_tokens: maxTokens,
    temperature,
    seed,
    ...(topK !== undefined && { top_k: topK }),
    ...(topP !== undefined && { top_p: topP }),
    ...(stop && { stop }),
  };
}
