/** The TypeScript client against our own server: everything it calls, and connections that break at the worst moment. */
import { execFileSync } from "node:child_process";
import { createServer, request as httpRequest, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image } from "../core/image.ts";
import { encodePng } from "../images/png.ts";
import { type Served, serveTiny } from "../serve/test-serve.ts";
import { APIStatusError, type Datum, ModelInput, RequestFailedError, RestClient, ServiceClient } from "./index.ts";
import { decodeBatch, decodeOutput, decodeSamples, encodeBatch, encodeOutput, encodeSamples } from "./messages.ts";

const KEY = "tml-a-key-of-24-characters";
const testImage = encodePng(
  new Image(
    64,
    64,
    Uint8Array.from({ length: 64 * 64 * 3 }, (_, i) => (i * 13) % 256),
  ),
);

let served: Served;
beforeAll(async () => {
  served = await serveTiny({ key: KEY });
});
afterAll(() => served.close());

const clientOf = (url = served.url) => new ServiceClient({ base_url: url, api_key: KEY });

/** "40 41 <image> 42 43": learn what follows each id. */
function example(last = 44): Datum {
  const model_input = ModelInput.fromInts([40, 41])
    .append({ type: "image", data: testImage, format: "png", expected_tokens: 4 })
    .append({ type: "encoded_text", tokens: [42, 43] });
  return {
    model_input,
    loss_fn_inputs: { target_tokens: [41, 0, 0, 0, 0, 42, 43, last], weights: [1, 0, 0, 0, 0, 1, 1, 1] },
  };
}

/** Losses of steps whose two operations are submitted together. */
async function losses(url: string, steps: number): Promise<number[]> {
  const service = clientOf(url);
  const client = await service.createLoraTrainingClient("policy", { rank: 4, seed: 5 });
  const found: number[] = [];
  for (let step = 0; step < steps; step++) {
    const learned = client.forwardBackward([example(44 + step), example()], "cross_entropy");
    const moved = client.optimStep({ learning_rate: 0.05 });
    found.push((await learned).metrics["loss:sum"]!);
    await moved;
  }
  await service.close();
  return found;
}

