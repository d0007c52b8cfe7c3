/**
 * The vocabulary of failure. An error is named for the boundary that was crossed, and its message says
 * what to do about it. A malformed reply of a model is not an error: it is data, and costs a turn.
 */

/** Base of everything Saccade throws on purpose. */
export class SaccadeError extends Error {
  override name = "SaccadeError";
}

/** An option, flag, recipe or file name that a person wrote is wrong. */
export class ConfigError extends SaccadeError {
  override name = "ConfigError";
}

/** An environment broke, or was used against its contract. */
export class EnvError extends SaccadeError {
  override name = "EnvError";
}

/** Image bytes that can't be decoded, or an image too large to hold. */
export class ImageError extends SaccadeError {
  override name = "ImageError";
}

/** A row, message or file of data that does not have the shape it must have. */
export class DataError extends SaccadeError {
  override name = "DataError";
}

/** The message of anything that was thrown. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
