/** The generated pages of docs/reference, by file name. */
import { commandLinePage } from "./command-line.ts";
import { environmentsPage } from "./environments.ts";
import { metricsPage } from "./metrics.ts";
import { recipePage } from "./recipe.ts";

export async function referencePages(): Promise<Readonly<Record<string, string>>> {
  return {
    "command-line.md": await commandLinePage(),
    "environments.md": await environmentsPage(),
    "metrics.md": metricsPage(),
    "recipe.md": recipePage(),
  };
}
