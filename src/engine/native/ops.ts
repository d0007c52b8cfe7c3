/**
 * The differentiable operations of the network, each a forward kernel call and, when the tape records, its backward. They work on
 * [rows, dim] tensors; a parameter that is not trained has `grad: null` and costs no backward work, and an operation with nothing
 * trained upstream records nothing. Gradients of parameters add up; gradients of tensors live only while the backward pass needs them.
 */
import type { F32, Flag, I32, Kernels } from "./kernels/api.ts";
import type { Tape, Tensor } from "./tape.ts";

/** A parameter's values and, while it is trained, where its gradient adds up. */
export type Param = { readonly value: F32; grad: F32 | null };

/** A low-rank branch beside a weight: y += scaling · B(A x), A [rank, in], B [out, rank]. */
export type LoraBranch = { readonly a: Linear; readonly b: Linear; readonly scaling: number };

/** A weight [out, in] with its packed forms, which are made when first used and again after `invalidate`. */
export class Linear {
  readonly out: number;
  readonly in: number;
  readonly weight: Param;
  readonly bias: Param | null;
  readonly lora: LoraBranch | null;
  #forward: F32 | null = null;
  #backward: F32 | null = null;
  #forwardFresh = false;
  #backwardFresh = false;

  constructor(out: number, from: number, weight: Param, bias: Param | null = null, lora: LoraBranch | null = null) {
    this.out = out;
    this.in = from;
    this.weight = weight;
    this.bias = bias;
    this.lora = lora;
  }

  /** The weights changed. */
  invalidate(): void {
    this.#forwardFresh = false;
    this.#backwardFresh = false;
    this.lora?.a.invalidate();
    this.lora?.b.invalidate();
  }

