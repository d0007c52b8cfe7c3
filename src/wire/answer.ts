/** From sampled tokens to answers, on every wire: whole, or as events while they are sampled. Answers that were not sampled here are written as well. */
import type { TopLogprob } from "../engine/engine.ts";
import { json } from "../http/responses.ts";
import { type EventForm, eventAnswer, HeldBack } from "./events.ts";
import { ChoiceText, type Generated, logprobNumber, type Reply, type SampleChoices, sampledFirst } from "./reply.ts";
import type { AnswerHead, TokenEntry, TokenLogprob, WireAnswer, WireChoice, WirePiece, WireRequest } from "./wire.ts";

export type AnswerExtras = { readonly promptLogprobs?: () => Promise<unknown> };

/** Samples, and answers in the form that the request asks for. */
export async function respond(
  request: WireRequest,
  reply: Reply,
  sample: SampleChoices,
  { promptLogprobs }: AnswerExtras = {},
): Promise<Response> {
  if (request.stream) return streamed(request, reply, sample);
  const generated = await sample();
  const found = await promptLogprobs?.();
  const answer = answerOf(request, reply, generated);
  return json(request.writer.whole(found === undefined ? answer : { ...answer, promptLogprobs: found }));
}

/** An answer that is known whole, in the form that the request asks for. */
export function respondWith(request: WireRequest, answer: WireAnswer): Response {
  if (!request.stream) return json(request.writer.whole(answer));
  return eventAnswer(async (send) => {
    const events = request.writer.begin(answer, send);
    for (const [choice, { text, calls, finish, stopReason, tokens, ids = [], logprobs }] of answer.choices.entries()) {
      events.piece({
        ...{ choice, text: text ?? "", calls, tokens, ids, logprobs },
        last: { finish, stopReason },
      });
    }
    events.end(answer);
  }, formOf(request));
}

/** What the model said, of its tokens. */
export function answerOf(request: WireRequest, reply: Reply, generated: readonly Generated[]): WireAnswer {
  return { ...headOf(reply), choices: generated.map((one) => choiceOf(request, reply, one)) };
}

export function choiceOf(request: WireRequest, reply: Reply, one: Generated): WireChoice {
  const text = new ChoiceText(reply, callsTools(request));
  const logprobs: TokenEntry[] = [];
  for (const [i, id] of one.ids.entries()) {
    if (request.topLogprobs !== undefined) {
      logprobs.push(entryOf(request, text, { id, logprob: one.logprobs[i] as number }, one.top[i] ?? []));
    }
    text.push(id);
  }
  const said = text.whole();
  return {
    text: said.content,
    calls: said.calls,
    finish: one.finish,
    stopReason: text.stopReason(one, reply.wanted),
    tokens: one.ids.length,
    ids: one.ids,
    ...(request.topLogprobs !== undefined && { logprobs }),
  };
}

function streamed(request: WireRequest, reply: Reply, sample: SampleChoices): Response {
  const head = headOf(reply);
  return eventAnswer(async (send) => {
    const events = request.writer.begin(head, send);
    try {
      const states = Array.from({ length: reply.wanted.n }, () => ({
        text: new ChoiceText(reply, callsTools(request)),
        held: new HeldBack<Generated>(),
        tokens: 0,
      }));
      const generated = await sample((choice, id, logprob, top) => {
        const state = states[choice] as (typeof states)[number];
        const { text, held } = state;
        const logprobs = request.topLogprobs === undefined ? undefined : [entryOf(request, text, { id, logprob }, top)];
        const shown = text.push(id);
        state.tokens += 1;
        const { tokens } = state;
        held.next((last) => {
          const rest = last && text.end();
          events.piece({
            ...{ choice, tokens, ids: [id], logprobs },
            text: shown + (rest?.content ?? ""),
            calls: rest?.calls ?? [],
            ...(last && { last: { finish: last.finish, stopReason: text.stopReason(last, reply.wanted) } }),
          } satisfies WirePiece);
        });
      });
      for (const [choice, one] of generated.entries()) {
        if (states[choice]?.held.end(one)) continue;
        // Nothing was sampled: the request was aborted.
        const last = { finish: one.finish, stopReason: null };
        events.piece({ choice, text: "", calls: [], tokens: 0, ids: [], logprobs: undefined, last });
      }
      events.end(answerOf(request, reply, generated));
    } catch (error) {
      events.fail(error);
    }
  }, formOf(request));
}

/** Writers tell of failures themselves. */
function formOf({ writer }: WireRequest): EventForm {
  return { fail: () => {}, ...(writer.terminator !== undefined && { end: writer.terminator }) };
}

function headOf({ id, created, model, promptIds }: Reply): AnswerHead {
  return { id, created, model, promptTokens: promptIds.length, promptIds };
}

function callsTools({ tools, toolChoice }: WireRequest): boolean {
  return tools.length > 0 && toolChoice !== "none";
}

/** Call it before the text takes the id. */
function entryOf(
  { topLogprobs = 0 }: WireRequest,
  text: ChoiceText,
  sampled: TopLogprob,
  top: readonly TopLogprob[],
): TokenEntry {
  const entry = ({ id, logprob }: TopLogprob): TokenLogprob => ({
    id,
    token: text.token(id),
    logprob: logprobNumber(logprob),
  });
  return { ...entry(sampled), top: sampledFirst(sampled, top).slice(0, topLogprobs).map(entry) };
}
