/**
 * Agents answer in episodes. All have the same method, `reply`, which takes the whole conversation and returns the next answer. The
 * token agent, a ledger over a Sampler, can be trained, because it keeps the token sequences. It renders only new messages, so history
 * is never rendered twice.
 *
 * Turns are `joined` (one ledger for the whole episode) or `split` (one ledger per turn). A split ledger copies the ids of the first turn
 * and of the last `history` turns, and adds the new observation; only its own reply carries loss. The first turn stays because its prompt
 * explains the task, with its reply because roles must alternate.
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
  /** Answers a conversation that ends with an observation. Throws `OutOfTokens` if there is no room for an answer. */
  reply(messages: readonly Message[], signal: AbortSignal): Promise<string>;
  /** Why the last reply ended; absent: it was complete. */
  readonly stopReason?: StopReason;
  /** For agents that sample: the length of the last reply, in UTF-16 units, after each sampled id. Rewards find their tokens with it. */
  readonly offsets?: Int32Array;
  /** Milliseconds that the last reply spent on its images. */
  readonly encodeMs?: number;
  readonly temperature?: number;
  /** Answers the requests of a program with its own loop; absent: this agent can't. */
  converse?(): Converser;
  /** The sampled sequences, for agents that can be trained. */
  sequences?(): Sequence[];
  /** The episode is over. */
  close?(): void;
}

/** The context has no room for the next observation and a reply. */
export class OutOfTokens extends Error {
  override name = "OutOfTokens";
}

/** The first prompt leaves no room for a reply, so nothing can be played. This is not the policy's fault. */
export class PromptTooLong extends ConfigError {}

/** What an agent may know about its episode. */
export type AgentContext = {
  readonly env: Env;
  readonly seed: number;
  readonly sibling: number;
  /** The root seed, from which this episode's sampling seeds are mixed. */
  readonly samplingSeed: number;
};
/** Makes the agent for one episode. */
export type AgentFactory = (context: AgentContext) => Agent;

export type TokenAgentOptions = {
  readonly model: ChatModel;
  /** Called once per episode, so that later episodes can use newer weights. */
  readonly sampler: () => Sampler;
  readonly temperature: number;
  /** Maximum number of ids in a reply. */
  readonly maxTokens: number;
  /** Maximum number of ids in a sequence; by default the model's context. */
  readonly contextTokens?: number;
  /** The setting that limits the context, for the error about a prompt that does not fit; by default the model. */
  readonly contextFrom?: string;
  readonly turns?: "joined" | "split";
  /** How many turns before the current one a split ledger keeps, in addition to the first (default 0). */
  readonly history?: number;
  /** Only for evaluation: training samples the plain distribution. */
  readonly sampling?: Pick<SamplingParams, "topK" | "topP" | "minP" | "stopStrings">;
  /** If a program's request asks for top-k, top-p or min-p: refuse it (the default), or serve it and leave it out of training. */
  readonly clientLimits?: "refuse" | "exclude";
};

/** Agents that sample from a model. */
export function tokenAgent(options: TokenAgentOptions): AgentFactory {
  checkOptions(options);
  return (context) => new TokenAgent(options, context);
}

/** Makes names for the sampler's caches; a retry is a new sequence. */
let sequencesMade = 0;

/** The ids of a turn in the ledger of all turns: what was given, the reply, and its end if that was forced. */
type TurnSpan = { readonly start: number; readonly end: number };

class TokenAgent implements Agent {
  readonly temperature: number;
  readonly #options: TokenAgentOptions;
  readonly #limits: LedgerLimits;
  readonly #context: AgentContext;
  readonly #sampler: Sampler;
  readonly #sequence: string;
  /** Every id of the episode. If turns are joined, all samples come from this ledger. */
  readonly #whole: TokenLedger;
  readonly #spans: TurnSpan[] = [];
  #encodeMs = 0;
  /** One per turn, if turns are split. */
  readonly #ledgers: TokenLedger[] = [];
  /** Number of messages that are in the ledger. */
  #seen = 0;
  /** Whether the last reply ended with the end-of-turn id. */
  #ended = true;
  #stopReason: StopReason = "stop";
  #offsets: Int32Array = new Int32Array();
  /** For a program with its own loop. */
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

  /** The ids of the messages that the agent has not seen yet, without the end of its own last turn. */
  async #render(messages: readonly Message[]): Promise<ModelInput> {
    const { renderer } = this.#options.model;
    if (this.#spans.length === 0) return renderer.prompt(messages);
    if (messages[this.#seen]?.role !== "assistant") {
      throw new DataError("A conversation continues with the agent's own reply; pass all messages in order.");
    }
    return renderer.delta(messages.slice(this.#seen + 1), { ended: true });
  }

  /** The ledger to sample this turn from, with `given` at its end. Nothing is written unless all of it fits. */
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

  /** Ends the last turn if the model did not. */
  #close(): void {
    this.#whole.force(this.#options.model.renderer.endOfTurn);
    const last = this.#spans.pop();
    if (last !== undefined) this.#spans.push({ ...last, end: last.end + 1 });
  }

  /** The earlier turns that a split ledger copies. */
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
    throw new ConfigError(`maxTokens, the limit of a reply, must be a whole number of at least 1; got ${maxTokens}.`);
  }
  if (!(temperature >= 0 && Number.isFinite(temperature))) {
    throw new ConfigError(`temperature must be 0 (greedy) or more, got ${temperature}.`);
  }
  if (
    contextTokens !== undefined &&
    !(Number.isSafeInteger(contextTokens) && contextTokens >= 2 && contextTokens <= model.maxPositions)
  ) {
    throw new ConfigError(
      `contextTokens must be a whole number from 2 to ${model.maxPositions}, the model's context; got ${contextTokens}.`,
    );
  }
  if (turns === "joined" && history !== undefined) {
    throw new ConfigError('history is the window of split turns: set turns to "split", or leave history out.');
  }
  if (turns === "split" && !(history === undefined || (Number.isSafeInteger(history) && history >= 0))) {
    throw new ConfigError(`history must be a whole number of turns, 0 or more; got ${history}.`);
  }
}
