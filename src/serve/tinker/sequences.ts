/**
 * Sequences that stay open after their sample. Every turn of an episode comes as a request with the whole prompt; the sequence whose ids the prompt goes on from
 * has their keys and values still.
 */
import type { ImageSpan, ModelInput } from "../../core/model-input.ts";
import type { Sample, Sampler, SamplingParams } from "../../engine/engine.ts";

/** Of all that wait for a next turn; the oldest go first. */
const MAX_IDS = 65_536;

type Waiting = {
  readonly sampler: Sampler;
  readonly sequence: string;
  readonly ids: Int32Array;
  readonly images: readonly ImageSpan[];
};

export class Sequences {
  /** The one used last is last. */
  readonly #waiting = new Set<Waiting>();
  #ids = 0;
  #made = 0;

  async sample(sampler: Sampler, prompt: ModelInput, params: SamplingParams, signal?: AbortSignal): Promise<Sample> {
    const before = this.#before(sampler, prompt);
    if (before !== undefined) this.#remove(before);
    const sequence = before?.sequence ?? String(this.#made++);
    try {
      const sample = await sampler.sample(prompt, params, { sequence, ...(signal && { signal }) });
      const ids = new Int32Array(prompt.ids.length + sample.ids.length);
      ids.set(prompt.ids);
      ids.set(sample.ids, prompt.ids.length);
      this.#keep({ sampler, sequence, ids, images: prompt.images });
      return sample;
    } catch (error) {
      sampler.release(sequence);
      throw error;
    }
  }

  /** The sampler is closed, and its sequences with it. */
  forget(sampler: Sampler): void {
    for (const one of this.#waiting) if (one.sampler === sampler) this.#remove(one);
  }

  #before(sampler: Sampler, prompt: ModelInput): Waiting | undefined {
    let best: Waiting | undefined;
    for (const one of this.#waiting)
      if (one.sampler === sampler && one.ids.length > (best?.ids.length ?? 0) && goesOn(prompt, one)) best = one;
    return best;
  }

  #keep(one: Waiting): void {
    this.#waiting.add(one);
    this.#ids += one.ids.length;
    for (const oldest of this.#waiting) {
      if (this.#ids <= MAX_IDS) break;
      this.#remove(oldest);
      oldest.sampler.release(oldest.sequence);
    }
  }

  #remove(one: Waiting): void {
    this.#waiting.delete(one);
    this.#ids -= one.ids.length;
  }
}

function goesOn({ ids, images }: ModelInput, before: Waiting): boolean {
  const { length } = before.ids;
  // From the end: siblings have their beginnings in common.
  if (length >= ids.length) return false;
  for (let i = length - 1; i >= 0; i--) if (ids[i] !== before.ids[i]) return false;
  return before.images.every(
    ({ start, image }, i) => images[i]?.start === start && images[i]?.image.hash === image.hash,
  );
}
