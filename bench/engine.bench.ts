/**
 * The native engine beside PyTorch on this machine's CPU: the same weights (a folder that both load), the same ids and patches, the same
 * number of threads. `npm run bench -- engine [section …]`; sections: matmul, train, text, decode, packing, turns, memory. BENCH_ROUNDS
 * is how often each side runs (5), BENCH_THREADS the numbers of threads of train, text and decode ("1,2"). Without Python and torch only our own figures are printed.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import {
  Conversation,
  forPeer,
  maskedIds,
  observation,
  padded,
  randomInput,
  realEpisodes,
  toData,
} from "./engine-data.ts";
import { inTurns, milliseconds, missingPeers, ms, Peer, ratio, table } from "./peer.ts";
import {
  createFolder,
  type Datum,
  kernelInfo,
  type Learner,
  type Loss,
  loadFolder,
  loadKernels,
  type ModelConfig,
  NativeEngine,
  parameterCount,
  type Sampler,
} from "./saccade.ts";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
/** Of each side, in the sections train, text and decode. */
const THREADS = (process.env.BENCH_THREADS ?? "1,2").split(",").map(Number);
const ADAMW = { name: "adamw", learningRate: 1e-4 } as const;
const CROSS_ENTROPY: Loss = { name: "cross-entropy" };
const scratch = mkdtempSync(join(tmpdir(), "saccade-bench-"));
const missing = missingPeers();
const peers = missing === undefined;

/** The last row as soon as it is known: tables come when a section is done. */
const tell = (section: string, rows: readonly (readonly (string | number)[])[]) =>
  console.error(`${section}: ${rows.at(-1)?.join(" | ")}`);

async function step(learner: Learner, data: readonly Datum[], loss = CROSS_ENTROPY): Promise<number> {
  const report = await learner.forwardBackward(data, loss);
  await learner.step(ADAMW);
  return report.loss;
}

async function matmul(): Promise<void> {
  const kernels = await loadKernels();
  const plain = peers ? new Peer("plain.py") : undefined;
  await plain?.ask("threads", { count: 1 });
  const random = (n: number) => Float32Array.from({ length: n }, (_, i) => Math.sin(i * 12.9898));
  let peak = kernels.peak(100);
  const rows: (string | number)[][] = [];
  for (const [m, n, k, what] of [
    [256, 256, 1024, "the shape of the target"],
    [1024, 1024, 1024, "large"],
    [2048, 512, 192, "micro, gate or up"],
    [2048, 192, 512, "micro, down"],
    [2048, 192, 192, "micro, queries"],
    [32, 512, 192, "micro, decoding 32"],
  ] as const) {
    const [a, b, c] = [random(m * k), random(k * n), random(m * n)];
    const weights = new Float32Array(kernels.packedSize(n, k));
    kernels.pack(weights, b, n, n, k, 0);
    const rate = (work: () => void) => {
      let least = Number.POSITIVE_INFINITY;
      const end = performance.now() + 60;
      while (performance.now() < end) {
        const start = performance.now();
        work();
        least = Math.min(least, performance.now() - start);
      }
      return (2 * m * n * k) / (least * 1e6);
    };
    let [loose, packed, torch] = [0, 0, 0];
    for (let round = 0; round < ROUNDS; round++) {
      peak = Math.max(peak, kernels.peak(20));
      loose = Math.max(
        loose,
        rate(() => kernels.matmul(c, n, a, k, b, n, m, n, k, 0, 0, 0)),
      );
      packed = Math.max(
        packed,
        rate(() => kernels.matmulPacked(c, n, a, k, weights, null, m, n, k, 0)),
      );
      torch = Math.max(torch, (await plain?.ask("matmul", { m, n, k }))?.gflops ?? 0);
    }
    const share = (x: number) => `${x.toFixed(1)} (${(x / peak).toFixed(2)})`;
    rows.push([`${m}·${n}·${k}`, what, share(loose), share(packed), torch > 0 ? share(torch) : "–"]);
  }
  plain?.close();
  console.log(`### Matmul, one thread: GFLOP/s (share of the FMA peak, ${peak.toFixed(1)})\n`);
  table(["m·n·k", "", "ours", "ours, weights packed", "PyTorch"], rows);
}

