import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { readSafetensors, writeSafetensors } from "../../model/safetensors.ts";
import type { OptimizerParams } from "../engine.ts";
import { referenceKernels } from "./kernels/reference.ts";
import { everyVariant } from "./kernels/test-variants.ts";
import { clipScale, Optimizer, orthogonalize } from "./optimizer.ts";
import { layOut, Parameters } from "./parameters.ts";
import { noise } from "./test-tiny.ts";

const layout = layOut([
  { name: "wide", shape: [6, 10], group: "language", matrix: true, trainable: true },
  { name: "tall", shape: [12, 5], group: "vision", matrix: true, trainable: true },
  { name: "norm", shape: [7], group: "language", matrix: false, trainable: true },
  { name: "embedding", shape: [9, 4], group: "embedding", matrix: false, trainable: true },
  { name: "frozen", shape: [4, 4], group: "language", matrix: true, trainable: false },
]);

function setup(kernels = referenceKernels) {
  const parameters = new Parameters(layout);
  const random = new NumpyRandom(1);
  for (const { name, size } of layout) parameters.view(name).set(noise(random, size, 1));
  const gradient = () => {
    const flat = parameters.like();
    for (const { name, size } of layout) parameters.view(name, flat).set(noise(random, size, 1));
    return flat;
  };
  return { parameters, gradient, optimizer: new Optimizer(kernels, parameters) };
}

/** Newton–Schulz in double, straight from the definition. */
function orthogonalizeSlowly(x: number[][]): number[][] {
  const times = (a: number[][], b: number[][]) =>
    a.map((row) => b[0]!.map((_, j) => row.reduce((sum, v, k) => sum + v * b[k]![j]!, 0)));
  const transpose = (a: number[][]) => a[0]!.map((_, j) => a.map((row) => row[j]!));
  const norm = Math.sqrt(x.flat().reduce((sum, v) => sum + v * v, 0));
  let y = x.map((row) => row.map((v) => v / norm));
  for (let i = 0; i < 5; i++) {
    const gram = times(y, transpose(y));
    const square = times(gram, gram);
    const poly = gram.map((row, r) => row.map((v, c) => -4.775 * v + 2.0315 * square[r]![c]! + (r === c ? 3.4445 : 0)));
    y = times(poly, y);
  }
  return y;
}
const toRows = (x: Float32Array, cols: number) =>
  Array.from({ length: x.length / cols }, (_, i) => [...x.subarray(i * cols, (i + 1) * cols)]);

describe("AdamW", () => {
  test("follows its formula, decays matrices only and leaves what is frozen", () => {
    const { parameters, gradient, optimizer } = setup();
    const start = parameters.flat.slice();
    const options: OptimizerParams = {
      name: "adamw",
      learningRate: 0.01,
      weightDecay: 0.1,
      beta1: 0.8,
      beta2: 0.9,
      epsilon: 1e-6,
      rates: { vision: 0.02 },
    };
    const gradients = [gradient(), gradient(), gradient()];
    for (const flat of gradients) expect(optimizer.apply(flat, options).applied).toBe(true);
    for (const { name, matrix, trainable, group } of layout) {
      const rate = group === "vision" ? 0.02 : 0.01;
      for (const [i, value] of parameters.view(name).entries()) {
        let [p, m, v] = [parameters.view(name, start)[i]!, 0, 0];
        for (const [step, flat] of gradients.entries()) {
          const g = parameters.view(name, flat)[i]!;
          m = 0.8 * m + 0.2 * g;
          v = 0.9 * v + 0.1 * g * g;
          if (matrix) p -= rate * 0.1 * p;
          p -= (rate * (m / (1 - 0.8 ** (step + 1)))) / (Math.sqrt(v / (1 - 0.9 ** (step + 1))) + 1e-6);
        }
        expect(value).toBeCloseTo(trainable ? p : parameters.view(name, start)[i]!, 5);
      }
    }
  });

  test("clips by the global norm of what is trained", () => {
    const { parameters, gradient, optimizer } = setup();
    const flat = gradient();
    let squares = 0;
    for (const { name, trainable } of layout)
      if (trainable) for (const value of parameters.view(name, flat)) squares += value ** 2;
    const { gradNorm } = optimizer.apply(flat, { name: "adamw", learningRate: 0.1, maxGradNorm: 0.5 });
    expect(gradNorm).toBeCloseTo(Math.sqrt(squares), 6);
    // The first moment saw the clipped gradient.
    expect(optimizer.first[0]).toBeCloseTo((0.1 * flat[0]! * 0.5) / gradNorm, 6);
    expect([clipScale(4, 2), clipScale(1, 2), clipScale(9)]).toEqual([0.5, 1, 1]);
  });
});

