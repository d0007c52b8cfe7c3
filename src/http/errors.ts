/**
 * Requests that can't be answered: an error with its HTTP status and a message for people, and the answer that says so. Every face has its own shape of
 * error body (a viewer's, OpenAI's), so the shape is a function.
 */
import { errorMessage, SaccadeError } from "../core/errors.ts";
import { json } from "./responses.ts";

export class HttpError extends SaccadeError {
  override name = "HttpError";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }
}

export type ErrorBody = (status: number, message: string) => unknown;

const plainBody: ErrorBody = (_, message) => ({ error: message });

/** What Saccade throws on purpose speaks of the request; anything else is a fault of ours. */
export function errorResponse(error: unknown, body: ErrorBody = plainBody): Response {
  const status = error instanceof HttpError ? error.status : error instanceof SaccadeError ? 400 : 500;
  const headers = error instanceof HttpError ? error.headers : {};
  return json(body(status, errorMessage(error)), { status, headers });
}
