/**
 * Constants of losses and options of filters arrive as plain bags (a recipe, `--set key=value`, a caller's object). Each of them has a schema,
 * and a bag is read against it here, strictly, so that a misspelt key or a missing number is an error that names it and never a silent default.
 */
import { z } from "zod";
import { ConfigError } from "../core/errors.ts";
import { closestWord } from "../core/words.ts";

export type OptionBag = Readonly<Record<string, unknown>>;

/** For what takes no options. */
export const NO_OPTIONS = z.strictObject({});

/** What was given, checked, with the defaults of what was not. `what` begins the message: `Loss "ppo"`. Strict whatever the schema says. */
export function readOptions<S extends z.ZodObject>(what: string, schema: S, given: OptionBag): z.output<S> {
  const read = schema.strict().safeParse(given);
  if (read.success) return read.data as z.output<S>;
  const known = Object.keys(schema.shape);
  const problems = read.error.issues.map((issue) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => `there is no "${key}"${near(key, known)}`).join("; ")
      : `${issue.path.join(".")}: ${issue.message}`,
  );
  throw new ConfigError(
    `${what}: ${problems.join("; ")}. ${known.length === 0 ? "It takes no options" : `It takes ${known.join(", ")}`}.`,
  );
}

function near(key: string, known: readonly string[]): string {
  const close = closestWord(key, known);
  return close === undefined ? "" : ` (did you mean "${close}"?)`;
}
