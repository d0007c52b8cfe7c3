/**
 * Who answers in an episode. Every agent has the same door, `reply`: it gets the whole conversation and says the next thing. The
 * token agent, a ledger over a Sampler, can be trained: it also keeps the token sequences. It renders only what is new to it,
 * so history is never rendered twice.
 *
 * Turns are `joined` (one ledger, the whole episode) or `split` (one ledger per turn). A split ledger copies id spans: the first turn,
 * the last `history` turns, and the new observation; only its own reply carries loss. The first turn is kept with its reply, because
 * its prompt explains the task and a conversation alternates.
 */
import { ConfigError, DataError } from "../core/errors.ts";
import type { Message } from "../core/message.ts";
import type { ModelInput } from "../core/model-input.ts";
import { mixSeed } from "../core/seed.ts";
import type { Sampler, SamplingParams, StopReason } from "../engine/engine.ts";
import type { Env } from "../envs/env.ts";
import type { ChatModel } from "../model/chat.ts";
import { Conversations } from "./conversations.ts";
import type { Converser } from "./converse.ts";
import { type LedgerLimits, TokenLedger } from "./ledger.ts";
import type { Sequence } from "./trajectory.ts";

export interface Agent {
  /** The answer to a conversation that ends with an observation. Throws `OutOfTokens` when there is no room for it. */
  reply(messages: readonly Message[], signal: AbortSignal): Promise<string>;
  /** Why the last reply ended; absent: it was whole. */
  readonly stopReason?: StopReason;
  /** UTF-16 units of the last reply after each of its sampled ids, of agents that sample: rewards find their tokens by it. */
  readonly offsets?: Int32Array;
  /** Milliseconds of the last reply that went into its images. */
  readonly encodeMs?: number;
  readonly temperature?: number;
  /** Who answers the requests of a program that brings its own loop; absent: this agent can't. */
  converse?(): Converser;
  /** What was sampled, of agents that can be trained. */
  sequences?(): Sequence[];
  /** The episode is over. */
  close?(): void;
}

/** The context can't take the next observation and a reply to it. */
export class OutOfTokens extends Error {
  override name = "OutOfTokens";
}

/** The first prompt leaves no room for a reply: nothing can be played, and that is nothing the policy did. */
export class PromptTooLong extends ConfigError {}

/** What an agent may know of the episode it is made for. */
export type AgentContext = {
  readonly env: Env;
  readonly seed: number;
  readonly sibling: number;
  /** Root of what this episode's sampling seeds are mixed from. */
  readonly samplingSeed: number;
};
/** Makes the agent of one episode. */
export type AgentFactory = (context: AgentContext) => Agent;

export type TokenAgentOptions = {
  readonly model: ChatModel;
  /** Asked once per episode, so that later episodes may play with newer weights. */
  readonly sampler: () => Sampler;
  readonly temperature: number;
  /** Most ids of one reply. */
  readonly maxTokens: number;
  /** Most ids of a sequence; default: what the model can attend to. */
  readonly contextTokens?: number;
  /** What sets it, for the error of a prompt that does not fit; default: the model. */
  readonly contextFrom?: string;
  readonly turns?: "joined" | "split";
  /** Turns before the present one that a split ledger keeps, beside the first (default 0). */
  readonly history?: number;
  /** For evaluation only: training rollouts sample the plain distribution. */
  readonly sampling?: Pick<SamplingParams, "topK" | "topP" | "minP" | "stopStrings">;
  /** Where a program's request asks for top-k, top-p or min-p: it is refused (the default), or served and left out of training. */
  readonly clientLimits?: "refuse" | "exclude";
};

/** Agents that sample from a model. */
export function tokenAgent(options: TokenAgentOptions): AgentFactory {
  checkOptions(options);
  return (context) => new TokenAgent(options, context);
}

/** Names a sampler's caches; a retry is a new sequence. */
let sequencesMade = 0;

/** Where a turn stands in the ledger of all turns: what was given, the reply, and its end where that was forced. */
type TurnSpan = { readonly start: number; readonly end: number };

