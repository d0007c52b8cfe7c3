/**
 * The Tinker API, as its official Python SDK calls it (0.23 to 0.36): sessions, models that are trained by operations in their order, samplers that are
 * snapshots, futures that are polled, checkpoints under tinker:// paths. State lies in the store; failures of accepted work are answers, not statuses.
 */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
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
import { MOST_BYTES } from "../ask.ts";
import { Futures } from "./futures.ts";
import {
  type CheckpointRow,
  Journal,
  type ModelRow,
  metadataText,
  type OperationRow,
  readMetadata,
  type SamplerRow,
  type SessionRow,
} from "./journal.ts";
import { decodeForwardBackward } from "./messages.ts";
import { checkpointJson, deleteCheckpoint, iso, page, runJson } from "./rest.ts";
import { Samplers } from "./samplers.ts";
import { draw, prepare } from "./sampling.ts";
import * as schemas from "./schemas.ts";
import { ARCHIVE_END, archiveOf } from "./tar.ts";
import { now, readOutcome, TrainedModel, type Workshop } from "./training.ts";

export const TINKER_PREFIX = "/api/v1/";
const MOST_PENDING = 4096;
const LINK_SECONDS = 3600;
/** A model that nobody asked for this long leaves memory; it comes back from its snapshot and the journal. */
const IDLE_SECONDS = 3600;
const CONFIG = {
  pjwt_auth_enabled: false,
  proto_write_fwdbwd: true,
  fwd_via_fwdbwd: true,
  use_pyqwest_transport: false,
  sample_max_concurrent_requests: 256,
};

export type TinkerOptions = {
  readonly engine: Engine;
  readonly chat: ChatFolder;
  readonly folder: string;
  readonly name: string;
  readonly contextLength: number;
  readonly store: string;
};

type Call = { readonly request: HttpRequest; readonly query: URLSearchParams; readonly parts: readonly string[] };

export class Tinker {
  readonly #options: TinkerOptions;
  readonly #journal: Journal;
  readonly #shop: Workshop;
  readonly #futures = new Futures();
  readonly #models = new Map<string, Promise<TrainedModel>>();
  readonly #loaded = new Map<string, TrainedModel>();
  #isClosed = false;
  readonly #samplers: Samplers;
  readonly #links = new Map<string, { readonly folder: string; readonly until: number }>();

  static async open(options: TinkerOptions): Promise<Tinker> {
    const store = join(options.store, "tinker");
    await mkdir(store, { recursive: true });
    return new Tinker(options, await Journal.open(join(store, "journal.sqlite")), store);
  }

