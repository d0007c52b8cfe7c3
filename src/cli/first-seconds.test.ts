/** The first seconds of `saccade train` where kernels must be compiled: what a terminal shows, and Ctrl-C. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, expect, test } from "vitest";
import { findPrebuilt } from "../engine/native/kernels/prebuilt.ts";
import { Terminal } from "./test-terminal.ts";

const bin = resolve(import.meta.dirname, "../../dist/cli.js");
const folder = mkdtempSync(join(tmpdir(), "saccade-first-seconds-"));
/** For a busy machine to load Saccade. */
const SLOW = 120_000;
let terminal: Terminal | undefined;
afterEach(() => terminal?.close());
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// Prebuilt kernels are used before any compiler is.
test.skipIf("file" in findPrebuilt())(
  "while the compiler runs, one line says so, and Ctrl-C does not wait for it",
  { timeout: 3 * SLOW },
  async () => {
    const compiler = join(folder, "slow.mjs");
    writeFileSync(compiler, 'if (!process.argv.includes("--version")) setTimeout(() => {}, 600_000);');
    const env = { SACCADE_CACHE: join(folder, "cache"), SACCADE_KERNELS: "", CXX: `${process.execPath} ${compiler}` };
    terminal = new Terminal([process.execPath, bin, "train", "quickstart", "--out", "run"], {
      columns: 200,
      cwd: folder,
      env,
    });
    await terminal.until(/compiles the engine's kernels first, once on this machine/, SLOW);
    // Long enough for a panel to draw over it.
    const screen = await terminal.until(/compiling the engine's kernels: ([3-9]|\d\d) s/, SLOW);
    expect(screen.match(/compiling the engine's kernels/g)).toHaveLength(1);
    expect(screen).not.toMatch(/step 0|warm start 0/);
    // The compiler would take ten minutes.
    terminal.press("\x03");
    await terminal.until(/Stopped before the run began/);
    expect(await terminal.ended).toBe(130);
  },
);
