/**
 * A person shows how it is done: a small page at this machine shows the frame of a browser world; clicks, drags, wheel, text and keys on it are played as the
 * world's own actions, and what came of them is the next frame. So an episode is recorded in the model's terms: the frames that a model would see and the
 * replies that it should give. A finished episode is handed on as a demonstration.
 */
import { ConfigError, type Message } from "../core/index.ts";
import { assistant, imagesOf } from "../core/message.ts";
import { type Action, acceptAction, type Demo, type Env, KEYS, sumRewards, WorldEnv } from "../envs/index.ts";
import { errorResponse, HttpError } from "../http/errors.ts";
import { Guard, PAGE_HEADERS } from "../http/guard.ts";
import { readJson } from "../http/limits.ts";
import { bytes, json } from "../http/responses.ts";
import { type HttpServer, listen } from "../http/server.ts";
import { encodePng } from "../images/png.ts";
import { RECORD_CSS, RECORD_HTML, RECORD_JS } from "./recorder-page.ts";

const MAX_BODY = 10_000;

export type RecorderOptions = {
  readonly env: Env;
  /** What rows call it. */
  readonly name: string;
  readonly options?: Readonly<Record<string, unknown>>;
  readonly seed: number;
  /** The world knows success; a site does not, and a person who keeps an episode says that it is right. */
  readonly judged: boolean;
  readonly port?: number;
  /** Gets every episode that the person keeps; true: that was the last. */
  readonly onDemo: (demo: Demo) => boolean;
  readonly onDone: () => void;
};

/** What a person did, with places as fractions of the frame. */
type Done = { do: string; x?: number; y?: number; toX?: number; toY?: number; text?: string };

export async function startRecorder(options: RecorderOptions): Promise<HttpServer> {
  const recorder = new Recorder(options);
  await recorder.begin(options.seed);
  const guard = new Guard({ host: "127.0.0.1" });
  return listen({
    port: options.port ?? 0,
    headers: PAGE_HEADERS,
    handle: async (request) => {
      const path = new URL(request.url, "http://localhost").pathname;
      guard.checkSource(request, path !== "/");
      const text = (body: string, type: string) => bytes(new TextEncoder().encode(body), { type });
      if (request.method === "POST") {
        return json(await recorder.take((await readJson(request, MAX_BODY)) as Done));
      }
      if (path === "/") return text(RECORD_HTML, "text/html; charset=utf-8");
      if (path === "/record.js") return text(RECORD_JS, "text/javascript; charset=utf-8");
      if (path === "/record.css") return text(RECORD_CSS, "text/css; charset=utf-8");
      if (path === "/state") return json(recorder.state());
      if (path === "/frame.png") return bytes(recorder.frame(), { type: "image/png" });
      throw new HttpError(404, "There is no such page.");
    },
    onError: (error) => errorResponse(error),
  });
}

class Recorder {
  readonly #env: WorldEnv;
  readonly #options: RecorderOptions;
  #seed = 0;
  #messages: Message[] = [];
  #frame: Uint8Array = new Uint8Array();
  #frames = 0;
  #turns = 0;
  #reward = 0;
  #success = false;
  #over = false;
  #kept = 0;
  #goal = "";
  #said = "";
  /** One thing at a time. */
  #busy: Promise<unknown> = Promise.resolve();

  constructor(options: RecorderOptions) {
    const { env } = options;
    if (!(env instanceof WorldEnv) || !env.world.actions.some(({ name }) => name === "click")) {
      throw new ConfigError(
        "`saccade data record` is for web pages, where a person clicks: pages/shop, miniwob/…, http://…",
      );
    }
    this.#env = env;
    this.#options = options;
  }

