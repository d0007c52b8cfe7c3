/** Errors in the form of OpenAI and vLLM: `{"error": {message, type, param, code}}`. Schema errors are 400 "Bad Request" and name the field. */
import { z } from "zod";
import { errorMessage, SaccadeError } from "../core/errors.ts";
import { EngineError } from "../engine/errors.ts";
import { HttpError } from "../http/errors.ts";
import { json } from "../http/responses.ts";

const TYPES: Readonly<Record<number, string>> = {
  400: "BadRequestError",
  403: "PermissionDeniedError",
  404: "NotFoundError",
  413: "BadRequestError",
  500: "InternalServerError",
  503: "ServiceUnavailableError",
};

export class ApiError extends HttpError {
  override name = "ApiError";
  readonly type: string | undefined;
  readonly param: string | null;

  constructor(status: number, message: string, { type, param = null }: { type?: string; param?: string | null } = {}) {
    super(status, message);
    this.type = type;
    this.param = param;
  }
}

/** A well-formed field with a value that can't be served. */
export function badField(param: string | null, message: string): ApiError {
  return new ApiError(400, message, { param });
}

/** The first error that a schema found; `where` is "body" or "query". */
export function schemaError({ issues }: z.core.$ZodError, where = "body"): ApiError {
  const [first] = issues;
  // The first member of a union says which field is missing.
  const inner = first?.code === "invalid_union" ? first.errors[0]?.[0] : undefined;
  const path = [where, ...(first?.path ?? []), ...(inner?.path ?? [])].join(".");
  return new ApiError(400, `${path}: ${(inner ?? first)?.message ?? "not valid"}`, {
    type: "Bad Request",
    param: path,
  });
}

/** A list that reports only its first wrong element: a million wrong ones would be a million issues. */
function listOf<T>(what: string, is: (value: unknown) => boolean) {
  return z.custom<unknown[]>(Array.isArray, "expected a list").transform((list, context): T[] => {
    const wrong = list.findIndex((value) => !is(value));
    if (wrong >= 0) context.addIssue({ code: "custom", message: `expected ${what}`, path: [wrong] });
    return list as T[];
  });
}

export const integers = listOf<number>("a whole number", Number.isSafeInteger);
export const texts = listOf<string>("text", (value) => typeof value === "string");

/** Ignores fields that the schema does not know, as vLLM does. */
export function readFields<S extends z.ZodType>(schema: S, value: unknown, where = "body"): z.output<S> {
  const read = schema.safeParse(value);
  if (!read.success) throw schemaError(read.error, where);
  return read.data;
}

export function apiErrorBody(error: unknown): { status: number; body: unknown } {
  const status = statusOf(error);
  const { type, param = null } = error instanceof ApiError ? error : {};
  const body = { message: errorMessage(error), type: type ?? TYPES[status] ?? "APIError", param, code: status };
  return { status, body: { error: body } };
}

export function apiErrorResponse(error: unknown): Response {
  const headers = error instanceof HttpError ? error.headers : {};
  const { status, body } = apiErrorBody(error);
  // vLLM's web framework answers these before any route is found.
  if (error instanceof NoRoute) return json({ detail: error.message }, { status, headers });
  if (status === 401) return json({ error: "Unauthorized" }, { status, headers });
  return json(body, { status, headers });
}

export class NoRoute extends HttpError {}

export function statusOf(error: unknown): number {
  if (error instanceof HttpError) return error.status;
  // A failing engine is a server error; our other errors are about the request.
  return error instanceof SaccadeError && !(error instanceof EngineError) ? 400 : 500;
}
