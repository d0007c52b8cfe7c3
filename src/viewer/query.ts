/**
 * Pure functions over rows and records that the server and an exported page share: filter, sort, page, compare, downsample. They run
 * in a browser and import nothing of node.
 */
import type { Json, JsonObject } from "../core/json.ts";
import type { TrajectoryRecord } from "../run/trajectories.ts";
import type {
  CompareReply,
  Episode,
  EvaluatedSeed,
  Facets,
  GroupReply,
  Maybe,
  Series,
  SightReply,
  TrajectoryQuery,
  TrajectoryRow,
  TrajectorySort,
} from "./api.ts";

export const DEFAULT_LIMIT = 50;
export const MAX_LIMIT = 1000;
export const DEFAULT_POINTS = 600;
/** Rows in each list of the sight page. */
const MAX_SIGHT_ROWS = 200;

/** Everything but `text`, which needs more than the row. */
export function matches(row: TrajectoryRow, query: TrajectoryQuery): boolean {
  const { env, seed, group, sibling, success, end, parseFailure, split, label, greedy } = query;
  return (
    (env === undefined || row.env === env) &&
    (seed === undefined || row.seed === seed) &&
    (group === undefined || row.group === group) &&
    (sibling === undefined || row.sibling === sibling) &&
    (label === undefined || row.label === label) &&
    (greedy === undefined || (row.temperature === 0) === greedy) &&
    within(row.step, query.stepMin, query.stepMax) &&
    within(row.reward, query.rewardMin, query.rewardMax) &&
    within(row.turns, query.turnsMin, query.turnsMax) &&
    within(row.advantage, query.advantageMin, query.advantageMax) &&
    within(row.drift, query.driftMin, query.driftMax) &&
    (success === undefined || row.success === success) &&
    (end === undefined || outcomeOf(row) === end) &&
    (parseFailure === undefined || row.parseFailures > 0 === parseFailure) &&
    (split === undefined || row.split === split)
  );
}

/** What has no value is in no range. */
function within(value: number | undefined, low: number | undefined, high: number | undefined): boolean {
  if (low === undefined && high === undefined) return true;
  return value !== undefined && value >= (low ?? value) && value <= (high ?? value);
}

/** How an episode ended, in the words of its world where it has any: what filters go by. */
export function outcomeOf({ success, end, ending, error }: TrajectoryRow): string {
  if (error !== undefined) return "error";
  return success ? "solved" : (ending ?? end);
}

const VALUES: Readonly<Record<TrajectorySort, (row: TrajectoryRow) => number | string | undefined>> = {
  step: ({ step }) => step,
  env: ({ env }) => env,
  seed: ({ seed }) => seed,
  outcome: outcomeOf,
  reward: ({ reward }) => reward,
  turns: ({ turns }) => turns,
  unread: ({ parseFailures }) => parseFailures,
  advantage: ({ advantage }) => advantage,
  drift: ({ drift }) => drift,
  sibling: ({ sibling }) => sibling,
  label: ({ label }) => label,
};

/** A new list; equal rows stay in the order of the run, rows without a value come last. */
export function sortRows<T extends TrajectoryRow>(
  rows: readonly T[],
  { sort = "step", order = "desc" }: TrajectoryQuery,
): T[] {
  const sign = order === "asc" ? 1 : -1;
  const value = VALUES[sort];
  return rows
    .map((row) => ({ row, x: value(row) }))
    .sort(({ x: a }, { x: b }) => {
      if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
      return a === b ? 0 : a < b ? -sign : sign;
    })
    .map(({ row }) => row);
}

export function pageOf<T>(rows: readonly T[], { offset = 0, limit = DEFAULT_LIMIT }: TrajectoryQuery): T[] {
  return rows.slice(offset, offset + Math.min(limit, MAX_LIMIT));
}

