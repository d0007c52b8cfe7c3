/** For tests: a tiny model behind a server of ours. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { type Engine, NativeEngine } from "../engine/index.ts";
import { createFolder } from "../model/folder.ts";
import { TINY_CORPUS, temporaryFolder } from "../model/test-folder.ts";
import { type ServeOptions, type ServeServer, startServer } from "./server.ts";

export type Served = ServeServer & { readonly root: string; readonly folder: string; readonly engine: NativeEngine };

/** vLLM serves no head below 32, and large weights keep distributions far from even. */
export async function createServable(folder: string, seed = 1): Promise<void> {
  await createFolder(folder, {
    corpus: TINY_CORPUS,
    vocab: 300,
    seed,
    text: {
      hiddenSize: 32,
      intermediateSize: 48,
      layers: 2,
      heads: 4,
      kvHeads: 2,
      headDim: 32,
      mropeSection: [6, 5, 5],
      maxPositions: 1024,
      tied: true,
      initializerRange: 0.3,
    },
    vision: { depth: 1, hiddenSize: 16, intermediateSize: 24, heads: 2, positionEmbeddings: 16, initializerRange: 0.3 },
  });
}

/** The store is the folder that holds the model. */
export async function serveTiny(
  options: Partial<ServeOptions> & { readonly pictureBytes?: number } = {},
): Promise<Served> {
  const root = await temporaryFolder();
  const folder = join(root, "model");
  await createServable(folder);
  const { pictureBytes } = options;
  const engine = new NativeEngine({ threads: 2, ...(pictureBytes !== undefined && { pictureBytes }) });
  const server = await startServer({ engine, folder, name: "policy", store: root, ...options });
  return {
    ...server,
    root,
    folder,
    engine,
    async close() {
      await server.close();
      await engine.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}

/** An adapter that moved away from where it started. */
export async function writeAdapter(engine: Engine, folder: string, to: string): Promise<void> {
  const learner = await engine.learner({
    folder,
    lora: { rank: 4, alpha: 32, targets: ["q_proj", "v_proj", "down_proj"] },
    seed: 3,
  });
  const ids = Int32Array.from({ length: 12 }, (_, i) => 40 + ((i * 5) % 17));
  const targets = Int32Array.from(ids, (_, i) => ids[i + 1] ?? 40);
  const datum = { input: { ids, images: [] }, targets, weights: new Float32Array(12).fill(1) };
  for (let step = 0; step < 3; step++) {
    await learner.forwardBackward([datum], { name: "cross_entropy" });
    await learner.step({ name: "adamw", learningRate: 0.05 });
  }
  await learner.export(to);
  await learner.close();
}
