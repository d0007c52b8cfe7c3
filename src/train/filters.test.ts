import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { grpo } from "./advantages.ts";
import {
  applyFilters,
  dropMasked,
  type EpisodeGroup,
  FILTERS,
  groupsOf,
  keepRows,
  overLong,
  rewardVariance,
  rewardVarianceTopP,
  survivors,
  varianceOf,
  withoutRewards,
  zeroVariance,
} from "./filters.ts";
import { joinedRows, playsArbitrary, splitRows } from "./test-rows.ts";
import type { Limit } from "./tokens.ts";

fc.configureGlobal({ seed: 7, numRuns: 40 });

function group(name: string, ...rewards: number[]): EpisodeGroup {
  return {
    group: name,
    episodes: rewards.map((reward, s) => ({
      episode: `${name}/${s}`,
      reward,
      tokens: 3,
      limits: s === 1 ? ["reply"] : [],
    })),
  };
}
const LIMITS: Limit[] = ["reply", "last-reply", "turns", "context"];
const groupsArbitrary = fc
  .array(fc.array(fc.tuple(fc.constantFrom(0, 0.5, 1), fc.subarray(LIMITS)), { minLength: 1, maxLength: 4 }), {
    maxLength: 6,
  })
  .map((groups): EpisodeGroup[] =>
    groups.map((members, g) => ({
      group: `g${g}`,
      episodes: members.map(([reward, limits], s) => ({ episode: `${g}/${s}`, reward, tokens: 1, limits })),
    })),
  );
const count = (groups: readonly EpisodeGroup[]) => groups.reduce((sum, g) => sum + g.episodes.length, 0);
const names = (groups: readonly EpisodeGroup[]) => groups.map((g) => g.group);

describe("every filter", () => {
  for (const filter of FILTERS) {
    const bags =
      filter.name === "over-long"
        ? ["keep", "mask", "drop", "zero"].map((choice) => ({ replies: choice, turns: choice }))
        : [{}];
    test(`${filter.name} keeps part of what it got, in order, and its counts add up`, () => {
      for (const options of bags) {
        fc.assert(
          fc.property(groupsArbitrary, (groups) => {
            const { keep, dropped, scale, masked, unpaid } = filter.apply(groups, options);
            expect(keep.length + dropped.groups).toBe(groups.length);
            expect(count(keep) + dropped.episodes).toBe(count(groups));
            const order = names(keep).map((name) => names(groups).indexOf(name));
            expect(order).toEqual([...order].sort((a, b) => a - b));
            const all = new Set(groups.flatMap((g) => g.episodes));
            for (const g of keep) {
              expect(g.episodes.length).toBeGreaterThan(0);
              for (const episode of g.episodes) expect(all.has(episode)).toBe(true);
            }
            if (scale !== undefined) expect(scale > 0 && scale <= 1).toBe(true);
            for (const id of [...(masked ?? []), ...(unpaid ?? [])])
              expect(keep.some((g) => g.episodes.some((e) => e.episode === id))).toBe(true);
          }),
        );
      }
    });
    test(`${filter.name} refuses an option it does not know`, () => {
      expect(() => filter.apply([], { nonsense: 1 })).toThrow(/nonsense/);
    });
  }
});

