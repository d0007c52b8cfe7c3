/** What another user could have put there is not run. */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { cacheFolder, compiledScripts, mistrust } from "./cache-folder.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "saccade-cache-"));
  vi.stubEnv("TMPDIR", join(root, "tmp"));
  mkdirSync(join(root, "tmp"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  rmSync(root, { recursive: true, force: true });
});

describe.runIf(process.getuid !== undefined)("the cache folder", () => {
  test("is made for its user alone", () => {
    vi.stubEnv("SACCADE_CACHE", join(root, "own"));
    expect(cacheFolder()).toBe(join(root, "own"));
    expect(statSync(join(root, "own")).mode & 0o777).toBe(0o700);
    expect(compiledScripts()).toBe(join(root, "own", "jiti"));
  });

  test.runIf(process.getuid?.() === 0)(
    "is nobody else's: what another user made first is refused by name",
    async () => {
      const { chownSync } = await import("node:fs");
      mkdirSync(join(root, "planted"), { mode: 0o755 });
      chownSync(join(root, "planted"), 4321, 4321);
      vi.stubEnv("SACCADE_CACHE", join(root, "planted"));
      expect(() => cacheFolder()).toThrow(/planted belongs to another user \(4321\).*SACCADE_CACHE/);
      expect(compiledScripts()).toBe(false);
      symlinkSync(join(root, "planted"), join(root, "link"));
      expect(mistrust(join(root, "link"))).toMatch(/belongs to another user/);
      writeFileSync(join(root, "kernels.node"), "");
      chownSync(join(root, "kernels.node"), 4321, 4321);
      expect(mistrust(join(root, "kernels.node"))).toMatch(/belongs to another user/);
    },
  );

  test("is not one that everybody can write to; one that its group could write to is closed to it", () => {
    mkdirSync(join(root, "open"));
    chmodSync(join(root, "open"), 0o777);
    vi.stubEnv("SACCADE_CACHE", join(root, "open"));
    expect(() => cacheFolder()).toThrow(/open can be written to by everybody/);
    chmodSync(join(root, "open"), 0o775);
    expect(cacheFolder()).toBe(join(root, "open"));
    expect(statSync(join(root, "open")).mode & 0o777).toBe(0o755);
  });

  test("in the temporary folder carries its user's name, and is not the one that was there before", () => {
    writeFileSync(join(root, "file"), "");
    vi.stubEnv("XDG_CACHE_HOME", join(root, "file"));
    vi.stubEnv("SACCADE_CACHE", "");
    mkdirSync(join(root, "tmp", "saccade"), { mode: 0o777 });
    expect(cacheFolder()).toBe(join(root, "tmp", `saccade-${process.getuid?.()}`));
  });

  test("says what is wrong with every folder when none is left", () => {
    writeFileSync(join(root, "file"), "");
    vi.stubEnv("XDG_CACHE_HOME", join(root, "file"));
    vi.stubEnv("SACCADE_CACHE", "");
    const spare = join(root, "tmp", `saccade-${process.getuid?.()}`);
    mkdirSync(spare);
    chmodSync(spare, 0o777);
    expect(() => cacheFolder()).toThrow(/ENOTDIR.*saccade-\d+ can be written to by everybody/);
    expect(existsSync(spare)).toBe(true);
  });
});

test("a system without user ids trusts the user's profile", () => {
  const { getuid } = process;
  Object.defineProperty(process, "getuid", { value: undefined, configurable: true });
  try {
    expect(mistrust(root)).toBeUndefined();
  } finally {
    Object.defineProperty(process, "getuid", { value: getuid, configurable: true });
  }
});
