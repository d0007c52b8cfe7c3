/** For tests: a small server that speaks vLLM's routes and can be killed, restarted and made to misbehave. What it samples is a function of the prompt. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { EXTENSION_CLASS } from "./launch.ts";

export type Asked = { readonly path: string; readonly body: Record<string, unknown> };
/** `events` are sent as a stream; `breaks`: the connection breaks after them. */
type Answer =
  | { readonly status?: number; readonly body?: unknown; readonly events?: string; readonly breaks?: boolean }
  | undefined;

export class TestServer {
  /** Every request, in order. */
  readonly asked: Asked[] = [];
  /** Answers instead of the usual ones; undefined means the usual one. */
  override: (asked: Asked) => Answer | Promise<Answer> = () => undefined;
  logprobsMode = "processed_logprobs";
  /** What it calls its weights; a restart forgets it. */
  version = "default";
  /** Hashes of images in its cache. */
  readonly images = new Set<string>();
  #server: Server | undefined;
  #port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get generated(): Asked[] {
    return this.asked.filter(({ path }) => path === "/inference/v1/generate");
  }

  get controls(): string[] {
    return this.asked
      .map(({ path }) => path)
      .filter((path) => /pause|collective|reset|update_weight|resume|lora/.test(path));
  }

  async start(): Promise<this> {
    this.#server = createServer(async (request, response) => {
      const asked = { path: request.url ?? "", body: await bodyOf(request) };
      this.asked.push(asked);
      const answer: Answer = (await this.override(asked)) ?? this.#usual(asked);
      const { status = 200, body, events, breaks } = answer;
      if (response.destroyed) return;
      if (events !== undefined) {
        response.writeHead(status, { "content-type": "text/event-stream" });
        // In two pieces, cut anywhere.
        response.write(events.slice(0, events.length >> 1));
        response.write(events.slice(events.length >> 1), () => (breaks ? response.destroy() : response.end()));
        return;
      }
      response.writeHead(status, { "content-type": "application/json" });
      response.end(body === undefined ? "" : JSON.stringify(body));
    });
    await new Promise<void>((done) => this.#server?.listen(this.#port, "127.0.0.1", done));
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  /** As kill −9: connections break, weights and caches are gone. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.version = "default";
    this.images.clear();
    const closed = new Promise<void>((done) => server?.close(() => done()));
    server?.closeAllConnections();
    await closed;
  }

  #usual({ path, body }: Asked): NonNullable<Answer> {
    switch (path.split("?")[0]) {
      case "/v1/models":
        return { body: { data: [{ id: "policy", max_model_len: 512 }] } };
      case "/version":
        return { body: { version: "0.32.0" } };
      case "/server_info":
        return {
          body: {
            vllm_config: {
              model_config: { logprobs_mode: this.logprobsMode },
              device_config: { device: "cpu" },
              parallel_config: { worker_extension_cls: EXTENSION_CLASS },
            },
          },
        };
      case "/pause":
        this.images.clear();
        return { body: { status: "paused" } };
      case "/update_weight_version":
        this.version = String(body.new_version);
        return { body: { success: true } };
      case "/inference/v1/generate":
        return this.#generate(body as Parameters<TestServer["sample"]>[0]);
      default:
        return {};
    }
  }

  #generate(body: Parameters<TestServer["sample"]>[0]): NonNullable<Answer> {
    const hashes = body.features?.mm_hashes.image ?? [];
    for (const [i, hash] of hashes.entries()) {
      if (body.features?.kwargs_data.image[i] !== null) this.images.add(hash);
      else if (!this.images.has(hash)) return { status: 500, body: { error: { message: "Internal server error" } } };
    }
    const whole = this.sample(body);
    return body.stream ? { events: streamOf(whole) } : { body: whole };
  }

  /** The reply to ids whose sum is s: s, s + 1, … modulo 100, then 7 as the end. */
  sample(
    body: {
      token_ids: number[];
      stream?: boolean;
      sampling_params: { max_tokens: number };
      features?: { mm_hashes: { image: string[] }; kwargs_data: { image: (string | null)[] } };
    },
    finish?: string,
    most = 3,
  ) {
    const sum = body.token_ids.reduce((all, id) => all + id, 0);
    const all = [...Array.from({ length: most }, (_, i) => (sum + i) % 100), ...(finish === undefined ? [7] : [])];
    const ids = all.slice(0, body.sampling_params.max_tokens);
    return {
      choices: [
        {
          index: 0,
          token_ids: ids,
          finish_reason: finish ?? (ids.length < all.length ? "length" : "stop"),
          logprobs: { content: ids.map((id) => ({ token_id: id, logprob: -id / 100, rank: 1, top_logprobs: [] })) },
          weight_versions: [{ version: this.version, start: 0, end: ids.length }],
        },
      ],
    };
  }
}

/** One event an id, as vLLM streams an answer; `most`: only the first so many, without an end. */
export function streamOf({ choices: [choice] }: ReturnType<TestServer["sample"]>, most?: number): string {
  if (choice === undefined) return "";
  const { token_ids: ids, logprobs, finish_reason: reason, weight_versions: versions } = choice;
  const events = ids.slice(0, most).map((id, i) => ({
    choices: [
      {
        index: 0,
        token_ids: [id],
        finish_reason: i === ids.length - 1 ? reason : null,
        logprobs: { content: [logprobs.content[i]] },
        weight_versions: versions.map(({ version }) => ({ version, start: 0, end: 1 })),
      },
    ],
  }));
  const lines = events.map((event) => `data: ${JSON.stringify(event)}\n\n`);
  return [...lines, ...(most === undefined ? ["data: [DONE]\n\n"] : [])].join("");
}

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  return text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
}
