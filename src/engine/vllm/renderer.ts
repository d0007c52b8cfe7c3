/**
 * Messages to ids at a server's render route, so that sampler, learner and server see the same ids and the same pixels. The start of an episode is one
 * rendering; an observation is the rendering of a stub conversation and the observation, less the stub's, whose prefix property is checked once. Ids are
 * remembered by words and sizes, pixels by the frame: most observations then need no request at all.
 *
 * Text that spells a special token would become one there. Such messages get their ids here, from the folder's own tokenizer and template, which keep
 * text as text, and only their pixels from the server.
 *
 * A server refuses what exceeds its context. Such messages are never sent: they get their ids here, without pixels, so that whoever counts the ids
 * (the agent's ledger) says what does not fit and which limit to raise.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Image } from "../../core/image.ts";
import { image as imagePart, imagesOf, type Message, text, textOf, user } from "../../core/message.ts";
import type { Features, ModelInput } from "../../core/model-input.ts";
import { toOpenAI } from "../../images/openai.ts";
import type { ChatFolder, ChatRenderer } from "../../model/chat.ts";
import type { PromptOptions } from "../../model/renderer.ts";
import { EngineError } from "../errors.ts";
import { decodeFeatures } from "../features.ts";
import { ServerLost, ServerRefused } from "./http.ts";
import type { Rendered } from "./vllm-wire.ts";

/** Something with a render route. */
export type RenderServer = {
  readonly url: string;
  render(messages: unknown, options: { readonly addGenerationPrompt: boolean }): Promise<Rendered>;
};

export type RendererOptions = {
  /** How long to wait for a server when all are gone, and how often to look; defaults ten minutes and a second. */
  readonly patienceMs?: number;
  readonly everyMs?: number;
  /** Most ids that the servers render, the reply's first one included; default: no limit. */
  readonly contextTokens?: number;
};

type Chat = Pick<ChatFolder, "renderer" | "processor" | "tokenizer">;
type Ids = { readonly ids: Int32Array; readonly spans: readonly { readonly start: number; readonly length: number }[] };

const STUB: readonly Message[] = [user(text("A question?")), { role: "assistant", content: [text("An answer.")] }];
const OBSERVATION: readonly Message[] = [user(text("What now?"))];
const MAX_TEXTS = 4096;
/** A conversation that breaks servers is given up on. */
const MAX_BREAKDOWNS = 3;
const MAX_IMAGE_BYTES = 512 * 2 ** 20;

export class VllmRenderer implements ChatRenderer {
  readonly endOfTurn: number;
  readonly #servers: readonly RenderServer[];
  readonly #chat: Chat;
  readonly #patienceMs: number;
  readonly #everyMs: number;
  readonly #contextTokens: number;
  readonly #stub: readonly number[];
  /** Place of the token that ends the stub's reply. */
  readonly #cut: number;
  readonly #texts = new Map<string, Ids>();
  readonly #features = new Map<string, Features>();
  /** Renderings under way, so that siblings ask once. */
  readonly #asked = new Map<string, Promise<ModelInput>>();
  #imageBytes = 0;
  #turn = 0;

  private constructor(
    servers: readonly RenderServer[],
    chat: Chat,
    stub: readonly number[],
    { patienceMs = 600_000, everyMs = 1000, contextTokens = Number.POSITIVE_INFINITY }: RendererOptions,
  ) {
    this.#servers = servers;
    this.#patienceMs = patienceMs;
    this.#everyMs = everyMs;
    this.#contextTokens = contextTokens;
    this.#chat = chat;
    this.endOfTurn = chat.renderer.endOfTurn;
    this.#stub = stub;
    this.#cut = stub.lastIndexOf(this.endOfTurn);
  }

