/** `npm run bench -- <name>`: one file per benchmark; each prints ratios against a named peer. */
import { readdirSync } from "node:fs";
import { createJiti } from "jiti";

const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith(".bench.ts"))
  .map((file) => file.replace(".bench.ts", ""));
const [name] = process.argv.slice(2);
if (name === undefined || !names.includes(name)) {
  process.stderr.write(`usage: npm run bench -- <${names.join("|")}>\n`);
  process.exit(2);
}
// jiti's proxies around modules would slow down every call between them, which the built package does not have.
await createJiti(import.meta.url, { interopDefault: false }).import(`./${name}.bench.ts`);
