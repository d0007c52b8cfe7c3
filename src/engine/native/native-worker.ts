/** A worker thread: takes jobs and notes from the main thread and answers each job once. */
import { parentPort, workerData } from "node:worker_threads";
import { Image } from "../../core/image.ts";
import type { TokenStream } from "../../model/tokenizer.ts";
import type { OnToken } from "../engine.ts";
import { EngineError } from "../errors.ts";
import { loadModel, restoreModel, saveModel } from "./files.ts";
import type { Drawn, Job, JobOf, Jobs, Note, Reply, Request, WireError, WorkerPlace } from "./jobs.ts";
import { computing, MemoryExhausted } from "./kernels/index.ts";
import { Models } from "./models.ts";
import type { ImageFeatures } from "./network.ts";
import { Optimizer } from "./optimizer.ts";
import { runPack } from "./pack.ts";
import { Tape } from "./tape.ts";

let models: Models | undefined;
const known = () => {
  models ??= new Models(workerData as WorkerPlace);
  return models;
};

const compute = <T>(work: () => T): T => computing(known().kernels, work);

const handlers: {
  [K in keyof Jobs]: (job: JobOf<K>, id: number) => Jobs[K][1] | Promise<Jobs[K][1]>;
} = {
  kernels: () => (workerData as WorkerPlace).kernels.info,
  load: (job) => loadModel(known(), job),
  save: (job) => saveModel(known(), job),
  restore: (job) => restoreModel(known(), job),
  preprocess,
  see,
  pack: (job) => compute(() => runPack(known().network(job.model), known().arena, job)),
  reduce: (job) => compute(() => reduce(job)),
  update: (job) => compute(() => update(job)),
  sample,
};

async function preprocess({ folder, image, features, into }: Jobs["preprocess"][0]): Promise<Jobs["preprocess"][1]> {
  const { processor } = await known().folder(folder);
  return compute(() => {
    if (features !== undefined) {
      const { patches, gridH, gridW } = processor.unpack(features);
      return { patches: share(patches, into), gridH, gridW };
    }
    const picture = new Image(image.width, image.height, image.data);
    const { patches, gridH, gridW } = processor.preprocess(picture);
    return { patches: share(patches, into), gridH, gridW, pixels: picture.hash };
  });
}

async function see({ model, pictures }: JobOf<"see">): Promise<Jobs["see"][1]> {
  const frames = await Promise.all(
    pictures.map((picture) =>
      "patches" in picture ? picture : preprocess({ folder: model.folder, ...picture }).catch(wireError),
    ),
  );
  const { arena, kernels } = known();
  const tape = new Tape(kernels, arena, "inference");
  try {
    const sound = frames.flatMap((frame) => ("patches" in frame ? [frame] : []));
    const images = sound.map(({ patches, gridH, gridW }) => ({ patches: new Float32Array(patches), gridH, gridW }));
    const seen = new Map(
      compute(() => known().network(model).encode(tape, images)).map((levels, i) => [sound[i], levels]),
    );
    return frames.map((frame) => {
      if (!("patches" in frame)) return { error: frame };
      const { main, deepstack } = seen.get(frame) as ImageFeatures;
      const features = new SharedArrayBuffer(main.byteLength * (1 + deepstack.length));
      [main, ...deepstack].forEach((level, at) => {
        new Float32Array(features, at * main.byteLength, main.length).set(level);
      });
      return { frame, features };
    });
  } finally {
    tape.release();
  }
}

function reduce({ model, gradients, from, to }: JobOf<"reduce">): number[] {
  const { kernels } = known();
  const { layout } = known().network(model).trained;
  const flats = gradients.map((buffer) => new Float32Array(buffer));
  return layout.slice(from, to).map(({ offset, size, trainable }) => {
    if (!trainable) return 0;
    const [total, ...others] = flats.map((flat) => flat.subarray(offset, offset + size));
    if (total === undefined) return 0;
    for (const other of others) kernels.axpy(total, 1, other, size);
    return kernels.sumSquares(total, size);
  });
}

function update({ model, gradients, moments, from, to, move }: JobOf<"update">): null {
  const { trained } = known().network(model);
  const part = trained.layout.slice(from, to);
  const flats = gradients.map((buffer) => new Float32Array(buffer));
  const [gradient] = flats;
  if (move !== undefined && gradient !== undefined) {
    new Optimizer(known().kernels, trained, moments).update(part, gradient, move.optimizer, move.scale, move.step);
  }
  for (const { offset, size } of part) for (const flat of flats) flat.fill(0, offset, offset + size);
  return null;
}

/** Samples that wait for their tokenizer. */
const opening = new Set<number>();

async function sample(job: JobOf<"sample">, id: number): Promise<Jobs["sample"][1]> {
  const { model, sequence, ids, spans, params, stream: wanted } = job;
  const decoder = known().decoder(model);
  let stream: TokenStream | undefined;
  if (params.stopStrings?.length) {
    opening.add(id);
    const { tokenizer } = await known().folder(model.folder);
    if (!opening.delete(id)) throw new EngineError("The sample was aborted.");
    stream = tokenizer.stream();
  }
  return new Promise((resolve, reject) => {
    const onToken: OnToken | undefined = wanted
      ? (drawn, logprob, top) => post({ drawn: id, id: drawn, logprob, ...(top && { top }) })
      : undefined;
    decoder.submit({
      id,
      sequence,
      ids,
      spans,
      params,
      resolve,
      reject,
      ...(stream && { stream }),
      ...(onToken && { onToken }),
    });
  });
}

/** A copy in shared memory, in `into` if it has the size. */
function share(values: Float32Array, into?: SharedArrayBuffer): SharedArrayBuffer {
  const buffer = into?.byteLength === values.byteLength ? into : new SharedArrayBuffer(values.byteLength);
  new Float32Array(buffer).set(values);
  return buffer;
}

function take(note: Note): void {
  switch (note.note) {
    case "abort":
      opening.delete(note.id);
      models?.knownDecoder(note.model)?.abort(note.id);
      return;
    case "release":
      models?.knownDecoder(note.model)?.release(note.sequence);
      return;
    case "retire":
      models?.retire(note.model);
      break;
    case "forget":
      models?.forget(note.model);
      return;
  }
}

async function answer(id: number, job: Job): Promise<Reply> {
  try {
    const handler = handlers[job.kind] as (job: Job, id: number) => unknown;
    return { id, result: await handler(job, id) };
  } catch (error) {
    // Inside a kernel, other threads may still wait for what this one left undone: the pool starts anew.
    if (error instanceof MemoryExhausted) setImmediate(() => Promise.reject(error));
    return { id, error: wireError(error) };
  }
}

function wireError(error: unknown): WireError {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  return { name, message, ...(stack !== undefined && { stack }) };
}

/** Samples that end in the same tick are answered in one message: waking the other thread is what costs. */
let outbox: (Reply | Drawn)[] = [];

function post(message: Reply | Drawn): void {
  outbox.push(message);
  if (outbox.length > 1) return;
  queueMicrotask(() => {
    parentPort?.postMessage(outbox);
    outbox = [];
  });
}

parentPort?.on("message", (requests: readonly Request[]) => {
  for (const request of requests) {
    if ("note" in request) take(request);
    else void answer(request.id, request.job).then(post);
  }
});
