/**
 * Episodes of a step or an evaluation that failed for our reasons. They are never trained and count against success; too many of them say that the
 * environment is broken, and then no figure is worth having: the run stops and names the first.
 */
import { EnvError } from "../core/errors.ts";
import { EngineLost } from "../engine/errors.ts";
import type { PlayedGroup } from "../rollout/groups.ts";
import { firstFailure } from "../rollout/trajectory.ts";
import { type Failure, failureLines } from "../run/failures.ts";

export type FailedEpisodes = { readonly asked: number; readonly failed: number; readonly first?: Failure };

export function failedIn(groups: readonly PlayedGroup[]): FailedEpisodes {
  const dropped = groups.flatMap((group) => group.dropped);
  const first = firstFailure(dropped);
  const played = groups.reduce((sum, group) => sum + group.trajectories.length, 0);
  return { asked: played + dropped.length, failed: dropped.length, ...(first && { first }) };
}

/** Ends a run. */
export class TooManyFailed extends EnvError {
  override name = "TooManyFailed";
  /** Whether the weights are none of the reasons, so that they can be saved: an engine fails on weights that are not finite. */
  readonly sound: boolean;

  constructor(message: string, sound: boolean) {
    super(message);
    this.sound = sound;
  }
}

/** Exactly the share that is allowed is not too many. */
export function tooMany({ asked, failed }: FailedEpisodes, most: number): boolean {
  return failed > most * asked + 1e-9;
}

/** Throws when more than `most` of the episodes failed; `what` names them. */
export function checkFailed(episodes: FailedEpisodes, most: number, what: string): void {
  if (!tooMany(episodes, most)) return;
  const { asked, failed, first } = episodes;
  // No fault of the environment's: the run restores its weights and plays them again.
  if (first?.lost) throw new EngineLost(first.error);
  const sound = first?.end !== "engine_error";
  throw new TooManyFailed(
    [
      `${failed} of ${asked} episodes of ${what} failed after retries; rollout.maxFailed (${most}) allows ${Math.floor(most * asked + 1e-9)}. The first:`,
      ...(first === undefined ? [] : failureLines(first).map((line) => `  ${line}`)),
      "Fix it, then run the same command again: the run continues from its last checkpoint.",
    ].join("\n"),
    sound,
  );
}
