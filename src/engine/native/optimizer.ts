/**
 * AdamW and Muon over flat parameters. Muon moves hidden matrices along their orthogonalised momentum: momentum b = β·b + g, Nesterov
 * direction g + β·b, five quintic Newton–Schulz steps, then p −= rate · √max(1, rows/cols) · direction (Keller Jordan's convention: a rate near
 * 0.01–0.02 whatever the size). All other parameters take AdamW. Weight decay is decoupled, p −= rate · decay · p, and for hidden matrices only.
 *
 * Every parameter is updated by itself from the one clipping factor, so `update` may be called for disjoint parts by several threads.
 */
import { DataError } from "../../core/errors.ts";
import type { Tensors } from "../../model/safetensors.ts";
import type { OptimizerParams, StepReport } from "../engine.ts";
import type { F32, Kernels } from "./kernels/api.ts";
import type { Parameter, Parameters } from "./parameters.ts";

/** Coefficients of the quintic that drives singular values towards 1. */
const QUINTIC = [3.4445, -4.775, 2.0315] as const;
const NEWTON_SCHULZ_STEPS = 5;

export class Optimizer {
  readonly parameters: Parameters;
  /** First moments; of matrices under Muon, the momentum. Second moments. Shared, laid out like the parameters. */
  readonly first: F32;
  readonly second: F32;
  #step = 0;
  readonly #kernels: Kernels;

  /** `buffers`: the state of another thread's optimizer. */
  constructor(
    kernels: Kernels,
    parameters: Parameters,
    buffers?: { readonly first: SharedArrayBuffer; readonly second: SharedArrayBuffer },
  ) {
    this.#kernels = kernels;
    this.parameters = parameters;
    this.first = parameters.like(buffers?.first);
    this.second = parameters.like(buffers?.second);
  }

  get step(): number {
    return this.#step;
  }

