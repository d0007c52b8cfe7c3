/**
 * The Tinker API, as its official Python SDK calls it (0.23 to 0.36): sessions, models that are trained by operations in their order, samplers that are
 * snapshots, futures that are polled, checkpoints under tinker:// paths. State lies in the store; failures of accepted work are answers, not statuses.
 */
import { randomUUID } from "node:crypto";
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { z } from "zod";
import { DataError, errorMessage, SaccadeError } from "../../core/errors.ts";
import type { Engine } from "../../engine/engine.ts";
import { EngineError } from "../../engine/errors.ts";
import { HttpError } from "../../http/errors.ts";
import { readBody } from "../../http/limits.ts";
import { segmentsOf } from "../../http/paths.ts";
import type { HttpRequest } from "../../http/request.ts";
import { json } from "../../http/responses.ts";
import type { ChatFolder } from "../../model/chat.ts";
import { decodeBatch } from "../../tinker/messages.ts";
import { MAX_BODY_BYTES } from "../../wire/request.ts";
import type { Desk } from "../desk.ts";
import { findCheckpoint, findModel, findSampler, findSession } from "./find.ts";
import { Journal, metadataText, now } from "./journal.ts";
import { Links } from "./links.ts";
import { Models } from "./models.ts";
import { type Call, Listings } from "./rest.ts";
import { Samplers } from "./samplers.ts";
import { draw, prepare } from "./sampling.ts";
import * as schemas from "./schemas.ts";
import { Sessions } from "./sessions.ts";

export const TINKER_PREFIX = "/api/v1/";
const FILES_PREFIX = `${TINKER_PREFIX}files/`;
const CONFIG = {
  pjwt_auth_enabled: false,
  proto_write_fwdbwd: true,
  fwd_via_fwdbwd: true,
  use_pyqwest_transport: false,
  sample_max_concurrent_requests: 256,
};

/** Samples that a client gives up are cancelled here. */
const DYNAMIC_CONFIG = { refresh_interval_sec: 300, sample_cancel_enabled: true };

export type TinkerOptions = {
  readonly engine: Engine;
  readonly chat: ChatFolder;
  readonly desk: Desk;
  readonly folder: string;
  readonly name: string;
  readonly contextTokens: number;
  readonly store: string;
};

export class Tinker {
  readonly #options: TinkerOptions;
  readonly #journal: Journal;
  readonly #models: Models;
  readonly #samplers: Samplers;
  readonly #links: Links;
  readonly #sessions: Sessions;
  readonly #listings: Listings;

  static async open(options: TinkerOptions): Promise<Tinker> {
    const store = join(options.store, "tinker");
    // It holds what clients train on and what they trained.
    await mkdir(store, { recursive: true, mode: 0o700 });
    await chmod(store, 0o700);
    return new Tinker(options, await Journal.open(store), store);
  }

  private constructor(options: TinkerOptions, journal: Journal, store: string) {
    this.#options = options;
    this.#journal = journal;
    const { engine, chat, desk, folder } = options;
    this.#samplers = new Samplers(engine, folder);
    this.#models = new Models({ engine, chat, desk, folder, store, journal, samplers: this.#samplers });
    this.#links = new Links(FILES_PREFIX, journal);
    this.#sessions = new Sessions(journal);
    const onFinish = (id: string) => this.#models.closeIf(({ session }) => session === id);
    this.#listings = new Listings(journal, this.#links, this.#sessions, onFinish);
  }

  /** Links to exported files carry their own key. */
  static isOpen(pathname: string): boolean {
    return pathname.startsWith(FILES_PREFIX) || pathname === `${TINKER_PREFIX}healthz`;
  }

  async answer(request: HttpRequest): Promise<Response> {
    const { pathname, searchParams: query } = new URL(request.url);
    try {
      const parts = segmentsOf(pathname.slice(TINKER_PREFIX.length - 1)) ?? [];
      return await this.#route(`${request.method} ${parts[0] ?? ""}`, { request, query, parts });
    } catch (error) {
      const ours = error instanceof SaccadeError && !(error instanceof EngineError);
      const status = error instanceof HttpError ? error.status : ours ? 400 : 500;
      return json({ detail: errorMessage(error) }, { status });
    }
  }

