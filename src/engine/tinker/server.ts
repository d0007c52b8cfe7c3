/** A Tinker server as an engine sees it: what it can do, whether it sees, what was used of it. */
import { ConfigError } from "../../core/errors.ts";
import type { ModelInput } from "../../core/model-input.ts";
import * as api from "../../tinker/index.ts";
import type { Tokens } from "../engine.ts";
import { EngineError, EngineLost } from "../errors.ts";
import { inputOf } from "./convert.ts";

export class TinkerServer {
  readonly service: api.ServiceClient;
  /** The base model's name there. */
  readonly model: string;
  readonly contextTokens: number | undefined;
  /** Older servers take JSON, know no sequence ids, and average their losses. */
  readonly form: "protobuf" | "json";
  /** What one of Saccade's own servers says of itself. */
  readonly own: Readonly<Record<string, unknown>> | undefined;
  readonly used = { prefill: 0, sample: 0, train: 0 } satisfies Tokens;
  #sees: Promise<void> | undefined;

  private constructor(parts: Pick<TinkerServer, "service" | "model" | "contextTokens" | "form" | "own">) {
    this.service = parts.service;
    this.model = parts.model;
    this.contextTokens = parts.contextTokens;
    this.form = parts.form;
    this.own = parts.own;
  }

  static async open(service: api.ServiceClient, wanted: string | undefined): Promise<TinkerServer> {
    const { supported_models: models } = await asEngine(service.getServerCapabilities());
    const names = models.map(({ model_name: name }) => name);
    const model = wanted ?? (names.length === 1 ? names[0] : undefined);
    if (model === undefined || !names.includes(model)) {
      const problem = model === undefined ? "serves several models" : `has no model "${model}"`;
      throw new ConfigError(`${service.connection.url} ${problem}: name one with --model: ${names.join(", ")}.`);
    }
    const { saccade: own } = await service.connection.config();
    return new TinkerServer({
      service,
      model,
      contextTokens: models.find(({ model_name: name }) => name === model)?.max_context_length ?? undefined,
      form: await asEngine(service.form()),
      own,
    });
  }

  /** Some servers drop images silently, so we count the positions of the first prompt with one. */
  async checkSees(input: ModelInput): Promise<void> {
    if (this.own || input.images.length === 0) return;
    this.#sees ??= this.#look(input);
    await this.#sees;
  }

  async #look(input: ModelInput): Promise<void> {
    const sampler = await asEngine(this.service.createSamplingClient({ base_model: this.model }));
    const prompt = inputOf(input);
    const scored = await asEngine(sampler.computeLogprobs(prompt));
    if (scored.length === prompt.length) return;
    throw new ConfigError(
      `${this.service.connection.url} drops images: a prompt of ${prompt.length} positions has only ${scored.length} there. ` +
        `Train a text-only task, or use a server that serves "${this.model}" with its vision part.`,
    );
  }
}

/** A model or session that the server no longer knows is lost; a run goes on from its last checkpoint. */
export async function asEngine<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof api.TinkerError)) throw error;
    const gone = error instanceof api.APIStatusError && (error.status === 404 || error.status === 410);
    if (gone || error instanceof api.APIConnectionError) throw new EngineLost(error.message, { cause: error });
    throw new EngineError(error.message, { cause: error });
  }
}
