/**
 * Episodes that failed for our reasons: what went wrong in one, as its author needs it to mend the environment, and how it is told. The terminal, the
 * run's events and the viewer all show the first one of a run.
 */
import { SaccadeError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { pathOf } from "../core/platform.ts";

export type Failure = {
  /** The environment's name. */
  readonly env: string;
  readonly seed: number;
  /** How the episode ended: `env_error`, `env_timeout`, `engine_error`. */
  readonly end: string;
  readonly error: string;
  /** Who played, where it was a yardstick (stop, random, oracle) and not the model. */
  readonly agent?: string;
  /** The reply that the environment failed on; absent where it failed at reset. */
  readonly reply?: string;
  /** Where it was thrown, from the user's own line on. */
  readonly stack?: string;
  /** The engine was lost: a run restores its weights and goes on. */
  readonly lost?: boolean;
};

/** So much of a reply is told. */
const MAX_REPLY = 300;
const MAX_FRAMES = 4;

/** The failure in lines: what, where, on which seed, after which reply. */
export function failureLines({ env, seed, error, agent, reply, stack }: Failure): string[] {
  return [
    error,
    ...(stack === undefined ? [] : stack.split("\n").map((line) => `  ${line}`)),
    `  environment ${env}, seed ${seed}${agent === undefined ? "" : `, played by the ${agent} agent`}`,
    ...(reply === undefined ? [] : [`  reply ${JSON.stringify(shorten(reply))}`]),
  ];
}

/** As an event stores it. */
export function failureData(failure: Failure): JsonObject {
  return { ...failure, ...(failure.reply !== undefined && { reply: shorten(failure.reply) }) };
}

/** The frames of a stack from the first line that is neither ours nor Node's nor a dependency's. Where there is none: the innermost, unless the words were chosen for the reader. */
export function stackAtUser(error: unknown): string | undefined {
  const users = userFrames(error);
  const others = error instanceof SaccadeError ? [] : framesOf(error);
  const shown = (users.length > 0 ? users : others).slice(0, MAX_FRAMES);
  return shown.length === 0 ? undefined : shown.join("\n");
}

/** The frames of a stack in the user's own files, innermost first. */
export function userFrames(error: unknown): string[] {
  return framesOf(error).filter((frame) => !/[( ]node:|[/\\]node_modules[/\\]/.test(frame) && !isOurs(frame));
}

function framesOf(error: unknown): string[] {
  if (!(error instanceof Error) || typeof error.stack !== "string") return [];
  return error.stack.split("\n").flatMap((line) => /^\s*(at .+:\d+:\d+\)?)$/.exec(line)?.[1] ?? []);
}

/** The folder that this file was loaded from: `src/` of the sources, `dist/` of the package. */
const HOME = new URL(import.meta.url.endsWith(".ts") ? ".." : ".", import.meta.url);

function isOurs(frame: string): boolean {
  return frame.includes(HOME.href) || frame.includes(pathOf(HOME));
}

function shorten(text: string): string {
  return text.length <= MAX_REPLY ? text : `${text.slice(0, MAX_REPLY)}… (${text.length} characters)`;
}
