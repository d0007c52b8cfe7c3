/**
 * Messages to ids and image spans: `prompt` once, then `delta` for what an observation appends after a sampled reply. History
 * is never rendered again, so a template that edits it (thinking models drop the thoughts of earlier turns) can't change
 * ids that were already sampled or trained.
 *
 * A delta is found by rendering a stand-in conversation (a user's word, a reply, then the observation) and keeping what
 * follows the reply. At construction it is checked that the text which closes a turn begins with a special token and does
 * not depend on what comes next.
 *
 * Special tokens spelled out in content stay text: a guard character, one that no message uses, is slipped into them before
 * the template runs, and taken out after the template's own special tokens have been found. So the placeholders in the
 * ids are exactly the spans'.
 */
import { ConfigError, DataError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { isJsonObject, type Json, type JsonObject, jsonOrText } from "../core/json.ts";
import { imagesOf, type Message, textOf } from "../core/message.ts";
import type { ImageSpan, ModelInput } from "../core/model-input.ts";
import type { ModelIds } from "./config.ts";
import type { ImageProcessor } from "./image-processor.ts";
import type { ChatTemplate, TemplateMessage, TemplatePart } from "./template.ts";
import { escapeRegExp, type Tokenizer } from "./tokenizer.ts";

export type DeltaOptions = {
  /** The sample's last id is `endOfTurn`. When it is not (a length limit), the delta starts with it. */
  readonly ended: boolean;
};

export type PromptOptions = {
  /** Open the assistant's turn at the end; default true. */
  readonly generationPrompt?: boolean;
  /** The last message is the beginning of what the model says next: its turn stays open. Needs `generationPrompt: false`. */
  readonly continueFinal?: boolean;
  /** What a template may read beside the messages, such as `tools` or `enable_thinking`. */
  readonly variables?: JsonObject;
};

/** Characters of what is remembered, with its ids. */
const MAX_REMEMBERED = 2 ** 23;
const STUB_USER = "saccade stub question";
const STUB_REPLY = "saccade stub reply";
const STUB: readonly TemplateMessage[] = [
  { role: "user", content: STUB_USER },
  { role: "assistant", content: STUB_REPLY },
];
/** Noncharacters: never in sensible text, and there are 32 to choose from. */
const GUARDS = Array.from({ length: 32 }, (_, i) => String.fromCharCode(0xfdd0 + i));

export class Renderer {
  /** The id with which a model ends its turn. */
  readonly endOfTurn: number;
  readonly #template: ChatTemplate;
  readonly #tokenizer: Tokenizer;
  readonly #processor: ImageProcessor;
  readonly #imageToken: string;
  readonly #splitSpecial: RegExp;
  /** Text that closes an assistant's turn. */
  readonly #closing: string;
  #remembering = 0;
  readonly #rendered = new Map<string, { ids: Int32Array; images: readonly Pick<ImageSpan, "start" | "length">[] }>();

  constructor(parts: {
    readonly template: ChatTemplate;
    readonly tokenizer: Tokenizer;
    readonly processor: ImageProcessor;
    readonly ids: Pick<ModelIds, "imageToken">;
  }) {
    this.#template = parts.template;
    this.#tokenizer = parts.tokenizer;
    this.#processor = parts.processor;
    const { special } = this.#tokenizer;
    const imageToken = [...special].find(([, id]) => id === parts.ids.imageToken)?.[0];
    if (imageToken === undefined) {
      throw new ConfigError(
        `config.json says that images are token ${parts.ids.imageToken}, which is not a special token of the tokenizer: ` +
          "config.json and tokenizer.json must come from the same model.",
      );
    }
    this.#imageToken = imageToken;
    const longestFirst = [...special.keys()].sort((a, b) => b.length - a.length);
    this.#splitSpecial = new RegExp(`(${longestFirst.map(escapeRegExp).join("|")})`);
    this.#closing = afterReply(this.#template(STUB, false));
    const [before, token = ""] = this.#closing.split(this.#splitSpecial);
    const first = special.get(token);
    if (first === undefined || before !== "") {
      throw new ConfigError(
        `The chat template ends a reply with ${JSON.stringify(this.#closing)}, which does not start with a special token. ` +
          "Use a template of ChatML's form, whose turns end with a token such as <|im_end|>.",
      );
    }
    this.endOfTurn = first;
    // Fails here, at the start, when the template is not one that deltas can be cut from.
    this.delta([{ role: "user", content: [{ type: "text", text: "saccade stub observation" }] }], { ended: true });
  }

  /** The start of an episode: all messages and the opening of the assistant's turn. */
  prompt(messages: readonly Message[], options: PromptOptions = {}): ModelInput {
    if (messages.length === 0) throw new DataError("A prompt needs at least one message.");
    const { generationPrompt = true, continueFinal = false, variables = {} } = options;
    const kind = JSON.stringify(["prompt", generationPrompt, continueFinal, variables]);
    return this.#remembered(kind, messages, (images) => {
      const guard = pickGuard(messages, variables);
      const spoken = this.#forTemplate(messages, guard);
      const rendered = this.#template(spoken, generationPrompt, this.#guardedValue(variables, guard) as JsonObject);
      return this.#encode(continueFinal ? upToFinal(rendered, spoken, this.#closing) : rendered, guard, images);
    });
  }

  /** What follows a sampled reply: the rest of its turn, these messages, and the opening of the next turn. */
  delta(messages: readonly Message[], { ended }: DeltaOptions): ModelInput {
    return this.#remembered(ended ? "ended" : "cut", messages, (images) => this.#delta(messages, ended, images));
  }

  #delta(messages: readonly Message[], ended: boolean, shown: readonly Image[]): ModelInput {
    const guard = pickGuard(messages);
    const tail = afterReply(this.#template([...STUB, ...this.#forTemplate(messages, guard)], true));
    if (!tail.startsWith(this.#closing)) {
      throw new ConfigError(
        `The chat template closes a reply with ${JSON.stringify(this.#closing)} when it is the last message but not when ` +
          `another follows (${JSON.stringify(tail.slice(0, 40))}…), so observations can't be appended. ` +
          "Use a template of ChatML's form.",
      );
    }
    const { ids, images } = this.#encode(tail, guard, shown);
    if (!ended) return { ids, images };
    return { ids: ids.subarray(1), images: images.map((span) => ({ ...span, start: span.start - 1 })) };
  }

  /** The ids of a reply that a demonstration holds, its end included. */
  reply(text: string): Int32Array {
    return Int32Array.from([...this.#tokenizer.encodeText(text), this.endOfTurn]);
  }

  /** Text of a reply, special tokens left out, with its length in UTF-16 units after each id. */
  decode(ids: Int32Array): { readonly text: string; readonly offsets: Int32Array } {
    const stream = this.#tokenizer.stream({ skipSpecial: true });
    const offsets = new Int32Array(ids.length);
    let text = "";
    for (const [i, id] of ids.entries()) {
      text += stream.push(id);
      offsets[i] = text.length;
    }
    text += stream.end();
    // An unfinished character shows once nothing follows it.
    if (ids.length > 0) offsets[ids.length - 1] = text.length;
    return { text, offsets };
  }

  /**
   * Observations repeat: the same words with another image of the same size. Ids depend on the words and the images' token counts alone, so they are
   * remembered by these, and only the images are put in anew.
   */
  #remembered(
    kind: string,
    messages: readonly Message[],
    render: (images: readonly Image[]) => ModelInput,
  ): ModelInput {
    const images = messages.flatMap(imagesOf);
    const key = JSON.stringify([
      kind,
      messages.map(({ content, extra, form: _, ...rest }) => [
        rest,
        extra?.reasoning_content,
        content.map((part) => (part.type === "text" ? part.text : this.#processor.tokenCount(part.image))),
      ]),
    ]);
    const known = this.#rendered.get(key);
    if (known !== undefined) {
      return { ids: known.ids, images: known.images.map((span, i) => ({ ...span, image: images[i] as Image })) };
    }
    const rendered = render(images);
    const size = key.length + rendered.ids.length;
    if (size > MAX_REMEMBERED) return rendered;
    this.#remembering += size;
    if (this.#remembering > MAX_REMEMBERED) {
      this.#rendered.clear();
      this.#remembering = size;
    }
    this.#rendered.set(key, {
      ids: rendered.ids,
      images: rendered.images.map(({ start, length }) => ({ start, length })),
    });
    return rendered;
  }

  #encode(rendered: string, guard: string, images: readonly Image[]): ModelInput {
    const ids: number[] = [];
    const spans: ImageSpan[] = [];
    for (const piece of rendered.split(this.#splitSpecial)) {
      const special = this.#tokenizer.special.get(piece);
      if (special === undefined) {
        for (const id of this.#tokenizer.encodeText(piece.replaceAll(guard, ""))) ids.push(id);
      } else if (piece === this.#imageToken) {
        const image = images[spans.length];
        if (image === undefined) break;
        const length = this.#processor.tokenCount(image);
        spans.push({ start: ids.length, length, image });
        for (let i = 0; i < length; i++) ids.push(special);
      } else {
        ids.push(special);
      }
    }
    const places = rendered.split(this.#imageToken).length - 1;
    if (places !== images.length) {
      throw new DataError(
        `The chat template made ${places} places for ${images.length} images. It must write ${this.#imageToken} once ` +
          "for each image: use the template of a vision-language model.",
      );
    }
    return { ids: Int32Array.from(ids), images: spans };
  }

  #forTemplate(messages: readonly Message[], guard: string): TemplateMessage[] {
    const safe = (text: string) => this.#guarded(text, guard);
    return messages.map((message) => ({
      role: message.role,
      content: message.content.some((part) => part.type === "image")
        ? message.content.map(
            (part): TemplatePart =>
              part.type === "image" ? { type: "image" } : { type: "text", text: safe(part.text) },
          )
        : safe(textOf(message)),
      // What the model thought in an earlier turn; thinking models' templates decide whether it is shown again.
      ...(typeof message.extra?.reasoning_content === "string"
        ? { reasoning_content: safe(message.extra.reasoning_content) }
        : {}),
      ...(message.name === undefined ? {} : { name: safe(message.name) }),
      ...(message.toolCallId === undefined ? {} : { tool_call_id: safe(message.toolCallId) }),
      ...(message.toolCalls === undefined
        ? {}
        : {
            tool_calls: message.toolCalls.map((call) => ({
              type: "function",
              id: safe(call.id),
              function: { name: safe(call.name), arguments: this.#guardedValue(jsonOrText(call.arguments), guard) },
            })),
          }),
    }));
  }

  /** In all its strings, names of fields included. */
  #guardedValue(value: Json, guard: string): Json {
    if (typeof value === "string") return this.#guarded(value, guard);
    if (Array.isArray(value)) return value.map((one) => this.#guardedValue(one, guard));
    if (!isJsonObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => [this.#guarded(name, guard), this.#guardedValue(one, guard)]),
    );
  }

  /** Special tokens in `text`, and a beginning of one at its very end, broken up by the guard. */
  #guarded(text: string, guard: string): string {
    let out = text;
    for (const token of this.#tokenizer.special.keys()) {
      out = out.replaceAll(token, token[0] + guard + token.slice(1));
    }
    for (const token of this.#tokenizer.special.keys()) {
      // The next part of the same message could complete it.
      for (let length = token.length - 1; length > 0; length--) {
        if (out.endsWith(token.slice(0, length))) {
          return `${out.slice(0, out.length - length + 1)}${guard}${token.slice(1, length)}`;
        }
      }
    }
    return out;
  }
}

function afterReply(rendered: string): string {
  const at = rendered.indexOf(STUB_REPLY);
  if (at < 0) {
    throw new ConfigError("The chat template does not print what an assistant said; use a template of ChatML's form.");
  }
  return rendered.slice(at + STUB_REPLY.length);
}

/** What was rendered, cut after the last message's text, with the white space at its end where the template prints it. */
function upToFinal(rendered: string, messages: readonly TemplateMessage[], closing: string): string {
  const content = messages.at(-1)?.content;
  const last = typeof content === "string" ? content : content?.at(-1);
  const whole = (typeof last === "string" ? last : last?.type === "text" ? last.text : "").trimStart();
  const said = whole.trimEnd();
  // What closes the message may hold the same letters.
  const open = rendered.endsWith(closing) ? rendered.slice(0, rendered.length - closing.length) : rendered;
  const at = open.lastIndexOf(said);
  if (said === "" || at < 0) {
    throw new DataError("A message that goes on must end with text, and the chat template must print it as it is.");
  }
  return open.slice(0, at + (open.startsWith(whole, at) ? whole : said).length);
}

function pickGuard(messages: readonly Message[], variables: JsonObject = {}): string {
  const said = JSON.stringify([
    messages.map((message) => [
      ...[textOf(message), message.name, message.toolCalls, message.extra?.reasoning_content],
      // As it is printed: an escape hides a character.
      message.toolCalls?.map((call) => jsonOrText(call.arguments)),
    ]),
    variables,
  ]);
  const guard = GUARDS.find((candidate) => !said.includes(candidate));
  if (guard === undefined) {
    throw new DataError("A message uses all 32 noncharacters U+FDD0 to U+FDEF; take one of them out of its text.");
  }
  return guard;
}
