/** What a host and its environment workers say to each other. Images travel as RGB bytes and become `Image`s again on arrival. */
import { Image } from "../core/image.ts";
import type { Message, Part } from "../core/message.ts";
import type { BuiltinAgent, RewardPart, Step } from "../envs/env.ts";
import type { Options } from "../envs/registry.ts";

/** An environment by name: all that a worker needs to make it. */
export type EnvSpec = {
  /** A registered id, or the path of a file. */
  readonly id: string;
  readonly options?: Options;
  /** A file to load first, which registers the id. */
  readonly module?: string;
};

export type EnvCall = {
  readonly id: number;
  readonly call:
    | { readonly kind: "open"; readonly spec: EnvSpec }
    | { readonly kind: "reset"; readonly seed: number }
    | { readonly kind: "step"; readonly reply: string }
    | { readonly kind: "truncate" }
    | { readonly kind: "builtin"; readonly agent: BuiltinAgent; readonly seed: number }
    | { readonly kind: "close" };
};

export type EnvResult = readonly Message[] | Step | readonly RewardPart[] | string | null | undefined;
export type EnvReply = {
  readonly id: number;
  readonly result?: EnvResult;
  /** `stack`: from the user's own line on. */
  readonly error?: { readonly name: string; readonly message: string; readonly stack?: string };
};

/** Copies images' bytes (a world may keep its own, or a view of a larger buffer) and lists the copies for transfer. */
export function packMessages(messages: readonly Message[], transfer: ArrayBuffer[]): Message[] {
  return mapImages(messages, ({ width, height, data }) => {
    const copy = new Uint8Array(data);
    transfer.push(copy.buffer);
    return { width, height, data: copy } as Image;
  });
}

export function packStep(step: Step, transfer: ArrayBuffer[]): Step {
  return { ...step, observation: packMessages(step.observation, transfer) };
}

export function unpackMessages(messages: readonly Message[]): Message[] {
  return mapImages(messages, ({ width, height, data }) => new Image(width, height, data));
}

export function unpackStep(step: Step): Step {
  return { ...step, observation: unpackMessages(step.observation) };
}

function mapImages(messages: readonly Message[], map: (image: Image) => Image): Message[] {
  return messages.map((message) => ({
    ...message,
    content: message.content.map((part): Part => (part.type === "image" ? { ...part, image: map(part.image) } : part)),
  }));
}
