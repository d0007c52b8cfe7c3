/** A request that can't be answered, with its HTTP status and a message for people. */
import { SaccadeError } from "../core/errors.ts";

export class HttpError extends SaccadeError {
  override name = "HttpError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}
