/** `npm test`: what you promise about your task. `saccade check ./env.ts` looks for the usual mistakes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeEnv, sumRewards } from "saccade";

test("the right answer is paid, and another one is not", async () => {
  const env = await makeEnv("./env.ts");
  await env.reset(0);
  const answer = (await env.builtinReply?.("oracle", 0)) ?? "";
  assert.equal(sumRewards((await env.step(answer)).rewards), 1);
  await env.reset(0);
  assert.equal(sumRewards((await env.step("something else")).rewards), 0);
});
