/**
 * For tests: a local server that speaks what the providers speak, written from their public schemas: OpenAI's Responses API, OpenAI-compatible
 * chat completions, Anthropic's Messages API and Google's generateContent. It is as strict as they are about what it is sent, keeps
 * every request, and answers or fails as a script says.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Wire = "openai" | "anthropic" | "google" | "server";

/** A request, whatever its wire format. */
export type Asked = {
  readonly wire: Wire;
  readonly model: string;
  readonly system?: string;
  readonly turns: readonly {
    readonly role: "user" | "assistant";
    readonly text: string;
    readonly images: readonly Buffer[];
  }[];
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly headers: IncomingHttpHeaders;
  /** As it came. */
  readonly body: string;
  /** Milliseconds since 1970. */
  readonly time: number;
};

export type Answer =
  | {
      readonly text: string;
      readonly finish?: "stop" | "length" | "refusal";
      readonly input?: number;
      readonly output?: number;
      /** A slow provider. */
      readonly delayMs?: number;
    }
  | {
      readonly status: number;
      readonly headers?: Record<string, string>;
      readonly message?: string;
      readonly code?: string;
    }
  /** 200 with half an answer; a connection that is cut; no answer at all; 200 with JSON of another shape. */
  | "broken"
  | "drop"
  | "hang"
  | "nonsense";

export type Script = (asked: Asked, call: number) => Answer;
type Body = Record<string, unknown>;
type Part = Record<string, unknown> & { type?: string; text?: string };

export class TestServer {
  readonly asked: Asked[] = [];
  /** What a real provider would have refused. */
  readonly complaints: string[] = [];
  script: Script;
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () =>
      this.#handle(request.url ?? "", request.headers, Buffer.concat(chunks).toString(), response),
    );
  });

  constructor(script: Script) {
    this.script = script;
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** What `saccade eval` is given to reach this server by a wire format. */
  model(wire: Wire): { model: string; baseUrl?: string; environment: Record<string, string> } {
    const at = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    if (wire === "server") return { model: `${at}/v1#org/test-model`, environment: {} };
    const key = { openai: "OPENAI_API_KEY", anthropic: "ANTHROPIC_API_KEY", google: "GOOGLE_GENERATIVE_AI_API_KEY" }[
      wire
    ];
    return {
      model: `${wire}:test-model`,
      baseUrl: `${at}/${wire === "google" ? "v1beta" : "v1"}`,
      environment: { [key]: "key-123" },
    };
  }

  #handle(url: string, headers: IncomingHttpHeaders, text: string, response: ServerResponse): unknown {
    const route = ROUTES.find(({ path }) => path.test(url));
    if (route === undefined) {
      this.complaints.push(`no route ${url}`);
      return send(response, 404, { error: { message: `no route ${url}` } });
    }
    let asked: Asked;
    try {
      const body = JSON.parse(text) as Body;
      asked = { wire: route.wire, headers, body: text, time: Date.now(), ...route.read(body, headers, url) };
      checkTurns(asked);
    } catch (error) {
      this.complaints.push((error as Error).message);
      return send(response, 400, route.error(400, (error as Error).message, "invalid_request_error"));
    }
    const call = this.asked.push(asked) - 1;
    const answer = this.script(asked, call);
    if (answer === "hang") return undefined;
    if (answer === "drop") return response.destroy();
    if (answer === "broken")
      return response.writeHead(200, JSON_TYPE).end(JSON.stringify(route.write({ text: "left" }, asked)).slice(0, 60));
    if (answer === "nonsense") return send(response, 200, { hello: "world" });
    if ("status" in answer) {
      const { status, headers: more, message = "no", code = "error" } = answer;
      return send(response, status, route.error(status, message, code), more);
    }
    const { delayMs = 0 } = answer;
    if (delayMs === 0) return send(response, 200, route.write(answer, asked));
    return setTimeout(() => send(response, 200, route.write(answer, asked)), delayMs);
  }
}

const JSON_TYPE = { "content-type": "application/json" };

function send(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): unknown {
  return response.writeHead(status, { ...JSON_TYPE, ...headers }).end(JSON.stringify(body));
}

