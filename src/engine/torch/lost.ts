/** A worker that does not answer, and what that means for whoever called it. */
import { EngineError, EngineLost } from "../errors.ts";

/** The worker ended, or can't be reached. Asking again may help. */
export class WorkerLost extends EngineError {
  override name = "WorkerLost";
}

/** The process that knew is gone: asking again is no use. */
export class Gone extends EngineLost {
  /** `ending`: how its process ended, where we know. */
  constructor(ending?: string) {
    const how = ending === undefined ? "" : ` (${ending})`;
    super(
      `The PyTorch worker was lost${how}, and what it knew with it. Restore a checkpoint into this learner, and publish again.`,
    );
  }
}
