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
export type DemoEpisode = { readonly env: EnvSpec; readonly seed: number };

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

  async play(episodes: readonly DemoEpisode[]): Promise<Imitated[]> {
    const imitated: Imitated[] = [];
    for (const [i, { env, seed }] of episodes.entries()) {
      const world = await this.#worldOf(env);
      if (world.driver !== undefined) {
        const { layout, noise } = this.#style;
        const { contextTokens = this.#model.maxPositions } = layout;
        const options = { contextTokens, noise: noise.probability };
        const driven = imitatedOf(await demonstrate(env.id, world, seed, this.#model, options));
        imitated.push(...driven.map((one) => ({ ...one, at: i })));
        continue;
      }
      const { demo, decisions } = await this.#playTaught(env.id, world, seed, i < WATCHED);
      const sequences = await sequencesOf(demo, this.#model, this.#style.layout);
      imitated.push(...imitatedOf(sequences, decisions).map((one) => ({ ...one, at: i })));
      // The main thread also answers environments and the terminal.
      if (i % 8 === 7) await new Promise((resolve) => setImmediate(resolve));
    }
    return imitated;
  }

  async close(): Promise<void> {
    const worlds = await Promise.allSettled(this.#worlds.values());
    this.#worlds.clear();
    for (const world of worlds) if (world.status === "fulfilled") await world.value.close?.();
  }

  /** A demonstration and, when it is watched, the decisions in it that are the oracle's. */
  async #playTaught(name: string, env: Env, seed: number, watched: boolean) {
    const decisions: TaughtDecision[] = [];
    let turn = 0;
    const demo = await playDemo(name, env, seed, undefined, this.#style.noise, async (taught, agreed) => {
      const looked = watched && agreed && env instanceof WorldEnv;
      const decision = looked ? await taughtDecision(env, taught, turn) : undefined;
      if (decision !== undefined) decisions.push(decision);
      turn += 1;
    });
    return { demo, decisions };
  }

  #worldOf({ id, options = {} }: EnvSpec): Promise<Env> {
    const key = envKey({ env: id, options });
    const world = this.#worlds.get(key) ?? makeEnv(id, options);
    this.#worlds.set(key, world);
    return world;
  }
}

export function imitatedOf(sequences: readonly Sequence[], decisions: readonly TaughtDecision[] = []): Imitated[] {
  return sequences.map((sequence) => ({ sequence, decisions }));
}