  /** One step along `gradient`, which is left as it is. A gradient that is not finite changes nothing. */
  apply(gradient: F32, options: OptimizerParams): StepReport {
    const gradNorm = this.gradNorm(gradient);
    if (!Number.isFinite(gradNorm)) return { gradNorm, applied: false, step: this.#step };
    this.#step++;
    this.update(this.parameters.layout, gradient, options, clipScale(gradNorm, options.maxGradNorm), this.#step);
    return { gradNorm, applied: true, step: this.#step };
  }

  /** Global norm over what is trained. */
  gradNorm(gradient: F32): number {
    let sum = 0;
    for (const { offset, size, trainable } of this.parameters.layout) {
      if (trainable) sum += this.#kernels.sumSquares(gradient.subarray(offset, offset + size), size);
    }
    return Math.sqrt(sum);
  }

  /** Moves some parameters; `scale` multiplies the gradient, `step` counts from 1. */
  update(part: readonly Parameter[], gradient: F32, options: OptimizerParams, scale: number, step: number): void {
    const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0 } = options;
    for (const parameter of part) {
      if (!parameter.trainable) continue;
      const { offset, size, matrix } = parameter;
      const cut = (flat: F32) => flat.subarray(offset, offset + size);
      const rate = rateOf(parameter, options);
      const decay = matrix ? weightDecay : 0;
      const [p, g, m] = [cut(this.parameters.flat), cut(gradient), cut(this.first)];
      if (options.name === "muon" && matrix) {
        this.#muon(parameter, p, g, m, rate, decay, options.momentum ?? 0.95, scale);
      } else {
        const corrections = [1 - beta1 ** step, 1 - beta2 ** step] as const;
        this.#kernels.adamw(p, g, m, cut(this.second), size, rate, beta1, beta2, epsilon, decay, ...corrections, scale);
      }
    }
  }

  /** The state for safetensors, and back. */
  tensors(): Tensors {
    const named = (kind: string, flat: F32) =>
      [...this.parameters.tensors(flat)].map(([name, tensor]) => [`${kind}.${name}`, tensor] as const);
    return new Map([
      ...named("first", this.first),
      ...named("second", this.second),
      ["step", { shape: [1], data: Float32Array.of(this.#step) }],
    ]);
  }

  load(tensors: Tensors): void {
    const step = tensors.get("step")?.data[0];
    if (step === undefined)
      throw new DataError("The optimizer's state lacks its step. Start without it, or save it again.");
    const of = (kind: string): Tensors =>
      new Map(
        [...tensors]
          .filter(([name]) => name.startsWith(kind))
          .map(([name, tensor]) => [name.slice(kind.length), tensor]),
      );
    this.parameters.load(of("first."), [], this.first);
    this.parameters.load(of("second."), [], this.second);
    this.#step = step;
  }

  #muon(
    { shape }: Parameter,
    p: F32,
    g: F32,
    momentum: F32,
    rate: number,
    decay: number,
    beta: number,
    scale: number,
  ): void {
    const kernels = this.#kernels;
    const [rows = 0, cols = 0] = shape;
    const size = p.length;
    kernels.scale(momentum, beta, size);
    kernels.axpy(momentum, scale, g, size);
    const direction = thisThreadsScratch(kernels, size + scratchSize(rows, cols)).subarray(0, size);
    direction.set(g);
    kernels.scale(direction, scale, size);
    kernels.axpy(direction, beta, momentum, size);
    const moved = orthogonalize(kernels, direction, rows, cols, thisThreadsScratch(kernels, 0).subarray(size));
    if (decay !== 0) kernels.scale(p, 1 - rate * decay, size);
    kernels.axpy(p, -rate * Math.sqrt(Math.max(1, rows / cols)), moved, size);
  }
}

/** Floats that `orthogonalize` works in. */
function scratchSize(rows: number, cols: number): number {
  return rows * cols + 2 * Math.min(rows, cols) ** 2;
}

let scratch: F32 = new Float32Array(0);
/** At least `floats` dirty floats, the same ones at every call until more are wanted: steps leave no garbage. */
function thisThreadsScratch(kernels: Kernels, floats: number): F32 {
  if (scratch.length < floats) {
    kernels.free(scratch);
    scratch = kernels.floats(floats);
  }
  return scratch;
}

/** The nearest matrix with singular values about 1 (0.7 to 1.2), by Newton–Schulz on the smaller side. Overwrites x and lies in x or `work`. */
export function orthogonalize(
  kernels: Kernels,
  x: F32,
  rows: number,
  cols: number,
  work: F32 = new Float32Array(scratchSize(rows, cols)),
): F32 {
  const side = Math.min(rows, cols);
  const wide = rows <= cols;
  const size = rows * cols;
  let from = x;
  let to = work.subarray(0, size);
  const gram = work.subarray(size, size + side * side);
  const poly = work.subarray(size + side * side, size + 2 * side * side);
  kernels.scale(from, 1 / (Math.sqrt(kernels.sumSquares(from, from.length)) + 1e-7), from.length);
  const [a, b, c] = QUINTIC;
  for (let i = 0; i < NEWTON_SCHULZ_STEPS; i++) {
    // gram = x·xᵀ or xᵀ·x; x ← (a + b·gram + c·gram²)·x, or with the factor on the right. gram is its own transpose.
    kernels.gram(gram, from, cols, side, wide ? cols : rows, wide ? 0 : 1);
    kernels.gram(poly, gram, side, side, side, 0);
    kernels.scale(poly, c, poly.length);
    kernels.axpy(poly, b, gram, poly.length);
    for (let d = 0; d < side; d++) poly[d * side + d] = (poly[d * side + d] as number) + a;
    if (wide) kernels.matmul(to, cols, poly, side, from, cols, rows, cols, side, 0, 0, 0);
    else kernels.matmul(to, cols, from, cols, poly, side, rows, cols, side, 0, 0, 0);
    [from, to] = [to, from];
  }
  return from;
}

/** What the gradient is multiplied by so that its global norm is at most `max`. */
export function clipScale(gradNorm: number, max = 0): number {
  return max > 0 && gradNorm > max ? max / gradNorm : 1;
}

/**
 * `rates` gives a group's own rate. Under Muon that is the rate of the group's matrices, and the group's other parameters keep their
 * proportion to it; a group without matrices takes it as it is.
 */
function rateOf({ group, matrix }: Parameter, options: OptimizerParams): number {
  const { learningRate, rates } = options;
  const own = rates?.[group];
  if (options.name === "adamw" || matrix) return own ?? learningRate;
  const base = options.adamLearningRate ?? learningRate;
  if (own === undefined) return base;
  const hasMatrices = group === "vision" || group === "merger" || group === "language";
  return hasMatrices && learningRate > 0 ? (base * own) / learningRate : own;
}
