import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../../core/random-numpy.ts";
import { rowValues, tokenScores } from "./heads.ts";
import type { F32 } from "./kernels/api.ts";
import { referenceKernels } from "./kernels/reference.ts";
import { byName, fastVariants } from "./kernels/test-variants.ts";
import * as op from "./ops.ts";
import { Arena, Tape, type Tensor } from "./tape.ts";
import { noise } from "./test-tiny.ts";

/** A function of tensors and parameters as a number, and how to start its backward pass. */
type Outcome = { readonly loss: number; readonly start: () => void };
type Build = (tape: Tape, inputs: Tensor[], params: op.Param[]) => Outcome;
type Operation = { name: string; inputs: [rows: number, dim: number][]; params: number[]; build: Build };

/** A fixed random projection of a tensor, summed in double. */
function project(tape: Tape, y: Tensor): Outcome {
  const r = noise(new NumpyRandom(7), y.rows * y.dim, 1);
  let loss = 0;
  for (const [i, weight] of r.entries()) loss += weight * y.data[i]!;
  return {
    loss,
    start: () => {
      y.grad = tape.take(r.length);
      y.grad.set(r);
    },
  };
}

const columns = (tensor: Tensor, at = 0) => ({ tensor, at });
const angles = noise(new NumpyRandom(3), 7 * 4, 2);
const cos = angles.map(Math.cos);
const sin = angles.map(Math.sin);
const ids = Int32Array.of(2, 0, 2, 4, 1);
const placed = (source: Tensor) => ({ source, from: Int32Array.of(1, 0, 1), to: Int32Array.of(0, 3, 4) });
const lora = (a: op.Param, b: op.Param) => ({ a: new op.Linear(2, 6, a), b: new op.Linear(9, 2, b), scaling: 1.5 });
const temperature = Float32Array.of(1, 0.7, 1.3, 1, 2);
const allowed = Uint8Array.from({ length: 11 }, (_, i) => (i === 3 || i === 8 ? 0 : 1));
const scored =
  (logitBytes: number): Build =>
  (tape, [x], [w]) => {
    const scores = tokenScores(
      tape,
      x!,
      new op.Linear(11, 6, w!),
      Int32Array.of(1, 10, -1, 0, 7),
      temperature,
      allowed,
      logitBytes,
    );
    const [dl, de] = [Float32Array.of(0.5, -1, 3, 2, 0.3), Float32Array.of(1, 0.5, 2, 0, -1)];
    let loss = 0;
    for (let i = 0; i < 5; i++) loss += dl[i]! * scores.logprobs[i]! + de[i]! * scores.entropy[i]!;
    return {
      loss,
      start: () => {
        scores.logprobGradients.set(dl);
        scores.entropyGradients.set(de);
      },
    };
  };