/** forward + backward + AdamW of `micro`: 16 sequences × 200 ids with 4 distinct images each, every text id learned. */
async function train(folderPath: string): Promise<void> {
  const folder = await loadFolder(folderPath);
  const inputs = Array.from({ length: 16 }, (_, i) => randomInput(folder, i, 200, 4));
  const data = toData(folder, inputs);
  const rows: (string | number)[][] = [];
  for (const threads of THREADS) {
    const engine = new NativeEngine({ threads });
    const learner = await engine.learner({ folder: folderPath, seed: 0 });
    const peer = peers ? new Peer("qwen3vl.py") : undefined;
    await peer?.ask("threads", { count: threads });
    await peer?.ask("load", { folder: folderPath });
    const targets = data.map((datum) => [...datum.targets]);
    await peer?.ask("batch", { ...forPeer(folder, inputs, join(scratch, "train.f32")), targets });
    const theirs = await peer?.ask("check", { masked: maskedIds(folder) });
    const first = (await learner.forwardBackward(data, CROSS_ENTROPY)).loss;
    learner.discard();
    const [own = 0, other] = await inTurns(ROUNDS, [
      () => milliseconds(() => step(learner, data)),
      ...(peer ? [async () => (await peer.ask("train")).ms!] : []),
    ]);
    const apart = theirs === undefined ? "–" : Math.abs(first - theirs.loss!).toExponential(1);
    rows.push([threads, ms(own), other === undefined ? "–" : ms(other), ratio(other, own), apart]);
    tell("train", rows);
    peer?.close();
    await engine.close();
  }
  console.log("### Train step of `micro`: 16 sequences × 200 ids, 4 images of 128×128 each\n");
  table(["threads", "ours ms", "transformers (SDPA) ms", "faster", "Δ loss"], rows);
}

/** The step of spec/engine.md: 2 layers, width 128, 4 heads over 2, feed-forward 384, 32 × 256 ids. */
async function text(): Promise<void> {
  const path = join(scratch, "text");
  await createFolder(path, {
    preset: "nano",
    vocab_size: 512,
    text: {
      num_hidden_layers: 2,
      hidden_size: 128,
      num_attention_heads: 4,
      num_key_value_heads: 2,
      head_dim: 32,
      intermediate_size: 384,
      mrope_section: [6, 5, 5],
    },
  });
  const folder = await loadFolder(path);
  const inputs = Array.from({ length: 32 }, (_, i) => randomInput(folder, i, 256, 0));
  const data = toData(folder, inputs);
  const rows: (string | number)[][] = [];
  let size = 0;
  for (const threads of THREADS) {
    const engine = new NativeEngine({ threads });
    const learner = await engine.learner({ folder: path, seed: 0, freeze: "vision" });
    const first = (await learner.forwardBackward(data, CROSS_ENTROPY)).loss;
    learner.discard();
    const asked = { ids: inputs.map(({ ids }) => [...ids]), targets: data.map(({ targets }) => [...targets]) };
    const both: Peer[] = [];
    let apart = "–";
    for (const norms of peers ? [true, false] : []) {
      const peer = new Peer("plain.py");
      both.push(peer);
      await peer.ask("threads", { count: threads });
      const { parameters } = await peer.ask("load", { folder: path, norms });
      await peer.ask("batch", asked);
      const { loss } = await peer.ask("check", { masked: maskedIds(folder) });
      if (norms) [size, apart] = [parameters!, Math.abs(first - loss!).toExponential(1)];
    }
    const [own = 0, same, lighter] = await inTurns(ROUNDS, [
      () => milliseconds(() => step(learner, data)),
      ...both.map((peer) => async () => (await peer.ask("train")).ms!),
    ]);
    const show = (x?: number) => (x === undefined ? "–" : ms(x));
    rows.push([threads, ms(own), show(same), ratio(same, own), show(lighter), ratio(lighter, own), apart]);
    tell("text", rows);
    for (const peer of both) peer.close();
    await engine.close();
  }
  console.log(`### Text-only step: 32 × 256 ids, ${size || "459k"} parameters\n`);
  table(["threads", "ours ms", "PyTorch ms", "faster", "PyTorch without q/k norms ms", "faster", "Δ loss"], rows);
}

