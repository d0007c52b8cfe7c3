/** For tests: a recipe of seconds, which learns nothing and does everything that a recipe does. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** Writes `tiny.ts`, with these fields changed. */
export function writeTinyRecipe(folder: string, changes: Record<string, unknown> = {}): void {
  const optimizer = { name: "adamw", learningRate: 0.001 };
  const options = { cellSize: 16, protocol: "keyword", prompt: "brief", feedback: false, maxTurns: 4 };
  const recipe = {
    name: "tiny",
    model: { preset: "quickstart" },
    envs: [{ env: "frozen_lake", options }],
    warmStart: { episodes: 64, batch: 8, optimizer },
    ...{ steps: 3, groups: 2, siblings: 2, minibatch: 4 },
    sampling: { temperature: 1, maxTokens: 12, contextTokens: 512 },
    optimizer,
    evaluate: { every: 3, seeds: [1_000_000_000, 1_000_000_127] },
    sight: { every: 3, episodes: 16 },
    checkpoint: { every: 1 },
    rollout: { live: 16 },
    ...changes,
  };
  const code = `import { defineRecipe } from "saccade";\nexport default defineRecipe(${JSON.stringify(recipe, null, 2)});\n`;
  writeFileSync(join(folder, "tiny.ts"), code);
}
