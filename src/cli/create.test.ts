/** `npm create saccade`: the package as npm lays it out, beside the Saccade that it depends on. */
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "saccade-create-"));
const installed = join(folder, "node_modules/create-saccade");

beforeAll(() => {
  mkdirSync(installed, { recursive: true });
  for (const file of ["index.js", "package.json"])
    copyFileSync(join(root, "create-saccade", file), join(installed, file));
  symlinkSync(root, join(folder, "node_modules/saccade"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const manifest = (path: string) => JSON.parse(readFileSync(path, "utf8"));
const create = (...words: string[]) =>
  spawnSync(
    process.execPath,
    [join(installed, manifest(join(installed, "package.json")).bin["create-saccade"]), ...words],
    {
      cwd: folder,
      encoding: "utf8",
    },
  );

test("makes the project that saccade init makes, of the kind that is asked for", () => {
  const made = create("my-task", "--kind", "task");
  expect([made.status, made.stdout]).toEqual([0, expect.stringContaining("cd my-task")]);
  for (const file of ["env.ts", "recipe.ts", "test.ts", "tsconfig.json", "README.md"])
    expect([file, existsSync(join(folder, "my-task", file))]).toEqual([file, true]);
  // Without words it is a world in a folder of its own.
  expect(create().status).toBe(0);
  expect(readFileSync(join(folder, "my-agent/README.md"), "utf8")).toContain("a world: a simulator");
});

test("says what init says about a folder that is not empty, with its exit code", () => {
  const again = create("my-task");
  expect([again.status, again.stderr]).toEqual([2, expect.stringContaining("nothing is overwritten")]);
});

test("asks for the Saccade of this tree, in at most twenty lines", () => {
  const { version } = manifest(join(root, "package.json"));
  expect(manifest(join(installed, "package.json"))).toMatchObject({
    version,
    dependencies: { saccade: `^${version}` },
  });
  expect(readFileSync(join(installed, "index.js"), "utf8").trimEnd().split("\n").length).toBeLessThanOrEqual(20);
});
