import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A folder of the package, from sources and built alike; undefined: it is not there. */
export function packageFolder(name: string): string | undefined {
  for (let folder = dirname(fileURLToPath(import.meta.url)); folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) {
      const found = join(folder, name);
      return existsSync(found) ? found : undefined;
    }
  }
  return undefined;
}
