/** For tests of pages: their commands, as a shell runs them, in an empty folder where this package is installed. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect } from "vitest";

const root = resolve(import.meta.dirname, "..");

export class Page {
  readonly folder = mkdtempSync(join(tmpdir(), "saccade-page-"));
  readonly #text: string;
  readonly #running: ChildProcess[] = [];

  constructor(name: string) {
    this.#text = readFileSync(join(root, "docs", name), "utf8");
    const modules = join(this.folder, "node_modules");
    mkdirSync(modules);
    symlinkSync(root, join(modules, "saccade"));
    for (const name of ["ai", "jiti", "openai"]) symlinkSync(join(root, "node_modules", name), join(modules, name));
  }

  /** Its blocks in this language. */
  blocks(language: "sh" | "ts"): string[] {
    return [...this.#text.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, "gs"))].map(([, block]) =>
      String(block),
    );
  }

  /** The commands of each block, without remarks. */
  commands(): string[][] {
    return this.blocks("sh").map((block) =>
      block
        .split("\n")
        .map((line) => line.replace(/\s{2,}# .*$/, "").trim())
        .filter((line) => line !== ""),
    );
  }

  /** Starts what runs until it is stopped. */
  start(command: string): { readonly child: ChildProcess; readonly output: () => string } {
    const saccade = `"${process.execPath}" "${join(root, "dist/cli.js")}"`;
    const child = spawn("bash", ["-c", `set -o pipefail; ${command.replaceAll("npx saccade", saccade)}`], {
      cwd: this.folder,
      // A group of its own, so that it is stopped as by Ctrl-C.
      detached: true,
    });
    this.#running.push(child);
    let text = "";
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (part: string) => (text += part));
    return { child, output: () => text };
  }

  /** Runs to its end, which must be a good one, and gives what was printed. */
  async run(command: string): Promise<string> {
    const { child, output } = this.start(command);
    const code = await new Promise((done) => child.once("close", done));
    expect(code, `${command}\n${output()}`).toBe(0);
    return output();
  }

  async close(): Promise<void> {
    for (const child of this.#running.filter(({ exitCode }) => exitCode === null)) {
      const ended = new Promise((done) => child.once("close", done));
      process.kill(-(child.pid as number), "SIGINT");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export const freePort = () =>
  new Promise<number>((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => done(port));
    });
  });

/** Makes the quickstart a matter of seconds. */
export const SHORT = [
  "warmStart.episodes=32",
  "steps=1",
  "groups=2",
  "siblings=2",
  "minibatch=4",
  "filters=[]",
  "evaluate.before=false",
  "evaluate.seeds=[1000000000,1000000003]",
  "sight.every=0",
]
  .map((change) => `--set '${change}'`)
  .join(" ");
