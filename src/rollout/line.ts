/**
 * One episode of a program, seen from its endpoint: requests come in through a wire, are answered by the episode's converser, and are kept in the order in which they
 * were answered. What fails for our reasons is remembered until the same request succeeds, so that a program that hides it is not trained on.
 */
import { createHash } from "node:crypto";
import { EnvError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { makeOnce } from "../core/make-once.ts";
import type { Message, Part } from "../core/message.ts";
import type { AgentTurn, Driver, Line } from "../envs/env.ts";
import { grey } from "../envs/world-env.ts";
import type { HttpRequest } from "../http/request.ts";
import { fromOpenAI } from "../images/openai.ts";
import { choiceOf, respond, respondWith } from "../wire/answer.ts";
import { ApiError, badField } from "../wire/errors.ts";
import { readWanted } from "../wire/format.ts";
import { readCount } from "../wire/messages.ts";
import type { Generated, OnChoiceToken, Reply } from "../wire/reply.ts";
import { newId, seconds } from "../wire/request.ts";
import type { Wanted } from "../wire/sampling.ts";
import { parseToolCalls } from "../wire/tools.ts";
import type { Wire, WireRequest } from "../wire/wire.ts";
import { OutOfTokens, PromptTooLong } from "./agents.ts";
import type { ConversationTurn, OpenAnswer } from "./conversations.ts";
import { type Converser, type TextConverser, Threads, type TokenConverser, tokenReader } from "./converse.ts";
import type { Address, Face } from "./door.ts";
import type { Said } from "./matching.ts";
import { sharedImage } from "./shared-images.ts";

/** An answer, and when it was asked for and given (milliseconds since 1970). */
export type LineTurn = AgentTurn & {
  readonly said: Said;
  readonly stopReason: "stop" | "length";
  /** False: it carries no loss. */
  readonly trained: boolean;
  readonly offsets?: Int32Array;
  readonly askedAt: number;
  readonly answeredAt: number;
  readonly encodeMs: number;
  readonly wire: string;
  /** Of the request that opened its conversation, where it had any: what the template read beside the messages. */
  readonly variables?: JsonObject;
};

export type LineOptions = {
  readonly converser: Converser;
  readonly driver: Pick<Driver, "blindfold">;
  readonly signal: AbortSignal;
  readonly maxTurns: number;
};

/** Lines of output that are kept, the last ones, and their length. */
const MAX_LOG_LINES = 200;
const MAX_LOG_WIDTH = 2000;

export class EpisodeLine implements Face {
  readonly log: string[] = [];
  /** The context is full, or all turns are played, and the program was told. */
  limit: "max_tokens" | "max_turns" | undefined;
  readonly #options: LineOptions;
  readonly #turns: LineTurn[] = [];
  readonly #images = new Map<string, Promise<Image>>();
  readonly #threads = new Threads();
  /** What failed for our reasons, by request. */
  readonly #faults = new Map<string, unknown>();
  #posted: Json | undefined;
  #asked = 0;
  #dropped = 0;

  constructor(options: LineOptions) {
    this.#options = options;
  }

  get turns(): readonly LineTurn[] {
    return this.#turns;
  }

  /** Ours, and never mended by another try. */
  get fault(): unknown {
    return this.#faults.values().next().value;
  }

  get posted(): Json | undefined {
    return this.#posted;
  }

  /** What the program is given. */
  face(address: Address, seed: number): Line {
    return {
      ...{ seed, url: address.url, baseURL: address.baseURL, apiKey: address.apiKey, signal: this.#options.signal },
      log: (line) => this.#keepLine(line),
      posted: () => this.#posted,
      turns: () => this.#turns,
    };
  }

  post(body: unknown): void {
    this.#posted = body as Json;
  }

  async count(body: unknown): Promise<number> {
    const { messages, options } = readCount(body);
    const { converser } = this.#options;
    if (converser.kind !== "tokens") throw new ApiError(404, "This model's tokens can't be counted here.");
    const prompt = await converser.model.renderer.prompt(await this.#read(messages), options);
    return prompt.ids.length;
  }

  async answer(wire: Wire, body: unknown, request: HttpRequest): Promise<Response> {
    const asked = wire.parse(body);
    if (this.#asked >= this.#options.maxTurns) {
      this.limit = "max_turns";
      throw new ApiError(400, `The episode has at most ${this.#options.maxTurns} requests.`);
    }
    this.#asked += 1;
    const { converser } = this.#options;
    const signal = AbortSignal.any([request.signal, this.#options.signal]);
    const key = createHash("sha256").update(JSON.stringify(asked.messages)).digest("base64");
    const started = performance.timeOrigin + performance.now();
    const guarded = async <T>(work: () => Promise<T>): Promise<T> => {
      try {
        const done = await work();
        this.#faults.delete(key);
        return done;
      } catch (error) {
        if (!signal.aborted) this.#meet(error, key);
        throw toldAs(error);
      }
    };
    const messages = await this.#read(asked.messages);
    const call: Call = { asked, messages, signal, started, guarded, id: newId(request) };
    return converser.kind === "tokens" ? this.#sampled(converser, call) : this.#spoken(converser, call);
  }

  async #sampled(converser: TokenConverser, call: Call): Promise<Response> {
    const { asked, messages, signal, guarded } = call;
    const { conversations, model } = converser;
    const { generationPrompt = true, variables = {} } = asked.options;
    if (!generationPrompt)
      throw badField(
        null,
        "A trained model always begins its turn: leave add_generation_prompt and continue_final_message out.",
      );
    const opened = await guarded(() => conversations.open({ messages, variables }));
    try {
      const wanted = this.#wanted(converser, asked, opened);
      const tokenizer = tokenReader(model);
      const reply = {
        id: call.id,
        created: seconds(),
        model: asked.model ?? "policy",
        promptIds: opened.prompt.ids,
        wanted,
        tokenizer,
      };
      return await respond(asked, reply, (take) => guarded(() => this.#sample(converser, opened, reply, call, take)));
    } catch (error) {
      opened.release();
      throw error;
    } finally {
      // A stream that nobody reads any more lets go of its conversation, too.
      signal.addEventListener("abort", opened.release, { once: true });
    }
  }

  #wanted({ model, maxTokens, clientLimits }: TokenConverser, asked: WireRequest, { prompt }: OpenAnswer): Wanted {
    const room = Math.max(1, Math.min(maxTokens, model.maxPositions - prompt.ids.length));
    const sampling = { ...asked.sampling, max_tokens: Math.min(asked.sampling.max_tokens ?? room, room) };
    const wanted = readWanted(
      { ...asked, sampling },
      {
        banned: new Set(model.visionIds),
        promptLength: prompt.ids.length,
        contextTokens: model.maxPositions,
        eos: model.generation.eos,
      },
    );
    const narrowed = (["topK", "topP", "minP"] as const).find((name) => wanted.params[name] !== undefined);
    if (narrowed !== undefined && clientLimits === "refuse") {
      const field = { topK: "top_k", topP: "top_p", minP: "min_p" }[narrowed];
      throw badField(
        field,
        `${field} changes what the model would say, and training needs the plain distribution: leave it out, or set sampling.clientLimits to "exclude" in the recipe.`,
      );
    }
    return wanted;
  }

  async #sample(
    { conversations, recite }: TokenConverser,
    opened: OpenAnswer,
    reply: Reply,
    call: Call,
    take: OnChoiceToken = () => {},
  ): Promise<Generated[]> {
    const { wanted } = reply;
    const { temperature: _, seed: __, maxTokens, ...params } = wanted.params;
    const taken = Array.from({ length: wanted.n }, () => 0);
    const asked = performance.now();
    let encodeMs = 0;
    const narrowed = params.topK !== undefined || params.topP !== undefined || params.minP !== undefined;
    const recited = await recite?.(call.messages);
    const answered = await opened.sample({
      ...(recited && { recited }),
      ...{ ...params, maxTokens, count: wanted.n, signal: call.signal, untrained: narrowed },
      read: (ids, stopReason) => {
        const said = choiceOf(call.asked, reply, generatedOf(ids, stopReason));
        return { text: said.text, calls: said.calls.map((one) => one.function) };
      },
      onToken: (choice, id, logprob, top = []) => {
        taken[choice] = (taken[choice] as number) + 1;
        take(choice, id, logprob, top);
      },
      onSeen: () => {
        encodeMs = performance.now() - asked;
      },
      onTurn: (turn) => {
        const { given, text, said, ...rest } = conversations.turns[turn] as ConversationTurn;
        this.#turns.push({
          ...rest,
          messages: given,
          reply: text,
          calls: said.calls,
          said,
          encodeMs,
          ...this.#times(call),
          ...this.#opening(rest.conversation, call),
        });
      },
    });
    return answered.map((sample, choice) => {
      // Engines that do not stream return everything at the end.
      for (let i = taken[choice] as number; i < sample.ids.length; i++) {
        take(choice, sample.ids[i] as number, sample.logprobs[i] as number, sample.topLogprobs?.[i] ?? []);
      }
      return {
        ...generatedOf(sample.ids, sample.stopReason),
        logprobs: [...sample.logprobs],
        top: sample.topLogprobs ?? [],
      };
    });
  }

  async #spoken(converser: TextConverser, call: Call): Promise<Response> {
    const { asked, messages, signal, guarded } = call;
    const n = asked.sampling.n ?? 1;
    if (n !== 1) throw badField("n", `This model gives one answer to a request; n is ${n}.`);
    const found = this.#threads.find(messages);
    const answer = await guarded(() => converser.answer({ messages, request: asked }, signal));
    const usesTools = asked.tools.length > 0 && asked.toolChoice !== "none";
    const { content, calls } = usesTools ? parseToolCalls(answer.text) : { content: answer.text, calls: [] };
    const said = { text: content, calls: calls.map((one) => one.function) };
    const conversation = this.#threads.keep(found, said);
    const finish = answer.cut ? "length" : "stop";
    this.#turns.push({
      ...{ conversation, messages: found.given, reply: answer.text, calls: said.calls, said, encodeMs: 0 },
      ...{ stopReason: finish, trained: false, ...this.#times(call), ...this.#opening(conversation, call) },
    });
    const head = {
      id: call.id,
      created: seconds(),
      model: asked.model ?? "policy",
      promptTokens: answer.promptTokens ?? 0,
    };
    const choice = { text: content, calls, finish, stopReason: null, tokens: answer.tokens ?? 0 } as const;
    return respondWith(asked, { ...head, choices: [choice] });
  }

  #times({ started, asked }: Call) {
    return { askedAt: started, answeredAt: performance.timeOrigin + performance.now(), wire: asked.wire };
  }

  #opening(conversation: number, { asked }: Call): Pick<LineTurn, "variables"> {
    const { variables = {} } = asked.options;
    const isFirst = !this.#turns.some((turn) => turn.conversation === conversation);
    return isFirst && Object.keys(variables).length > 0 ? { variables } : {};
  }

  #meet(error: unknown, key: string): void {
    if (error instanceof OutOfTokens) this.limit = "max_tokens";
    else if (!(error instanceof ApiError)) this.#faults.set(key, error);
  }

  /** An image comes again with every later request, and is decoded once. */
  async #read(messages: readonly JsonObject[]): Promise<Message[]> {
    const read = await fromOpenAI(messages, (url) => {
      const name = createHash("sha256").update(url).digest("base64");
      return makeOnce(this.#images, name, async () => {
        const image = await sharedImage(url, name);
        return this.#options.driver.blindfold ? grey(image) : image;
      });
    });
    return read.map(withThoughts);
  }

  #keepLine(line: string): void {
    this.log.push(line.length > MAX_LOG_WIDTH ? `${line.slice(0, MAX_LOG_WIDTH)}…` : line);
    if (this.log.length <= MAX_LOG_LINES) return;
    this.#dropped += 1;
    this.log.splice(0, 2, `(${this.#dropped + 1} earlier lines)`);
  }
}

