import { execFileSync } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image } from "../../core/image.ts";
import { image, text, user } from "../../core/message.ts";
import type { ModelInput } from "../../core/model-input.ts";
import { temporaryFolder } from "../../model/test-folder.ts";
import type { Sampler } from "../engine.ts";
import type { TorchEngine } from "./engine.ts";
import { cpuEngine, TORCH } from "./test-worker.ts";

const python = fileURLToPath(new URL("../../../python", import.meta.url));
const MAKE = `
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/tests"]
from pathlib import Path
from tiny_families import make_family
for kind in sys.argv[3:]:
    make_family(Path(sys.argv[2]) / kind, kind)
`;
const shade = (width: number, height: number, seed: number) =>
  new Image(
    width,
    height,
    Uint8Array.from({ length: width * height * 3 }, (_, i) => 1 + ((i * 31 + seed * 97) % 250)),
  );
const joined = (...parts: readonly ModelInput[]): ModelInput => {
  const ids: number[] = [];
  const images: ModelInput["images"][number][] = [];
  for (const part of parts) {
    images.push(...part.images.map((span) => ({ ...span, start: span.start + ids.length })));
    ids.push(...part.ids);
  }
  return { ids: Int32Array.from(ids), images };
};

const KINDS = ["gemma3", "internvl"];

describe.skipIf(!TORCH)("a folder of another family", () => {
  let base = "";
  let engine: TorchEngine;
  beforeAll(async () => {
    base = await temporaryFolder();
    execFileSync("python3", ["-c", MAKE, python, base, ...KINDS], { stdio: "pipe" });
    engine = cpuEngine().engine;
  }, 60_000);
  afterAll(async () => {
    await engine?.close();
    await rm(base, { recursive: true });
  });

  test.each(KINDS)(
    "%s: rendered by its processor, sampled over turns, learned from, exported",
    async (kind) => {
      const folder = join(base, kind);
      const chat = await engine.chat(folder);
      const { renderer } = chat;
      const start = await renderer.prompt([user(image(shade(32, 16, 1)), text("where é🙂?"))]);
      expect(start.images).toHaveLength(1);
      const reply = await renderer.reply("go é🙂 left");
      expect(reply.at(-1)).toBe(renderer.endOfTurn);
      const { text: said, offsets } = renderer.decode(reply);
      expect(said).toBe("go é🙂 left");
      expect(offsets.at(-1)).toBe(said.length);
      expect(chat.visionIds).toContain(chat.imageToken);

      const learner = await engine.learner({ folder, seed: 1 });
      const params = { maxTokens: 4, temperature: 1, seed: 3 };
      const drift = async (sampler: Sampler, prompt: ModelInput) => {
        const sample = await sampler.sample(prompt, params, { sequence: "a" });
        const whole = joined(prompt, { ids: sample.ids, images: [] });
        const targets = new Int32Array(whole.ids.length).fill(-1);
        targets.set(sample.ids, prompt.ids.length - 1);
        const datum = { input: whole, targets, weights: Float32Array.from(targets, (id) => (id < 0 ? 0 : 1)) };
        const [scored] = await learner.forward([datum]);
        for (const [i, logprob] of sample.logprobs.entries())
          expect(scored?.logprobs?.[prompt.ids.length - 1 + i]).toBeCloseTo(logprob, 4);
        return { datum, whole, ended: sample.ids.at(-1) === renderer.endOfTurn };
      };
      const sampler = await learner.publish();
      const first = await drift(sampler, start);
      const shown = { role: "tool" as const, content: [text("seen: "), image(shade(16, 16, 2))] };
      const observation = await renderer.delta([shown], { ended: first.ended });
      expect(observation.images).toHaveLength(1);
      const second = await drift(sampler, joined(first.whole, observation));
      const report = await learner.forwardBackward([first.datum, second.datum], { name: "cross-entropy" });
      expect(report.finite).toBe(true);
      expect(report.frameHashes?.[1]).toEqual([shade(32, 16, 1).hash, shade(16, 16, 2).hash]);
      const step = await learner.step({ name: "adamw", learningRate: 1e-3 });
      expect(step.applied).toBe(true);
      await learner.export(join(base, `${kind}-out`));
      const again = await engine.sampler(join(base, `${kind}-out`));
      const [scores] = await again.score([first.datum]);
      const [now] = await learner.forward([first.datum]);
      const at = start.ids.length - 1;
      expect(scores?.logprobs[at]).toBeCloseTo(now?.logprobs?.[at] ?? Number.NaN, 4);
      await learner.close();
    },
    60_000,
  );
});
