import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files that take half a minute or more start first, so that none of them runs alone at the end while other cores wait.
 * Vitest's own order, the largest files first, would put the few lines of a conformance test last.
 */
const LONG = [
  /\/src\/train\/vllm\.test/,
  // Most of their time they wait.
  /\/test\/hostile\.test/,
  /\/src\/envs\/pages\/pages\.test/,
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

/**
 * Rooms whose files need no process of their own: starting one and loading the worlds costs a file more than a second of processor time.
 * The others change environment variables, start servers and workers, or hold a model in memory, so each of their files is isolated.
 */
const SHARED = [
  "src/{core,images,run,http,model,wire}/**/*.test.ts",
  "src/envs/{,protocols/,world-model/}*.test.ts",
  "worlds/**/*.test.ts",
];
const common = {
  setupFiles: ["test/setup.ts"],
  testTimeout: 120_000,
  hookTimeout: 120_000,
  // What is waited for may come late on a busy machine.
  expect: { poll: { timeout: 60_000 } },
};

export default defineConfig({
  test: {
    // One more than there are cores: some test is always waiting for a process, a page or a clock.
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: LongestFirst },
    projects: [
      { test: { ...common, name: "shared", include: SHARED, isolate: false } },
      {
        test: {
          ...common,
          name: "isolated",
          include: ["{src,test,recipes,examples,web}/**/*.test.ts"],
          exclude: SHARED,
          // They wait for browsers, terminals and servers. On a machine that others use, one wait in thousands may end too
          // early; what needs a second try is named in the report.
          retry: process.env.CI ? 2 : 0,
        },
      },
    ],
  },
});
