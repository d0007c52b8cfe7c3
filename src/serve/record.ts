/**
 * `saccade serve --record`: the door of agents that somebody else starts. Requests that carry the same name belong to one episode: the name is in the address
 * (`/episodes/<name>/v1/…`), in the header `x-saccade-episode`, or it is the client's key, of which only a digest is kept. An episode begins with its first request and ends
 * when its reward is posted, after a long silence, or with the server; then it is in the run folder, where the viewer, `saccade data episodes` and trackers find it.
 */
import { createHash } from "node:crypto";
import type { JsonObject } from "../core/json.ts";
import { drivenEnv } from "../envs/agent.ts";
import type { Driver, Earned, Env } from "../envs/env.ts";
import { readEarned } from "../envs/reward.ts";
import { HttpError } from "../http/errors.ts";
import { keyOf } from "../http/guard.ts";
import type { HttpRequest } from "../http/request.ts";
import { json } from "../http/responses.ts";
import type { Agent, AgentFactory } from "../rollout/agents.ts";
import type { Face } from "../rollout/door.ts";
import { playDriven } from "../rollout/drive.ts";
import { RECORDED_ENV } from "../rollout/recorded.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import { framesOf, recordOf, type View } from "../rollout/trajectory-records.ts";
import { openRun, type RunFolder } from "../run/folder.ts";
import { trajectorySteps } from "../run/trajectories.ts";
import { ApiError, NoRoute } from "../wire/errors.ts";
import { readJsonBody, seconds } from "../wire/request.ts";
import { Retries } from "../wire/retries.ts";
import type { Wire } from "../wire/wire.ts";
import { createWires, type Wires } from "../wire/wires.ts";

export type RecordOptions = {
  /** The run folder. One that is there goes on. */
  readonly folder: string;
  /** Who answers. */
  readonly model: {
    readonly name: string;
    readonly identity: JsonObject;
    agent: AgentFactory;
    textOf?(id: number): string;
    readonly view?: View;
  };
  /** An episode without a request for so long is over; default half an hour. */
  readonly idleSeconds?: number;
};

type Live = {
  readonly face: Promise<Face>;
  readonly wires: Wires;
  readonly retries: Retries;
  readonly finish: (earned: Earned) => void;
  /** Resolves when it is recorded, to its id. */
  readonly done: Promise<string>;
  working: number;
  lastUsed: number;
};

/** Episodes of one step of the run: a page of the viewer, and a point of its curves. */
const PER_STEP = 32;
const DAY_MS = 86_400_000;
const NOBODY: Earned = { rewards: [], success: false, by: "nobody" };

export class Recorder {
  readonly #options: RecordOptions;
  readonly #run: RunFolder;
  readonly #live = new Map<string, Live>();
  readonly #ending = new Set<Promise<string>>();
  readonly #watch: NodeJS.Timeout;
  /** Of the present step. */
  #scores: Pick<Trajectory, "reward" | "success">[] = [];
  #recorded = 0;
  #next: number;
  #step: number;

  static async open(options: RecordOptions): Promise<Recorder> {
    const { name, identity } = options.model;
    const run = await openRun(options.folder, { config: { record: { model: name, identity } } });
    // Not `begin`: without checkpoints it would play everything again.
    if (!run.resumed) run.log("start", 0, {});
    const last = (await trajectorySteps(run.path)).at(-1) ?? 0;
    return new Recorder(options, run, last + 1);
  }

  private constructor(options: RecordOptions, run: RunFolder, step: number) {
    this.#options = options;
    this.#run = run;
    this.#step = step;
    this.#next = step * PER_STEP;
    const idleMs = (options.idleSeconds ?? 1800) * 1000;
    this.#watch = setInterval(() => this.#endIdle(idleMs), Math.min(60_000, idleMs / 4)).unref();
  }

  async answer(request: HttpRequest): Promise<Response> {
    const { pathname } = new URL(request.url);
    const [, named, path = ""] = /^\/episodes\/([^/]+)(\/.*)?$/.exec(pathname) ?? [undefined, undefined, pathname];
    const route = path === "" || path === "/" ? "/reward" : path;
    if (request.method === "GET" && route === "/health") return json({ ok: true, service: "saccade" });
    if (request.method === "GET" && route === "/v1/models") {
      const model = { id: this.#options.model.name, object: "model", created: seconds(), owned_by: "saccade" };
      return json({ object: "list", data: [model] });
    }
    if (request.method !== "POST") throw new NoRoute(404, `A server that records has no ${request.method} ${path}.`);
    const name = nameOf(request, named);
    if (route === "/reward") return this.#reward(name, request);
    return this.#ask(name, route, request);
  }

  async #ask(name: string, route: string, request: HttpRequest): Promise<Response> {
    const counts = route === "/v1/messages/count_tokens";
    const known = createWires()[(counts ? "/v1/messages" : route) as keyof Wires];
    if (known === undefined) throw new NoRoute(404, `A server that records has no POST ${route}.`);
    try {
      const body = await readJsonBody(request);
      const live = this.#live.get(name) ?? this.#begin(name);
      const wire: Wire = live.wires[(counts ? "/v1/messages" : route) as keyof Wires];
      live.working += 1;
      try {
        const face = await live.face;
        if (counts) return json({ input_tokens: await face.count(body) });
        return await live.retries.once(request, body, route, (attempt) => face.answer(wire, body, attempt));
      } finally {
        live.working -= 1;
        live.lastUsed = Date.now();
      }
    } catch (error) {
      return known.error(error);
    }
  }