  private constructor(options: TinkerOptions, journal: Journal, store: string) {
    this.#options = options;
    this.#journal = journal;
    const { engine, chat, folder } = options;
    this.#samplers = new Samplers(engine);
    this.#shop = {
      engine,
      chat,
      folder,
      store,
      journal,
      samplers: this.#samplers,
      checkpoint: (path, kinds) => this.#checkpoint(path, kinds).folder,
    };
  }

  /** Links to exported files carry their own key. */
  static isOpen(pathname: string): boolean {
    return pathname.startsWith(`${TINKER_PREFIX}files/`) || pathname === `${TINKER_PREFIX}healthz`;
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
    this.#isClosed = true;
    const models = await Promise.allSettled(this.#models.values());
    await Promise.allSettled(models.map((model) => (model.status === "fulfilled" ? model.value.close() : undefined)));
    await this.#samplers.close();
    this.#journal.close();
  }

  /** `saccade` is for our own client: what goes beyond the API. */
  get #config() {
    const { exactLogprobs: exact_logprobs } = this.#options.engine.capabilities;
    return { ...CONFIG, saccade: { exact_logprobs } };
  }

  async #route(route: string, call: Call): Promise<Response> {
    const { request } = call;
    const body = <S extends z.ZodType>(schema: S) => readJson(request, schema);
    switch (route) {
      case "POST client":
        return json(call.parts[1] === "config" ? this.#config : { refresh_interval_sec: 300 });
      case "GET healthz":
        return json({ status: "ok" });
      case "GET get_server_capabilities":
        return json({
          supported_models: [{ model_name: this.#options.name, max_context_length: this.#options.contextLength }],
        });
      case "POST telemetry":
        await readBody(request, MOST_BYTES);
        return json({ status: "accepted" });
      case "POST create_session":
        return this.#createSession(await body(schemas.createSession));
      case "POST session_heartbeat":
        await body(schemas.sessionOnly);
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
        this.#checkpoint(asked.path, ["weights"]);
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
        return this.#describeSampler(call.parts[1] ?? "");
      case "POST asample":
        return this.#sample(await body(schemas.sample));
      case "POST retrieve_future":
        return this.#retrieve((await body(schemas.retrieve)).request_id, request.signal);
      case "POST weights_info":
        return this.#weightsInfo((await body(schemas.pathOnly)).tinker_path);
      case "GET training_runs":
      case "DELETE training_runs":
      case "PUT training_runs":
        return this.#trainingRuns(call);
      case "GET checkpoints":
        return this.#listCheckpoints(call.query);
      case "GET sessions":
      case "POST sessions":
        return this.#sessions(call);
      case "GET files":
        return this.#file(call.parts);
    }
    throw new HttpError(404, "There is no such route; publishing, billing and audit are not served.");
  }

  #createSession(asked: z.output<typeof schemas.createSession>): Response {
    const id = randomUUID();
    const { user_metadata: metadata, display_name: name } = asked;
    this.#journal.run(
      "INSERT INTO sessions VALUES (?, ?, ?, ?, 'active')",
      id,
      now(),
      metadataText(metadata),
      name ?? null,
    );
    return json({
      type: "create_session",
      session_id: id,
      info_message: null,
      warning_message: null,
      error_message: null,
    });
  }

  #createModel(asked: z.output<typeof schemas.createModel>): Response {
    const { session_id: session, lora_config: lora, base_model: base } = asked;
    this.#session(session);
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
    const row = this.#row(id);
    if (row.base !== base || row.config !== config || row.rank !== rank)
      throw new HttpError(400, `${id} was created as something else before.`);
    this.#closeModels(({ used }) => used < now() - IDLE_SECONDS);
    this.#futureOfModel(id);
    return json({ request_id: `create:${id}`, model_id: null });
  }

  #futureOfModel(id: string): void {
    const request = `create:${id}`;
    if (this.#futures.has(request)) return;
    this.#futures.add(
      request,
      this.#model(id).then(() => ({ json: { model_id: id, type: "create_model" } })),
    );
  }

  /** Loaded when it is first needed; what the journal has beyond the last snapshot is done again, in order. */
  #model(id: string): Promise<TrainedModel> {
    const known = this.#models.get(id);
    if (known !== undefined) return known;
    const row = this.#row(id);
    // Read at once: what is accepted from now on is run by who accepts it.
    const pending = this.#journal.all<OperationRow>(
      "SELECT position, request, model, kind, body, outcome FROM operations WHERE model = ? AND position > ? ORDER BY position",
      id,
      row.position,
    );
    const opening = TrainedModel.open(this.#shop, row).then((model) => {
      this.#loaded.set(id, model);
      for (const operation of pending) this.#futures.add(operation.request, model.run(operation));
      return model;
    });
    this.#models.set(id, opening);
    // A model that could not be opened may be opened later.
    opening.catch(() => this.#models.delete(id));
    return opening;
  }

  /** Those that fit and have nothing to do, once everything that was accepted has reached its model. */
  #closeModels(fits: (row: ModelRow) => boolean): void {
    setImmediate(() => {
      for (const [id, model] of this.#loaded) {
        if (!model.isIdle || this.#isClosed || !fits(this.#row(id))) continue;
        this.#models.delete(id);
        this.#loaded.delete(id);
        void model.close();
      }
    });
  }

  async #forwardBackward(request: HttpRequest): Promise<Response> {
    if (!(request.headers.get("content-type") ?? "").includes("application/x-protobuf")) {
      throw new HttpError(400, "forward_backward takes protobuf; use an SDK of 0.23 or newer.");
    }
    const body = await readBody(request, MOST_BYTES);
    const { modelId, seqId } = decodeForwardBackward(body);
    return this.#submit("forward_backward", modelId, seqId === 0 ? null : String(seqId), body);
  }

  #submitJson(kind: string, asked: { model_id: string; seq_id?: number | string | null | undefined }): Response {
    const seq = asked.seq_id === undefined || asked.seq_id === null ? null : String(asked.seq_id);
    return this.#submit(kind, asked.model_id, seq, Buffer.from(JSON.stringify(asked)));
  }

  /** Accepted once, however often it is sent. */
  #submit(kind: string, model: string, seq: string | null, body: Uint8Array): Response {
    const opening = this.#model(model);
    const digest = createHash("sha256").update(kind).update(body).digest("hex");
    const known = this.#journal.one<{ request: string; digest: string }>(
      "SELECT request, digest FROM operations WHERE model = ? AND seq = ?",
      model,
      seq,
    );
    if (known !== undefined) {
      if (known.digest !== digest) throw new HttpError(400, `Operation ${seq} of ${model} was something else before.`);
      return json({ request_id: known.request, model_id: null });
    }
    if (this.#futures.pending >= MOST_PENDING) throw new HttpError(429, "Too many requests are waiting.");
    const request = `${kind}:${randomUUID()}`;
    this.#journal.together(() => {
      this.#journal.run(
        "INSERT INTO operations (request, model, seq, kind, body, digest) VALUES (?, ?, ?, ?, ?, ?)",
        ...[request, model, seq, kind, body, digest],
      );
      this.#journal.run("UPDATE models SET used = ? WHERE id = ?", now(), model);
    });
    const { position } = this.#journal.one<{ position: number }>(
      "SELECT position FROM operations WHERE request = ?",
      request,
    ) ?? { position: 0 };
    this.#futures.add(
      request,
      opening.then((trained) => trained.run({ position, request, model, kind, body, outcome: null })),
    );
    return json({ request_id: request, model_id: null });
  }

  async #retrieve(id: string, signal: AbortSignal): Promise<Response> {
    if (!this.#futures.has(id)) await this.#recall(id);
    const answer = await this.#futures.retrieve(id, signal);
    if (answer !== undefined) return answer;
    // A sample can be drawn again; what a training operation said long ago is gone.
    throw new HttpError(id.startsWith("sample:") ? 410 : 404, "There is no such future, or its result is gone.");
  }

  /** After a restart: what the journal knows comes back with its model. */
  async #recall(id: string): Promise<void> {
    if (id.startsWith("create:")) {
      if (this.#journal.one("SELECT id FROM models WHERE id = ?", id.slice("create:".length)) !== undefined) {
        this.#futureOfModel(id.slice("create:".length));
      }
      return;
    }
    const found = this.#journal.one<OperationRow>(
      "SELECT position, model, outcome FROM operations WHERE request = ?",
      id,
    );
    if (found === undefined) return;
    const outcome = readOutcome(found);
    if (outcome !== undefined) this.#futures.add(id, Promise.resolve(outcome));
    else await this.#model(found.model);
  }

  #info(id: string): Response {
    const row = this.#row(id);
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

  #createSampler(asked: z.output<typeof schemas.createSampler>): Response {
    this.#session(asked.session_id);
    const path = asked.model_path ?? null;
    const folder = path === null ? this.#options.folder : this.#checkpoint(path).folder;
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
    const { base, path } = this.#sampler(id);
    return json({ sampler_id: id, base_model: base, model_path: path });
  }

  #sampler(id: string): SamplerRow {
    const row = this.#journal.one<SamplerRow>("SELECT * FROM samplers WHERE id = ?", id);
    if (row === undefined) throw new HttpError(404, `There is no sampling session ${id.slice(0, 200)}.`);
    return row;
  }

  async #sample(asked: schemas.SampleRequest): Promise<Response> {
    const name = `sample:${asked.sampling_session_id}:${asked.seq_id ?? randomUUID()}`;
    const ids = Array.from({ length: asked.num_samples }, (_, i) => `${name}:${i}`);
    if (!this.#futures.has(name)) {
      if (this.#futures.pending >= MOST_PENDING) throw new HttpError(429, "Too many requests are waiting.");
      const { chat, contextLength } = this.#options;
      const { folder } = this.#sampler(asked.sampling_session_id);
      const prepared = await prepare(asked, chat, contextLength);
      if (!this.#futures.has(name)) {
        const work = this.#samplers.use(folder, (sampler) => draw(sampler, asked, prepared, name, chat));
        this.#futures.add(name, work);
      }
    }
    return json({ request_id: name, model_id: null, sample_sequence_ids: ids });
  }

  #weightsInfo(path: string): Response {
    const { run } = this.#checkpoint(path);
    const row = this.#row(run);
    const {
      train_unembed = true,
      train_mlp = true,
      train_attn = true,
    } = JSON.parse(row.config) as Record<string, boolean | undefined>;
    const trained = { train_unembed, train_mlp, train_attn };
    return json({
      base_model: row.base,
      optimizer_config: { type: "adamw" },
      is_lora: row.rank > 0,
      lora_rank: row.rank,
      ...trained,
    });
  }

  async #trainingRuns({ request, query, parts }: Call): Promise<Response> {
    const [, id, area, kind, name, action] = parts;
    const { method } = request;
    await this.#deleteExpired();
    if (id === undefined && method === "GET") {
      const { limit, offset } = page(query);
      const rows = this.#journal.all<ModelRow>(
        "SELECT * FROM models ORDER BY created DESC LIMIT ? OFFSET ?",
        limit,
        offset,
      );
      const { total = 0 } = this.#journal.one<{ total: number }>("SELECT COUNT(*) AS total FROM models") ?? {};
      return json({
        training_runs: rows.map((row) => runJson(this.#journal, row)),
        cursor: { offset, limit, total_count: total },
      });
    }
    if (id === undefined) throw new HttpError(405, "Only GET is answered here.");
    if (area === undefined && method === "GET") return json(runJson(this.#journal, this.#row(id)));
    if (area === "checkpoints" && kind === undefined && method === "GET") {
      this.#row(id);
      const rows = this.#journal.all<CheckpointRow>("SELECT * FROM checkpoints WHERE run = ? ORDER BY created", id);
      return json({ checkpoints: rows.map(checkpointJson) });
    }
    if (area !== "checkpoints" || kind === undefined || name === undefined)
      throw new HttpError(404, "There is no such route.");
    const row = this.#checkpoint(`tinker://${id}/${kind}/${name}`);
    if (method === "DELETE" && action === undefined) {
      await deleteCheckpoint(this.#journal, row);
      return new Response(null, { status: 204 });
    }
    if (method === "PUT" && action === "ttl") {
      const { ttl_seconds: seconds } = await readJson(request, schemas.ttl);
      const expires = seconds ? now() + seconds : null;
      this.#journal.run(
        "UPDATE checkpoints SET expires = ? WHERE run = ? AND kind = ? AND name = ?",
        expires,
        id,
        kind,
        name,
      );
      return json({});
    }
    if (method === "GET" && action === "external_weights_urls") return this.#linksTo(request, row.folder);
    if (method === "GET" && action === "archive") return this.#linkToArchive(request, row);
    throw new HttpError(404, "There is no such route; publishing is not served.");
  }

  async #listCheckpoints(query: URLSearchParams): Promise<Response> {
    await this.#deleteExpired();
    const { limit, offset } = page(query);
    const rows = this.#journal.all<CheckpointRow>(
      "SELECT * FROM checkpoints ORDER BY created DESC LIMIT ? OFFSET ?",
      limit,
      offset,
    );
    const { total = 0 } = this.#journal.one<{ total: number }>("SELECT COUNT(*) AS total FROM checkpoints") ?? {};
    return json({ checkpoints: rows.map(checkpointJson), cursor: { offset, limit, total_count: total } });
  }

  async #sessions({ request, query, parts }: Call): Promise<Response> {
    const [, id, action] = parts;
    if (request.method === "POST" && id === "search") {
      const { limit, display_name: name, user_metadata: wanted } = await readJson(request, schemas.search);
      const rows = this.#journal.all<SessionRow>("SELECT * FROM sessions ORDER BY created DESC").filter((row) => {
        const metadata = readMetadata(row.metadata);
        const fits = Object.entries(wanted ?? {}).every(([key, value]) => metadata[key] === value);
        return fits && (!name || row.name === name);
      });
      return json({ sessions: rows.slice(0, limit).map((row) => this.#sessionJson(row)), next_cursor: null });
    }
    if (id === undefined) {
      const { limit, offset } = page(query);
      const rows = this.#journal.all<SessionRow>(
        "SELECT * FROM sessions ORDER BY created DESC LIMIT ? OFFSET ?",
        limit,
        offset,
      );
      return json({ sessions: rows.map((row) => row.id) });
    }
    const row = this.#session(id);
    if (request.method === "POST" && action === "finish") {
      await readBody(request, MOST_BYTES);
      this.#journal.run("UPDATE sessions SET status = 'finished' WHERE id = ?", id);
      this.#closeModels(({ session }) => session === id);
      return new Response(null, { status: 204 });
    }
    if (request.method !== "GET" || action !== undefined) throw new HttpError(404, "There is no such route.");
    const list = (sql: string) => this.#journal.all<{ id: string }>(sql, id).map((one) => one.id);
    return json({
      training_run_ids: list("SELECT id FROM models WHERE session = ?"),
      sampler_ids: list("SELECT id FROM samplers WHERE session = ?"),
      user_metadata: readMetadata(row.metadata),
      display_name: row.name,
    });
  }

  #sessionJson(row: SessionRow) {
    const { count = 0 } =
      this.#journal.one<{ count: number }>(
        "SELECT COUNT(*) AS count FROM checkpoints WHERE run LIKE ?",
        `${row.id}:%`,
      ) ?? {};
    return {
      session_id: row.id,
      created_at: iso(row.created),
      owner: "saccade",
      project_id: null,
      checkpoints_count: count,
      status: row.status === "active" ? { type: "active" } : null,
      display_name: row.name,
      user_metadata: readMetadata(row.metadata),
    };
  }

  /** Addresses that need no key, for an hour. */
  async #linksTo(request: HttpRequest, folder: string): Promise<Response> {
    const { base, until } = this.#link(request, folder);
    const files = await readdir(folder);
    return json({ urls: Object.fromEntries(files.map((file) => [file, `${base}/${file}`])), expires: iso(until) });
  }

  /** What SDKs before 0.36 download. */
  #linkToArchive(request: HttpRequest, { folder, name }: CheckpointRow): Response {
    const { base, until } = this.#link(request, folder);
    return json({ url: `${base}/${name}${ARCHIVE_END}`, expires: iso(until) });
  }

  #link(request: HttpRequest, folder: string): { base: string; until: number } {
    for (const [key, { until }] of this.#links) if (until < now()) this.#links.delete(key);
    const key = randomBytes(24).toString("base64url");
    const until = now() + LINK_SECONDS;
    this.#links.set(key, { folder, until });
    return { base: `http://${request.headers.get("host")}${TINKER_PREFIX}files/${key}`, until };
  }

  async #file([, key = "", name = ""]: readonly string[]): Promise<Response> {
    const link = this.#links.get(key);
    const files = link === undefined || link.until < now() ? [] : await readdir(link.folder).catch(() => []);
    if (link === undefined || files.length === 0 || !(files.includes(name) || name.endsWith(ARCHIVE_END))) {
      throw new HttpError(404, "There is no such file, or its address is too old.");
    }
    const path = join(link.folder, name);
    const { size, content } = files.includes(name)
      ? { size: (await stat(path)).size, content: createReadStream(path) as AsyncIterable<Uint8Array> }
      : await archiveOf(link.folder, files);
    const headers = { "Content-Type": "application/octet-stream", "Content-Length": String(size) };
    return new Response(Readable.toWeb(Readable.from(content)) as ReadableStream, { headers });
  }

  async #deleteExpired(): Promise<void> {
    for (const row of this.#journal.all<CheckpointRow>("SELECT * FROM checkpoints WHERE expires < ?", now())) {
      await deleteCheckpoint(this.#journal, row);
    }
  }

  #checkpoint(path: string, kinds?: readonly string[]): CheckpointRow {
    const [, run, kind, name] =
      /^tinker:\/\/([^/]+)\/(weights|sampler_weights|external_weights)\/([^/]+)$/.exec(path) ?? [];
    if (run === undefined || kind === undefined || name === undefined) {
      throw new HttpError(400, `"${path.slice(0, 200)}" is no tinker://run/weights/name path.`);
    }
    if (kinds !== undefined && !kinds.includes(kind))
      throw new HttpError(400, `${path} is no checkpoint of ${kinds.join(" or ")}.`);
    const row = this.#journal.one<CheckpointRow>(
      "SELECT * FROM checkpoints WHERE run = ? AND kind = ? AND name = ?",
      run,
      kind,
      name,
    );
    if (row === undefined) throw new HttpError(404, `There is no checkpoint ${path}.`);
    return row;
  }

  #row(id: string): ModelRow {
    const row = this.#journal.one<ModelRow>("SELECT * FROM models WHERE id = ?", id);
    if (row === undefined) throw new HttpError(404, `There is no model ${id.slice(0, 200)}.`);
    return row;
  }

  #session(id: string): SessionRow {
    const row = this.#journal.one<SessionRow>("SELECT * FROM sessions WHERE id = ?", id);
    if (row === undefined) throw new HttpError(404, `There is no session ${id.slice(0, 200)}.`);
    return row;
  }

  #checkBase(name: string): void {
    if (name === this.#options.name || name === this.#options.folder) return;
    throw new HttpError(400, `This server has the model "${this.#options.name}", not "${name.slice(0, 200)}".`);
  }
}

async function readJson<S extends z.ZodType>(request: HttpRequest, schema: S): Promise<z.output<S>> {
  const body = await readBody(request, MOST_BYTES);
  let value: unknown;
  try {
    value = schemas.parseJson(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new HttpError(400, "The request is not JSON.");
  }
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new HttpError(400, `${issue?.path.join(".")}: ${issue?.message}`);
}
