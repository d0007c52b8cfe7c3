import { defineConfig } from "vitest/config";

/** `npm run prove [-- name]`: proofs too long for every change, one after another, beside the code they prove. */
export default defineConfig({
  test: {
    include: [
      "src/**/*.prove.ts",
      "worlds/**/*.prove.ts",
      "test/**/*.prove.ts",
      "recipes/**/*.prove.ts",
      "web/**/*.prove.ts",
    ],
    setupFiles: ["test/setup.ts"],
    fileParallelism: false,
    testTimeout: 3_600_000,
    hookTimeout: 600_000,
    disableConsoleIntercept: true,
    passWithNoTests: true,
  },
});
