/** `npm run docs`: writes the reference pages that are generated. `test/reference.test.ts` fails when one is stale. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import "../src/index.ts";
import "../worlds/register.ts";
import { referencePages } from "./reference/index.ts";

const folder = join(import.meta.dirname, "../docs/reference");
for (const [name, text] of Object.entries(await referencePages())) writeFileSync(join(folder, name), text);
