/** `npm test`: what you promise about your world. `saccade check ./env.ts` looks for the usual mistakes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeEnv, makeWorld } from "saccade";

test("the oracle catches the ball on 50 seeds", async () => {
  const world = await makeWorld("./env.ts");
  for (let seed = 0; seed < 50; seed++) {
    await world.reset(seed);
    for (let ended = false; !ended; ) {
      const [action] = (await world.solve?.()) ?? [];
      assert.ok(action, `seed ${seed}: the oracle has no plan`);
      ({ ended } = await world.act(action));
    }
    assert.equal(await world.success(), true, `seed ${seed}`);
  }
});

test("a model's reply becomes an action", async () => {
  const env = await makeEnv("./env.ts", { protocol: "keyword" });
  await env.reset(0);
  const { info } = await env.step("<action>left</action>");
  assert.deepEqual(info.played, ["left"]);
});
