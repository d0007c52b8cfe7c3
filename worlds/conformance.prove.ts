/**
 * Conformance at full length: 500 seeds and 100,000 replies in every case. `-- conformance -t navigation` proves one world, `SACCADE_SHARE=3/16` a sixteenth of each.
 * Web pages have proofs of their own (`pages/soak.prove.ts`, `miniwob/miniwob.prove.ts`): each of their actions takes a browser milliseconds, and their oracle plans one step at a time.
 */
import { worlds } from "./index.ts";

process.env.SACCADE_CONFORMANCE = "full";
const { conforms } = await import("./shared/test-conformance.ts");
for (const { load } of worlds) {
  const definition = await load();
  if (definition.kind === "world" && !definition.needs?.startsWith("a browser")) conforms(definition);
}
