/** `saccade runs`: the runs in a folder as a table that fits the terminal, with the columns and the order that are asked for. Archived runs are left out unless `--all`. */
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { listRuns, type RunSummary, runSize } from "../run/index.ts";
import { isFolder, sizeOf } from "./common.ts";
import { duration, short } from "./panel.ts";
import { type Column, textTable } from "./table.ts";

export const RUNS_FOLDER = "runs";

type Row = RunSummary & { readonly bytes: number };
type Field = Column<Row> & {
  /** What it is sorted by; undefined goes last. */
  readonly by: (row: Row) => number | string | undefined;
  /** Small first; otherwise large first, as people look for the best. */
  readonly rising?: boolean;
};

const text = (head: string, cell: (row: Row) => string): Field => ({
  head,
  cell,
  by: (row) => cell(row) || undefined,
  rising: true,
});
const figure = (
  head: string,
  value: (row: Row) => number | undefined,
  print = (value: number) => value.toFixed(2),
): Field => ({
  head,
  by: value,
  cell: (row) => {
    const found = value(row);
    return found === undefined ? "" : print(found);
  },
  right: true,
});
const config = (row: Row) => row.manifest?.config ?? {};
/** Star first, so that marked runs catch the eye. */
const nameOf = ({ name, notes }: Row) => `${notes.star ? "* " : ""}${name}${notes.archived ? " (archived)" : ""}`;

const FIELDS = {
  name: { ...text("name", nameOf), by: ({ name }) => name, fixed: true },
  status: { ...text("status", ({ status }) => status), fixed: true },
  step: { ...figure("step", ({ step }) => step, String), fixed: true },
  success: figure("success", ({ metrics }) => metrics["eval/success"]),
  best: figure("best", ({ bestScore }) => bestScore),
  tags: text("tags", ({ notes }) => notes.tags.join(",")),
  duration: figure("duration", ({ workedMs }) => workedMs, duration),
  sight: figure("sight", ({ metrics }) => metrics["sight/gap"], short),
  size: figure("size", ({ bytes }) => bytes, megabytes),
  environment: text("environment", environments),
  model: text("model", modelName),
  note: text("note", ({ notes }) => notes.note),
  recipe: text("recipe", (row) => String(config(row).name ?? "")),
  greedy: figure("greedy", ({ metrics }) => metrics["eval/success_greedy"]),
  reward: figure("reward", ({ metrics }) => metrics["train/reward"], short),
  floor: figure("floor", ({ metrics }) => metrics["eval/floor"]),
  ceiling: figure("ceiling", ({ metrics }) => metrics["eval/ceiling"]),
  started: { ...text("started", ({ started = "" }) => started.slice(0, 16).replace("T", " ")), rising: false },
  updated: figure(
    "updated",
    ({ updated }) => updated,
    (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " "),
  ),
  path: text("path", ({ path }) => path),
} satisfies Record<string, Field>;

type FieldName = keyof typeof FIELDS;
const NAMES = Object.keys(FIELDS) as FieldName[];
const DEFAULT_COLUMNS: readonly FieldName[] = [
  "name",
  "status",
  "step",
  "success",
  "best",
  "tags",
  "duration",
  "sight",
  "size",
  "environment",
  "model",
  "note",
];

type Flags = { sort?: FieldName; columns?: FieldName[]; tag?: string; star?: boolean; all?: boolean; json?: boolean };

export function runsCommand(): Command {
  return new Command("runs")
    .description("list training runs")
    .argument("[folder]", "folder that contains the runs", RUNS_FOLDER)
    .option("--sort <column>", "sort by a column, best or newest first (default: updated)", fieldName)
    .option("--columns <names>", `columns to show, comma-separated: ${NAMES.join(", ")}`, (names) =>
      names.split(",").map((name) => fieldName(name.trim())),
    )
    .option("--tag <tag>", "show only runs with this tag")
    .option("--star", "show only runs with a star")
    .option("--all", "show archived runs, too")
    .option("--json", "print JSON")
    .addHelpText("after", "\nMark runs with: saccade run star, tag, note, archive, delete")
    .action(runRuns);
}

async function runRuns(folder: string, flags: Flags): Promise<void> {
  // The default may be missing; a folder that somebody named may not.
  if (folder !== RUNS_FOLDER && !isFolder(folder)) {
    throw new ConfigError(`There is no folder ${folder}; name the folder that your runs are in.`);
  }
  const every = await listRuns(folder);
  const wanted = every.filter(
    ({ notes }) =>
      (flags.all || !notes.archived) &&
      (flags.tag === undefined || notes.tags.includes(flags.tag)) &&
      (!flags.star || notes.star),
  );
  const columns = flags.columns ?? DEFAULT_COLUMNS;
  const needsSize = flags.json || columns.includes("size") || flags.sort === "size";
  const rows: Row[] = [];
  for (const run of wanted) rows.push({ ...run, bytes: needsSize ? await runSize(run.path) : 0 });
  if (flags.sort !== undefined) sortBy(rows, FIELDS[flags.sort]);
  if (flags.json) {
    process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
    return;
  }
  if (every.length === 0) {
    process.stdout.write(`There are no runs in ${folder}; start one with: saccade train quickstart\n`);
    return;
  }
  // A pipe has no width, so nothing is left out.
  const width = process.stdout.isTTY ? sizeOf(process.stdout).columns - 1 : Number.MAX_SAFE_INTEGER;
  const shown = columns.map((name) => ({ ...FIELDS[name], ...(flags.columns && { fixed: true }) }));
  const table = rows.length === 0 ? [] : textTable<Row>(shown, rows, width);
  const hidden = every.length - rows.length;
  process.stdout.write(
    [...table, ...(hidden > 0 ? [`${hidden} more: not asked for, or archived (--all)`] : []), ""].join("\n"),
  );
}

/** Stable, so what is equal stays newest first. */
export function sortBy(rows: Row[], { by, rising }: Field): void {
  rows.sort((a, b) => {
    const [x, y] = [by(a), by(b)];
    if (x === undefined || y === undefined) return Number(x === undefined) - Number(y === undefined);
    const order = x < y ? -1 : x > y ? 1 : 0;
    return rising ? order : -order;
  });
}

function fieldName(name: string): FieldName {
  const found = NAMES.find((field) => field === name);
  if (found === undefined) throw new ConfigError(`There is no column "${name}"; there are ${NAMES.join(", ")}.`);
  return found;
}

function environments(row: Row): string {
  const { envs } = config(row);
  if (!Array.isArray(envs)) return "";
  return envs
    .map((entry) => (typeof entry === "object" && entry !== null && "env" in entry ? String(entry.env) : ""))
    .filter(Boolean)
    .join(", ");
}

function modelName(row: Row): string {
  const { model } = config(row);
  if (typeof model === "string") return model.split(/[/\\]/).filter(Boolean).slice(-2).join("/");
  return typeof model === "object" && model !== null && "preset" in model ? String(model.preset) : "";
}

function megabytes(bytes: number): string {
  const mb = bytes / 1e6;
  return mb < 1000 ? `${mb < 10 ? mb.toFixed(1) : mb.toFixed(0)} MB` : `${(mb / 1000).toFixed(1)} GB`;
}
