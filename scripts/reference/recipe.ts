/** docs/reference/recipe.md, from the schema that reads recipes and the registries that it names. */
import type { z } from "zod";
import { engineNames, POLICY_LOSSES } from "../../src/engine/index.ts";
import {
  estimatorNames,
  filterNames,
  getEstimator,
  getFilter,
  getLoss,
  getMixture,
  lossNames,
  mixtureNames,
  recipeSchema,
} from "../../src/train/index.ts";
import { fieldTable, MADE, page, table } from "./page.ts";
import { type FieldRow, fieldsOf } from "./schema.ts";

/** Written once, under their first name. */
const REPEATED = /^(warmStart|critic)\.(optimizer|schedule)\./;

export function recipePage(): string {
  const rows = fieldsOf(recipeSchema).filter(({ name }) => !REPEATED.test(name));
  return page(
    MADE,
    "# Recipe",
    "A recipe is a TypeScript file whose default export is `defineRecipe({…})`. Only `name`, `model`, `envs`, `steps` and `optimizer` are required. `--set field=value` changes a field for one run. [Train](../guide/train.md) explains how to choose values.",
    "## Fields",
    fieldTable(rows.map(shortened), "field"),
    "`warmStart.optimizer` and `critic.optimizer` have the fields of `optimizer`, and `warmStart.schedule` those of `schedule`.",
    "## Sources",
    "An entry of `envs` is one of these. Each has a `weight`.",
    sourceTable(),
    "## Estimators",
    "`advantage.name` is one of these.",
    table(["estimator", "compares siblings", "needs a critic", "turns"], estimatorNames().map(estimatorRow)),
    "## Losses",
    "`loss.name` is one of these. The constants are fields of `loss`. Clip bounds are on the ratio itself: 0.8 and 1.28, not 0.2 and 0.28. [Losses](../guide/train.md#losses) has the formulas.",
    table(["loss", "constants with their defaults"], lossRows()),
    "## Filters",
    "`filters` lists these in order. The options are fields of the entry.",
    table(
      ["filter", "options with their defaults"],
      filterNames().map((name) => [code(name), constants(getFilter(name).schema)]),
    ),
    "## Mixtures",
    "`mixture.name` is one of these. The options are fields of `mixture`.",
    table(
      ["mixture", "options with their defaults"],
      mixtureNames().map((name) => [code(name), constants(getMixture(name).schema)]),
    ),
    "## Engines",
    `\`engine\` is one of ${engineNames().map(code).join(", ")}, or an object with \`name\` and settings. The guides have the settings: [PyTorch](../guide/pytorch.md), [vLLM](../guide/vllm.md), [Tinker](../guide/tinker.md).`,
  );
}

const code = (text: string) => `\`${text}\``;

/** A union of sources would fill the type's column. */
function shortened(row: FieldRow): FieldRow {
  return row.type.includes("tickets") ? { ...row, type: "list of [sources](#sources)" } : row;
}

function sourceTable(): string {
  const { element } = recipeSchema.shape.envs;
  const shapes = element.options.map((option: z.ZodObject) => {
    const fields = fieldsOf(option).filter(({ name }) => name !== "weight");
    return [
      code(`{ ${fields.map(({ name, default: usual }) => (usual === "required" ? name : `${name}?`)).join(", ")} }`),
      fields.map(({ name, meaning }) => `\`${name}\`: ${meaning}`).join(" "),
    ];
  });
  return table(["source", "fields"], shapes);
}

function estimatorRow(name: string): string[] {
  const { needsGroups, needsCritic, turns } = getEstimator(name);
  return [code(name), needsGroups ? "yes" : "no", needsCritic ? "yes" : "no", turns.join(", ")];
}

function lossRows(): string[][] {
  const known = Object.entries(POLICY_LOSSES).map(([name, schema]) => [code(name), constants(schema)]);
  return [...known, ...lossNames().map((name) => [code(name), constants(getLoss(name).schema)])];
}

function constants(schema: z.ZodObject | undefined): string {
  if (schema === undefined) return "none";
  const fields = fieldsOf(schema).map(({ name, default: usual }) => `${code(name)}${usual === "–" ? "" : ` ${usual}`}`);
  return fields.join(", ") || "none";
}