  async #reward(name: string, request: HttpRequest): Promise<Response> {
    const body = await readJsonBody(request);
    const live = this.#live.get(name);
    if (live === undefined) {
      throw new HttpError(
        404,
        "There is no such episode: it is over, or nothing was asked under this name. Post the reward with the name that the requests had.",
      );
    }
    let earned: Earned;
    try {
      earned = readEarned(body, "post", "the posted reward");
    } catch (error) {
      throw new ApiError(400, error instanceof Error ? error.message : String(error));
    }
    this.#end(name, live, earned);
    const id = await live.done;
    await this.#run.flush();
    return json({ ok: true, episode: id });
  }

  #begin(name: string): Live {
    const index = this.#next++;
    let opened: (face: Face) => void = () => {};
    const face = new Promise<Face>((resolve) => {
      opened = resolve;
    });
    let finish: (earned: Earned) => void = () => {};
    const earned = new Promise<Earned>((resolve) => {
      finish = resolve;
    });
    const driver: Driver = { blindfold: false, builtins: [], drive: () => earned };
    const env: Env = drivenEnv(driver, RECORDED_ENV);
    const agent: Agent = this.#options.model.agent({ env, seed: index, sibling: 0, samplingSeed: 0 });
    const door = {
      open(line: Face) {
        opened(line);
        return { url: "", baseURL: "", apiKey: "", close() {} };
      },
    };
    const group = `${name}#${index}`;
    const request = { name: RECORDED_ENV, env, agent, seed: index, group, door, episodeTimeoutMs: DAY_MS };
    const done = playDriven(request, driver).then((trajectory) => this.#keep(trajectory));
    const live: Live = {
      ...{ face, finish, done, wires: createWires(), retries: new Retries(), working: 0, lastUsed: Date.now() },
    };
    this.#live.set(name, live);
    return live;
  }

  #end(name: string, live: Live, earned: Earned): void {
    this.#live.delete(name);
    this.#ending.add(live.done);
    live.finish(earned);
    void live.done.finally(() => this.#ending.delete(live.done));
  }

  #endIdle(idleMs: number): void {
    const before = Date.now() - idleMs;
    for (const [name, live] of this.#live) {
      if (live.working === 0 && live.lastUsed < before) this.#end(name, live, NOBODY);
    }
  }

  #keep(trajectory: Trajectory): string {
    // Of requests that were all refused nothing is left to look at.
    if (trajectory.turns.length === 0) return trajectory.id;
    const { textOf, view } = this.#options.model;
    const step = this.#step;
    this.#run.keep(
      step,
      [trajectory],
      (one) => recordOf(one, { split: "train", step, ...(textOf && { textOf }), ...(view && { view }) }),
      (one) => framesOf(one, view),
    );
    this.#recorded += 1;
    this.#scores.push(trajectory);
    if (this.#scores.length >= PER_STEP) this.#closeStep();
    return trajectory.id;
  }

  #closeStep(): void {
    const { length } = this.#scores;
    if (length === 0) return;
    this.#run.log("train", this.#step, {
      "train/reward": this.#scores.reduce((sum, { reward }) => sum + reward, 0) / length,
      "train/success": this.#scores.filter(({ success }) => success).length / length,
    });
    this.#scores = [];
    this.#step += 1;
  }

  /** Ends every episode and the run; how many episodes were recorded. */
  async close(): Promise<number> {
    clearInterval(this.#watch);
    for (const [name, live] of [...this.#live]) this.#end(name, live, NOBODY);
    await Promise.allSettled([...this.#ending]);
    this.#closeStep();
    await this.#run.close("finished");
    return this.#recorded;
  }
}

/** Whose episode it is. */
function nameOf(request: HttpRequest, named: string | undefined): string {
  const name = named ?? request.headers.get("x-saccade-episode");
  if (name === null) {
    const key = keyOf(request) ?? request.headers.get("x-api-key") ?? "";
    return `key-${createHash("sha256").update(key).digest("hex").slice(0, 12)}`;
  }
  if (/^[A-Za-z0-9._~-]{1,128}$/.test(name)) return name;
  throw new HttpError(400, "The name of an episode has 1 to 128 letters, digits or any of . _ ~ -");
}