export function facetsOf(rows: Iterable<TrajectoryRow>): Facets {
  const [envs, ends, splits, labels] = [new Set<string>(), new Set<string>(), new Set<string>(), new Set<string>()];
  const steps: [number, number] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const rewards: [number, number] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const row of rows) {
    envs.add(row.env);
    ends.add(outcomeOf(row));
    if (row.label) labels.add(row.label);
    splits.add(row.split);
    widen(steps, row.step);
    widen(rewards, row.reward);
  }
  const sorted = (set: ReadonlySet<string>) => [...set].sort();
  const lists = { envs: sorted(envs), ends: sorted(ends), splits: sorted(splits), labels: sorted(labels) };
  return envs.size === 0 ? lists : { ...lists, steps, rewards };
}

function widen(range: [number, number], value: number): void {
  if (value < range[0]) range[0] = value;
  if (value > range[1]) range[1] = value;
}

/** The text that `TrajectoryQuery.text` is looked up in, in lower case. The first observation is left out: it is the same in all. */
export function searchText(record: TrajectoryRecord): string {
  const lines = [record.id, record.end, record.ending ?? "", record.error ?? ""];
  for (const [t, turn] of record.turns.entries()) {
    if (t > 0) lines.push(turn.observation);
    lines.push(turn.reply, turn.actions.join(", "), turn.feedback ?? "");
  }
  lines.push(record.final?.observation ?? "");
  return lines.join("\n").toLowerCase();
}

/** Rows played beside this one: same group, step, split and temperature, by sibling. */
export function siblingsOf<T extends TrajectoryRow>(rows: Iterable<T>, of: TrajectoryRow): T[] {
  const members: T[] = [];
  for (const row of rows) {
    const same = row.step === of.step && row.group === of.group && row.split === of.split;
    if (same && row.temperature === of.temperature) members.push(row);
  }
  return members.sort((a, b) => a.sibling - b.sibling);
}

export function withoutTokens(row: TrajectoryRow, record: TrajectoryRecord): Episode {
  const { tokens: _, ...rest } = record;
  return { row, record: rest };
}

export function groupReply(members: readonly Episode[]): GroupReply {
  const { step = 0, group = "" } = members[0]?.row ?? {};
  const divergence = firstDivergence(members.map(({ record }) => record));
  return { step, group, members, ...(divergence !== undefined && { divergence }) };
}

/** The first turn in which not all did the same, or that not all reached. A reply without an action differs by its words. */
function firstDivergence(records: readonly Episode["record"][]): number | undefined {
  const longest = records.reduce((most, { turns }) => Math.max(most, turns.length), 0);
  for (let turn = 0; turn < longest; turn++) {
    const done = records.map(({ turns }) => {
      const said = turns[turn];
      return said === undefined ? "" : JSON.stringify(said.actions.length > 0 ? said.actions : [null, said.reply]);
    });
    if (new Set(done).size > 1) return turn;
  }
  return undefined;
}

export function evaluatedSeeds(rows: Iterable<TrajectoryRow>): EvaluatedSeed[] {
  const seeds = new Map<string, { row: TrajectoryRow; byStep: Map<number, boolean> }>();
  for (const row of rows) {
    if (row.split !== "eval") continue;
    const name = JSON.stringify([row.env, row.seed, row.temperature]);
    const entry = seeds.get(name) ?? { row, byStep: new Map<number, boolean>() };
    seeds.set(name, entry);
    entry.byStep.set(row.step, (entry.byStep.get(row.step) ?? false) || row.success);
  }
  return [...seeds.values()]
    .map(({ row: { env, seed, temperature }, byStep }) => {
      const steps = [...byStep.keys()].sort((a, b) => a - b);
      return { env, seed, temperature, steps, successes: steps.map((step) => byStep.get(step) === true) };
    })
    .sort((a, b) => (a.env < b.env ? -1 : a.env > b.env ? 1 : a.seed - b.seed || b.temperature - a.temperature));
}

export function pinnedRows<T extends TrajectoryRow>(
  rows: Iterable<T>,
  env: string,
  seed: number,
  temperature: number,
): T[] {
  const found: T[] = [];
  for (const row of rows) {
    const same = row.split === "eval" && row.env === env && row.seed === seed;
    if (same && row.temperature === temperature) found.push(row);
  }
  return found.sort((a, b) => a.step - b.step || a.sibling - b.sibling);
}

