/** What a run does at this moment, for who watches it. Events say what happened; a phase says what is under way and how far it is. */
import type { Image } from "../core/image.ts";
import { imagesOf } from "../core/message.ts";
import type { Trajectory } from "../rollout/trajectory.ts";

export type PhaseName = "warm start" | "playing" | "learning" | "evaluating" | "checking sight";

export type Phase = {
  readonly name: PhaseName;
  /** Updates of a warm start, groups that were played; 0 of 1 where nothing is counted. */
  readonly done: number;
  readonly total: number;
  /** The newest frame that an agent saw. */
  readonly frame?: Image;
};

/** The last frame of an episode. */
export function lastFrame(trajectory: Trajectory | undefined): Image | undefined {
  if (trajectory === undefined) return undefined;
  const shown = [...trajectory.turns.flatMap(({ observation }) => observation), ...trajectory.final];
  return shown.flatMap(imagesOf).at(-1);
}
