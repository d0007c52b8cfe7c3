/**
 * No gradient, no step: a batch in which nothing has an advantage would still move the weights by momentum and weight decay. Whether a loss
 * pulls at anything follows from its slopes at the log-probabilities that the learner saw, KL and entropy terms included.
 */
import type { CustomLoss, Datum, Loss } from "../engine/engine.ts";
import { policyLoss } from "../engine/losses.ts";

/** A loss that says afterwards whether it pulled at anything. */
export class WatchedLoss {
  readonly watched: Loss;
  #pulled = false;

  constructor(loss: Loss) {
    this.watched =
      loss.name !== "custom" ? loss : { ...loss, compute: (sequences) => this.#watch(loss.compute(sequences)) };
  }

  /** Whether it may pull at this batch, known before the forward pass: a function's pull is not. */
  mayPull(data: readonly Datum[]): boolean {
    const loss = this.watched;
    if (loss.name === "custom") return false;
    if (loss.name === "value" || loss.name === "cross-entropy" || loss.kl !== undefined || loss.entropy) return true;
    return data.some(({ weights, advantages }) => weights.some((weight, i) => weight !== 0 && advantages?.[i] !== 0));
  }

  /** Whether the loss of this batch has any slope; `outputs` are the log-probabilities it was taken at. */
  pulls(data: readonly Datum[], outputs: readonly Float32Array[]): boolean {
    const loss = this.watched;
    if (loss.name === "custom") {
      const pulled = this.#pulled;
      this.#pulled = false;
      return pulled;
    }
    if (loss.name === "value") return true;
    return data.some((datum, k) => {
      const { slopes, entropySlopes } = policyLoss(loss, datum, outputs[k] as Float32Array);
      return slopes.some(isPull) || (entropySlopes !== undefined && datum.weights.some(isPull));
    });
  }

  #watch(terms: ReturnType<CustomLoss>): ReturnType<CustomLoss> {
    this.#pulled ||= terms.gradients.some((gradient) => gradient.some(isPull));
    return terms;
  }
}

/** NaN pulls too: the engine is to see it and say so. */
const isPull = (slope: number) => slope !== 0;
