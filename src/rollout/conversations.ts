/**
 * The conversations of an episode whose program has its own loop. A conversation is one `TokenLedger`. If a request continues a conversation, only its new
 * messages are appended: nothing is rendered again, and sampled ids never change, whatever text a client sends back (`matching.ts`).
 * A request that changes history, starts over (a sub-agent) or wants several answers opens another conversation, which copies the ids of the shared messages as
 * context. So every sampled id carries loss in one conversation only.
 *
 * The ledger is written once an answer is complete. A request that fails or is cancelled leaves no trace and can be sent again. While one request of a
 * conversation is being answered, no other can continue it; an equal request during that time gets a sample in a conversation of its own.
 */
import { DataError } from "../core/errors.ts";
import { canonicalJson, type JsonObject } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import type { ModelInput } from "../core/model-input.ts";
import { sha256 } from "../core/platform.ts";
import { mixSeed } from "../core/seed.ts";
import type { OnToken, Sample, Sampler, SamplingParams, StopReason } from "../engine/engine.ts";
import type { ChatModel } from "../model/chat.ts";
import { OutOfTokens, PromptTooLong } from "./agents.ts";
import { type LedgerLimits, TokenLedger } from "./ledger.ts";
import { givenKey, joinTurns, type Said, saidBy, saidKey } from "./matching.ts";
import type { Sequence } from "./trajectory.ts";

export type ConversationOptions = {
  readonly model: ChatModel;
  readonly sampler: Sampler;
  readonly temperature: number;
  /** Maximum number of ids in an answer, whatever a request asks for. */
  readonly maxTokens: number;
  readonly contextTokens: number;
  /** The setting that limits the context, for the error about a prompt that does not fit. */
  readonly contextFrom?: string;
  /** The episode's name in the sampler's caches. */
  readonly name: string;
  /** The parts from which the episode's sampling seeds are mixed. */
  readonly seed: readonly (number | string)[];
};

export type Asked = {
  /** The whole conversation, as the program sent it. */
  readonly messages: readonly Message[];
  /** Further inputs of the chat template, mostly tools. They belong to the conversation. */
  readonly variables?: JsonObject;
};

/** How an answer is sampled. The episode sets temperature and seed. */
export type AnswerParams = Pick<
  SamplingParams,
  "stopIds" | "stopStrings" | "topLogprobs" | "topK" | "topP" | "minP"
> & {
  readonly maxTokens?: number;
  /** Number of answers; default 1. */
  readonly count?: number;
  /** Makes the client's answer from the sampled ids; by default the whole text. */
  readonly read?: (ids: Int32Array, stopReason: StopReason) => Said;
  /** The ids to use instead of sampling: a demonstration's reply. */
  readonly recited?: Int32Array;
  /** The ids are context without loss, because they were not drawn from the plain policy. */
  readonly untrained?: boolean;
  readonly signal: AbortSignal;
  readonly onToken?: (choice: number, ...token: Parameters<OnToken>) => void;
  readonly onSeen?: () => void;
  /** Called as soon as an answer is in its ledger, with its index in `turns`. */
  readonly onTurn?: (turn: number) => void;
};

/** One answer of the episode; they are in the order of their completion. */
export type ConversationTurn = {
  readonly conversation: number;
  /** The messages that this answer was the first to see. */
  readonly given: readonly Message[];
  readonly text: string;
  readonly offsets: Int32Array;
  readonly said: Said;
  readonly stopReason: StopReason;
  readonly trained: boolean;
};

/** The origin of a conversation: it shares the first `at` messages of `parent`. */
export type Branch = { readonly parent?: number; readonly at: number; readonly turns: readonly number[] };

/** One message in a ledger. For an answer, `end` is the number of ids up to its end. */
type Entry = { readonly key: string; readonly end?: number };

type Conversation = {
  readonly id: number;
  readonly sequence: string;
  readonly header: string;
  readonly ledger: TokenLedger;
  readonly entries: Entry[];
  readonly parent?: number;
  readonly at: number;
  readonly turns: number[];
  busy: boolean;
};

