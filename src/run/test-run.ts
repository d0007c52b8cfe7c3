/** Helpers of this room's tests: folders that go away, small images and rows, and a writer to be killed. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Image } from "../core/image.ts";
import type { TrajectoryRecord } from "./trajectories.ts";

export async function withFolder<T>(body: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "saccade-run-"));
  try {
    return await body(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** An image that no other number gives. */
export function testImage(n: number, size = 16): Image {
  const data = new Uint8Array(size * size * 3);
  for (let i = 0; i < data.length; i++) data[i] = Math.imul(i + 1, n * 2_654_435 + 97) >>> 13;
  return new Image(size, size, data);
}

export function record(step: number, sibling: number, more: Partial<TrajectoryRecord> = {}): TrajectoryRecord {
  return {
    id: `maze#${step}/${sibling}`,
    env: "maze",
    seed: step,
    group: `maze#${step}`,
    sibling,
    split: "train",
    step,
    temperature: 1,
    reward: sibling,
    success: sibling > 1,
    end: "done",
    turns: [
      {
        observation: "<image>\nWohin? 🧭",
        frames: [testImage(sibling).hash],
        reply: "<action>left</action>",
        stopReason: "stop",
        actions: ["left"],
        parsed: true,
        wellFormed: true,
        valid: true,
        reward: sibling,
        return: sibling,
        version: step,
        sampleMs: 3,
        envMs: 1,
      },
    ],
    ...more,
  };
}

/** Fills a checkpoint folder with files that name their step. */
export function weights(step: number): (folder: string) => Promise<void> {
  return async (folder) => {
    await writeFile(join(folder, "model.bin"), `weights of ${step} `.repeat(50));
    await writeFile(join(folder, "optimizer.bin"), `moments of ${step} `.repeat(20));
  };
}