describe("the client", () => {
  test("trains with images, samples from a snapshot, saves, resumes, lists, exports and deletes", async () => {
    const service = clientOf();
    expect((await service.getServerCapabilities()).supported_models[0]?.model_name).toBe("policy");
    const client = await service.createLoraTrainingClient("policy", {
      rank: 4,
      seed: 5,
      user_metadata: { by: "test" },
    });
    const before = await client.saveWeightsAndGetSamplingClient();
    const { loss_fn_outputs: first } = await client.forward([example()], "cross_entropy");
    for (let step = 0; step < 8; step++) {
      void client.forwardBackward([example()], "cross_entropy");
      await client.optimStep({ learning_rate: 0.05 });
    }
    const { loss_fn_outputs: last, metrics } = await client.forwardBackward([example()], "cross_entropy");
    expect(last[0]?.logprobs?.data[0]).toBeGreaterThan(first[0]!.logprobs!.data[0]!);
    expect(last[0]?.logprobs?.shape).toEqual([8]);
    await client.optimStep({ learning_rate: 0.01 });

    const after = await client.saveWeightsAndGetSamplingClient();
    const greedy = { max_tokens: 3, temperature: 0 };
    const prompt = ModelInput.fromInts([40, 41]);
    const [old, tuned] = await Promise.all(
      [before, after].map((one) => one.sample(prompt, greedy, { num_samples: 2 })),
    );
    expect(tuned!.sequences).toHaveLength(2);
    expect(tuned!.sequences[0]?.sequence_id).toEqual(expect.any(String));
    expect(tuned!.sequences[0]?.tokens).not.toEqual(old!.sequences[0]?.tokens);
    const seeded = { max_tokens: 6, seed: 2n ** 63n + 1n };
    const twice = await Promise.all([1, 2].map(async () => (await after.sample(prompt, seeded)).sequences[0]?.tokens));
    expect(twice[0]).toEqual(twice[1]);
    // What the learner says of a position is what the sampler says of the id after it.
    const scored = await after.computeLogprobs(example().model_input.append({ type: "encoded_text", tokens: [44] }));
    const { loss_fn_outputs: learner } = await client.forward([example()], "cross_entropy");
    expect(scored[0]).toBeNull();
    expect([0, 5, 6, 7].map((i) => scored[i + 1])).toEqual(
      [0, 5, 6, 7].map((i) => learner[0]!.logprobs!.data[i] as number),
    );
    const { topk_prompt_logprobs: top } = await after.sample(prompt, greedy, { topk_prompt_logprobs: 2 });
    expect([top?.[0], top?.[1]?.length]).toEqual([null, 2]);

    const { path } = await client.saveState("0001", { ttl_seconds: 3600 });
    const next = async (one: typeof client) => {
      const { metrics } = await one.forwardBackward([example()], "cross_entropy");
      await one.optimStep({ learning_rate: 0.05 });
      return [
        metrics["loss:sum"],
        (await one.forward([example()], "cross_entropy")).loss_fn_outputs[0]?.logprobs?.data[0],
      ];
    };
    const [resumed, fresh] = [
      await service.createTrainingClientFromStateWithOptimizer(path),
      await service.createTrainingClientFromState(path),
    ];
    const goesOn = await next(client);
    expect(await next(resumed)).toEqual(goesOn);
    const anew = await next(fresh);
    expect([anew[0] === goesOn[0], anew[1] === goesOn[1]]).toEqual([true, false]);

    const rest = new RestClient({ base_url: served.url, api_key: KEY });
    const run = await rest.getTrainingRunByTinkerPath(path);
    expect([run.base_model, run.lora_rank, run.user_metadata]).toEqual(["policy", 4, { by: "test" }]);
    const files = await rest.downloadExternalWeights((await client.saveWeightsExternal("out")).path);
    expect([...files.keys()].sort()).toEqual(["adapter_config.json", "adapter_model.safetensors"]);
    await rest.setCheckpointTtlFromTinkerPath(path, null);
    const kept = await rest.listCheckpoints(client.model_id);
    expect(kept.checkpoints.find(({ tinker_path }) => tinker_path === path)?.expires_at).toBeNull();
    await rest.deleteCheckpointFromTinkerPath(path);
    expect(
      (await rest.listCheckpoints(client.model_id)).checkpoints.map(({ tinker_path }) => tinker_path),
    ).not.toContain(path);
    expect((await rest.listTrainingRuns()).cursor.total_count).toBeGreaterThanOrEqual(3);
    expect((await rest.listSessions()).sessions.length).toBeGreaterThan(0);
    expect(metrics["loss:sum"]).toEqual(expect.any(Number));
    await service.close();
  });

  test("a loss of one's own is what its formula says, and a step may be submitted right behind it", async () => {
    const service = clientOf();
    const losses: number[] = [];
    const client = await service.createLoraTrainingClient("policy", { rank: 4, seed: 5 });
    for (let step = 0; step < 5; step++) {
      // Squares of the log-probabilities at the last position.
      const learned = client.forwardBackwardCustom([example()], (_, [logprobs]) => {
        const last = logprobs![7]!;
        const gradient = new Float32Array(8);
        gradient[7] = 2 * last;
        return { loss: last * last, gradients: [gradient], metrics: { "own:sum": 3 } };
      });
      const moved = client.optimStep({ learning_rate: 0.05 });
      const { metrics } = await learned;
      losses.push(metrics["loss:sum"]!);
      expect([metrics["own:sum"], metrics["surrogate_loss:sum"]]).toEqual([3, expect.any(Number)]);
      await moved;
    }
    expect(losses.at(-1)).toBeLessThan(losses[0]!);
    await service.close();
  });

  test("a batch that is too large for one request gives what its parts give", async () => {
    const service = clientOf();
    const client = await service.createLoraTrainingClient("policy", { rank: 4, seed: 5 });
    const many = Array.from({ length: 1500 }, () => ({
      model_input: ModelInput.fromInts([40, 41]),
      loss_fn_inputs: { target_tokens: [41, 42] },
    }));
    const { loss_fn_outputs, metrics } = await client.forward(many, "cross_entropy");
    expect(loss_fn_outputs).toHaveLength(1500);
    expect(metrics["loss:sum"]).toBeDefined();
    await service.close();
  });

  test("mistakes are errors in words, at once", async () => {
    const service = clientOf();
    const client = await service.createLoraTrainingClient("policy", { rank: 4 });
    await expect(client.forwardBackward([example()], "no_such_loss")).rejects.toThrow(RequestFailedError);
    await expect(client.loadState("tinker://none/weights/x")).rejects.toThrow(APIStatusError);
    await expect(service.createLoraTrainingClient("another")).rejects.toThrow(/has the model "policy"/);
    // The operation that failed took its number with it; the next one works.
    expect((await client.forward([example()], "cross_entropy")).loss_fn_outputs).toHaveLength(1);
    expect(() => new ServiceClient({ base_url: served.url, api_key: "x" })).toThrow(/TINKER_API_KEY/);
    await expect(
      new ServiceClient({ base_url: "http://127.0.0.1:9", api_key: KEY, patience_ms: 0 }).getServerCapabilities(),
    ).rejects.toThrow(/can't be reached/);
    await service.close();
  });
});

/** In front of a server, cuts connections: of every third answer nothing arrives, though the request was done. */
async function lossy(target: string): Promise<{ url: string; cuts: () => number; server: Server }> {
  let count = 0;
  let cuts = 0;
  const server = createServer((incoming, outgoing) => {
    const to = new URL(incoming.url ?? "/", target);
    const forward = httpRequest(
      to,
      { method: incoming.method, headers: { ...incoming.headers, host: to.host } },
      (answer) => {
        const parts: Buffer[] = [];
        answer.on("data", (part: Buffer) => parts.push(part));
        answer.on("end", () => {
          if (++count % 3 === 0) {
            cuts += 1;
            outgoing.destroy();
            return;
          }
          outgoing.writeHead(answer.statusCode ?? 500, answer.headers).end(Buffer.concat(parts));
        });
      },
    );
    forward.on("error", () => outgoing.destroy());
    incoming.pipe(forward);
  });
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cuts: () => cuts, server };
}

