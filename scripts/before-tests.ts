/** What `npm test` does before the tests: the commands of `npm run check` and the build, all at the same time. Every failure is shown. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

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

const results = await Promise.all([scripts.build, ...scripts.check.split(" && ")].map(run));
if (results.includes(false)) process.exit(1);
