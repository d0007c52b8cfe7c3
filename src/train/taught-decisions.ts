/** The probability that a model gives the oracle's actions where a demonstration teaches them, read off the batch that is trained anyway. */
import { mean } from "../core/numbers.ts";
import { type Decision, decisionIn } from "../envs/decisions.ts";
import type { Span } from "../envs/protocol.ts";
import type { WorldEnv } from "../envs/world-env.ts";
import type { ChatModel } from "../model/chat.ts";
import { decisionFigures, decisionMetrics, type ScoredDecision } from "../rollout/decisions.ts";
import type { Sequence } from "../rollout/trajectory.ts";
import { shiftRight } from "./batch.ts";

const MAX_PLACES = 4096;

/** A decision that a demonstration teaches. */
export type TaughtDecision = Decision & {
  readonly turn: number;
  /** Where its actions stand in the reply, and how many there are. */
  readonly span: Span;
  readonly actions: number;
};

/** The decision that the world stands before, where `taught` is the oracle's reply. */
export async function taughtDecision(env: WorldEnv, taught: string, turn: number): Promise<TaughtDecision | undefined> {
  const decision = await decisionIn(env.world);
  const { span, actions } = env.protocol.parse(taught, env.world.actions);
  if (decision === undefined || span === undefined) return undefined;
  const { plan: _, ...rest } = decision;
  return { ...rest, turn, span, actions: actions.length };
}

/** A sequence that is imitated, with the decisions of its turns. */
export type Imitated = {
  readonly sequence: Sequence;
  readonly decisions: readonly TaughtDecision[];
  /** Place of its episode among those that were asked for, and the name of its environment in metrics. */
  readonly at?: number;
  readonly label?: string;
};

/** `outputs`: what the learner's forward said of each sequence, aligned to predictions. */
export class TaughtDecisions {
  readonly #renderer: ChatModel["renderer"];
  /** Replies of demonstrations are few; where the actions' ids stand is found once for each. */
  readonly #places = new Map<string, Span>();

  constructor({ renderer }: Pick<ChatModel, "renderer">) {
    this.#renderer = renderer;
  }

  metrics(imitated: readonly Imitated[], outputs: readonly Float32Array[]): Record<string, number> {
    const scored: ScoredDecision[] = [];
    const nats: number[] = [];
    const chances: number[] = [];
    for (const [i, { sequence, decisions }] of imitated.entries()) {
      if (decisions.length === 0) continue;
      const logprobs = shiftRight(outputs[i] as Float32Array);
      for (const { turn, start, end } of sequence.replies) {
        const decision = sequence.sampled[start] === 1 ? decisions.find((one) => one.turn === turn) : undefined;
        if (decision === undefined) continue;
        const [from, to] = this.#place(sequence.ids.subarray(start, end), decision.span);
        const logprob = logprobs.subarray(start + from, start + to).reduce((sum, value) => sum + value, 0);
        scored.push({ ...decision, score: Math.exp(logprob) });
        nats.push(-logprob);
        if (decision.actions === 1 && decision.choices) chances.push(Math.log(decision.choices));
      }
    }
    if (scored.length === 0) return {};
    return {
      "decisions/nll": mean(nats),
      // The mean over the same decisions, or none: half a yardstick misleads.
      ...(chances.length === scored.length && { "decisions/chance": mean(chances) }),
      ...decisionMetrics("probability", decisionFigures(scored)),
    };
  }

  /** The ids of a reply that write `span`. */
  #place(ids: Int32Array, span: Span): Span {
    const key = `${span.join()} ${ids.join()}`;
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    const { offsets } = this.#renderer.decode(ids);
    const from = offsets.findIndex((offset) => offset > span[0]);
    const last = offsets.findIndex((offset) => offset >= span[1]);
    const place: Span = [Math.max(0, from), last < 0 ? ids.length : last + 1];
    if (this.#places.size >= MAX_PLACES) this.#places.clear();
    this.#places.set(key, place);
    return place;
  }
}
