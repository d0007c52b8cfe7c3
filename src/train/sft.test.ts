/** What is imitated: the sequences that are played. */
import { describe, expect, test } from "vitest";
import { DataError } from "../core/errors.ts";
import { assistant, image, type Message, text, user } from "../core/message.ts";
import type { Step } from "../envs/env.ts";
import { type TokenAgentOptions, tokenAgent } from "../rollout/agents.ts";
import { playEpisode } from "../rollout/episode.ts";
import { frame, ScriptedSampler, testModel } from "../rollout/test-model.ts";
import type { Sequence } from "../rollout/trajectory.ts";
import { type SequenceLayout, sequencesOf } from "./sft.ts";

const model = testModel;
const REPLIES = ["left", "up up down", "right", "left up", "down"];

/** The same replies, played: every observation shows an image of its own. */
async function played(layout: Pick<TokenAgentOptions, "turns" | "history">) {
  const said: Message[][] = [];
  let turn = 0;
  const say = () => {
    const messages = [user(image(frame(10 * turn)), text(`Turn ${turn}.`))];
    said.push(messages);
    return messages;
  };
  const info = { actions: [], parsed: true, wellFormed: true, valid: true };
  const env = {
    reset: () => say(),
    step: (): Step => {
      turn += 1;
      return { observation: say(), rewards: [], terminated: turn >= REPLIES.length, truncated: false, info };
    },
  };
  const sampler = new ScriptedSampler((_, call) => REPLIES[call] as string);
  const agent = tokenAgent({ ...layout, model, sampler: () => sampler, temperature: 1, maxTokens: 30 });
  const context = { env, seed: 0, sibling: 0, samplingSeed: 0 };
  const { sequences } = await playEpisode({ name: "slides", env, agent: agent(context), seed: 0 });
  const messages = REPLIES.flatMap((reply, t) => [...(said[t] as Message[]), assistant(reply)]);
  return { sequences, messages };
}

const shape = (sequences: readonly Sequence[]) =>
  sequences.map(({ ids, sampled, replies, images }) => ({
    ids: Array.from(ids),
    sampled: Array.from(sampled),
    replies,
    images: images.map(({ start, length, image: { hash } }) => [start, length, hash]),
  }));

describe("sequences of a demonstration", () => {
  test.each<[string, SequenceLayout, number]>([
    ["joined", { turns: "joined" }, 1],
    ["split without history", { turns: "split", history: 0 }, 5],
    ["split with a window of 1", { turns: "split", history: 1 }, 5],
    ["split with a window over everything", { turns: "split", history: 9 }, 5],
  ])("%s: the ids and the loss are those of the same replies when they are played", async (_, layout, count) => {
    const { sequences, messages } = await played(layout);
    const imitated = await sequencesOf({ messages }, model, layout);
    expect(imitated).toHaveLength(count);
    expect(shape(imitated)).toEqual(shape(sequences));
  });

  test.each<[string, SequenceLayout, number]>([
    ["joined", { turns: "joined" }, 1],
    ["split", { turns: "split", history: 1 }, 3],
  ])("%s: a reply that is not to be learned is seen and carries no loss", async (_, layout, count) => {
    const { messages } = await played(layout);
    const learn = [true, false, true, false, true];
    const all = await sequencesOf({ messages }, model, layout);
    const some = await sequencesOf({ messages, learn }, model, layout);
    expect(some).toHaveLength(count);
    const trained = (sequences: readonly Sequence[]) =>
      new Set(
        sequences.flatMap(({ sampled, replies }) =>
          replies.filter(({ start, end }) => sampled.slice(start, end).includes(1)).map(({ turn }) => turn),
        ),
      );
    expect([...trained(all)].sort()).toEqual([0, 1, 2, 3, 4]);
    expect([...trained(some)].sort()).toEqual([0, 2, 4]);
    const ids = (sequences: readonly Sequence[]) => sequences.map((sequence) => sequence.ids.join());
    expect(ids(all)).toEqual(expect.arrayContaining(ids(some)));
  });

  test("one that outgrows the context is refused, and split turns need less of it", async () => {
    const { messages } = await played({});
    const [whole] = await sequencesOf({ messages }, model, {});
    const contextTokens = (whole as Sequence).ids.length - 1;
    await expect(sequencesOf({ messages }, model, { contextTokens })).rejects.toThrow(/contextTokens.*"split"/s);
    const split = { turns: "split", history: 0, contextTokens } as const;
    expect(await sequencesOf({ messages }, model, split)).toHaveLength(5);
  });

  test.each<[string, Message[]]>([
    ["no reply", [user(text("hi"))]],
    ["two replies in a row", [user(text("hi")), assistant("a"), assistant("b")]],
    ["a reply to nothing", [assistant("a")]],
  ])("%s is refused", async (_, messages) => {
    await expect(sequencesOf({ messages }, model, {})).rejects.toThrow(DataError);
  });
});