type Call = {
  readonly asked: WireRequest;
  readonly messages: readonly Message[];
  readonly signal: AbortSignal;
  readonly started: number;
  readonly guarded: <T>(work: () => Promise<T>) => Promise<T>;
  readonly id: string;
};

function generatedOf(ids: Int32Array, finish: "stop" | "length"): Generated {
  return { ids: [...ids], logprobs: [], top: [], finish, versions: [] };
}

/** Thoughts that come in a field of their own are not part of what a template prints of a past turn. */
function withThoughts({ extra, ...message }: Message): Message {
  if (extra === undefined) return message;
  const { reasoning_content: _, reasoning: __, ...rest } = extra;
  const content = message.content as readonly Part[];
  return { ...message, content, ...(Object.keys(rest).length > 0 && { extra: rest }) };
}

/** As a client is told it. */
function toldAs(error: unknown): unknown {
  if (error instanceof OutOfTokens) {
    return new ApiError(400, error.message, { type: "invalid_request_error", param: "messages" });
  }
  if (error instanceof PromptTooLong) return new ApiError(400, error.message, { param: "messages" });
  return error;
}

/** For an episode that a program ended without asking for anything. */
export function noRequests(name: string): EnvError {
  return new EnvError(
    `${name} ended without a request to the model. Its client must use the episode's address: OPENAI_BASE_URL or ANTHROPIC_BASE_URL of its environment, or the model, baseURL and apiKey that run() is given.`,
  );
}
