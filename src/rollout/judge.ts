/**
 * A judge pays for an episode after it is over: a chat model that reads what was said, or a program that needs the whole of it. It holds up no rollout, since
 * the environment and its place are free by then, and it can't fail an episode: one that throws, takes too long or answers nonsense scores nothing, and
 * that is counted.
 */
import { DataError, errorMessage } from "../core/errors.ts";
import { checkRewards } from "../envs/contract.ts";
import type { RewardPart } from "../envs/env.ts";
import { episodeSignal, within } from "./deadline.ts";
import { withRewards } from "./episode.ts";
import type { Trajectory } from "./trajectory.ts";

/** Further parts of the reward, a list per turn. Must stop when the signal is aborted. */
export type Judge = (episode: Trajectory, signal: AbortSignal) => Promise<readonly (readonly RewardPart[])[]>;

export const JUDGE_TIMEOUT_MS = 120_000;

/** The episode with what the judge pays, or as it was, with the reason why there is nothing. */
export async function judgeEpisode(
  judge: Judge,
  episode: Trajectory,
  { timeoutMs = JUDGE_TIMEOUT_MS, signal }: { readonly timeoutMs?: number; readonly signal?: AbortSignal } = {},
): Promise<Trajectory> {
  const asked = performance.now();
  const limit = episodeSignal(timeoutMs, signal, `the judge took more than ${timeoutMs} ms`);
  try {
    const paid = await within(() => judge(episode, limit.signal), Number.POSITIVE_INFINITY, limit.signal);
    const turns = episode.turns.map((turn, i) =>
      withRewards(
        turn,
        checkRewards(
          paid?.[i],
          turn.reply,
          `${episode.env}, seed ${episode.seed}: what the judge returns for turn ${i + 1}`,
        ),
      ),
    );
    if (paid.length !== turns.length) {
      throw new DataError(`it gave rewards for ${paid.length} turns, the episode has ${turns.length}`);
    }
    const reward = turns.reduce((sum, turn) => sum + turn.reward, 0);
    return { ...episode, turns, reward, judge: { ms: performance.now() - asked } };
  } catch (error) {
    return { ...episode, judge: { ms: performance.now() - asked, error: errorMessage(error) } };
  } finally {
    limit.release();
  }
}
