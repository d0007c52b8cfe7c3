/** Plays demonstrations and makes them into the sequences that are imitated. */
import { type Noise, playDemo } from "../envs/demos.ts";
import type { Env } from "../envs/env.ts";
import { makeEnv } from "../envs/registry.ts";
import { envKey } from "../envs/sources.ts";
import { WorldEnv } from "../envs/world-env.ts";
import type { ChatModel } from "../model/chat.ts";
import { demonstrate } from "../rollout/demonstrator.ts";
import type { EnvSpec } from "../rollout/hosts.ts";
import type { Sequence } from "../rollout/trajectory.ts";
import { type SequenceLayout, sequencesOf } from "./sft.ts";
import { type Imitated, type TaughtDecision, taughtDecision } from "./taught-decisions.ts";

export type DemoStyle = { readonly noise: Noise; readonly layout: SequenceLayout };
export type DemoEpisode = {
  readonly env: EnvSpec;
  readonly seed: number;
  /** The style's noise is left out. */
  readonly clean?: boolean;
};

/** Who plays batches: the main thread, or threads of their own. The same episodes give the same sequences. */
export interface Demos {
  play(episodes: readonly DemoEpisode[]): Promise<Imitated[]>;
  close(): Promise<void>;
}

/** Episodes of a batch whose decisions are looked at: looking costs as much as a third of playing. */
const WATCHED = 8;

export class DemoPlayer implements Demos {
  readonly #model: ChatModel;
  readonly #style: DemoStyle;
  readonly #worlds = new Map<string, Promise<Env>>();

  constructor(model: ChatModel, style: DemoStyle) {
    this.#model = model;
    this.#style = style;
  }

  /** A world plays one episode at a time, and different worlds play at once: some wait for a browser or another program. */
  async play(episodes: readonly DemoEpisode[]): Promise<Imitated[]> {
    const byWorld = new Map<string, number[]>();
    for (const [i, { env }] of episodes.entries()) {
      const key = keyOf(env);
      byWorld.set(key, [...(byWorld.get(key) ?? []), i]);
    }
    const played: (readonly Imitated[])[] = episodes.map(() => []);
    let count = 0;
    const playAll = async (indices: readonly number[]) => {
      for (const i of indices) {
        played[i] = await this.#playOne(episodes[i] as DemoEpisode, i);
        // The main thread also answers environments and the terminal.
        if (++count % 8 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const ends = await Promise.allSettled([...byWorld.values()].map(playAll));
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    return played.flat();
  }

  async #playOne({ env, seed, clean = false }: DemoEpisode, at: number): Promise<Imitated[]> {
    const world = await this.#worldOf(env);
    const { layout } = this.#style;
    const noise = clean ? { ...this.#style.noise, probability: 0 } : this.#style.noise;
    if (world.driver !== undefined) {
      const { contextTokens = this.#model.maxPositions } = layout;
      const options = { contextTokens, noise: noise.probability };
      const driven = imitatedOf(await demonstrate(env.id, world, seed, this.#model, options));
      return driven.map((one) => ({ ...one, at }));
    }
    const { demo, decisions } = await this.#playTaught(env.id, world, seed, noise, at < WATCHED);
    const sequences = await sequencesOf(demo, this.#model, layout);
    return imitatedOf(sequences, decisions).map((one) => ({ ...one, at }));
  }

  async close(): Promise<void> {
    const worlds = await Promise.allSettled(this.#worlds.values());
    this.#worlds.clear();
    for (const world of worlds) if (world.status === "fulfilled") await world.value.close?.();
  }

  /** A demonstration and, when it is watched, the decisions in it that are the oracle's. */
  async #playTaught(name: string, env: Env, seed: number, noise: Noise, watched: boolean) {
    const decisions: TaughtDecision[] = [];
    let turn = 0;
    if (env instanceof WorldEnv) env.seesEnd = false;
    const demo = await playDemo(name, env, seed, undefined, noise, async (taught, agreed) => {
      const looked = watched && agreed && env instanceof WorldEnv;
      const decision = looked ? await taughtDecision(env, taught, turn) : undefined;
      if (decision !== undefined) decisions.push(decision);
      turn += 1;
    });
    return { demo, decisions };
  }

  #worldOf(env: EnvSpec): Promise<Env> {
    const key = keyOf(env);
    const world = this.#worlds.get(key) ?? makeEnv(env.id, env.options ?? {});
    this.#worlds.set(key, world);
    return world;
  }
}

const keyOf = ({ id, options = {} }: EnvSpec) => envKey({ env: id, options });

export function imitatedOf(sequences: readonly Sequence[], decisions: readonly TaughtDecision[] = []): Imitated[] {
  return sequences.map((sequence) => ({ sequence, decisions }));
}
