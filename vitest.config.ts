import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files that take half a minute or more start first, so that none of them runs alone at the end while other cores wait.
 * Vitest's own order, the largest files first, would put the few lines of a conformance test last.
 */
const LONG = [
  /\/src\/train\/vllm\.test/,
  // Most of its time it waits.
  /\/test\/hostile\.test/,
  /\/src\/train\/(learning|resume|tinker|trainer)\.test/,
  /\/src\/(engine|serve|train)\/.*(torch|vllm)\.test/,
  /\/src\/engine\/torch\//,
  /\/test\/(gpu-page|package|vllm-page)\.test/,
  /\/(recipes\/recipes|web\/(web|trained)|src\/rollout\/hosts|src\/evaluate\/evaluate)\.test/,
  /\/src\/cli\/(cli|errors)\.test/,
  /\/conformance\.test/,
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const place = LONG.findIndex((long) => long.test(moduleId));
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
