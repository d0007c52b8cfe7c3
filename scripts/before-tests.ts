/**
 * What `npm test` does before the tests: the commands of `npm run check`, the build and the kernels, all at the same time. Every failure is shown.
 * The kernels are compiled here, once: on a new machine the first tests would otherwise each compile their own.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { compileKernels } from "../src/engine/native/kernels/build.ts";

const { scripts } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8")) as {
  scripts: { check: string; build: string };
};

/** Whether a command succeeds. It prints in one piece when it ends, since others print meanwhile. */
function run(command: string): Promise<boolean> {
  const child = spawn(command, { shell: true, stdio: ["ignore", "pipe", "pipe"] });
  const printed: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => printed.push(chunk));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      process.stdout.write(`${code === 0 ? "passed" : "FAILED"}: ${command}\n${Buffer.concat(printed)}`);
      resolve(code === 0);
    });
  });
}

// Without a compiler the tests of compiled kernels say so, or skip.
const [results] = await Promise.all([
  Promise.all([scripts.build, ...scripts.check.split(" && ")].map(run)),
  compileKernels(),
]);
if (results.includes(false)) process.exit(1);
