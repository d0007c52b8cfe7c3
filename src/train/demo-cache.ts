/**
 * Demonstrations that are used several times are played once and kept until their last use. Where they are not there (a run that goes on), they are played again,
 * and come out the same. Each sequence is named after its environment.
 */
import { envKey } from "../envs/sources.ts";
import type { PlannedEpisode } from "./data.ts";
import type { Demos } from "./demo-player.ts";
import type { Imitated } from "./taught-decisions.ts";

type Kept = { readonly sequences: Promise<readonly Imitated[]>; left: number };

export class DemoCache {
  readonly #demos: Demos;
  readonly #kept = new Map<string, Kept>();

  constructor(demos: Demos) {
    this.#demos = demos;
  }

  /** Demonstrations that wait for another use. */
  get size(): number {
    return this.#kept.size;
  }

  async play(episodes: readonly PlannedEpisode[]): Promise<Imitated[]> {
    const kept = episodes.map((episode) => this.#take(episode));
    const fresh = episodes.filter((_, i) => kept[i] === undefined);
    const playing = fresh.length === 0 ? Promise.resolve([]) : this.#demos.play(fresh);
    const played = episodes.map((episode, i) => {
      const known = kept[i];
      if (known !== undefined) return known;
      const place = fresh.indexOf(episode);
      const sequences = playing.then((all) => all.filter(({ at }) => at === place));
      // Whoever awaits the batch meets the error.
      sequences.catch(() => undefined);
      if (episode.uses !== undefined) this.#kept.set(keyOf(episode), { sequences, left: episode.uses - 1 });
      return sequences;
    });
    const all: Imitated[] = [];
    for (const [i, sequences] of played.entries()) {
      const { label } = episodes[i] as PlannedEpisode;
      for (const { at: _, ...one } of await sequences) all.push({ ...one, label });
    }
    return all;
  }

  close(): Promise<void> {
    this.#kept.clear();
    return this.#demos.close();
  }

  #take(episode: PlannedEpisode): Promise<readonly Imitated[]> | undefined {
    const key = keyOf(episode);
    const kept = episode.uses === undefined ? undefined : this.#kept.get(key);
    if (kept === undefined) return undefined;
    kept.left -= 1;
    if (kept.left === 0) this.#kept.delete(key);
    return kept.sequences;
  }
}

const keyOf = ({ env, seed }: PlannedEpisode) => `${envKey({ env: env.id, options: env.options ?? {} })} ${seed}`;
