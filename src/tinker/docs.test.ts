/** The examples of docs/guide/tinker.md, run as they stand there, but for the address. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { createJiti } from "jiti";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Served, serveTiny } from "../serve/test-serve.ts";

const python = process.env.SACCADE_TINKER_PYTHON;
const root = resolve(import.meta.dirname, "../..");
const page = readFileSync(join(root, "docs/guide/tinker.md"), "utf8");

let served: Served;
beforeAll(async () => {
  served = await serveTiny({ name: "first" });
});
afterAll(() => served.close());

function example(language: string): string {
  const code = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(page)?.[1];
  if (code === undefined) throw new Error(`docs/guide/tinker.md has lost its ${language} example`);
  return code.replaceAll("http://127.0.0.1:8000", served.url);
}

/** Ten losses that fall, three ids that were learned, a path. */
function check(lines: readonly string[]): void {
  const losses = lines.slice(0, 10).map(Number);
  expect(losses.at(-1)).toBeLessThan(0.5 * (losses[0] as number));
  expect(lines[10]?.match(/\d+/g)?.slice(-3)).toEqual(["43", "44", "45"]);
  expect(lines[11]).toMatch(/^tinker:\/\/.+\/weights\/0001$/);
}

test("the TypeScript example trains, samples what it learned, and saves", async () => {
  const file = join(served.root, "example.ts");
  await writeFile(file, example("ts"));
  const said: string[] = [];
  const print = console.log;
  console.log = (...words: unknown[]) =>
    void said.push(words.map((word) => (ArrayBuffer.isView(word) ? String(word) : word)).join(" "));
  try {
    const alias = { "saccade/tinker": join(root, "src/tinker/index.ts") };
    await createJiti(import.meta.url, { alias }).import(file);
  } finally {
    console.log = print;
  }
  check(said);
});

test.runIf(python)("the Python example of the official SDK does the same", async () => {
  const { stdout } = await promisify(execFile)(python as string, ["-c", example("python")], {
    env: { ...process.env, HF_HUB_OFFLINE: "1" },
  });
  check(stdout.trim().split("\n"));
});