/** Greedy, 96 ids of prompt with an image each, 64 new ids, prompt and image computed anew each time. */
async function decode(folderPath: string): Promise<void> {
  const tokens = 64;
  const folder = await loadFolder(folderPath);
  const masked = maskedIds(folder);
  const rows: (string | number)[][] = [];
  for (const threads of THREADS) {
    const engine = new NativeEngine({ threads });
    const learner = await engine.learner({ folder: folderPath, seed: 0 });
    const sampler = await learner.publish();
    const peer = peers ? new Peer("qwen3vl.py") : undefined;
    await peer?.ask("threads", { count: threads });
    await peer?.ask("load", { folder: folderPath });
    for (const batch of [1, 8, 32]) {
      const prompts = (round: number) =>
        Array.from({ length: batch }, (_, i) => randomInput(folder, 1000 * (round + 2) + 100 * threads + i, 96, 1));
      let ours: number[][] = [];
      let [equal, total] = [0, 0];
      const contenders = [
        async (round: number) => {
          // The peer gets its patches ready made, so ours are made beforehand too.
          await learner.forward(toData(folder, prompts(round)));
          const inputs = prompts(round);
          return milliseconds(async () => {
            ours = await sampleAll(sampler, inputs, tokens, `${batch}/${round}`);
          });
        },
        ...(peer
          ? [
              async (round: number) => {
                const asked = forPeer(folder, prompts(round), join(scratch, "decode.f32"));
                const found = await peer.ask<{ ms: number; ids: number[][] }>("generate", { ...asked, tokens, masked });
                for (const [i, ids] of found.ids.entries()) {
                  total += ids.length;
                  equal += ids.filter((id, at) => ours[i]?.[at] === id).length;
                }
                return found.ms;
              },
            ]
          : []),
      ];
      const [own = 0, other] = await inTurns(ROUNDS, contenders);
      const rate = (time: number) => Math.round((batch * tokens * 1000) / time);
      const theirs = other === undefined ? ["–", "–"] : [ms(other), rate(other)];
      const same = total === 0 ? "–" : `${((100 * equal) / total).toFixed(1)} %`;
      rows.push([threads, batch, ms(own), rate(own), ...theirs, ratio(other, own), same]);
      tell("decode", rows);
    }
    peer?.close();
    await engine.close();
  }
  console.log(
    `### Decoding with cache, \`micro\`: prompts of 96 ids with an image, ${tokens} new ids, prefill included\n`,
  );
  table(["threads", "batch", "ours ms", "ids/s", "generate ms", "ids/s", "faster", "equal ids"], rows);
}

async function sampleAll(sampler: Sampler, inputs: readonly Datum["input"][], tokens: number, name: string) {
  const samples = await Promise.all(
    inputs.map((input, i) =>
      sampler.sample(input, { maxTokens: tokens, temperature: 0, seed: i }, { sequence: `${name}/${i}` }),
    ),
  );
  for (const i of inputs.keys()) sampler.release(`${name}/${i}`);
  return samples.map(({ ids }) => [...ids]);
}

