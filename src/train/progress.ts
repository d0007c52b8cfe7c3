/** Where a run stands; all of it is in every checkpoint. */
import { isJsonObject } from "../core/json.ts";
import type { Recipe } from "./recipe.ts";

export type Progress = {
  /** Updates of the warm start that were made. */
  readonly warm: number;
  /** Steps of reinforcement learning that were made. */
  readonly step: number;
  /** Groups issued so far, refills included. */
  readonly groups: number;
  readonly klCoefficient: number;
  /** The step whose weights are the reference. */
  readonly reference: number;
  /** Whose state the policy's optimizer has: phase and name. Another one starts fresh. */
  readonly optimizer: string;
};

/** What a checkpoint says, or the start; fields that an older checkpoint lacks are as at the start. */
export function progressFrom(state: unknown, recipe: Recipe): Progress {
  const start: Progress = {
    warm: 0,
    step: 0,
    groups: 0,
    klCoefficient: recipe.kl?.coefficient ?? 0,
    reference: 0,
    optimizer: "",
  };
  return isJsonObject(state) ? ({ ...start, ...state } as Progress) : start;
}
