/** `saccade recipes`: the recipes that come with Saccade, what each teaches, and the hardware and time it needs. */
import { Command } from "commander";
import { loadRecipe, recipeNames } from "../train/index.ts";
import { wrapText } from "./panel.ts";

const MAX_COLUMNS = 80;

export function recipesCommand(): Command {
  return new Command("recipes")
    .description("list the recipes, what each teaches and what it needs")
    .option("--json", "one JSON array")
    .action((flags: { json?: boolean }) => {
      const recipes = recipeNames().map((name) => {
        const { teaches, needs, expect } = loadRecipe(name);
        return { name, teaches, ...needs, expect };
      });
      if (flags.json) {
        process.stdout.write(`${JSON.stringify(recipes, null, 2)}\n`);
        return;
      }
      const width = Math.max(...recipes.map(({ name }) => name.length)) + 2;
      for (const { name, teaches, hardware = "", time = "time not measured" } of recipes) {
        const lines = [...wrapText(teaches, MAX_COLUMNS - width), `${hardware}, ${time}`];
        for (const [index, line] of lines.entries())
          process.stdout.write(`${(index === 0 ? name : "").padEnd(width)}${line}\n`);
      }
      process.stdout.write(`\n${recipes.length} recipes. Start one: saccade train quickstart\n`);
      process.stdout.write("A file works too: saccade train ./my-recipe.ts\n");
    });
}
