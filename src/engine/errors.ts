/** Failures of an engine: it can't be built, loaded, reached, or was asked for what it can't do. */

import { SaccadeError } from "../core/errors.ts";

export class EngineError extends SaccadeError {
  override name = "EngineError";
}
