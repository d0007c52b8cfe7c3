/** Training, lists and reports in a real terminal, at three widths, and what they print where there is none. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { loadEvents, openRun } from "../run/index.ts";
import { screenOf, Terminal } from "./test-terminal.ts";
import { writeTinyRecipe } from "./test-tiny.ts";

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
  writeTinyRecipe(folder);
  for (const [i, name] of ["quickstart", "quickstart-2", "a-run-with-a-name-of-forty-letters-or-more"].entries()) {
    const config = { name: "quickstart", envs: [{ env: "frozen_lake" }], model: { preset: "quickstart" } };
    const run = await openRun(join(folder, "runs", name), { config });
    run.log("eval", 130, { "eval/success": 0.5 + i / 10, "sight/gap": 0.5 });
    await run.close("finished");
  }
});

describe("saccade train in a terminal", () => {
  test("Ctrl-C in an evaluation cuts it short, and the next process says where it goes on", {
    timeout: 240_000,
  }, async () => {
    const words = ["train", "./tiny.ts", "--out", "train"];
    const first = terminal(words, 60);
    const shown = await first.until(/evaluating +[█░]+ +\d+\/256/, 120_000);
    expect(shown).toMatch(/tiny · step 0 of 3[\s\S]*run +[█░]+ +\d+ %[\s\S]*loss +[▁-█]+/);
    first.press("\x03");
    await first.until(/made up when the run\s+goes on, again to stop now|Stopped after step/);
    expect(await first.ended).toBe(130);
    // It was not waited for.
    const { events } = await loadEvents(join(folder, "train"));
    expect(events.filter(({ kind }) => kind === "eval")).toEqual([]);
    expect(first.screen()).toMatch(/Stopped after step 0 of 3\. The same command goes on/);
    // The panel is drawn over the ^C that the terminal wrote, from the start of its line.
    const paints = first.output.split("\x1b[0J");
    const at = paints.findIndex((paint) => paint.includes("^C"));
    const screen = screenOf(paints.slice(0, at + 2).join("\x1b[0J"), first.columns, first.rows).join("\n");
    expect(screen).toMatch(/^tiny · step 0 of 3$/m);
    expect(screen).not.toContain("^C");

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
    expect(third.screen()).toMatch(/^128 held-out episodes +before \(step 8\) +after \(step 11\)$/m);
    expect(third.screen()).toMatch(/^asked, played, failed +128, 128, 0 +128, 128, 0$/m);
    // How long the run takes, and the phase.
    expect(visible(second.output)).toMatch(/run +[█░]+ +\d+ % {2}about \d+ (s|min) left/);
    // The curves of the processes before are still there, and the end says what to run next.
    expect(third.screen()).toMatch(
      /Next:\n {2}saccade view train +look[^\n]*\n {2}saccade play frozen_lake --agent train +watch[^\n]*\n {2}saccade eval train +measure/,
    );
    for (const [curve, points] of [
      ["loss", 8],
      ["success", 3],
      ["reward", 3],
    ])
      expect(visible(third.output)).toMatch(new RegExp(`${curve} +[▁-█]{${points}} `));
    for (const { output, columns } of [first, second, third]) {
      const lines = visible(output).split(/[\r\n]+/);
      // The terminal writes ^C where the cursor is, even inside a character of several bytes: that one line is not ours.
      const ours = lines.filter((line) => !line.includes("^C"));
      expect(lines.length - ours.length).toBeLessThanOrEqual(1);
      for (const line of ours) if (/[░▁▀]/.test(line)) expect(line.length).toBeLessThan(columns);
      expect(output).toContain("▀");
    }
  });

  test("a second Ctrl-C stops at once, in the middle of what the first was waiting for", {
    timeout: 180_000,
  }, async () => {
    // Updates of 1,024 episodes take seconds.
    const words = [
      "train",
      "./tiny.ts",
      "--out",
      "twice",
      "--set",
      "warmStart.episodes=8192",
      "--set",
      "warmStart.batch=1024",
    ];
    const run = terminal(words, 60);
    await run.until(/warm start +[█░]+ +\d\/8/, 120_000);
    run.press("\x03");
    await run.until(/finishing update \d of the warm start, again to stop now/);
    // What comes at once is taken for the same press.
    await delay(600);
    run.press("\x03");
    expect(await run.ended).toBe(130);
    // The first would have finished the update, saved it and said where it stopped.
    expect(run.screen()).not.toContain("Stopped after");
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

  test("NO_COLOR keeps the panel and draws it without colours; with TERM=dumb it is plain lines", {
    timeout: 120_000,
  }, async () => {
    const more = (steps: number) => ["train", "./tiny.ts", "--out", "plain", "--resume", "--set", `steps=${steps}`];
    const grey = terminal(more(4), 80, { NO_COLOR: "1" });
    expect(await grey.ended).toBe(0);
    expect(grey.output).toMatch(/playing +[█░]+/);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are what is looked for
    expect(grey.output).not.toMatch(/\x1b\[[0-9;]*m/);
    const dumb = terminal(more(5), 80, { TERM: "dumb" });
    expect(await dumb.ended).toBe(0);
    expect(dumb.output).not.toContain("\x1b");
    expect(dumb.output).toMatch(/^ +\d+ s {2}step 5 of 5 {2}success/m);
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

test.each([60, 80])("what is told in words fits %i columns", { timeout: 120_000 }, async (columns) => {
  for (const words of [
    ["recipes"],
    ["recipe", "explain", "quickstart", "--no-measure"],
    ["envs"],
    ["check", "frozen_lake"],
    ["--help"],
    ["train", "--help"],
    ["run", "--help"],
    ["run", "pack", "--help"],
  ]) {
    const told = terminal(words, columns);
    expect([words, await told.ended]).toEqual([words, 0]);
    const lines = visible(told.output).split(/\r?\n/);
    expect([words, Math.max(...lines.map((line) => line.length)) < columns]).toEqual([words, true]);
  }
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
    ["recipe explain", ["recipe", "explain", "quickstart", "--no-measure"]],
    ["init", ["init", `project-${name}`]],
    ["data demos", ["data", "demos", "frozen_lake", "--episodes", "4", "--out", `demos-${name}.jsonl`]],
    ["model info", ["model", "info", resolve(import.meta.dirname, "../../models/generalist")]],
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
  expect(screenOf("abcd\x1b[K\r\nefgh\x1b[1Ax", 4, 2)).toEqual(["abcx", "efgh"]);
  expect(screenOf("main\x1b[?1049hgame\x1b[?1049l", 8, 1)).toEqual(["main"]);
});
