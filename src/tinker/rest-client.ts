/** What lies at a server: runs, checkpoints, sessions. Needs no session of its own. */
import { randomUUID } from "node:crypto";
import { ConfigError } from "../core/errors.ts";
import { Connection, type ConnectionOptions } from "./connection.ts";
import { TinkerError } from "./errors.ts";
import type {
  CheckpointsListResponse,
  ExternalWeightsUrlsResponse,
  GetSamplerResponse,
  GetSessionResponse,
  ListSessionsResponse,
  TrainingRun,
  TrainingRunsResponse,
  WeightsInfoResponse,
} from "./types.ts";

type Page = { readonly limit?: number; readonly offset?: number };
type Scope = { readonly access_scope?: "owned" | "accessible" };
const TRACE_MS = 5000;

export type TinkerPath = { readonly training_run_id: string; readonly kind: string; readonly checkpoint_id: string };

/** `tinker://run/weights/name`; the middle may also be sampler_weights or external_weights. */
export function parseTinkerPath(path: string): TinkerPath {
  const [, run, kind, name] =
    /^tinker:\/\/([^/]+)\/(weights|sampler_weights|external_weights)\/([^/]+)$/.exec(path) ?? [];
  if (run === undefined || kind === undefined || name === undefined)
    throw new ConfigError(`"${path}" is not a path such as tinker://run/weights/name.`);
  return { training_run_id: run, kind, checkpoint_id: `${kind}/${name}` };
}

export class RestClient {
  readonly #connection: Connection;

  constructor(connection: Connection | ConnectionOptions = {}) {
    this.#connection = connection instanceof Connection ? connection : new Connection(connection);
  }

  getTrainingRun(id: string, { access_scope = "owned" }: Scope = {}): Promise<TrainingRun> {
    return this.#get("getTrainingRun", `training_runs/${id}`, { access_scope });
  }

  getTrainingRunByTinkerPath(path: string, scope: Scope = {}): Promise<TrainingRun> {
    return this.getTrainingRun(parseTinkerPath(path).training_run_id, scope);
  }

  getWeightsInfoByTinkerPath(path: string): Promise<WeightsInfoResponse> {
    return this.#ask("getWeightsInfoByTinkerPath", "POST", "weights_info", { tinker_path: path });
  }

  listTrainingRuns({
    limit = 20,
    offset = 0,
    access_scope = "owned",
    project_id,
  }: Page & Scope & { readonly project_id?: string } = {}): Promise<TrainingRunsResponse> {
    return this.#get("listTrainingRuns", "training_runs", { limit, offset, access_scope, project_id });
  }

  listCheckpoints(runId: string): Promise<CheckpointsListResponse> {
    return this.#get("listCheckpoints", `training_runs/${runId}/checkpoints`);
  }

  listUserCheckpoints({ limit = 100, offset = 0 }: Page = {}): Promise<CheckpointsListResponse> {
    return this.#get("listUserCheckpoints", "checkpoints", { limit, offset });
  }

  getExternalWeightsUrls(path: string): Promise<ExternalWeightsUrlsResponse> {
    return this.#get("getExternalWeightsUrls", `${placeOf(path)}/external_weights_urls`);
  }

