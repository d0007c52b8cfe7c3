/** For tests: a tiny model behind a server of ours. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { type Engine, NativeEngine, type Sampler } from "../engine/index.ts";
import { createFolder } from "../model/folder.ts";
import { TINY_CORPUS, temporaryFolder } from "../model/test-folder.ts";
import { type ServeOptions, type ServeServer, startServer } from "./server.ts";

export type Served = ServeServer & { readonly root: string; readonly folder: string; readonly engine: NativeEngine };

/** vLLM serves no head below 32, and large weights keep distributions far from even. */
export async function createServable(folder: string, seed = 1): Promise<void> {
  await createFolder(folder, {
    corpus: TINY_CORPUS,
    vocab_size: 300,
    seed,
    text: {
      hidden_size: 32,
      intermediate_size: 48,
      num_hidden_layers: 2,
      num_attention_heads: 4,
      num_key_value_heads: 2,
      head_dim: 32,
      mrope_section: [6, 5, 5],
      max_position_embeddings: 1024,
      tie_word_embeddings: true,
      initializer_range: 0.3,
    },
    vision: {
      depth: 1,
      hidden_size: 16,
      intermediate_size: 24,
      num_heads: 2,
      num_position_embeddings: 16,
      initializer_range: 0.3,
    },
  });
}

/**
 * An engine that stops in the middle of long samples until it is told to go on, so that a test decides what happens meanwhile. Waiting for a
 * slow machine can't do that: a fast one is done first.
 */
export class HeldEngine extends NativeEngine {
  /** Samples with more ids than this are held once they have drawn so many. */
  static readonly MAX_FREE = 8;
  #gate: { readonly opened: Promise<void>; readonly open: () => void } | undefined;

  hold(): void {
    let open = () => {};
    const opened = new Promise<void>((done) => {
      open = done;
    });
    this.#gate ??= { opened, open };
  }

  goOn(): void {
    this.#gate?.open();
    this.#gate = undefined;
  }

  override async sampler(folder: string): Promise<Sampler> {
    const inner = await super.sampler(folder);
    return {
      version: inner.version,
      score: (data) => inner.score(data),
      release: (sequence) => inner.release(sequence),
      close: () => inner.close(),
      sample: async (prompt, params, context) => {
        const gate = this.#gate;
        if (gate === undefined || params.maxTokens <= HeldEngine.MAX_FREE) return inner.sample(prompt, params, context);
        const first = await inner.sample(prompt, { ...params, maxTokens: HeldEngine.MAX_FREE }, context);
        await new Promise<void>((done, fail) => {
          const { signal } = context;
          if (signal?.aborted) return fail(signal.reason);
          signal?.addEventListener("abort", () => fail(signal.reason), { once: true });
          gate.opened.then(done);
        });
        const ids = Int32Array.from([...prompt.ids, ...first.ids]);
        const left = { ...params, maxTokens: params.maxTokens - first.ids.length };
        const rest = await inner.sample({ ...prompt, ids }, left, context);
        const logprobs = Float32Array.from([...first.logprobs, ...rest.logprobs]);
        return { ...rest, ids: Int32Array.from([...first.ids, ...rest.ids]), logprobs };
      },
    };
  }
}

/** The store is the folder that holds the model. */
export async function serveTiny(
  options: Partial<ServeOptions> & { readonly frameBytes?: number; readonly engine?: NativeEngine } = {},
): Promise<Served> {
  const root = await temporaryFolder();
  const folder = join(root, "model");
  await createServable(folder);
  const { frameBytes } = options;
  const engine = options.engine ?? new NativeEngine({ threads: 2, ...(frameBytes !== undefined && { frameBytes }) });
  const server = await startServer({ folder, name: "policy", store: root, ...options, engine });
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
    await learner.forwardBackward([datum], { name: "cross-entropy" });
    await learner.step({ name: "adamw", learningRate: 0.05 });
  }
  await learner.export(to);
  await learner.close();
}
