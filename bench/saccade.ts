/** Where the benchmarks take Saccade from: its sources here, or the build (`export * from "saccade/core"; …`). */
import "../worlds/register.ts";

export * from "../src/core/index.ts";
export * from "../src/engine/index.ts";
export { kernelInfo, loadKernels } from "../src/engine/native/kernels/index.ts";
export * from "../src/envs/index.ts";
export * from "../src/evaluate/index.ts";
export * from "../src/images/index.ts";
export * from "../src/model/index.ts";
export * from "../src/rollout/index.ts";
export * from "../src/run/index.ts";
export * from "../src/train/index.ts";
