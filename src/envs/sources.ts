/**
 * What is played: an environment on seeds that a run draws, or rows of a file that each name an episode. Recipes (training, warm start, evaluation) and
 * `saccade eval` take the same sources. Environments that a file names by path lie relative to that file.
 */
import { createHash } from "node:crypto";
import { dirname, resolve } from "node:path";
import { ConfigError, DataError } from "../core/errors.ts";
import { canonicalJson } from "../core/json.ts";
import { isPath } from "./load.ts";
import { readPlan } from "./plans.ts";
import { type Program, registerProgram } from "./program.ts";
import { envRows, type Options } from "./registry.ts";
import { readRows } from "./rows.ts";
import { parseTicket } from "./tickets.ts";

/** `weight`: how often a mixture draws from it, 1 unless said. `reuse`: how often a warm start uses each of its demonstrations, 1 unless said. */
export type Source =
  | { readonly env: string; readonly options?: Options; readonly weight?: number; readonly reuse?: number | undefined }
  | { readonly tickets: string; readonly weight?: number }
  | { readonly records: string; readonly env: string; readonly options?: Options; readonly weight?: number }
  | { readonly plan: string; readonly weight?: number }
  | { readonly program: Program; readonly weight?: number };

export type EnvRef = { readonly env: string; readonly options: Options };

/** An episode that a row names. */
export type SourceRow = EnvRef & {
  /** Absent: the run draws one. */
  readonly seed?: number;
  /** Its name in metrics, where the file gives one. */
  readonly label?: string;
  readonly where: string;
};

export type OpenSource = {
  readonly kind: "env" | "tickets" | "records" | "plan";
  readonly weight: number;
  readonly reuse?: number;
  /** Every environment it plays, once. */
  readonly envs: readonly EnvRef[];
  /** Absent: every seed is an episode. */
  readonly rows?: readonly SourceRow[];
  /** The environment's episodes are rows of data, the seed being the row; `file` where they come from one. */
  readonly data?: { readonly file?: string };
};

export async function openSource(source: Source): Promise<OpenSource> {
  const { weight = 1 } = source;
  if ("tickets" in source) {
    return { kind: "tickets", weight, ...(await named(source.tickets, await readTicketRows(source.tickets))) };
  }
  if ("plan" in source) return { kind: "plan", weight, ...(await named(source.plan, await readPlan(source.plan))) };
  if ("program" in source) {
    const ref = { env: registerProgram(source.program), options: {} };
    return { kind: "env", weight, ...dataRows(ref, (await envRows(ref.env)) ?? 0, source.program.tasks) };
  }
  if ("records" in source) {
    const { env, records } = source;
    const options = { ...source.options, data: resolve(records) };
    const count = await envRows(env, options);
    if (count === undefined) {
      throw new ConfigError(
        `${env} has no rows, so it can't play ${records}: a source { records, env } needs an environment made with defineTask, or one with rows().`,
      );
    }
    return { kind: "records", weight, ...dataRows({ env, options }, count, records) };
  }
  const { env, options = {} } = source;
  const count = await envRows(env, options);
  const { reuse = 1 } = source;
  if (count === undefined) return { kind: "env", weight, ...(reuse > 1 && { reuse }), envs: [{ env, options }] };
  return { kind: "env", weight, ...dataRows({ env, options }, count, fileOf(options)) };
}

function dataRows(ref: EnvRef, count: number, file: string | undefined): Pick<OpenSource, "envs" | "rows" | "data"> {
  const rows = Array.from({ length: count }, (_, seed) => ({
    ...ref,
    seed,
    where: `${file ?? ref.env} row ${seed + 1}`,
  }));
  return { envs: [ref], rows, data: file === undefined ? {} : { file: resolve(file) } };
}

const fileOf = ({ data }: Options) => (typeof data === "string" ? data : undefined);

