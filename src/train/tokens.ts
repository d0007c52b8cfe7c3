/**
 * What an algorithm sees: sequences as rows of per-token numbers. Estimators, filters and corrections are plain functions over
 * these; they know no engine, no text and no images. Several rows may belong to one episode (turns split); `episode` and `order` tie them.
 */

/** A limit that an episode met: a reply was cut at its token limit (and it was the last one), turns ran out, the context did. */
export type Limit = "reply" | "last-reply" | "turns" | "context";

export type TokenRow = {
  /** Siblings of one episode seed. */
  readonly group: string;
  readonly episode: string;
  /** Position among the rows of its episode (0 when turns are joined). */
  readonly order: number;
  /** Aligned to the ids of the sequence. 1 where the id was sampled. */
  readonly sampled: Uint8Array;
  /** Turn of each sampled id, −1 elsewhere. Non-decreasing over sampled ids. */
  readonly turns: Int32Array;
  /** What was paid, on the sampled ids it was paid on: the end of its span in the reply, or the last id of the turn. */
  readonly rewards: Float32Array;
  /** Sampler's log-probabilities. */
  readonly samplerLogprobs: Float32Array;
  /** Learner's log-probabilities at the start of the update (equal to the sampler's on the native engine). */
  readonly oldLogprobs?: Float32Array;
  readonly referenceLogprobs?: Float32Array;
  /** Critic's value before each id (aligned: values[i] is the value of the state in which id i was chosen). */
  readonly values?: Float32Array;
  /** Of the episode, the same on all its rows. */
  readonly limits: readonly Limit[];
};

export type Credit = {
  /** Per token, 0 where nothing was sampled. Aligned to the rows given. */
  readonly advantages: readonly Float32Array[];
  /** What a critic should learn, where the estimator has one. */
  readonly returns?: readonly Float32Array[];
  /** What the estimator has to say of the batch. */
  readonly metrics?: Readonly<Record<string, number>>;
};

export type EstimatorOptions = {
  readonly gamma: number;
  readonly lambda: number;
  /** Between turns, for the turn-level estimators. */
  readonly turnGamma: number;
  readonly turnLambda: number;
  /** GRPO: divide by the group's standard deviation. */
  readonly normalizeStd: boolean;
};

export type Estimator = {
  readonly name: string;
  readonly needsCritic: boolean;
  readonly needsGroups: boolean;
  /** What gets a number of its own. Where it is not the token, it does not matter where in a turn, or in an episode, a reward was earned. */
  readonly credits?: "token" | "turn" | "episode";
  /** Which layouts of turns it is valid in. */
  readonly turns: readonly ("joined" | "split")[];
  compute(rows: readonly TokenRow[], options: EstimatorOptions): Credit;
};
