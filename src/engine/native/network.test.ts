import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import type { ModelConfig } from "../../model/config.ts";
import type { F32, Kernels } from "./kernels/api.ts";
import { referenceKernels } from "./kernels/reference.ts";
import { byName, fastVariants } from "./kernels/test-variants.ts";
import { KvCache } from "./kv-cache.ts";
import { createAdapter } from "./lora.ts";
import { Network, type PackedBatch } from "./network.ts";
import type { Parameters } from "./parameters.ts";
import { tokenPositions } from "./positions.ts";
import { Arena, Tape } from "./tape.ts";
import { noise, tinyBatch, tinyConfig, tinyParameters } from "./test-tiny.ts";

/** The fastest of this machine. */
const fast = fastVariants[0]!;

/** The next id of every position, −1 at the end of a sequence. */
function nextIds(batch: PackedBatch): Int32Array {
  return Int32Array.from(batch.sequences.flatMap(({ ids }) => [...ids.subarray(1).map((id) => id % 57), -1]));
}

function weightsOf(rows: number, seed: number): F32 {
  return noise(new NumpyRandom(seed), rows, 0.5);
}

/** Loss and gradient of a random-weighted sum of log-probabilities and entropies. */
function train(network: Network, batch: PackedBatch, weights: F32, arena = new Arena(1 << 20)) {
  const gradient = network.trained.like();
  network.setGradient(gradient);
  const tape = new Tape(network.kernels, arena, "training");
  const hidden = network.forward(tape, batch);
  const targets = nextIds(batch);
  const scores = network.logprobs(tape, hidden, targets, new Float32Array(hidden.rows).fill(0.8));
  let loss = 0;
  for (const [i, weight] of weights.entries()) loss += weight * (scores.logprobs[i]! + 0.1 * scores.entropy[i]!);
  scores.logprobGradients.set(weights);
  scores.entropyGradients.set(weights.map((weight) => 0.1 * weight));
  tape.backward();
  tape.release();
  return { loss, gradient, logprobs: scores.logprobs };
}

/** Largest difference of two gradients in norm, relative, over parameters. */
function distance(parameters: Parameters, a: F32, b: F32): number {
  let worst = 0;
  for (const { name } of parameters.layout) {
    const [x, y] = [parameters.view(name, a), parameters.view(name, b)];
    let difference = 0;
    let norm = 0;
    for (const [i, value] of x.entries()) {
      difference += (value - y[i]!) ** 2;
      norm += value ** 2;
    }
    worst = Math.max(worst, Math.sqrt(difference) / (1e-3 + Math.sqrt(norm)));
  }
  return worst;
}

const lmNetwork = (config: ModelConfig, kernels: Kernels, parameters = tinyParameters(config, 1)) =>
  new Network(config, kernels, parameters, { head: "lm" });

const imageCounts = [[0], [0, 0, 0], [1], [2, 0, 3], [6, 1, 0, 2]];

describe.each(imageCounts.map((counts, seed) => ({ counts, seed })))("images $counts", ({ counts, seed }) => {
  test("packed equals one sequence at a time in loss and gradients", () => {
    const config = tinyConfig(seed);
    const network = lmNetwork(config, fast);
    const batch = tinyBatch(config, seed, counts);
    const rows = batch.sequences.reduce((sum, { ids }) => sum + ids.length, 0);
    const weights = weightsOf(rows, seed);
    const packed = train(network, batch, weights);
    let loss = 0;
    const sum = network.trained.like();
    let start = 0;
    const logprobs: number[] = [];
    for (const sequence of batch.sequences) {
      const end = start + sequence.ids.length;
      const alone = train(network, { ...batch, sequences: [sequence] }, weights.subarray(start, end));
      loss += alone.loss;
      for (const [i, value] of alone.gradient.entries()) sum[i]! += value;
      logprobs.push(...alone.logprobs);
      start = end;
    }
    expect([...packed.logprobs]).toEqual(logprobs);
    expect(Math.abs(packed.loss - loss)).toBeLessThan(1e-5);
    expect(distance(network.trained, packed.gradient, sum)).toBeLessThan(1e-5);
  });

  test.each(byName)("$which kernels agree with the reference in loss and gradients", ({ kernels: other }) => {
    const config = tinyConfig(seed + 10);
    const batch = tinyBatch(config, seed, counts);
    const rows = batch.sequences.reduce((sum, { ids }) => sum + ids.length, 0);
    const results = [other, referenceKernels].map((kernels) =>
      train(lmNetwork(config, kernels), batch, weightsOf(rows, seed)),
    );
    const [compiled, reference] = [results[0]!, results[1]!];
    expect(Math.abs(compiled.loss - reference.loss)).toBeLessThan(1e-4);
    expect(distance(tinyParameters(config, 1), reference.gradient, compiled.gradient)).toBeLessThan(1e-4);
  });
});

