/** What can go wrong between a client and a Tinker server. */
import { SaccadeError } from "../core/errors.ts";

export class TinkerError extends SaccadeError {
  override name = "TinkerError";
}

/** The server can't be reached, for as long as the client was told to wait. */
export class APIConnectionError extends TinkerError {
  override name = "APIConnectionError";
}

/** The server refused a request. */
export class APIStatusError extends TinkerError {
  override name = "APIStatusError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Accepted work failed. */
export class RequestFailedError extends TinkerError {
  override name = "RequestFailedError";
  readonly category: "user" | "server" | "unknown";

  constructor(message: string, category: unknown) {
    super(message);
    this.category = category === "user" || category === "server" ? category : "unknown";
  }
}
