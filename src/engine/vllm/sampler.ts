/**
 * A `Sampler` on inference servers. Scores come from the learner's own snapshot of the same weights: servers neither mask vision ids nor apply the
 * temperature to log-probabilities of a prompt.
 */
import type { Features, ImageSpan, ModelInput } from "../../core/model-input.ts";
import type { ImageProcessor } from "../../model/image-processor.ts";
import type { Datum, OnToken, Sample, SampleContext, Sampler, SamplingParams, Scores } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { processedFeatures } from "../features.ts";
import type { Fleet, Weights } from "./fleet.ts";
import type { Drawn, Generated, PromptImage } from "./token-server.ts";

export type VllmSamplerParts = {
  readonly fleet: Fleet;
  /** The weights that answer; the newest where they are swapped in place. */
  readonly weights: () => Weights;
  readonly own: Sampler;
  readonly processor: ImageProcessor;
  readonly visionIds: readonly number[];
  readonly onClose?: () => Promise<void>;
};

export class VllmSampler implements Sampler {
  readonly version: number;
  readonly #parts: VllmSamplerParts;
  #closed = false;

  constructor(parts: VllmSamplerParts) {
    this.#parts = parts;
    this.version = parts.own.version;
  }

  async sample(prompt: ModelInput, params: SamplingParams, context: SampleContext): Promise<Sample> {
    if (this.#closed) throw new EngineError(`The sampler of version ${this.version} is closed. Publish another.`);
    if (params.rawLogprobs)
      throw new EngineError("A vLLM server reports one kind of log-probability: leave rawLogprobs out.");
    const images = prompt.images.map((span) => this.#image(span));
    const { onToken } = context;
    context.onSeen?.();
    const parts: Generated[] = [];
    let ids: readonly number[] = [...prompt.ids];
    let left = params.maxTokens;
    // A sample that was stopped continues where it was.
    while (true) {
      const answer = await this.#parts.fleet.generate(
        {
          ...params,
          ids,
          images,
          maxTokens: left,
          seed: params.seed + parts.length,
          stopIds: params.stopIds ?? [],
          bannedIds: this.#parts.visionIds,
          session: context.sequence,
          promptLogprobs: params.promptLogprobs === true && parts.length === 0,
          ...(context.signal && { signal: context.signal }),
          ...(onToken && { onPart: (part: Drawn) => tellTokens(part, params, onToken) }),
        },
        this.#parts.weights,
      );
      parts.push(answer);
      left -= answer.ids.length;
      if (answer.finish !== "abort" || left <= 0) break;
      if (params.grammar !== undefined) {
        // A server follows a grammar from its beginning only.
        throw new EngineError("The server stopped an answer that follows a grammar. Request it again.");
      }
      ids = [...ids, ...answer.ids];
    }
    return this.#whole(parts, params);
  }

  score(data: readonly Datum[]): Promise<Scores[]> {
    return this.#parts.own.score(data);
  }

  release(sequence: string): void {
    this.#parts.fleet.release(sequence);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#parts.own.close();
    await this.#parts.onClose?.();
  }

  #whole(parts: readonly Generated[], params: SamplingParams): Sample {
    const ids = Int32Array.from(parts.flatMap((part) => part.ids));
    const logprobs = Float32Array.from(parts.flatMap((part) => part.logprobs));
    const named = parts.flatMap((part) => part.versions);
    const inPlace = this.#parts.weights().kind !== "adapter";
    const versions = Int32Array.from(named, (name) => (inPlace ? Number(name) : this.version));
    return {
      ids,
      logprobs,
      versions,
      version: versions[0] ?? this.version,
      stopReason: parts.at(-1)?.finish === "length" || ids.length >= params.maxTokens ? reasonOf(ids, params) : "stop",
      ...(params.topLogprobs !== undefined && { topLogprobs: parts.flatMap((part) => part.topLogprobs) }),
      // A server does not tell how much its mask removed.
      ...(params.grammar !== undefined && { masked: new Uint8Array(ids.length).fill(1) }),
      ...(parts[0]?.promptLogprobs && { promptLogprobs: parts[0].promptLogprobs }),
    };
  }

  /** Processed only where the server takes features. */
  #image(span: ImageSpan): PromptImage {
    const featuresOf = () => span.features ?? this.#features(span);
    return {
      start: span.start,
      length: span.length,
      image: span.image,
      get features() {
        return featuresOf();
      },
    };
  }

  /** For an image that no server rendered. */
  #features({ image }: ImageSpan): Features {
    const known = made.get(image);
    if (known !== undefined) return known;
    const features = processedFeatures(image, this.#parts.processor, `saccade-${image.hash}`);
    made.set(image, features);
    return features;
  }
}

function tellTokens({ ids, logprobs, topLogprobs }: Drawn, params: SamplingParams, onToken: OnToken): void {
  const asked = params.topLogprobs !== undefined;
  for (const [i, id] of ids.entries()) onToken(id, logprobs[i] as number, asked ? topLogprobs[i] : undefined);
}

const made = new WeakMap<object, Features>();

/** The last id that fits may also be one that ends the reply. */
function reasonOf(ids: Int32Array, { stopIds = [] }: SamplingParams): Sample["stopReason"] {
  return stopIds.includes(ids.at(-1) ?? -1) ? "stop" : "length";
}
