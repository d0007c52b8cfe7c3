/**
 * How a batch is cut up for learning. Sequences go into a number of shards that depends on the batch alone, never on threads: each shard adds up its own
 * gradient, and shards are added in order, so one thread and eight give the same bits. A shard's sequences lie end to end in packs, without
 * padding; a pack is one pass over the network.
 */

/** Each shard has a gradient of its own: more would cost memory, and sixteen keep as many threads busy. */
export const SHARDS = 16;
/** A smaller shard would spend more on its own gradient and on narrow matrices than it gains by running beside others. */
const SHARD_TOKENS = 384;
/** A longer sequence is a pack of its own. */
export const PACK_TOKENS = 4096;

export type SequenceSize = {
  readonly tokens: number;
  /** Patches of its images. */
  readonly patches: number;
};

/** shards → packs → indexes of the sequences. Some shards may be empty. */
export type Plan = readonly (readonly (readonly number[])[])[];

/** Longest first, each to the shard with the least work so far; ties go to the lower index. */
export function planShards(sizes: readonly SequenceSize[], shards = shardCount(sizes), packTokens = PACK_TOKENS): Plan {
  const costs = sizes.map(cost);
  const order = sizes.map((_, index) => index).sort((a, b) => (costs[b] as number) - (costs[a] as number) || a - b);
  const loads = new Array<number>(shards).fill(0);
  const members: number[][] = loads.map(() => []);
  for (const index of order) {
    let lightest = 0;
    for (let i = 1; i < shards; i++) if ((loads[i] as number) < (loads[lightest] as number)) lightest = i;
    loads[lightest] = (loads[lightest] as number) + (costs[index] as number);
    members[lightest]?.push(index);
  }
  return members.map((indexes) => cutPacks(indexes, sizes, packTokens));
}

/** 2, 4, 8 or 16: powers of two, so that shards share the threads evenly. */
function shardCount(sizes: readonly SequenceSize[]): number {
  const tokens = sizes.reduce((sum, size) => sum + size.tokens, 0);
  return Math.min(SHARDS, Math.max(2, 2 ** Math.round(Math.log2(tokens / SHARD_TOKENS))));
}

function cutPacks(indexes: readonly number[], sizes: readonly SequenceSize[], packTokens: number): number[][] {
  const packs: number[][] = [];
  let room = 0;
  for (const index of indexes) {
    const { tokens } = sizes[index] as SequenceSize;
    if (packs.length === 0 || tokens > room) {
      packs.push([]);
      room = packTokens;
    }
    packs.at(-1)?.push(index);
    room -= tokens;
  }
  return packs;
}

/** Rough work of a sequence in tokens: a patch costs about a third of a token, and attention overtakes the rest near 4,000 tokens. */
function cost({ tokens, patches }: SequenceSize): number {
  return tokens * (1 + tokens / 4000) + patches / 3;
}
