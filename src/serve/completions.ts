/** `/v1/completions`: text or ids in, text out; nothing is wrapped around the prompt. */
import { z } from "zod";
import type { ModelInput } from "../core/model-input.ts";
import type { OnToken, TopLogprob } from "../engine/engine.ts";
import type { HttpRequest } from "../http/request.ts";
import { json } from "../http/responses.ts";
import { badField, integers, readFields, texts } from "../wire/errors.ts";
import { eventAnswer, HeldBack } from "../wire/events.ts";
import {
  countTokens,
  FINGERPRINT,
  fullUsage,
  type Generated,
  logprobNumber,
  sampledFirst,
  stopReason,
  usageOf,
} from "../wire/reply.ts";
import { newId, readJsonBody, seconds } from "../wire/request.ts";
import { readSampling, samplingFields, type Wanted } from "../wire/sampling.ts";
import { AnswerText } from "../wire/text.ts";
import { type Ask, checkPrompt, promptLogprobs } from "./ask.ts";
import type { Backend } from "./backend.ts";

const flag = z.boolean().nullish();
const DEFAULT_TOKENS = 16;

export const completionSchema = z.looseObject({
  ...samplingFields,
  prompt: z.union([z.string(), texts, integers, z.array(integers)]).nullish(),
  model: z.string().nullish(),
  logprobs: z.int().nullish(),
  prompt_logprobs: z.int().nullish(),
  stream: flag,
  stream_options: z.looseObject({ include_usage: flag, continuous_usage_stats: flag }).nullish(),
  suffix: z.string().nullish(),
  echo: flag,
  return_token_ids: flag,
  return_tokens_as_token_ids: flag,
});
export type CompletionRequest = z.output<typeof completionSchema>;

type Job = { readonly prompt: ModelInput; readonly wanted: Wanted; readonly seed: number };

export async function answerCompletion({ backend, request }: Ask): Promise<Response> {
  const asked = readFields(completionSchema, await readJsonBody(request));
  const model = backend.resolve(asked.model);
  const prompts = await readPrompts(asked, backend, request);
  const jobs = prompts.flatMap((prompt): Job[] => {
    const wanted = readCompletionSampling(asked, backend, prompt);
    return Array.from({ length: wanted.n }, (_, i) => ({ prompt, wanted, seed: wanted.params.seed + i }));
  });
  const id = `cmpl-${newId(request)}`;
  const context = { asked, backend, model, id, created: seconds(), signal: request.signal };
  const prompted = prompts.reduce((sum, { ids }) => sum + ids.length, 0);
  return asked.stream ? streamed(context, jobs, prompted) : whole(context, jobs, prompted);
}

export async function readPrompts(
  asked: CompletionRequest,
  backend: Backend,
  { signal }: HttpRequest,
): Promise<ModelInput[]> {
  const { prompt } = asked;
  if (asked.suffix !== undefined && asked.suffix !== null)
    throw badField("suffix", "suffix is not served: leave it out.");
  if (asked.echo) throw badField("echo", "echo is not served: ask for prompt_logprobs, or leave it out.");
  const empty = () => badField("prompt", "A prompt is text or ids, and not empty.");
  if (prompt === undefined || prompt === null || prompt.length === 0) throw empty();
  const single = typeof prompt === "string" || typeof prompt[0] === "number";
  const list = (single ? [prompt] : prompt) as (string | number[])[];
  backend.checkAnswers(list.length);
  if (list.some((one) => one.length === 0)) throw empty();
  // Special tokens spelled out in a bare prompt are meant.
  const spoken = list.filter((one) => typeof one === "string");
  const encoded = spoken.length === 0 ? [] : await backend.desk.encode(spoken, signal);
  let taken = 0;
  return list.map((one) => {
    const ids = typeof one === "string" ? (encoded[taken++] as Int32Array) : Int32Array.from(one);
    if (ids.length === 0) throw empty();
    const input = { ids, images: [] };
    checkPrompt(input, backend);
    return input;
  });
}

export function readCompletionSampling(asked: CompletionRequest, backend: Backend, prompt: ModelInput): Wanted {
  if (asked.stream_options && !asked.stream) throw badField("stream_options", "stream_options need stream: true.");
  if (asked.prompt_logprobs && asked.prompt_logprobs > 0) {
    throw badField("prompt_logprobs", "prompt_logprobs gives the prompt's own ids only: use 0.");
  }
  return readSampling(
    { ...asked, max_tokens: asked.max_tokens ?? DEFAULT_TOKENS },
    {
      ...backend.samplingContext(prompt),
      top: asked.logprobs ?? 0,
    },
  );
}

type Context = {
  readonly asked: CompletionRequest;
  readonly backend: Backend;
  readonly model: string;
  readonly id: string;
  readonly created: number;
  readonly signal: AbortSignal;
};

