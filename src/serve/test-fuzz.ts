/**
 * For tests: hostile requests, by a seed, and what became of them. Fields of every route with values that do not belong there, bytes that were cut off,
 * flipped or made up, images that are broken or unpack to gigabytes, features whose lengths lie, numbers beyond everything, nesting without end.
 */
import { deflateSync } from "node:zlib";
import fc from "fast-check";
import { Image } from "../core/image.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { packParcel } from "../envs/remote-wire.ts";
import { encodePng } from "../images/png.ts";

const TINKER = [
  ...["create_session", "create_model", "get_info", "forward_backward", "optim_step", "load_weights", "save_weights"],
  ...[
    "save_weights_for_sampler",
    "create_sampling_session",
    "asample",
    "retrieve_future",
    "weights_info",
    "sessions/search",
  ],
];
const GOOD: Readonly<Record<string, object>> = {
  "/v1/chat/completions": { messages: [{ role: "user", content: "x" }] },
  "/v1/chat/completions/render": { messages: [{ role: "user", content: "x" }] },
  "/v1/completions": { prompt: "x" },
  "/v1/completions/render": { prompt: "x" },
  "/inference/v1/generate": { token_ids: [40], sampling_params: { max_tokens: 2 } },
  "/tokenize": { prompt: "x" },
  "/detokenize": { tokens: [40] },
  "/update_weight_version": { new_version: "1" },
  "/collective_rpc": { method: "reload_weights" },
  "/v1/load_lora_adapter": { lora_name: "x", lora_path: "x" },
  "/v1/unload_lora_adapter": { lora_name: "x" },
  ...Object.fromEntries(TINKER.map((route) => [`/api/v1/${route}`, {}])),
};
const KEYS = [
  ...[
    "messages",
    "prompt",
    "token_ids",
    "sampling_params",
    "model",
    "temperature",
    "top_p",
    "top_k",
    "n",
    "stop",
    "logprobs",
    "top_logprobs",
  ],
  ...[
    "features",
    "mm_hashes",
    "mm_placeholders",
    "kwargs_data",
    "image",
    "offset",
    "length",
    "tools",
    "tool_choice",
    "stream",
    "stream_options",
  ],
  ...[
    "seed",
    "tokens",
    "role",
    "content",
    "type",
    "image_url",
    "url",
    "text",
    "kwargs",
    "weights_path",
    "lora_path",
    "session_id",
    "model_id",
  ],
  ...[
    "seq_id",
    "path",
    "adam_params",
    "sampling_session_id",
    "num_samples",
    "chunks",
    "request_id",
    "tinker_path",
    "chat_template_kwargs",
  ],
  ...[
    "continue_final_message",
    "add_generation_prompt",
    "min_p",
    "response_format",
    "logit_bias",
    "prompt_logprobs",
    "base_model",
  ],
];
const leaf = fc.oneof(
  fc.constantFrom(
    "user",
    "assistant",
    "policy",
    "data:image/png;base64,AAAA",
    "file:///etc/passwd",
    "../x",
    "",
    "\u0000",
    "\ud800",
  ),
  fc.constantFrom(
    "<|im_end|>",
    "<|image_pad|>",
    "function",
    "encoded_text",
    "image",
    "text",
    "image_url",
    null,
    true,
    false,
  ),
  fc.constantFrom(0, 1, -1, 294, 299, 300, 1e300, -1e-300, 2 ** 53),
  fc.string(),
);
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    leaf,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom(...KEYS), tie("value"), { maxKeys: 5 }),
  ),
}));
const asked = fc.tuple(
  fc.constantFrom(...Object.keys(GOOD)),
  fc.boolean(),
  fc.oneof(
    { weight: 9, arbitrary: fc.dictionary(fc.constantFrom(...KEYS), value, { maxKeys: 6 }) },
    { weight: 1, arbitrary: value },
  ),
);

export type Hostile = {
  readonly path: string;
  readonly type: string;
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly kind: string;
};

const JSON_TYPE = "application/json";
const NUMBERS = [
  "1e999",
  "-1e999",
  "9".repeat(400),
  "18446744073709551616",
  "-0",
  "0.1e-400",
  "1e308",
  "9007199254740993",
];
const SMALL_PNG = encodePng(
  new Image(
    64,
    64,
    new Uint8Array(64 * 64 * 3).map((_, i) => i * 7),
  ),
);

