/** What rollouts add up to. Groups are counted in the order they were issued, so the sums do not depend on concurrency. */
import { type EndReason, isOurFault, type Trajectory } from "./trajectory.ts";

export class RolloutCounters {
  /** Episodes that may be trained and scored. */
  episodes = 0;
  /** Of those, by how they ended. */
  readonly ended: Partial<Record<EndReason, number>> = {};
  /** Attempts that were played again, by how they ended. */
  readonly retried: Partial<Record<EndReason, number>> = {};
  /** Episodes given up for our reasons, by how the last attempt ended. */
  readonly dropped: Partial<Record<EndReason, number>> = {};
  successes = 0;
  reward = 0;
  turns = 0;
  /** Replies from which no action could be read. */
  unparsed = 0;
  /** Replies that were cut at their token limit. */
  cut = 0;
  sampledTokens = 0;
  /** Ids that were given or forced; split turns count what they copy. */
  givenTokens = 0;
  /** Milliseconds waited, summed over episodes that were live at the same time. */
  sampleMs = 0;
  envMs = 0;

  /** Counts an episode that is over for good. */
  add(trajectory: Trajectory): void {
    if (isOurFault(trajectory)) {
      bump(this.dropped, trajectory.end);
      return;
    }
    this.episodes += 1;
    bump(this.ended, trajectory.end);
    this.successes += trajectory.success ? 1 : 0;
    this.reward += trajectory.reward;
    this.turns += trajectory.turns.length;
    for (const turn of trajectory.turns) {
      this.unparsed += turn.info.parsed === false ? 1 : 0;
      this.cut += turn.stopReason === "length" ? 1 : 0;
      this.sampleMs += turn.sampleMs;
      this.envMs += turn.envMs;
    }
    for (const { sampled } of trajectory.sequences) {
      const count = sampled.reduce((sum, flag) => sum + flag, 0);
      this.sampledTokens += count;
      this.givenTokens += sampled.length - count;
    }
  }

  /** Counts an attempt that failed and is played again. */
  retry(trajectory: Trajectory): void {
    bump(this.retried, trajectory.end);
  }
}

function bump(counts: Partial<Record<EndReason, number>>, reason: EndReason): void {
  counts[reason] = (counts[reason] ?? 0) + 1;
}