  /** Fails when the server's model is not the folder's, or its template can't be cut. */
  static async open(
    servers: readonly RenderServer[],
    chat: Chat,
    options: RendererOptions = {},
  ): Promise<VllmRenderer> {
    const [first] = servers as [RenderServer];
    const { ids } = await first.render(toOpenAI(STUB), { addGenerationPrompt: false });
    const renderer = new VllmRenderer(servers, chat, ids, options);
    for (const server of servers) {
      const [prompt, delta] = await Promise.all([
        server.render(toOpenAI(OBSERVATION), { addGenerationPrompt: true }),
        server.render(toOpenAI([...STUB, ...OBSERVATION]), { addGenerationPrompt: true }),
      ]);
      const same =
        String(prompt.ids) === String(chat.renderer.prompt(OBSERVATION).ids) &&
        String(renderer.#afterStub(delta, true).ids) === String(chat.renderer.delta(OBSERVATION, { ended: true }).ids);
      if (!same) {
        throw new EngineError(
          `${server.url} tokenizes differently from the recipe's model folder. Start it with that model's tokenizer and chat template.`,
        );
      }
    }
    return renderer;
  }

  /** With variables, the ids are the folder's own, which was found to render as the servers do. */
  prompt(messages: readonly Message[], { variables = {} }: Pick<PromptOptions, "variables"> = {}): Promise<ModelInput> {
    const own = () => this.#chat.renderer.prompt(messages, { variables });
    if (Object.keys(variables).length > 0) {
      const ids = idsOf(own());
      const images = messages.flatMap(imagesOf);
      // It is refused before it is sampled from, so its pixels are not asked for.
      return ids.ids.length >= this.#contextTokens
        ? Promise.resolve(this.#put(ids, images))
        : this.#withPixels(ids, images);
    }
    return this.#render("prompt", messages, messages, (rendered) => wholeOf(rendered), own);
  }

  delta(messages: readonly Message[], { ended }: { readonly ended: boolean }): Promise<ModelInput> {
    return this.#render(
      ended ? "ended" : "cut",
      messages,
      [...STUB, ...messages],
      (rendered) => this.#afterStub(rendered, ended),
      () => this.#chat.renderer.delta(messages, { ended }),
    );
  }

  reply(said: string): Int32Array {
    return this.#chat.renderer.reply(said);
  }

  decode(ids: Int32Array): { readonly text: string; readonly offsets: Int32Array } {
    return this.#chat.renderer.decode(ids);
  }

  async #render(
    kind: string,
    messages: readonly Message[],
    sent: readonly Message[],
    cut: (rendered: Rendered) => Ids,
    own: () => ModelInput,
  ): Promise<ModelInput> {
    const images = messages.flatMap(imagesOf);
    const key = this.#key(kind, messages);
    let known = this.#texts.get(key);
    if (known === undefined) {
      const ids = idsOf(own());
      if (ids.ids.length >= this.#contextTokens) return this.#put(ids, images);
      const stub = sent === messages ? 0 : this.#stub.length;
      if (stub + ids.ids.length >= this.#contextTokens || this.#spellsSpecial(messages)) known = ids;
    }
    if (known !== undefined) return this.#withPixels(known, images);
    const whole = JSON.stringify([key, images.map(({ hash }) => hash)]);
    const asked = this.#asked.get(whole) ?? this.#ask(key, sent, images, cut);
    this.#asked.set(whole, asked);
    try {
      return await asked;
    } finally {
      this.#asked.delete(whole);
    }
  }

  async #withPixels(known: Ids, images: readonly Image[]): Promise<ModelInput> {
    const missing = [
      ...new Map(images.filter((image) => !this.#features.has(image.hash)).map((i) => [i.hash, i])).values(),
    ];
    if (missing.length > 0) await this.#fetchPixels(missing);
    return this.#put(known, images);
  }

  async #ask(
    key: string,
    sent: readonly Message[],
    images: readonly Image[],
    cut: (rendered: Rendered) => Ids,
  ): Promise<ModelInput> {
    const rendered = await this.#anywhere(sent, true);
    const ids = cut(rendered);
    this.#keepPixels(rendered, images);
    for (const [i, { length }] of ids.spans.entries()) {
      const expected = this.#chat.processor.tokenCount(images[i] as Image);
      if (length !== expected) {
        throw new EngineError(
          `The server turns an image into ${length} tokens, but the model folder into ${expected}. Start the server with the folder's image processor.`,
        );
      }
    }
    if (this.#texts.size >= MAX_TEXTS) this.#texts.clear();
    this.#texts.set(key, ids);
    return this.#put(ids, images);
  }

  /** Renders a message of images only to get their pixels. */
  async #fetchPixels(images: readonly Image[]): Promise<void> {
    const message = user(...images.map(imagePart));
    this.#keepPixels(await this.#anywhere([message], false), images);
  }

  #keepPixels(rendered: Rendered, images: readonly Image[]): void {
    if (rendered.images.length !== images.length) {
      throw new EngineError(`A server rendered ${rendered.images.length} of ${images.length} images.`);
    }
    for (const [i, { hash, data }] of rendered.images.entries()) {
      const { hash: frame } = images[i] as Image;
      if (this.#features.has(frame)) continue;
      const features = decodeFeatures(data, hash);
      this.#features.set(frame, features);
      this.#imageBytes += features.data.length;
    }
    for (const [frame, features] of this.#features) {
      if (this.#imageBytes <= MAX_IMAGE_BYTES) break;
      // What this call brought is needed now.
      if (images.some(({ hash }) => hash === frame)) continue;
      this.#features.delete(frame);
      this.#imageBytes -= features.data.length;
    }
  }

  #put({ ids, spans }: Ids, images: readonly Image[]): ModelInput {
    return {
      ids,
      images: spans.map(({ start, length }, i) => {
        const image = images[i] as Image;
        const features = this.#features.get(image.hash);
        return { start, length, image, ...(features && { features }) };
      }),
    };
  }

  #afterStub(rendered: Rendered, ended: boolean): Ids {
    const { ids } = rendered;
    if (this.#cut < 0 || this.#stub.some((id, i) => ids[i] !== id)) {
      throw new EngineError(
        "The server's chat template changes a turn when another follows, so observations can't be appended to it. Start the server with a template of ChatML's form.",
      );
    }
    const from = this.#cut + (ended ? 1 : 0);
    return {
      ids: Int32Array.from(ids.slice(from)),
      spans: rendered.images.map(({ start, length }) => ({ start: start - from, length })),
    };
  }

  #key(kind: string, messages: readonly Message[]): string {
    return JSON.stringify([
      kind,
      messages.map(({ content, extra: _, form: __, ...rest }) => [
        rest,
        content.map((part) => (part.type === "text" ? part.text : this.#chat.processor.tokenCount(part.image))),
      ]),
    ]);
  }

  #spellsSpecial(messages: readonly Message[]): boolean {
    const said = messages.map((message) => `${textOf(message)}\n${JSON.stringify(message.toolCalls ?? "")}`).join("\n");
    for (const token of this.#chat.tokenizer.special.keys()) if (said.includes(token)) return true;
    return false;
  }

  /** Servers take turns. When one is lost the next renders; when all are, the first that is back. */
  async #anywhere(messages: readonly Message[], addGenerationPrompt: boolean): Promise<Rendered> {
    const wire = toOpenAI(messages);
    const until = Date.now() + this.#patienceMs;
    let breakdowns = 0;
    for (let tries = 1; ; tries++) {
      this.#turn += 1;
      const server = this.#servers[this.#turn % this.#servers.length] as RenderServer;
      try {
        return await server.render(wire, { addGenerationPrompt });
      } catch (error) {
        if (error instanceof ServerRefused && error.status >= 500) breakdowns += 1;
        else if (!(error instanceof ServerLost)) throw error;
        if (breakdowns >= MAX_BREAKDOWNS || Date.now() > until) throw error;
        if (tries % this.#servers.length === 0) await sleep(this.#everyMs, undefined, { ref: false });
      }
    }
  }
}

function wholeOf(rendered: Rendered): Ids {
  return {
    ids: Int32Array.from(rendered.ids),
    spans: rendered.images.map(({ start, length }) => ({ start, length })),
  };
}

function idsOf({ ids, images }: ModelInput): Ids {
  return { ids, spans: images.map(({ start, length }) => ({ start, length })) };
}