/** A PNG whose header promises `side × side` pixels, and whose data is a small file of that much nothing, or none. */
function bomb(side: number, filled: boolean): Buffer {
  return pngOf(side, side, filled ? deflateSync(Buffer.alloc(64 * 1024 * 1024)) : deflateSync(Buffer.alloc(10)));
}

/** A PNG of this header and these packed pixels, whether they agree or not. */
export function pngOf(width: number, height: number, packed: Uint8Array, interlaced = false): Buffer {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, interlaced ? 1 : 0], 8);
  const data = Buffer.from(packed);
  return Buffer.concat([
    SMALL_PNG.subarray(0, 8),
    chunk("IHDR", head),
    chunk("IDAT", data),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function chunk(name: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(name), data]);
  const size = Buffer.alloc(4);
  size.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([size, body, sum]);
}

function crc32(bytes: Buffer): number {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

const BOMBS = [bomb(20_000, true), bomb(60_000, false), bomb(8192, true), bomb(0, false), bomb(0xffffffff, false)];

/** Bytes with a few of them changed, cut, doubled or put elsewhere. */
export function mutate(bytes: Uint8Array, random: NumpyRandom): Buffer<ArrayBuffer> {
  const copy = Buffer.from(bytes);
  switch (random.integers(0, 4)) {
    case 0:
      return copy.subarray(0, random.integers(0, copy.length));
    case 1: {
      const at = random.integers(0, copy.length);
      return Buffer.concat([copy.subarray(0, at), copy.subarray(random.integers(0, copy.length))]);
    }
    default:
      for (let i = random.integers(1, 6); i > 0; i--) copy[random.integers(0, copy.length)] = random.integers(0, 256);
      return copy;
  }
}

const look = (url: string) => ({ role: "user", content: [{ type: "image_url", image_url: { url } }] });

/** `features` is what the render route said of an image, `ids` the prompt it belongs to. */
export function* hostile(
  count: number,
  seed: number,
  { features, ids }: { readonly features: string; readonly ids: readonly number[] },
): Generator<Hostile> {
  const random = new NumpyRandom(seed);
  const pick = <T>(list: readonly T[]) => list[random.integers(0, list.length)] as T;
  const places = { image: [{ offset: ids.indexOf(ids.find((id, i) => ids[i + 1] === id) ?? 0), length: 4 }] };
  const CHUNK = 1000;
  let structured: [string, boolean, unknown][] = [];
  for (let i = 0; i < count; i++) {
    if (i % CHUNK === 0) structured = fc.sample(asked, { seed: seed + i, numRuns: CHUNK });
    const path = pick(Object.keys(GOOD));
    const good = JSON.stringify(GOOD[path]);
    const draw = random.random();
    if (draw < 0.6) {
      const [route, like, given] = structured[i % CHUNK] as [string, boolean, unknown];
      const fields = typeof given === "object" && given !== null && !Array.isArray(given) ? given : undefined;
      const body = JSON.stringify(
        fields === undefined ? given : { ...(like && GOOD[route]), ...fields, max_tokens: 2 },
      );
      yield { path: route, type: JSON_TYPE, body, kind: "fields" };
    } else if (draw < 0.68) {
      yield { path, type: JSON_TYPE, body: mutate(Buffer.from(good), random), kind: "bytes" };
    } else if (draw < 0.74) {
      const numbers = good.replace(/\d+|"x"/g, () => pick(NUMBERS));
      yield { path, type: JSON_TYPE, body: numbers, kind: "numbers" };
    } else if (draw < 0.82) {
      const broken = random.random() < 0.02 ? pick(BOMBS) : mutate(SMALL_PNG, random);
      const head = pick(["data:image/png;base64,", "data:image/jpeg;base64,", "data:;base64,", "data:image/png,"]);
      const jpeg = random.random() < 0.3 ? Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), broken]) : broken;
      const body = JSON.stringify({ messages: [look(head + jpeg.toString("base64"))], max_tokens: 1 });
      yield {
        path: pick(["/v1/chat/completions", "/v1/chat/completions/render", "/tokenize"]),
        type: JSON_TYPE,
        body,
        kind: "images",
      };
    } else if (draw < 0.9) {
      const item = mutate(Buffer.from(features, "base64"), random).toString("base64");
      const sent = { mm_hashes: { image: [`fuzz ${i}`] }, mm_placeholders: places, kwargs_data: { image: [item] } };
      const body = JSON.stringify({ token_ids: ids, sampling_params: { max_tokens: 1 }, features: sent });
      yield { path: "/inference/v1/generate", type: JSON_TYPE, body, kind: "features" };
    } else if (draw < 0.92) {
      const url = pick([
        "file:///etc/passwd",
        "http://127.0.0.1/x.png",
        "https://example.com/x.png",
        "/etc/passwd",
        "ftp://x",
      ]);
      yield {
        path: "/v1/chat/completions",
        type: JSON_TYPE,
        body: JSON.stringify({ messages: [look(url)] }),
        kind: "addresses",
      };
    } else if (draw < 0.925) {
      const depth = random.integers(100, 100_000);
      const [open, close] = pick([
        ["[", "]"],
        ['{"messages":', "}"],
      ]) as [string, string];
      const deep = `${open.repeat(depth)}1${random.random() < 0.5 ? close.repeat(depth) : ""}`;
      // As a whole body, and where any JSON may stand.
      const data = `{"env_config":{"env":"frozen_lake","size":${deep}}}`;
      const form = `--x\r\nContent-Disposition: form-data; name="data"\r\n\r\n${data}\r\n--x--\r\n`;
      yield pick([
        { path, type: JSON_TYPE, body: deep, kind: "nesting" },
        { path, type: JSON_TYPE, body: `${good.slice(0, -1)},"chat_template_kwargs":{"a":${deep}}}`, kind: "nesting" },
        { path: "/connect", type: "multipart/form-data; boundary=x", body: form, kind: "nesting" },
      ]);
    } else if (draw < 0.97) {
      const call = { session_id: "x", method: "step", params: { action_str: "go" }, call: 0 };
      const data = random.random() < 0.5 ? call : { env_config: { env: "frozen_lake", size: random.integers(-9, 99) } };
      const { type, body } = packParcel({ data, images: [] }, "form-data");
      yield { path: pick(["/connect", "/call"]), type, body: mutate(body, random), kind: "multipart" };
    } else {
      const type = pick([
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
        "application/msgpack",
      ]);
      yield { path, type, body: mutate(Buffer.from(good), random), kind: "types" };
    }
  }
}

