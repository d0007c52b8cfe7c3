/**
 * An agent over a hosted chat model. It gets the conversation as messages and sends it whole, or its first turn and the last `history`
 * turns, through the Vercel AI SDK, images as PNG. The SDK's retries are off: ours count, obey `Retry-After` and hold back
 * everybody. A refusal or an empty answer is a reply like any other and costs a turn.
 */
import {
  generateText,
  type JSONSchema7,
  type JSONValue,
  jsonSchema,
  type LanguageModel,
  type ModelMessage,
  type ToolChoice,
  type ToolSet,
} from "ai";
import { SaccadeError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import type { Json } from "../core/json.ts";
import { type Message, textOf } from "../core/message.ts";
import type { StopReason } from "../engine/engine.ts";
import { writeCall } from "../envs/protocols/tool-text.ts";
import { encodePng } from "../images/png.ts";
import { type Agent, OutOfTokens } from "../rollout/agents.ts";
import type { TextAsked, TextConverser } from "../rollout/converse.ts";
import { classify, type Failure, SilenceError } from "./failures.ts";
import { type Backoff, backoffMs, type Clock, RequestGate, realClock } from "./gate.ts";
import { noUsage, type Usage } from "./usage.ts";

/** A model that can't be asked, for reasons of ours. */
export class ModelError extends SaccadeError {
  override name = "ModelError";
}

/** What a caller may choose. It names no type of the AI SDK, so that users' projects need not compile that. */
export type ChatSettings = {
  readonly maxTokens: number;
  /** Absent: the provider's own. */
  readonly temperature?: number;
  /** Turns before the present one that are sent, beside the first; absent: all. */
  readonly history?: number;
  readonly ratePerMinute?: number;
  /** How often a failed request is sent again; default 8. */
  readonly retries?: number;
  /** Most milliseconds for one answer, default ten minutes; an answer that is slower counts as failed and is asked for again. */
  readonly timeoutMs?: number;
  /** Longest wait that is obeyed, default ten minutes; a provider that asks for more is given up on. */
  readonly mostWaitMs?: number;
  readonly backoff?: Backoff;
  readonly clock?: Clock;
  /** Told when every further request would fail the same way. */
  readonly onHopeless?: (error: ModelError) => void;
  /** Told at once, each reason once, when a request failed and will be sent again. */
  readonly onTrouble?: (reason: string) => void;
};

export type ChatOptions = ChatSettings & {
  readonly model: LanguageModel;
  readonly providerOptions?: Record<string, Record<string, JSONValue>>;
};

/** What a program's request allows the model to call. */
export type AskedTools = { readonly tools?: ToolSet; readonly toolChoice?: ToolChoice<ToolSet> };
type ChatAnswer = { text: string; cut: boolean; promptTokens?: number; tokens?: number };

/** A server that was never reached is given up on after so many tries: it is not there, and waiting does not bring it. */
const FIRST_TRIES = 3;

/** Shared by all episodes of an evaluation. */
export class ChatClient {
  readonly options: ChatOptions;
  readonly #gate: RequestGate;
  readonly #clock: Clock;
  /** What the provider said about our settings, such as one it ignores; each once. */
  readonly warnings = new Set<string>();
  /** Models that answered, as they call themselves. */
  readonly answeredBy = new Set<string>();
  readonly #troubles = new Set<string>();
  /** Whether anybody was ever answered, be it with a refusal. */
  #answered = false;

  constructor(options: ChatOptions) {
    // Warnings are kept for the report instead of printed.
    globalThis.AI_SDK_LOG_WARNINGS = false;
    this.options = options;
    this.#clock = options.clock ?? realClock;
    this.#gate = new RequestGate(this.#clock, options.ratePerMinute);
  }

  async ask(
    messages: readonly Message[],
    usage: Usage,
    signal: AbortSignal,
    tools: AskedTools = {},
  ): Promise<ChatAnswer> {
    const { retries = 8, mostWaitMs = 600_000, backoff = { firstMs: 1000, mostMs: 60_000 } } = this.options;
    for (let attempt = 0; ; attempt++) {
      await this.#gate.enter(signal);
      usage.requests += 1;
      try {
        return await this.#send(messages, usage, signal, tools);
      } catch (error) {
        signal.throwIfAborted();
        const failure = this.#judge(error, messages);
        this.#answered ||= failure.kind !== "again";
        if (failure.kind === "refused") {
          usage.refusals += 1;
          return { text: "", cut: false };
        }
        const { afterMs: after = 0 } = failure;
        const tries = failure.unreachable && !this.#answered ? Math.min(retries + 1, FIRST_TRIES) : retries + 1;
        if (failure.kind !== "again" || attempt + 1 >= tries || after > mostWaitMs) {
          throw this.#giveUp(failure, attempt + 1, after > mostWaitMs);
        }
        this.#report(failure.message);
        usage.retries += 1;
        const jittered = backoffMs(attempt, backoff, this.#clock.random());
        if (after === 0) await this.#clock.wait(jittered, signal);
        // Never earlier than asked, and a little later.
        else this.#gate.hold(after + Math.min(jittered, after / 10));
      }
    }
  }

  async #send(messages: readonly Message[], usage: Usage, signal: AbortSignal, tools: AskedTools): Promise<ChatAnswer> {
    const result = await this.#generate(messages, signal, tools);
    const said = [
      result.text,
      ...result.toolCalls.map(({ toolName, input }) => writeCall(toolName, input as Json, "qwen")),
    ]
      .filter((part) => part !== "")
      .join("\n");
    this.#answered = true;
    // Valid JSON, but no answer: Google's schema has nothing that must be there.
    if (said === "" && result.rawFinishReason === undefined && result.finishReason === "other") {
      throw new ModelError("the answer has neither text nor a reason for its end");
    }
    const { inputTokens, outputTokens, inputTokenDetails, outputTokenDetails } = result.usage;
    usage.inputTokens += inputTokens ?? 0;
    usage.outputTokens += outputTokens ?? 0;
    usage.cachedTokens += inputTokenDetails.cacheReadTokens ?? 0;
    usage.reasoningTokens += outputTokenDetails.reasoningTokens ?? 0;
    usage.unmetered += inputTokens === undefined || outputTokens === undefined ? 1 : 0;
    usage.refusals += result.finishReason === "content-filter" ? 1 : 0;
    usage.emptyReplies += said.trim() === "" ? 1 : 0;
    for (const warning of result.warnings ?? []) this.warnings.add(describeWarning(warning));
    this.answeredBy.add(result.response.modelId);
    return {
      text: said,
      cut: result.finishReason === "length",
      ...(inputTokens !== undefined && { promptTokens: inputTokens }),
      ...(outputTokens !== undefined && { tokens: outputTokens }),
    };
  }

  async #generate(messages: readonly Message[], signal: AbortSignal, tools: AskedTools) {
    const { model, maxTokens, temperature, providerOptions, timeoutMs = 600_000 } = this.options;
    const limited = this.#clock.limit(timeoutMs, signal);
    try {
      return await generateText({
        model,
        ...toModelMessages(messages),
        ...tools,
        maxOutputTokens: maxTokens,
        ...(temperature !== undefined && { temperature }),
        ...(providerOptions && { providerOptions }),
        maxRetries: 0,
        abortSignal: limited.signal,
      });
    } catch (error) {
      if (!limited.signal.aborted || signal.aborted) throw error;
      throw new SilenceError(`no answer within ${timeoutMs / 1000} s`);
    } finally {
      limited.release();
    }
  }

  #judge(error: unknown, messages: readonly Message[]): Failure {
    const failure = classify(error, this.#clock.now());
    // A model that can't take the task itself is no opponent: nothing it did made the conversation long.
    if (failure.kind !== "too_long" || messages.some(({ role }) => role === "assistant")) return failure;
    const hint =
      "The first message and a reply do not fit: lower --max-tokens or make images smaller (--set maxLongSide=…).";
    return { kind: "hopeless", message: `${failure.message} ${hint}` };
  }

  #giveUp({ kind, message }: Failure, attempts: number, tooLong: boolean): Error {
    if (kind === "too_long") return new OutOfTokens(message);
    const why = tooLong ? `it asks for a longer wait than we grant: ${message}` : message;
    const error = new ModelError(attempts === 1 ? why : `${why} (asked ${attempts} times)`);
    // A model that has not answered anybody, asked as often as we ask, will not answer the other episodes either.
    const never = kind === "again" && !tooLong && !this.#answered;
    if (kind === "stop" || never) this.options.onHopeless?.(error);
    return error;
  }

  #report(reason: string): void {
    if (this.#troubles.has(reason)) return;
    this.#troubles.add(reason);
    this.options.onTrouble?.(reason);
  }
}

