/** For tests: requests to every route of the Tinker face, right ones with something wrong in them, as JSON and as protobuf; and what became of each. */
import { PythonRandom } from "../../core/random-python.ts";
import { Writer } from "../../tinker/protobuf.ts";
import { serveTiny } from "../test-serve.ts";

type Json = unknown;
export type Fuzzed = {
  readonly sent: number;
  readonly protobuf: number;
  /** By status; of accepted work: `done`, and the category of failures. */
  readonly counts: Readonly<Record<string, number>>;
  /** Answers that no client should ever get. */
  readonly faults: readonly string[];
};

const MANY = 16;
const ALLOWED = new Set([200, 204, 400, 404, 405, 408, 410, 429]);
const LEAVES: readonly Json[] = [
  ...[null, true, false, 0, 1, -1, 2, 0.5, 1e300, -1e-300, 2 ** 31, 2 ** 53, 299, 300, "", "x", "policy", "\u0000"],
  ...["../x", "/etc/passwd", "tinker://../weights/x", "tinker://a/weights/../../x", "tinker://x/weights/first"],
  ...["\ud800", "encoded_text", "image", "AAAA", "9".repeat(30), "é".repeat(300), [], {}, [[]], [null], [-1], { a: 1 }],
];

export async function fuzz(count: number, seed: number): Promise<Fuzzed> {
  const served = await serveTiny();
  const random = new PythonRandom(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random.random() * list.length)] as T;
  const counts: Record<string, number> = {};
  const faults: string[] = [];
  let protobuf = 0;
  const note = (key: string) => {
    counts[key] = (counts[key] ?? 0) + 1;
  };

  async function send(method: string, route: string, body: Uint8Array | string | undefined) {
    const answer = await fetch(`${served.url}/api/v1/${route}`, {
      method,
      headers: { "content-type": body instanceof Uint8Array ? "application/x-protobuf" : "application/json" },
      ...(body !== undefined && { body: body as Uint8Array<ArrayBuffer> | string }),
    });
    const bytes = Buffer.from(await answer.arrayBuffer());
    const isJson = (answer.headers.get("content-type") ?? "").includes("json");
    const json = isJson ? (JSON.parse(bytes.toString()) as Record<string, Json>) : undefined;
    return { status: answer.status, json, hasLength: answer.headers.has("content-length") };
  }

  const ask = async (route: string, body: object) => (await send("POST", route, JSON.stringify(body))).json ?? {};
  const session = (await ask("create_session", {})).session_id;
  const created = await ask("create_model", {
    session_id: session,
    model_seq_id: 0,
    base_model: "policy",
    lora_config: { rank: 2 },
  });
  const { model_id: model } = await ask("retrieve_future", { request_id: created.request_id });
  const saved = await ask("save_weights", { model_id: model, seq_id: 1, path: "first" });
  const { path } = await ask("retrieve_future", { request_id: saved.request_id });
  const sampling = { session_id: session, sampling_session_seq_id: 0, base_model: "policy" };
  const { sampling_session_id: sampler } = await ask("create_sampling_session", sampling);
  let seq = 1;

  /** Right as they are. */
  const right: readonly (() => [method: string, route: string, body: Json])[] = [
    () => ["POST", "client/config", { sdk_version: "0.36.0" }],
    () => ["POST", "create_session", { tags: ["a"], user_metadata: { a: "b" }, sdk_version: "0.36.0" }],
    () => ["POST", "session_heartbeat", { session_id: session }],
    () => [
      "POST",
      "create_model",
      {
        session_id: session,
        model_seq_id: 0,
        base_model: "policy",
        lora_config: { rank: 2, seed: 0 },
        optimizer_config: { type: "adamw" },
      },
    ],
    () => ["POST", "get_info", { model_id: model }],
    () => [
      "POST",
      "optim_step",
      {
        model_id: model,
        seq_id: ++seq,
        adam_params: { learning_rate: 1e-3, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0, grad_clip_norm: 0 },
      },
    ],
    () => [
      "POST",
      "save_weights",
      { model_id: model, seq_id: ++seq, path: "second", ttl_seconds: 60, user_metadata: { a: "b" } },
    ],
    () => ["POST", "save_weights_for_sampler", { model_id: model, seq_id: ++seq, sampling_session_seq_id: 1 }],
    () => ["POST", "save_weights_external", { model_id: model, seq_id: ++seq, path: "out" }],
    () => ["POST", "load_weights", { model_id: model, seq_id: ++seq, path, optimizer: true }],
    () => [
      "POST",
      "create_sampling_session",
      { session_id: session, sampling_session_seq_id: 2, base_model: "policy", model_path: path },
    ],
    () => ["GET", `samplers/${sampler}`, undefined],
    () => ["POST", "asample", sampleBody()],
    () => ["POST", "asample", sampleBody()],
    () => ["POST", "retrieve_future", { request_id: saved.request_id, allow_metadata_only: true }],
    () => ["POST", "telemetry", { events: [], platform: "Linux", sdk_version: "0.36.0", session_id: session }],
    () => ["POST", "weights_info", { tinker_path: path }],
    () => ["GET", `training_runs/${model}`, undefined],
    () => ["GET", `training_runs/${model}/checkpoints`, undefined],
    () => ["GET", "training_runs?limit=5&offset=0", undefined],
    () => ["PUT", `training_runs/${model}/checkpoints/weights/first/ttl`, { ttl_seconds: null }],
    () => ["GET", `training_runs/${model}/checkpoints/weights/first/archive`, undefined],
    () => ["GET", "checkpoints?limit=3", undefined],
    () => ["GET", "sessions", undefined],
    () => ["POST", "sessions/search", { user_metadata: {}, limit: 3 }],
  ];

  function sampleBody(): Json {
    return {
      sampling_session_id: sampler,
      seq_id: ++seq,
      num_samples: 1,
      prompt: { chunks: [{ type: "encoded_text", tokens: [40, 41, 42] }] },
      sampling_params: { max_tokens: 2, temperature: 1, top_k: -1, top_p: 1, seed: 1, stop: ["x"] },
      prompt_logprobs: true,
      topk_prompt_logprobs: 1,
      target_prompt_logprobs: { data: [40, 41], dtype: "int64", shape: [2, 1] },
      prompt_alt_tokens_k: 1,
    };
  }

  /** One place of it is another thing, or gone, or there is one more. */
  function mutate(value: Json): Json {
    if (Array.isArray(value)) {
      if (value.length === 0 || random.random() < 0.3)
        return random.random() < 0.5 ? pick(LEAVES) : [...value, pick(LEAVES)];
      const at = Math.floor(random.random() * value.length);
      return value.map((one: Json, i) => (i === at ? mutate(one) : one));
    }
    if (typeof value === "object" && value !== null) {
      const keys = Object.keys(value);
      const key = random.random() < 0.05 ? pick(["path", "seq_id", "__proto__", "type"]) : pick(keys);
      if (key === undefined || random.random() < 0.1) return pick(LEAVES);
      const inner = (value as Record<string, Json>)[key];
      const { [key]: _, ...rest } = value as Record<string, Json>;
      return random.random() < 0.2 ? rest : { ...rest, [key]: mutate(inner) };
    }
    return pick(LEAVES);
  }

  function batch(): Uint8Array {
    const length = pick([1, 3, 3, 3, 8]);
    const wrong = () => random.random() < 0.06;
    const ids = Int32Array.from({ length }, () =>
      wrong() ? pick([-1, 300, 291, 294, 2 ** 30]) : 40 + Math.floor(random.random() * 40),
    );
    const tensor = (values: Float32Array | BigInt64Array) =>
      new Writer()
        .bytes(wrong() ? 2 : 1, new Uint8Array(values.buffer))
        .integer(3, wrong() ? pick([0, 1, 2, 3, 9]) : values instanceof Float32Array ? 1 : 2)
        .integers(4, wrong() ? pick([[], [-1], [2 ** 40, 2 ** 40], [length, 2], [0]]) : [length]);
    const numbers = () =>
      Float32Array.from({ length }, () => (wrong() ? pick([Number.NaN, Infinity, -1e30]) : random.random() - 0.5));
    const targets = BigInt64Array.from(ids, (id) => BigInt(wrong() ? pick([-1, 300, 2 ** 40]) : Math.abs(id) % 290));
    const inputs: [string, Float32Array | BigInt64Array][] = [["target_tokens", targets]];
    for (const name of ["weights", "logprobs", "advantages", "sequence_ratio_mask"])
      if (!wrong()) inputs.push([name, numbers()]);
    const image = new Writer().bytes(1, Uint8Array.of(137, 80, 78, 71)).text(2, "png");
    const chunk = wrong()
      ? new Writer().message(pick([2, 3]), image)
      : new Writer().message(1, new Writer().bytes(1, new Uint8Array(ids.buffer)));
    const datum = inputs.reduce(
      (made, [name, values]) => made.message(2, new Writer().text(1, name).message(2, tensor(values))),
      new Writer().message(1, chunk),
    );
    const loss = wrong()
      ? pick(["", "no_such", "dro", "__proto__"])
      : pick(["cross_entropy", "importance_sampling", "ppo", "cispo", "gspo"]);
    const whole = new Writer()
      .text(1, wrong() ? pick(["", "none"]) : String(model))
      .integer(2, wrong() ? pick([0, -5, 1]) : ++seq)
      .message(3, datum)
      .text(4, loss)
      .integer(6, random.random() < 0.3 ? 1 : 0)
      .finish();
    // Half of them are broken below the meaning.
    if (random.random() < 0.5) return whole;
    const bytes = Uint8Array.from(whole);
    for (let i = 0; i < 1 + Math.floor(random.random() * 3); i++)
      bytes[Math.floor(random.random() * bytes.length)] = Math.floor(random.random() * 256);
    return random.random() < 0.3 ? bytes.subarray(0, Math.floor(random.random() * bytes.length)) : bytes;
  }

  async function one(): Promise<void> {
    const isBatch = random.random() < 0.35;
    const [method, plainRoute, plain] = isBatch ? (["POST", "forward_backward", undefined] as const) : pick(right)();
    let route = plainRoute;
    let body: Uint8Array | string | undefined;
    if (isBatch) {
      body = batch();
      protobuf += 1;
    } else if (method === "GET") {
      const parts = route.split("/");
      parts[Math.floor(random.random() * parts.length)] = encodeURIComponent(
        String(pick(["x", "..", "a:b", "9".repeat(99), "%00", "weights"])),
      );
      if (random.random() < 0.7) route = parts.join("/");
    } else {
      body = JSON.stringify(random.random() < 0.9 ? mutate(plain) : plain);
      if (random.random() < 0.03) body = body.slice(0, Math.floor(random.random() * body.length));
    }
    const shown =
      `${method} ${route} ${body instanceof Uint8Array ? Buffer.from(body).toString("hex") : (body ?? "")}`.slice(
        0,
        1500,
      );
    try {
      const { status, json, hasLength } = await send(method, route, body);
      note(String(status));
      if (!ALLOWED.has(status)) faults.push(`${status} ${JSON.stringify(json)}: ${shown}`);
      if (status >= 400 && (typeof json?.detail !== "string" || !hasLength))
        faults.push(`${status} without words: ${shown}`);
      if (status !== 200 || typeof json?.request_id !== "string") return;
      const result = await send("POST", "retrieve_future", JSON.stringify({ request_id: json.request_id }));
      const failed = result.json?.error !== undefined;
      note(failed ? String(result.json?.category) : "done");
      if (result.status !== 200 || (failed && result.json?.category !== "user"))
        faults.push(`future ${result.status} ${JSON.stringify(result.json)}: ${shown}`);
    } catch (error) {
      faults.push(`${String(error)}: ${shown}`);
    }
  }

  try {
    for (let sent = 0; sent < count; sent += MANY)
      await Promise.all(Array.from({ length: Math.min(MANY, count - sent) }, one));
    if ((await fetch(`${served.url}/health`)).status !== 200) faults.push("the server is not well");
    return { sent: count, protobuf, counts, faults };
  } finally {
    await served.close();
  }
}
