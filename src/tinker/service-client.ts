/** The way in: models to train, samplers, listings. */
import { ConfigError } from "../core/errors.ts";
import { Connection, type ConnectionOptions } from "./connection.ts";
import { TinkerError } from "./errors.ts";
import { RestClient } from "./rest-client.ts";
import type { SamplingClient } from "./sampling-client.ts";
import { Session, type SessionOptions } from "./session.ts";
import { jsonOf, TrainingClient } from "./training-client.ts";
import type { GetServerCapabilitiesResponse, LoraConfig, UserMetadata, WeightsInfoResponse } from "./types.ts";

export type ServiceClientOptions = ConnectionOptions & SessionOptions;
export type ModelOptions = LoraConfig & {
  readonly user_metadata?: UserMetadata;
  readonly optimizer_config?: { readonly type: string };
};

export class ServiceClient {
  readonly connection: Connection;
  readonly #options: SessionOptions;
  #session: Promise<Session> | undefined;

  constructor({ base_url, api_key, patience_ms, ...session }: ServiceClientOptions = {}) {
    this.connection = new Connection({
      ...(base_url !== undefined && { base_url }),
      ...(api_key !== undefined && { api_key }),
      ...(patience_ms !== undefined && { patience_ms }),
    });
    this.#options = session;
  }

  getServerCapabilities(): Promise<GetServerCapabilitiesResponse> {
    return this.connection.json("get_server_capabilities", { method: "GET" });
  }

  async createLoraTrainingClient(baseModel: string, options: ModelOptions = {}): Promise<TrainingClient> {
    const session = await this.#open();
    const { user_metadata = {}, optimizer_config = { type: "adamw" }, ...lora } = options;
    const submitted = await this.connection.json<{ request_id?: unknown }>("create_model", {
      body: {
        session_id: session.id,
        model_seq_id: session.nextModel(),
        base_model: baseModel,
        user_metadata,
        lora_config: { rank: 32, train_unembed: true, train_mlp: true, train_attn: true, ...lora },
        optimizer_config,
        type: "create_model",
      },
    });
    if (typeof submitted.request_id !== "string")
      throw new TinkerError("The server's answer to create_model has no request_id.");
    const { model_id: id } = jsonOf<{ model_id?: unknown }>(
      await this.connection.retrieve(submitted.request_id, "CreateModel"),
    );
    if (typeof id !== "string") throw new TinkerError("The server made a model and gave no model_id.");
    return new TrainingClient(session, id);
  }

  /** A new model with the weights of a saved one; its optimizer starts anew. */
  createTrainingClientFromState(
    path: string,
    options: Pick<ModelOptions, "user_metadata"> = {},
  ): Promise<TrainingClient> {
    return this.#fromState(path, false, options);
  }

  createTrainingClientFromStateWithOptimizer(
    path: string,
    options: Pick<ModelOptions, "user_metadata"> = {},
  ): Promise<TrainingClient> {
    return this.#fromState(path, true, options);
  }

  async createSamplingClient(of: {
    readonly base_model?: string;
    readonly model_path?: string;
  }): Promise<SamplingClient> {
    if (of.base_model === undefined && of.model_path === undefined)
      throw new ConfigError("Name a base_model or a model_path.");
    return (await this.#open()).createSampler(of);
  }

  createRestClient(): RestClient {
    return new RestClient(this.connection);
  }

  /** How the server takes batches: known once it was asked. */
  async form(): Promise<"protobuf" | "json"> {
    return (await this.#open()).form();
  }

  /** Ends the session, if there is one. */
  async close(status: "success" | "errored" | "interrupted" = "success"): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    await (await session?.catch(() => undefined))?.close(status);
  }

  async #fromState(
    path: string,
    optimizer: boolean,
    options: Pick<ModelOptions, "user_metadata">,
  ): Promise<TrainingClient> {
    const info = await this.createRestClient().getWeightsInfoByTinkerPath(path);
    const client = await this.createLoraTrainingClient(info.base_model, { ...loraOf(info), ...options });
    await (optimizer ? client.loadStateWithOptimizer(path) : client.loadState(path));
    return client;
  }

  #open(): Promise<Session> {
    this.#session ??= Session.open(this.connection, this.#options).catch((error) => {
      this.#session = undefined;
      throw error;
    });
    return this.#session;
  }
}

function loraOf({ is_lora, lora_rank, optimizer_config, ...info }: WeightsInfoResponse): ModelOptions {
  const { train_unembed, train_mlp, train_attn } = info;
  return {
    rank: is_lora ? (lora_rank ?? 32) : 0,
    ...(typeof train_unembed === "boolean" && { train_unembed }),
    ...(typeof train_mlp === "boolean" && { train_mlp }),
    ...(typeof train_attn === "boolean" && { train_attn }),
    ...(optimizer_config && { optimizer_config }),
  };
}