// biome-ignore format: a table
const operations: Operation[] = [
  { name: "linear with bias", inputs: [[5, 6]], params: [54, 9], build: (t, [x], [w, b]) => project(t, op.linear(t, x!, new op.Linear(9, 6, w!, b!))) },
  { name: "linear with a low-rank branch", inputs: [[5, 6]], params: [54, 12, 18], build: (t, [x], [w, a, b]) => project(t, op.linear(t, x!, new op.Linear(9, 6, w!, null, lora(a!, b!)))) },
  { name: "addLinear", inputs: [[5, 9], [5, 6]], params: [54, 9], build: (t, [x, y], [w, b]) => project(t, op.addLinear(t, x!, y!, new op.Linear(9, 6, w!, b!))) },
  { name: "rmsNorm", inputs: [[5, 8]], params: [8], build: (t, [x], [w]) => project(t, op.rmsNorm(t, x!, w!, 1e-6)) },
  { name: "rmsNorm of heads", inputs: [[5, 12]], params: [4], build: (t, [x], [w]) => project(t, op.rmsNorm(t, x!, w!, 1e-6)) },
  { name: "layerNorm", inputs: [[5, 8]], params: [8, 8], build: (t, [x], [w, b]) => project(t, op.layerNorm(t, x!, w!, b!, 1e-6)) },
  { name: "layerNorm of merged rows", inputs: [[8, 3]], params: [12, 12], build: (t, [x], [w, b]) => project(t, op.layerNorm(t, x!, w!, b!, 1e-6, 12)) },
  { name: "layerNorm, then merged", inputs: [[8, 3]], params: [3, 3, 24], build: (t, [x], [w, b, l]) => project(t, op.linear(t, op.layerNorm(t, x!, w!, b!, 1e-6, 12), new op.Linear(2, 12, l!))) },
  { name: "rope", inputs: [[7, 16]], params: [], build: (t, [x]) => { op.rope(t, x!, cos, sin, 2, 8); return project(t, x!); } },
  { name: "siluMul", inputs: [[5, 6], [5, 6]], params: [], build: (t, [x, y]) => project(t, op.siluMul(t, x!, y!)) },
  { name: "gelu (tanh)", inputs: [[5, 6]], params: [], build: (t, [x]) => project(t, op.gelu(t, x!, "tanh")) },
  { name: "gelu (erf)", inputs: [[5, 6]], params: [], build: (t, [x]) => project(t, op.gelu(t, x!, "erf")) },
  { name: "causal attention over segments, grouped queries", inputs: [[9, 16], [9, 8], [9, 8]], params: [],
    build: (t, [q, k, v]) => project(t, op.attention(t, columns(q!), columns(k!), columns(v!), Int32Array.of(0, 4, 4, 5), { heads: 4, kvHeads: 2, headDim: 4, causal: true })) },
  { name: "full attention, side by side", inputs: [[9, 24]], params: [],
    build: (t, [x]) => project(t, op.attention(t, columns(x!), columns(x!, 8), columns(x!, 16), Int32Array.of(0, 3, 3, 6), { heads: 2, kvHeads: 2, headDim: 4, causal: false })) },
  { name: "causal attention of some rows", inputs: [[9, 16], [9, 8], [9, 8]], params: [],
    build: (t, [q, k, v]) => {
      const mixed = op.attention(t, columns(q!), columns(k!), columns(v!), Int32Array.of(0, 4, 4, 5), { heads: 4, kvHeads: 2, headDim: 4, causal: true }, Int32Array.of(1, 1, 3, 1, 6, 2));
      return project(t, op.selectRows(t, mixed, Int32Array.of(1, 3, 6, 7)));
    } },
  { name: "selectRows", inputs: [[5, 6]], params: [], build: (t, [x]) => project(t, op.selectRows(t, x!, Int32Array.of(0, 2, 4))) },
  { name: "embedding", inputs: [], params: [30], build: (t, _, [w]) => project(t, op.embed(t, w!, ids, 6, null)) },
  { name: "embedding with placed features", inputs: [[2, 6]], params: [30], build: (t, [x], [w]) => project(t, op.embed(t, w!, ids, 6, placed(x!))) },
  { name: "addPlaced", inputs: [[5, 6], [2, 6]], params: [], build: (t, [x, y]) => { op.addPlaced(t, x!, placed(y!)); return project(t, x!); } },
  { name: "addMixed", inputs: [[3, 6]], params: [30], build: (t, [x], [w]) => { op.addMixed(t, x!, w!, Int32Array.of(0, 1, 4, 4, 2, 0), Float32Array.of(0.3, 0.7, 1, 0, 0.5, 0.5), 2); return project(t, x!); } },
  { name: "patch embedding of two images", inputs: [], params: [24, 4], build: (t, _, [w, b]) => project(t, op.embedPatches(t, [noise(new NumpyRandom(1), 12, 1), noise(new NumpyRandom(2), 18, 1)], new op.Linear(4, 6, w!, b!))) },
  { name: "token log-probabilities and entropy", inputs: [[5, 6]], params: [66], build: scored(1 << 20) },
  { name: "token log-probabilities in chunks", inputs: [[5, 6]], params: [66], build: scored(2 * 11 * 4) },
  { name: "value head", inputs: [[5, 6]], params: [6], build: (t, [x], [w]) => {
    const { values, gradients } = rowValues(t, x!, new op.Linear(1, 6, w!));
    return { loss: values.reduce((sum, value, i) => sum + value * (i - 1.5), 0), start: () => gradients.set([-1.5, -0.5, 0.5, 1.5, 2.5]) };
  } },
];

function values(operation: Operation): { inputs: F32[]; params: F32[] } {
  const random = new NumpyRandom(11);
  return {
    inputs: operation.inputs.map(([rows, dim]) => noise(random, rows * dim, 1)),
    params: operation.params.map((size) => noise(random, size, 0.7, 0.3)),
  };
}

function run(
  kernels: typeof referenceKernels,
  operation: Operation,
  at: { inputs: F32[]; params: F32[] },
  mode: "training" | "inference",
) {
  const tape = new Tape(kernels, new Arena(1 << 16), mode);
  const inputs = operation.inputs.map(([rows, dim], i) => tape.tensor(rows, dim, true, at.inputs[i]!.slice()));
  const params = at.params.map((value) => ({
    value,
    grad: mode === "training" ? new Float32Array(value.length) : null,
  }));
  const { loss, start } = operation.build(tape, inputs, params);
  if (mode === "training") {
    start();
    tape.backward();
  }
  return { loss, gradients: [...inputs.map(({ grad }) => grad), ...params.map(({ grad }) => grad)] };
}

describe.each(byName)("$which kernels", ({ kernels }) => {
  test.each(operations)("$name: the gradient is the slope that finite differences see", (operation) => {
    const at = values(operation);
    const all = [...at.inputs, ...at.params];
    const { gradients } = run(kernels, operation, at, "training");
    const random = new NumpyRandom(5);
    for (const [i, point] of all.entries()) {
      const gradient = gradients[i]!;
      expect(gradient).not.toBeNull();
      for (let trial = 0; trial < 4; trial++) {
        const direction = noise(random, point.length, 1);
        const slope = (step: number) => {
          const moved = (sign: number) => {
            const change = (x: F32) => (x === point ? x.map((value, j) => value + sign * step * direction[j]!) : x);
            return run(
              kernels,
              operation,
              { inputs: at.inputs.map(change), params: at.params.map(change) },
              "inference",
            ).loss;
          };
          return (moved(1) - moved(-1)) / (2 * step);
        };
        // Richardson: the error of order step² goes; float32 noise of the forward pass stays, about 1e-5 of the loss's scale.
        const expected = (4 * slope(0.01) - slope(0.02)) / 3;
        let found = 0;
        let scale = 0;
        for (const [j, d] of direction.entries()) {
          found += d * gradient[j]!;
          scale += (d * gradient[j]!) ** 2;
        }
        expect(Math.abs(found - expected)).toBeLessThan(1e-3 * (1 + Math.sqrt(scale)));
      }
    }
  });
});

