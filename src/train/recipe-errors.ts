/** What is wrong with a recipe, in words: the field, what was given, what is wanted, and the nearest spelling. */
import type { z } from "zod";
import { closestWord } from "../core/words.ts";

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

export type Wrong = {
  readonly schema: z.core.$ZodType;
  /** The recipe with its overrides. */
  readonly value: unknown;
  readonly overrides: Readonly<Record<string, unknown>>;
};

const SOURCES =
  "a source is { env, options }, { tickets }, { records, env }, { plan } or { program }, each with a weight";

export function recipeProblems(issues: readonly Issue[], wrong: Wrong): string[] {
  return issues.flatMap((issue) => problemsOf(issue, [], wrong));
}

function problemsOf(issue: Issue, above: Path, wrong: Wrong): string[] {
  const path = [...above, ...issue.path];
  const given = valueAt(wrong.value, path);
  if (issue.code === "unrecognized_keys") {
    const known = fieldsAt(wrong.schema, path);
    return issue.keys.map((key) => {
      const close = closestWord(key, known);
      const hint = close === undefined ? `the fields are ${known.join(", ")}` : `did you mean "${close}"?`;
      return `${nameOf([...path, key], wrong)}: there is no such field; ${hint}`;
    });
  }
  if (issue.code === "invalid_union") {
    const meant = memberMeant(issue.errors);
    if (meant !== undefined) return meant.flatMap((inner) => problemsOf(inner, path, wrong));
    const wanted = path.includes("envs") ? SOURCES : issue.message;
    return [`${nameOf(path, wrong)}: ${wanted}`];
  }
  if (issue.code === "invalid_value" && typeof given === "string") {
    const values = issue.values.map(String);
    const close = closestWord(given, values);
    const hint = close === undefined ? "" : `; did you mean "${close}"?`;
    return [`${nameOf(path, wrong)}: expected one of ${values.join(", ")}${hint}`];
  }
  return [`${nameOf(path, wrong)}: ${given === undefined ? `it is missing (${issue.message})` : issue.message}`];
}

/** Of a union, what is wrong with the member that was meant: the only one of the value's kind, or the one that fits best. */
function memberMeant(members: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  const ofKind = members.filter(
    (issues) => !issues.some(({ path, code }) => path.length === 0 && code === "invalid_type"),
  );
  if (ofKind.length === 1) return ofKind[0];
  const [best, next] = [...members].sort((a, b) => a.length - b.length);
  return best !== undefined && next !== undefined && best.length < next.length ? best : undefined;
}

/** `steps (3)`; of what the command line set, `--set steps=3`. */
function nameOf(path: Path, { value, overrides }: Wrong): string {
  const name = path.map(String).join(".") || "recipe";
  const given = valueAt(value, path);
  if (path.length > 0 && valueAt(overrides, path) !== undefined) return `--set ${name}=${shown(given)}`;
  return given === undefined || path.length === 0 ? name : `${name} (${shown(given)})`;
}

function shown(value: unknown): string {
  const text = typeof value === "function" ? "a function" : (JSON.stringify(value) ?? String(value));
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | null | undefined)?.[key], value);
}

/** The names of the fields that the schema has at a path; of a union, those of all its members. */
function fieldsAt(schema: z.core.$ZodType, path: Path): string[] {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "default":
    case "prefault":
    case "optional":
      return fieldsAt(def.innerType, path);
    case "union":
      return [...new Set(def.options.flatMap((option) => fieldsAt(option, path)))];
    case "array":
      return path.length === 0 ? [] : fieldsAt(def.element, path.slice(1));
    case "object": {
      const [first, ...rest] = path;
      if (first === undefined) return Object.keys(def.shape);
      const inner = def.shape[String(first)];
      return inner === undefined ? [] : fieldsAt(inner, rest);
    }
    default:
      return [];
  }
}
