import { defineConfig } from "vitest/config";

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
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
