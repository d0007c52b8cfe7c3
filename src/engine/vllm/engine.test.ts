/** A learner that publishes to servers: what stays there and on disk. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { NativeEngine } from "../native/engine.ts";
import { tinyModel } from "../native/test-model.ts";
import { samplerSettings, VllmEngine } from "./engine.ts";
import { TestServer } from "./test-server.ts";

test("an adapter goes when its last sampler is closed and newer ones are out, in any order; another learner's have other names", async () => {
  const server = await new TestServer().start();
  const model = await tinyModel();
  const native = new NativeEngine({ threads: 1 });
  const exchange = await mkdtemp(join(tmpdir(), "saccade-adapters-"));
  const settings = samplerSettings.parse({ vllm: [server.url], exchange });
  const engine = await VllmEngine.open(native, settings);
  const named = (route: string) =>
    server.asked.filter(({ path }) => path === route).map(({ body }) => String(body.lora_name));
  const loaded = () => named("/v1/load_lora_adapter");
  const unloaded = () => named("/v1/unload_lora_adapter");
  const ids = Int32Array.from({ length: 12 }, (_, i) => 40 + ((i * 5) % 17));
  const targets = Int32Array.from(ids, (_, i) => ids[i + 1] ?? 40);
  const datum = { input: { ids, images: [] }, targets, weights: new Float32Array(12).fill(1) };
  try {
    for (let run = 0; run < 2; run++) {
      const before = unloaded().length;
      const learner = await engine.learner({
        folder: model.folder,
        seed: 1,
        freeze: "vision",
        lora: { rank: 2, alpha: 4 },
      });
      const next = async () => {
        await learner.forwardBackward([datum], { name: "cross-entropy" });
        await learner.step({ name: "adamw", learningRate: 0.01 });
        return learner.publish();
      };
      // Closed before the next is out, as a synchronous run does.
      await (await learner.publish()).close();
      expect(unloaded()).toHaveLength(before);
      const [first, again] = [await next(), await learner.publish()];
      expect(unloaded()).toHaveLength(before + 1);
      await first.close();
      const newest = await next();
      // Its second sampler is still open.
      expect(unloaded()).toHaveLength(before + 1);
      await again.close();
      expect(unloaded()).toHaveLength(before + 2);
      expect(await readdir(exchange)).toHaveLength(1);
      await newest.close();
      await learner.close();
    }
    expect(loaded()).toHaveLength(6);
    expect(new Set(loaded()).size).toBe(6);
    expect(unloaded()).toEqual([...loaded().slice(0, 2), ...loaded().slice(3, 5)]);
  } finally {
    await engine.close();
    await server.kill();
    await model.remove();
    await rm(exchange, { recursive: true, force: true });
  }
});