describe("filters by hand", () => {
  const groups = [group("flat", 1, 1), group("small", 0, 0.5), group("big", 0, 2), group("middle", 0, 1)];

  test("reward-variance keeps the share of largest variance, rounded up, at least one", () => {
    expect(names(rewardVariance(groups, { share: 0.5 }).keep)).toEqual(["big", "middle"]);
    expect(names(rewardVariance(groups, { share: 0.3 }).keep)).toEqual(["big", "middle"]);
    expect(names(rewardVariance(groups, { share: 0 }).keep)).toEqual(["big"]);
    expect(rewardVariance(groups, { share: 1 }).dropped).toEqual({ groups: 0, episodes: 0 });
  });

  test("without any variance there is nothing to rank and all groups stay", () => {
    const flat = [group("a", 1, 1), group("b", 0), group("c", 0.1, 0.1, 0.1)];
    expect(rewardVariance(flat).keep).toEqual(flat);
    expect(rewardVarianceTopP(flat)).toEqual({ keep: flat, scale: 1, dropped: { groups: 0, episodes: 0 } });
  });

  test("top-p keeps the fewest groups that hold the share of variance, and scales by sqrt(kept / all)", () => {
    // Variances 0, 1/16, 1 and 1/4.
    const at = (topP: number) => rewardVarianceTopP(groups, { topP });
    expect(names(at(0.7).keep)).toEqual(["big"]);
    expect(at(0.7).scale).toBe(Math.sqrt(1 / 4));
    expect(names(at(0.9).keep)).toEqual(["big", "middle"]);
    expect(at(0.9).scale).toBe(Math.sqrt(2 / 4));
    expect(names(at(1).keep)).toEqual(["small", "big", "middle"]);
    expect(names(at(0).keep)).toEqual(["big"]);
  });

  test("top-p is the smallest prefix of the ranking whatever the rewards", () => {
    fc.assert(
      fc.property(groupsArbitrary, fc.double({ min: 0, max: 1, noNaN: true }), (some, topP) => {
        const total = some.reduce((sum, g) => sum + varianceOf(g), 0);
        fc.pre(total > 0);
        const { keep } = rewardVarianceTopP(some, { topP });
        const held = keep.map(varianceOf);
        const left = some.filter((g) => !keep.includes(g)).map(varianceOf);
        const sum = held.reduce((a, b) => a + b, 0);
        expect(sum).toBeGreaterThanOrEqual(topP * total - 1e-9);
        expect(Math.min(...held)).toBeGreaterThanOrEqual(Math.max(0, ...left));
        if (keep.length > 1) expect(sum - Math.min(...held)).toBeLessThan(topP * total + 1e-9);
      }),
    );
  });

  test("zero-variance drops groups of equal rewards, within its tolerance", () => {
    expect(names(zeroVariance(groups).keep)).toEqual(["small", "big", "middle"]);
    expect(names(zeroVariance([group("noise", 1, 1 + 1e-9)]).keep)).toEqual([]);
    expect(names(zeroVariance(groups, { tolerance: 0.6 }).keep)).toEqual(["big", "middle"]);
    // The same sum, rounded in other places.
    expect(names(zeroVariance([group("rounded", 87.5, Math.fround(87.3) + Math.fround(0.2))]).keep)).toEqual([]);
    expect(names(zeroVariance([group("told apart", 87.5, 87.501)]).keep)).toEqual(["told apart"]);
  });

  test("over-long masks, drops or keeps episodes with a cut reply, and a group left empty goes too", () => {
    const lone = { group: "lone", episodes: [{ episode: "lone/0", reward: 1, tokens: 1, limits: ["reply" as const] }] };
    expect(overLong([...groups, lone]).masked).toEqual(["flat/1", "small/1", "big/1", "middle/1", "lone/0"]);
    const dropped = overLong([...groups, lone], { replies: "drop" });
    expect(dropped.dropped).toEqual({ groups: 1, episodes: 5 });
    expect(overLong(groups, { replies: "keep" }).keep).toEqual(groups);
    expect(() => overLong(groups, { replies: "eat" })).toThrow(/replies.*mask/);
  });

  test("over-long has a choice for replies that were cut, one for turns and one for the context", () => {
    const episodes = LIMITS.map((limit, s) => ({ episode: limit, reward: s, tokens: 1, limits: [limit] }));
    const all = [{ group: "g", episodes }];
    expect(overLong(all)).toMatchObject({ masked: ["reply"], unpaid: [] });
    expect(overLong(all, { which: "last" }).masked).toEqual(["last-reply"]);
    expect(overLong(all, { replies: "keep", turns: "mask" }).masked).toEqual(["turns"]);
    expect(overLong(all, { turns: "drop" }).keep[0]?.episodes.map((e) => e.episode)).toEqual([
      "reply",
      "last-reply",
      "context",
    ]);
    // No reward unless the last reply stopped by itself.
    const unless = overLong(all, { replies: "zero", which: "last", context: "zero" });
    expect(unless).toMatchObject({ masked: [], unpaid: ["last-reply", "context"] });
  });

  test("an episode that earns nothing earns nothing for the filters after it", () => {
    const get = (name: string) => FILTERS.find((filter) => filter.name === name)!;
    const paid = [group("a", 0, 1), group("b", 1, 0)];
    const report = applyFilters(paid, [
      { filter: get("over-long"), options: { replies: "zero" } },
      { filter: get("zero-variance") },
    ]);
    expect(names(report.keep)).toEqual(["b"]);
    expect([...report.unpaid]).toEqual(["b/1"]);
  });

  test("a group with fewer than two survivors is dropped and counted", () => {
    const result = survivors([group("one", 1), group("two", 1, 0)]);
    expect(names(result.keep)).toEqual(["two"]);
    expect(result.dropped).toEqual({ groups: 1, episodes: 1 });
  });

  test("a chain of filters multiplies scales, keeps counts by name, and forgets masks of dropped episodes", () => {
    const get = (name: string) => FILTERS.find((filter) => filter.name === name)!;
    const report = applyFilters(
      [...groups, group("one", 5)],
      [
        { filter: get("over-long") },
        { filter: get("survivors") },
        { filter: get("zero-variance") },
        { filter: get("reward-variance-top-p"), options: { topP: 0.7 } },
      ],
    );
    expect(names(report.keep)).toEqual(["big"]);
    expect(report.scale).toBe(Math.sqrt(1 / 3));
    expect([...report.masked]).toEqual(["big/1"]);
    expect(report.dropped).toEqual({
      "over-long": { groups: 0, episodes: 0 },
      survivors: { groups: 1, episodes: 1 },
      "zero-variance": { groups: 1, episodes: 2 },
      "reward-variance-top-p": { groups: 2, episodes: 4 },
    });
  });
});