/** What a request shares with a conversation: the number of messages, and the index of the last answer among them (−1: none). */
type Shared = { readonly of: Conversation; readonly messages: number; readonly answer: number };

/** Far more than an episode needs; a program that forks forever must not fill the memory. */
const MAX_CONVERSATIONS = 1024;

export class Conversations {
  readonly #options: ConversationOptions;
  readonly #limits: LedgerLimits;
  readonly #all: Conversation[] = [];
  readonly #turns: ConversationTurn[] = [];
  /** How often each prompt was sampled, by its digest. So seeds depend on the prompt and not on the order of requests. */
  readonly #asked = new Map<string, number>();

  constructor(options: ConversationOptions) {
    this.#options = options;
    const { imageToken, visionIds } = options.model;
    this.#limits = { imageToken, visionIds, contextTokens: options.contextTokens };
  }

  get turns(): readonly ConversationTurn[] {
    return this.#turns;
  }

  branches(): Branch[] {
    return this.#all.map(({ parent, at, turns }) => ({ ...(parent !== undefined && { parent }), at, turns }));
  }

  /** One sequence per conversation with a sample, in the order in which they were opened. */
  sequences(): Sequence[] {
    return this.#all.filter(({ ledger }) => ledger.hasReplies).map(({ ledger }) => ledger.sequence());
  }

  /** Finds the conversation that a request continues, and renders what is new. The caller then samples or releases it. */
  async open({ messages: asked, variables = {} }: Asked): Promise<OpenAnswer> {
    const messages = joinTurns(asked);
    const last = messages.at(-1);
    if (last === undefined) throw new DataError("A request needs at least one message.");
    if (last.role === "assistant") {
      throw new DataError(
        "The last message is the assistant's, but the model always begins a new turn: end the request with a message of the user or a tool.",
      );
    }
    const header = canonicalJson(variables);
    const keys = messages.map((message) => ({
      given: givenKey(message),
      said: message.role === "assistant" ? saidKey(saidBy(message)) : undefined,
    }));
    const shared = this.#all.filter((one) => one.header === header).map((one) => sharedWith(one, keys));
    const goesOn = longest(shared.filter(({ of, messages: count }) => !of.busy && count === of.entries.length));
    const found = goesOn ?? longest(shared.filter(({ answer }) => answer >= 0));
    const from = found && { ...found, extends: found === goesOn };
    if (from?.extends) from.of.busy = true;
    else if (this.#all.length >= MAX_CONVERSATIONS) {
      throw new DataError(`The episode already has ${MAX_CONVERSATIONS} conversations, the limit.`);
    }
    try {
      return await this.#render(messages, keys, header, variables, from, longest(shared));
    } catch (error) {
      if (from?.extends) from.of.busy = false;
      throw error;
    }
  }

