/** Our side of the memory benchmark, in a process of its own: `engine-memory.ts <model folder>` prints two lines of megabytes. */
import { readFileSync } from "node:fs";
import { randomInput, toData } from "./engine-data.ts";
import { loadFolder, NativeEngine } from "./saccade.ts";

/** Of Linux's own account: `maxRSS` begins with what the parent had when it started this process. */
const peak = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 2 ** 10;
const report = () => console.log(JSON.stringify({ now: process.memoryUsage.rss() / 2 ** 20, peak: peak() }));
const path = process.argv[2]!;
const folder = await loadFolder(path);
const engine = new NativeEngine({ threads: 2 });
const learner = await engine.learner({ folder: path, seed: 0 });
report();
const data = toData(
  folder,
  Array.from({ length: 16 }, (_, i) => randomInput(folder, i, 200, 4)),
);
for (let i = 0; i < 5; i++) {
  await learner.forwardBackward(data, { name: "cross-entropy" });
  await learner.step({ name: "adamw", learningRate: 1e-4 });
}
const sampler = await learner.publish();
const prompts = Array.from({ length: 32 }, (_, i) => randomInput(folder, 1000 + i, 96, 1));
await Promise.all(
  prompts.map((prompt, i) => sampler.sample(prompt, { maxTokens: 64, temperature: 0, seed: i }, { sequence: `${i}` })),
);
report();
await engine.close();