/** Conversations alternate, begin and end with the user, and hold neither empty text nor anything but PNG. */
function checkTurns({ turns, wire }: Asked): void {
  demand(
    turns.length % 2 === 1 && turns.every(({ role }, i) => role === (i % 2 === 0 ? "user" : "assistant")),
    `${wire}: roles must alternate`,
  );
  for (const { images } of turns) {
    for (const image of images) demand(image.subarray(1, 4).toString() === "PNG", `${wire}: an image is no PNG`);
  }
}

function demand(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

type Said = Exclude<Answer, string | { status: number }>;
type Read = Pick<Asked, "model" | "turns"> & Partial<Pick<Asked, "system" | "maxTokens" | "temperature">>;
type Route = {
  readonly wire: Wire;
  readonly path: RegExp;
  read(body: Body, headers: IncomingHttpHeaders, url: string): Read;
  write(said: Said, asked: Asked): unknown;
  error(status: number, message: string, code: string): unknown;
};

function partsOf(content: unknown): Part[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  demand(Array.isArray(content) && content.length > 0, "content must not be empty");
  return content as Part[];
}

/** `image` gives the base64 of a part, or undefined when it is text. */
function turnOf(role: unknown, content: unknown, image: (part: Part) => string | undefined) {
  demand(role === "user" || role === "assistant", `no role ${String(role)}`);
  const parts = partsOf(content);
  const images: Buffer[] = [];
  const texts: string[] = [];
  for (const part of parts) {
    const data = image(part);
    if (data !== undefined) images.push(Buffer.from(data, "base64"));
    else {
      demand(typeof part.text === "string" && part.text !== "", "text content must be non-empty");
      texts.push(part.text);
    }
  }
  return { role, text: texts.join("\n"), images } as const;
}

function dataUrl(url: unknown): string {
  demand(typeof url === "string" && url.startsWith("data:image/png;base64,"), "an image must be a PNG data URL");
  return url.slice(url.indexOf(",") + 1);
}

const optional = (name: string, value: unknown) => (typeof value === "number" ? { [name]: value } : {});

const ROUTES: readonly Route[] = [
  {
    wire: "openai",
    path: /^\/v1\/responses$/,
    read(body, headers) {
      demand(headers.authorization === "Bearer key-123", "openai: no key");
      demand(body.store === false, "openai: conversations must not be stored");
      const input = body.input as Part[];
      const system = input
        .filter(({ role }) => role === "system" || role === "developer")
        .map(({ content }) => String(content));
      const turns = input
        .filter(({ role }) => role === "user" || role === "assistant")
        .map(({ role, content }) => {
          const types = role === "user" ? ["input_text", "input_image"] : ["output_text"];
          for (const { type } of partsOf(content))
            demand(types.includes(type ?? ""), `openai: ${String(role)} said ${type}`);
          return turnOf(role, content, (part) => (part.type === "input_image" ? dataUrl(part.image_url) : undefined));
        });
      return {
        model: String(body.model),
        ...(system.length > 0 && { system: system.join("\n") }),
        turns,
        ...optional("maxTokens", body.max_output_tokens),
        ...optional("temperature", body.temperature),
      };
    },
    write: ({ text, finish = "stop", input = 100, output = 10 }, { model }) => ({
      id: "resp_1",
      object: "response",
      created_at: 1_760_000_000,
      status: finish === "length" ? "incomplete" : "completed",
      error: null,
      incomplete_details: finish === "length" ? { reason: "max_output_tokens" } : null,
      model: `${model}-2026-01-01`,
      output: [
        {
          type: "message",
          id: "msg_1",
          status: "completed",
          role: "assistant",
          content: [
            finish === "refusal"
              ? { type: "refusal", refusal: text }
              : { type: "output_text", text, annotations: [], logprobs: [] },
          ],
        },
      ],
      usage: {
        input_tokens: input,
        input_tokens_details: { cached_tokens: 7 },
        output_tokens: output,
        output_tokens_details: { reasoning_tokens: 3 },
        total_tokens: input + output,
      },
    }),
    error: (_, message, code) => ({ error: { message, type: "invalid_request_error", param: null, code } }),
  },
  {
    wire: "anthropic",
    path: /^\/v1\/messages$/,
    read(body, headers) {
      demand(
        headers["x-api-key"] === "key-123" && headers["anthropic-version"] !== undefined,
        "anthropic: no key or version",
      );
      demand(typeof body.max_tokens === "number", "anthropic: max_tokens is required");
      const turns = (body.messages as Part[]).map(({ role, content }) =>
        turnOf(role, content, (part) => {
          if (part.type !== "image") return undefined;
          const source = part.source as Body;
          demand(source.type === "base64" && source.media_type === "image/png", "anthropic: wrong image source");
          return String(source.data);
        }),
      );
      const system =
        body.system === undefined
          ? {}
          : {
              system: partsOf(body.system)
                .map(({ text }) => text)
                .join("\n"),
            };
      return {
        model: String(body.model),
        ...system,
        turns,
        maxTokens: body.max_tokens,
        ...optional("temperature", body.temperature),
      };
    },
    write: ({ text, finish = "stop", input = 100, output = 10 }, { model }) => ({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: `${model}-20260101`,
      content: finish === "refusal" ? [] : [{ type: "text", text }],
      stop_reason: { stop: "end_turn", length: "max_tokens", refusal: "refusal" }[finish],
      stop_sequence: null,
      usage: { input_tokens: input, output_tokens: output, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
    }),
    error: (_, message, code) => ({ type: "error", error: { type: code, message } }),
  },
  {
    wire: "google",
    path: /^\/v1beta\/models\/[^/:]+:generateContent$/,
    read(body, headers, url) {
      demand(headers["x-goog-api-key"] === "key-123", "google: no key");
      const turns = (body.contents as Part[]).map(({ role, parts }) =>
        turnOf(role === "model" ? "assistant" : role, parts, (part) => {
          const inline = part.inlineData as Body | undefined;
          if (inline === undefined) return undefined;
          demand(inline.mimeType === "image/png", "google: wrong image type");
          return String(inline.data);
        }),
      );
      const config = (body.generationConfig ?? {}) as Body;
      return {
        model: /models\/([^:]+):/.exec(url)?.[1] ?? "",
        turns,
        ...optional("maxTokens", config.maxOutputTokens),
        ...optional("temperature", config.temperature),
      };
    },
    write: ({ text, finish = "stop", input = 100, output = 10 }, { model }) => ({
      ...(finish === "refusal"
        ? { promptFeedback: { blockReason: "SAFETY" } }
        : {
            candidates: [
              {
                content: { role: "model", parts: [{ text }] },
                finishReason: finish === "length" ? "MAX_TOKENS" : "STOP",
                index: 0,
              },
            ],
          }),
      usageMetadata: { promptTokenCount: input, candidatesTokenCount: output, totalTokenCount: input + output },
      modelVersion: `${model}-001`,
      responseId: "r1",
    }),
    error: (status, message, code) => ({ error: { code: status, message, status: code } }),
  },
  {
    wire: "server",
    path: /^\/v1\/chat\/completions$/,
    read(body) {
      const messages = body.messages as Part[];
      const system = messages.filter(({ role }) => role === "system").map(({ content }) => String(content));
      const turns = messages
        .filter(({ role }) => role !== "system")
        .map(({ role, content }) =>
          turnOf(role, content, (part) =>
            part.type === "image_url" ? dataUrl((part.image_url as Body).url) : undefined,
          ),
        );
      return {
        model: String(body.model),
        ...(system.length > 0 && { system: system.join("\n") }),
        turns,
        ...optional("maxTokens", body.max_tokens),
        ...optional("temperature", body.temperature),
      };
    },
    write: ({ text, finish = "stop", input = 100, output = 10 }, { model }) => ({
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 1_760_000_000,
      model,
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: finish === "refusal" ? null : text },
          logprobs: null,
          finish_reason: { stop: "stop", length: "length", refusal: "content_filter" }[finish],
        },
      ],
      usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
    }),
    error: (_, message, code) => ({ error: { message, type: "error", param: null, code } }),
  },
];
