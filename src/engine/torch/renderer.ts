/**
 * The chat side of families that TypeScript does not have: the worker renders with the template, tokenizer and processor of the model's own folder. A prompt
 * is rendered once, an observation is the text after a stub's reply; history is never rendered again. Ids are decoded here: the worker says once which bytes
 * each id stands for.
 */
import type { Image } from "../../core/image.ts";
import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { imagesOf, type Message } from "../../core/message.ts";
import type { ModelInput } from "../../core/model-input.ts";
import type { ChatModel, ChatRenderer } from "../../model/chat.ts";
import type { DeltaOptions, PromptOptions } from "../../model/renderer.ts";
import type { Client, Images } from "./client.ts";
import { type Body, ints } from "./wire.ts";

/** What the worker says of a folder. */
type About = {
  readonly endOfTurn: number;
  readonly imageToken: number;
  readonly visionIds: readonly number[];
  readonly verified: boolean;
  readonly maxPositions: number;
  readonly eos: readonly number[];
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly special: readonly number[];
  readonly lengths: Uint8Array;
  readonly pieces: Uint8Array;
};

export async function workerChat(client: Client, folder: string, images: Images): Promise<ChatModel> {
  const about = (await client.call("chat", { folder })) as About;
  const { imageToken, visionIds, verified, maxPositions, eos, temperature, topK, topP } = about;
  const renderer = new WorkerRenderer(client, folder, images, about);
  return {
    renderer,
    imageToken,
    visionIds,
    verified,
    maxPositions,
    generation: {
      eos,
      ...(temperature !== undefined && { temperature }),
      ...(topK !== undefined && { topK }),
      ...(topP !== undefined && { topP }),
    },
    textOf: (id) => renderer.textOf(id),
    // The processor runs in the worker, on the image as it is.
    view: (frame) => frame,
  };
}

class WorkerRenderer implements ChatRenderer {
  readonly endOfTurn: number;
  readonly #client: Client;
  readonly #folder: string;
  readonly #images: Images;
  readonly #special: ReadonlySet<number>;
  readonly #bytes: Uint8Array;
  /** Where the bytes of an id end. */
  readonly #ends: Int32Array;

  constructor(client: Client, folder: string, images: Images, about: About) {
    this.#client = client;
    this.#folder = folder;
    this.#images = images;
    this.endOfTurn = about.endOfTurn;
    this.#special = new Set(about.special);
    this.#bytes = about.pieces;
    this.#ends = ints(about.lengths);
    for (let id = 1; id < this.#ends.length; id++)
      this.#ends[id] = (this.#ends[id] as number) + (this.#ends[id - 1] as number);
  }

  prompt(messages: readonly Message[], { variables = {} }: Pick<PromptOptions, "variables"> = {}): Promise<ModelInput> {
    return this.#render("prompt", messages, variables);
  }

  delta(messages: readonly Message[], { ended }: DeltaOptions): Promise<ModelInput> {
    return this.#render(ended ? "ended" : "cut", messages);
  }

  async reply(text: string): Promise<Int32Array> {
    return ints((await this.#client.call("reply", { folder: this.#folder, text })).ids);
  }

  decode(ids: Int32Array): { readonly text: string; readonly offsets: Int32Array } {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const offsets = new Int32Array(ids.length);
    let text = "";
    for (const [i, id] of ids.entries()) {
      if (!this.#special.has(id)) text += decoder.decode(this.#bytesOf(id), { stream: true });
      offsets[i] = text.length;
    }
    text += decoder.decode();
    // An unfinished character shows once nothing follows it.
    if (ids.length > 0) offsets[ids.length - 1] = text.length;
    return { text, offsets };
  }

  textOf(id: number): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.#bytesOf(id));
  }

  #bytesOf(id: number): Uint8Array {
    return this.#bytes.subarray(this.#ends[id - 1] ?? 0, this.#ends[id] ?? 0);
  }

  async #render(kind: string, messages: readonly Message[], variables: JsonObject = {}): Promise<ModelInput> {
    const images = messages.flatMap(imagesOf);
    const shown = images.map((image) => ({ start: 0, length: 1, image }));
    const body: Body = {
      folder: this.#folder,
      kind,
      messages: messages.map(forTemplate),
      images: shown.map(this.#images.keyOf),
      variables,
    };
    const inputs = [{ ids: new Int32Array(), images: shown }];
    const found = await this.#client.call("render", body, { inputs, images: this.#images });
    const spans = found.spans as readonly (readonly [number, number])[];
    return {
      ids: ints(found.ids),
      images: spans.map(([start, length], i) => ({ start, length, image: images[i] as Image })),
    };
  }
}

/** As templates of Hugging Face read it. */
function forTemplate(message: Message): Body {
  const { role, content, name, toolCallId, toolCalls, extra } = message;
  return {
    role,
    content: content.map((part) => (part.type === "image" ? { type: "image" } : { type: "text", text: part.text })),
    ...(typeof extra?.reasoning_content === "string" && { reasoning_content: extra.reasoning_content }),
    ...(name !== undefined && { name }),
    ...(toolCallId !== undefined && { tool_call_id: toolCallId }),
    ...(toolCalls !== undefined && {
      tool_calls: toolCalls.map((call) => ({
        type: "function",
        id: call.id,
        function: { name: call.name, arguments: parsed(call.arguments) },
      })),
    }),
  };
}

/** Templates print arguments as JSON when they are an object and as they stand when they are text. */
function parsed(text: string): Json {
  try {
    const value = JSON.parse(text) as Json;
    return isJsonObject(value) ? value : text;
  } catch {
    return text;
  }
}
