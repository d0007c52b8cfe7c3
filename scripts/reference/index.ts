/** The generated pages of docs/reference, by file name. */
import { environmentsPage } from "./environments.ts";
import { metricsPage } from "./metrics.ts";

export async function referencePages(): Promise<Readonly<Record<string, string>>> {
  return {
    "environments.md": await environmentsPage(),
    "metrics.md": metricsPage(),
  };
}
