/**
 * The report of a sweep: for each setting the mean of a metric's last values over its seeds, with the 95 % interval of that mean (Student's t), beside the runs
 * themselves. It depends on nothing but the runs' events, so a sweep that was killed reports what one that ran straight reports, to the byte.
 */
import { join } from "node:path";
import { grouped, mean } from "../core/numbers.ts";
import { loadEvents, readManifest, series } from "../run/index.ts";
import type { SweepRun } from "./sweep.ts";
import { type Column, textTable } from "./table.ts";

export type MeasuredRun = {
  readonly name: string;
  readonly seed: number;
  readonly status: string;
  readonly value?: number;
};
export type MeasuredSetting = {
  readonly setting: string;
  readonly mean?: number;
  /** Absent for a single seed. */
  readonly low?: number;
  readonly high?: number;
  readonly runs: readonly MeasuredRun[];
};
export type MeasuredSweep = { readonly settings: readonly MeasuredSetting[] };

export async function measureSweep(runs: readonly SweepRun[], folder: string, metric: string): Promise<MeasuredSweep> {
  const settings: MeasuredSetting[] = [];
  for (const [setting, members] of grouped(runs, (run) => run.setting)) {
    const measured: MeasuredRun[] = [];
    for (const { name, seed } of members) {
      const path = join(folder, name);
      const { manifest } = await readManifest(path);
      const value = manifest && series((await loadEvents(path)).events, metric).at(-1)?.value;
      measured.push({ name, seed, status: manifest?.status ?? "not started", ...(value !== undefined && { value }) });
    }
    // A run that is not done would be compared with others' ends.
    const values = measured.flatMap(({ status, value }) =>
      status === "finished" && value !== undefined ? [value] : [],
    );
    settings.push({ setting, ...meanInterval(values), runs: measured });
  }
  return { settings };
}

/** Two-sided 95 % quantiles of Student's t by degrees of freedom; beyond them the normal's. */
const T95 = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11,
  2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];

export function meanInterval(values: readonly number[]): Pick<MeasuredSetting, "mean" | "low" | "high"> {
  if (values.length === 0) return {};
  const centre = mean(values);
  const n = values.length;
  if (n === 1) return { mean: centre };
  const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (n - 1));
  const half = ((T95[n - 2] ?? 1.96) * deviation) / Math.sqrt(n);
  return { mean: centre, low: centre - half, high: centre + half };
}

const number = (value: number | undefined) => value?.toFixed(3) ?? "";
const interval = ({ low, high }: MeasuredSetting) => (low === undefined ? "" : `${number(low)} to ${number(high)}`);
const finished = ({ runs }: MeasuredSetting) => runs.filter(({ status }) => status === "finished").length;

function columnsOf(metric: string): (Column<MeasuredSetting> & { head: string })[] {
  return [
    { head: "setting", cell: ({ setting }) => setting, fixed: true, whole: true },
    { head: metric, cell: (row) => number(row.mean) || "–", right: true, fixed: true },
    { head: "95 % interval", cell: interval },
    { head: "runs", cell: (row) => `${finished(row)} of ${row.runs.length}`, right: true },
    { head: "each", cell: ({ runs }) => runs.map(({ value }) => number(value) || "–").join(" ") },
  ];
}

/** Best first. */
const ranked = ({ settings }: MeasuredSweep) =>
  [...settings].sort((a, b) => (b.mean ?? Number.NEGATIVE_INFINITY) - (a.mean ?? Number.NEGATIVE_INFINITY));

export function reportTable(metric: string, sweep: MeasuredSweep, width: number): string[] {
  const short = shorter(sweep.settings.map(({ setting }) => setting));
  const rows = ranked(sweep).map((row) => ({ ...row, setting: short.get(row.setting) ?? row.setting }));
  return textTable(columnsOf(metric), rows, width);
}

/** `optimizer.learningRate=0.001` → `learningRate=0.001`, where no other field ends like it. */
function shorter(settings: readonly string[]): ReadonlyMap<string, string> {
  const path = /(^| )([\w.]+)\.(\w+)=/g;
  const paths = new Set(
    settings.flatMap((setting) => [...setting.matchAll(/(?:^| )([\w.]+)=/g)].map(([, key = ""]) => key)),
  );
  const ends = [...paths].map((key) => key.split(".").at(-1));
  if (new Set(ends).size < ends.length) return new Map();
  return new Map(settings.map((setting) => [setting, setting.replaceAll(path, "$1$3=")]));
}

export function markdownReport(recipe: string, metric: string, sweep: MeasuredSweep): string {
  const columns = columnsOf(metric);
  const cell = (text: string) => text.replaceAll("|", "\\|");
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`;
  return [
    `# Sweep of ${recipe}`,
    "",
    `The last \`${metric}\` of each run; mean over seeds with its 95 % interval (Student's t). Best first; runs that have not finished are not counted.`,
    "",
    line(columns.map(({ head }) => head)),
    line(columns.map(({ right }) => (right ? "---:" : "---"))),
    ...ranked(sweep).map((row) => line(columns.map((column) => column.cell(row)))),
    "",
    line(["run", "seed", "status", metric]),
    line(["---", "---:", "---", "---:"]),
    ...sweep.settings.flatMap(({ runs }) =>
      runs.map(({ name, seed, status, value }) => line([name, String(seed), status, number(value)])),
    ),
    "",
  ].join("\n");
}