  async close(): Promise<void> {
    await this.#models.close();
    await this.#samplers.close();
    await this.#journal.close();
  }

  async #route(route: string, call: Call): Promise<Response> {
    const { request, parts } = call;
    const body = <S extends z.ZodType>(schema: S) => schemas.readJson(request, schema);
    switch (route) {
      case "POST client":
        return json(parts[1] === "config" ? this.#config : DYNAMIC_CONFIG);
      case "GET healthz":
        return json({ status: "ok" });
      case "GET get_server_capabilities":
        return json({
          supported_models: [{ model_name: this.#options.name, max_context_length: this.#options.contextTokens }],
        });
      case "POST telemetry":
        await readBody(request, MAX_BODY_BYTES);
        return json({ status: "accepted" });
      case "POST create_session":
        return this.#createSession(await body(schemas.createSession));
      case "POST session_heartbeat":
        this.#sessions.beat((await body(schemas.sessionOnly)).session_id);
        return json({ type: "session_heartbeat" });
      case "POST create_model":
        return this.#createModel(await body(schemas.createModel));
      case "POST get_info":
        return this.#info((await body(schemas.modelOnly)).model_id);
      case "POST forward_backward":
        return this.#forwardBackward(request);
      case "POST optim_step":
        return this.#submitJson("optim_step", await body(schemas.optimStep));
      case "POST load_weights": {
        const asked = await body(schemas.load);
        findCheckpoint(this.#journal, asked.path, ["weights"]);
        return this.#submitJson("load_weights", asked);
      }
      case "POST save_weights":
      case "POST save_weights_for_sampler":
      case "POST save_weights_external": {
        const asked = await body(schemas.save);
        if (asked.age_encryption_recipients?.length)
          throw new DataError("Exports are not encrypted here: leave recipients out.");
        return this.#submitJson(route.slice("POST ".length), asked);
      }
      case "POST create_sampling_session":
        return this.#createSampler(await body(schemas.createSampler));
      case "GET samplers":
        return this.#describeSampler(parts[1] ?? "");
      case "POST asample":
        return this.#sample(await body(schemas.sample));
      case "POST retrieve_future":
        return this.#models.retrieve((await body(schemas.retrieve)).request_id, request.signal);
      case "POST cancel_future":
        this.#models.cancel((await body(schemas.retrieve)).request_id);
        return new Response(null, { status: 204 });
      case "POST weights_info":
        return this.#weightsInfo((await body(schemas.pathOnly)).tinker_path);
      case "GET training_runs":
      case "POST training_runs":
      case "DELETE training_runs":
      case "PUT training_runs":
        return this.#listings.trainingRuns(call);
      case "GET checkpoints":
        return this.#listings.checkpoints(call);
      case "GET sessions":
      case "POST sessions":
      case "PUT sessions":
        return this.#listings.sessions(call);
      case "GET files":
        return this.#links.follow(parts[1] ?? "", parts[2] ?? "");
    }
    throw new HttpError(404, "There is no such route; billing and audit are not served.");
  }

  /** `saccade` is for our own client: what goes beyond the API. */
  get #config() {
    const { exactLogprobs: exact_logprobs } = this.#options.engine.capabilities;
    return { ...CONFIG, saccade: { exact_logprobs } };
  }

  #createSession(asked: z.output<typeof schemas.createSession>): Response {
    return json({
      type: "create_session",
      session_id: this.#sessions.create(asked),
      info_message: null,
      warning_message: null,
      error_message: null,
    });
  }

  #createModel(asked: z.output<typeof schemas.createModel>): Response {
    const { session_id: session, lora_config: lora, base_model: base } = asked;
    findSession(this.#journal, session);
    this.#checkBase(base);
    const kind = asked.optimizer_config?.type ?? "adamw";
    if (kind !== "adamw") throw new DataError(`The optimizer "${kind}" is not served; use adamw.`);
    const id = `${session}:train:${asked.model_seq_id}`;
    const rank = lora?.rank ?? 32;
    const config = JSON.stringify({ ...lora, seed: schemas.seedOf(lora?.seed ?? 0) });
    this.#journal.run(
      "INSERT OR IGNORE INTO models VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, 0)",
      ...[id, session, base, rank, config, metadataText(asked.user_metadata), now(), now()],
    );
    const row = findModel(this.#journal, id);
    if (row.base !== base || row.config !== config || row.rank !== rank)
      throw new HttpError(400, `${id} already exists as something else.`);
    return this.#models.open(id);
  }

  async #forwardBackward(request: HttpRequest): Promise<Response> {
    if (!(request.headers.get("content-type") ?? "").includes("application/x-protobuf")) {
      throw new HttpError(400, "forward_backward takes protobuf; use an SDK of 0.23 or newer.");
    }
    const body = await readBody(request, MAX_BODY_BYTES);
    const batch = await decodeBatch(body);
    const { model_id: model, seq_id: seq } = batch;
    return this.#models.submit("forward_backward", model, seq === 0 ? null : String(seq), body, batch);
  }

