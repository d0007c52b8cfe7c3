/**
 * For tests: a command in a real pseudo-terminal (of `script`, which every Linux has), and the screen that its output makes. The screen knows what our commands
 * send: cursor moves, erasing, colours, the alternate screen; anything else stays in the text and shows.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";

export class Terminal {
  readonly columns: number;
  readonly rows: number;
  /** All that was written. */
  output = "";
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;

  constructor(
    words: readonly string[],
    {
      columns,
      rows = 24,
      cwd,
      env = {},
    }: { columns: number; rows?: number; cwd: string; env?: Record<string, string> },
  ) {
    [this.columns, this.rows] = [columns, rows];
    const quoted = words.map((word) => `'${word}'`).join(" ");
    const { NO_COLOR: _, FORCE_COLOR: __, TMUX: ___, ...rest } = process.env;
    // noflsh: otherwise an interrupt drops what was written and not yet read, and half a row is left.
    const size = `stty cols ${columns} rows ${rows} noflsh`;
    this.#child = spawn("script", ["-qfec", `${size}; exec ${quoted}`, "/dev/null"], {
      cwd,
      env: { ...rest, TERM: "xterm-256color", ...env },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child.stdout?.setEncoding("utf8").on("data", (data: string) => {
      this.output += data;
    });
    this.ended = new Promise((resolve) => this.#child.once("exit", (code) => resolve(code)));
  }

  press(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  /** Waits until the screen shows it, and returns the screen. */
  async until(wanted: RegExp, ms = 60_000): Promise<string> {
    const end = performance.now() + ms;
    for (;;) {
      const screen = this.screen();
      if (wanted.test(screen)) return screen;
      if (performance.now() > end) throw new Error(`${wanted} did not come in ${ms} ms:\n${screen}`);
      await delay(30);
    }
  }

  screen(): string {
    return screenOf(this.output, this.columns, this.rows).join("\n");
  }

  close(): void {
    this.#child.stdin?.end();
    this.#child.kill("SIGKILL");
  }
}

export function screenOf(output: string, columns: number, rows: number): string[] {
  let lines: string[][] = Array.from({ length: rows }, () => []);
  let [y, x] = [0, 0];
  let kept: string[][] | undefined;
  const newline = () => {
    if (y < rows - 1) y += 1;
    else lines = [...lines.slice(1), []];
  };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape codes are what is read
  for (const piece of output.match(/\x1b\[[?0-9;]*[A-Za-z]|\x1b[_\]][^\x07\x1b]*(?:\x07|\x1b\\)|[\s\S]/gu) ?? []) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: as above
    const code = /^\x1b\[([?0-9;]*)([A-Za-z])$/.exec(piece);
    if (code !== null) {
      const [first = 0, second = 0] = (code[1] ?? "").split(";").map(Number);
      const [n, kind] = [first || 1, code[2]];
      // After a full row the cursor stands on its last character.
      const end = Math.min(x, columns - 1);
      if (kind === "A") [y, x] = [Math.max(0, y - n), end];
      else if (kind === "H") [y, x] = [Math.min(rows, n) - 1, (second || 1) - 1];
      else if (kind === "K") lines[y] = first === 2 ? [] : (lines[y] as string[]).slice(0, end);
      else if (kind === "J" && first === 2) lines = lines.map(() => []);
      else if (kind === "J") lines = lines.map((line, i) => (i < y ? line : i === y ? line.slice(0, end) : []));
      else if (piece === "\x1b[?1049h") [kept, lines, y, x] = [lines, lines.map(() => []), 0, 0];
      else if (piece === "\x1b[?1049l") [lines, kept] = [kept ?? lines, undefined];
    } else if (piece === "\r") x = 0;
    else if (piece === "\n") newline();
    else if (!piece.startsWith("\x1b")) {
      if (x >= columns) {
        x = 0;
        newline();
      }
      const line = lines[y] as string[];
      while (line.length < x) line.push(" ");
      line[x] = piece;
      x += 1;
    }
  }
  return lines.map((line) => line.join("").trimEnd());
}
