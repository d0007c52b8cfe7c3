import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { loadRecipe } from "../train/index.ts";
import "../index.ts";

const root = resolve(import.meta.dirname, "../..");
const bin = join(root, "dist/cli.js");
const empty = () => mkdtempSync(join(tmpdir(), "saccade-init-"));
const init = (...words: string[]) => spawnSync(process.execPath, [bin, "init", ...words], { encoding: "utf8" });

test.each([
  ["world", "env.ts"],
  ["task", "env.ts"],
  ["agent", "agent.ts"],
])("saccade init --kind %s writes a project whose recipe is sound", (kind, file) => {
  const folder = join(empty(), "My Agent");
  const { status, stdout } = init(folder, "--kind", kind);
  expect(status).toBe(0);
  expect(stdout).toContain("npm run train");
  expect(readdirSync(folder).sort()).toEqual(
    [".gitignore", "README.md", file, "package.json", "recipe.ts", "test.ts", "tsconfig.json"].sort(),
  );
  expect(JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))).toMatchObject({
    name: "my-agent",
    type: "module",
  });
  expect(loadRecipe(join(folder, "recipe.ts")).name).toBe(`my-${kind}`);
});

test("saccade init overwrites nothing", () => {
  const folder = empty();
  writeFileSync(join(folder, "env.ts"), "// mine\n");
  const { status, stderr } = init(folder);
  expect(status).toBe(2);
  expect(stderr).toContain("env.ts already, and nothing is overwritten");
  expect(readdirSync(folder)).toEqual(["env.ts"]);
});
