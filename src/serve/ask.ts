/** What the OpenAI and vLLM routes share: the request with its model, prompts that fit, and log-probabilities of prompts. */
import type { ModelInput } from "../core/model-input.ts";
import type { HttpRequest } from "../http/request.ts";
import { badField } from "../wire/errors.ts";
import { logprobNumber, MIN_LOGPROB } from "../wire/reply.ts";
import type { Retries } from "../wire/retries.ts";
import type { Wires } from "../wire/wires.ts";
import type { Backend } from "./backend.ts";

/** The vLLM release whose wire we speak. */
export const VLLM_VERSION = "0.32.0";

export type Ask = {
  readonly backend: Backend;
  readonly wires: Wires;
  readonly retries: Retries;
  readonly request: HttpRequest;
  readonly query: URLSearchParams;
  /** Weights can be loaded from inside this folder. */
  readonly store: string | undefined;
};

/** Refuses a prompt that would only fail after the answer has begun. */
export function checkPrompt(
  { ids, images }: { readonly ids: Int32Array; readonly images: readonly { readonly length: number }[] },
  { chat, contextTokens }: Backend,
): void {
  const outside = ids.find((id) => !(id >= 0 && id < chat.vocabSize));
  if (outside !== undefined)
    throw badField(null, `Token id ${outside} is outside the vocabulary of ${chat.vocabSize}.`);
  if (ids.length >= contextTokens) {
    throw badField(
      "input_tokens",
      `The prompt has ${ids.length} tokens and leaves no room in the context of ${contextTokens}: shorten it.`,
    );
  }
  const pads = ids.reduce((count, id) => count + (id === chat.ids.imageToken ? 1 : 0), 0);
  const covered = images.reduce((sum, { length }) => sum + length, 0);
  if (pads !== covered) {
    throw badField(null, `The prompt has ${pads} image placeholders, but its images have ${covered} tokens.`);
  }
}

/** Calls `release` once the answer was sent. */
export function holdFor({ onEnd }: HttpRequest, release: () => void): void {
  if (onEnd === undefined) release();
  else onEnd(release);
}

/** Null for the first id, then each id with its log-probability; its rank is not known. */
export async function promptLogprobs(
  wanted: number | null | undefined,
  backend: Backend,
  model: string,
  prompt: ModelInput,
): Promise<unknown> {
  if (wanted === undefined || wanted === null) return null;
  const logprobs = await backend.promptLogprobs(model, prompt);
  const { tokenizer, ids } = backend.chat;
  return [...prompt.ids].map((id, i) => {
    if (i === 0) return null;
    // The model never says placeholders.
    const logprob = id === ids.imageToken ? MIN_LOGPROB : logprobNumber(logprobs[i] as number);
    return { [id]: { logprob, rank: null, decoded_token: tokenizer.decode([id]) } };
  });
}