async function readTicketRows(file: string): Promise<SourceRow[]> {
  const rows: SourceRow[] = [];
  for await (const { value, where } of readRows(file)) {
    const { env, seed, options = {}, data_source: label } = parseTicket(value, where);
    const known = { ...(seed !== undefined && { seed }), ...(typeof label === "string" && label !== "" && { label }) };
    rows.push({ env, options, ...known, where });
  }
  if (rows.length === 0) throw new DataError(`${file} has no rows; a ticket is a line like {"env": "maze_2d/easy"}.`);
  return rows;
}

/** Rows of a file with the environments they name. */
async function named(file: string, read: readonly SourceRow[]): Promise<Pick<OpenSource, "envs" | "rows">> {
  const rows = read.map((row) => (isPath(row.env) ? { ...row, env: resolve(dirname(file), row.env) } : row));
  const envs = new Map<string, EnvRef & { readonly count: number | undefined }>();
  for (const { env, options, seed, where } of rows) {
    const key = envKey({ env, options });
    const known = envs.get(key) ?? { env, options, count: await placed(where, () => envRows(env, options)) };
    envs.set(key, known);
    if (known.count === undefined || (seed !== undefined && seed < known.count)) continue;
    throw new DataError(
      `${where}: the seed of ${env} is one of its rows, 0 to ${known.count - 1}, but this row has ${seed ?? "none"}.`,
    );
  }
  return { envs: [...envs.values()].map(({ env, options }) => ({ env, options })), rows };
}

/** What is wrong with a row's environment is said with the row's place. */
async function placed<T>(where: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(`${where}: ${error.message}`) : error;
  }
}

/** The same for the same environment with the same options. */
export function envKey({ env, options }: EnvRef): string {
  return canonicalJson([env, options]);
}

/** One line of an evaluation: an environment and the seeds it is played on. */
export type EvaluationEntry = EnvRef & { readonly label: string; readonly seeds: readonly number[] };

/**
 * What sources mean to an evaluation: rows of files are played as they are, environments on `seeds`, which are rows where there are any. Every row needs a seed,
 * because an evaluation must be the same each time.
 */
export function evaluationEntries(sources: readonly OpenSource[], seeds: readonly number[]): EvaluationEntry[] {
  return sources.flatMap((source) => {
    if (source.kind === "env") return onSeeds(source, seeds);
    const entries = new Map<string, EnvRef & { label: string; seeds: Set<number> }>();
    for (const { env, options, label = env, seed, where } of source.rows ?? []) {
      if (seed === undefined) {
        throw new ConfigError(
          `${where}: rows of an evaluation need a seed; \`saccade data tickets --split val\` writes such rows.`,
        );
      }
      const key = canonicalJson([label, env, options]);
      const entry = entries.get(key) ?? { env, options, label, seeds: new Set<number>() };
      entries.set(key, entry);
      entry.seeds.add(seed);
    }
    return [...entries.values()].map((entry) => ({ ...entry, seeds: [...entry.seeds] }));
  });
}

/** The environments of a source on these seeds; where they have rows and no seeds are given, on all rows. */
export function onSeeds({ envs, rows, data }: OpenSource, given: readonly number[]): EvaluationEntry[] {
  const count = data === undefined ? undefined : rows?.length;
  const seeds = count !== undefined && given.length === 0 ? Array.from({ length: count }, (_, row) => row) : given;
  return envs.map(({ env, options }) => {
    const outside = count === undefined ? undefined : seeds.find((seed) => seed >= count);
    if (outside !== undefined) {
      throw new ConfigError(
        `${env} has rows 0 to ${(count ?? 0) - 1}, so there is no row ${outside} to evaluate: set the seeds to rows to hold out (they are not trained on), or name a file of validation rows.`,
      );
    }
    return { env, options, label: env, seeds };
  });
}

/** What each row of a file holds, whatever the file's format and the order of fields, and where. */
export async function rowDigests(file: string): Promise<Map<string, string>> {
  const digests = new Map<string, string>();
  for await (const { value, where } of readRows(file)) {
    digests.set(createHash("sha256").update(canonicalJson(value)).digest("base64"), where);
  }
  return digests;
}
