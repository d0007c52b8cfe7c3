/** Where the engine's benchmarks take Saccade from: its sources here, or the build (`export * from "saccade"; …`). */
export * from "../src/core/index.ts";
export * from "../src/engine/index.ts";
export { kernelInfo, loadKernels } from "../src/engine/native/kernels/index.ts";
export { makeWorldEnv } from "../src/envs/index.ts";
export {
  createFolder,
  loadFolder,
  type ModelConfig,
  type ModelFolder,
  type PresetName,
  parameterCount,
} from "../src/model/index.ts";
