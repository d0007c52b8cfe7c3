/** What the commands share: `--set` options, numbers, exit codes, and a progress line. */
import { accessSync, constants, existsSync, readFileSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { ConfigError } from "../core/index.ts";
import { checkEntry, checkSettingName } from "../core/settings.ts";

/** Exit codes that scripts can use. */
export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

/** `["size=8", "protocol.tags=true"]` → `{ size: 8, protocol: { tags: true } }`. Values are JSON, or text. */
export function parseSettings(pairs: readonly string[]): Record<string, unknown> {
  const settings: Record<string, unknown> = {};
  for (const pair of pairs) {
    const at = pair.indexOf("=");
    if (at < 1) throw new ConfigError(`--set takes key=value, got "${pair}".`);
    const names = pair.slice(0, at).split(".");
    for (const name of names) checkSettingName(name, `--set ${pair}`);
    const last = names.pop() as string;
    let target = settings;
    for (const [depth, name] of names.entries()) {
      if (Array.isArray(target)) checkEntry(name, target.length, names.slice(0, depth).join("."));
      target[name] ??= {};
      const inner = target[name];
      if (typeof inner !== "object" || inner === null)
        throw new ConfigError(`--set ${pair}: "${name}" has a value already.`);
      target = inner as Record<string, unknown>;
    }
    if (Array.isArray(target)) checkEntry(last, target.length, names.join("."));
    const value = parseValue(pair.slice(at + 1));
    checkNamesIn(value, `--set ${pair}`);
    target[last] = value;
  }
  return settings;
}

function checkNamesIn(value: unknown, setting: string): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    if (name !== "") checkSettingName(name, setting);
    checkNamesIn(inner, setting);
  }
}

/** JSON, or text. */
export function parseValue(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** For commander: a whole number of at least `min`. */
export function wholeNumber(flag: string, min = 0): (value: string) => number {
  return (value) => {
    const number = Number(value);
    if (!/^\d+$/.test(value) || !Number.isSafeInteger(number) || number < min) {
      throw new ConfigError(`${flag} takes a whole number of at least ${min}, got "${value}".`);
    }
    return number;
  };
}

export function collect(value: string, previous: readonly string[]): string[] {
  return [...previous, value];
}

/** Refuses a file that could not be written when all the work is done; `flag` names it. */
export function checkWritable(file: string, flag: string): void {
  const path = resolve(file);
  if (isFolder(path)) throw new ConfigError(`${flag} ${file} is a folder: name a file.`);
  const folder = dirname(path);
  if (!isFolder(folder)) {
    throw new ConfigError(`${flag} ${file} can't be written: there is no folder ${folder}.`);
  }
  try {
    accessSync(existsSync(path) ? path : folder, constants.W_OK);
  } catch {
    throw new ConfigError(`${flag} ${file} can't be written: you have no right to.`);
  }
}

export function isFolder(path: string): boolean {
  return existsSync(path) && statSync(path).isDirectory();
}

/** Keys are never arguments: other people on the machine can read those. */
export const API_KEY_FLAG = "--api-key-file <file>";

/** The key that a server asks for: the file's, else `SACCADE_API_KEY`; undefined: none. */
export function readApiKey(file: string | undefined): string | undefined {
  if (file === undefined) return process.env.SACCADE_API_KEY || undefined;
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    throw new ConfigError(`--api-key-file: ${file} can't be read.`);
  }
}

/** The options of an environment as the shared flags give them. */
export function envOptions(flags: {
  set: readonly string[];
  protocol?: string;
  maxTurns?: number;
}): Record<string, unknown> {
  const settings = parseSettings(flags.set);
  if (flags.protocol !== undefined) {
    const own = settings.protocol;
    settings.protocol = typeof own === "object" && own !== null ? { name: flags.protocol, ...own } : flags.protocol;
  }
  if (flags.maxTurns !== undefined) settings.maxTurns = flags.maxTurns;
  return settings;
}

type Stream = { readonly isTTY?: boolean; readonly columns?: number; readonly rows?: number };

/** What a terminal that does not know its size is taken for. */
export function sizeOf({ columns, rows }: Stream): { readonly columns: number; readonly rows: number } {
  return { columns: columns || 80, rows: rows || 24 };
}

/** How wide lines of words are: as the terminal is; elsewhere, where nothing has a width, `otherwise`. */
export function textColumns(stream: Stream, otherwise = Number.MAX_SAFE_INTEGER): number {
  return stream.isTTY ? sizeOf(stream).columns - 1 : otherwise;
}

/** Whether a stream can be redrawn: a terminal that knows how, wide enough. */
export function drawsPanels({ isTTY, columns = 80 }: Stream): boolean {
  return isTTY === true && columns >= 60 && process.env.TERM !== "dumb";
}

/** Whether colours are wanted there: on a terminal, unless `NO_COLOR` or `TERM=dumb` says no; elsewhere only where `FORCE_COLOR` says yes. */
export function hasColor({ isTTY }: Stream): boolean {
  const { NO_COLOR = "", FORCE_COLOR = "", TERM } = process.env;
  if (NO_COLOR !== "" || TERM === "dumb") return false;
  return isTTY === true || !["", "0", "false"].includes(FORCE_COLOR);
}

/** A progress bar on a terminal; elsewhere a line for every tenth. On stderr, so that stdout stays clean. */
export class Progress {
  readonly #label: string;
  readonly #total: number;
  readonly #before: number;
  readonly #started: number;
  #lastTenth = 0;
  #lastPaint = 0;

  /** `before`: what an earlier run had done, which took none of this one's time. `started`: when the work began, on `performance`'s clock. */
  constructor(label: string, total: number, { before = 0, started = performance.now() } = {}) {
    this.#label = label;
    this.#total = total;
    this.#before = before;
    this.#started = started;
  }

  update(done: number, note = ""): void {
    const share = this.#total === 0 ? 1 : done / this.#total;
    const seconds = (performance.now() - this.#started) / 1000;
    const fresh = done - this.#before;
    const left = fresh === 0 ? "" : `, ${Math.ceil((seconds / fresh) * (this.#total - done))} s left`;
    const tail = `${done}/${this.#total}${done < this.#total ? left : `, ${seconds.toFixed(1)} s`}${note && `, ${note}`}`;
    if (drawsPanels(process.stderr)) {
      if (performance.now() - this.#lastPaint < 80 && done < this.#total) return;
      this.#lastPaint = performance.now();
      const filled = Math.round(share * 24);
      const line = `${this.#label} ${"█".repeat(filled)}${"░".repeat(24 - filled)} ${tail}`;
      // A line that wraps could not be redrawn.
      process.stderr.write(`\r\x1b[2K${line.slice(0, sizeOf(process.stderr).columns - 1)}`);
      if (done >= this.#total) process.stderr.write("\n");
    } else if (Math.floor(share * 10) > this.#lastTenth) {
      this.#lastTenth = Math.floor(share * 10);
      process.stderr.write(`${this.#label} ${tail}\n`);
    }
  }
}

/** `npm start` passes on a Ctrl-C that reached us already: what comes so soon after the first is the same press. */
const SAME_PRESS_MS = 500;

/** True once Ctrl-C was pressed; a second press ends the process at once. */
export function onInterrupt(then: () => void = () => {}): { readonly interrupted: boolean } {
  const state = { interrupted: false };
  let first = 0;
  process.on("SIGINT", () => {
    if (state.interrupted) {
      if (performance.now() - first > SAME_PRESS_MS) process.exit(EXIT.interrupted);
      return;
    }
    state.interrupted = true;
    first = performance.now();
    then();
  });
  return state;
}
