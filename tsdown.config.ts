import { defineConfig } from "tsdown";

export default defineConfig({
  entry: {
    index: "src/index.ts",
    core: "src/core/index.ts",
    images: "src/images/index.ts",
    envs: "src/envs/index.ts",
    model: "src/model/index.ts",
    engine: "src/engine/index.ts",
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