/** The one answer of 500 that is meant: vLLM's for an image that it was not sent, on which clients send it. */
const MEANT = "send its kwargs_data";

export type Outcome = { readonly faults: string[]; readonly refused: Record<string, number>; answered: number };

/** Sends them, so many at a time; a fault is an answer of 5xx, one without words, or none. */
export async function assail(
  url: string,
  requests: Iterable<Hostile>,
  { atOnce = 24, headers = {} }: { readonly atOnce?: number; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<Outcome> {
  const outcome: Outcome = { faults: [], refused: {}, answered: 0 };
  const iterator = requests[Symbol.iterator]();
  const worker = async () => {
    for (let next = iterator.next(); !next.done; next = iterator.next()) await send(next.value);
  };
  const send = async ({ path, type, body, kind }: Hostile) => {
    const signal = AbortSignal.timeout(120_000);
    const answer = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { ...headers, "content-type": type },
      body,
      signal,
    }).catch((error: unknown) => ({ status: 0, ok: false, text: async () => String(error) }));
    const text = await answer.text();
    if (answer.ok) outcome.answered += 1;
    else outcome.refused[kind] = (outcome.refused[kind] ?? 0) + 1;
    const isFine = answer.ok || (answer.status >= 400 && answer.status < 500 && wordsOf(text).length > 3);
    if (isFine || text.includes(MEANT)) return;
    outcome.faults.push(
      `${answer.status} ${kind} ${path} ${Buffer.from(body).toString("latin1").slice(0, 300)}: ${text.slice(0, 300)}`,
    );
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return outcome;
}

function wordsOf(text: string): string {
  try {
    const { error, detail, message } = JSON.parse(text) as Record<string, unknown>;
    const said = typeof error === "object" && error !== null ? (error as { message?: unknown }).message : error;
    return String(said ?? detail ?? message ?? "");
  } catch {
    return "";
  }
}

/** What the render route says of an image, for features to be spoiled. */
export async function renderedImage(
  url: string,
  more: Readonly<Record<string, string>> = {},
): Promise<{ features: string; ids: number[] }> {
  const body = JSON.stringify({
    messages: [look(`data:image/png;base64,${Buffer.from(SMALL_PNG).toString("base64")}`)],
  });
  const headers = { ...more, "content-type": JSON_TYPE };
  const answer = await fetch(`${url}/v1/chat/completions/render`, { method: "POST", headers, body });
  const { token_ids: ids, features } = (await answer.json()) as {
    token_ids: number[];
    features: { kwargs_data: { image: string[] } };
  };
  return { ids, features: features.kwargs_data.image[0] as string };
}