/** Plays the batch through caches in random pieces and returns log-probabilities as the packed forward orders them. */
function decode(network: Network, batch: PackedBatch, temperature: F32, random: NumpyRandom): F32 {
  const { config, kernels } = network;
  const arena = new Arena(1 << 20);
  const tape = () => new Tape(kernels, arena, "inference");
  const merge = config.vision.mergeSize;
  // Encoded one by one here, all together in the packed forward.
  const features = batch.images.map((image) => network.encode(tape(), [image])[0]!);
  const caches = [
    new KvCache(config, kernels, batch.sequences.length, 128),
    new KvCache(config, kernels, batch.sequences.length, 93),
  ];
  const targets = nextIds(batch);
  const logprobs = new Float32Array(targets.length);
  let row = 0;
  const states = batch.sequences.map((sequence, slot) => {
    const positions = new Int32Array(sequence.ids.length * 3);
    const spans = sequence.spans.map(({ start, image }) => ({ start, ...batch.images[image]! }));
    tokenPositions(positions, sequence.ids.length, spans, merge, 0);
    const first = row;
    row += sequence.ids.length;
    return { ...sequence, positions, slot, first, done: 0, cache: random.choice(caches) };
  });
  for (;;) {
    const open = states.filter(({ done, ids }) => done < ids.length);
    if (open.length === 0) return logprobs;
    const chosen = open.filter(() => random.random() < 0.7);
    const rows: number[] = [];
    const runs = chosen.map((state) => {
      const left = state.ids.length - state.done;
      const count = random.random() < 0.5 ? 1 : random.integers(1, left + 1);
      const from = state.done;
      for (let i = 0; i < count; i++) rows.push(state.first + from + i);
      const pieces = state.spans.flatMap(({ start, image }) => {
        const { gridH, gridW } = batch.images[image]!;
        const low = Math.max(start, from);
        const high = Math.min(start + (gridH * gridW) / merge ** 2, from + count);
        return low < high
          ? [{ row: low - from, count: high - low, from: low - start, features: features[image]! }]
          : [];
      });
      state.done += count;
      return {
        cache: state.cache,
        slot: state.slot,
        position: from,
        ids: state.ids.subarray(from, from + count),
        positions: state.positions.subarray(from * 3, (from + count) * 3),
        features: pieces,
      };
    });
    if (runs.length === 0) continue;
    const pass = tape();
    const hidden = network.forwardCached(pass, runs);
    const asked = Int32Array.from(rows, (at) => targets[at]!);
    const got = network.logprobs(
      pass,
      hidden,
      asked,
      Float32Array.from(rows, (at) => temperature[at]!),
    );
    for (const [i, at] of rows.entries()) logprobs[at] = got.logprobs[i]!;
    pass.release();
  }
}

