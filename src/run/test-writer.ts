/** A process that trains nothing and saves all the time, to be killed at any instant. It prints each step once it says it is saved. */
import { openRun } from "./folder.ts";
import { record, testImage, weights } from "./test-run.ts";

const run = await openRun(process.argv[2] as string, { config: { seed: 1 }, keepCheckpoints: 2 });
let step = (await run.begin())?.step ?? 0;
for (;;) {
  step++;
  run.log("train", step, { "train/success": step });
  const episodes = [0, 1, 2].map((sibling) => record(step, sibling));
  const framesOf = ({ sibling }: { sibling: number }) => [testImage(step * 3 + sibling)];
  run.keep(step, episodes, (episode) => episode, framesOf);
  await run.saveCheckpoint(step, weights(step), { position: step });
  process.stdout.write(`${step}\n`);
}
