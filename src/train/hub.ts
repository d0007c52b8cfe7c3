/**
 * A trained model on the Hugging Face hub: one commit with the files that others load, and a card that says what it is. What only our training needs (the optimizer's state) stays
 * here. `folder` is a model or adapter folder, a checkpoint, or a run, of which the best checkpoint is taken, else the latest. A run uploads while it
 * goes on (`CheckpointUploads`): whatever the hub says to that is noted and ends nothing.
 */
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { ConfigError, errorMessage, SaccadeError } from "../core/errors.ts";
import { findModel } from "../model/find.ts";
import { within } from "../rollout/deadline.ts";
import { type CardFiles, cardFiles, checkpointOf } from "./model-card.ts";
import type { Recipe } from "./recipe.ts";

/** The hub refused, or could not be reached. */
export class HubError extends SaccadeError {
  override name = "HubError";
}

export type UploadOptions = {
  readonly folder: string;
  /** `<user or organization>/<name>`; made when it is not there. */
  readonly repo: string;
  /** With the right to write; default: `HF_TOKEN` of the environment. */
  readonly token?: string;
  /** Of a repository that is made now; one that is there stays as it is. Absent: the owner's default. */
  readonly private?: boolean;
  /** Default: `HF_ENDPOINT` of the environment, or the public hub. */
  readonly hubUrl?: string;
  readonly title?: string;
  readonly signal?: AbortSignal;
};

export type Uploaded = {
  readonly repo: string;
  readonly url: string;
  /** The folder that was uploaded, which is inside `folder` when that was a run. */
  readonly folder: string;
  readonly files: readonly string[];
  readonly commit: string;
};

/** Never uploaded: large, and of use to nobody else. */
const LEFT_OUT = ["optimizer.safetensors"];

/** Refuses what no hub would take, before anything is made or sent. */
export function checkUpload(repo: string, token = process.env.HF_TOKEN ?? ""): void {
  if (!/^[\w.-]+\/[\w.-]+$/.test(repo)) {
    throw new ConfigError(
      `"${repo}" is not a repository: write <user or organization>/<name>, for example me/my-agent.`,
    );
  }
  if (!token.startsWith("hf_")) {
    throw new ConfigError(
      "A Hugging Face token begins with hf_: create one with write access at https://huggingface.co/settings/tokens and put it into the environment variable HF_TOKEN.",
    );
  }
}

export async function uploadModel(options: UploadOptions): Promise<Uploaded> {
  const { repo, signal, token = process.env.HF_TOKEN ?? "" } = options;
  const hubUrl = (options.hubUrl ?? process.env.HF_ENDPOINT ?? "https://huggingface.co").replace(/\/+$/, "");
  checkUpload(repo, token);
  const { path: folder } = await findModel(resolve(options.folder));
  // Measured since the checkpoint was saved: its card is made anew.
  const saved = checkpointOf(folder);
  const card: CardFiles = saved === undefined ? {} : await cardFiles(folder, saved.run, saved.step);
  const files = [...new Set([...(await modelFiles(folder)), ...Object.keys(card)])].sort();
  // Loaded only here: nothing else needs it, and it is large.
  const hub = await import("@huggingface/hub");
  const target = { repo: { type: "model", name: repo }, accessToken: token, hubUrl } as const;
  try {
    await hub
      .createRepo({ ...target, ...(options.private && { visibility: "private" }) })
      .catch(async (error: unknown) => {
        // 403: a token may write to a repository and yet not make one.
        const status = error instanceof hub.HubApiError ? error.statusCode : 0;
        const isThere = status === 409 || (status === 403 && (await hub.repoExists(target)));
        if (!isThere) throw error;
      });
    const done = await hub.uploadFiles({
      ...target,
      files: files.map((path) => {
        const made = card[path];
        return {
          path,
          content: made === undefined ? pathToFileURL(join(folder, path)) : new Blob([new Uint8Array(made)]),
        };
      }),
      commitTitle: options.title ?? "Upload a model trained with Saccade",
      ...(signal && { abortSignal: signal }),
    });
    return { repo, url: `${hubUrl}/${repo}`, folder, files, commit: done?.commit.oid ?? "" };
  } catch (error) {
    signal?.throwIfAborted();
    if (!(error instanceof hub.HubApiError)) {
      const cause = error instanceof Error && error.cause !== undefined ? ` (${errorMessage(error.cause)})` : "";
      throw new HubError(`The upload to ${hubUrl} failed: ${errorMessage(error)}${cause}. Try again.`);
    }
    const refused = error.statusCode === 401 || error.statusCode === 403;
    const advice = refused ? `Use a token that may write to ${repo}` : "Try again";
    throw new HubError(`The hub answered ${error.statusCode}: ${error.message}. ${advice}.`);
  }
}

async function modelFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith(".") && !LEFT_OUT.includes(entry.name))
    .map((entry) => entry.name)
    .sort();
}

/** A hub that takes longer than this for one checkpoint holds the run up. */
const MAX_UPLOAD_MS = 30 * 60_000;

type Saved = { readonly step: number; readonly path: string };

/** Sends every n-th checkpoint of a run, and its last, one at a time and while the run goes on. */
export class CheckpointUploads {
  readonly #plan: NonNullable<Recipe["hub"]>;
  readonly #note: (message: string, step: number) => void;
  readonly #signal: AbortSignal | undefined;
  #count = 0;
  #waiting: Saved | undefined;
  #running: Promise<void> | undefined;

  constructor(
    plan: NonNullable<Recipe["hub"]>,
    { note, signal }: { note: (message: string, step: number) => void; signal?: AbortSignal },
  ) {
    checkUpload(plan.repo);
    this.#plan = plan;
    this.#note = note;
    this.#signal = signal;
  }

  /** A checkpoint was saved. It must stay until `settled`. */
  saved(checkpoint: Saved): void {
    this.#count += 1;
    this.#waiting = checkpoint;
    if (this.#count % this.#plan.every === 0 && !this.#signal?.aborted) this.#start();
  }

  /** Returns when nothing is on its way: to be awaited before a checkpoint can be removed. */
  async settled(): Promise<void> {
    await this.#running;
  }

  /** The run is done: its last checkpoint is sent, whatever its number. */
  async finish(): Promise<void> {
    await this.settled();
    this.#start();
    await this.settled();
  }

  #start(): void {
    const next = this.#waiting;
    if (next === undefined) return;
    this.#waiting = undefined;
    this.#running = this.#upload(next);
  }

  async #upload({ step, path }: Saved): Promise<void> {
    const { repo, private: hidden } = this.#plan;
    const signal = this.#signal;
    const title = `Checkpoint of step ${step}, trained with Saccade`;
    const options = { folder: path, repo, title, ...(hidden && { private: true }), ...(signal && { signal }) };
    try {
      const { url, commit } = await within(() => uploadModel(options), MAX_UPLOAD_MS, signal);
      this.#note(`The checkpoint of step ${step} is at ${url} (commit ${commit.slice(0, 12)}).`, step);
    } catch (error) {
      const why = signal?.aborted ? "the run was stopped" : errorMessage(error);
      this.#note(`The checkpoint of step ${step} was not uploaded: ${why}`, step);
    }
  }
}
