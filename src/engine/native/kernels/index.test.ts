/** Which kernels run, and what is said when they are not the fast ones. */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
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
/** Packages carry prebuilt kernels, a clone does not. */
const withoutPrebuilt = () =>
  vi.doMock("./prebuilt.ts", () => ({
    findPrebuilt: () => ({ problem: "this installation has no prebuilt kernels" }),
  }));

describe("without a compiler", () => {
  beforeEach(() => {
    vi.stubEnv("CXX", "/no/such/compiler");
    withoutPrebuilt();
  });

  test("WebAssembly runs, and one line says why and how to get faster kernels", async () => {
    const { chooseKernels, attachKernels, kernelInfo } = await fresh();
    const told: string[] = [];
    const choice = await chooseKernels((line) => told.push(line));
    expect(attachKernels(choice).name).toBe("wasm");
    expect(told).toEqual([expect.stringMatching(/^running WebAssembly kernels.*no\/such\/compiler.*Install g\+\+/)]);
    expect(await kernelInfo()).toMatchObject({ name: "wasm", problem: expect.stringContaining("/no/such/compiler") });
  });

  test("SACCADE_KERNELS=compiled is an error that says what to install", async () => {
    vi.stubEnv("SACCADE_KERNELS", "compiled");
    const { loadKernels } = await fresh();
    await expect(loadKernels()).rejects.toThrow(/Install g\+\+ or clang\+\+/);
    await expect(loadKernels()).rejects.toMatchObject({ name: "EngineError" });
  });
});

test.each(["wasm", "reference"])("SACCADE_KERNELS=%s compiles nothing and says nothing", async (name) => {
  vi.stubEnv("SACCADE_KERNELS", name);
  const { chooseKernels, loadKernels } = await fresh();
  const tell = vi.fn();
  await chooseKernels(tell);
  expect((await loadKernels()).name).toBe(name);
  expect(tell).not.toHaveBeenCalled();
  expect(readdirSync(cache)).toEqual([]);
});

test("any other SACCADE_KERNELS is refused", async () => {
  vi.stubEnv("SACCADE_KERNELS", "fast");
  const { loadKernels } = await fresh();
  await expect(loadKernels()).rejects.toThrow(/compiled, wasm, reference or empty/);
});

test("a compiler that fails is a problem with the compiler's own words, and leaves nothing behind", async () => {
  vi.stubEnv("CXX", "node");
  const { compileKernels } = await fresh();
  expect(await compileKernels()).toEqual({
    problem: expect.stringMatching(/^node failed to compile the kernels\n.*bad option/s),
  });
  expect(readdirSync(cache)).toEqual([]);
});

test.skipIf(process.platform === "win32")("a compiler may lie at a path with spaces and quotes", async () => {
  const folder = join(cache, "my 'own' compilers");
  mkdirSync(folder);
  const program = join(folder, "c++ 14");
  writeFileSync(program, '#!/bin/sh\necho "I am called with $1" >&2\n[ "$1" = --version ]\n');
  chmodSync(program, 0o755);
  vi.stubEnv("CXX", program);
  const { compileKernels } = await fresh();
  expect(await compileKernels()).toEqual({ problem: expect.stringContaining("I am called with -O3") });
});

test("a build is found again without a compiler, and a prebuilt one is taken where there is none", async ({
  skip,
  onTestFinished,
}) => {
  withoutPrebuilt();
  if (process.platform !== "win32") {
    // What is built does not matter here, so the compiler is told to be quick; the other tests run the fast kernels.
    const folder = mkdtempSync(join(tmpdir(), "saccade-compiler-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const quick = join(folder, "quick-c++");
    writeFileSync(quick, '#!/bin/sh\nexec c++ "$@" -O0\n', { mode: 0o755 });
    vi.stubEnv("CXX", quick);
  }
  const { chooseKernels, compileKernels } = await fresh();
  const told: string[] = [];
  await chooseKernels((line) => told.push(line));
  const first = await compileKernels();
  if ("problem" in first) return skip(first.problem);
  expect(told).toEqual([expect.stringMatching(/^compiling the native engine's kernels with/)]);
  expect(existsSync(first.file)).toBe(true);
  expect(readdirSync(cache)).toHaveLength(1);
  vi.stubEnv("PATH", "");
  expect(await compileKernels()).toEqual({ file: first.file, compiler: "cache", seconds: 0 });

  // The same file as the package's own: taken without a compiler, where nothing was compiled before.
  const { file } = first;
  vi.doMock("./prebuilt.ts", () => ({ findPrebuilt: () => ({ file }) }));
  vi.resetModules();
  vi.stubEnv("SACCADE_CACHE", join(cache, "empty"));
  // Nor is one looked for: on a Mac without Apple's tools that opens a window.
  const started = join(cache, "started");
  const compiler = join(cache, "compiler");
  writeFileSync(compiler, `#!/bin/sh\necho >'${started}'\n`, { mode: 0o755 });
  vi.stubEnv("CXX", compiler);
  const { chooseKernels: chooseAnew, expectedKernels } = await fresh();
  expect(expectedKernels()).toMatchObject({ name: "compiled", why: expect.stringContaining("came with the package") });
  expect((await chooseAnew()).info).toMatchObject({ name: "compiled", compiler: "prebuilt", file });
  expect(existsSync(started)).toBe(false);
});

describe.skipIf(process.platform === "win32")("on a Mac", () => {
  const { platform } = process;
  beforeEach(() => void Object.defineProperty(process, "platform", { value: "darwin" }));
  afterEach(() => void Object.defineProperty(process, "platform", { value: platform }));

  test.each([
    ["without Apple's tools its stand-ins for compilers are not started", 2, undefined],
    ["with them they are compilers", 0, "c++"],
  ])("%s", async (_, status, found) => {
    // Debian's compiler is in the same folder as Apple's.
    if (!existsSync("/usr/bin/c++")) return;
    writeFileSync(join(cache, "xcode-select"), `#!/bin/sh\nexit ${status}\n`, { mode: 0o755 });
    vi.stubEnv("PATH", `${cache}:/usr/bin`);
    vi.stubEnv("CXX", "");
    const { findCompiler } = await import("./compiler.ts");
    expect(findCompiler()?.name).toBe(found);
  });

  test("a compiler of another folder needs none of that", async () => {
    writeFileSync(join(cache, "c++"), "#!/bin/sh\n", { mode: 0o755 });
    vi.stubEnv("PATH", `${cache}:/usr/bin`);
    vi.stubEnv("CXX", "");
    const { findCompiler } = await import("./compiler.ts");
    expect(findCompiler()).toMatchObject({ name: "c++" });
  });
});
