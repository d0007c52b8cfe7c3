/**
 * The kernels under the native engine: about thirty fused operations on row-major float32 arrays. There are three
 * implementations: `compiled` and `wasm` (C++, see native/), and `reference` (TypeScript), which says what the others must compute. One test table compares them.
 *
 * Batch invariance is the point. Every forward kernel computes an output row from that row's inputs alone, in an order that
 * depends on nothing else: a matrix product is one chain of fused multiply-adds over ascending k, whatever m, n or blocking;
 * a reduction over a row runs over lanes counted from the start of the row; attention of a query sums over keys counted from the
 * start of its segment. So cached decoding and the packed training forward give the same bits.
 *
 * Kernels may be called from several worker threads at once on different outputs. Threads of one engine that have nothing to do help the others inside a kernel
 * (native/crew.h); a kernel is cut only where no sum crosses the cut, so that too changes no bit.
 */

export type F32 = Float32Array;
export type I32 = Int32Array;
/** 0 or 1: plain numbers cross into C++ fastest. */
export type Flag = 0 | 1;

/** How threads of one engine come to help one another. The reference kernels never do. */
export interface Crew {
  /** This thread computes for engine number `pool`, which has so many threads. */
  join(pool: number, threads: number): void;
  /** Around a job: threads that are in none help those that are. */
  begin(): void;
  end(): void;
  /** Parts of kernels that helpers have done so far. */
  helped(): number;
}

export interface Kernels {
  readonly name: "compiled" | "wasm" | "reference";
  /** What runs: "avx2", "generic", "simd128", "typescript". */
  readonly isa: string;
  readonly crew: Crew;

  // ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────
  /** Zeros where kernels reach them fastest. Kernels take any array; for buffers that are used again and again ask here. */
  floats(count: number): F32;
  /** Gives back what `floats` made; it must not be used any more. */
  free(array: F32): void;

  // ── matrix products ──────────────────────────────────────────────────────────────────────────────────────────
  /** c[m,n] = (accumulate ? c : 0) + op(a)·op(b). a is [m,k], or [k,m] when transA; b is [k,n], or [n,k] when transB. ld* are row strides of the arrays as stored. */
  matmul(
    c: F32,
    ldc: number,
    a: F32,
    lda: number,
    b: F32,
    ldb: number,
    m: number,
    n: number,
    k: number,
    transA: Flag,
    transB: Flag,
    accumulate: Flag,
  ): void;
  /** c[n,n] = op(x)·op(x)ᵀ; x is [n,k], or [k,n] when trans. Same bits as `matmul`, for little more than half of its work. */
  gram(c: F32, x: F32, ldx: number, n: number, k: number, trans: Flag): void;
  /** Floats that `pack` writes. */
  packedSize(n: number, k: number): number;
  /** Rearranges b ([k,n], or [n,k] when transB) into panels for `matmulPacked`. */
  pack(packed: F32, b: F32, ldb: number, n: number, k: number, transB: Flag): void;
  /** c[m,n] = (accumulate ? c : 0) + a[m,k]·b, then + bias[n] when bias is not null. Same bits as `matmul` (then adding the bias). */
  matmulPacked(
    c: F32,
    ldc: number,
    a: F32,
    lda: number,
    packed: F32,
    bias: F32 | null,
    m: number,
    n: number,
    k: number,
    accumulate: Flag,
  ): void;

