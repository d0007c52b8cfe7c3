/**
 * How a command fails: one line that says what is wrong, and an exit code. Whatever was thrown on purpose, and whatever the file system refused, needs no
 * stack. Anything else is a bug: the line of the user's own file is shown where there is one, and `--debug` shows the rest.
 */
import { CommanderError } from "commander";
import { errorMessage, SaccadeError } from "../core/index.ts";
import { printable } from "../core/printable.ts";
import { userFrames } from "../run/failures.ts";
import { EXIT } from "./common.ts";

/** What the file system's codes mean to somebody who typed a path. */
const REFUSALS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file or folder",
  ENOTDIR: "a part of the path is a file, not a folder",
  EISDIR: "it is a folder, not a file",
  EEXIST: "it exists already",
  EACCES: "you have no right to",
  EPERM: "you have no right to",
  EROFS: "the disk is read-only",
  ENOSPC: "the disk is full",
  EMFILE: "too many files are open (see ulimit -n)",
  ENAMETOOLONG: "the name is too long",
};

/** The lines to print and the exit code. Commander has printed its own complaints already. */
export function explainFailure(error: unknown, debug: boolean): { text: string; code: number } {
  if (error instanceof CommanderError) return { text: "", code: error.exitCode === 0 ? EXIT.ok : EXIT.usage };
  const code = error instanceof SaccadeError && error.name === "ConfigError" ? EXIT.usage : EXIT.failed;
  const stack = debug && error instanceof Error && error.stack ? `${error.stack}\n` : "";
  return { text: printable(`saccade: ${describe(error, debug)}\n${stack}`), code };
}

function describe(error: unknown, debug: boolean): string {
  if (error instanceof SaccadeError) return error.message;
  const refusal = fileRefusal(error);
  if (refusal !== undefined) return refusal;
  if (debug) return errorMessage(error);
  const [line] = userFrames(error);
  return `${errorMessage(error)}${line === undefined ? " (unexpected; --debug shows where)" : `\n  ${line}`}`;
}

/** `Can't open /x/y: there is no such file or folder.`, when that is what the error says. */
export function fileRefusal(error: unknown): string | undefined {
  const { code, syscall, path, dest } = error as NodeJS.ErrnoException & { dest?: string };
  if (typeof code !== "string" || typeof syscall !== "string" || path === undefined) return undefined;
  const why = REFUSALS[code] ?? code;
  return `Can't ${syscall} ${dest ?? path}: ${why}.`;
}