/** Episodes of real worlds, end to end as the engine lays them, beside the same engine on sequences padded to the longest. */
async function packing(folderPath: string): Promise<void> {
  const folder = await loadFolder(folderPath);
  const data = await realEpisodes(folder, 24);
  const filled = padded(data, folder.config.ids.pad ?? 0);
  const engine = new NativeEngine({ threads: 2 });
  const learner = await engine.learner({ folder: folderPath, seed: 0 });
  const [packed = 0, full = 0] = await inTurns(Math.min(ROUNDS, 3), [
    () => milliseconds(() => step(learner, data)),
    () => milliseconds(() => step(learner, filled)),
  ]);
  await engine.close();
  const lengths = data.map(({ targets }) => targets.length).sort((a, b) => a - b);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const images = data.map(({ input }) => input.images.length).sort((a, b) => a - b);
  console.log("### Packing: 24 episodes of 5 worlds (oracle and random, up to 12 turns), 2 threads\n");
  table(
    ["lengths (least, median, most)", "images", "ids", "ids padded", "packed ms", "padded ms", "gain"],
    [
      [
        `${lengths[0]}, ${lengths[12]}, ${lengths.at(-1)}`,
        `${images[0]}–${images.at(-1)}`,
        sum(lengths),
        lengths.at(-1)! * lengths.length,
        ms(packed),
        ms(full),
        ratio(full, packed),
      ],
    ],
  );
}

/** 8 episodes at once, in pairs that see the same frames: sampled turn by turn over the cache, then learned in one step. */
async function turns(folderPath: string): Promise<void> {
  const folder = await loadFolder(folderPath);
  const [episodes, siblings] = [8, 2];
  const engine = new NativeEngine({ threads: 2 });
  const learner = await engine.learner({ folder: folderPath, seed: 0 });
  const rows: (string | number)[][] = [];
  for (const count of [1, 3, 6, 12, 24]) {
    let [sampling, learning, images, drift, length] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 0, 0, 0];
    for (let round = 0; round < Math.min(ROUNDS, 3); round++) {
      const before = engine.stats();
      const sampler = await learner.publish();
      const played: Conversation[] = [];
      const spent = await milliseconds(() =>
        Promise.all(
          Array.from({ length: episodes }, async (_, i) => {
            const episode = new Conversation();
            played.push(episode);
            const world = 1000 * round + Math.floor(i / siblings);
            for (let turn = 1; turn <= count; turn++) {
              const seen = observation(world, turn);
              episode.append(turn === 1 ? folder.renderer.prompt(seen) : folder.renderer.delta(seen, { ended: false }));
              const params = { maxTokens: 16, temperature: 1, seed: 100 * i + turn };
              const { ids, logprobs } = await sampler.sample(episode.input, params, { sequence: `${i}` });
              episode.reply(ids, logprobs);
            }
            sampler.release(`${i}`);
          }),
        ),
      );
      sampling = Math.min(sampling, spent);
      const after = engine.stats();
      images = (after.encoded - before.encoded) / (after.distinctFrames - before.distinctFrames);
      await sampler.close();
      const data = played.map((episode) => episode.datum(1 / episodes));
      length = data[0]!.targets.length;
      const start = performance.now();
      const report = await learner.forwardBackward(data, { name: "ppo", clipLow: 0.8, clipHigh: 1.28 });
      for (const [i, { targets, oldLogprobs }] of data.entries()) {
        for (const [at, target] of targets.entries()) {
          if (target >= 0) drift = Math.max(drift, Math.abs(report.outputs[i]![at]! - oldLogprobs![at]!));
        }
      }
      await learner.step(ADAMW);
      learning = Math.min(learning, performance.now() - start);
    }
    const [a, b] = [sampling / episodes, learning / episodes];
    const attention = `${Math.round(100 * attentionShare(folder.config, length))} %`;
    rows.push([count, length, ms(a), ms(b), ms(a + b), ms((a + b) / count), attention, images.toFixed(2), drift]);
  }
  await engine.close();
  console.log(
    "### Cost of an episode by its turns: `micro`, a new 128×128 image and 16 sampled ids a turn, 8 at once, 2 threads\n",
  );
  table(
    [
      "turns",
      "ids",
      "sampling ms",
      "training ms",
      "both",
      "ms per turn",
      "attention's share",
      "encodings per distinct frame",
      "drift",
    ],
    rows,
  );
}