test("answers that are lost on the way are asked for again, and no step is applied twice", async () => {
  const proxy = await lossy(served.url);
  const [through, straight] = [await losses(proxy.url, 6), await losses(served.url, 6)];
  proxy.server.close();
  proxy.server.closeAllConnections();
  expect(proxy.cuts()).toBeGreaterThan(5);
  expect(through).toEqual(straight);
}, 60_000);

test("a server of the older form gets JSON, and nothing that may have arrived is sent to it twice", async () => {
  const seen: { url: string; body: Record<string, unknown> }[] = [];
  let cut = false;
  const server = createServer((incoming, outgoing) => {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("end", () => {
      const url = (incoming.url ?? "").replace("/api/v1/", "");
      const answer = (body: object, status = 200) =>
        outgoing.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
      if (incoming.headers["content-type"]?.includes("protobuf")) return answer({ detail: "?" }, 500);
      const body = JSON.parse(Buffer.concat(parts).toString() || "{}") as Record<string, unknown>;
      seen.push({ url, body });
      if (url === "client/dynamic_config") return answer({}, 404);
      if (url === "client/config") return answer({ pjwt_auth_enabled: false });
      if (url === "create_session") return answer({ session_id: "s" });
      if (url === "forward_backward" && cut) return outgoing.destroy();
      if (url !== "retrieve_future") return answer({ request_id: url });
      if (body.request_id === "create_model") return answer({ model_id: "m" });
      return answer({ loss_fn_outputs: [{ logprobs: { data: [-1, -2], dtype: "float32", shape: [2] } }], metrics: {} });
    });
  });
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  const service = clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const client = await service.createLoraTrainingClient("x");
  const datum = {
    model_input: ModelInput.fromInts([1, 2]),
    loss_fn_inputs: { target_tokens: [2, 3], weights: [1, 1] },
  };
  const { loss_fn_outputs: outputs } = await client.forwardBackward([datum], "cross_entropy");
  expect(outputs[0]?.logprobs?.data).toEqual(Float32Array.of(-1, -2));
  expect(seen.find(({ url }) => url === "forward_backward")?.body).toEqual({
    model_id: "m",
    seq_id: 1,
    forward_backward_input: {
      data: [
        {
          model_input: { chunks: [{ type: "encoded_text", tokens: [1, 2] }] },
          loss_fn_inputs: {
            target_tokens: { data: [2, 3], dtype: "int64", shape: [2] },
            weights: { data: [1, 1], dtype: "float32", shape: [2] },
          },
        },
      ],
      loss_fn: "cross_entropy",
    },
  });
  cut = true;
  const count = () => seen.filter(({ url }) => url === "forward_backward").length;
  const before = count();
  await expect(client.forwardBackward([datum], "cross_entropy")).rejects.toThrow(/does not retry/);
  expect(count()).toBe(before + 1);
  server.close();
  server.closeAllConnections();
  await service.close();
});

