/**
 * The episodes of a run: what is trained on, imitated and evaluated. Nothing that is evaluated is trained on. Seeds that a run draws itself avoid evaluation's; rows of
 * data that evaluation plays are left out of training; rows of files that name an evaluated episode, or hold the same data, are refused.
 */
import { ConfigError } from "../core/errors.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import { readJsonLines } from "../envs/jsonl.ts";
import {
  type EnvRef,
  type EvaluationEntry,
  envKey,
  evaluationEntries,
  type OpenSource,
  onSeeds,
  openSource,
  rowDigests,
  type Source,
  type SourceRow,
} from "../envs/sources.ts";
import { checkDisjoint, type Ticket, ticketSeed } from "../envs/tickets.ts";
import type { EnvSpec } from "../rollout/hosts.ts";
import { distinctLabels } from "../rollout/scores.ts";
import type { Recipe } from "./recipe.ts";

export type RunData = {
  readonly train: readonly OpenSource[];
  /** What a warm start plays. */
  readonly warm: readonly OpenSource[];
  readonly evaluation: readonly EvaluationEntry[];
  /** Seeds that a run must not draw. */
  readonly reserved: ReadonlySet<number>;
};

export async function openData({ envs, warmStart, evaluate }: Recipe): Promise<RunData> {
  const [from, to] = evaluate.seeds;
  const seeds = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  const train = await openAll(envs);
  const imitated = warmStart?.envs === undefined ? undefined : await openAll(warmStart.envs);
  const held = evaluate.envs === undefined ? undefined : await openAll(evaluate.envs);
  // A run that never evaluates keeps its seeds apart; rows of data that are not there need not be.
  const seedsOf = ({ data, rows = [] }: OpenSource) =>
    evaluate.every > 0 || data === undefined ? seeds : seeds.filter((seed) => seed < rows.length);
  const entries = held === undefined ? ownEntries(train, seedsOf) : evaluationEntries(held, seeds);
  const labels = distinctLabels(entries.map(({ label }) => label));
  const evaluation = entries.map((entry, i) => ({ ...entry, label: labels[i] as string }));
  const apart = { evaluation, data: new Map(dataOf(held ?? train)) };
  const reserved = new Set(seedRows(apart).flatMap(({ seed }) => seed ?? []));
  const kept = await keepApart(train, apart);
  return { train: kept, warm: imitated === undefined ? kept : await keepApart(imitated, apart), evaluation, reserved };
}

async function openAll(sources: readonly Source[]): Promise<OpenSource[]> {
  const opened: OpenSource[] = [];
  for (const source of sources) opened.push(await openSource(source));
  return opened;
}

/** Every environment that is trained on, once. */
function ownEntries(
  train: readonly OpenSource[],
  seedsOf: (source: OpenSource) => readonly number[],
): EvaluationEntry[] {
  const entries = train.flatMap((source) => {
    const seeds = seedsOf(source);
    return seeds.length === 0 ? [] : onSeeds(source, seeds);
  });
  return [...new Map(entries.map((entry) => [envKey(entry), entry])).values()];
}

type Held = {
  readonly evaluation: readonly EvaluationEntry[];
  /** Of environments whose episodes are rows of data: the file, where there is one. */
  readonly data: ReadonlyMap<string, string | undefined>;
};

const dataOf = (sources: readonly OpenSource[]) =>
  sources.flatMap(({ envs, data }) =>
    data === undefined ? [] : envs.map((ref): [string, string | undefined] => [envKey(ref), data.file]),
  );

/** Evaluated episodes that a seed decides. */
function seedRows({ evaluation, data }: Held): Ticket[] {
  return evaluation
    .filter((entry) => !data.has(envKey(entry)))
    .flatMap(({ env, seeds }) => seeds.map((seed) => ({ env, seed })));
}

