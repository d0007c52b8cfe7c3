/** For tests: a tiny model behind a server of ours. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { NativeEngine } from "../engine/index.ts";
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
export async function serveTiny(options: Partial<ServeOptions> = {}): Promise<Served> {
  const root = await temporaryFolder();
  const folder = join(root, "model");
  await createServable(folder);
  const engine = new NativeEngine({ threads: 2 });
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
