/** A logged token sequence as a list of tokens, each with what is known of it. */
import type { Maybe, TokensRecord } from "../src/viewer/api.ts";
import { isNumber } from "./format.ts";

export type TokenKind = "p" | "s" | "f" | "o" | "i";

export const KIND_WORDS: Readonly<Record<TokenKind, string>> = {
  p: "prompt",
  s: "sampled",
  f: "forced",
  o: "observation",
  i: "image",
};

export type Token = {
  readonly index: number;
  readonly id: number;
  readonly text: string;
  readonly kind: TokenKind;
  /** Goes up where a reply starts or ends. */
  readonly block: number;
  readonly sampler: Maybe;
  readonly learner: Maybe;
  /** Learner less sampler; null where nothing was sampled or scored. */
  readonly drift: Maybe;
  readonly ratio: Maybe;
  readonly advantage: Maybe;
  readonly clipped: boolean;
  readonly image?: TokensRecord["images"][number];
};

export function tokensOf(record: TokensRecord): Token[] {
  const clipped = new Set(record.clipped ?? []);
  const edges = new Set(record.replies.flatMap(({ start, end }) => [start, end]));
  const images = new Map(
    record.images.flatMap((image) => Array.from({ length: image.length }, (_, i) => [image.start + i, image] as const)),
  );
  let block = 0;
  return record.ids.map((id, index) => {
    if (edges.has(index)) block++;
    const kind = (record.kinds[index] ?? "o") as TokenKind;
    const sampler = record.samplerLogprobs[index] ?? null;
    const learner = record.learnerLogprobs?.[index] ?? null;
    const drift = kind === "s" && isNumber(sampler) && isNumber(learner) ? learner - sampler : null;
    const image = images.get(index);
    return {
      index,
      id,
      text: record.texts?.[index] ?? `#${id}`,
      kind,
      block,
      sampler,
      learner,
      drift,
      ratio: drift === null ? null : Math.exp(drift),
      advantage: record.advantages?.[index] ?? null,
      clipped: clipped.has(index),
      ...(image && { image }),
    };
  });
}

/** Sampled tokens, the least likely first. */
export function mostSurprising(tokens: readonly Token[], most: number): Token[] {
  return tokens
    .filter(({ kind, sampler }) => kind === "s" && isNumber(sampler))
    .sort((a, b) => (a.sampler ?? 0) - (b.sampler ?? 0))
    .slice(0, most);
}

export function worstDrift(tokens: readonly Token[], most: number): Token[] {
  return tokens
    .filter(({ drift }) => drift !== null)
    .sort((a, b) => Math.abs(b.drift ?? 0) - Math.abs(a.drift ?? 0))
    .slice(0, most);
}
