/**
 * What the network says at its end: log-probabilities of given tokens, or values. Only rows that are asked for are computed, and
 * logits [rows, vocab] exist for one chunk at a time. A loss needs all outputs before it knows its gradient, so an output comes
 * with empty gradient arrays: the caller fills them and runs the tape backward. Larger heads compute their logits again there.
 */
import type { F32, I32 } from "./kernels/api.ts";
import type { Linear } from "./ops.ts";
import type { Tape, Tensor } from "./tape.ts";

/** Bytes of logits that may exist at once. */
const LOGIT_BYTES = 16 * 1024 * 1024;

/** Per row of the hidden states; 0 where the target is negative. Arrays of their own, outside the arena. */
export type TokenScores = {
  readonly logprobs: F32;
  readonly entropy: F32;
  /** To be filled with ∂loss/∂logprobs and ∂loss/∂entropy before the backward pass; zeros at first. */
  readonly logprobGradients: F32;
  readonly entropyGradients: F32;
};

export type RowValues = { readonly values: F32; readonly gradients: F32 };

/**
 * log-softmax(logits / temperature[row]) at targets[row], and its entropy. `allowed` is the mask of ids that may be sampled, or null for all.
 */
export function tokenScores(
  tape: Tape,
  hidden: Tensor,
  head: Linear,
  targets: I32,
  temperature: F32,
  allowed: Uint8Array | null,
  logitBytes = LOGIT_BYTES,
): TokenScores {
  const { kernels } = tape;
  const { out: vocab, in: dim } = head;
  const rows = Int32Array.from([...targets.keys()].filter((row) => (targets[row] as number) >= 0));
  const count = rows.length;
  const chunk = Math.max(1, Math.min(count, Math.floor(logitBytes / 4 / vocab)));
  const asked = { targets: new Int32Array(count), temperature: new Float32Array(count) };
  const got = { logprobs: new Float32Array(count), entropy: new Float32Array(count), lse: new Float32Array(count * 2) };
  for (let i = 0; i < count; i++) {
    const row = rows[i] as number;
    asked.targets[i] = targets[row] as number;
    asked.temperature[i] = temperature[row] as number;
  }
  const scores: TokenScores = {
    logprobs: new Float32Array(hidden.rows),
    entropy: new Float32Array(hidden.rows),
    logprobGradients: new Float32Array(hidden.rows),
    entropyGradients: new Float32Array(hidden.rows),
  };
  if (count === 0) return scores;

  const chosen = tape.take(chunk * dim);
  const logits = tape.take(chunk * vocab);
  const computeLogits = (states: F32, at: number, size: number) => {
    kernels.gatherRows(chosen, states, rows.subarray(at, at + size), size, dim);
    kernels.matmulPacked(logits, vocab, chosen, dim, head.packed(kernels), null, size, vocab, dim, 0);
  };
  for (let at = 0; at < count; at += chunk) {
    const end = Math.min(at + chunk, count);
    computeLogits(hidden.data, at, end - at);
    kernels.tokenLogprobs(
      got.logprobs.subarray(at, end),
      got.entropy.subarray(at, end),
      got.lse.subarray(at * 2, end * 2),
      logits,
      asked.targets.subarray(at, end),
      asked.temperature.subarray(at, end),
      allowed,
      end - at,
      vocab,
    );
  }
  for (let i = 0; i < count; i++) {
    const row = rows[i] as number;
    scores.logprobs[row] = got.logprobs[i] as number;
    scores.entropy[row] = got.entropy[i] as number;
  }
  if (!tape.recording || !(hidden.needsGrad || head.trained)) {
    tape.give(chosen);
    tape.give(logits);
    return scores;
  }

  hidden.saved = true;
  tape.record(() => {
    const states = tape.need(hidden);
    const dhidden = hidden.needsGrad ? tape.zeroedGradient(hidden) : null;
    const dchosen = dhidden === null ? null : tape.take(chunk * dim);
    const dlogprob = gather(scores.logprobGradients, rows);
    const dentropy = gather(scores.entropyGradients, rows);
    for (let at = 0; at < count; at += chunk) {
      const end = Math.min(at + chunk, count);
      // A single chunk is still there from the forward pass.
      if (count > chunk) computeLogits(states, at, end - at);
      kernels.tokenLogprobsBackward(
        logits,
        logits,
        asked.targets.subarray(at, end),
        asked.temperature.subarray(at, end),
        allowed,
        got.lse.subarray(at * 2, end * 2),
        got.entropy.subarray(at, end),
        dlogprob.subarray(at, end),
        dentropy.subarray(at, end),
        end - at,
        vocab,
      );
      const { grad } = head.weight;
      if (grad !== null) kernels.matmul(grad, dim, logits, vocab, chosen, dim, vocab, dim, end - at, 1, 0, 1);
      if (dhidden === null || dchosen === null) continue;
      kernels.matmulPacked(dchosen, dim, logits, vocab, head.packedBackward(kernels), null, end - at, dim, vocab, 0);
      kernels.scatterAddRows(dhidden, dchosen, rows.subarray(at, end), end - at, dim);
    }
    if (dchosen !== null) tape.give(dchosen);
    tape.give(chosen);
    tape.give(logits);
  });
  return scores;
}

function gather(values: F32, rows: I32): F32 {
  const out = new Float32Array(rows.length);
  for (let i = 0; i < rows.length; i++) out[i] = values[rows[i] as number] as number;
  return out;
}

/** One number for every row: a layer with one output. */
export function rowValues(tape: Tape, hidden: Tensor, head: Linear): RowValues {
  const { kernels } = tape;
  const { rows } = hidden;
  const dim = head.in;
  const values = new Float32Array(rows);
  const gradients = new Float32Array(rows);
  kernels.matmulPacked(values, 1, hidden.data, dim, head.packed(kernels), null, rows, 1, dim, 0);
  if (!tape.recording || !(hidden.needsGrad || head.trained)) return { values, gradients };
  hidden.saved = true;
  tape.record(() => {
    const { grad: dweight } = head.weight;
    if (dweight !== null) {
      kernels.matmul(dweight, dim, gradients, 1, tape.need(hidden), dim, 1, dim, rows, 1, 0, 1);
    }
    if (!hidden.needsGrad) return;
    const { grad, fresh } = tape.gradient(hidden);
    kernels.matmul(grad, dim, gradients, 1, head.weight.value, dim, rows, dim, 1, 0, 0, fresh ? 0 : 1);
  });
  return { values, gradients };
}
