import { defineConfig } from "tsdown";

export default defineConfig({
  entry: {
    index: "src/index.ts",
    core: "src/core/index.ts",
    images: "src/images/index.ts",
    envs: "src/envs/index.ts",
    model: "src/model/index.ts",
    engine: "src/engine/index.ts",
    tinker: "src/tinker/index.ts",
    run: "src/run/index.ts",
    rollout: "src/rollout/index.ts",
    train: "src/train/index.ts",
    viewer: "src/viewer/index.ts",
    evaluate: "src/evaluate/index.ts",
    serve: "src/serve/index.ts",
    "env-worker": "src/rollout/env-worker.ts",
    "demo-worker": "src/train/demo-worker.ts",
    "native-worker": "src/engine/native/worker.ts",
    cli: "src/cli/main.ts",
  },
  format: "esm",
  platform: "node",
  target: "node20.19",
  dts: true,
  clean: true,
  fixedExtension: false,
});
