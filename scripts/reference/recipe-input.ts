/**
 * src/train/recipe-input.ts, from the schema that reads recipes: zod's inferred type loses the descriptions, and an editor shows what is
 * written over a field of a type. Parts with a title in the schema become types of their own.
 */
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { POLICY_LOSSES } from "../../src/engine/index.ts";
import { estimatorNames, filterNames, lossNames, mixtureNames, recipeSchema } from "../../src/train/index.ts";
import { defaultOf, type JsonSchema, jsonSchema, typeOf } from "./schema.ts";

const HEADER =
  "/** What a recipe says, with the meaning of each field. `npm run docs` generates this file from `recipeSchema`. Do not edit it. */";

/** Types that are written elsewhere, by the title that the schema gives them. */
const IMPORTED: Readonly<Record<string, string>> = {
  EngineConfig: "../engine/registry.ts",
  ModelShape: "../model/shape.ts",
  Judge: "../rollout/judge.ts",
};

/** Names that a recipe looks up in a registry: the built-in ones complete, registered ones are allowed. */
const lookedUp = (): Readonly<Record<string, readonly string[]>> => ({
  "advantage.name": estimatorNames(),
  "loss.name": [...Object.keys(POLICY_LOSSES), ...lossNames()],
  "filters.name": filterNames(),
  "mixture.name": mixtureNames(),
});

export function recipeInputSource(): string {
  const types = new Map<string, string>();
  const names = lookedUp();

  const objectType = ({ properties = {}, required = [], additionalProperties }: JsonSchema, path: string): string => {
    const fields = Object.entries(properties).map(([key, field]) => {
      const optional = required.includes(key) ? "" : "?";
      const none = optional === "" ? "" : " | undefined";
      return `${comment(field, required.includes(key))}${key}${optional}: ${typeText(field, `${path}${key}`)}${none};`;
    });
    if (additionalProperties !== false) fields.push("[constant: string]: unknown;");
    return `{\n${fields.join("\n")}\n}`;
  };

  const typeText = (field: JsonSchema, path: string): string => {
    const { title } = field;
    if (title === undefined) return plainType(field, path);
    if (!(title in IMPORTED) && !types.has(title)) {
      types.set(title, "");
      types.set(title, plainType(field, path));
    }
    return title;
  };

  const plainType = (field: JsonSchema, path: string): string => {
    const known = names[path];
    if (known !== undefined) return [...known.map(quoted), "(string & Record<never, never>)"].join(" | ");
    const members = field.anyOf ?? field.oneOf;
    if (members !== undefined) return members.map((member) => typeText(member, path)).join(" | ");
    if (field.const !== undefined) return quoted(field.const);
    if (field.enum !== undefined) return field.enum.map(quoted).join(" | ");
    if (field.prefixItems !== undefined) return `[${field.prefixItems.map((item) => typeText(item, path)).join(", ")}]`;
    if (field.type === "array") return `(${typeText(field.items ?? {}, path)})[]`;
    if (field.type === "object") {
      return field.properties === undefined ? "Record<string, unknown>" : objectType(field, `${path}.`);
    }
    if (field.type === "integer") return "number";
    if (field.type === undefined) throw new Error(`The recipe's field ${path} has no type; give it a title.`);
    return field.type;
  };

  const recipe = objectType(jsonSchema(recipeSchema), "");
  const imports = Object.entries(IMPORTED).map(([name, file]) => `import type { ${name} } from ${quoted(file)};`);
  const parts = [...types]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, text]) => `\nexport type ${name} = ${text};`);
  return formatted([HEADER, imports.join("\n"), "", `export type RecipeInput = ${recipe};`, ...parts].join("\n"));
}

/** The field's meaning, its range if it is a number, and its default. */
function comment(field: JsonSchema, required: boolean): string {
  if (field.description === undefined) return "";
  const numeric = field.type === "integer" || field.type === "number";
  const usual = required ? "" : defaultOf(field, required);
  const notes = [
    numeric && typeOf(field) !== field.type && `${typeOf(field)[0]?.toUpperCase()}${typeOf(field).slice(1)}.`,
    usual !== "" && usual !== "–" && `Default: ${usual}.`,
  ].filter((note) => note !== false);
  return `/** ${[field.description, ...notes].join(" ")} */\n`;
}

const quoted = (value: unknown) => JSON.stringify(value);

function formatted(code: string): string {
  const biome = createRequire(import.meta.url).resolve("@biomejs/biome/bin/biome");
  const args = [biome, "format", "--stdin-file-path=src/train/recipe-input.ts"];
  return execFileSync(process.execPath, args, { input: code, encoding: "utf8" });
}
