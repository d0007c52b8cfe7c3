/** One session at a server, kept alive by a heartbeat: its models and samplers are counted here. */
import { type Connection, SDK_VERSION } from "./connection.ts";
import { APIStatusError, TinkerError } from "./errors.ts";
import { encodeBatch } from "./messages.ts";
import { SamplingClient } from "./sampling-client.ts";
import type { UserMetadata } from "./types.ts";

const HEARTBEAT_MS = 10_000;
const MAX_SAMPLES = 2000;

export type SessionOptions = {
  readonly user_metadata?: UserMetadata;
  readonly display_name?: string;
  readonly project_id?: string;
  readonly tags?: readonly string[];
};

export class Session {
  readonly connection: Connection;
  readonly id: string;
  readonly #beat: NodeJS.Timeout;
  readonly #most: number;
  readonly #waiting: (() => void)[] = [];
  #sampling = 0;
  #models = 0;
  #samplers = 0;

  private constructor(connection: Connection, id: string, most: number) {
    this.connection = connection;
    this.id = id;
    this.#most = most;
    this.#beat = setInterval(() => void this.#heartbeat(), HEARTBEAT_MS).unref();
  }

  static async open(connection: Connection, options: SessionOptions): Promise<Session> {
    const { sample_max_concurrent_requests: most = MAX_SAMPLES } = await connection.config();
    const { session_id: id, error_message: problem } = await connection.json<{
      session_id?: unknown;
      error_message?: string | null;
    }>("create_session", {
      body: { tags: [], user_metadata: {}, ...options, sdk_version: SDK_VERSION, type: "create_session" },
    });
    if (typeof id !== "string") throw new TinkerError(problem ?? "The server gave no session_id.");
    return new Session(connection, id, most);
  }

  nextModel(): number {
    return this.#models++;
  }

  nextSampler(): number {
    return this.#samplers++;
  }

  samplingClient(id: string): SamplingClient {
    return new SamplingClient(this, id);
  }

  async createSampler(of: { readonly base_model?: string; readonly model_path?: string }): Promise<SamplingClient> {
    const { sampling_session_id: id } = await this.connection.json<{ sampling_session_id?: unknown }>(
      "create_sampling_session",
      {
        body: {
          session_id: this.id,
          sampling_session_seq_id: this.nextSampler(),
          ...of,
          type: "create_sampling_session",
        },
      },
    );
    if (typeof id !== "string") throw new TinkerError("The server gave no sampling_session_id.");
    return this.samplingClient(id);
  }

  form(): Promise<"protobuf" | "json"> {
    const empty = { model_id: "none", seq_id: 1, data: [], loss_fn: "cross_entropy", forward_only: true };
    return this.connection.form(encodeBatch(empty));
  }

  /** Not more samples at a time than the server wants. */
  async inSlot<T>(work: () => Promise<T>): Promise<T> {
    if (this.#sampling >= this.#most) await new Promise<void>((go) => this.#waiting.push(go));
    else this.#sampling += 1;
    try {
      return await work();
    } finally {
      // The slot goes from hand to hand.
      const next = this.#waiting.shift();
      if (next === undefined) this.#sampling -= 1;
      else next();
    }
  }

  async close(status: "success" | "errored" | "interrupted"): Promise<void> {
    clearInterval(this.#beat);
    const body = { reason: { type: status }, detail: null };
    await this.connection.json(`sessions/${this.id}/finish`, { body, again: "never" }).catch((error) => {
      // Older servers know no end of a session, and one that is gone needs none.
      if (!(error instanceof TinkerError)) throw error;
    });
  }

  async #heartbeat(): Promise<void> {
    const body = { session_id: this.id, type: "session_heartbeat" };
    await this.connection.json("session_heartbeat", { body, again: "never" }).catch((error) => {
      // Gone for good; a failure that passes is mended by the next beat.
      if (error instanceof APIStatusError && error.status === 410) clearInterval(this.#beat);
    });
  }
}
