/** On a real learner: without a gradient not one bit of the weights moves, whatever momentum and decay would do. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import { playedEpisode, testFolder, tinyRecipe, weightsUnder } from "./test-run.ts";
import { update } from "./update.ts";

test.each(["muon", "adamw"] as const)("a batch without variance moves nothing under %s", async (name) => {
  const folder = await testFolder();
  const engine = new NativeEngine({ threads: 1 });
  try {
    const policy = await engine.learner({ folder: folder.model, seed: 0 });
    const recipe = tinyRecipe(folder.model, { siblings: 2, optimizer: { name, learningRate: 0.01, weightDecay: 0.1 } });
    // No image: ids alone are enough for a gradient.
    const batch = (...rewards: number[]) =>
      rewards.map((reward, sibling) => {
        const said = [7, 8, 9].map((id) => [id + sibling, -3] as const);
        const trajectory = playedEpisode("g", sibling, [{ reward, said, given: 1 }], { temperature: 1 });
        const [sequence] = trajectory.sequences as [(typeof trajectory.sequences)[number]];
        return { ...trajectory, sequences: [{ ...sequence, ids: sequence.ids.map((id) => id % 300), images: [] }] };
      });
    const weights = async (step: string) => {
      await policy.export(join(folder.root, step));
      return weightsUnder(join(folder.root, step));
    };
    const first = await weights("first");
    const moved = await update({ policy, exact: true }, batch(1, 0), recipe, 1, 0);
    expect(moved.metrics).toMatchObject({ "optimizer/updates": 1, "optimizer/idle": 0 });
    const second = await weights("second");
    expect(second).not.toEqual(first);
    const still = await update({ policy, exact: true }, batch(1, 1), recipe, 2, 0);
    expect(still.metrics).toMatchObject({ "optimizer/updates": 0, "optimizer/idle": 1 });
    expect(await weights("third")).toEqual(second);
    await policy.close();
  } finally {
    await engine.close();
    await folder.remove();
  }
});