describe("Muon", () => {
  test.each([
    [6, 10],
    [12, 5],
    [7, 7],
    [1, 4],
  ] as const)("orthogonalises a %i×%i matrix as the definition does", (rows, cols) => {
    const x = noise(new NumpyRandom(rows), rows * cols, 1);
    const expected = orthogonalizeSlowly(toRows(x, cols)).flat();
    for (const kernels of everyVariant) {
      for (const [i, value] of orthogonalize(kernels, x.slice(), rows, cols).entries())
        expect(value).toBeCloseTo(expected[i]!, 3);
    }
  });

  test("gives matrices singular values near one", () => {
    const [rows, cols] = [8, 40];
    const y = toRows(orthogonalize(referenceKernels, noise(new NumpyRandom(2), rows * cols, 3), rows, cols), cols);
    for (const row of y) {
      const norm = Math.sqrt(row.reduce((sum, v) => sum + v * v, 0));
      expect(norm).toBeGreaterThan(0.6);
      expect(norm).toBeLessThan(1.3);
    }
  });

  test("moves matrices along Nesterov momentum by rate · √max(1, rows/cols), and everything else as AdamW does", () => {
    const { parameters, gradient, optimizer } = setup();
    const plain = setup();
    const start = parameters.flat.slice();
    const options: OptimizerParams = {
      name: "muon",
      learningRate: 0.02,
      adamLearningRate: 0.003,
      momentum: 0.9,
      weightDecay: 0.5,
    };
    const [g1, g2] = [gradient(), gradient()];
    optimizer.apply(g1, options);
    optimizer.apply(g2, options);
    plain.optimizer.apply(g1, { name: "adamw", learningRate: 0.003 });
    plain.optimizer.apply(g2, { name: "adamw", learningRate: 0.003 });
    for (const { name, shape, matrix, trainable } of layout) {
      const [rows, cols] = [shape[0]!, shape[1] ?? 1];
      if (!matrix) expect([...parameters.view(name)]).toEqual([...plain.parameters.view(name)]);
      if (!matrix || !trainable) continue;
      const [a, b] = [parameters.view(name, g1), parameters.view(name, g2)];
      let p = [...parameters.view(name, start)];
      let momentum = p.map(() => 0);
      for (const g of [a, b]) {
        momentum = momentum.map((v, i) => 0.9 * v + g[i]!);
        const direction = Float32Array.from(momentum, (v, i) => g[i]! + 0.9 * v);
        const tall = rows > cols;
        const move = orthogonalizeSlowly(toRows(direction, cols)).flat();
        p = p.map((v, i) => v * (1 - 0.02 * 0.5) - 0.02 * (tall ? Math.sqrt(rows / cols) : 1) * move[i]!);
      }
      for (const [i, value] of parameters.view(name).entries()) expect(value).toBeCloseTo(p[i]!, 4);
    }
  });
});

test.each(["adamw", "muon"] as const)("%s: a gradient that is not finite changes nothing and is reported", (name) => {
  const { parameters, gradient, optimizer } = setup();
  optimizer.apply(gradient(), { name, learningRate: 0.1 });
  const before = [parameters.flat, optimizer.first, optimizer.second].map((flat) => flat.slice());
  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
    const flat = gradient();
    flat[3] = bad;
    expect(optimizer.apply(flat, { name, learningRate: 0.1 })).toMatchObject({ applied: false, step: 1 });
  }
  expect([parameters.flat, optimizer.first, optimizer.second]).toEqual(before);
});

test.each(["adamw", "muon"] as const)("%s: saved and loaded state continues bit for bit", async (name) => {
  const folder = mkdtempSync(join(tmpdir(), "saccade-optimizer-"));
  try {
    const { parameters, gradient, optimizer } = setup();
    const options: OptimizerParams = { name, learningRate: 0.05, maxGradNorm: 1 };
    optimizer.apply(gradient(), options);
    await writeSafetensors(join(folder, "state.safetensors"), optimizer.tensors());
    await writeSafetensors(join(folder, "weights.safetensors"), parameters.tensors());
    const other = new Parameters(layout);
    other.load(await readSafetensors(join(folder, "weights.safetensors")));
    const resumed = new Optimizer(referenceKernels, other);
    resumed.load(await readSafetensors(join(folder, "state.safetensors")));
    const next = gradient();
    optimizer.apply(next, options);
    resumed.apply(next, options);
    expect(resumed.step).toBe(2);
    expect([...other.flat]).toEqual([...parameters.flat]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("the state of another layout is refused by name", () => {
  const { optimizer } = setup();
  const other = new Optimizer(
    referenceKernels,
    new Parameters(layOut([{ name: "wide", shape: [2, 2], group: "language", matrix: true, trainable: true }])),
  );
  expect(() => other.load(optimizer.tensors())).toThrow(/"(tall|wide)"/);
});