describe.each(byName)("$which kernels", ({ which, kernels }) => {
  const rounds = which === "reference" ? 8 : 60;
  test("cached decoding in random pieces gives the bits of the training forward, adapters and weight updates included", () => {
    const random = new NumpyRandom(42);
    for (let round = 0; round < rounds; round++) {
      const config = tinyConfig(100 + round);
      const parameters = tinyParameters(config, round);
      const adapter =
        round % 3 === 0 ? createAdapter(config, { rank: 3, alpha: 5 }, { head: "lm", seed: round }) : undefined;
      for (const { name } of adapter?.parameters.layout ?? []) {
        const values = adapter!.parameters.view(name);
        values.set(noise(random, values.length, 0.2));
      }
      const network = new Network(config, kernels, parameters, {
        head: "lm",
        ...(adapter && { lora: adapter }),
      });
      const batch = tinyBatch(config, round, random.integers(0, 4, random.integers(1, 6)));
      const rows = nextIds(batch).length;
      for (const update of [false, true]) {
        if (update) {
          const values = network.trained.flat;
          for (const [i, step] of noise(random, values.length, 0.01).entries()) values[i]! += step;
          network.invalidate();
        }
        const temperature = Float32Array.from({ length: rows }, () => random.uniform(0.3, 1.7));
        network.setGradient(network.trained.like());
        const tape = new Tape(network.kernels, new Arena(1 << 20), round % 2 === 0 ? "training" : "inference");
        const packed = network.logprobs(tape, network.forward(tape, batch), nextIds(batch), temperature).logprobs;
        const cached = decode(network, batch, temperature, random);
        expect(new Uint32Array(cached.buffer)).toEqual(new Uint32Array(packed.buffer));
      }
    }
  });
});

test("asking for some rows gives their bits and the gradient of asking for all", () => {
  const random = new NumpyRandom(8);
  for (let round = 0; round < 6; round++) {
    const config = tinyConfig(round);
    const network = lmNetwork(config, fast);
    const batch = tinyBatch(config, round, random.integers(0, 4, 3));
    const targets = nextIds(batch);
    const asked = Int32Array.from([...targets.keys()].filter((row) => row % 5 === 1 || row % 7 === 3));
    const learn = (wanted: Int32Array | null) => {
      const gradient = network.trained.like();
      network.setGradient(gradient);
      const tape = new Tape(network.kernels, new Arena(1 << 20), "training");
      const hidden = network.forward(tape, batch, wanted);
      const at = (row: number) => (wanted === null ? row : asked.indexOf(row));
      const here = wanted === null ? targets : Int32Array.from(asked, (row) => targets[row]!);
      const scores = network.logprobs(tape, hidden, here, new Float32Array(hidden.rows).fill(1));
      for (const row of asked) scores.logprobGradients[at(row)] = Math.sin(row);
      const logprobs = Array.from(asked, (row) => scores.logprobs[at(row)]!);
      tape.backward();
      tape.release();
      return { logprobs, gradient };
    };
    const [all, some] = [learn(null), learn(asked)];
    expect(some.logprobs).toEqual(all.logprobs);
    expect(distance(network.trained, some.gradient, all.gradient)).toBeLessThan(1e-6);
  }
});

test("a copied cache slot continues like its original", () => {
  const config = tinyConfig(3);
  const network = lmNetwork(config, fast);
  const cache = new KvCache(config, network.kernels, 1, 40);
  const sibling = new KvCache(config, network.kernels, 2, 70);
  const run = (of: KvCache, slot: number, ids: number[], position: number) => {
    const positions = new Int32Array(ids.length * 3);
    tokenPositions(positions, ids.length, [], 2, position);
    const tape = new Tape(network.kernels, new Arena(1 << 18), "inference");
    return [
      ...network.forwardCached(tape, [
        { cache: of, slot, position, ids: Int32Array.from(ids), positions, features: [] },
      ]).data,
    ];
  };
  run(cache, 0, [5, 6, 7, 8, 9], 0);
  cache.copy(0, sibling, 1, 5);
  expect(run(sibling, 1, [10, 11], 5)).toEqual(run(cache, 0, [10, 11], 5));
});