async function keepApart(sources: readonly OpenSource[], held: Held): Promise<OpenSource[]> {
  const named = sources.flatMap(({ rows, data }) => (data === undefined ? (rows ?? []) : []));
  checkDisjoint(
    named.map(({ env, seed }) => ({ env, ...(seed !== undefined && { seed }) })),
    seedRows(held),
  );
  const kept: OpenSource[] = [];
  for (const source of sources) kept.push(source.data === undefined ? source : await withoutHeld(source, held));
  return kept;
}

/** A source of data without the rows that evaluation plays. */
async function withoutHeld(source: OpenSource, held: Held): Promise<OpenSource> {
  const [ref] = source.envs;
  const key = ref === undefined ? "" : envKey(ref);
  const { file } = source.data ?? {};
  for (const [other, otherFile] of held.data) {
    if (other !== key && file !== undefined && otherFile !== undefined) await refuseShared(file, otherFile);
  }
  const played = new Set(held.evaluation.filter((entry) => envKey(entry) === key).flatMap(({ seeds }) => seeds));
  const rows = (source.rows ?? []).filter(({ seed }) => seed === undefined || !played.has(seed));
  if (rows.length > 0) return { ...source, rows };
  throw new ConfigError(
    `Every row of ${file ?? ref?.env} is evaluated, so none is left to train on: evaluate fewer rows (evaluate.seeds), or name another file in evaluate.envs.`,
  );
}

async function refuseShared(file: string, heldFile: string): Promise<void> {
  const held = await rowDigests(heldFile);
  const shared = [...(await rowDigests(file))].flatMap(([digest, where]) =>
    held.has(digest) ? [`${where} is ${held.get(digest)}`] : [],
  );
  if (shared.length === 0) return;
  const more = shared.length > 3 ? `, and ${shared.length - 3} more` : "";
  throw new ConfigError(
    `${shared.length} rows are both trained on and evaluated: ${shared.slice(0, 3).join(", ")}${more}. Remove them from one of the files.`,
  );
}

/** Throws when a demonstration shows an evaluated episode. */
export async function checkDemos(files: readonly string[], evaluation: readonly EvaluationEntry[]): Promise<void> {
  const shown: Ticket[] = [];
  for (const file of files) {
    for await (const { value } of readJsonLines(file)) {
      // Rows of other makers say neither.
      if (typeof value.env === "string" && typeof value.seed === "number")
        shown.push({ env: value.env, seed: value.seed });
    }
  }
  checkDisjoint(
    shown,
    evaluation.flatMap(({ env, seeds }) => seeds.map((seed) => ({ env, seed }))),
  );
}

export type PlannedEpisode = {
  readonly env: EnvSpec;
  /** Its name in metrics, as in an evaluation of the same sources. */
  readonly label: string;
  readonly seed: number;
  /** How often the source's rows were played before; 0 where it has none. */
  readonly epoch: number;
  /** How often the same demonstration comes in all; absent: once. */
  readonly uses?: number;
};

/** Of a source whose demonstrations are used several times: so many are mixed at a time. */
const REUSED = 1024;

/**
 * Which episode comes when: a source is drawn by weight, and its rows come in an order that each epoch shuffles anew, every row once. All of it follows from the run's
 * seed and the index, so a resumed run goes on in the middle of an epoch as if it had never stopped.
 */
export class EpisodeOrder {
  readonly #sources: readonly OpenSource[];
  readonly #seed: number;
  readonly #reserved: ReadonlySet<number>;
  /** Episodes are demonstrations, which a source may use several times. */
  readonly #demonstrations: boolean;
  /** The source of each index so far, and how many of the indices before it had the same. */
  readonly #drawn: { readonly source: number; readonly nth: number }[] = [];
  readonly #counts: number[];
  /** By `envKey`, of sources without rows: one environment with other options has another name. */
  readonly #labels: ReadonlyMap<string, string>;
  /** The order of a source's present epoch. */
  readonly #orders: { epoch: number; order: readonly number[] }[] = [];

  /** By which weights an episode's source is drawn. */
  readonly #weightsAt: (index: number) => readonly number[];