/** The part of the sight page that comes from trajectories. */
export function sightOfRows(rows: Iterable<TrajectoryRow>): Omit<SightReply, "probes"> {
  const frames = { checked: 0, mismatched: 0 };
  const mismatched: TrajectoryRow[] = [];
  const probed: { row: TrajectoryRow; looked: number }[] = [];
  for (const row of rows) {
    frames.checked += row.frames.checked;
    frames.mismatched += row.frames.mismatched;
    if (row.frames.mismatched > 0) mismatched.push(row);
    const gaps = row.sight?.filter((gap) => gap !== null) ?? [];
    if (gaps.length > 0) probed.push({ row, looked: gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length });
  }
  probed.sort((a, b) => a.looked - b.looked);
  return {
    frames,
    mismatched: mismatched.slice(-MAX_SIGHT_ROWS),
    probed: probed.slice(0, MAX_SIGHT_ROWS),
    blind: probed.filter(({ looked }) => looked <= 0).length,
  };
}

/** Fields in which configurations differ; lists are compared whole. */
export function compareConfigs(runs: readonly string[], configs: readonly (JsonObject | undefined)[]): CompareReply {
  const flat = configs.map((config) => flatten(config ?? {}));
  const keys = new Set(flat.flatMap((fields) => [...fields.keys()]));
  const all = [...keys].map((key) => ({ key, values: flat.map((fields) => fields.get(key) ?? null) }));
  const differs = ({ values }: { values: readonly Json[] }) => new Set(values.map(canonical)).size > 1;
  const rows = all.filter(differs);
  const same = all.filter((row) => !differs(row)).map(({ key, values }) => ({ key, value: values[0] ?? null }));
  return { runs, rows, same, groups: groupSeeds(configs) };
}

/** Fields that do not make another experiment. */
const SAME_EXPERIMENT = ["seed", "name"];

function groupSeeds(configs: readonly (JsonObject | undefined)[]): number[] {
  const known = new Map<string, number>();
  return configs.map((config = {}, i) => {
    const rest = Object.fromEntries(Object.entries(config).filter(([name]) => !SAME_EXPERIMENT.includes(name)));
    const name = canonical(rest);
    const group = known.get(name) ?? i;
    known.set(name, group);
    return group;
  });
}

function flatten(config: JsonObject, prefix = "", into = new Map<string, Json>()): Map<string, Json> {
  for (const [name, value] of Object.entries(config)) {
    if (isObject(value) && Object.keys(value).length > 0) flatten(value, `${prefix}${name}.`, into);
    else into.set(prefix + name, value);
  }
  return into;
}

function canonical(value: Json): string {
  return JSON.stringify(value, (_, x: Json) =>
    isObject(x) ? Object.fromEntries(Object.entries(x).sort(([a], [b]) => (a < b ? -1 : 1))) : x,
  );
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** At most `points` of a curve: its first and last, and between them the mean of each stretch of steps with its extremes. */
export function thinOut(series: Series, points: number): Series {
  const count = series.steps.length;
  if (count <= points) return series;
  const stretches = Math.max(1, points - 2);
  const edge = (stretch: number) => 1 + Math.floor(((count - 2) * stretch) / stretches);
  const edges = [0, ...Array.from({ length: stretches + 1 }, (_, stretch) => edge(stretch)), count];
  const [steps, times]: [number[], number[]] = [[], []];
  const [values, low, high]: [Maybe[], Maybe[], Maybe[]] = [[], [], []];
  for (const [i, to] of edges.slice(1).entries()) {
    const from = edges[i] as number;
    const here = series.values.slice(from, to);
    const finite = here.filter((value) => value !== null);
    steps.push(series.steps[to - 1] as number);
    times.push(series.times[to - 1] as number);
    // A value that is not finite is the most striking of all: it leaves a gap.
    const whole = finite.length === here.length;
    values.push(whole ? finite.reduce((sum, value) => sum + value, 0) / finite.length : null);
    low.push(finite.length === 0 ? null : Math.min(...finite));
    high.push(finite.length === 0 ? null : Math.max(...finite));
  }
  return { ...series, ...{ steps, values, times, low, high } };
}
