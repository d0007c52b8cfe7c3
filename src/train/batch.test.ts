import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Sequence, Trajectory } from "../rollout/trajectory.ts";
import { probeDatum, rowsOf, shiftRight, toDatum } from "./batch.ts";
import { type PlayedTurn, playedEpisode } from "./test-run.ts";

/** Every id, log-probability and number differs from its neighbours, so that nothing shifted can pass. */
const turnsArbitrary: fc.Arbitrary<PlayedTurn[]> = fc
  .array(fc.record({ given: fc.integer({ min: 1, max: 4 }), count: fc.integer({ min: 1, max: 5 }) }), {
    minLength: 1,
    maxLength: 4,
  })
  .map((shapes) =>
    shapes.map(({ given, count }, turn) => ({
      given,
      reward: turn + 1,
      said: Array.from({ length: count }, (_, i) => [100 * (turn + 1) + i, -0.01 * (10 * turn + i + 1)] as const),
    })),
  );

const numbered = (sequence: Sequence, start: number) => Float32Array.from(sequence.ids, (_, i) => start + i);
const only = (trajectory: Trajectory) => trajectory.sequences[0] as Sequence;

describe("rows", () => {
  test("each turn's reward stands on its last sampled id, and turns are numbered on sampled ids alone", () => {
    fc.assert(
      fc.property(turnsArbitrary, fc.boolean(), (turns, split) => {
        const trajectory = playedEpisode("g", 0, turns, { split });
        const rows = rowsOf(trajectory);
        expect(rows).toHaveLength(split ? turns.length : 1);
        const seen: number[] = [];
        for (const [r, row] of rows.entries()) {
          const { ids, sampled } = trajectory.sequences[r] as Sequence;
          for (const [i, id] of ids.entries()) {
            if (sampled[i] === 0) {
              expect([row.turns[i], row.rewards[i]]).toEqual([-1, 0]);
              continue;
            }
            const turn = Math.floor(id / 100) - 1;
            const last = id % 100 === (turns[turn] as PlayedTurn).said.length - 1;
            expect([row.turns[i], row.rewards[i]]).toEqual([turn, last ? turn + 1 : 0]);
            seen.push(id);
          }
          expect(row).toMatchObject({ group: "g", episode: "g/0", order: r, limits: [] });
        }
        // Split or joined, every sampled id is trained once.
        expect(seen).toEqual(turns.flatMap(({ said }) => said.map(([id]) => id)));
      }),
    );
  });

  test("a part of a reward stands on the id that ends its span, and parts of one id add up", () => {
    const said = [10, 11, 12, 13, 14].map((id, i) => [id, -0.1 * (i + 1)] as const);
    const played = playedEpisode("g", 0, [{ given: 2, reward: 0, said }]);
    const [turn] = played.turns;
    // Five ids that write "ab", half a character, its other half, "cd", and the end of the turn.
    const offsets = Int32Array.of(2, 2, 3, 5, 5);
    const rewards = [
      { name: "seen", value: 0.25, span: [0, 1] as const },
      { name: "sign", value: 0.5, span: [2, 3] as const },
      { name: "format", value: 0.125 },
      { name: "task", value: 1, span: [0, 5] as const },
      { name: "tail", value: 2, span: [3, 5] as const },
    ];
    const paid = (some: object) => rowsOf({ ...played, turns: [{ ...turn, ...some }] as Trajectory["turns"] })[0];
    const row = paid({ rewards, offsets });
    expect(Array.from(row?.rewards.subarray(row.sampled.indexOf(1)) ?? []).slice(0, 5)).toEqual([
      0.25, 0, 0.5, 3, 0.125,
    ]);
    expect(Array.from(paid({ rewards })?.rewards ?? []).filter((value) => value !== 0)).toEqual([3.875]);
  });

  test("say which limits their episode met: turns, context, and replies that were cut, whatever ended it", () => {
    const limits = (end: Trajectory["end"], ...cuts: boolean[]) => {
      const turns = cuts.map((cut) => ({ reward: 1, said: [[1, -1]] as const, cut }));
      return [...new Set(rowsOf(playedEpisode("g", 0, turns, { end, split: true })).map((row) => row.limits.join()))];
    };
    expect(limits("done", false, false)).toEqual([""]);
    expect(limits("done", true, false)).toEqual(["reply"]);
    expect(limits("done", false, true)).toEqual(["reply,last-reply"]);
    expect(limits("max_turns", false)).toEqual(["turns"]);
    expect(limits("max_tokens", true, false)).toEqual(["reply,context"]);
  });
});

describe("datums", () => {
  test("what speaks of an id stands where that id is predicted, one place before it", () => {
    fc.assert(
      fc.property(turnsArbitrary, (turns) => {
        const sequence = only(playedEpisode("g", 0, turns));
        const numbers = {
          weights: numbered(sequence, 1),
          advantages: numbered(sequence, 1000),
          oldLogprobs: numbered(sequence, 2000),
          referenceLogprobs: numbered(sequence, 3000),
          returns: numbered(sequence, 4000),
          oldValues: numbered(sequence, 5000),
        };
        const datum = toDatum(sequence, 0.7, numbers);
        expect(datum.temperature).toBe(0.7);
        for (let at = 0; at < sequence.ids.length; at++) {
          const id = at + 1;
          if (sequence.sampled[id] !== 1) {
            expect([datum.targets[at], datum.weights[at]]).toEqual([-1, 0]);
            continue;
          }
          expect(datum.targets[at]).toBe(sequence.ids[id]);
          for (const [name, values] of Object.entries(numbers)) {
            expect(datum[name as keyof typeof numbers]?.[at], name).toBe(values[id]);
          }
        }
        expect([...datum.weights].filter((weight) => weight > 0)).toHaveLength(sequence.sampled.filter(Boolean).length);
      }),
    );
  });

  test("a probe asks for every sampled id and trains nothing", () => {
    const sequence = only(
      playedEpisode("g", 0, [
        {
          reward: 1,
          said: [
            [7, -1],
            [8, -2],
          ],
        },
      ]),
    );
    const { targets, weights } = probeDatum(sequence, 1);
    expect([...targets].filter((target) => target >= 0)).toEqual([7, 8]);
    expect(weights.every((weight) => weight === 0)).toBe(true);
  });

  test("an engine's answer at a prediction comes back on the id it predicts", () => {
    expect([...shiftRight(Float32Array.of(1, 2, 3, 4))]).toEqual([0, 1, 2, 3]);
  });
});
