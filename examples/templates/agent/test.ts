/** `npm test`: what you promise about your agent. `saccade check ./agent.ts` looks for the usual mistakes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { builtinAgent, playSeeds } from "saccade/rollout";

test("right answers earn the reward, and guesses do not always", async () => {
  const seeds = Array.from({ length: 16 }, (_, seed) => seed);
  const { success, against } = await playSeeds({ agent: builtinAgent("oracle"), env: { id: "./agent.ts" }, seeds });
  assert.equal(success.value, 1);
  assert.ok((against.random?.success.value ?? 1) < 1);
});
