/**
 * Tickets: rows that each admit to an episode by naming an environment. Validation rows carry their seed; training rows
 * don't, and get one from the run's seed, the epoch and the row, the same for all members of a group. Validation seeds
 * are never trained on: `ticketSeed` redraws around them, and `checkDisjoint` refuses rows that name them.
 */
import { ConfigError, DataError } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { checkSeed, mixSeed } from "../core/seed.ts";
import { jsonLine, writeJsonLines } from "./jsonl.ts";
import { readRows } from "./rows.ts";

export type Ticket = {
  /** What `makeEnv` takes: an id such as `maze_2d/easy`, or a path. */
  readonly env: string;
  readonly seed?: number;
  readonly options?: JsonObject;
  /** Further columns, carried along. */
  readonly [column: string]: Json | undefined;
};

export type TicketPlan = {
  readonly rows: number;
  readonly split: "train" | "val";
  /** Validation rows count up from here. Default 0. */
  readonly firstSeed?: number;
  readonly options?: Readonly<Record<string, unknown>>;
};

export function makeTickets(env: string, plan: TicketPlan): Ticket[] {
  const { rows, split, firstSeed = 0, options } = plan;
  if (!Number.isSafeInteger(rows) || rows < 0) {
    throw new ConfigError(`The number of rows must be a whole number of at least 0, got ${rows}.`);
  }
  const extra = options && Object.keys(options).length > 0 ? { options: options as JsonObject } : {};
  return Array.from({ length: rows }, (_, i) => ({
    env,
    ...(split === "val" ? { seed: checkSeed(firstSeed + i) } : {}),
    ...extra,
  }));
}

/**
 * The seed of a training row without one, in `0..2^31-1`: a fixed function of its arguments that hits no reserved seed.
 */
export function ticketSeed(
  runSeed: number,
  epoch: number,
  row: number,
  reserved: ReadonlySet<number> = new Set(),
): number {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const seed = mixSeed("ticket", checkSeed(runSeed, "The run's seed"), epoch, row, attempt);
    if (!reserved.has(seed)) return seed;
  }
  throw new ConfigError(`Nearly all of the 2^31 training seeds are reserved (${reserved.size}): reserve fewer.`);
}

/** Throws when a training row names a seed that a validation row of the same environment names. */
export function checkDisjoint(train: Iterable<Ticket>, validation: Iterable<Ticket>): void {
  const held = new Map<string, Set<number>>();
  for (const { env, seed } of validation) {
    if (seed !== undefined) held.set(env, (held.get(env) ?? new Set()).add(seed));
  }
  const overlap = new Set<string>();
  for (const { env, seed } of train) {
    if (seed === undefined) continue;
    for (const [other, seeds] of held) if (sameEnv(env, other) && seeds.has(seed)) overlap.add(`${env} seed ${seed}`);
  }
  if (overlap.size === 0) return;
  const more = overlap.size > 10 ? `, and ${overlap.size - 10} more` : "";
  throw new ConfigError(
    `${overlap.size} training episodes are also validation episodes: ${[...overlap].slice(0, 10).join(", ")}${more}. ` +
      "Give the training rows other seeds, or none: then the run chooses seeds away from validation.",
  );
}

/** An id without a difficulty means the default one, which this room can't tell apart here, so it counts as them all. */
function sameEnv(a: string, b: string): boolean {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  return long === short || long.startsWith(`${short}/`) || long.startsWith(`${short}#`);
}

/** Reads tickets from JSON lines or Parquet, in Saccade's shape or SkyRL's. */
export async function readTickets(file: string): Promise<Ticket[]> {
  const tickets: Ticket[] = [];
  for await (const { value, where } of readRows(file)) tickets.push(parseTicket(value, where));
  if (tickets.length === 0)
    throw new DataError(`${file} has no rows; a ticket is a line like {"env": "maze_2d/easy"}.`);
  return tickets;
}

export function writeTickets(file: string, tickets: Iterable<Ticket>): Promise<void> {
  return writeJsonLines(file, tickets);
}

/** Tickets as the text of a JSON lines file. */
export function ticketLines(tickets: Iterable<Ticket>): string {
  return Array.from(tickets, jsonLine).join("");
}

/** `where` names the row in errors. */
export function parseTicket(row: JsonObject, where: string): Ticket {
  const { env, seed, options, ...extra } = row.env === undefined ? fromSkyRL(row) : row;
  if (typeof env !== "string" || env === "") {
    throw new DataError(
      `${where}: a ticket names its environment, {"env": "maze_2d/easy"} ` +
        `or SkyRL's {"env_class": "visgym", "visgym_env_id": "maze_2d/easy"}; this row has ${Object.keys(row).join(", ")}.`,
    );
  }
  if (options != null && !isJsonObject(options)) {
    throw new DataError(`${where}: "options" must be an object, got ${JSON.stringify(options)}.`);
  }
  // Parquet has no absent columns, only null.
  return {
    env,
    ...(seed == null ? {} : { seed: checkSeed(seed, `The seed of ${where}`) }),
    ...(options == null ? {} : { options }),
    ...extra,
  };
}

/** SkyRL's row in our names. Its prompt is a placeholder that the environment replaces. */
function fromSkyRL(row: JsonObject): { readonly [column: string]: Json | undefined } {
  if (row.env_class !== "visgym") return row;
  const { visgym_env_id: env, visgym_kwargs: options, prompt: _, env_class: __, ...rest } = row;
  return { ...rest, env, options };
}
