/** Weights as they were when they were saved, to sample from and to score with. */
import { APIStatusError, TinkerError } from "./errors.ts";
import { inputJson, readSamplesJson } from "./json.ts";
import { decodeSamples } from "./messages.ts";
import type { Session } from "./session.ts";
import type { ModelInput, SampleOptions, SampleResponse, SamplingParams } from "./types.ts";

export class SamplingClient {
  readonly sampling_session_id: string;
  readonly #session: Session;
  #seq = 0;

  constructor(session: Session, id: string) {
    this.#session = session;
    this.sampling_session_id = id;
  }

  async sample(prompt: ModelInput, params: SamplingParams = {}, options: SampleOptions = {}): Promise<SampleResponse> {
    const { num_samples = 1, include_prompt_logprobs, signal, ...more } = options;
    const asked = {
      prompt: inputJson(prompt),
      num_samples,
      sampling_params: { temperature: 1, top_k: -1, top_p: 1, ...params },
      sampling_session_id: this.sampling_session_id,
      ...(include_prompt_logprobs !== undefined && { prompt_logprobs: include_prompt_logprobs }),
      topk_prompt_logprobs: 0,
      topk_sample_logprobs: 0,
      prompt_alt_tokens_k: 0,
      ...more,
      type: "sample",
    };
    return this.#session.inSlot(async () => {
      // A result that a server has lost (it was restarted) is drawn anew, under a new number.
      for (;;) {
        try {
          return await this.#draw({ ...asked, seq_id: this.#seq++ }, signal);
        } catch (error) {
          if (!(error instanceof APIStatusError && error.status === 410)) throw error;
        }
      }
    });
  }

  /** One log-probability per position of the prompt; the first has none. */
  async computeLogprobs(prompt: ModelInput, options: Pick<SampleOptions, "signal"> = {}): Promise<(number | null)[]> {
    const { prompt_logprobs: found } = await this.sample(
      prompt,
      { max_tokens: 1 },
      { ...options, include_prompt_logprobs: true },
    );
    if (found === undefined) throw new TinkerError("The server gave no log-probabilities of the prompt.");
    // Older servers leave the first out.
    return found.length > 0 && found.length === prompt.length - 1 ? [null, ...found] : [...found];
  }

  async getBaseModel(): Promise<string> {
    const route = `samplers/${this.sampling_session_id}`;
    return (await this.#session.connection.json<{ base_model: string }>(route, { method: "GET" })).base_model;
  }

  async #draw(body: object, signal: AbortSignal | undefined): Promise<SampleResponse> {
    const { connection } = this.#session;
    const submitted = await connection.json<{ request_id?: unknown; sample_sequence_ids?: readonly string[] | null }>(
      "asample",
      { body, headers: { "X-Tinker-Sampling-Backpressure": "1" }, ...(signal && { signal }) },
    );
    if (typeof submitted.request_id !== "string")
      throw new TinkerError("The server's answer to asample has no request_id.");
    const { request_id: request } = submitted;
    const found = await connection.retrieve(request, "Sample", signal).catch((error: unknown) => {
      if (signal?.aborted) connection.cancel(request);
      throw error;
    });
    const response = "protobuf" in found ? decodeSamples(found.protobuf) : readSamplesJson(found.json);
    const { sample_sequence_ids: ids } = submitted;
    if (!ids) return response;
    return {
      ...response,
      sequences: response.sequences.map((sequence, i) => ({
        ...sequence,
        ...(ids[i] !== undefined && { sequence_id: ids[i] }),
      })),
    };
  }
}
