/**
 * Supervised learning from demonstrations: conversations become token sequences through the same ledger as rollouts, so a warm start and reinforcement
 * learning see the same ids. Loss is on the assistant's ids alone, in all turns.
 */
import { DataError } from "../core/errors.ts";
import type { Message } from "../core/message.ts";
import { textOf } from "../core/message.ts";
import type { Datum } from "../engine/engine.ts";
import type { ChatModel } from "../rollout/agents.ts";
import { TokenLedger } from "../rollout/ledger.ts";
import type { Sequence } from "../rollout/trajectory.ts";
import { toDatum } from "./batch.ts";

export type SftModel = ChatModel & {
  /** The ids of a reply, its end included. */
  encodeReply(text: string): Int32Array;
};

/** The sequence of a conversation, every assistant message counting as sampled. */
export async function sequenceOf(
  messages: readonly Message[],
  model: SftModel,
  contextLength: number,
): Promise<Sequence> {
  const ledger = new TokenLedger({ imageToken: model.imageToken, visionIds: model.visionIds, contextLength });
  let turn = 0;
  let given: Message[] = [];
  for (const message of messages) {
    if (message.role !== "assistant") {
      given.push(message);
      continue;
    }
    if (given.length === 0) throw new DataError("A demonstration has two assistant messages in a row; join them.");
    ledger.give(turn === 0 ? await model.renderer.prompt(given) : await model.renderer.delta(given, { ended: true }));
    const ids = model.encodeReply(textOf(message));
    ledger.sample({ ids, logprobs: new Float32Array(ids.length), stopReason: "stop", version: 0 }, turn);
    given = [];
    turn += 1;
  }
  if (turn === 0) throw new DataError("A demonstration needs at least one assistant message.");
  return ledger.sequence();
}

/** A mini-batch for the loss `cross_entropy`, averaged over its trained tokens. */
export function sftBatch(sequences: readonly Sequence[]): Datum[] {
  const tokens = sequences.reduce((sum, { sampled }) => sum + sampled.reduce((a, b) => a + b, 0), 0);
  return sequences.map((sequence) =>
    toDatum(sequence, 1, { weights: Float32Array.from(sequence.sampled, (flag) => flag / Math.max(1, tokens)) }),
  );
}
