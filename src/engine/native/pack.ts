/**
 * One pass over sequences that lie end to end: outputs of every position that has a target, and, when learning, the loss of each sequence and
 * the gradient of their sum, added to a buffer. Every image of the pack is encoded once, wherever it appears.
 */
import { type LossTerms, policyLoss, valueLoss } from "../losses.ts";
import type { BatchSequence, JobOf, SequenceResult } from "./jobs.ts";
import type { F32, I32 } from "./kernels/api.ts";
import type { Network } from "./network.ts";
import { type Arena, Tape, type Tensor } from "./tape.ts";

type Outputs = { readonly outputs: F32; readonly entropy?: F32; readonly slopes: F32; readonly entropySlopes?: F32 };

export function runPack(network: Network, arena: Arena, { sequences, frames, learn }: JobOf<"pack">): SequenceResult[] {
  const tape = new Tape(network.kernels, arena, learn === undefined ? "inference" : "training");
  network.setGradient(learn === undefined ? null : new Float32Array(learn.gradient));
  try {
    const images = frames.map(({ patches, gridH, gridW }) => ({ patches: new Float32Array(patches), gridH, gridW }));
    const asked = askedOf(sequences);
    // Where nothing is asked the answers are zeros; the first row stands in.
    const rows = asked.rows.length === 0 ? Int32Array.of(0) : asked.rows;
    const hidden = network.forward(tape, { sequences, images }, rows);
    const found =
      network.head === "value" ? readValues(network, tape, hidden) : readLogprobs(network, tape, hidden, asked);
    /** Where the asked rows of the next sequence begin. */
    let first = 0;
    let anything = false;
    const results = sequences.map((sequence, s): SequenceResult => {
      const places = asked.places[s] as readonly number[];
      const [from, to] = [first, first + places.length];
      first = to;
      const spread = (values: F32) => {
        const whole = new Float32Array(sequence.ids.length);
        places.forEach((place, i) => {
          whole[place] = values[from + i] as number;
        });
        return whole;
      };
      const outputs = spread(found.outputs);
      const entropy = found.entropy && spread(found.entropy);
      let loss: SequenceResult["loss"];
      if (learn !== undefined) {
        const terms = computeLoss(learn.loss, sequence, outputs, entropy);
        places.forEach((place, i) => {
          found.slopes[from + i] = terms.slopes[place] as number;
          if (terms.entropySlopes && found.entropySlopes) {
            found.entropySlopes[from + i] = terms.entropySlopes[place] as number;
          }
        });
        anything ||= terms.tokens > 0;
        loss = { sum: terms.loss, tokens: terms.tokens, metrics: terms.metrics };
      }
      return { outputs, ...(entropy && { entropy }), ...(loss && { loss }) };
    });
    if (anything) tape.backward();
    return results;
  } finally {
    tape.release();
    network.setGradient(null);
  }
}

/** The rows that have targets, of all sequences one below the other; nothing else is asked of the network. */
type Asked = {
  readonly rows: I32;
  readonly targets: I32;
  readonly temperature: F32;
  /** Of each sequence, the positions of its rows. */
  readonly places: readonly (readonly number[])[];
};

function askedOf(sequences: readonly BatchSequence[]): Asked {
  const places = sequences.map(({ targets }) => [...targets.keys()].filter((i) => (targets[i] as number) >= 0));
  const count = places.reduce((sum, { length }) => sum + length, 0);
  const asked = { rows: new Int32Array(count), targets: new Int32Array(count), temperature: new Float32Array(count) };
  let start = 0;
  let at = 0;
  for (const [s, { ids, targets, temperature = 1 }] of sequences.entries()) {
    for (const place of places[s] ?? []) {
      asked.rows[at] = start + place;
      asked.targets[at] = targets[place] as number;
      asked.temperature[at++] = temperature;
    }
    start += ids.length;
  }
  return { ...asked, places };
}

function readLogprobs(network: Network, tape: Tape, hidden: Tensor, { targets, temperature }: Asked): Outputs {
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