/** An agent that says what it cost. */
export interface MeteredAgent extends Agent {
  usage(): Usage;
}

export class ChatAgent implements MeteredAgent {
  /** For the record; providers sample at 1 unless told otherwise. */
  readonly temperature: number;
  readonly #client: ChatClient;
  readonly #usage = noUsage();
  #stopReason: StopReason = "stop";

  constructor(client: ChatClient) {
    this.#client = client;
    this.temperature = client.options.temperature ?? 1;
  }

  get stopReason(): StopReason {
    return this.#stopReason;
  }

  async reply(messages: readonly Message[], signal: AbortSignal): Promise<string> {
    const sent = recentTurns(messages, this.#client.options.history);
    const { text, cut } = await this.#client.ask(sent, this.#usage, signal);
    this.#stopReason = cut ? "length" : "stop";
    return text;
  }

  /** For programs that bring their own loop: their tools are the provider's, their calls come back as text. */
  converse(): TextConverser {
    return {
      kind: "text",
      answer: ({ messages, request }, signal) => this.#client.ask(messages, this.#usage, signal, toolsOf(request)),
    };
  }

  usage(): Usage {
    return { ...this.#usage };
  }
}

function toolsOf({ tools, toolChoice }: TextAsked["request"]): AskedTools {
  if (tools.length === 0) return {};
  const entries = tools.map(({ name, description, parameters = { type: "object" } }) => [
    name,
    { inputSchema: jsonSchema(parameters as JSONSchema7), ...(description !== undefined && { description }) },
  ]);
  const choice = typeof toolChoice === "string" ? toolChoice : { type: "tool" as const, toolName: toolChoice.name };
  return { tools: Object.fromEntries(entries) as ToolSet, toolChoice: choice };
}

/** The first turn with its reply, the last `history` turns, and what is to be answered: what a split token ledger keeps. */
export function recentTurns(messages: readonly Message[], history = Number.POSITIVE_INFINITY): readonly Message[] {
  const turns: Message[][] = [[]];
  for (const message of messages) {
    turns.at(-1)?.push(message);
    if (message.role === "assistant") turns.push([]);
  }
  const earliest = Math.max(1, turns.length - 1 - history);
  return [...turns.slice(0, 1), ...turns.slice(earliest)].flat();
}

export function toModelMessages(messages: readonly Message[]): { system?: string; messages: ModelMessage[] } {
  const isSystem = ({ role }: Message) => role === "system" || role === "developer";
  const system = messages
    .filter(isSystem)
    .map((message) => withoutTokens(textOf(message)))
    .join("\n\n");
  const rest = messages.filter((message) => !isSystem(message));
  const names = new Map(
    rest.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id, name }): [string, string] => [id, name])),
  );
  return { ...(system !== "" && { system }), messages: rest.map((message) => toModelMessage(message, names)) };
}

