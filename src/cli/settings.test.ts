/** `--set`: what it reaches, what it never reaches, and how it says what is wrong. */
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import "../index.ts";
import { checkSources, loadRecipe } from "../train/index.ts";
import { parseSettings } from "./common.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "saccade-settings-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = join(folder, "two.mjs");
writeFileSync(
  file,
  `export default { name: "two", model: { preset: "nano" }, steps: 1, optimizer: { learningRate: 1e-4 },
     envs: [{ env: "frozen_lake", options: { size: 4, cellSize: 16 } }, { env: "sokoban" }] };`,
);
const load = (...set: string[]) => loadRecipe(file, parseSettings(set));

describe("--set", () => {
  test.each([
    "__proto__.polluted=1",
    "constructor.prototype.polluted=1",
    "a.__proto__.polluted=1",
    "a.prototype.b=1",
    "__proto__=1",
    'a={"b":[{"__proto__":{"polluted":1}}]}',
  ])("%s is refused and reaches no prototype", (pair) => {
    try {
      expect(() => parseSettings([pair])).toThrow(/--set .*: "(__proto__|constructor|prototype)" cannot be set/);
      expect(({} as { polluted?: number }).polluted).toBeUndefined();
    } finally {
      Reflect.deleteProperty(Object.prototype, "polluted");
    }
  });

  test("reaches into a list by number, and leaves the rest of the entry alone", () => {
    const { envs } = load("envs.0.options.size=6", "envs.1.weight=2");
    expect(envs).toEqual([
      { env: "frozen_lake", options: { size: 6, cellSize: 16 }, weight: 1 },
      { env: "sokoban", options: {}, weight: 2 },
    ]);
    expect(load("envs.1=null").envs).toMatchObject([{ env: "frozen_lake" }]);
    expect(load('envs=[{"env":"sokoban"}]', "envs.0.weight=3").envs).toEqual([
      { env: "sokoban", options: {}, weight: 3 },
    ]);
    expect(load("envs.1.env=./mine.ts").envs).toMatchObject([{}, { env: resolve("mine.ts") }]);
  });

  test.each<[string, RegExp]>([
    ["stepz=3", /two\.mjs.*--set stepz=3: there is no such field; did you mean "steps"\?$/],
    ["optimizer.learningrate=3", /--set optimizer\.learningrate=3: .*did you mean "learningRate"\?/],
    ["evaluate.evry=3", /--set evaluate\.evry=3: .*did you mean "every"\?/],
    ["zzzzzzzz=3", /--set zzzzzzzz=3: there is no such field; the fields are name, seed, model, /],
    [
      "model.preset=nono",
      /--set model\.preset="nono": expected one of nano, quickstart, micro, mini; did you mean "nano"\?/,
    ],
    ["model.presett=nano", /--set model\.presett="nano": there is no such field; did you mean "preset"\?/],
    ["advantage.name=3", /--set advantage\.name=3: .*expected string/],
    ["turns=splt", /--set turns="splt": expected one of joined, split; did you mean "split"\?/],
    ["steps=many", /--set steps="many": .*expected number/],
    ["envs.0.optionz.size=3", /--set envs\.0\.optionz=.*there is no such field; did you mean "options"\?/],
    ["envs.2.weight=3", /envs\.2: envs is a list of 2; write envs\.0 to envs\.1/],
    ["envs.first.weight=3", /envs\.first: envs is a list of 2/],
    ["envs..weight=3", /--set envs\.\.weight=3: a name between the dots is empty/],
  ])("%s is refused by name, with what was given and what is wanted", (pair, message) => {
    expect(() => load(pair)).toThrow(message);
  });

  test("an option that an environment does not have is named with the nearest one", async () => {
    await expect(checkSources(load("envs.0.options.sise=3"))).rejects.toThrow(
      /frozen_lake: unknown option "sise" \(did you mean "size"\?\)/,
    );
  });

  test("what is wrong in the file is not blamed on --set", () => {
    writeFileSync(join(folder, "bad.mjs"), 'export default { name: "bad", model: "m", stepz: 4, optimizer: {} };');
    expect(() => loadRecipe(join(folder, "bad.mjs"), parseSettings(["seed=1"]))).toThrow(
      /bad\.mjs can't be used: .*stepz \(4\): there is no such field; did you mean "steps"\?/,
    );
  });
});
