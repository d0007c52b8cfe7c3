/**
 * Demonstrations that are used several times are played once and kept until their last use, as far as there is room for them. One that is not there (its place was
 * needed, or the run was resumed) is played again, and comes out the same. Each sequence is named after its environment.
 */
import { sum } from "../core/numbers.ts";
import { envKey } from "../envs/sources.ts";
import type { PlannedEpisode } from "./data.ts";
import type { DemoEpisode, Demos } from "./demo-player.ts";
import type { Imitated } from "./taught-decisions.ts";

type CachedEpisode = PlannedEpisode & DemoEpisode;
type Kept = { readonly sequences: Promise<readonly Imitated[]>; left: number; bytes: number };

/** Of the frames of all that is kept. */
const MAX_BYTES = 2 ** 30;

export class DemoCache {
  readonly #demos: Demos;
  readonly #maxBytes: number;
  readonly #kept = new Map<string, Kept>();
  #bytes = 0;

  constructor(demos: Demos, maxBytes = MAX_BYTES) {
    this.#demos = demos;
    this.#maxBytes = maxBytes;
  }

  /** Demonstrations that wait for another use. */
  get size(): number {
    return this.#kept.size;
  }

  async play(episodes: readonly CachedEpisode[]): Promise<Imitated[]> {
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
      if (episode.uses !== undefined) this.#keep(keyOf(episode), { sequences, left: episode.uses - 1, bytes: 0 });
      return sequences;
    });
    const all: Imitated[] = [];
    for (const [i, sequences] of played.entries()) {
      const { label } = episodes[i] as CachedEpisode;
      for (const { at: _, ...one } of await sequences) all.push({ ...one, label });
    }
    return all;
  }

  close(): Promise<void> {
    this.#kept.clear();
    this.#bytes = 0;
    return this.#demos.close();
  }

  #take(episode: CachedEpisode): Promise<readonly Imitated[]> | undefined {
    const key = keyOf(episode);
    const kept = episode.uses === undefined ? undefined : this.#kept.get(key);
    if (kept === undefined) return undefined;
    kept.left -= 1;
    if (kept.left === 0) this.#drop(key, kept);
    return kept.sequences;
  }

  #keep(key: string, kept: Kept): void {
    this.#kept.set(key, kept);
    const weigh = (sequences: readonly Imitated[]) => {
      if (this.#kept.get(key) !== kept) return;
      kept.bytes = frameBytes(sequences);
      this.#bytes += kept.bytes;
      // The oldest have fewest uses left.
      for (const [other, old] of this.#kept) {
        if (this.#bytes <= this.#maxBytes) break;
        this.#drop(other, old);
      }
    };
    kept.sequences.then(weigh, () => undefined);
  }

  #drop(key: string, { bytes }: Kept): void {
    this.#kept.delete(key);
    this.#bytes -= bytes;
  }
}

const keyOf = ({ env, seed, clean = false }: CachedEpisode) =>
  `${envKey({ env: env.id, options: env.options ?? {} })} ${seed} ${clean}`;

function frameBytes(sequences: readonly Imitated[]): number {
  const images = new Set(sequences.flatMap(({ sequence }) => sequence.images.map(({ image }) => image)));
  return sum([...images].map(({ data }) => data.byteLength));
}