/** Multiply-adds of attention among those of the language layers: what grows with the square of the length. */
function attentionShare({ text: t }: ModelConfig, length: number): number {
  const projections = t.hiddenSize * (2 * t.heads + 2 * t.kvHeads) * t.headDim + 3 * t.hiddenSize * t.intermediateSize;
  const attention = t.heads * t.headDim * length;
  return attention / (attention + projections);
}

/** Each side in a fresh process: loads `micro`, learns the batch of `train` five times, decodes 32 sequences. */
async function memory(folderPath: string): Promise<void> {
  const jiti = join(dirname(createRequire(import.meta.url).resolve("jiti/package.json")), "lib/jiti-cli.mjs");
  const script = join(import.meta.dirname, "engine-memory.ts");
  const child = spawnSync(process.execPath, [jiti, script, folderPath], { encoding: "utf8" });
  if (child.status !== 0) throw new Error(child.stderr);
  type Found = { now: number; peak: number };
  const [start, end] = child.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Found);
  const rows = [["ours", start!, end!] as const] as (readonly [string, Found, Found])[];
  if (peers) {
    const folder = await loadFolder(folderPath);
    const peer = new Peer("qwen3vl.py");
    await peer.ask("threads", { count: 2 });
    await peer.ask("load", { folder: folderPath });
    const loaded = await peer.ask<Found>("memory");
    const inputs = Array.from({ length: 16 }, (_, i) => randomInput(folder, i, 200, 4));
    const targets = toData(folder, inputs).map((datum) => [...datum.targets]);
    await peer.ask("batch", { ...forPeer(folder, inputs, join(scratch, "memory.f32")), targets });
    for (let i = 0; i < 5; i++) await peer.ask("train");
    const prompts = Array.from({ length: 32 }, (_, i) => randomInput(folder, 1000 + i, 96, 1));
    const asked = forPeer(folder, prompts, join(scratch, "memory.f32"));
    await peer.ask("generate", { ...asked, tokens: 64, masked: maskedIds(folder) });
    rows.push(["transformers", loaded, await peer.ask<Found>("memory")]);
    peer.close();
  }
  console.log("### Peak memory (resident MB), 2 threads: five train steps of `micro` and decoding 32 sequences\n");
  table(
    ["", "model loaded", "peak", "peak − loaded"],
    rows.map(([name, loaded, last]) => [name, ms(loaded.now), ms(last.peak), ms(last.peak - loaded.now)]),
  );
}

const sections = { matmul, train, text, decode, packing, turns, memory };
const asked = process.argv.slice(3);
const unknown = asked.filter((name) => !Object.hasOwn(sections, name));
if (unknown.length > 0)
  throw new Error(`no section ${unknown.join(", ")}; there are ${Object.keys(sections).join(", ")}`);
try {
  const { name, isa } = await kernelInfo();
  console.log(
    `${cpus()[0]?.model.trim()}, ${cpus().length} cores; Node ${process.versions.node}; kernels: ${name}, ${isa}.`,
  );
  if (missing !== undefined) console.log(`No peer (${missing}): only our own figures. Install torch and transformers.`);
  const [load = 0] = loadavg();
  if (load > 0.5) console.log(`The machine is busy (load ${load.toFixed(1)}): figures with 2 threads mean little.`);
  const micro = join(scratch, "micro");
  const parameters = parameterCount(await createFolder(micro, { preset: "micro" }));
  console.log(
    `\`micro\` has ${(parameters / 1e6).toFixed(2)} million parameters. Best of ${ROUNDS} rounds in turns.\n`,
  );
  for (const [name, run] of Object.entries(sections)) {
    if (asked.length === 0 || asked.includes(name)) await run(micro);
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
