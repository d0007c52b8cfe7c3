/** The worker's life: it is killed and comes back, runs elsewhere, is asked twice, hangs up. */
import { type ChildProcess, spawn } from "node:child_process";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Features } from "../../core/model-input.ts";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { loadChat } from "../../model/chat.ts";
import type { Datum, OptimizerParams } from "../engine.ts";
import { Growing, playEpisode, type TestModel, tinyImages, tinyModel } from "../native/test-model.ts";
import { openEngine } from "../registry.ts";
import type { TorchEngine } from "./engine.ts";
import { packageFolder } from "./environment.ts";
import type { LocalWorker } from "./process.ts";
import { CPU_SETTINGS, cpuEngine, TORCH } from "./test-worker.ts";

const STEP: OptimizerParams = { name: "adamw", learningRate: 1e-2 };
const CE = { name: "cross-entropy" } as const;
const images = tinyImages(4);

describe.runIf(TORCH)("the PyTorch worker", () => {
  let model: TestModel;
  let engine: TorchEngine;
  let worker: LocalWorker;
  let data: Datum[];

  beforeAll(async () => {
    model = await tinyModel(4);
    ({ engine, worker } = cpuEngine());
    const sampler = await engine.sampler(model.folder);
    data = [];
    for (let seed = 0; seed < 3; seed++) data.push((await playEpisode(sampler, model.config, images, seed)).datum);
    await sampler.close();
  });
  afterAll(async () => {
    await engine?.close();
    await model?.remove();
  });

  const prompt = (seed = 1) =>
    new Growing(model.config).words(new NumpyRandom(seed), 5).show(images[0]!).words(new NumpyRandom(2), 3).input();
  const params = { maxTokens: 6, temperature: 1, seed: 3 };

  test("streams ids as they are drawn, and they are the sample", async () => {
    const sampler = await engine.sampler(model.folder);
    const seen: [number, number][] = [];
    const sample = await sampler.sample(prompt(), params, {
      sequence: "a",
      onToken: (id, logprob) => seen.push([id, logprob]),
    });
    expect(seen.map(([id]) => id)).toEqual([...sample.ids]);
    for (const [i, [, logprob]] of seen.entries()) expect(logprob).toBeCloseTo(sample.logprobs[i]!, 5);
    expect(sample.version).toBe(0);
    await sampler.close();
    await expect(sampler.sample(prompt(), params, { sequence: "a" })).rejects.toThrow(/closed/);
  });

  test("an abort ends one sample with the signal's reason; the sequence can sample again", async () => {
    const sampler = await engine.sampler(model.folder);
    const stop = new AbortController();
    const long = sampler.sample(
      prompt(),
      { ...params, maxTokens: 500 },
      { sequence: "a", signal: stop.signal, onToken: () => stop.abort(new Error("enough")) },
    );
    await expect(long).rejects.toThrow("enough");
    await vi.waitFor(() => sampler.sample(prompt(), params, { sequence: "a" }), 10_000);
    await sampler.close();
  });

  test("an abort that comes before the request has left, or while it is on its way, is no lost one", async () => {
    const sampler = await engine.sampler(model.folder);
    const cut = (stop: AbortController) =>
      sampler.sample(prompt(), { ...params, maxTokens: 400 }, { sequence: "b", signal: stop.signal });
    const [early, late] = [new AbortController(), new AbortController()];
    const unsent = cut(early);
    early.abort(new Error("at once"));
    await expect(unsent).rejects.toThrow("at once");
    await sampler.sample(prompt(), params, { sequence: "b" });
    const sent = cut(late);
    await new Promise((done) => setImmediate(done));
    late.abort(new Error("on its way"));
    await expect(sent).rejects.toThrow("on its way");
    await vi.waitFor(() => sampler.sample(prompt(), params, { sequence: "b" }), 10_000);
    await sampler.close();
  });

  test("a stop string ends a sample with the id that completes it", async () => {
    const sampler = await engine.sampler(model.folder);
    const { tokenizer } = await loadChat(model.folder);
    for (let seed = 0; ; seed++) {
      const whole = await sampler.sample(prompt(seed), { ...params, maxTokens: 12, seed }, { sequence: "a" });
      const texts = [...whole.ids].map((id) => tokenizer.decode([id]));
      const at = texts.findIndex((text, i) => i > 0 && /^[ -~]+$/.test(text) && /^[ -~]+$/.test(texts[i - 1]!));
      if (at < 0) continue;
      const stop = texts[at - 1]!.slice(-1) + texts[at]!.slice(0, 1);
      const cut = await sampler.sample(
        prompt(seed),
        { ...params, maxTokens: 12, seed, stopStrings: [stop] },
        { sequence: "a" },
      );
      const first = [...whole.ids].findIndex((_, i) => tokenizer.decode([...whole.ids.slice(0, i + 1)]).includes(stop));
      expect([...cut.ids]).toEqual([...whole.ids.slice(0, first + 1)]);
      expect(cut.stopReason).toBe("stop");
      break;
    }
    await sampler.close();
  });

  test("processed features are used as they are: those of an image give what the image gives", async () => {
    const sampler = await engine.sampler(model.folder);
    const { processor } = await loadChat(model.folder);
    const plain = prompt();
    const { patches, gridH, gridW } = processor.preprocess(images[0]!);
    const features: Features = {
      hash: "ready",
      grid: [1, gridH, gridW],
      dtype: "float32",
      data: new Uint8Array(patches.buffer),
    };
    const other: Features = {
      ...features,
      hash: "changed",
      data: new Uint8Array(patches.map((value) => -value).buffer),
    };
    const ask = async (given?: Features) => {
      const spans = plain.images.map((span) => ({ ...span, ...(given && { features: given }) }));
      return (await sampler.sample({ ids: plain.ids, images: spans }, params, { sequence: `${given?.hash}` })).logprobs;
    };
    const wanted = await ask();
    expect(await ask(features)).toEqual(wanted);
    expect(await ask(other)).not.toEqual(wanted);
    await sampler.close();
  });

  test("a batch that shows more frames than the worker keeps is scored and learned in pieces, with the same numbers", async () => {
    const { processor } = await loadChat(model.folder);
    const many = tinyImages(32);
    const teller = await engine.sampler(model.folder);
    const data: Datum[] = [];
    for (let seed = 0; seed < 8; seed++)
      data.push((await playEpisode(teller, model.config, many.slice(4 * seed, 4 * seed + 4), seed)).datum);
    const bytes = data.map(({ input }) => {
      const frames = new Map(input.images.map(({ image }) => [image.hash, processor.view(image).data.byteLength]));
      return [...frames.values()].reduce((sum, size) => sum + size, 0);
    });
    // Enough for any one sequence, not for all of them.
    const frameBytes = 2 * Math.max(...bytes);
    expect(bytes.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(frameBytes);
    const { engine: small } = cpuEngine({ frameBytes });
    try {
      const wanted = await engine.learner({ folder: model.folder, seed: 0 });
      const found = await small.learner({ folder: model.folder, seed: 0 });
      const values = (all: readonly { readonly logprobs?: Float32Array }[]) =>
        all.map(({ logprobs }) => [...(logprobs ?? [])]);
      const near = (some: readonly number[][], others: readonly number[][]) => {
        expect(some.length).toBe(others.length);
        some.forEach((row, i) => {
          row.forEach((value, j) => {
            expect(value).toBeCloseTo(others[i]?.[j] as number, 4);
          });
        });
      };
      near(values(await found.forward(data)), values(await wanted.forward(data)));
      const [one, two] = [await found.forwardBackward(data, CE), await wanted.forwardBackward(data, CE)];
      expect(one.loss).toBeCloseTo(two.loss, 3);
      expect(one.metrics.tokens).toBe(two.metrics.tokens);
      expect(one.metrics.nll).toBeCloseTo(two.metrics.nll as number, 4);
      expect(one.frameHashes).toEqual(two.frameHashes);
      expect((await found.step(STEP)).gradNorm).toBeCloseTo((await wanted.step(STEP)).gradNorm, 3);
      const sampler = await small.sampler(model.folder);
      const whole = await engine.sampler(model.folder);
      near(values(await sampler.score(data)), values(await whole.score(data)));
    } finally {
      await small.close();
    }
  });

  test("bad input is refused with what to do, and the worker lives on", async () => {
    await expect(engine.learner({ folder: join(model.root, "nothing"), seed: 0 })).rejects.toThrow(/config.json/);
    const learner = await engine.learner({ folder: model.folder, seed: 0 });
    await expect(learner.forwardBackward([{ ...data[0]!, weights: new Float32Array(2) }], CE)).rejects.toThrow(
      /as long as/,
    );
    await expect(learner.forwardBackward(data, { name: "value" })).rejects.toThrow(/head "value"/);
    expect(() => learner.step({ ...STEP, learningRate: -1 })).toThrow(/learning rate/);
    const far = { ...data[0]!, input: { ids: data[0]!.input.ids.map(() => 100_000), images: [] } };
    await expect(learner.forward([far])).rejects.toThrow(/vocabulary/);
    expect((await learner.forwardBackward(data, CE)).finite).toBe(true);
    await learner.close();
    await expect(
      engine.learner({ folder: model.folder, seed: 0, lora: { rank: 2, alpha: 2, targets: ["nose"] } }),
    ).rejects.toThrow(/nose/);
  });

  test("killed −9 in a step: the learner says so until a checkpoint is restored, and goes on from there", async () => {
    const learner = await engine.learner({ folder: model.folder, seed: 0 });
    const forward = async () => (await learner.forward(data)).map(({ logprobs }) => logprobs);
    await learner.forwardBackward(data, CE);
    await learner.step(STEP);
    const saved = join(model.root, "saved", "policy");
    await learner.checkpoint(saved);
    const before = await forward();
    const sampler = await learner.publish();
    const lost = [
      learner.forwardBackward(data, CE),
      learner.step(STEP),
      sampler.sample(prompt(), { ...params, maxTokens: 400 }, { sequence: "a" }),
    ];
    const failures = Promise.allSettled(lost);
    process.kill(worker.pid!, "SIGKILL");
    for (const failure of await failures) {
      expect(failure.status).toBe("rejected");
      expect(String((failure as PromiseRejectedResult).reason)).toMatch(
        /EngineLost.*\(ended by SIGKILL.*Restore a checkpoint/,
      );
    }
    await expect(learner.forward(data)).rejects.toThrow(/Restore a checkpoint/);
    await learner.restore(saved);
    expect(await forward()).toEqual(before);
    await learner.forwardBackward(data, CE);
    expect((await learner.step(STEP)).step).toBe(2);
    // The checkpoint is older than the first publication.
    expect((await learner.publish()).version).toBe(1);
    await learner.close();
  });

  test("killed −9 in a save: what was saved before is whole, and nothing half-written is in its place", async () => {
    const learner = await engine.learner({ folder: model.folder, seed: 0 });
    const root = join(model.root, "saves");
    await learner.checkpoint(join(root, "policy"));
    const files = async () => {
      const names = (await readdir(join(root, "policy"))).sort();
      return Promise.all(names.map(async (name) => [name, (await readFile(join(root, "policy", name))).length]));
    };
    const before = await files();
    const saving = learner.checkpoint(join(root, "policy")).catch(() => "lost");
    process.kill(worker.pid!, "SIGKILL");
    await saving;
    expect(await files()).toEqual(before);
    await learner.close();
  });

  test("two processes under torchrun learn what one learns, and end with us", async () => {
    const both = cpuEngine({ processes: 2, packTokens: 32 });
    const steps = [];
    for (const where of [engine, both.engine]) {
      const learner = await where.learner({ folder: model.folder, seed: 0 });
      const report = await learner.forwardBackward(data, CE);
      const moved = await learner.step({ ...STEP, epsilon: 1e-3 });
      const after = await learner.forward(data);
      const sampler = await learner.publish();
      const { ids } = await sampler.sample(prompt(), { ...params, temperature: 0 }, { sequence: "a" });
      steps.push({ report, moved, after, ids });
      await learner.close();
    }
    const [one, two] = steps;
    expect(Math.abs(two!.report.loss / one!.report.loss - 1)).toBeLessThan(1e-4);
    expect(Math.abs(two!.moved.gradNorm / one!.moved.gradNorm - 1)).toBeLessThan(1e-3);
    for (const [d, { logprobs }] of one!.after.entries())
      for (const [i, value] of logprobs!.entries())
        expect(Math.abs(two!.after[d]!.logprobs![i]! - value)).toBeLessThan(1e-3);
    expect(two!.ids).toEqual(one!.ids);
    const pid = both.worker.pid!;
    await both.engine.close();
    expect(() => process.kill(pid, 0)).toThrow(/ESRCH/);
  });

  test("memory that runs out on one of two processes ends both with what to change; a checkpoint goes on with the weights as they were", async () => {
    const root = join(model.root, "short");
    await mkdir(root);
    // Python runs this first: the second rank's third pass finds no memory, once.
    await writeFile(
      join(root, "sitecustomize.py"),
      [
        "import os",
        `mark = ${JSON.stringify(join(root, "ran-out"))}`,
        'if os.environ.get("RANK") == "1" and not os.path.exists(mark):',
        "    from saccade_torch import learner",
        "    run, calls = learner.Asked.run, []",
        "    def short(self, *given):",
        "        calls.append(1)",
        "        if len(calls) == 3:",
        '            open(mark, "w").close()',
        "            raise MemoryError",
        "        return run(self, *given)",
        "    learner.Asked.run = short",
      ].join("\n"),
    );
    vi.stubEnv("PYTHONPATH", root);
    const both = cpuEngine({ processes: 2, packTokens: 1000 });
    try {
      const learner = await both.engine.learner({ folder: model.folder, seed: 0 });
      await learner.forwardBackward(data, CE);
      await learner.step(STEP);
      const saved = join(root, "policy");
      await learner.checkpoint(saved);
      const before = (await learner.forward(data)).map(({ logprobs }) => logprobs);
      await expect(learner.forwardBackward(data, CE)).rejects.toThrow(/Memory ran out.*1000 tokens.*packTokens/);
      await expect(learner.forward(data)).rejects.toThrow(/Restore a checkpoint/);
      await learner.restore(saved);
      expect((await learner.forward(data)).map(({ logprobs }) => logprobs)).toEqual(before);
      await learner.forwardBackward(data, CE);
      expect((await learner.step(STEP)).step).toBe(2);
    } finally {
      vi.unstubAllEnvs();
      await both.engine.close();
    }
  }, 300_000);

  test("a Python that is none, or has no PyTorch, is told with what to do", async () => {
    for (const python of [join(model.root, "no-python"), process.execPath]) {
      const broken = await openEngine({ name: "torch", python });
      await expect(broken.sampler(model.folder)).rejects.toThrow(/saccade torch setup|did not start/);
      await broken.close();
    }
  });
});

describe.runIf(TORCH)("a worker elsewhere", () => {
  let model: TestModel;
  let other: ChildProcess;
  let port = 0;

  async function serve(): Promise<void> {
    const flags = ["--device", "cpu", "--threads", "1", "--with-parent", "--port", String(port)];
    other = spawn(CPU_SETTINGS.python!, ["-m", "saccade_torch", ...flags], {
      cwd: model.root,
      env: { ...process.env, PYTHONPATH: packageFolder(), SACCADE_TORCH_KEY: "far away from here" },
      stdio: ["pipe", "pipe", "ignore"],
    });
    const line = await new Promise<string>((resolve) => other.stdout?.once("data", (text) => resolve(String(text))));
    port = (JSON.parse(line) as { port: number }).port;
  }
  const stop = () =>
    new Promise((resolve) => {
      other.once("close", resolve);
      other.kill("SIGKILL");
    });

  beforeAll(async () => {
    model = await tinyModel(6);
    await serve();
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await stop();
    await model?.remove();
  });

  test("takes folders over the wire and gives them back; lost and found again, it goes on", async () => {
    await expect(openEngine(`torch@127.0.0.1:${port}`)).rejects.toThrow(/SACCADE_TORCH_KEY/);
    vi.stubEnv("SACCADE_TORCH_KEY", "wrong");
    const stranger = await openEngine(`torch@127.0.0.1:${port}`);
    await expect(stranger.sampler(model.folder)).rejects.toThrow(/key is wrong/);
    await stranger.close();
    vi.stubEnv("SACCADE_TORCH_KEY", "far away from here");
    await expect(openEngine({ name: `torch@127.0.0.1:${port}`, device: "cuda" })).rejects.toThrow(/leave device out/);

    const engine = await openEngine(`torch@127.0.0.1:${port}`);
    const local = cpuEngine().engine;
    const first = await local.sampler(model.folder);
    const { datum } = await playEpisode(first, model.config, images, 1, { turns: 3 });
    const lora = { rank: 2, alpha: 4 };
    const learner = await engine.learner({ folder: model.folder, seed: 0, lora });
    await learner.forwardBackward([datum], CE);
    await learner.step(STEP);
    const wanted = (await learner.forward([datum]))[0]!.logprobs;
    const folder = join(model.root, "far", "policy");
    await mkdir(join(model.root, "far"));
    await learner.checkpoint(folder);
    expect((await readdir(join(model.root, "far"))).sort()).toEqual(["policy", "policy.state.safetensors"]);
    expect((await readdir(folder)).sort()).toEqual(["adapter_config.json", "adapter_model.safetensors"]);
    // What came back names its base as it is called here: others load it, a copy elsewhere too.
    await cp(folder, join(model.root, "copy"), { recursive: true });
    for (const where of [local, engine]) {
      const adapted = await where.sampler(join(model.root, "copy"));
      const scored = (await adapted.score([datum]))[0]!.logprobs;
      for (const [i, value] of wanted!.entries()) expect(Math.abs(scored[i]! - value)).toBeLessThan(1e-4);
      await adapted.close();
    }

    await stop();
    const asked = learner.forward([datum]);
    await serve();
    await expect(asked).rejects.toThrow(/was lost/);
    await learner.restore(folder);
    expect((await learner.forward([datum]))[0]!.logprobs).toEqual(wanted);
    await learner.forwardBackward([datum], CE);
    expect((await learner.step(STEP)).step).toBe(2);
    await rm(folder, { recursive: true });
    await learner.close();
    await engine.close();
    await local.close();
  });
});
