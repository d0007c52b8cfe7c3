/** A worker that is gone, and what that means for whoever called it. */
import { EngineError } from "../errors.ts";

/** The worker ended, or can't be reached: what it knew may be gone. */
export class WorkerLost extends EngineError {
  override name = "WorkerLost";
}

/** The process that knew is gone: asking again is no use. */
export class Gone extends WorkerLost {
  constructor() {
    super(
      "The PyTorch worker was started anew, and what it knew is gone. Restore a checkpoint into this learner, and publish again.",
    );
  }
}
