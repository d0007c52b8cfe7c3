/** The Python worker's own tests. They run where `python3` has torch and pytest; SACCADE_REQUIRE=torch makes their absence a failure. */
import { execFile, execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const found = (() => {
  try {
    execFileSync("python3", ["-c", "import aiohttp, msgpack, peft, pytest, torch, transformers"], { stdio: "pipe" });
    return true;
  } catch {
    return false;
  }
})();
const required = (process.env.SACCADE_REQUIRE ?? "").split(",").includes("torch");

/** What pytest reports, and that nothing failed. */
const pytest = async (...options: string[]): Promise<string> => {
  const cwd = fileURLToPath(new URL("../python", import.meta.url));
  const args = ["-m", "pytest", "tests", "-q", "-rs", "--no-header", "-p", "no:cacheprovider", ...options];
  const run = promisify(execFile)("python3", args, { cwd, env: process.env });
  // Its exit code tells; the words of a warning may well be "failed" or "error".
  const report = await run.catch((error: { stdout?: string; stderr?: string }) => {
    throw new Error(`pytest failed:\n${error.stdout ?? ""}${error.stderr ?? ""}`);
  });
  expect(report.stdout).toMatch(/\d+ passed(, \d+ skipped)?(, \d+ deselected)?(, \d+ warnings?)? in/);
  return report.stdout;
};
const skips = (report: string) => report.match(/^SKIPPED.*$/gm) ?? [];

test.runIf(found || required)("the worker's pytest tests pass", { timeout: 600_000 }, async () => {
  const others = skips(await pytest()).filter((line) => !/needs (CUDA|torchvision)$/.test(line));
  expect(others).toEqual([]);
});

// Most processors work without torchvision, and the tests above show it. Those that need it are tried apart.
const torchvision = process.env.SACCADE_TORCHVISION;
test.runIf(torchvision || required)(
  "families whose processor needs torchvision pass, too",
  { timeout: 600_000 },
  async () => {
    if (torchvision === undefined)
      throw new Error("SACCADE_TORCHVISION names no folder: python3 python/torchvision_cpu.py FOLDER makes one.");
    process.env.PYTHONPATH = torchvision;
    expect(skips(await pytest("-k", "mistral3"))).toEqual([]);
  },
);