  /** The files of an external checkpoint. */
  async downloadExternalWeights(path: string): Promise<Map<string, Uint8Array>> {
    const { urls } = await this.getExternalWeightsUrls(path);
    const files = new Map<string, Uint8Array>();
    for (const [name, url] of Object.entries(urls)) files.set(name, await this.#connection.download(url));
    return files;
  }

  async deleteCheckpoint(runId: string, checkpointId: string): Promise<void> {
    await this.#ask("deleteCheckpoint", "DELETE", `training_runs/${runId}/checkpoints/${checkpointId}`);
  }

  async deleteCheckpointFromTinkerPath(path: string): Promise<void> {
    await this.#ask("deleteCheckpointFromTinkerPath", "DELETE", placeOf(path));
  }

  async publishCheckpointFromTinkerPath(path: string): Promise<void> {
    await this.#ask("publishCheckpointFromTinkerPath", "POST", `${placeOf(path)}/publish`);
  }

  async unpublishCheckpointFromTinkerPath(path: string): Promise<void> {
    await this.#ask("unpublishCheckpointFromTinkerPath", "DELETE", `${placeOf(path)}/publish`);
  }

  /** Null: for good. */
  async setCheckpointTtlFromTinkerPath(path: string, seconds: number | null): Promise<void> {
    await this.#ask("setCheckpointTtlFromTinkerPath", "PUT", `${placeOf(path)}/ttl`, { ttl_seconds: seconds });
  }

  async copyWeights(path: string, projectId: string, ttlSeconds?: number): Promise<string> {
    const body = {
      source_path: path,
      destination_project_id: projectId,
      ...(ttlSeconds !== undefined && { ttl_seconds: ttlSeconds }),
    };
    const headers = { "X-Idempotency-Key": randomUUID() };
    return (await this.#ask<{ tinker_path: string }>("copyWeights", "POST", "copy_weights", body, headers)).tinker_path;
  }

  getSampler(id: string): Promise<GetSamplerResponse> {
    return this.#get("getSampler", `samplers/${id}`);
  }

  getSession(id: string, { access_scope = "owned" }: Scope = {}): Promise<GetSessionResponse> {
    return this.#get("getSession", `sessions/${id}`, { access_scope });
  }

  listSessions({ limit = 20, offset = 0, access_scope = "owned" }: Page & Scope = {}): Promise<ListSessionsResponse> {
    return this.#get("listSessions", "sessions", { limit, offset, access_scope });
  }

  searchSessions(query: Readonly<Record<string, unknown>> = {}): Promise<{
    sessions: readonly Readonly<Record<string, unknown>>[];
    next_cursor?: unknown;
  }> {
    const body = { user_metadata: {}, owner: { type: "own" }, limit: 50, ...query };
    return this.#ask("searchSessions", "POST", "sessions/search", body);
  }

  async assignSessionProject(id: string, projectId: string): Promise<void> {
    await this.#ask("assignSessionProject", "PUT", `sessions/${id}/project`, { project_id: projectId });
  }

  /** Where the trace lies, once the server has written it. */
  async exportSessionTrace(id: string): Promise<string> {
    for (;;) {
      const found = await this.#get<{ status: string; url?: string | null; error?: string | null }>(
        "exportSessionTrace",
        `sessions/${id}/trace_export`,
      );
      if (found.status === "ready" && found.url) return found.url;
      if (found.status === "failed") throw new TinkerError(found.error ?? "The trace could not be exported.");
      await new Promise((done) => setTimeout(done, TRACE_MS));
    }
  }

  getAuditLog(query: Readonly<Record<string, string>> = {}): Promise<{ entries: readonly unknown[] }> {
    return this.#get("getAuditLog", "audit", query);
  }

  getBillingUsage(query: Readonly<Record<string, string>> = {}): Promise<Readonly<Record<string, unknown>>> {
    return this.#get("getBillingUsage", "billing/usage/events", query);
  }

  getCurrentCheckpointStorageUsage(projectId?: string): Promise<Readonly<Record<string, unknown>>> {
    return this.#get("getCurrentCheckpointStorageUsage", "billing/usage/checkpoints/current", {
      project_id: projectId,
    });
  }

  #get<T>(
    method: string,
    route: string,
    query: Readonly<Record<string, string | number | undefined>> = {},
  ): Promise<T> {
    const given = new URLSearchParams();
    for (const [key, value] of Object.entries(query)) if (value !== undefined) given.set(key, String(value));
    const search = given.toString();
    return this.#ask(method, "GET", search === "" ? route : `${route}?${search}`);
  }

  #ask<T>(
    name: string,
    method: "GET" | "POST" | "PUT" | "DELETE",
    route: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<T> {
    const named = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return this.#connection.json<T>(route, {
      method,
      ...(body !== undefined && { body }),
      headers: { "x-sdk-method": named, ...headers },
    });
  }
}

function placeOf(path: string): string {
  const { training_run_id: run, checkpoint_id: id } = parseTinkerPath(path);
  return `training_runs/${run}/checkpoints/${id}`;
}
