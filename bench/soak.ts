/**
 * Does memory grow? `npx jiti bench/soak.ts [minutes = 20] [preset = micro]` samples episodes with images and learns from them without
 * pause, publishing after every step. Prints resident memory each minute and, at the end, its slope after the first two minutes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Conversation, observation } from "./engine-data.ts";
import { createFolder, loadFolder, NativeEngine, type PresetName, type Sampler } from "./saccade.ts";

const [minutes = 20, preset = "micro"] = [Number(process.argv[2] ?? 20), process.argv[3] as PresetName | undefined];
const scratch = mkdtempSync(join(tmpdir(), "saccade-soak-"));
const path = join(scratch, "model");
await createFolder(path, { preset });
const folder = await loadFolder(path);
const engine = new NativeEngine();
const learner = await engine.learner({ folder: path, seed: 0 });

async function play(sampler: Sampler, step: number, episode: number): Promise<Conversation> {
  const told = new Conversation();
  const turns = 1 + ((step + episode) % 6);
  for (let turn = 1; turn <= turns; turn++) {
    // Siblings see the same frames; every step brings new ones.
    const seen = observation(step * 4 + (episode >> 1), turn);
    told.append(turn === 1 ? folder.renderer.prompt(seen) : folder.renderer.delta(seen, { ended: false }));
    const params = { maxTokens: 8 + (episode % 3) * 8, temperature: 1, seed: step * 100 + episode * 10 + turn };
    const { ids, logprobs } = await sampler.sample(told.input, params, { sequence: `${episode}` });
    told.reply(ids, logprobs);
  }
  sampler.release(`${episode}`);
  return told;
}

const megabytes = () => process.memoryUsage.rss() / 2 ** 20;
const points: { minute: number; rss: number }[] = [];
const start = performance.now();
// A short trial prints ten lines too.
const every = Math.min(1, minutes / 10);
const elapsed = () => (performance.now() - start) / 60_000;
console.log("| minute | steps | resident MB | JavaScript heap MB | array buffers MB |\n|---|---|---|---|---|");
let sampler = await learner.publish();
for (let step = 1, printed = 0; elapsed() < minutes; step++) {
  const played = await Promise.all(Array.from({ length: 8 }, (_, i) => play(sampler, step, i)));
  await learner.forwardBackward(
    played.map((episode) => episode.datum(1 / 8)),
    { name: "ppo", clipLow: 0.8, clipHigh: 1.28 },
  );
  await learner.step({ name: "adamw", learningRate: 1e-4, maxGradNorm: 1 });
  const next = await learner.publish();
  await sampler.close();
  sampler = next;
  points.push({ minute: elapsed(), rss: megabytes() });
  if (elapsed() >= printed + every) {
    printed = elapsed();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    const cells = [megabytes(), heapUsed / 2 ** 20, arrayBuffers / 2 ** 20].map((x) => x.toFixed(1));
    console.log(`| ${printed.toFixed(1)} | ${step} | ${cells.join(" | ")} |`);
  }
}
const late = points.filter(({ minute }) => minute >= Math.min(2, minutes / 2));
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const [x, y] = [mean(late.map(({ minute }) => minute)), mean(late.map(({ rss }) => rss))];
const slope =
  late.reduce((sum, { minute, rss }) => sum + (minute - x) * (rss - y), 0) /
  late.reduce((sum, { minute }) => sum + (minute - x) ** 2, 0);
console.log(
  `\nSlope after the first ${Math.min(2, minutes / 2)} minutes: ${slope.toFixed(2)} MB a minute (must be below 1).`,
);
await engine.close();
rmSync(scratch, { recursive: true, force: true });
process.exitCode = slope < 1 ? 0 : 1;
