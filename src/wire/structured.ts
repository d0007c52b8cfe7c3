/** Grammars of what requests ask for. */
import { isJsonObject, type Json } from "../core/json.ts";
import { badField } from "./errors.ts";
import { answerGrammar } from "./grammar-schema.ts";
import { literal, SchemaError } from "./grammar-text.ts";

/** vLLM's own field for structured answers. */
export function readStructured(given: unknown): string | undefined {
  if (given === undefined || given === null) return undefined;
  const param = "structured_outputs";
  const fields = isJsonObject(given) ? Object.entries(given).filter(([, value]) => value !== null) : [];
  const [field] = fields;
  if (field === undefined || fields.length > 1) {
    throw badField(param, `${param} must have exactly one of json, json_object and choice.`);
  }
  const [kind, value] = field;
  if (kind === "json_object" && value === true) return schemaGrammar(param, { schema: { type: "object" } });
  if (kind === "json") return schemaGrammar(param, { schema: typeof value === "string" ? parsed(value) : value });
  if (kind === "choice" && Array.isArray(value) && value.length > 0) {
    return `root ::= ${(value as readonly Json[]).map((one) => literal(String(one))).join(" | ")}`;
  }
  throw badField(param, `${param}: ${kind} is not supported; use json, json_object or choice.`);
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw badField("structured_outputs", "structured_outputs: json is not JSON.");
  }
}

/** Names the field and the keyword of a schema that has no grammar. */
export function schemaGrammar(param: string, answer: Parameters<typeof answerGrammar>[0]): string {
  try {
    return answerGrammar(answer);
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error;
    throw badField(
      param,
      `${param}: ${error.message}. See the list of supported keywords in docs/reference/limits.md.`,
    );
  }
}
