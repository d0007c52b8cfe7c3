/**
 * A learner in the worker. Calls run one after the other, in the order they were made, and carry numbers, so that a call that is sent again is not done
 * twice. When the worker's process dies its weights are gone: every call says so until a checkpoint is restored, into a learner that is opened anew.
 */
import { checkOptimizer } from "../check-optimizer.ts";
import { customForwardBackward } from "../custom-loss.ts";
import type {
  Datum,
  Forward,
  Learner,
  LearnerSpec,
  Loss,
  LossReport,
  OptimizerParams,
  Sampler,
  StepReport,
} from "../engine.ts";
import { EngineError } from "../errors.ts";
import { checkDatum, checkLoss } from "../losses.ts";
import type { Bundles } from "./bundle.ts";
import { type Client, Images } from "./client.ts";
import { TorchSampler } from "./sampler.ts";
import { type Body, datumBody, floats } from "./wire.ts";

export type TorchHost = { readonly client: Client; readonly bundles: Bundles };
type Opened = { readonly id: number; readonly instance: string };

export class TorchLearner implements Learner {
  readonly #host: TorchHost;
  readonly #spec: LearnerSpec;
  readonly #images: Images;
  #opened: Opened;
  #calls = 0;
  #spoiled = false;
  #queue: Promise<unknown> = Promise.resolve();
  #closed = false;

  private constructor(host: TorchHost, spec: LearnerSpec, images: Images, opened: Opened) {
    this.#host = host;
    this.#spec = spec;
    this.#images = images;
    this.#opened = opened;
  }

  static async open(host: TorchHost, spec: LearnerSpec, images: Images): Promise<TorchLearner> {
    return new TorchLearner(host, spec, images, await openIn(host, spec));
  }

  ahead(data: readonly Datum[]): void {
    const inputs = data.map(({ input }) => input);
    this.#host.client.ahead(inputs, this.#images);
  }

  forward(data: readonly Datum[]): Promise<Forward[]> {
    return this.#enqueue(async () => {
      for (const datum of data) checkDatum(datum);
      const found: Forward[] = [];
      for (const piece of await this.#host.client.pieces(data, this.#images)) {
        const { forwards } = await this.#call("forward", { data: this.#bodies(piece) }, piece);
        for (const one of forwards as Body[])
          found.push(Object.fromEntries(Object.entries(one).map(([name, bytes]) => [name, floats(bytes)])) as Forward);
      }
      return found;
    });
  }

  async forwardBackward(data: readonly Datum[], loss: Loss): Promise<LossReport> {
    checkLoss(loss, this.#spec.head ?? "lm");
    if (loss.name !== "custom") return this.#enqueue(() => this.#learn(data, loss));
    const report = await customForwardBackward(this, data, loss.compute);
    // The worker never saw that loss: a step must not apply what else was summed up.
    if (!report.finite) await this.#enqueue(async () => this.#spoil());
    return report;
  }

  step(optimizer: OptimizerParams): Promise<StepReport> {
    checkOptimizer(optimizer);
    return this.#enqueue(async () => {
      const { gradNorm, applied, step } = await this.#call("step", { optimizer, spoiled: this.#spoiled });
      this.#spoiled = false;
      return { gradNorm: gradNorm as number, applied: applied as boolean, step: step as number };
    });
  }

  discard(): void {
    this.#enqueue(async () => {
      this.#spoiled = false;
      await this.#call("discard", {});
    }).catch(() => {});
  }

  async freshOptimizer(): Promise<void> {
    await this.#enqueue(() => this.#call("fresh_optimizer", {}));
  }

  publish(): Promise<Sampler> {
    return this.#enqueue(async () => {
      if (this.#spec.head === "value") throw new EngineError("A critic can't sample; publish the policy's learner.");
      const { sampler, version } = await this.#call("publish", {});
      const { instance } = this.#opened;
      return new TorchSampler(this.#host.client, this.#images, {
        id: sampler as number,
        instance,
        version: version as number,
      });
    });
  }

  async export(folder: string): Promise<void> {
    await this.#enqueue(() => this.#write("export", folder));
  }

  async checkpoint(folder: string): Promise<void> {
    await this.#enqueue(() => this.#write("checkpoint", folder));
  }

  async restore(folder: string): Promise<void> {
    await this.#enqueue(async () => {
      const { instance } = await this.#host.client.link();
      if (instance !== this.#opened.instance) this.#opened = await openIn(this.#host, this.#spec);
      const from = await this.#host.bundles.send(folder, { keep: false });
      this.#spoiled = false;
      await this.#call("restore", { folder: from });
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#queue;
    // A worker that is gone has closed it already.
    await this.#call("close", {}).catch(() => {});
  }

  async #learn(data: readonly Datum[], loss: Exclude<Loss, { name: "custom" }>): Promise<LossReport> {
    for (const datum of data) checkDatum(datum, loss);
    const reports: PieceReport[] = [];
    for (const piece of await this.#host.client.pieces(data, this.#images)) {
      const found = await this.#call("forward_backward", { data: this.#bodies(piece), loss }, piece);
      reports.push({
        loss: found.loss as number,
        finite: found.finite as boolean,
        metrics: found.metrics as PieceReport["metrics"],
        outputs: (found.outputs as Uint8Array[]).map(floats),
        frameHashes: (found.images as string[][]).map((keys) => keys.map(Images.hashOf)),
      });
    }
    return joined(reports);
  }

  async #write(op: "export" | "checkpoint", folder: string): Promise<void> {
    await this.#host.bundles.receive(folder, this.#spec.folder, (to) => this.#call(op, { folder: to }));
  }

  #bodies(data: readonly Datum[]): Body[] {
    return data.map((datum) => datumBody(datum, this.#images.keyOf));
  }

  #spoil(): void {
    this.#spoiled = true;
  }

  async #call(op: string, body: Body, data: readonly Datum[] = []): Promise<Body> {
    const { id, instance } = this.#opened;
    const inputs = data.map(({ input }) => input);
    const call = this.#calls++;
    return this.#host.client.call(op, { ...body, learner: id, call }, { inputs, images: this.#images, instance });
  }

  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new EngineError("This learner is closed."));
    const result = this.#queue.then(work);
    this.#queue = result.catch(() => {});
    return result;
  }
}

type PieceReport = Required<LossReport> & { readonly metrics: { readonly tokens: number } };

/** Losses and gradients are sums over tokens, metrics means over them. */
function joined(reports: readonly PieceReport[]): LossReport {
  const [first] = reports;
  if (first !== undefined && reports.length === 1) return first;
  const tokens = reports.reduce((sum, { metrics }) => sum + metrics.tokens, 0);
  const metrics: Record<string, number> = {};
  for (const { metrics: own } of reports) {
    for (const [name, value] of Object.entries(own))
      metrics[name] = (metrics[name] ?? 0) + value * (name === "tokens" ? 1 : own.tokens / Math.max(1, tokens));
  }
  return {
    loss: reports.reduce((sum, { loss }) => sum + loss, 0),
    finite: reports.every(({ finite }) => finite),
    metrics,
    outputs: reports.flatMap(({ outputs }) => outputs),
    frameHashes: reports.flatMap(({ frameHashes }) => frameHashes),
  };
}

async function openIn({ client, bundles }: TorchHost, spec: LearnerSpec): Promise<Opened> {
  const { head = "lm", lora, freeze, seed } = spec;
  const { instance } = await client.link();
  const folder = await bundles.send(spec.folder, { keep: true });
  const { learner } = await client.call("open_learner", { folder, head, lora, freeze, seed }, { instance });
  return { id: learner as number, instance };
}