describe("the codec", () => {
  const ids = fc.array(fc.integer({ min: 0, max: 2 ** 31 - 1 }), { minLength: 1, maxLength: 9 });

  test("what a client writes is what a server reads", async () => {
    await fc.assert(
      fc.asyncProperty(
        ids,
        fc.float({ noNaN: true }),
        fc.boolean(),
        fc.option(fc.integer({ min: 1, max: 500 })),
        async (tokens, weight, only, expected) => {
          const image = {
            type: "image",
            data: testImage,
            format: "png",
            ...(expected !== null && { expected_tokens: expected }),
          };
          const model_input = ModelInput.fromInts(tokens).append(image as never);
          const batch = {
            model_id: "a:train:0",
            seq_id: tokens.length,
            data: [{ model_input, loss_fn_inputs: { target_tokens: tokens, weights: tokens.map(() => weight) } }],
            loss_fn: "ppo",
            loss_fn_config: { clip_low_threshold: 0.5, loss_id: "x" },
            forward_only: only,
          };
          const read = await decodeBatch(encodeBatch(batch));
          const { data: _, ...rest } = batch;
          expect(read).toMatchObject(rest);
          const [text, seen] = read.data[0]!.chunks;
          expect(text).toEqual({ type: "encoded_text", tokens: Int32Array.from(tokens) });
          expect(seen).toMatchObject({ type: "image", ...(expected !== null && { expected_tokens: expected }) });
          expect(read.data[0]!.inputs.get("target_tokens")).toEqual({
            data: Float64Array.from(tokens),
            shape: [tokens.length],
          });
          expect(read.data[0]!.inputs.get("weights")?.data[0]).toBe(weight);
        },
      ),
    );
  });

  test("what a server writes is what a client reads", () => {
    const logprobs = [Float32Array.of(-1, -2), Float32Array.of(-3), Float32Array.of(-4, -5, -6, -7)];
    const outputs = logprobs.map((found, i) => ({ logprobs: found, columns: i === 2 ? 2 : 0 }));
    const output = decodeOutput(encodeOutput(outputs, { "loss:sum": 0.1 }));
    expect(output.loss_fn_outputs.map(({ logprobs }) => [logprobs?.data, logprobs?.shape])).toEqual([
      [logprobs[0], [2]],
      [logprobs[1], [1]],
      [logprobs[2], [2, 2]],
    ]);
    expect(output.metrics).toEqual({ "loss:sum": 0.1 });
    const top = [[{ id: 7, logprob: -0.5 }], []];
    const samples = decodeSamples(
      encodeSamples([{ stop: "length", ids: [1, 2], logprobs: [-0.5, -0.25], top }], 2, {
        prompt: Float32Array.of(Number.NaN, -2),
        topCount: 0,
        targets: {
          data: Float32Array.of(-1),
          dtype: "float32",
          shape: [2, 8],
          sparse_crow_indices: [0, 0, 1],
          sparse_col_indices: [3],
        },
      }),
    );
    expect(samples).toEqual({
      sequences: [
        {
          stop_reason: "length",
          tokens: Int32Array.of(1, 2),
          logprobs: Float32Array.of(-0.5, -0.25),
          topk_logprobs: [[[7, -0.5]], null],
        },
      ],
      prompt_logprobs: [null, -2],
      target_prompt_logprobs: {
        data: Float32Array.of(-1),
        dtype: "float32",
        shape: [2, 8],
        sparse_crow_indices: [0, 0, 1],
        sparse_col_indices: [3],
      },
    });
  });

  test.runIf(process.env.SACCADE_TINKER_PYTHON)("a batch is read by the SDK's own protobuf classes", () => {
    const batch = encodeBatch({
      model_id: "m",
      seq_id: 7,
      data: [example(299)],
      loss_fn: "gspo",
      loss_fn_config: { clip_low_threshold: 0.25 },
      forward_only: true,
    });
    const program = `
import sys, json, struct
from tinker.proto import tinker_public_pb2 as proto
m = proto.ForwardBackwardRequest(); m.ParseFromString(sys.stdin.buffer.read())
d = m.data[0]
t = d.loss_fn_inputs["target_tokens"]; w = d.loss_fn_inputs["weights"]
print(json.dumps([m.model_id, m.seq_id, m.loss_fn, dict(m.loss_fn_config), m.forward_only, m.loss_fn_config_v2["clip_low_threshold"].number,
  list(struct.unpack("<2i", d.model_input[0].encoded_text.tokens)), len(d.model_input[1].image.data), d.model_input[1].image.format,
  d.model_input[1].image.expected_tokens, list(t.shape), t.dtype, list(struct.unpack("<8q", t.dense)), w.dtype, list(struct.unpack("<8f", w.dense))]))`;
    const said = execFileSync(process.env.SACCADE_TINKER_PYTHON as string, ["-c", program], {
      input: batch,
      encoding: "utf8",
    });
    expect(JSON.parse(said)).toEqual([
      ...["m", 7, "gspo", { clip_low_threshold: 0.25 }, true, 0.25, [40, 41], testImage.length, "png", 4],
      ...[[8], 2, [41, 0, 0, 0, 0, 42, 43, 299], 1, [1, 0, 0, 0, 0, 1, 1, 1]],
    ]);
  });
});

