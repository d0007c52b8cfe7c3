/** A worker thread in Node. */
import { parentPort, workerData } from "node:worker_threads";
import { loadFolder } from "../../model/folder.ts";
import { Grammars } from "../grammar.ts";
import { loadModel, restoreModel, saveModel } from "./files.ts";
import type { Request, WorkerPlace } from "./jobs.ts";
import { attachKernels } from "./kernels/index.ts";
import { Workbench } from "./workbench.ts";

const bench = new Workbench({
  place: workerData as WorkerPlace,
  attach: ({ kernels, wasm }) => attachKernels(kernels, wasm),
  folder: loadFolder,
  grammars: (tokenizer, vocab) => new Grammars(tokenizer, vocab),
  files: { load: loadModel, save: saveModel, restore: restoreModel },
  post: (messages) => parentPort?.postMessage(messages),
});
parentPort?.on("message", (requests: readonly Request[]) => bench.take(requests));
