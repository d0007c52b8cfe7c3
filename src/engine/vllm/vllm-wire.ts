/** The bodies of vLLM's render and generate routes. */
import { z } from "zod";
import type { Features } from "../../core/model-input.ts";
import { EngineError } from "../errors.ts";
import { encodeFeatures } from "../features.ts";
import { finishOf, type Generated, type GenerateRequest, sharedParams } from "./token-server.ts";

export type Rendered = {
  readonly ids: number[];
  readonly images: readonly {
    readonly hash: string;
    readonly start: number;
    readonly length: number;
    readonly data: string;
  }[];
};

export const renderedSchema = z.looseObject({
  token_ids: z.array(z.int()),
  features: z
    .looseObject({
      mm_hashes: z.record(z.string(), z.array(z.string())),
      mm_placeholders: z.record(z.string(), z.array(z.looseObject({ offset: z.int(), length: z.int() }))),
      kwargs_data: z.record(z.string(), z.array(z.string().nullable())).nullish(),
    })
    .nullish(),
});
// 0.32 says token_id; older releases spell the token token_id:314.
const scored = z.looseObject({ token_id: z.int().optional(), token: z.string().optional(), logprob: z.number() });
export const generatedSchema = z.looseObject({
  choices: z.array(
    z.looseObject({
      token_ids: z.array(z.int()),
      finish_reason: z.string().nullish(),
      logprobs: z
        .looseObject({ content: z.array(scored.extend({ top_logprobs: z.array(scored).optional() })) })
        .nullish(),
      weight_versions: z.array(z.looseObject({ version: z.string(), start: z.int(), end: z.int() })).nullish(),
    }),
  ),
  prompt_logprobs: z.array(z.record(z.string(), z.looseObject({ logprob: z.number() })).nullable()).nullish(),
});

export function readRendered({ token_ids: ids, features }: z.output<typeof renderedSchema>, url: string): Rendered {
  const images = (features?.mm_hashes.image ?? []).map((hash, i) => {
    const place = features?.mm_placeholders.image?.[i];
    const data = features?.kwargs_data?.image?.[i];
    if (place === undefined || typeof data !== "string") {
      throw new EngineError(`${url} rendered an image without its place or its pixels.`);
    }
    return { hash, start: place.offset, length: place.length, data };
  });
  return { ids, images };
}

export function readGenerated(answer: z.output<typeof generatedSchema>, url: string): Generated {
  const [choice] = answer.choices;
  const ids = choice?.token_ids ?? [];
  const content = choice?.logprobs?.content ?? [];
  if (content.length !== ids.length) {
    throw new EngineError(`${url} sent ${ids.length} ids with ${content.length} log-probabilities.`);
  }
  const logprobs = content.map((entry, i) => {
    if (idOf(entry) !== ids[i]) throw new EngineError(`${url} sent log-probabilities of other ids.`);
    return entry.logprob;
  });
  const spans = choice?.weight_versions;
  const { prompt_logprobs: prompt } = answer;
  return {
    ids,
    logprobs,
    versions: ids.map((_, i) => spans?.find(({ start, end }) => start <= i && i < end)?.version ?? ""),
    finish: finishOf(choice?.finish_reason),
    topLogprobs: content.map(({ top_logprobs = [] }) =>
      top_logprobs.map((entry) => ({ id: idOf(entry), logprob: entry.logprob })),
    ),
    ...(prompt && {
      promptLogprobs: Float32Array.from(prompt, (place) => Object.values(place ?? {})[0]?.logprob ?? 0),
    }),
  };
}

/** `sent`: hashes of images that the server has. */
export function generateBody(request: GenerateRequest, model: string, sent: ReadonlySet<string>) {
  const { images } = request;
  return {
    model,
    token_ids: Array.from(request.ids),
    sampling_params: {
      ...sharedParams(request),
      max_tokens: request.maxTokens,
      seed: request.seed,
      top_k: request.topK ?? 0,
      logprobs: request.topLogprobs ?? 0,
      ...(request.promptLogprobs && { prompt_logprobs: 0 }),
      ...(request.grammar !== undefined && { structured_outputs: { grammar: request.grammar } }),
      ...(request.stopStrings?.length && { include_stop_str_in_output: true }),
    },
    ...(images.length > 0 && {
      features: {
        mm_hashes: { image: images.map(({ features }) => features.hash) },
        mm_placeholders: { image: images.map(({ start, length }) => ({ offset: start, length })) },
        kwargs_data: { image: images.map(({ features }) => (sent.has(features.hash) ? null : encoded(features))) },
      },
    }),
  };
}

const known = new WeakMap<Features, string>();

function encoded(features: Features): string {
  const text = known.get(features) ?? encodeFeatures(features);
  known.set(features, text);
  return text;
}

function idOf({ token_id: id, token }: z.output<typeof scored>): number {
  return id ?? Number(token?.replace("token_id:", ""));
}
