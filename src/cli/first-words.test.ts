/** What `saccade train` says before anything else loads. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { firstWords, wasmMinutes } from "./first-words.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "saccade-words-"));
  vi.stubEnv("SACCADE_KERNELS", "");
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

function recipe(text: string): string {
  const file = join(folder, "mine.ts");
  writeFileSync(file, text);
  return file;
}

test("without compiled kernels it says so, and about how many minutes the recipe takes here", () => {
  vi.stubEnv("SACCADE_KERNELS", "wasm");
  const minutes = Math.ceil(wasmMinutes({ minutes: 5, cores: 2 }, availableParallelism()));
  expect(firstWords(["train", "quickstart"])).toBe(
    `quickstart: loading the recipe; SACCADE_KERNELS=wasm: WebAssembly kernels, about ${minutes} minutes on this machine`,
  );
  const file = recipe("export default { name: 'mine' };");
  expect(firstWords(["train", file])).toContain("WebAssembly kernels, two to four times slower");
});

test("on an empty cache it names the compiler that has to run first", () => {
  vi.stubEnv("SACCADE_CACHE", folder);
  // Any program that can say its version is taken for one.
  vi.stubEnv("CXX", "node");
  const words = firstWords(["train", "quickstart"]);
  // A folder with prebuilt kernels needs no compiler.
  expect(words).toMatch(
    /node compiles the engine's kernels first, once on this machine, about \d+ seconds|its kernels are compiled$/,
  );
});

test("more cores make it faster, fewer slower", () => {
  const need = { minutes: 5, cores: 2 };
  const times = [1, 2, 4, 16].map((cores) => wasmMinutes(need, cores));
  expect(times).toEqual([...times].sort((a, b) => b - a));
  expect(wasmMinutes(need, 1)).toBe(2 * wasmMinutes(need, 2));
});

test.each([
  ["a flag names an engine", ["train", "quickstart", "--engine", "torch"]],
  ["a setting does", ["train", "quickstart", "--set", "engine.threads=2"]],
])("nothing is said of kernels where %s", (_, words) => {
  expect(firstWords(words)).toBe("quickstart: loading the recipe");
});

test.each([
  ["names an engine", 'export default { engine: "torch" };'],
  ["takes parts from another file", 'import { parts } from "./parts.ts"; export default parts;'],
])("nothing is said of kernels for a recipe that %s", (_, text) => {
  expect(firstWords(["train", recipe(text)])).toMatch(/mine\.ts: loading the recipe$/);
});

test("a wrong SACCADE_KERNELS is left to its error, and other calls say nothing", () => {
  vi.stubEnv("SACCADE_KERNELS", "fast");
  expect(firstWords(["train", "quickstart"])).toBe("quickstart: loading the recipe");
  for (const words of [["train", "--help"], ["train", "quickstart", "--dry-run"], ["play", "maze_2d"], []])
    expect(firstWords(words)).toBeUndefined();
});

test("before the first line nothing but Node is loaded", () => {
  const packages: string[] = [];
  const seen = new Set<string>();
  const visit = (file: string) => {
    if (seen.has(file)) return;
    seen.add(file);
    // Imports of types are gone at run time; `await import` comes after the line.
    for (const [, name = ""] of readFileSync(file, "utf8").matchAll(/^import (?!type\b).*?from "([^"]+)";$/gms)) {
      if (name.startsWith(".")) visit(resolve(dirname(file), name));
      else if (!name.startsWith("node:")) packages.push(`${file} imports ${name}`);
    }
  };
  visit(join(import.meta.dirname, "main.ts"));
  expect(packages).toEqual([]);
  expect(seen.size).toBeLessThan(15);
});