const run = ({ backend, model, signal }: Context, { prompt, wanted, seed }: Job, onToken?: OnToken) =>
  backend.generate({ model, prompt, params: { ...wanted.params, seed }, signal, ...(onToken && { onToken }) });

/** The parallel lists of OpenAI's older form. */
class LogprobLists {
  readonly text_offset: number[] = [];
  readonly token_logprobs: number[] = [];
  readonly tokens: string[] = [];
  readonly top_logprobs: Record<string, number>[] = [];
  readonly #asked: CompletionRequest;

  constructor(asked: CompletionRequest) {
    this.#asked = asked;
  }

  /** `offset`: characters before it. Call before the text takes the id. */
  add(text: AnswerText, sampled: TopLogprob, top: readonly TopLogprob[], offset: number): number {
    const asIds = this.#asked.return_tokens_as_token_ids === true;
    const name = (id: number) => (asIds ? `token_id:${id}` : text.token(id));
    const token = name(sampled.id);
    this.text_offset.push(offset);
    this.token_logprobs.push(logprobNumber(sampled.logprob));
    this.tokens.push(token);
    const likeliest = sampledFirst(sampled, top).slice(0, Math.max(this.#asked.logprobs ?? 0, 1));
    this.top_logprobs.push(Object.fromEntries(likeliest.map((one) => [name(one.id), logprobNumber(one.logprob)])));
    return offset + token.length;
  }

  toJSON() {
    const { text_offset, token_logprobs, tokens, top_logprobs } = this;
    return { text_offset, token_logprobs, tokens, top_logprobs };
  }
}

const hasLogprobs = (asked: CompletionRequest) => asked.logprobs !== undefined && asked.logprobs !== null;

async function whole(context: Context, jobs: readonly Job[], prompted: number): Promise<Response> {
  const { asked, backend, model, id, created } = context;
  const generated = await backend.together(jobs, context.signal, (job, _, signal) => run({ ...context, signal }, job));
  const choices = generated.map(async (one, index) => {
    const { prompt, wanted } = jobs[index] as Job;
    const text = new AnswerText(backend.chat.tokenizer, wanted.text);
    const lists = new LogprobLists(asked);
    let offset = 0;
    for (const [i, drawn] of one.ids.entries()) {
      offset = lists.add(text, { id: drawn, logprob: one.logprobs[i] as number }, one.top[i] ?? [], offset);
      text.push(drawn);
    }
    text.end();
    return {
      index,
      text: text.text,
      logprobs: hasLogprobs(asked) ? lists : null,
      finish_reason: one.finish,
      stop_reason: stopReason(one, text.stopped, wanted),
      token_ids: asked.return_token_ids ? one.ids : null,
      prompt_logprobs: await promptLogprobs(asked.prompt_logprobs, backend, model, prompt),
      prompt_token_ids: asked.return_token_ids ? [...prompt.ids] : null,
      routed_experts: null,
    };
  });
  return json({
    id,
    object: "text_completion",
    created,
    model,
    choices: await Promise.all(choices),
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: fullUsage(prompted, countTokens(generated)),
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  });
}

function streamed(context: Context, jobs: readonly Job[], prompted: number): Response {
  const { asked, backend, model, id, created } = context;
  const head = { id, object: "text_completion", created, model };
  const withUsage = asked.stream_options?.include_usage === true;
  return eventAnswer(async (send) => {
    let total = 0;
    const one = async (job: Job, index: number, signal: AbortSignal) => {
      const text = new AnswerText(backend.chat.tokenizer, job.wanted.text);
      let offset = 0;
      let first = true;
      const held = new HeldBack<Generated>();
      const generated = await run({ ...context, signal }, job, (drawn, logprob, top = []) => {
        const lists = new LogprobLists(asked);
        offset = lists.add(text, { id: drawn, logprob }, top, offset);
        const shown = text.push(drawn);
        const prompt = first && asked.return_token_ids ? [...job.prompt.ids] : null;
        first = false;
        total += 1;
        held.next((last) =>
          send({
            ...head,
            choices: [
              {
                index,
                text: last === undefined ? shown : shown + text.end(),
                logprobs: hasLogprobs(asked) ? lists : null,
                finish_reason: last?.finish ?? null,
                stop_reason: last === undefined ? null : stopReason(last, text.stopped, job.wanted),
                prompt_token_ids: prompt,
                token_ids: asked.return_token_ids ? [drawn] : null,
              },
            ],
          }),
        );
      });
      held.end(generated);
    };
    await backend.together(jobs, context.signal, one);
    if (!withUsage) return;
    send({ ...head, choices: [], usage: usageOf(prompted, total), system_fingerprint: FINGERPRINT });
  });
}
