/**
 * Memory and the order of the backward pass. An `Arena` owns large blocks and hands out pieces of them; nothing in it is freed
 * one by one, `reset` takes everything back for the next step, so a training step allocates nothing once it has run. A `Tape` is
 * one pass over the network: it takes buffers from the arena, and when it records, keeps the backward functions of the
 * operations (ops.ts) and runs them in reverse.
 *
 * Ownership is said aloud. Whoever made a tensor calls `drop` when no operation of the forward pass reads it again. If no backward
 * function needs it, its buffer is used again at once; if one does and the tensor is cheap to compute (`restore`), the buffer is
 * used again too and computed anew in the backward pass; else it stays. Buffers come back dirty: an operation writes all of its output.
 */
import { SaccadeError } from "../../core/errors.ts";
import { type F32, type Kernels, ordinaryMemory } from "./kernels/api.ts";

/** Floats to a 64-byte line: every buffer starts on one. */
const LINE = 16;

/** A place in an arena, to go back to. */
export type Mark = { readonly block: number; readonly used: number };

export class Arena {
  readonly #blocks: Float32Array[] = [];
  readonly #blockFloats: number;
  readonly #memory: Pick<Kernels, "floats">;
  #block = 0;
  #used = 0;
  #full = 0;
  #peak = 0;

  /** `memory`: the kernels that will work in it. */
  constructor(blockBytes = 32 * 1024 * 1024, memory: Pick<Kernels, "floats"> = ordinaryMemory) {
    this.#memory = memory;
    this.#blockFloats = Math.ceil(blockBytes / 4 / LINE) * LINE;
  }

  /** A buffer of `size` floats with arbitrary contents, good until the next `reset` or a `release` to before it. */
  take(size: number): F32 {
    const floats = Math.ceil(size / LINE) * LINE;
    for (;;) {
      const block = this.#blocks[this.#block];
      if (block === undefined) {
        this.#blocks.push(this.#memory.floats(Math.max(this.#blockFloats, floats)));
      } else if (this.#used + floats <= block.length) {
        const buffer = block.subarray(this.#used, this.#used + size);
        this.#used += floats;
        this.#peak = Math.max(this.#peak, this.#full + this.#used);
        return buffer;
      } else {
        // What is left of this block stays unused until the next reset.
        this.#full += block.length;
        this.#block++;
        this.#used = 0;
      }
    }
  }

  mark(): Mark {
    return { block: this.#block, used: this.#used };
  }

  release(mark: Mark): void {
    this.#block = mark.block;
    this.#used = mark.used;
    this.#full = 0;
    for (let i = 0; i < mark.block; i++) this.#full += (this.#blocks[i] as Float32Array).length;
  }

  reset(): void {
    this.release({ block: 0, used: 0 });
  }

  /** Bytes held, and the most that were ever in use between two resets. */
  get bytes(): { readonly held: number; readonly peak: number } {
    let held = 0;
    for (const block of this.#blocks) held += block.byteLength;
    return { held, peak: this.#peak * 4 };
  }
}

/** [rows, dim], row-major. `grad` appears during the backward pass only. */
export type Tensor = {
  data: F32;
  grad: F32 | null;
  readonly rows: number;
  readonly dim: number;
  /** Whether anything that is trained lies upstream. */
  readonly needsGrad: boolean;
  /** A backward function reads `data`. */
  saved: boolean;
  /** `data` was given back and must be computed again before it is read. */
  dropped: boolean;
  /** Writes `data` again from tensors that are kept. */
  restore: ((data: F32) => void) | null;
};

/** Floats of a tensor that is kept rather than computed again: small ones cost more time than memory. */
const MAX_KEPT = 1 << 19;

export class Tape {
  readonly kernels: Kernels;
  readonly arena: Arena;
  /** False: inference. No gradients, nothing recorded, residual sums in place. */
  readonly recording: boolean;
  readonly #backward: (() => void)[] = [];
  readonly #free = new Map<number, F32[]>();
  readonly #start: Mark;
  readonly #maxKept: number;

  constructor(kernels: Kernels, arena: Arena, mode: "training" | "inference", maxKept = MAX_KEPT) {
    this.#maxKept = maxKept;
    this.kernels = kernels;
    this.arena = arena;
    this.recording = mode === "training";
    this.#start = arena.mark();
  }

  /** A dirty buffer of exactly `size` floats. */
  take(size: number): F32 {
    return this.#free.get(size)?.pop() ?? this.arena.take(size);
  }

  /** Gives a buffer back for the next `take` of its size. */
  give(buffer: F32): void {
    const list = this.#free.get(buffer.length);
    if (list) list.push(buffer);
    else this.#free.set(buffer.length, [buffer]);
  }

  tensor(rows: number, dim: number, needsGrad: boolean, data?: F32): Tensor {
    return {
      data: data ?? this.take(rows * dim),
      grad: null,
      rows,
      dim,
      needsGrad: needsGrad && this.recording,
      saved: false,
      dropped: false,
      restore: null,
    };
  }

  /** The forward pass reads `tensor` no more. */
  drop(tensor: Tensor): void {
    if (tensor.dropped) return;
    if (tensor.saved && (tensor.restore === null || tensor.data.length <= this.#maxKept)) return;
    this.give(tensor.data);
    tensor.dropped = true;
  }

  /** The data of a saved tensor, computed again if it was dropped. For backward functions. */
  need(tensor: Tensor): F32 {
    if (tensor.dropped) {
      if (tensor.restore === null)
        throw new SaccadeError("A dropped tensor is read in the backward pass. Mark it saved.");
      tensor.data = this.take(tensor.rows * tensor.dim);
      tensor.restore(tensor.data);
      tensor.dropped = false;
    }
    return tensor.data;
  }

  /** The gradient of `tensor` to add to: `fresh` means it holds nothing yet and must be overwritten. */
  gradient(tensor: Tensor): { readonly grad: F32; readonly fresh: boolean } {
    if (tensor.grad !== null) return { grad: tensor.grad, fresh: false };
    tensor.grad = this.take(tensor.rows * tensor.dim);
    return { grad: tensor.grad, fresh: true };
  }

  /** The gradient of `tensor` to add to, zero at first. */
  zeroedGradient(tensor: Tensor): F32 {
    const { grad, fresh } = this.gradient(tensor);
    if (fresh) grad.fill(0);
    return grad;
  }

  /** Adds `buffer` to the gradient of `tensor` and takes the buffer over. */
  handGradient(tensor: Tensor, buffer: F32): void {
    if (tensor.grad === null) {
      tensor.grad = buffer;
    } else {
      this.kernels.axpy(tensor.grad, 1, buffer, buffer.length);
      this.give(buffer);
    }
  }

  /** Takes the finished gradient of an operation's output away from it; null when nothing downstream used it. */
  takeGradient(tensor: Tensor): F32 | null {
    const grad = tensor.grad;
    tensor.grad = null;
    // The last reader of the output has run: a restored copy is of no more use.
    if (tensor.restore !== null && !tensor.dropped) {
      this.give(tensor.data);
      tensor.dropped = true;
    }
    return grad;
  }

  record(backward: () => void): void {
    if (this.recording) this.#backward.push(backward);
  }

  /** Runs every backward function once, last first. */
  backward(): void {
    for (let run = this.#backward.pop(); run !== undefined; run = this.#backward.pop()) run();
  }

  /** Everything taken since this tape began goes back to the arena; its tensors are gone. */
  release(): void {
    this.#backward.length = 0;
    this.#free.clear();
    this.arena.release(this.#start);
  }
}