class TokenAgent implements Agent {
  readonly temperature: number;
  readonly #options: TokenAgentOptions;
  readonly #limits: LedgerLimits;
  readonly #context: AgentContext;
  readonly #sampler: Sampler;
  readonly #sequence: string;
  /** Every id of the episode. Under `joined` it is also the only ledger sampled from. */
  readonly #whole: TokenLedger;
  readonly #spans: TurnSpan[] = [];
  #encodeMs = 0;
  /** Under `split`, one per turn. */
  readonly #ledgers: TokenLedger[] = [];
  /** Messages of the conversation that are in the ledger. */
  #seen = 0;
  /** The last reply ended with the end-of-turn id. */
  #ended = true;
  #stopReason: StopReason = "stop";
  #offsets: Int32Array = new Int32Array();
  /** Of a program that brings its own loop. */
  #conversations: Conversations | undefined;

  constructor(options: TokenAgentOptions, context: AgentContext) {
    this.#options = options;
    this.#context = context;
    this.temperature = options.temperature;
    this.#sampler = options.sampler();
    this.#sequence = `${context.seed}/${context.sibling}~${sequencesMade++}`;
    const { model, contextTokens = model.maxPositions } = options;
    this.#limits = { imageToken: model.imageToken, visionIds: model.visionIds, contextTokens };
    const joined = options.turns !== "split";
    this.#whole = new TokenLedger({
      ...this.#limits,
      contextTokens: joined ? contextTokens : Number.POSITIVE_INFINITY,
    });
  }

  get stopReason(): StopReason {
    return this.#stopReason;
  }

  get offsets(): Int32Array {
    return this.#offsets;
  }

  get encodeMs(): number {
    return this.#encodeMs;
  }

  async reply(messages: readonly Message[], signal: AbortSignal): Promise<string> {
    const { model, temperature, sampling } = this.#options;
    const turn = this.#spans.length;
    const given = await this.#render(messages);
    signal.throwIfAborted();
    const ledger = this.#open(given);
    const start = this.#whole.length - given.ids.length;
    const asked = performance.now();
    this.#encodeMs = 0;
    const onSeen = () => {
      this.#encodeMs = performance.now() - asked;
    };
    const sample = await this.#sampler.sample(
      ledger.prompt(),
      {
        ...sampling,
        temperature,
        maxTokens: Math.min(this.#options.maxTokens, ledger.room),
        seed: mixSeed(this.#context.samplingSeed, this.#context.seed, this.#context.sibling, turn),
        stopIds: model.generation.eos,
      },
      { sequence: this.#sequence, signal, onSeen },
    );
    signal.throwIfAborted();
    ledger.sample(sample, turn);
    if (ledger !== this.#whole) this.#whole.sample(sample, turn);
    this.#spans.push({ start, end: this.#whole.length });
    this.#seen = messages.length;
    this.#ended = sample.ids.at(-1) === model.renderer.endOfTurn;
    this.#stopReason = sample.stopReason;
    const { text, offsets } = model.renderer.decode(sample.ids);
    this.#offsets = offsets;
    return text;
  }

  converse(): Converser {
    const { model, maxTokens, contextFrom, clientLimits = "refuse" } = this.#options;
    const { seed, sibling, samplingSeed } = this.#context;
    this.#conversations ??= new Conversations({
      ...{ model, maxTokens, temperature: this.temperature, sampler: this.#sampler, name: this.#sequence },
      contextTokens: this.#limits.contextTokens,
      ...(contextFrom !== undefined && { contextFrom }),
      seed: [samplingSeed, seed, sibling],
    });
    return { kind: "tokens", conversations: this.#conversations, model, maxTokens, clientLimits };
  }

  sequences(): Sequence[] {
    if (this.#conversations !== undefined) return this.#conversations.sequences();
    const ledgers = this.#options.turns === "split" ? this.#ledgers : [this.#whole];
    return ledgers.filter((ledger) => ledger.hasReplies).map((ledger) => ledger.sequence());
  }

  close(): void {
    this.#conversations?.close();
    this.#sampler.release(this.#sequence);
  }

  /** The ids of what the agent has not seen yet; the closing of its own last turn is not among them. */
  async #render(messages: readonly Message[]): Promise<ModelInput> {
    const { renderer } = this.#options.model;
    if (this.#spans.length === 0) return renderer.prompt(messages);
    if (messages[this.#seen]?.role !== "assistant") {
      throw new DataError("A conversation goes on with the agent's own reply; hand it all messages in order.");
    }
    return renderer.delta(messages.slice(this.#seen + 1), { ended: true });
  }

  /** The ledger to sample this turn from, with `given` at its end; nothing is written unless all of it fits. */
  #open(given: ModelInput): TokenLedger {
    const closing = this.#ended ? 0 : 1;
    const kept = this.#options.turns === "split" ? this.#kept() : undefined;
    const before = kept === undefined ? this.#whole.length : kept.reduce((sum, span) => sum + span.end - span.start, 0);
    const wanted = before + closing + given.ids.length;
    // A reply of one id must fit too.
    if (wanted >= this.#limits.contextTokens) {
      if (this.#spans.length === 0) throw this.#tooLong(wanted);
      throw new OutOfTokens(
        `Turn ${this.#spans.length + 1} needs ${wanted} ids and a reply, the context has ${this.#limits.contextTokens}.`,
      );
    }
    if (closing > 0) this.#close();
    this.#whole.give(given);
    if (kept === undefined) return this.#whole;
    const ledger = new TokenLedger(this.#limits);
    // The last turn has its forced end now.
    for (const { start, end } of this.#kept()) ledger.give(this.#whole.span(start, end));
    ledger.give(given);
    this.#ledgers.push(ledger);
    return ledger;
  }

  #tooLong(tokens: number): PromptTooLong {
    const { contextFrom = "the model's own limit" } = this.#options;
    return new PromptTooLong(
      `The first prompt has ${tokens} tokens, and the context has ${this.#limits.contextTokens} (${contextFrom}): there is no room for a reply. ` +
        'Raise the limit, show smaller images, or choose a shorter prompt (prompt: "brief").',
    );
  }

  /** Ends the last turn, which the model did not. */
  #close(): void {
    this.#whole.force(this.#options.model.renderer.endOfTurn);
    const last = this.#spans.pop();
    if (last !== undefined) this.#spans.push({ ...last, end: last.end + 1 });
  }

  /** Earlier turns that a split ledger copies. */
  #kept(): TurnSpan[] {
    const { history = 0 } = this.#options;
    const recent = Math.max(1, this.#spans.length - history);
    return [...this.#spans.slice(0, 1), ...this.#spans.slice(recent)];
  }
}

function checkOptions({
  maxTokens,
  temperature,
  contextTokens,
  turns = "joined",
  history,
  model,
}: TokenAgentOptions): void {
  if (!Number.isSafeInteger(maxTokens) || maxTokens < 1) {
    throw new ConfigError(`maxTokens is the most tokens of a reply, a whole number of at least 1; got ${maxTokens}.`);
  }
  if (!(temperature >= 0 && Number.isFinite(temperature))) {
    throw new ConfigError(`temperature must be 0 (greedy) or more, got ${temperature}.`);
  }
  if (
    contextTokens !== undefined &&
    !(Number.isSafeInteger(contextTokens) && contextTokens >= 2 && contextTokens <= model.maxPositions)
  ) {
    throw new ConfigError(
      `contextTokens must be a whole number from 2 to ${model.maxPositions}, what the model can attend to; got ${contextTokens}.`,
    );
  }
  if (turns === "joined" && history !== undefined) {
    throw new ConfigError('history is the window of split turns: set turns to "split", or leave history out.');
  }
  if (turns === "split" && !(history === undefined || (Number.isSafeInteger(history) && history >= 0))) {
    throw new ConfigError(`history must be a whole number of turns, 0 or more; got ${history}.`);
  }
}
