/**
 * For tests: a training run in a process of its own that may end itself without a word, as a kill −9 does, at an instant that its arguments choose: so many
 * milliseconds after so many events, or at the nth change under checkpoints/. Prints "finished" when it was let live.
 */
import { mkdirSync, watch } from "node:fs";
import { join } from "node:path";
import { resumeRecipe } from "./test-run.ts";
import { train } from "./train.ts";

export type Ending =
  | { readonly kind: "events"; readonly count: number; readonly ms: number }
  | { readonly kind: "changes"; readonly count: number }
  | { readonly kind: "never" };

const [model, folder, variant, plan] = process.argv.slice(2) as [string, string, "kl" | "critic", string];
const ending = JSON.parse(plan) as Ending;
const die = () => process.kill(process.pid, "SIGKILL");

if (ending.kind === "changes") {
  const checkpoints = join(folder, "checkpoints");
  mkdirSync(checkpoints, { recursive: true });
  let changes = 0;
  watch(checkpoints, { recursive: true }, () => {
    if (++changes === ending.count) die();
  });
}
let events = 0;
const { finished } = await train({
  recipe: resumeRecipe(model, variant),
  folder,
  onEvent: () => {
    if (ending.kind === "events" && ++events === ending.count) setTimeout(die, ending.ms);
  },
});
process.stdout.write(finished ? "finished\n" : "stopped\n");
process.exit(0);
