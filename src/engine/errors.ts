/** Failures of an engine: it can't be built, loaded, reached, or was asked for what it can't do. */

import { SaccadeError } from "../core/errors.ts";

export class EngineError extends SaccadeError {
  override name = "EngineError";
}

/** Whoever trained these weights ruined them: the engine is well, and nothing but other weights will help. */
export class RuinedWeights extends EngineError {
  override name = "RuinedWeights";
}

/** An engine's process ended or can't be reached, and what it knew is gone: weights must be restored from a checkpoint. */
export class EngineLost extends EngineError {
  override name = "EngineLost";
}
