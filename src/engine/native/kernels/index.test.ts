/** Which kernels run, and what is said when they are not the fast ones. */

import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

let cache: string;
beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), "saccade-kernels-"));
  vi.stubEnv("SACCADE_CACHE", cache);
  vi.stubEnv("SACCADE_KERNELS", "");
  vi.resetModules();
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  rmSync(cache, { recursive: true, force: true });
});

/** The modules as a new process would see them. */
const fresh = () => import("./index.ts");

describe("without a compiler", () => {
  beforeEach(() => vi.stubEnv("CXX", "/no/such/compiler"));

  test("the reference runs, and one line on stderr says how to get the fast kernels", async () => {
    const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const { loadKernels, kernelInfo, compilesFirst } = await fresh();
    expect(compilesFirst()).toBe(false);
    expect(loadKernels().name).toBe("reference");
    expect(loadKernels()).toBe(loadKernels());
    expect(write).toHaveBeenCalledTimes(1);
    const line = String(write.mock.calls[0]?.[0]);
    expect(line).toContain("saccade doctor --build");
    expect(line.indexOf("\n")).toBe(line.length - 1);
    expect(kernelInfo()).toMatchObject({ name: "reference", problem: expect.stringContaining("/no/such/compiler") });
  });

  test("SACCADE_KERNELS=compiled is an error that says what to install", async () => {
    vi.stubEnv("SACCADE_KERNELS", "compiled");
    const { loadKernels } = await fresh();
    expect(loadKernels).toThrow(/Install g\+\+ or clang\+\+/);
    expect(loadKernels).toThrow(expect.objectContaining({ name: "EngineError" }));
  });
});

test("SACCADE_KERNELS=reference compiles nothing and says nothing", async () => {
  vi.stubEnv("SACCADE_KERNELS", "reference");
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const { loadKernels } = await fresh();
  expect(loadKernels().name).toBe("reference");
  expect(write).not.toHaveBeenCalled();
  expect(readdirSync(cache)).toEqual([]);
});

test("any other SACCADE_KERNELS is refused", async () => {
  vi.stubEnv("SACCADE_KERNELS", "fast");
  const { loadKernels } = await fresh();
  expect(loadKernels).toThrow(/compiled, reference or empty/);
});

test("a compiler that fails is a problem with the compiler's own words, and leaves nothing behind", async () => {
  vi.stubEnv("CXX", "node");
  const { compileKernels } = await fresh();
  expect(compileKernels()).toEqual({
    problem: expect.stringMatching(/^node failed to compile the kernels\n.*bad option/s),
  });
  expect(readdirSync(cache)).toEqual([]);
});

test("a build is found again, without a compiler", async ({ skip }) => {
  const { compileKernels, compilesFirst } = await fresh();
  const before = compilesFirst();
  const first = compileKernels();
  if ("problem" in first) return skip(first.problem);
  expect([before, compilesFirst()]).toEqual([true, false]);
  expect(first.seconds).toBeGreaterThan(0);
  expect(existsSync(first.file)).toBe(true);
  expect(readdirSync(cache)).toHaveLength(1);
  vi.stubEnv("PATH", "");
  expect(compileKernels()).toEqual({ file: first.file, compiler: "cache", seconds: 0 });
});
