/**
 * The protocols by name. `makeProtocol("think", { maxActions: 3 })` makes one; wherever a protocol is named, an object
 * that implements `Protocol` works as well.
 */
import { ConfigError } from "../../core/errors.ts";
import { didYouMean } from "../../core/words.ts";
import type { Protocol } from "../protocol.ts";
import { keywordOptions, makeKeyword } from "./keyword.ts";
import { makeThink, thinkOptions } from "./think.ts";
import { makeToolCall, toolCallOptions } from "./tool-call.ts";
import { makeTuple, tupleOptions } from "./tuple.ts";
import { makeWorldModel, worldModelOptions } from "./world-model.ts";

const makers = {
  tuple: makeTuple,
  keyword: makeKeyword,
  think: makeThink,
  "world-model": makeWorldModel,
  "tool-call": makeToolCall,
} as const;

export type ProtocolName = keyof typeof makers;

export const protocolNames = Object.keys(makers) as readonly ProtocolName[];

/** Every option with its default, by protocol. */
export const protocolOptions = {
  tuple: tupleOptions,
  keyword: keywordOptions,
  think: thinkOptions,
  "world-model": worldModelOptions,
  "tool-call": toolCallOptions,
} as const satisfies Record<ProtocolName, unknown>;

export function makeProtocol(name: string, options: Readonly<Record<string, unknown>> = {}): Protocol {
  if (!Object.hasOwn(makers, name)) {
    const near = didYouMean(name, protocolNames);
    throw new ConfigError(`There is no protocol "${name}".${near} The protocols are ${protocolNames.join(", ")}.`);
  }
  return makers[name as ProtocolName](options);
}