  /** Gives its packed forms back; they are made again if it is used again. */
  close(kernels: Kernels): void {
    for (const packed of [this.#forward, this.#backward]) if (packed !== null) kernels.free(packed);
    this.#forward = this.#backward = null;
    this.lora?.a.close(kernels);
    this.lora?.b.close(kernels);
    this.invalidate();
  }

  /** For y = x·Wᵀ. */
  packed(kernels: Kernels): F32 {
    this.#forward ??= kernels.floats(kernels.packedSize(this.out, this.in));
    if (!this.#forwardFresh) kernels.pack(this.#forward, this.weight.value, this.in, this.out, this.in, 1);
    this.#forwardFresh = true;
    return this.#forward;
  }

  /** For dx = dy·W. */
  packedBackward(kernels: Kernels): F32 {
    this.#backward ??= kernels.floats(kernels.packedSize(this.in, this.out));
    if (!this.#backwardFresh) kernels.pack(this.#backward, this.weight.value, this.in, this.in, this.out, 0);
    this.#backwardFresh = true;
    return this.#backward;
  }

  get trained(): boolean {
    return this.weight.grad !== null || (this.bias?.grad ?? null) !== null || this.lora?.b.weight.grad != null;
  }
}

// ── linear layers ────────────────────────────────────────────────────────────────────────────────────────────────

/** y (+)= layer(x) on plain buffers. Returns the low-rank branch's middle (scaled), or null. */
function apply(tape: Tape, layer: Linear, y: F32, x: F32, rows: number, accumulate: Flag): F32 | null {
  const { kernels } = tape;
  const { out, in: from, lora } = layer;
  kernels.matmulPacked(y, out, x, from, layer.packed(kernels), layer.bias?.value ?? null, rows, out, from, accumulate);
  if (lora === null) return null;
  const rank = lora.a.out;
  const middle = tape.take(rows * rank);
  kernels.matmulPacked(middle, rank, x, from, lora.a.packed(kernels), null, rows, rank, from, 0);
  kernels.scale(middle, lora.scaling, rows * rank);
  kernels.matmulPacked(y, out, middle, rank, lora.b.packed(kernels), null, rows, out, rank, 1);
  if (tape.recording && layer.trained) return middle;
  tape.give(middle);
  return null;
}

/** dw[out,in] += dyᵀ·x */
function weightGradient(
  kernels: Kernels,
  grad: F32 | null,
  dy: F32,
  x: F32,
  rows: number,
  out: number,
  from: number,
): void {
  if (grad !== null) kernels.matmul(grad, from, dy, out, x, from, out, from, rows, 1, 0, 1);
}

/** The gradients of a layer's parameters, and of x when it needs one, from dy [rows, out]. */
function applyBackward(tape: Tape, layer: Linear, x: Tensor, middle: F32 | null, dy: F32): void {
  const { kernels } = tape;
  const { rows } = x;
  const { out, in: from, lora } = layer;
  if (layer.weight.grad !== null) weightGradient(kernels, layer.weight.grad, dy, tape.need(x), rows, out, from);
  if (layer.bias !== null && layer.bias.grad !== null) kernels.sumRows(layer.bias.grad, dy, rows, out);
  if (x.needsGrad) {
    const { grad, fresh } = tape.gradient(x);
    kernels.matmulPacked(grad, from, dy, out, layer.packedBackward(kernels), null, rows, from, out, fresh ? 0 : 1);
  }
  if (lora === null) return;
  const { a, b, scaling } = lora;
  const rank = a.out;
  if (middle !== null) weightGradient(kernels, b.weight.grad, dy, middle, rows, out, rank);
  const dmiddle = tape.take(rows * rank);
  kernels.matmulPacked(dmiddle, rank, dy, out, b.packedBackward(kernels), null, rows, rank, out, 0);
  kernels.scale(dmiddle, scaling, rows * rank);
  if (a.weight.grad !== null) weightGradient(kernels, a.weight.grad, dmiddle, tape.need(x), rows, rank, from);
  if (x.needsGrad) {
    const { grad } = tape.gradient(x);
    kernels.matmulPacked(grad, from, dmiddle, rank, a.packedBackward(kernels), null, rows, from, rank, 1);
  }
  tape.give(dmiddle);
  if (middle !== null) tape.give(middle);
}

function savesInput(layer: Linear): boolean {
  return layer.weight.grad !== null || (layer.lora !== null && layer.lora.a.weight.grad !== null);
}

/** layer(x) */
export function linear(tape: Tape, x: Tensor, layer: Linear): Tensor {
  const y = tape.tensor(x.rows, layer.out, x.needsGrad || layer.trained);
  const middle = apply(tape, layer, y.data, x.data, x.rows, 0);
  if (!y.needsGrad) return y;
  if (savesInput(layer)) x.saved = true;
  tape.record(() => {
    const dy = tape.takeGradient(y);
    if (dy === null) return;
    applyBackward(tape, layer, x, middle, dy);
    tape.give(dy);
  });
  return y;
}

/** base + layer(x). Takes `base` over: unless a backward function reads it, the sum is made in its buffer. */
export function addLinear(tape: Tape, base: Tensor, x: Tensor, layer: Linear): Tensor {
  const needsGrad = base.needsGrad || x.needsGrad || layer.trained;
  const y = tape.tensor(base.rows, base.dim, needsGrad, base.saved ? undefined : base.data);
  if (base.saved) y.data.set(base.data);
  else base.dropped = true;
  const middle = apply(tape, layer, y.data, x.data, x.rows, 1);
  if (!y.needsGrad) return y;
  if (savesInput(layer)) x.saved = true;
  tape.record(() => {
    const dy = tape.takeGradient(y);
    if (dy === null) return;
    applyBackward(tape, layer, x, middle, dy);
    if (base.needsGrad) tape.handGradient(base, dy);
    else tape.give(dy);
  });
  return y;
}

/** layer applied to the patches of several images, one below the other; patches are read where they lie. */
export function embedPatches(tape: Tape, images: readonly F32[], layer: Linear): Tensor {
  const { kernels } = tape;
  const rowsOf = (patches: F32) => patches.length / layer.in;
  const total = images.reduce((sum, patches) => sum + rowsOf(patches), 0);
  const y = tape.tensor(total, layer.out, layer.trained);
  const each = (buffer: F32, visit: (rows: F32, patches: F32, count: number) => void) => {
    let at = 0;
    for (const patches of images) {
      const count = rowsOf(patches);
      visit(buffer.subarray(at * layer.out, (at + count) * layer.out), patches, count);
      at += count;
    }
  };
  each(y.data, (rows, patches, count) => {
    apply(tape, layer, rows, patches, count, 0);
  });
  if (!y.needsGrad) return y;
  tape.record(() => {
    const dy = tape.takeGradient(y);
    if (dy === null) return;
    each(dy, (rows, patches, count) => {
      weightGradient(kernels, layer.weight.grad, rows, patches, count, layer.out, layer.in);
    });
    if (layer.bias !== null && layer.bias.grad !== null) kernels.sumRows(layer.bias.grad, dy, total, layer.out);
    tape.give(dy);
  });
  return y;
}

// ── norms, activations, positions ────────────────────────────────────────────────────────────────────────────────

/** Somewhere for a frozen norm's parameter gradient to go: the kernels compute it beside dx. */
function gradOrScratch(tape: Tape, param: Param): F32 {
  return param.grad ?? tape.take(param.value.length);
}

function giveScratch(tape: Tape, param: Param, grad: F32): void {
  if (param.grad === null) tape.give(grad);
}

/** RMS norm of every `weight.length` numbers of x: of rows, or of the heads inside rows. */
export function rmsNorm(tape: Tape, x: Tensor, weight: Param, eps: number): Tensor {
  const { kernels } = tape;
  const dim = weight.value.length;
  const rows = (x.rows * x.dim) / dim;
  const y = tape.tensor(x.rows, x.dim, x.needsGrad || weight.grad !== null);
  const inv = tape.take(rows);
  kernels.rmsNorm(y.data, inv, x.data, weight.value, rows, dim, eps);
  if (!y.needsGrad) {
    tape.give(inv);
    return y;
  }
  x.saved = true;
  y.restore = (data) => kernels.rmsNorm(data, inv, tape.need(x), weight.value, rows, dim, eps);
  tape.record(() => {
    const dy = tape.takeGradient(y);
    if (dy === null) return;
    const dw = gradOrScratch(tape, weight);
    const { grad, fresh } = tape.gradient(x);
    kernels.rmsNormBackward(grad, dw, dy, tape.need(x), weight.value, inv, rows, dim, fresh ? 0 : 1);
    if (!x.needsGrad) dropGradient(tape, x);
    giveScratch(tape, weight, dw);
    tape.give(dy);
    tape.give(inv);
  });
  return y;
}

/** Layer norm of every `weight.length` numbers of x; the result has rows of `dim` numbers (merging neighbouring patches is a reshape). */
export function layerNorm(tape: Tape, x: Tensor, weight: Param, bias: Param, eps: number, dim = x.dim): Tensor {
  const { kernels } = tape;
  const normDim = weight.value.length;
  const rows = (x.rows * x.dim) / normDim;
  const trained = weight.grad !== null || bias.grad !== null;
  const y = tape.tensor((x.rows * x.dim) / dim, dim, x.needsGrad || trained);
  const mean = tape.take(rows);
  const inv = tape.take(rows);
  kernels.layerNorm(y.data, mean, inv, x.data, weight.value, bias.value, rows, normDim, eps);
  if (!y.needsGrad) {
    tape.give(mean);
    tape.give(inv);
    return y;
  }
  x.saved = true;
  y.restore = (data) => kernels.layerNorm(data, mean, inv, tape.need(x), weight.value, bias.value, rows, normDim, eps);
  tape.record(() => {
    const dy = tape.takeGradient(y);
    if (dy === null) return;
    const dw = gradOrScratch(tape, weight);
    const db = gradOrScratch(tape, bias);
    const { grad, fresh } = tape.gradient(x);
    kernels.layerNormBackward(grad, dw, db, dy, tape.need(x), weight.value, mean, inv, rows, normDim, fresh ? 0 : 1);
    if (!x.needsGrad) dropGradient(tape, x);
    giveScratch(tape, weight, dw);
    giveScratch(tape, bias, db);
    tape.give(dy);
    tape.give(mean);
    tape.give(inv);
  });
  return y;
}

function dropGradient(tape: Tape, x: Tensor): void {
  if (x.grad !== null) tape.give(x.grad);
  x.grad = null;
}

/** Turns the first `heads` heads of each row of x in place by the angles of that row. No earlier operation may need x as it was. */
export function rope(tape: Tape, x: Tensor, cos: F32, sin: F32, heads: number, headDim: number): void {
  const { kernels } = tape;
  const turn = (data: F32, inverse: Flag) => kernels.rope(data, x.dim, cos, sin, x.rows, heads, headDim, inverse);
  turn(x.data, 0);
  if (!x.needsGrad) return;
  const { restore } = x;
  if (restore !== null) {
    x.restore = (data) => {
      restore(data);
      turn(data, 0);
    };
  }
  tape.record(() => {
    if (x.grad !== null) turn(x.grad, 1);
  });
}

/** silu(gate) · up */
export function siluMul(tape: Tape, gate: Tensor, up: Tensor): Tensor {
  const { kernels } = tape;
  const size = gate.rows * gate.dim;
  const y = tape.tensor(gate.rows, gate.dim, gate.needsGrad || up.needsGrad);
  kernels.siluMul(y.data, gate.data, up.data, size);
  if (!y.needsGrad) return y;
  gate.saved = true;
  up.saved = true;
  y.restore = (data) => kernels.siluMul(data, tape.need(gate), tape.need(up), size);
  tape.record(() => {
    const dy = tape.takeGradient(y);
    if (dy === null) return;
    const dgate = tape.take(size);
    const dup = tape.take(size);
    kernels.siluMulBackward(dgate, dup, dy, tape.need(gate), tape.need(up), size);
    tape.give(dy);
    if (gate.needsGrad) tape.handGradient(gate, dgate);
    else tape.give(dgate);
    if (up.needsGrad) tape.handGradient(up, dup);
    else tape.give(dup);
  });
  return y;
}

export function gelu(tape: Tape, x: Tensor, approximation: "tanh" | "erf"): Tensor {
  const { kernels } = tape;
  const size = x.rows * x.dim;
  const tanh = approximation === "tanh" ? 1 : 0;
  const y = tape.tensor(x.rows, x.dim, x.needsGrad);
  kernels.gelu(y.data, x.data, size, tanh);
  if (!y.needsGrad) return y;
  x.saved = true;
  y.restore = (data) => kernels.gelu(data, tape.need(x), size, tanh);
  tape.record(() => {
    const dy = tape.takeGradient(y);
    if (dy === null) return;
    const dx = tape.take(size);
    kernels.geluBackward(dx, dy, tape.need(x), size, tanh);
    tape.give(dy);
    tape.handGradient(x, dx);
  });
  return y;
}

// ── attention ────────────────────────────────────────────────────────────────────────────────────────────────────

export type AttentionShape = {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly causal: boolean;
};
/** Columns of a tensor from `at` on: queries, keys and values may be three tensors or lie side by side in one. */
export type Columns = { readonly tensor: Tensor; readonly at: number };

/**
 * Attention inside (start, length) segments that cover all rows. q, k and v are read by nothing else. `queries`: pairs of the rows that are wanted; the
 * others hold anything.
 */
export function attention(
  tape: Tape,
  q: Columns,
  k: Columns,
  v: Columns,
  segments: I32,
  shape: AttentionShape,
  queries: I32 = segments,
): Tensor {
  const { kernels } = tape;
  const { heads, kvHeads, headDim } = shape;
  const causal = shape.causal ? 1 : 0;
  const scale = 1 / Math.sqrt(headDim);
  const inputs = [q.tensor, k.tensor, v.tensor];
  const { rows } = q.tensor;
  const width = heads * headDim;
  const y = tape.tensor(
    rows,
    width,
    inputs.some((x) => x.needsGrad),
  );
  const lse = tape.take(rows * heads);
  const data = (x: Columns) => tape.need(x.tensor).subarray(x.at);
  const [lq, lk, lv] = [q.tensor.dim, k.tensor.dim, v.tensor.dim];
  // biome-ignore format: one kernel call
  kernels.attention(y.data, width, lse, data(q), lq, data(k), lk, data(v), lv, segments, queries, heads, kvHeads, headDim, scale, causal);
  if (!y.needsGrad) {
    tape.give(lse);
    return y;
  }
  for (const input of inputs) input.saved = true;
  y.saved = true;
  tape.record(() => {
    const dy = tape.takeGradient(y);
    if (dy === null) return;
    const gradient = (x: Columns) => tape.gradient(x.tensor).grad.subarray(x.at);
    // biome-ignore format: one kernel call
    kernels.attentionBackward(gradient(q), gradient(k), gradient(v), dy, width, y.data, lse, data(q), lq, data(k), lk, data(v), lv, segments, queries, heads, kvHeads, headDim, scale, causal);
    for (const input of inputs) if (!input.needsGrad) dropGradient(tape, input);
    tape.give(dy);
    tape.give(lse);
  });
  return y;
}

// ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Rows `from[i]` of `source` belong at rows `to[i]`; one source row may be placed many times. */
export type Placement = { readonly source: Tensor; readonly from: I32; readonly to: I32 };

/** Rows `rows[i]` of x, each at most once. */
export function selectRows(tape: Tape, x: Tensor, rows: I32): Tensor {
  const { kernels } = tape;
  const y = tape.tensor(rows.length, x.dim, x.needsGrad);
  kernels.gatherRows(y.data, x.data, rows, rows.length, x.dim);
  if (!y.needsGrad) return y;
  tape.record(() => {
    const dy = tape.takeGradient(y);
    if (dy === null) return;
    const { grad, fresh } = tape.gradient(x);
    if (fresh) grad.fill(0);
    kernels.scatterAddRows(grad, dy, rows, rows.length, x.dim);
    tape.give(dy);
  });
  return y;
}

/** Table rows of ids, except where other rows are placed. */
export function embed(tape: Tape, table: Param, ids: I32, dim: number, placed: Placement | null): Tensor {
  const { kernels } = tape;
  const rows = ids.length;
  const y = tape.tensor(rows, dim, table.grad !== null || (placed?.source.needsGrad ?? false));
  kernels.gatherRows(y.data, table.value, ids, rows, dim);
  if (placed !== null) {
    const moved = tape.take(placed.from.length * dim);
    kernels.gatherRows(moved, placed.source.data, placed.from, placed.from.length, dim);
    kernels.scatterRows(y.data, moved, placed.to, placed.to.length, dim);
    tape.give(moved);
  }
  if (!y.needsGrad) return y;
  tape.record(() => {
    const dy = tape.takeGradient(y);
    if (dy === null) return;
    if (placed !== null) {
      placedGradient(tape, placed, dy, dim);
      for (const row of placed.to) dy.fill(0, row * dim, (row + 1) * dim);
    }
    if (table.grad !== null) kernels.scatterAddRows(table.grad, dy, ids, rows, dim);
    tape.give(dy);
  });
  return y;
}

/** Adds placed rows to x in place. No earlier operation may need x as it was. */
export function addPlaced(tape: Tape, x: Tensor, placed: Placement): void {
  const { kernels } = tape;
  const moved = tape.take(placed.from.length * x.dim);
  kernels.gatherRows(moved, placed.source.data, placed.from, placed.from.length, x.dim);
  kernels.scatterAddRows(x.data, moved, placed.to, placed.to.length, x.dim);
  tape.give(moved);
  if (!placed.source.needsGrad) return;
  tape.record(() => {
    if (x.grad !== null) placedGradient(tape, placed, x.grad, x.dim);
  });
}

function placedGradient(tape: Tape, placed: Placement, dy: F32, dim: number): void {
  if (!placed.source.needsGrad) return;
  const { kernels } = tape;
  const moved = tape.take(placed.to.length * dim);
  kernels.gatherRows(moved, dy, placed.to, placed.to.length, dim);
  kernels.scatterAddRows(tape.zeroedGradient(placed.source), moved, placed.from, placed.from.length, dim);
  tape.give(moved);
}

/** Adds weighted sums of `taps` table rows to the rows of x in place. No earlier operation may need x as it was. */
export function addMixed(tape: Tape, x: Tensor, table: Param, ids: I32, weights: F32, taps: number): void {
  const { kernels } = tape;
  kernels.mixRows(x.data, table.value, ids, weights, x.rows, taps, x.dim, 1);
  if (!tape.recording || table.grad === null) return;
  tape.record(() => {
    if (x.grad !== null && table.grad !== null) {
      kernels.mixRowsBackward(table.grad, x.grad, ids, weights, x.rows, taps, x.dim);
    }
  });
}
