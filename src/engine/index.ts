/** The engines' public face. */
export { customForwardBackward } from "./custom-loss.ts";
export type {
  Bill,
  Capabilities,
  CustomLoss,
  Datum,
  Engine,
  Forward,
  KlEstimator,
  Learner,
  LearnerSpec,
  LoraSpec,
  Loss,
  LossContext,
  LossReport,
  OnToken,
  OptimizerParams,
  ParameterGroup,
  Regularizers,
  Sample,
  SampleContext,
  Sampler,
  SamplingParams,
  Scores,
  StepReport,
  StopReason,
  Tokens,
  TopLogprob,
  WeightOffer,
} from "./engine.ts";
export { EngineError, EngineLost } from "./errors.ts";
export { POLICY_LOSSES } from "./loss-schemas.ts";
export { lossFunction } from "./losses.ts";
export { type EngineStats, NativeEngine, type NativeEngineOptions } from "./native/engine.ts";
export { compileKernels, expectedKernels, kernelInfo } from "./native/kernels/index.ts";
export {
  checkEngineConfig,
  type EngineConfig,
  type EngineDefinition,
  engineConfig,
  engineNames,
  nameOfEngine,
  openEngine,
  registerEngine,
} from "./registry.ts";
export { TinkerEngine } from "./tinker/engine.ts";
export { learnerSettings, TorchEngine } from "./torch/engine.ts";
export {
  adoptPython,
  defaultPython,
  findTorch,
  packageFolder,
  setUp as setUpTorch,
  type TorchInstall,
} from "./torch/environment.ts";
export { gpusNeeded, type Memory, type MemoryPlan, memoryOf } from "./torch/memory.ts";
