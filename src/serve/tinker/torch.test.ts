/** The Tinker face over the PyTorch engine, on the CPU: two adapters over one base, all weights, images, snapshots, a server that starts again. */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image } from "../../core/image.ts";
import { cpuEngine, TORCH } from "../../engine/torch/test-worker.ts";
import { encodePng } from "../../images/png.ts";
import { temporaryFolder } from "../../model/test-folder.ts";
import { type Datum, ModelInput, ServiceClient, type TrainingClient } from "../../tinker/index.ts";
import { startServer } from "../server.ts";
import { createServable } from "../test-serve.ts";

const testImage = encodePng(
  new Image(
    64,
    64,
    Uint8Array.from({ length: 64 * 64 * 3 }, (_, i) => (i * 13) % 256),
  ),
);
const [VISION_START, VISION_END] = [291, 292];
const prompt = new ModelInput([
  { type: "encoded_text", tokens: [40, 41, VISION_START] },
  { type: "image", data: testImage, format: "png", expected_tokens: 4 },
  { type: "encoded_text", tokens: [VISION_END, 50, 60] },
]);
const answer = [70, 80, 51];
const datum: Datum = {
  model_input: prompt.append({ type: "encoded_text", tokens: answer.slice(0, -1) }),
  loss_fn_inputs: {
    target_tokens: [...new Array(prompt.length - 1).fill(0), ...answer],
    weights: Float32Array.from({ length: prompt.length + 2 }, (_, i) => (i < prompt.length - 1 ? 0 : 1)),
  },
};

describe.runIf(TORCH)("over PyTorch", () => {
  let root = "";
  let server: Awaited<ReturnType<typeof open>>;

  async function open() {
    const { engine } = cpuEngine();
    const started = await startServer({
      engine,
      folder: join(root, "model"),
      name: "policy",
      store: join(root, "store"),
    });
    const service = new ServiceClient({ base_url: started.url, api_key: "tml-any" });
    return {
      service,
      async close() {
        await started.close();
        await engine.close();
      },
    };
  }

  beforeAll(async () => {
    root = await temporaryFolder();
    await createServable(join(root, "model"));
    await mkdir(join(root, "store"));
    server = await open();
  });
  afterAll(async () => {
    await server?.close();
    await rm(root, { recursive: true, force: true });
  });

  async function learn(client: TrainingClient, steps: number): Promise<number[]> {
    const losses: number[] = [];
    for (let step = 0; step < steps; step++) {
      const learned = client.forwardBackward([datum], "cross_entropy");
      await client.optimStep({ learning_rate: 0.02 });
      losses.push((await learned).metrics["loss:sum"] as number);
    }
    return losses;
  }

  test("adapters and all weights learn from an image, snapshots agree with the learner, and a checkpoint resumes after a restart", async () => {
    const client = await server.service.createLoraTrainingClient("policy", { rank: 4 });
    const other = await server.service.createLoraTrainingClient("policy", { rank: 2 });
    const losses = await learn(client, 8);
    expect(losses.at(-1)!).toBeLessThan(losses[0]! / 2);
    // The other adapter did not move with it.
    const [untouched] = await learn(other, 1);
    expect(untouched).toBeCloseTo(losses[0]!, 3);
    const full = await learn(await server.service.createLoraTrainingClient("policy", { rank: 0 }), 3);
    expect(full.at(-1)!).toBeLessThan(full[0]!);
    const sampler = await client.saveWeightsAndGetSamplingClient();
    const scored = await sampler.computeLogprobs(prompt.append({ type: "encoded_text", tokens: answer }));
    const { loss_fn_outputs: outputs } = await client.forward([datum], "cross_entropy");
    const learner = Array.from(outputs[0]!.logprobs!.data).slice(-3);
    for (const [i, value] of scored.slice(-3).entries()) expect(value).toBeCloseTo(learner[i]!, 4);
    const { path } = await client.saveState("state");
    const greedy = { max_tokens: 3, temperature: 0, stop: [] };
    const before = (await sampler.sample(prompt, greedy)).sequences[0]!.tokens;
    const next = await learn(client, 2);
    await server.close();
    server = await open();
    const resumed = await server.service.createTrainingClientFromStateWithOptimizer(path);
    for (const [i, value] of (await learn(resumed, 2)).entries()) expect(value).toBeCloseTo(next[i]!, 4);
    const again = await server.service.createSamplingClient({
      model_path: (await resumed.saveWeightsForSampler("now")).path,
    });
    expect(Array.from((await again.sample(prompt, greedy)).sequences[0]!.tokens)).toEqual(Array.from(before));
  }, 300_000);
});
