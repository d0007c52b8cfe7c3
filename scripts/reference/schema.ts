/** Rows of a table from a zod schema: name, type, default and meaning of every field, nested objects as dotted names. */
import { z } from "zod";

export type JsonSchema = {
  readonly type?: string;
  /** Names a type that has no JSON form. */
  readonly title?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | JsonSchema;
  readonly items?: JsonSchema;
  readonly prefixItems?: readonly JsonSchema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
};

export type FieldRow = {
  readonly name: string;
  readonly type: string;
  readonly default: string;
  readonly meaning: string;
};

export function fieldsOf(schema: z.ZodType): FieldRow[] {
  return rowsOf(jsonSchema(schema), "");
}

export function jsonSchema(schema: z.ZodType): JsonSchema {
  // Functions have no JSON form; their description says what they are.
  return z.toJSONSchema(schema, { io: "input", unrepresentable: "any", reused: "inline" }) as JsonSchema;
}

function rowsOf({ properties = {}, required = [] }: JsonSchema, above: string): FieldRow[] {
  return Object.entries(properties).flatMap(([key, field]) => {
    const name = `${above}${key}`;
    const inner = field.properties === undefined ? [] : rowsOf(field, `${name}.`);
    const row = {
      name,
      type: inner.length > 0 ? "object" : typeOf(field),
      default: defaultOf(field, required.includes(key)),
      meaning: field.description ?? "",
    };
    return [row, ...inner];
  });
}

export function defaultOf(field: JsonSchema, required: boolean): string {
  if (field.default !== undefined) {
    const parts = typeof field.default === "object" && field.default !== null ? Object.keys(field.default) : ["value"];
    // The defaults of an object's fields are in their own rows.
    if (field.properties !== undefined && parts.length === 0) return "";
    return code(json(field.default));
  }
  return required ? "required" : "–";
}

/** The type as a reader of TypeScript expects it, with its range. */
export function typeOf(field: JsonSchema): string {
  const members = field.anyOf ?? field.oneOf;
  if (members !== undefined) return [...new Set(members.map(typeOf))].join(" or ");
  if (field.const !== undefined) return code(json(field.const));
  if (field.enum !== undefined) return field.enum.map((value) => code(json(value))).join(", ");
  if (field.prefixItems !== undefined) {
    const types = field.prefixItems.map(typeOf);
    return new Set(types).size === 1 ? `${types.length} × ${types[0]}` : `[${types.join(", ")}]`;
  }
  if (field.type === "array") return `list of ${field.items === undefined ? "values" : typeOf(field.items)}`;
  if (field.type === "integer" || field.type === "number") return `${field.type}${rangeOf(field)}`;
  if (field.type === "object") {
    if (field.properties === undefined) return "object";
    const members = Object.entries(field.properties).map(([key, member]) => {
      const values = member.const === undefined ? member.enum : [member.const];
      const optional = field.required?.includes(key) ? "" : "?";
      return `${key}${optional}${values === undefined ? "" : `: ${values.map(json).join(" | ")}`}`;
    });
    return code(`{ ${members.join(", ")} }`);
  }
  return field.type ?? (field.title === undefined ? "any" : code(field.title));
}

function rangeOf({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: JsonSchema): string {
  // Whole numbers are bounded by what a double can hold, which says nothing.
  const low = minimum === Number.MIN_SAFE_INTEGER ? undefined : minimum;
  const high = maximum === Number.MAX_SAFE_INTEGER ? undefined : maximum;
  if (low !== undefined && high !== undefined) return `, ${low} to ${high}`;
  const words = [
    low !== undefined && `at least ${low}`,
    exclusiveMinimum !== undefined && `above ${exclusiveMinimum}`,
    high !== undefined && `at most ${high}`,
    exclusiveMaximum !== undefined && `below ${exclusiveMaximum}`,
  ].filter((word) => word !== false);
  return words.length === 0 ? "" : `, ${words.join(", ")}`;
}

const code = (text: string) => `\`${text}\``;

/** Compact JSON with room after commas and colons. */
function json(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(json).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, one]) => `${key}: ${json(one)}`);
  return entries.length === 0 ? "{}" : `{ ${entries.join(", ")} }`;
}
