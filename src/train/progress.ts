/** Where a run stands; all of it is in every checkpoint. */
import { isJsonObject, type Json } from "../core/json.ts";
import type { Recipe } from "./recipe.ts";

export type Progress = {
  /** Updates of the warm start that were made. */
  readonly warm: number;
  /** Steps of reinforcement learning that were made. */
  readonly step: number;
  /** Groups issued so far, refills included. */
  readonly groups: number;
  readonly klCoefficient: number;
  /** The recipe's, from which an adaptive one went on: where a resumed recipe has another, it begins there. */
  readonly klFrom: number;
  /** The step whose weights are the reference. */
  readonly reference: number;
  /** Whose state the policy's optimizer has: phase and name. Another one starts fresh. */
  readonly optimizer: string;
  /** The evaluation or probe of this step failed or was cut short, and the run stopped: the next process makes it up. */
  readonly unmeasured: boolean;
  /** The step of the newest sight probe, which is not made twice; −1: none. */
  readonly probed: number;
  /** The critic's: its name. */
  readonly criticOptimizer: string;
  /** How the sources are weighted by now, where that changes (`SourceWeights`). */
  readonly mixture: Json;
};

/** What a checkpoint says, or the start; fields that an older checkpoint lacks are as at the start. */
export function progressFrom(state: unknown, recipe: Recipe): Progress {
  const coefficient = recipe.kl?.coefficient ?? 0;
  const start: Progress = {
    warm: 0,
    step: 0,
    groups: 0,
    klCoefficient: coefficient,
    klFrom: coefficient,
    reference: 0,
    optimizer: "",
    unmeasured: false,
    probed: -1,
    criticOptimizer: "",
    mixture: null,
  };
  if (!isJsonObject(state)) return start;
  const found = { ...start, ...state } as Progress;
  const moves = recipe.kl?.target !== undefined;
  return moves && found.klFrom === coefficient ? found : { ...found, klCoefficient: coefficient, klFrom: coefficient };
}