  // ── attention ────────────────────────────────────────────────────────────────────────────────────────────────
  /**
   * Softmax attention inside segments. q, out: [t, heads*headDim]; k, v: [t, kvHeads*headDim]; row strides given. `segments` holds (start, length) pairs
   * over rows, `queries` those rows (in ascending pairs inside segments, often `segments` itself) whose attention is wanted: keys and values of a segment
   * always count, other rows of out and lse are left alone. Query head h uses kv head floor(h / (heads/kvHeads)). lse[t, heads] receives
   * log-sum-exp of the scaled scores, for the backward pass. causal: query i sees keys 0..i of its segment, else all of the segment.
   */
  attention(
    out: F32,
    ldo: number,
    lse: F32,
    q: F32,
    ldq: number,
    k: F32,
    ldk: number,
    v: F32,
    ldv: number,
    segments: I32,
    queries: I32,
    heads: number,
    kvHeads: number,
    headDim: number,
    scale: number,
    causal: Flag,
  ): void;
  /** Overwrites dq, dk, dv (same layouts and strides as q, k, v) in all rows of the segments; dq is 0 where nothing was wanted. `out` and `lse` are those of the forward pass. */
  attentionBackward(
    dq: F32,
    dk: F32,
    dv: F32,
    dout: F32,
    ldo: number,
    out: F32,
    lse: F32,
    q: F32,
    ldq: number,
    k: F32,
    ldk: number,
    v: F32,
    ldv: number,
    segments: I32,
    queries: I32,
    heads: number,
    kvHeads: number,
    headDim: number,
    scale: number,
    causal: Flag,
  ): void;
  /** Floats of a key cache, and of a value cache, for `capacity` positions (rounded up inside). */
  cacheSize(capacity: number, kvHeads: number, headDim: number): number;
  /**
   * Writes rows of k and v into caches. `table` holds one entry of 4 numbers per run: (row, count, cacheOffset, position): rows row..row+count-1 of k/v go to
   * positions position..position+count-1 of the cache that starts at float cacheOffset of kCache/vCache and was sized for `capacity` positions.
   */
  cacheWrite(
    kCache: F32,
    vCache: F32,
    k: F32,
    ldk: number,
    v: F32,
    ldv: number,
    table: I32,
    capacity: number,
    kvHeads: number,
    headDim: number,
  ): void;
  /** Copies the first `length` positions of one cache to another (for siblings that share a prefix), capacities may differ. */
  cacheCopy(
    kTo: F32,
    vTo: F32,
    toOffset: number,
    toCapacity: number,
    kFrom: F32,
    vFrom: F32,
    fromOffset: number,
    fromCapacity: number,
    length: number,
    kvHeads: number,
    headDim: number,
  ): void;
  /**
   * Causal attention of new rows against caches that already hold their own keys. `table` as in cacheWrite: query row+i sits at position+i and sees positions
   * 0..position+i. Bit for bit what `attention` gives for the same sequence.
   */
  attentionCached(
    out: F32,
    ldo: number,
    q: F32,
    ldq: number,
    kCache: F32,
    vCache: F32,
    table: I32,
    capacity: number,
    heads: number,
    kvHeads: number,
    headDim: number,
    scale: number,
  ): void;

  // ── norms, activations, positions ────────────────────────────────────────────────────────────────────────────
  /** out = x * inv * w, inv[row] = 1/sqrt(mean(x²)+eps), over `rows` contiguous rows of length dim. out may be x. */
  rmsNorm(out: F32, inv: F32, x: F32, w: F32, rows: number, dim: number, eps: number): void;
  /** dx (+)= …, dw += … */
  rmsNormBackward(
    dx: F32,
    dw: F32,
    dy: F32,
    x: F32,
    w: F32,
    inv: F32,
    rows: number,
    dim: number,
    accumulate: Flag,
  ): void;
  layerNorm(out: F32, mean: F32, inv: F32, x: F32, w: F32, b: F32, rows: number, dim: number, eps: number): void;
  /** dx (+)= …, dw += …, db += … */
  layerNormBackward(
    dx: F32,
    dw: F32,
    db: F32,
    dy: F32,
    x: F32,
    w: F32,
    mean: F32,
    inv: F32,
    rows: number,
    dim: number,
    accumulate: Flag,
  ): void;
  /** Rotates halves in place: x[row, head, i], x[row, head, i+half] by angle whose cos/sin[row, i] are given, i < half = headDim/2. inverse: by the negative angle. ldx is the row stride of x. */
  rope(x: F32, ldx: number, cos: F32, sin: F32, rows: number, heads: number, headDim: number, inverse: Flag): void;
  /** out = silu(gate) * up */
  siluMul(out: F32, gate: F32, up: F32, n: number): void;
  siluMulBackward(dgate: F32, dup: F32, dout: F32, gate: F32, up: F32, n: number): void;
  /** tanh: GELU's tanh approximation, else the exact one with erf. */
  gelu(out: F32, x: F32, n: number, tanh: Flag): void;
  /** dx = dy * gelu'(x) */
  geluBackward(dx: F32, dy: F32, x: F32, n: number, tanh: Flag): void;

  // ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────
  /** out[i] = table[ids[i]] */
  gatherRows(out: F32, table: F32, ids: I32, rows: number, dim: number): void;
  /** table[ids[i]] += x[i], in ascending i. */
  scatterAddRows(table: F32, x: F32, ids: I32, rows: number, dim: number): void;
  /** out[ids[i]] = x[i] */
  scatterRows(out: F32, x: F32, ids: I32, rows: number, dim: number): void;
  /** out[i] = Σ_j weights[i*taps+j] * table[ids[i*taps+j]] (accumulate: added to out). */
  mixRows(
    out: F32,
    table: F32,
    ids: I32,
    weights: F32,
    rows: number,
    taps: number,
    dim: number,
    accumulate: Flag,
  ): void;
  /** table[ids[i*taps+j]] += weights[i*taps+j] * dy[i] */
  mixRowsBackward(dtable: F32, dy: F32, ids: I32, weights: F32, rows: number, taps: number, dim: number): void;
  /** sums[dim] += Σ_rows x[row], in ascending row. */
  sumRows(sums: F32, x: F32, rows: number, dim: number): void;
  /** y[i] += a * x[i] */
  axpy(y: F32, a: number, x: F32, n: number): void;
  /** x[i] *= a */
  scale(x: F32, a: number, n: number): void;
  /** Σ x², in double, in a fixed order. */
  sumSquares(x: F32, n: number): number;

  // ── token distributions ──────────────────────────────────────────────────────────────────────────────────────
  /**
   * Row-wise log-softmax of logits/temperature[row] with forbidden ids removed (allowed[v] = 0 → −∞ in `out`). One function for sampler and learner.
   * out may be logits (in place).
   */
  logSoftmax(out: F32, logits: F32, temperature: F32, allowed: Uint8Array | null, rows: number, vocab: number): void;
  /**
   * For each row: logprob of targets[row] and entropy, same bits as logSoftmax; lse[row*2] = max, lse[row*2+1] = log-sum, for the backward pass. A target < 0
   * gives 0 and is skipped.
   */
  tokenLogprobs(
    logprobs: F32,
    entropy: F32,
    lse: F32,
    logits: F32,
    targets: I32,
    temperature: F32,
    allowed: Uint8Array | null,
    rows: number,
    vocab: number,
  ): void;
  /** dlogits = ∂/∂logits of Σ dlogprob[row]·logprob[row] + dentropy[row]·entropy[row]; may overwrite logits in place. Forbidden ids get 0. */
  tokenLogprobsBackward(
    dlogits: F32,
    logits: F32,
    targets: I32,
    temperature: F32,
    allowed: Uint8Array | null,
    lse: F32,
    entropy: F32,
    dlogprob: F32,
    dentropy: F32,
    rows: number,
    vocab: number,
  ): void;

  // ── optimizers ───────────────────────────────────────────────────────────────────────────────────────────────
  /** AdamW with decoupled decay. g is multiplied by gradScale first; correction1/2 = 1 − beta^step. */
  adamw(
    p: F32,
    g: F32,
    m: F32,
    v: F32,
    n: number,
    lr: number,
    beta1: number,
    beta2: number,
    eps: number,
    weightDecay: number,
    correction1: number,
    correction2: number,
    gradScale: number,
  ): void;
  /** Runs fused multiply-adds in registers for about `ms` milliseconds; GFLOP/s of this core. The roof that matmul is measured against. */
  peak(ms: number): number;
}

/** Arrays of JavaScript's own: kernels that run in this process reach them where they are. */
export const ordinaryMemory: Pick<Kernels, "floats" | "free"> = {
  floats: (count) => new Float32Array(count),
  free() {},
};
