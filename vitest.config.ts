import { matchesGlob, relative } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files that take half a minute or more start first, so that none of them runs alone at the end while other cores wait.
 * Vitest's own order, the largest files first, would put the few lines of a conformance test last.
 */
const LONG = [
  "src/train/vllm.test.ts",
  "src/train/{learning,resume,tinker,trainer}.test.ts",
  "src/{engine,serve,train}/**/{torch,vllm}.test.ts",
  "src/engine/torch/*.test.ts",
  "test/{gpu-page,package,vllm-page}.test.ts",
  "src/cli/{cli,errors}.test.ts",
  "worlds/*/conformance.test.ts",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const place = LONG.findIndex((glob) => matchesGlob(relative(import.meta.dirname, moduleId), glob));
      return place === -1 ? LONG.length : place;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    include: [
      "src/**/*.test.ts",
      "worlds/**/*.test.ts",
      "test/**/*.test.ts",
      "recipes/**/*.test.ts",
      "examples/**/*.test.ts",
      "web/**/*.test.ts",
    ],
    setupFiles: ["worlds/register.ts"],
    sequence: { sequencer: LongestFirst },
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
