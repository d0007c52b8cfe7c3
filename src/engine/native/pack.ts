/**
 * One pass over sequences that lie end to end: outputs of every position that has a target, and, when learning, the loss of each sequence and
 * the gradient of their sum, added to a buffer. Every picture of the pack is encoded once, wherever it appears.
 */
import { type LossTerms, policyLoss, valueLoss } from "../losses.ts";
import type { BatchSequence, JobOf, SequenceResult } from "./jobs.ts";
import type { F32 } from "./kernels/api.ts";
import type { Network } from "./network.ts";
import { type Arena, Tape, type Tensor } from "./tape.ts";

type Outputs = { readonly outputs: F32; readonly entropy?: F32; readonly slopes: F32; readonly entropySlopes?: F32 };

export function runPack(network: Network, arena: Arena, { sequences, frames, learn }: JobOf<"pack">): SequenceResult[] {
  const tape = new Tape(network.kernels, arena, learn === undefined ? "inference" : "training");
  network.setGradient(learn === undefined ? null : new Float32Array(learn.gradient));
  try {
    const images = frames.map(({ patches, gridH, gridW }) => ({ patches: new Float32Array(patches), gridH, gridW }));
    const hidden = network.forward(tape, { sequences, images });
    const found =
      network.head === "value" ? readValues(network, tape, hidden) : readLogprobs(network, tape, hidden, sequences);
    let start = 0;
    let anything = false;
    const results = sequences.map((sequence): SequenceResult => {
      const end = start + sequence.ids.length;
      const outputs = found.outputs.slice(start, end);
      // A value head gives every row a number; only those with a target were asked for.
      for (let i = 0; i < outputs.length; i++) if ((sequence.targets[i] as number) < 0) outputs[i] = 0;
      const entropy = found.entropy?.slice(start, end);
      let loss: SequenceResult["loss"];
      if (learn !== undefined) {
        const terms = computeLoss(learn.loss, sequence, outputs, entropy);
        found.slopes.set(terms.slopes, start);
        if (terms.entropySlopes) found.entropySlopes?.set(terms.entropySlopes, start);
        anything ||= terms.tokens > 0;
        loss = { sum: terms.loss, tokens: terms.tokens, metrics: terms.metrics };
      }
      start = end;
      return { outputs, ...(entropy && { entropy }), ...(loss && { loss }) };
    });
    if (anything) tape.backward();
    return results;
  } finally {
    tape.release();
    network.setGradient(null);
  }
}

function readLogprobs(network: Network, tape: Tape, hidden: Tensor, sequences: readonly BatchSequence[]): Outputs {
  const targets = new Int32Array(hidden.rows);
  const temperature = new Float32Array(hidden.rows);
  let start = 0;
  for (const sequence of sequences) {
    const end = start + sequence.ids.length;
    targets.set(sequence.targets, start);
    temperature.fill(sequence.temperature ?? 1, start, end);
    start = end;
  }
  const scores = network.logprobs(tape, hidden, targets, temperature);
  return {
    outputs: scores.logprobs,
    entropy: scores.entropy,
    slopes: scores.logprobGradients,
    entropySlopes: scores.entropyGradients,
  };
}

function readValues(network: Network, tape: Tape, hidden: Tensor): Outputs {
  const { values, gradients } = network.values(tape, hidden);
  return { outputs: values, slopes: gradients };
}

function computeLoss(
  loss: NonNullable<JobOf<"pack">["learn"]>["loss"],
  sequence: BatchSequence,
  outputs: F32,
  entropy: F32 | undefined,
): LossTerms {
  return loss.name === "value" ? valueLoss(loss, sequence, outputs) : policyLoss(loss, sequence, outputs, entropy);
}
