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

test.runIf(found || required)("the worker's pytest tests pass", { timeout: 600_000 }, async () => {
  const cwd = fileURLToPath(new URL("../python", import.meta.url));
  const run = promisify(execFile)(
    "python3",
    ["-m", "pytest", "tests", "-q", "-rs", "--no-header", "-p", "no:cacheprovider"],
    {
      cwd,
    },
  );
  const report = await run.catch((error: { stdout?: string; stderr?: string }) => ({
    stdout: `${error.stdout ?? ""}${error.stderr ?? ""}\nfailed`,
  }));
  expect(report.stdout).toMatch(/\d+ passed(, \d+ skipped)?(, \d+ warnings?)? in/);
  expect(report.stdout).not.toMatch(/failed|error/i);
  const skipped = report.stdout.match(/^SKIPPED.*$/gm) ?? [];
  expect(skipped.filter((line) => !line.endsWith("needs CUDA"))).toEqual([]);
});
