/**
 * A player's place at the environments of a server, for wires that keep one episode per connection (OpenEnv, MCP). The first reset opens a session; one
 * that names another environment or other options opens another in its place.
 */
import { randomInt, randomUUID } from "node:crypto";
import type { JsonObject } from "../core/json.ts";
import type { Parcel } from "../envs/remote-wire.ts";
import { HttpError } from "../http/errors.ts";
import type { Environments } from "./environments.ts";

export type ResetOptions = {
  /** Default: the one that is served. */
  readonly env?: string | undefined;
  /** Default: any. */
  readonly seed?: number | undefined;
  readonly episodeId?: string | undefined;
  readonly options?: JsonObject;
};

export type SeatState = {
  readonly episode_id: string | null;
  readonly step_count: number;
  readonly env: string | null;
  readonly seed: number | null;
};

export class Seat {
  readonly #environments: Environments;
  #session: { readonly id: string; readonly config: string } | undefined;
  #state: SeatState = { episode_id: null, step_count: 0, env: null, seed: null };

  constructor(environments: Environments) {
    this.#environments = environments;
  }

  get state(): SeatState {
    return this.#state;
  }

  async reset({ env, seed = randomInt(2 ** 31), episodeId, options = {} }: ResetOptions): Promise<Parcel> {
    const name = this.#environments.checkName(env);
    const config = JSON.stringify([name, options]);
    if (this.#session !== undefined && this.#session.config !== config) this.close();
    const parcel = await this.#begin(config, { ...options, env: name }, seed);
    this.#state = { episode_id: episodeId ?? randomUUID(), step_count: 0, env: name, seed };
    return parcel;
  }

  async #begin(config: string, asked: JsonObject, seed: number): Promise<Parcel> {
    const known = this.#session;
    if (known !== undefined) {
      try {
        return await this.#environments.act(known.id, "reset", { seed });
      } catch (error) {
        // It was idle for too long, and closed.
        if (!(error instanceof HttpError && error.status === 404)) throw error;
      }
    }
    const id = await this.#environments.open(asked);
    this.#session = { id, config };
    return this.#environments.act(id, "reset", { seed });
  }

  async step(reply: string): Promise<Parcel> {
    if (this.#session === undefined) throw new HttpError(409, "No episode is running: reset first.");
    const parcel = await this.#environments.act(this.#session.id, "step", { action_str: reply });
    this.#state = { ...this.#state, step_count: this.#state.step_count + 1 };
    return parcel;
  }

  close(): void {
    if (this.#session !== undefined) this.#environments.end(this.#session.id);
    this.#session = undefined;
  }
}