test.each(operations)("$name: fast kernels agree with the reference", (operation) => {
  const at = values(operation);
  const a = run(referenceKernels, operation, at, "training");
  for (const kernels of fastVariants) {
    const b = run(kernels, operation, at, "training");
    expect(b.loss).toBeCloseTo(a.loss, 4);
    for (const [i, gradient] of a.gradients.entries()) {
      for (const [j, value] of gradient!.entries()) expect(b.gradients[i]![j]!).toBeCloseTo(value, 4);
    }
  }
});

describe("a tape", () => {
  const chain = (drop: boolean) => {
    const tape = new Tape(referenceKernels, new Arena(1 << 16), "training", 0);
    const random = new NumpyRandom(1);
    const param = (size: number) => ({ value: noise(random, size, 0.5, 0.2), grad: new Float32Array(size) });
    const params = Array.from({ length: 3 }, () => [param(6), param(48), param(48), param(48)] as const);
    const input = tape.tensor(5, 6, true, noise(random, 30, 1));
    let x = input;
    for (const [norm, gate, up, down] of params) {
      const h = op.rmsNorm(tape, x, norm, 1e-6);
      const g = op.linear(tape, h, new op.Linear(8, 6, gate));
      const u = op.linear(tape, h, new op.Linear(8, 6, up));
      if (drop) tape.drop(h);
      const a = op.siluMul(tape, g, u);
      x = op.addLinear(tape, x, a, new op.Linear(6, 8, down));
      if (drop) tape.drop(a);
    }
    project(tape, x).start();
    tape.backward();
    return {
      bytes: tape.arena.bytes.peak,
      gradients: params.flat().map(({ grad }) => [...grad]),
      dx: [...input.grad!],
    };
  };

  test("computes dropped tensors again, with the same bits and less memory", () => {
    const kept = chain(false);
    const dropped = chain(true);
    expect(dropped.gradients).toEqual(kept.gradients);
    expect(dropped.dx).toEqual(kept.dx);
    expect(dropped.bytes).toBeLessThan(kept.bytes);
  });

  test("records nothing and keeps nothing in inference", () => {
    const tape = new Tape(referenceKernels, new Arena(1 << 16), "inference");
    const x = tape.tensor(4, 4, true);
    x.data.fill(1);
    const y = op.rmsNorm(tape, x, { value: new Float32Array(4).fill(2), grad: new Float32Array(4) }, 1e-6);
    const { data } = y;
    expect(y.needsGrad).toBe(false);
    tape.drop(y);
    expect(tape.take(16)).toBe(data);
  });

  test("gives parameters that are not trained no gradient, and what lies before them one", () => {
    const tape = new Tape(referenceKernels, new Arena(1 << 16), "training", 0);
    const weight: op.Param = { value: Float32Array.of(1, 2, 3, 4), grad: null };
    const x = tape.tensor(1, 2, true, Float32Array.of(1, 1));
    project(tape, op.linear(tape, x, new op.Linear(2, 2, weight))).start();
    tape.backward();
    expect(weight.grad).toBeNull();
    expect(x.grad).not.toBeNull();
    const frozen = tape.tensor(1, 2, false, Float32Array.of(1, 1));
    expect(op.linear(tape, frozen, new op.Linear(2, 2, weight)).needsGrad).toBe(false);
  });
});

describe("an arena", () => {
  test("hands out disjoint aligned buffers and the same ones after a reset", () => {
    const arena = new Arena(1024);
    const [a, b, c] = [arena.take(100), arena.take(100), arena.take(1000)];
    expect(a.byteOffset % 64).toBe(0);
    expect(b.byteOffset).toBeGreaterThanOrEqual(a.byteOffset + a.byteLength);
    expect(c.length).toBe(1000);
    const { held, peak } = arena.bytes;
    arena.reset();
    const again = [arena.take(100), arena.take(100), arena.take(1000)];
    expect(again.map((x) => [x.buffer === a.buffer || x.buffer === c.buffer, x.byteOffset])).toEqual(
      [a, b, c].map((x) => [true, x.byteOffset]),
    );
    expect(arena.bytes).toEqual({ held, peak });
  });

  test("goes back to a mark", () => {
    const arena = new Arena(1024);
    arena.take(10);
    const mark = arena.mark();
    const a = arena.take(500);
    arena.release(mark);
    expect(arena.take(500).byteOffset).toBe(a.byteOffset);
  });
});
