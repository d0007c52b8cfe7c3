/** `npm run bench -- <name>`: one file per benchmark; each prints ratios against a named peer. */
import { readdirSync } from "node:fs";

const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith(".bench.ts"))
  .map((file) => file.replace(".bench.ts", ""));
const [name] = process.argv.slice(2);
if (name === undefined || !names.includes(name)) {
  process.stderr.write(`usage: npm run bench -- <${names.join("|")}>\n`);
  process.exit(2);
}
await import(`./${name}.bench.ts`);
