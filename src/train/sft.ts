/**
 * Supervised learning from demonstrations. A demonstration is played again by the token agent of rollouts, over a sampler that says the demonstrated replies:
 * so a warm start sees the very sequences that reinforcement learning will, joined or split, with the same window. Loss is on the assistant's ids
 * alone, in all turns that are to be learned.
 */
import { DataError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { type Message, textOf } from "../core/message.ts";
import type { Datum, Sampler } from "../engine/engine.ts";
import type { Demo } from "../envs/demos.ts";
import type { ChatModel } from "../model/chat.ts";
import { OutOfTokens, PromptTooLong, type TokenAgentOptions, tokenAgent } from "../rollout/agents.ts";
import { Conversations } from "../rollout/conversations.ts";
import { saidBy } from "../rollout/matching.ts";
import type { Sequence } from "../rollout/trajectory.ts";
import { toDatum } from "./batch.ts";

/** How turns become sequences, as the token agent takes it. */
export type SequenceLayout = Pick<TokenAgentOptions, "turns" | "history" | "contextTokens">;

/**
 * The sequences of a conversation, every assistant message that is to be learned (`learn`; absent: all) counting as sampled: one when turns are joined, one per
 * turn when they are split.
 */
export async function sequencesOf(
  { messages, learn, variables }: Pick<Demo, "messages" | "learn" | "variables">,
  model: ChatModel,
  layout: SequenceLayout,
): Promise<Sequence[]> {
  const turns = messages.flatMap(({ role }, i) => (role === "assistant" ? [i] : []));
  if (turns.length === 0) throw new DataError("A demonstration needs at least one assistant message.");
  if (turns.some((at) => messages[at - 1]?.role === undefined || messages[at - 1]?.role === "assistant")) {
    throw new DataError("A demonstration has two assistant messages in a row, or begins with one; join or drop them.");
  }
  const replies = await Promise.all(turns.map((at) => model.renderer.reply(textOf(messages[at] as Message))));
  if (variables !== undefined) return conversationOf({ messages, learn, variables }, turns, replies, model, layout);
  const agent = tokenAgent({
    ...layout,
    model,
    temperature: 1,
    maxTokens: Math.max(...replies.map((ids) => ids.length)),
    sampler: () => reciter(replies),
  })({ env: NO_ENV, seed: 0, sibling: 0, samplingSeed: 0 });
  const signal = new AbortController().signal;
  try {
    for (const at of turns) await agent.reply(messages.slice(0, at), signal);
  } catch (error) {
    throw error instanceof OutOfTokens ? tooLong(error.message) : error;
  }
  const sequences = agent.sequences?.() ?? [];
  return learn === undefined ? [...sequences] : sequences.flatMap((sequence) => forget(sequence, learn));
}

type Asking = Pick<Demo, "messages"> & {
  readonly learn: readonly boolean[] | undefined;
  readonly variables: JsonObject;
};

/** The conversation of an agent that brings its own loop is played again through conversations, which is how reinforcement learning meets it: with its tools, in one sequence. */
async function conversationOf(
  { messages, learn, variables }: Asking,
  turns: readonly number[],
  replies: readonly Int32Array[],
  model: ChatModel,
  { contextTokens = model.maxPositions }: SequenceLayout,
): Promise<Sequence[]> {
  const conversations = new Conversations({
    ...{
      model,
      contextTokens,
      sampler: reciter([]),
      temperature: 1,
      maxTokens: contextTokens,
      name: "demo",
      seed: [0],
    },
  });
  const { signal } = new AbortController();
  try {
    for (const [turn, at] of turns.entries()) {
      const { sample } = await conversations.open({ messages: messages.slice(0, at), variables });
      await sample({ recited: replies[turn] as Int32Array, signal, read: () => saidBy(messages[at] as Message) });
    }
  } catch (error) {
    throw error instanceof OutOfTokens || error instanceof PromptTooLong ? tooLong(error.message) : error;
  }
  const sequences = conversations.sequences();
  return learn === undefined ? sequences : sequences.flatMap((sequence) => forget(sequence, learn));
}

/** The sequence with the replies that are not to be learned as mere context; none when nothing is left. */
function forget(sequence: Sequence, learn: readonly boolean[]): Sequence[] {
  const sampled = sequence.sampled.slice();
  for (const { turn, start, end } of sequence.replies) if (learn[turn] === false) sampled.fill(0, start, end);
  return sampled.includes(1) ? [{ ...sequence, sampled }] : [];
}

/** A sampler that says these replies in turn. */
function reciter(replies: readonly Int32Array[]): Sampler {
  let turn = 0;
  return {
    version: 0,
    async sample(_, { maxTokens }) {
      const ids = replies[turn++] as Int32Array;
      if (ids.length > maxTokens) throw tooLong(`Reply ${turn} has ${ids.length} ids, there is room for ${maxTokens}.`);
      return { ids, logprobs: new Float32Array(ids.length), stopReason: "stop", version: 0 };
    },
    score: () => Promise.reject(new DataError("Demonstrations have no log-probabilities.")),
    release() {},
    async close() {},
  };
}

function tooLong(why: string): DataError {
  return new DataError(
    `A demonstration does not fit the context. ${why} Raise sampling.contextTokens, play shorter episodes, or set turns to "split".`,
  );
}

/** Demonstrations were played before; nothing is asked of an environment. */
const NO_ENV = {
  reset: () => Promise.reject(new DataError("A demonstration has no environment.")),
  step: () => Promise.reject(new DataError("A demonstration has no environment.")),
};

/** A mini-batch for the loss `cross-entropy`, averaged over its trained tokens. */
export function sftBatch(sequences: readonly Sequence[]): Datum[] {
  const tokens = sequences.reduce((sum, { sampled }) => sum + sampled.reduce((a, b) => a + b, 0), 0);
  return sequences.map((sequence) =>
    toDatum(sequence, 1, { weights: Float32Array.from(sequence.sampled, (flag) => flag / Math.max(1, tokens)) }),
  );
}
