/**
 * The MLflow tracker, over MLflow's REST API: one MLflow run for each of ours, with the recipe as parameters, metrics, notes as tags, and
 * images as artifacts. A token comes from MLFLOW_TRACKING_TOKEN, or user and password from MLFLOW_TRACKING_USERNAME and
 * MLFLOW_TRACKING_PASSWORD, as for MLflow's own clients.
 */
import { DataError } from "../../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import type { Tracked, TrackedRun, Tracker } from "./tracker.ts";

/** What MLflow takes in one request, and in one parameter or tag. */
const MAX_METRICS = 1_000;
const MAX_PARAMS = 100;
const MAX_PARAM_LENGTH = 6_000;
const MAX_TAG_LENGTH = 5_000;
/** Milliseconds for the calls of `open`. */
const OPEN_MS = 20_000;
const ARTIFACTS = "mlflow-artifacts:";

export type MlflowOptions = { readonly url: string; readonly experiment?: string };

export class MlflowTracker implements Tracker {
  readonly label: string;
  readonly #url: string;
  readonly #experiment: string;
  #id = "";
  #artifacts = "";

  constructor({ url, experiment = "saccade" }: MlflowOptions) {
    this.#url = url.replace(/\/+$/, "");
    this.#experiment = experiment;
    this.label = `MLflow at ${this.#url}`;
  }

  async open({ name, config, memory }: TrackedRun): Promise<JsonObject> {
    const signal = AbortSignal.timeout(OPEN_MS);
    const known = memory.id;
    const info = typeof known === "string" ? await this.#resume(known, signal) : await this.#create(name, signal);
    this.#id = String(info.run_id);
    this.#artifacts = String(info.artifact_uri ?? "");
    if (typeof known !== "string") {
      const params = flatten(config).map(([key, value]) => ({ key, value: value.slice(0, MAX_PARAM_LENGTH) }));
      for (const part of chunks(params, MAX_PARAMS)) await this.#logBatch({ params: part }, signal);
    }
    return { id: this.#id };
  }

  async write(items: readonly Tracked[], signal: AbortSignal): Promise<void> {
    const metrics: JsonObject[] = [];
    const tags: JsonObject[] = [];
    for (const { step, time, values } of items) {
      for (const value of values) {
        const key = keyOf(value.tag);
        if ("scalar" in value) {
          metrics.push({ key, value: jsonNumber(value.scalar), timestamp: Math.round(time), step });
        } else if ("text" in value) {
          tags.push({ key: `${key}.${step}`, value: value.text.slice(0, MAX_TAG_LENGTH) });
        }
      }
    }
    for (const part of chunks(metrics, MAX_METRICS)) await this.#logBatch({ metrics: part }, signal);
    for (const part of chunks(tags, MAX_PARAMS)) await this.#logBatch({ tags: part }, signal);
    // Artifacts kept elsewhere (S3, a disk of the server) can't be written through the tracking server.
    if (!this.#artifacts.startsWith(ARTIFACTS)) return;
    for (const { step, values } of items) {
      for (const value of values) {
        if ("png" in value) await this.#put(`${value.tag}/step-${step}.png`, value.png, signal);
      }
    }
  }

  async close(status: "finished" | "failed" | "stopped", signal: AbortSignal): Promise<void> {
    const word = { finished: "FINISHED", failed: "FAILED", stopped: "KILLED" }[status];
    await this.#post("runs/update", { run_id: this.#id, status: word, end_time: Date.now() }, signal);
  }

  async #create(name: string, signal: AbortSignal): Promise<JsonObject> {
    const experiment_id = await this.#findExperiment(signal);
    const start_time = Date.now();
    return runInfo(await this.#post("runs/create", { experiment_id, run_name: name, start_time }, signal));
  }

  async #resume(run_id: string, signal: AbortSignal): Promise<JsonObject> {
    return runInfo(await this.#post("runs/update", { run_id, status: "RUNNING" }, signal), "run_info");
  }

  async #findExperiment(signal: AbortSignal): Promise<string> {
    const query = new URLSearchParams({ experiment_name: this.#experiment });
    const found = await this.#call(`/api/2.0/mlflow/experiments/get-by-name?${query}`, { signal });
    if (found.status === 404) {
      const made = await this.#post("experiments/create", { name: this.#experiment }, signal);
      return String(made.experiment_id);
    }
    const { experiment } = await this.#body(found, "experiments/get-by-name");
    return isJsonObject(experiment) ? String(experiment.experiment_id) : "";
  }

  #logBatch(batch: JsonObject, signal: AbortSignal): Promise<JsonObject> {
    return this.#post("runs/log-batch", { run_id: this.#id, ...batch }, signal);
  }

  async #post(route: string, body: JsonObject, signal: AbortSignal): Promise<JsonObject> {
    const headers = { "content-type": "application/json" };
    const sent = { method: "POST", headers, body: JSON.stringify(body), signal };
    return this.#body(await this.#call(`/api/2.0/mlflow/${route}`, sent), route);
  }

  async #put(name: string, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const base = this.#artifacts.slice(ARTIFACTS.length).replace(/^\/+[^/]*:\d+\/|^\/+/, "");
    const path = `${base}/${name}`.split("/").map(encodeURIComponent).join("/");
    const sent = { method: "PUT", headers: { "content-type": "image/png" }, body: Buffer.from(bytes), signal };
    await this.#body(await this.#call(`/api/2.0/mlflow-artifacts/artifacts/${path}`, sent), name);
  }

  #call(path: string, init: RequestInit): Promise<Response> {
    const headers = { ...(init.headers as Record<string, string> | undefined), ...authorization() };
    // A redirect would take the key elsewhere.
    return fetch(`${this.#url}${path}`, { ...init, headers, redirect: "error" });
  }

  async #body(answer: Response, route: string): Promise<JsonObject> {
    const text = await answer.text();
    if (!answer.ok) {
      throw new DataError(`${route} was answered with HTTP ${answer.status}: ${text.slice(0, 300)}`);
    }
    if (text === "") return {};
    try {
      const value = JSON.parse(text) as Json;
      return isJsonObject(value) ? value : {};
    } catch {
      throw new DataError(`${route} was answered with something that is not JSON: ${text.slice(0, 300)}`);
    }
  }
}

function runInfo(answer: JsonObject, field?: string): JsonObject {
  const run = isJsonObject(answer.run) ? answer.run.info : undefined;
  const info = field === undefined ? run : answer[field];
  if (!isJsonObject(info)) throw new DataError("The server's answer has no run: is it an MLflow tracking server?");
  return info;
}

function authorization(): Record<string, string> {
  const {
    MLFLOW_TRACKING_TOKEN: token,
    MLFLOW_TRACKING_USERNAME: user,
    MLFLOW_TRACKING_PASSWORD: password,
  } = process.env;
  if (token) return { authorization: `Bearer ${token}` };
  if (user && password) return { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}` };
  return {};
}

/** MLflow's names have letters, digits and _ - . / and space. */
function keyOf(tag: string): string {
  return tag.replace(/[^\w\-. /]/g, "_");
}

/** JSON has no number for what is not finite; MLflow reads these words. */
function jsonNumber(value: number): Json {
  return Number.isFinite(value) ? value : String(value);
}

function flatten(value: Json, path = ""): [string, string][] {
  if (typeof value !== "object" || value === null) return [[keyOf(path), String(value)]];
  return Object.entries(value).flatMap(([key, inner]) => flatten(inner, path === "" ? key : `${path}.${key}`));
}

function chunks<T>(values: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(values.length / size) }, (_, i) => values.slice(i * size, (i + 1) * size));
}