  async #render(
    messages: readonly Message[],
    keys: readonly MessageKeys[],
    header: string,
    variables: JsonObject,
    from: (Shared & { readonly extends: boolean }) | undefined,
    near: Shared | undefined,
  ): Promise<OpenAnswer> {
    const { model } = this.#options;
    const { renderer } = model;
    if (from === undefined) {
      const given = await renderer.prompt(messages, { variables });
      const parent = near && near.messages > 0 ? { parent: near.of.id, at: near.messages } : { at: 0 };
      return this.#opened({ given, header, messages, first: 0, closes: false, prefix: undefined, keys, ...parent });
    }
    const answer = from.extends ? lastAnswer(from.of) : from.answer;
    const end = (from.of.entries[answer] as Entry).end as number;
    const given = await renderer.delta(messages.slice(answer + 1), { ended: true });
    const prefix = from.of.ledger.span(0, end);
    const closes = prefix.ids.at(-1) !== renderer.endOfTurn;
    const parent = { parent: from.of.id, at: from.messages };
    return this.#opened({
      ...{ given, header, messages, first: answer + 1, closes, prefix, keys },
      ...(from.extends ? { extended: from.of, at: 0 } : parent),
    });
  }

  #opened(plan: Plan): OpenAnswer {
    const { model, contextTokens, contextFrom = "the model's own limit" } = this.#options;
    const { endOfTurn } = model.renderer;
    const before = plan.prefix?.ids.length ?? 0;
    const start = before + (plan.closes ? 1 : 0);
    const length = start + plan.given.ids.length;
    // An answer of one id must fit too.
    if (length >= contextTokens) {
      if (this.#turns.length > 0) {
        throw new OutOfTokens(
          `This request has ${length} tokens, and the context has ${contextTokens}: there is no room for an answer.`,
        );
      }
      throw new PromptTooLong(
        `The first prompt has ${length} tokens, and the context has ${contextTokens} (${contextFrom}): there is no room for a reply. ` +
          "Raise the limit, send smaller images, or write a shorter prompt.",
      );
    }
    const ids = new Int32Array(length);
    if (plan.prefix !== undefined) ids.set(plan.prefix.ids);
    if (plan.closes) ids[before] = endOfTurn;
    ids.set(plan.given.ids, start);
    const images = [
      ...(plan.prefix?.images ?? []),
      ...plan.given.images.map((span) => ({ ...span, start: start + span.start })),
    ];
    const prompt = { ids, images };
    let over = false;
    const release = () => {
      if (!over && plan.extended !== undefined) plan.extended.busy = false;
      over = true;
    };
    return {
      prompt,
      release,
      sample: async (params) => {
        if (over) throw new DataError("This request was already answered or cancelled.");
        try {
          return await this.#sample(plan, prompt, params);
        } finally {
          release();
        }
      },
    };
  }

  async #sample(plan: Plan, prompt: ModelInput, params: AnswerParams): Promise<Sample[]> {
    const { model, sampler, temperature, maxTokens, contextTokens, seed, name } = this.#options;
    const { count = 1, read, recited, untrained = false, signal, onToken, onSeen, onTurn, ...sampling } = params;
    const digest = digestOf(prompt);
    const times = this.#asked.get(digest) ?? 0;
    this.#asked.set(digest, times + count);
    const room = contextTokens - prompt.ids.length;
    const homes = Array.from({ length: count }, (_, choice) => ({
      choice,
      sequence: choice === 0 && plan.extended !== undefined ? plan.extended.sequence : `${name}~${sequencesMade++}`,
    }));
    const release = (which: typeof homes) => {
      for (const { sequence } of which) if (sequence !== plan.extended?.sequence) sampler.release(sequence);
    };
    let samples: Sample[];
    try {
      samples = await Promise.all(
        homes.map(({ choice, sequence }) =>
          recited !== undefined
            ? recite(recited, room)
            : sampler.sample(
                prompt,
                {
                  ...sampling,
                  temperature,
                  maxTokens: Math.min(maxTokens, params.maxTokens ?? maxTokens, room),
                  seed: mixSeed(...seed, digest, times + choice),
                  stopIds: [...new Set([...model.generation.eos, ...(sampling.stopIds ?? [])])],
                },
                {
                  sequence,
                  signal,
                  ...(onSeen && choice === 0 && { onSeen }),
                  ...(onToken && { onToken: (...token) => onToken(choice, ...token) }),
                },
              ),
        ),
      );
      signal.throwIfAborted();
    } catch (error) {
      release(homes);
      throw error;
    }
    let first = plan.extended;
    return homes.map(({ choice, sequence }) => {
      const home = choice === 0 && first !== undefined ? first : this.#fork(plan, sequence, first);
      first ??= home;
      const sample = samples[choice] as Sample;
      const turn = this.#commit(plan, home, sample, untrained, read);
      onTurn?.(turn);
      return sample;
    });
  }

  /** Writes an answer to the ledger that it belongs to. */
  #commit(plan: Plan, home: Conversation, sample: Sample, untrained: boolean, read: AnswerParams["read"]): number {
    const { renderer } = this.#options.model;
    const turn = this.#turns.length;
    if (plan.closes) home.ledger.force(renderer.endOfTurn);
    home.ledger.give(plan.given);
    if (untrained) home.ledger.give({ ids: sample.ids, images: [] });
    else home.ledger.sample(sample, turn);
    const { text, offsets } = renderer.decode(sample.ids);
    const said = read?.(sample.ids, sample.stopReason) ?? { text, calls: [] };
    for (const key of plan.keys.slice(plan.first)) home.entries.push({ key: key.given });
    home.entries.push({ key: saidKey(said), end: home.ledger.length });
    home.turns.push(turn);
    this.#turns.push({
      conversation: home.id,
      given: plan.messages.slice(plan.first),
      ...{ text, offsets, said, stopReason: sample.stopReason, trained: !untrained },
    });
    return turn;
  }

  #fork(plan: Plan, sequence: string, sibling: Conversation | undefined): Conversation {
    const ledger = new TokenLedger(this.#limits);
    if (plan.prefix !== undefined) ledger.give(plan.prefix);
    const parent = sibling?.id ?? plan.parent;
    const source = plan.prefix === undefined || parent === undefined ? undefined : this.#all[parent];
    const made: Conversation = {
      ...{ id: this.#all.length, sequence, header: plan.header, ledger, turns: [], busy: false },
      entries: source?.entries.slice(0, plan.first) ?? [],
      ...(parent !== undefined && { parent }),
      at: sibling === undefined ? plan.at : plan.keys.length,
    };
    this.#all.push(made);
    return made;
  }

  /** The episode is over: releases the sampler's caches. */
  close(): void {
    for (const { sequence } of this.#all) this.#options.sampler.release(sequence);
  }
}

/** A request with its prompt. */
export type OpenAnswer = {
  readonly prompt: ModelInput;
  /** Samples the answers and writes them to their ledgers. */
  sample(params: AnswerParams): Promise<Sample[]>;
  /** Cancels the request; nothing is written. */
  release(): void;
};

type MessageKeys = { readonly given: string; readonly said: string | undefined };

type Plan = {
  /** The messages of the request, and the first that is not in `prefix`. */
  readonly messages: readonly Message[];
  readonly keys: readonly MessageKeys[];
  readonly first: number;
  readonly header: string;
  readonly given: ModelInput;
  /** Whether the end of the last answer must be forced. */
  readonly closes: boolean;
  /** The ids that are shared; undefined: none. */
  readonly prefix: ReturnType<TokenLedger["span"]> | undefined;
  readonly extended?: Conversation;
  readonly parent?: number;
  readonly at: number;
};

function recite(ids: Int32Array, room: number): Sample {
  if (ids.length > room) {
    throw new OutOfTokens(
      `A demonstrated reply has ${ids.length} tokens, and there is room for ${room}: raise sampling.contextTokens.`,
    );
  }
  return { ids, logprobs: new Float32Array(ids.length), stopReason: "stop", version: 0 };
}

/** Makes names for the sampler's caches. */
let sequencesMade = 0;

function sharedWith(of: Conversation, keys: readonly MessageKeys[]): Shared {
  let messages = 0;
  let answer = -1;
  for (const [i, entry] of of.entries.entries()) {
    const key = keys[i];
    // The last message waits for an answer, so it can't be one.
    if (key === undefined || (entry.end === undefined ? key.given : key.said) !== entry.key) break;
    messages = i + 1;
    if (entry.end !== undefined) answer = i;
  }
  return { of, messages, answer };
}

/** The one that shares most; the first of them if several do. */
function longest(shared: readonly Shared[]): Shared | undefined {
  return shared.reduce<Shared | undefined>(
    (best, one) => (best === undefined || rank(one) > rank(best) ? one : best),
    undefined,
  );
}

const rank = ({ answer, messages }: Shared) => (answer + 1) * 1e6 + messages;

function lastAnswer({ entries }: Conversation): number {
  return entries.findLastIndex(({ end }) => end !== undefined);
}

function digestOf({ ids, images }: ModelInput): string {
  const bytes = new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);
  return String(sha256(bytes, ...images.map(({ image }) => image.hash)));
}