  constructor(
    sources: readonly OpenSource[],
    seed: number,
    reserved: ReadonlySet<number>,
    kind: "episodes" | "demonstrations" = "episodes",
    weightsAt?: (index: number) => readonly number[],
  ) {
    this.#sources = sources;
    this.#seed = seed;
    this.#reserved = reserved;
    this.#demonstrations = kind === "demonstrations";
    this.#counts = sources.map(() => 0);
    this.#labels = labelsByKey(sources);
    const weights = sources.map(({ weight }) => weight);
    this.#weightsAt = weightsAt ?? (() => weights);
  }

  at(index: number): PlannedEpisode {
    const { source, nth } = this.#draw(index);
    const { envs, rows } = this.#sources[source] as OpenSource;
    if (rows === undefined) {
      const ref = envs[0] as EnvRef;
      const { reuse } = this.#sources[source] as OpenSource;
      const uses = this.#demonstrations ? (reuse ?? 1) : 1;
      const seed =
        uses > 1
          ? ticketSeed(mixSeed("reuse", this.#seed, source), 0, this.#reused(source, nth, uses), this.#reserved)
          : ticketSeed(this.#seed, 0, index, this.#reserved);
      return {
        env: { id: ref.env, options: ref.options },
        label: this.#labels.get(envKey(ref)) as string,
        seed,
        epoch: 0,
        ...(uses > 1 && { uses }),
      };
    }
    const epoch = Math.floor(nth / rows.length);
    const row = this.#order(source, epoch, rows.length)[nth % rows.length] as number;
    const { env, options, label = env, seed } = rows[row] as SourceRow;
    const drawn = () => ticketSeed(mixSeed("rows", this.#seed, source), epoch, row, this.#reserved);
    return { env: { id: env, options }, label, seed: seed ?? drawn(), epoch };
  }

  #draw(index: number): { readonly source: number; readonly nth: number } {
    if (this.#sources.length === 1) return { source: 0, nth: index };
    for (let i = this.#drawn.length; i <= index; i++) {
      const source = drawMember(this.#weightsAt(i), mixSeed("mixture", this.#seed, i));
      const nth = this.#counts[source] as number;
      this.#counts[source] = nth + 1;
      this.#drawn.push({ source, nth });
    }
    return this.#drawn[index] as { source: number; nth: number };
  }

  /** Which demonstration of its source the nth is: each comes `uses` times among the next few thousand. */
  #reused(source: number, nth: number, uses: number): number {
    const block = Math.floor(nth / (REUSED * uses));
    const place = this.#order(source, block, REUSED * uses)[nth % (REUSED * uses)] as number;
    return block * REUSED + (place % REUSED);
  }

  #order(source: number, epoch: number, rows: number): readonly number[] {
    const known = this.#orders[source];
    if (known?.epoch === epoch) return known.order;
    const order = new NumpyRandom(mixSeed("order", this.#seed, source, epoch)).permutation(rows);
    this.#orders[source] = { epoch, order };
    return order;
  }
}

/** The names of sources without rows, by `envKey`. */
function labelsByKey(sources: readonly OpenSource[]): Map<string, string> {
  const refs = sources.flatMap(({ envs, rows }) => (rows === undefined ? envs : []));
  const distinct = [...new Map(refs.map((ref) => [envKey(ref), ref.env]))];
  const labels = distinctLabels(distinct.map(([, env]) => env));
  return new Map(distinct.map(([key], i) => [key, labels[i] as string]));
}

/** The names that the episodes of each source have in metrics. */
export function sourceLabels(sources: readonly OpenSource[]): ReadonlySet<string>[] {
  const known = labelsByKey(sources);
  return sources.map(
    ({ envs, rows }) =>
      new Set(rows?.map(({ env, label = env }) => label) ?? envs.map((ref) => known.get(envKey(ref)) as string)),
  );
}

/** One of the members, each as often as its weight says. */
function drawMember(weights: readonly number[], seed: number): number {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let draw = new NumpyRandom(seed).random() * total;
  const chosen = weights.findIndex((weight) => {
    draw -= weight;
    return draw < 0;
  });
  return Math.max(0, chosen);
}
