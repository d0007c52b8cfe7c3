import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "tsdown";

/** The bundler prints a field's comment behind the field before it, where editors do not look: each goes to a line of its own. */
function placeComments(folder: string): void {
  for (const name of readdirSync(folder).filter((file) => file.endsWith(".d.ts"))) {
    const file = join(folder, name);
    writeFileSync(file, readFileSync(file, "utf8").replace(/; (\/\*\*.*\*\/)$/gm, ";\n$1"));
  }
}

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
    "desk-worker": "src/serve/desk-worker.ts",
    "demo-worker": "src/train/demo-worker.ts",
    "native-worker": "src/engine/native/native-worker.ts",
    "native-helper": "src/engine/native/native-helper.ts",
    cli: "src/cli/main.ts",
  },
  format: "esm",
  platform: "node",
  target: "node20.19",
  dts: true,
  clean: true,
  fixedExtension: false,
  hooks: { "build:done": ({ options }) => placeComments(options.outDir) },
});
