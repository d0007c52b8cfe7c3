/** `npm run docs`: writes what is generated: the reference pages and the documented type of recipes. `test/reference.test.ts` fails when one is stale. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import "../src/index.ts";
import "../worlds/register.ts";
import { referencePages } from "./reference/index.ts";
import { recipeInputSource } from "./reference/recipe-input.ts";

const folder = join(import.meta.dirname, "../docs/reference");
for (const [name, text] of Object.entries(await referencePages())) writeFileSync(join(folder, name), text);
writeFileSync(join(import.meta.dirname, "../src/train/recipe-input.ts"), recipeInputSource());
