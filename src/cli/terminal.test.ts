/** Training, lists and reports in a real terminal, at three widths, and what they print where there is none. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { openRun } from "../run/index.ts";
import { screenOf, Terminal } from "./test-terminal.ts";

const bin = resolve(import.meta.dirname, "../../dist/cli.js");
const folder = mkdtempSync(join(tmpdir(), "saccade-terminal-"));
const open: Terminal[] = [];
afterEach(() => {
  for (const terminal of open.splice(0)) terminal.close();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function terminal(words: string[], columns: number, env: Record<string, string> = {}): Terminal {
  const made = new Terminal([process.execPath, bin, ...words], { columns, cwd: folder, env });
  open.push(made);
  return made;
}
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape codes take no room
const visible = (text: string) => text.replaceAll(/\x1b\[[?0-9;]*[A-Za-z]/g, "");

beforeAll(async () => {
  writeFileSync(
    join(folder, "tiny.ts"),
    `import { defineRecipe } from "saccade";
export default defineRecipe({
  name: "tiny",
  model: { preset: "quickstart" },
  envs: [{ env: "frozen_lake", options: { cellSize: 16, protocol: "keyword", prompt: "brief", feedback: false, maxTurns: 4 } }],
  warmStart: { episodes: 64, batch: 8, optimizer: { name: "adamw", learningRate: 0.001 } },
  steps: 3, groups: 2, siblings: 2, minibatch: 4,
  sampling: { temperature: 1, maxTokens: 12, contextTokens: 512 },
  optimizer: { name: "adamw", learningRate: 0.001 },
  evaluate: { every: 3, seeds: [1000000000, 1000000127] },
  sight: { every: 3, episodes: 16 },
  checkpoint: { every: 1 },
  rollout: { live: 16 },
});
`,
  );
  for (const [i, name] of ["quickstart", "quickstart-2", "a-run-with-a-name-of-forty-letters-or-more"].entries()) {
    const config = { name: "quickstart", envs: [{ env: "frozen_lake" }], model: { preset: "quickstart" } };
    const run = await openRun(join(folder, "runs", name), { config });
    run.log("eval", 130, { "eval/success": 0.5 + i / 10, "sight/gap": 0.5 });
    await run.close("finished");
  }
});

describe("saccade train in a terminal", () => {
  test("Ctrl-C in an evaluation is answered within two seconds, and the next process says where it goes on", {
    timeout: 240_000,
  }, async () => {
    const words = ["train", "./tiny.ts", "--out", "train"];
    const first = terminal(words, 60);
    const shown = await first.until(/evaluating +[█░]+ +\d+\/256/, 120_000);
    expect(shown).toMatch(/tiny · step 0 of 3[\s\S]*run +[█░]+ +\d+ %[\s\S]*loss +[▁-█]+/);
    const pressed = performance.now();
    first.press("\x03");
    await first.until(/made up when the run\s+goes on, again to stop now|Stopped after step/, 2000);
    expect(await first.ended).toBe(130);
    expect(performance.now() - pressed).toBeLessThan(5000);
    expect(first.screen()).toMatch(/Stopped after step 0 of 3\. The same command goes on/);

    const second = terminal(words, 80);
    await second.until(/The run goes on after step 0 of 3\./);
    await second.until(/playing +[█░]+ +/, 120_000);
    second.press("\x03");
    await second.until(/finishing step [123], again to stop now|Stopped after step [123] of 3/);
    expect(await second.ended).toBe(130);
    const step = /Stopped after step ([123]) of 3/.exec(second.screen())?.[1];

    const third = terminal(words, 120);
    await third.until(new RegExp(`The run goes on after step ${step} of 3`));
    expect(await third.ended).toBe(0);
    // The curve of the first process is still there, and the end says what to run next.
    expect(third.screen()).toMatch(
      /Next:\s+saccade view[^\n]*\n +saccade play frozen_lake --agent train[^\n]*\n +saccade eval train/,
    );
    expect(visible(third.output)).toMatch(/loss +[▁-█]{8} /);
    for (const { output, columns } of [first, second, third]) {
      for (const line of visible(output).split(/\r?\n/))
        if (/[░▁▀]/.test(line)) expect(line.length).toBeLessThan(columns);
      expect(output).toContain("▀");
    }
  });

  test("where there is no terminal it prints one plain line for each step, in the same words", {
    timeout: 120_000,
  }, () => {
    const { stderr, status } = spawnSync(process.execPath, [bin, "train", "./tiny.ts", "--out", "plain"], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(status).toBe(0);
    expect(stderr).not.toContain("\x1b");
    for (const step of [1, 2, 3])
      expect(stderr).toMatch(
        new RegExp(`^ +\\d+ s {2}step ${step} of 3 {2}success [\\d.]+ {2}reward [\\d.]+ .*step time`, "m"),
      );
    expect(stderr).toMatch(/warm start 8 of 8 {2}loss/);
    expect(stderr).toMatch(/evaluation at step 3 of 3 {2}success/);
  });
});

describe("saccade runs", () => {
  test.each([60, 80, 120])("fits %i columns", async (columns) => {
    const list = terminal(["runs", "--sort", "success"], columns);
    expect(await list.ended).toBe(0);
    const lines = visible(list.output).trimEnd().split("\r\n");
    expect(lines).toHaveLength(4);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(columns);
    expect(lines[0]).toMatch(/^name +status +step +success/);
    expect(lines.slice(1).map((line) => /0\.\d0/.exec(line)?.[0])).toEqual(["0.70", "0.60", "0.50"]);
  });

  test("stars, tags, notes and archiving show, and deleting asks", async () => {
    const run = (...words: string[]) => spawnSync(process.execPath, [bin, ...words], { cwd: folder, encoding: "utf8" });
    expect(run("run", "star", "quickstart").status).toBe(0);
    expect(run("run", "tag", "quickstart", "lakes", "base").stdout).toBe("lakes base\n");
    expect(run("run", "note", "quickstart", "crosses", "them").stdout).toBe("crosses them\n");
    expect(run("run", "archive", "quickstart-2").status).toBe(0);
    const list = run("runs", "--columns", "name,tags,note").stdout;
    expect(list).toMatch(/^\* quickstart +lakes,base +crosses them$/m);
    expect(list).toContain("1 more: not asked for, or archived (--all)");
    expect(run("runs", "--all").stdout).toContain("quickstart-2 (archived)");
    expect(run("runs", "--tag", "lakes", "--json").stdout).toContain('"crosses them"');
    expect(run("run", "delete", "quickstart-2")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("add --yes"),
    });
    const asks = terminal(["run", "delete", "quickstart-2"], 80);
    await asks.until(/\[y\/N\]/);
    asks.press("\r");
    expect(await asks.ended).toBe(1);
    expect(run("runs", "--all").stdout).toContain("quickstart-2");
    const again = terminal(["run", "delete", "quickstart-2"], 80);
    await again.until(/\[y\/N\]/);
    again.press("y\r");
    expect(await again.ended).toBe(0);
    expect(run("runs", "--all").stdout).not.toContain("quickstart-2");
  });
});

describe.each([
  ["NO_COLOR", { NO_COLOR: "1" }],
  ["TERM=dumb", { TERM: "dumb" }],
])("%s is obeyed by", (name, env) => {
  test.each([
    ["runs", ["runs"]],
    ["envs", ["envs"]],
    ["recipes", ["recipes"]],
    ["doctor", ["doctor"]],
    ["eval", ["eval", "agent:random", "--env", "frozen_lake", "--seeds", "0..7", "--out", `eval-${name}`]],
    ["play", ["play", "frozen_lake", "--random", "--max-turns", "2"]],
    ["check", ["check", "frozen_lake"]],
    ["help", ["--help"]],
  ])("saccade %s", { timeout: 60_000 }, async (_, words) => {
    const shown = terminal(words, 80, env);
    expect([await shown.ended, shown.output]).toEqual([0, expect.anything()]);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escape codes are what is looked for
    expect(shown.output).not.toMatch(name === "NO_COLOR" ? /\x1b\[[0-9;]*m/ : /\x1b/);
    expect(shown.output.length).toBeGreaterThan(20);
  });
});

test("the screen of the tests moves, erases and scrolls as terminals do", () => {
  expect(screenOf("one\r\ntwo\r\nthree", 10, 2)).toEqual(["two", "three"]);
  expect(screenOf("one\r\ntwo\r\n\x1b[2A\x1b[0Jnew", 10, 4)).toEqual(["new", "", "", ""]);
  expect(screenOf("abcdef\r\x1b[2Kxy", 4, 3)).toEqual(["abcd", "xy", ""]);
  expect(screenOf("main\x1b[?1049hgame\x1b[?1049l", 8, 1)).toEqual(["main"]);
});