/** `names`: of the tools that were called, by the call's id. */
function toModelMessage(message: Message, names: ReadonlyMap<string, string>): ModelMessage {
  if (message.role === "tool" && message.toolCallId !== undefined)
    return toolResult(message, message.toolCallId, names);
  if (message.toolCalls !== undefined) {
    const said = withoutTokens(textOf(message));
    const calls = message.toolCalls.map(({ id, name, arguments: given }) => ({
      ...{ type: "tool-call" as const, toolCallId: id, toolName: name, input: readJson(given) },
    }));
    return { role: "assistant", content: [...(said === "" ? [] : [{ type: "text" as const, text: said }]), ...calls] };
  }
  if (message.role === "assistant") {
    // Providers refuse empty messages, but an empty reply is part of the conversation.
    const said = withoutTokens(textOf(message));
    return { role: "assistant", content: said.trim() === "" ? "(no answer)" : said };
  }
  return {
    role: "user",
    content: message.content
      .filter((part) => part.type === "image" || part.text !== "")
      .map((part) =>
        part.type === "image"
          ? { type: "image" as const, image: pngOf(part.image), mediaType: "image/png" }
          : { type: "text" as const, text: withoutTokens(part.text) },
      ),
  };
}

function toolResult(message: Message, toolCallId: string, names: ReadonlyMap<string, string>): ModelMessage {
  const value = message.content.map((part) =>
    part.type === "image"
      ? { type: "image-data" as const, data: Buffer.from(pngOf(part.image)).toString("base64"), mediaType: "image/png" }
      : { type: "text" as const, text: withoutTokens(part.text) },
  );
  const output = { type: "content" as const, value };
  return {
    role: "tool",
    content: [{ type: "tool-result", toolCallId, toolName: names.get(toolCallId) ?? "tool", output }],
  };
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Control tokens of chat models: `<|im_end|>`, `<|image_pad|>`, and the image placeholders of families that write them otherwise. */
const CONTROL_TOKENS =
  /<([|｜])([^\s<>|｜]{1,40})[|｜]>|<(image|video|audio|IMG_CONTEXT|start_of_image|end_of_image|image_soft_token|start_of_turn|end_of_turn)>|\[(IMG|IMG_BREAK|IMG_END|INST|\/INST)\]/g;

/**
 * A reply may spell out a control token, and feedback may quote it. Servers read those in what they are sent: a placeholder counts as an image that is not
 * there, which fails the request, and an end of turn forges one. Spaces inside keep it readable and make it text; the record keeps the reply as it was.
 */
export function withoutTokens(said: string): string {
  return said.replace(CONTROL_TOKENS, (_, bar, name, tag, bracket) =>
    bar ? `<${bar} ${name} ${bar}>` : tag ? `< ${tag} >` : `[ ${bracket} ]`,
  );
}

/** A frame is sent again in every later turn and encoded once. */
const encoded = new WeakMap<Image, Uint8Array>();

function pngOf(image: Image): Uint8Array {
  const known = encoded.get(image);
  if (known !== undefined) return known;
  const png = encodePng(image);
  encoded.set(image, png);
  return png;
}

function describeWarning(warning: {
  readonly type: string;
  readonly feature?: string;
  readonly details?: string;
  readonly message?: string;
}): string {
  const { type, feature, details, message } = warning;
  return [type, feature, details, message].filter((part) => part !== undefined).join(": ");
}
