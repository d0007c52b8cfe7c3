/** The small loop stays small, and runs as its header says, from the build. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const root = resolve(import.meta.dirname, "..");
const file = join(import.meta.dirname, "loop.ts");

test("the whole algorithm takes at most 200 lines and imports nothing but saccade and Node", () => {
  const source = readFileSync(file, "utf8");
  expect(source.trimEnd().split("\n").length).toBeLessThanOrEqual(200);
  const modules = [...source.matchAll(/from "([^"]+)"/g)].map((match) => match[1]);
  expect(modules.filter((name) => !name?.startsWith("node:"))).toEqual(["saccade"]);
});

test("one step of it plays every sibling and trains what was sampled without drift", () => {
  const jiti = join(root, "node_modules", "jiti", "lib", "jiti-cli.mjs");
  const { status, stdout, stderr } = spawnSync(process.execPath, [jiti, file, "2", "1", "2", "2"], {
    cwd: root,
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  expect(status).toBe(0);
  const [imitated, reinforced, ...more] = stdout.trim().split("\n");
  expect(imitated).toMatch(/^demonstrations 2: loss \d+\.\d+$/);
  const [, tokens, drift] = /^step 1: success \d\.\d+, tokens (\d+), drift (\S+)$/.exec(reinforced ?? "") ?? [];
  // Four episodes say something in every turn.
  expect(Number(tokens)).toBeGreaterThanOrEqual(4);
  expect(drift).toBe("0");
  expect(more).toEqual([]);
});