describe("what is trained", () => {
  const setup = (seed: number, freeze: "vision" | "language") => {
    const config = tinyConfig(seed);
    const network = lmNetwork(config, fast, tinyParameters(config, 1, { freeze }));
    const full = lmNetwork(config, fast);
    const batch = tinyBatch(config, seed, [2, 1]);
    const weights = weightsOf(nextIds(batch).length, 1);
    return { part: train(network, batch, weights), full: train(full, batch, weights), parameters: network.trained };
  };

  test.each(["vision", "language"] as const)(
    "freezing %s leaves its gradient zero and the rest as it was",
    (freeze) => {
      const { part, full, parameters } = setup(7, freeze);
      expect(part.loss).toBe(full.loss);
      for (const { name, group, trainable } of parameters.layout) {
        const sees = group === "vision" || group === "merger";
        expect(trainable).toBe(freeze === "vision" ? !sees : sees);
        const gradient = [...parameters.view(name, part.gradient)];
        if (trainable) expect(gradient).toEqual([...parameters.view(name, full.gradient)]);
        else expect(gradient.every((value) => value === 0)).toBe(true);
      }
    },
  );

  test("a frozen vision tower costs no memory for its backward pass", () => {
    const config = tinyConfig(7);
    const batch = tinyBatch(config, 1, [3]);
    const peak = (freeze?: "vision") => {
      const network = lmNetwork(config, fast, tinyParameters(config, 1, freeze ? { freeze } : {}));
      const arena = new Arena(1 << 20);
      train(network, batch, weightsOf(nextIds(batch).length, 1), arena);
      return arena.bytes.peak;
    };
    expect(peak("vision")).toBeLessThan(peak());
  });

  test("steps reuse the arena: the second needs no new memory", () => {
    const config = tinyConfig(5);
    const network = lmNetwork(config, fast);
    const batch = tinyBatch(config, 5, [2, 3]);
    const arena = new Arena(1 << 16);
    const weights = weightsOf(nextIds(batch).length, 1);
    const first = train(network, batch, weights, arena);
    const { held } = arena.bytes;
    const second = train(network, batch, weights, arena);
    expect(arena.bytes.held).toBe(held);
    expect([...second.gradient]).toEqual([...first.gradient]);
  });

  test("a value head trains its own backbone: its gradient is the slope along it", () => {
    const config = tinyConfig(4);
    const parameters = tinyParameters(config, 2, { head: "value" });
    expect(parameters.find("lm_head.weight")).toBeUndefined();
    const network = new Network(config, fast, parameters, { head: "value" });
    const batch = tinyBatch(config, 4, [1, 0, 2]);
    const rows = nextIds(batch).length;
    const weights = weightsOf(rows, 3);
    const pass = (mode: "training" | "inference") => {
      const tape = new Tape(network.kernels, new Arena(1 << 20), mode);
      const { values, gradients } = network.values(tape, network.forward(tape, batch));
      gradients.set(weights);
      tape.backward();
      return values.reduce((sum, value, i) => sum + value * weights[i]!, 0);
    };
    const gradient = parameters.like();
    network.setGradient(gradient);
    pass("training");
    const norm = Math.sqrt(gradient.reduce((sum, value) => sum + value ** 2, 0));
    const direction = gradient.map((value) => value / norm);
    const start = parameters.flat.slice();
    const at = (step: number) => {
      parameters.flat.set(start.map((value, i) => value + step * direction[i]!));
      network.invalidate();
      return pass("inference");
    };
    const slope = (at(0.005) - at(-0.005)) / 0.01;
    expect(Math.abs(slope / norm - 1)).toBeLessThan(5e-3);
    expect(() =>
      network.logits(
        new Tape(network.kernels, new Arena(1 << 16), "inference"),
        { rows: 0 } as never,
        new Int32Array(0),
      ),
    ).toThrow(/value/);
  });
});

describe("bad input", () => {
  const config = tinyConfig(1);
  const network = lmNetwork(config, referenceKernels);
  const tape = () => new Tape(referenceKernels, new Arena(1 << 16), "inference");
  const forward = (ids: number[], spans: { start: number; image: number }[] = []) =>
    network.forward(tape(), { sequences: [{ ids: Int32Array.from(ids), spans }], images: [] });

  test("ids outside the vocabulary, contexts that are too long and images that do not fit are refused with what to do", () => {
    expect(() => forward([1, 61])).toThrow(/outside the vocabulary of 61.*tokenizer/);
    expect(() => forward(new Array<number>(513).fill(1))).toThrow(/longer than the model's context of 512/);
    expect(() => forward([1, 2], [{ start: 0, image: 0 }])).toThrow(/image 0/);
    expect(() => network.encode(tape(), [{ gridH: 3, gridW: 2, patches: new Float32Array(6 * 96) }])).toThrow(
      /blocks of 2/,
    );
  });
});
