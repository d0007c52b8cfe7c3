/** What the README shows works as it stands. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";

const root = resolve(import.meta.dirname, "..");
const readme = readFileSync(resolve(root, "README.md"), "utf8");

test("the TypeScript example reaches the goal", () => {
  const [, code = ""] = /```ts\n([\s\S]*?)```/.exec(readme) ?? [];
  expect(code.trim().split("\n").length).toBeLessThanOrEqual(15);
  const run = spawnSync(process.execPath, ["--input-type=module"], { cwd: root, encoding: "utf8", input: code });
  expect(run.stderr).toBe("");
  expect(run.stdout.trim()).toMatch(/; over, success true$/);
});

test("no command in README and docs creates a model in a folder that git tracks", () => {
  const tracked = spawnSync("git", ["ls-files"], { cwd: root, encoding: "utf8" }).stdout;
  const folders = new Set(tracked.split("\n").map((file) => file.split("/")[0]));
  const pages = readdirSync(resolve(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => readFileSync(resolve(root, "docs", name), "utf8"));
  const made = [readme, ...pages].flatMap((page) =>
    [...page.matchAll(/saccade model create (\S+)/g)].map(([, path = ""]) => path.split("/")[0]),
  );
  expect(made.length).toBeGreaterThan(0);
  for (const folder of made) expect(folders).not.toContain(folder);
});