  #submitJson(kind: string, asked: { model_id: string; seq_id?: number | string | null | undefined }): Response {
    const seq = asked.seq_id === undefined || asked.seq_id === null ? null : String(asked.seq_id);
    return this.#models.submit(kind, asked.model_id, seq, Buffer.from(JSON.stringify(asked)));
  }

  #info(id: string): Response {
    const row = findModel(this.#journal, id);
    return json({
      type: "get_info",
      model_id: id,
      optimizer_config: { type: "adamw" },
      is_lora: row.rank > 0,
      lora_rank: row.rank,
      model_name: row.base,
      model_data: { arch: "qwen-vl", model_name: row.base, tokenizer_id: this.#options.folder },
    });
  }

  #weightsInfo(path: string): Response {
    const row = findModel(this.#journal, findCheckpoint(this.#journal, path).run);
    const {
      train_unembed = true,
      train_mlp = true,
      train_attn = true,
    } = JSON.parse(row.config) as Record<string, boolean | undefined>;
    return json({
      base_model: row.base,
      optimizer_config: { type: "adamw" },
      is_lora: row.rank > 0,
      lora_rank: row.rank,
      ...{ train_unembed, train_mlp, train_attn },
    });
  }

  #createSampler(asked: z.output<typeof schemas.createSampler>): Response {
    findSession(this.#journal, asked.session_id);
    const path = asked.model_path ?? null;
    const folder = path === null ? null : findCheckpoint(this.#journal, path).folder;
    if (path === null && !asked.base_model) throw new DataError("Name a base_model or a model_path.");
    if (path === null) this.#checkBase(asked.base_model ?? "");
    const id = `${asked.session_id}:sample:${asked.sampling_session_seq_id}`;
    this.#journal.run(
      "INSERT OR IGNORE INTO samplers VALUES (?, ?, ?, ?, ?, NULL)",
      ...[id, asked.session_id, this.#options.name, path, folder],
    );
    return json({ type: "create_sampling_session", sampling_session_id: id });
  }

  #describeSampler(id: string): Response {
    const { base, path } = findSampler(this.#journal, id);
    return json({ sampler_id: id, base_model: base, model_path: path });
  }

  async #sample(asked: schemas.SampleRequest): Promise<Response> {
    const name = `sample:${asked.sampling_session_id}:${asked.seq_id ?? randomUUID()}`;
    const { chat } = this.#options;
    let drop = () => {};
    await this.#models.sample(name, async () => {
      const { folder } = findSampler(this.#journal, asked.sampling_session_id);
      const prepared = await prepare(asked, this.#options);
      const { sequences } = this.#samplers;
      const weights = folder === null ? this.#options.folder : this.#journal.place(folder);
      drop = prepared.release;
      return (signal) => {
        drop = () => {};
        const drawn = this.#samplers.use(weights, (sampler) =>
          draw(sampler, sequences, asked, prepared, { name, chat, signal }),
        );
        return drawn.finally(prepared.release);
      };
    });
    // The same sample came twice at once, and the other is drawn.
    drop();
    const ids = Array.from({ length: asked.num_samples }, (_, i) => `${name}:${i}`);
    return json({ request_id: name, model_id: null, sample_sequence_ids: ids });
  }

  #checkBase(name: string): void {
    if (name === this.#options.name || name === this.#options.folder) return;
    throw new HttpError(400, `This server has the model "${this.#options.name}", not "${name.slice(0, 200)}".`);
  }
}