describe("between rows and groups", () => {
  test("groups see whole episodes in both layouts", () => {
    fc.assert(
      fc.property(playsArbitrary(false), (plays) => {
        const shape = (groups: EpisodeGroup[]) =>
          groups
            .flatMap((g) => g.episodes.map((e) => ({ ...e, reward: Math.round(e.reward * 1e4), group: g.group })))
            .sort((a, b) => a.episode.localeCompare(b.episode));
        const joined = shape(groupsOf(joinedRows(plays)));
        expect(shape(groupsOf(splitRows(plays)))).toEqual(joined);
        expect(joined).toHaveLength(plays.length);
        const rows = splitRows(plays);
        const keep = survivors(groupsOf(rows)).keep;
        const kept = keepRows(rows, keep);
        expect(new Set(kept.map((row) => row.group))).toEqual(new Set(names(keep)));
        expect(kept).toEqual(rows.filter((row) => names(keep).includes(row.group)));
      }),
    );
  });

  test("a masked episode counts for the baseline of its siblings and then leaves", () => {
    const token = { reward: 0, value: 0, sampler: 0, learner: 0, reference: 0 };
    const rows = joinedRows(
      [1, 0, 0].map((reward, s) => ({
        group: "g",
        episode: `e${s}`,
        turns: [{ given: 0, tokens: [{ ...token, reward }] }],
      })),
    );
    const options = { gamma: 1, lambda: 1, turnGamma: 1, turnLambda: 1, normalizeStd: false };
    const left = dropMasked(rows, grpo.compute(rows, options), new Set(["e2"]));
    expect(left.rows.map((row) => row.episode)).toEqual(["e0", "e1"]);
    expect(left.credit.advantages[0]![0]).toBeCloseTo(2 / 3, 6);
    expect(left.credit.advantages[1]![0]).toBeCloseTo(-1 / 3, 6);
  });

  test("episodes can be made to earn nothing, in all their rows", () => {
    fc.assert(
      fc.property(playsArbitrary(false), (plays) => {
        const first = plays[0]!.episode;
        const rows = withoutRewards(splitRows(plays), new Set([first]));
        const episodes = groupsOf(rows).flatMap((g) => g.episodes);
        expect(episodes.find(({ episode }) => episode === first)?.reward).toBe(0);
        const others = (some: typeof rows) => some.filter((row) => row.episode !== first);
        expect(others(rows)).toEqual(others(splitRows(plays)));
      }),
      { numRuns: 20 },
    );
  });
});