  async begin(seed: number): Promise<void> {
    this.#seed = seed;
    this.#messages = [...(await this.#env.reset(seed))];
    [this.#turns, this.#reward, this.#success, this.#over, this.#said] = [0, 0, false, false, ""];
    this.#goal = await this.#env.world.task("brief", "image");
    await this.#look();
  }

  state() {
    const actions = this.#env.world.actions.map(({ name }) => name);
    return {
      goal: this.#goal,
      seed: this.#seed,
      frame: this.#frames,
      turns: this.#turns,
      over: this.#over,
      success: this.#success,
      actions,
      keys: KEYS,
      kept: this.#kept,
      said: this.#said,
    };
  }

  frame(): Uint8Array {
    return this.#frame;
  }

  take(done: Done) {
    const next = this.#busy.then(async () => {
      if (done.do === "keep") this.#keep();
      if (done.do === "keep" || done.do === "again") {
        await this.begin(done.do === "keep" ? this.#seed + 1 : this.#seed);
      } else await this.#play(done);
      return this.state();
    });
    this.#busy = next.catch(() => undefined);
    return next;
  }

  async #play(done: Done): Promise<void> {
    if (this.#over) throw new HttpError(409, "The episode is over: keep it, or start again.");
    const reply = this.#env.protocol.print([this.#actionOf(done)], this.#env.world.actions);
    const step = await this.#env.step(reply);
    this.#messages.push(assistant(reply));
    this.#turns += 1;
    this.#reward += sumRewards(step.rewards);
    this.#over = step.terminated || step.truncated;
    this.#success = step.success === true;
    this.#said = (step.info.played ?? []).join(", ");
    if (!this.#over) this.#messages.push(...step.observation);
    await this.#look();
  }

  #keep(): void {
    const { name, options, onDemo, onDone } = this.#options;
    if (this.#turns === 0) throw new HttpError(409, "Nothing was done yet.");
    // What was seen after the last reply answers nobody.
    const last = this.#messages.findLastIndex(({ role }) => role === "assistant");
    const demo: Demo = {
      env: name,
      seed: this.#seed,
      ...(options && Object.keys(options).length > 0 && { options }),
      messages: this.#messages.slice(0, last + 1),
      reward: this.#reward,
      success: this.#success || !this.#options.judged,
      turns: this.#turns,
    };
    this.#kept += 1;
    if (onDemo(demo)) setTimeout(onDone, 200);
  }

  async #look(): Promise<void> {
    const seen = await this.#env.world.observe("image");
    const image = Array.isArray(seen) ? seen.find((part) => part.type === "image")?.image : seen;
    const [shown] = typeof image === "object" && "data" in image ? [image] : this.#messages.flatMap(imagesOf).slice(-1);
    if (shown === undefined) throw new HttpError(409, "This environment shows no image.");
    this.#frame = encodePng(shown);
    this.#frames += 1;
  }

  /** In the world's own coordinates. */
  #actionOf({ do: name, x = 0, y = 0, toX = 0, toY = 0, text = "" }: Done): Action {
    const spec = this.#env.world.actions.find((candidate) => candidate.name === name);
    if (spec === undefined) throw new HttpError(400, `This world has no action ${JSON.stringify(name)}.`);
    const items = spec.arg.type === "tuple" ? spec.arg.items : [];
    const cell = (fraction: number, item: number) => {
      const cells = items[item] as { max?: number } | undefined;
      const most = cells?.max ?? 0;
      return Math.max(0, Math.min(most, Math.floor(fraction * (most + 1))));
    };
    const payload =
      name === "drag"
        ? [cell(x, 0), cell(y, 1), cell(toX, 2), cell(toY, 3)]
        : name === "scroll"
          ? [cell(x, 0), cell(y, 1), ["up", "down", "left", "right"].indexOf(text)]
          : items.length > 0
            ? [cell(x, 0), cell(y, 1)]
            : name === "type"
              ? text
              : name === "key"
                ? KEYS.indexOf(text as (typeof KEYS)[number])
                : name;
    const accepted = acceptAction(spec, payload);
    if (!accepted.ok) throw new HttpError(400, `${name} does not take ${JSON.stringify(payload)}.`);
    return { name, payload: accepted.payload };
  }
}
