/** The Tinker API's listings: sessions, training runs, checkpoints, in the shapes its clients check strictly. */
import { HttpError } from "../../http/errors.ts";
import { readBody } from "../../http/limits.ts";
import type { HttpRequest } from "../../http/request.ts";
import { json } from "../../http/responses.ts";
import { MAX_BODY_BYTES } from "../../wire/request.ts";
import { findCheckpoint, findModel, findSession } from "./find.ts";
import { type CheckpointRow, iso, type Journal, type ModelRow, now, readMetadata, type SessionRow } from "./journal.ts";
import type { Links } from "./links.ts";
import * as schemas from "./schemas.ts";
import type { Sessions } from "./sessions.ts";
import { removeSaved } from "./training.ts";

const TYPES: Readonly<Record<string, string>> = {
  weights: "training",
  sampler_weights: "sampler",
  external_weights: "external",
};

export type Call = {
  readonly request: HttpRequest;
  readonly query: URLSearchParams;
  readonly parts: readonly string[];
};

export class Listings {
  readonly #journal: Journal;
  readonly #links: Links;
  readonly #sessions: Sessions;
  readonly #onFinish: (session: string) => void;

  constructor(journal: Journal, links: Links, sessions: Sessions, onFinish: (session: string) => void) {
    this.#journal = journal;
    this.#links = links;
    this.#sessions = sessions;
    this.#onFinish = onFinish;
  }

  async trainingRuns({ request, query, parts }: Call): Promise<Response> {
    const [, id, area, kind, name, action] = parts;
    const { method } = request;
    await this.#deleteExpired();
    if (id === undefined) {
      if (method !== "GET") throw new HttpError(405, "Only GET is answered here.");
      const { rows, cursor } = this.#page<ModelRow>("models", query);
      return json({ training_runs: rows.map((row) => this.#runJson(row)), cursor });
    }
    if (area === undefined && method === "GET") return json(this.#runJson(findModel(this.#journal, id)));
    if (area !== "checkpoints") throw new HttpError(404, "There is no such route.");
    if (kind === undefined && method === "GET") {
      findModel(this.#journal, id);
      const rows = this.#journal.all<CheckpointRow>("SELECT * FROM checkpoints WHERE run = ? ORDER BY created", id);
      return json({ checkpoints: rows.map(checkpointJson) });
    }
    const row = findCheckpoint(this.#journal, `tinker://${id}/${kind}/${name}`);
    switch (`${method} ${action ?? ""}`) {
      case "DELETE ":
        await this.#delete(row);
        return new Response(null, { status: 204 });
      case "POST publish":
      case "DELETE publish":
        await readBody(request, MAX_BODY_BYTES);
        this.#journal.run(
          "UPDATE checkpoints SET public = ? WHERE run = ? AND kind = ? AND name = ?",
          ...[method === "POST" ? 1 : 0, row.run, row.kind, row.name],
        );
        return new Response(null, { status: 204 });
      case "PUT ttl": {
        const { ttl_seconds: seconds } = await schemas.readJson(request, schemas.ttl);
        this.#journal.run(
          "UPDATE checkpoints SET expires = ? WHERE run = ? AND kind = ? AND name = ?",
          ...[seconds ? now() + seconds : null, row.run, row.kind, row.name],
        );
        return json({});
      }
      case "GET external_weights_urls":
        return this.#links.toFiles(request, row);
      case "GET archive":
        return this.#links.toArchive(request, row);
    }
    throw new HttpError(404, "There is no such route.");
  }

  async checkpoints({ query }: Call): Promise<Response> {
    await this.#deleteExpired();
    const { rows, cursor } = this.#page<CheckpointRow>("checkpoints", query);
    return json({ checkpoints: rows.map(checkpointJson), cursor });
  }

  async sessions({ request, query, parts }: Call): Promise<Response> {
    const [, id, action] = parts;
    if (request.method === "POST" && id === "search")
      return json(this.#sessions.search(await schemas.readJson(request, schemas.search)));
    if (id === undefined)
      return json({ sessions: this.#page<SessionRow>("sessions", query).rows.map((row) => row.id) });
    const row = findSession(this.#journal, id);
    if (request.method === "POST" && action === "finish") {
      this.#sessions.finish(id, await schemas.readJson(request, schemas.finish));
      this.#onFinish(id);
      return new Response(null, { status: 204 });
    }
    if (request.method === "PUT" && action === "project") {
      const { project_id: project } = await schemas.readJson(request, schemas.project);
      this.#journal.run("UPDATE sessions SET project = ? WHERE id = ?", project, id);
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

  /** The newest first. */
  #page<T>(table: "models" | "checkpoints" | "sessions", query: URLSearchParams) {
    const { limit, offset } = limits(query);
    const rows = this.#journal.all<T>(
      `SELECT * FROM ${table} ORDER BY created DESC LIMIT ? OFFSET ?`,
      ...[limit, offset],
    );
    return { rows, cursor: { offset, limit, total_count: this.#count(`SELECT COUNT(*) AS count FROM ${table}`) } };
  }

  #count(sql: string, ...values: string[]): number {
    return this.#journal.one<{ count: number }>(sql, ...values)?.count ?? 0;
  }

  #runJson(row: ModelRow) {
    const last = (kind: string) => {
      const found = this.#journal.one<CheckpointRow>(
        "SELECT * FROM checkpoints WHERE run = ? AND kind = ? ORDER BY created DESC LIMIT 1",
        ...[row.id, kind],
      );
      return found === undefined ? null : checkpointJson(found);
    };
    return {
      training_run_id: row.id,
      base_model: row.base,
      model_owner: "saccade",
      is_lora: row.rank > 0,
      corrupted: false,
      lora_rank: row.rank > 0 ? row.rank : null,
      last_request_time: iso(row.used),
      last_checkpoint: last("weights"),
      last_sampler_checkpoint: last("sampler_weights"),
      user_metadata: readMetadata(row.metadata),
    };
  }

  async #deleteExpired(): Promise<void> {
    for (const { run, kind, name } of this.#journal.all<CheckpointRow>(
      "SELECT * FROM checkpoints WHERE expires < ?",
      now(),
    )) {
      // Meanwhile it may have been saved again, or given more time.
      const row = this.#journal.one<CheckpointRow>(
        "SELECT * FROM checkpoints WHERE run = ? AND kind = ? AND name = ? AND expires < ?",
        ...[run, kind, name, now()],
      );
      if (row !== undefined) await this.#delete(row);
    }
  }

  async #delete(row: CheckpointRow): Promise<void> {
    this.#journal.run(
      "DELETE FROM checkpoints WHERE run = ? AND kind = ? AND name = ?",
      ...[row.run, row.kind, row.name],
    );
    await removeSaved(this.#journal.place(row.folder));
  }
}

function checkpointJson(row: CheckpointRow) {
  return {
    checkpoint_id: `${row.kind}/${row.name}`,
    checkpoint_type: TYPES[row.kind],
    time: iso(row.created),
    tinker_path: `tinker://${row.run}/${row.kind}/${row.name}`,
    size_bytes: row.bytes,
    public: row.public !== 0,
    user_metadata: readMetadata(row.metadata),
    expires_at: row.expires === null ? null : iso(row.expires),
  };
}

function limits(query: URLSearchParams): { limit: number; offset: number } {
  const number = (name: string, usual: number, most: number) => {
    const value = Number(query.get(name) ?? usual);
    return Number.isSafeInteger(value) && value >= 0 ? Math.min(value, most) : usual;
  };
  return { limit: number("limit", 100, 1000), offset: number("offset", 0, Number.MAX_SAFE_INTEGER) };
}
