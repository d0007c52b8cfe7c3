/** Options that several protocols take, and how wrong ones are reported. */
import { z } from "zod";
import { ConfigError } from "../../core/errors.ts";
import { didYouMean } from "../../core/words.ts";

export const maxActionsOption = z.int().min(1).max(1000);
export const tagOption = z
  .string()
  .regex(/^[a-z][a-z0-9_-]*$/, "a tag is lower-case letters, digits, _ and -, starting with a letter");
/** Never a letter, digit, sign or point: those are part of actions. */
const separatorOption = z
  .string()
  .regex(/^(?:[^\w\s.+<>-]+|\n)$/, "a separator is a line break or punctuation other than . + - _ < >, such as , or |");

/** What every protocol with an answer between tags takes. */
export const answerOptions = {
  strict: z.boolean().default(false).describe("Refuse replies with text outside the tags."),
  separator: separatorOption.default(",").describe("Text between actions."),
  maxActions: maxActionsOption.default(5).describe("Maximum number of actions in a reply."),
  bonus: z.number().default(0.1).describe("Reward for every well-formed turn that plays an action."),
  tag: tagOption.default("answer").describe("Tag that holds the actions."),
};

export function readOptions<S extends z.ZodObject>(protocol: string, schema: S, options: unknown): z.output<S> {
  const read = schema.safeParse(options);
  if (read.success) return read.data;
  const known = Object.keys(schema.shape);
  const problems = read.error.issues.map((issue) => {
    if (issue.code !== "unrecognized_keys") return `${issue.path.join(".") || "options"}: ${issue.message}`;
    return `there is no option ${issue.keys.map((key) => `"${key}"`).join(", ")}`;
  });
  const unknown = read.error.issues.flatMap((issue) => (issue.code === "unrecognized_keys" ? issue.keys : []));
  const near = unknown.map((key) => didYouMean(key, known)).join("");
  throw new ConfigError(`Protocol "${protocol}": ${problems.join("; ")}.${near} Its options are ${known.join(", ")}.`);
}