describe("a server that sends us elsewhere", () => {
  test("gets an error that names the place, and the place neither request nor key", async () => {
    const seen: unknown[] = [];
    const elsewhere = createServer((request, response) => {
      seen.push(request.headers);
      response.end("{}");
    });
    await new Promise<void>((done) => elsewhere.listen(0, "127.0.0.1", done));
    const target = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`;
    const here = createServer((request, response) => {
      response.writeHead(307, { location: `${target}${request.url}` }).end();
    });
    await new Promise<void>((done) => here.listen(0, "127.0.0.1", done));
    const rest = new RestClient({ base_url: `http://127.0.0.1:${(here.address() as AddressInfo).port}`, api_key: KEY });
    await expect(rest.listSessions()).rejects.toThrow(new RegExp(`redirect to ${target}, which is not followed`));
    expect(seen).toEqual([]);
    for (const server of [here, elsewhere]) server.close();
  });
});

test("a sample that is given up is cancelled at the server", async () => {
  const ends: Promise<unknown>[] = [];
  const open = served.engine.sampler.bind(served.engine);
  served.engine.sampler = async (folder) => {
    const sampler = await open(folder);
    const sample = sampler.sample.bind(sampler);
    sampler.sample = (prompt, params, context) => {
      const result = sample(prompt, params, context);
      if (params.maxTokens > 100) ends.push(result.catch(String));
      return result;
    };
    return sampler;
  };
  const service = clientOf();
  const sampler = await service.createSamplingClient({ base_model: "policy" });
  const stop = new AbortController();
  const params = { max_tokens: 900, stop: [] };
  const options = { num_samples: 64, signal: stop.signal };
  const drawing = sampler.sample(ModelInput.fromInts([40, 41, 42]), params, options).catch(String);
  while (ends.length < 64) await new Promise((done) => setTimeout(done, 5));
  stop.abort(new Error("enough"));
  expect(await drawing).toContain("enough");
  expect((await Promise.all(ends)).filter((end) => String(end).includes("cancelled")).length).toBeGreaterThan(32);
  await service.close();
});
