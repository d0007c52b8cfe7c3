/** Options of `Learner.step`, checked on their way into any engine. */
import { ConfigError } from "../core/errors.ts";
import type { OptimizerParams } from "./engine.ts";

export function checkOptimizer(optimizer: OptimizerParams): void {
  const { name, learningRate, maxGradNorm } = optimizer;
  if (name !== "adamw" && name !== "muon")
    throw new ConfigError(`The optimizer must be adamw or muon, got "${String(name)}".`);
  const rates = [learningRate, optimizer.adamLearningRate ?? 0, ...Object.values(optimizer.rates ?? {})];
  for (const rate of rates) {
    if (!(Number.isFinite(rate) && rate >= 0)) throw new ConfigError(`A learning rate must be 0 or more, got ${rate}.`);
  }
  if (maxGradNorm !== undefined && !(maxGradNorm >= 0)) {
    throw new ConfigError(`maxGradNorm must be 0 (no clipping) or more, got ${maxGradNorm}.`);
  }
}
