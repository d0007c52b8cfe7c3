import { expect, test } from "vitest";
import { measureEpisodes, measureGroups } from "./measure.ts";
import { playedEpisode } from "./test-run.ts";

const episode = (group: string, sibling: number, reward: number, more = {}) =>
  playedEpisode(group, sibling, [{ reward, said: [[1, -1]] }], more);

test("groups of one have no variance to lack: the share is over groups that can be compared", () => {
  const played = (group: string, ...rewards: number[]) => ({
    id: group,
    env: { id: "hand" },
    seed: 1,
    trajectories: rewards.map((reward, sibling) => episode(group, sibling, reward)),
    dropped: [],
  });
  const [alone, alike, apart] = [played("a", 1), played("b", 1, 1), played("c", 1, 0)];
  const share = (...groups: Parameters<typeof measureGroups>[0]) => measureGroups(groups)["groups/zero_variance"];
  expect(share(alone)).toBe(0);
  expect(share(alone, alike)).toBe(1);
  expect(share(alone, alike, apart)).toBe(0.5);
});

test("replies that could not be read are counted for each entry of the recipe, of one environment too", () => {
  const [lost, read] = [
    episode("a#7", 0, 0, { env: "x/one" }),
    episode("b#8", 0, 0, { env: "x/one", label: "x/one~2" }),
  ];
  const turns = lost.turns.map((turn) => ({ ...turn, info: { ...turn.info, parsed: false } }));
  const metrics = measureEpisodes([{ ...lost, turns }, read, read]);
  expect(metrics).toMatchObject({
    "train/parse_failures": 1 / 3,
    "train/parse_failures/x/one": 1,
    "train/parse_failures/x/one~2": 0,
  });
});
