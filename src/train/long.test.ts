/** Batches and replies that are longer than a call takes arguments are counted, filtered and recorded like any other. */
import { expect, test } from "vitest";
import { recordOf } from "../rollout/trajectory-records.ts";
import { zeroVariance } from "./filters.ts";
import { measureEpisodes, measureStaleness } from "./measure.ts";
import { playedEpisode } from "./test-run.ts";

const LONG = 200_000;

test("a reply of 200,000 tokens is recorded, with its version, its age and the range of its advantages", () => {
  const said = Array.from({ length: LONG }, (_, i) => [i % 100, -1] as const);
  const trajectory = playedEpisode("g", 0, [{ reward: 1, said }]);
  const advantages = Float32Array.from(trajectory.sequences[0]?.sampled ?? [], (flag, i) => (flag ? i : -5));
  const record = recordOf(trajectory, { split: "train", step: 1, credit: [{ advantages }] });
  expect(record.turns[0]?.version).toBe(1);
  expect(record.advantage).toMatchObject({ min: 3, max: LONG + 2 });
  expect(measureStaleness([trajectory], 4)).toEqual({ "staleness/mean": 3, "staleness/max": 3 });
});

test("200,000 different replies have none that is common, and a group of as many siblings has a variance", () => {
  const episode = playedEpisode("g", 0, [{ reward: 0, said: [[1, -1]] }]);
  const [turn] = episode.turns;
  const turns = Array.from({ length: LONG }, (_, i) => ({ ...(turn as NonNullable<typeof turn>), reply: `${i}` }));
  expect(measureEpisodes([{ ...episode, turns }])["policy/top_reply"]).toBe(1 / LONG);
  const summary = { tokens: 1, limits: [] };
  const episodes = Array.from({ length: LONG }, (_, i) => ({ ...summary, episode: `${i}`, reward: i === 7 ? 1 : 0 }));
  expect(zeroVariance([{ group: "g", episodes }]).keep).toHaveLength(1);
});
