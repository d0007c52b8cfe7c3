/** The metrics of a run as one table, a row for each event that has some: for spreadsheets (CSV) and data frames (Parquet). */
import type { Metrics, RunEvent } from "../events.ts";

export type MetricTable = {
  /** Names of the metrics, sorted. */
  readonly names: readonly string[];
  readonly rows: readonly {
    readonly step: number;
    readonly time: number;
    readonly kind: string;
    readonly metrics: Metrics;
  }[];
};

export function metricTable(events: readonly RunEvent[]): MetricTable {
  const rows = events.filter(({ metrics }) => Object.keys(metrics).length > 0);
  return { names: [...new Set(rows.flatMap(({ metrics }) => Object.keys(metrics)))].sort(), rows };
}

/** An empty cell: the event does not have that metric. Names of environments may hold commas and quotes. */
export function toCsv({ names, rows }: MetricTable): string {
  const cell = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const head = ["step", "time", "kind", ...names].map(cell);
  const lines = rows.map(({ step, time, kind, metrics }) => [
    step,
    new Date(time).toISOString(),
    kind,
    ...names.map((name) => metrics[name] ?? ""),
  ]);
  return [head, ...lines].map((cells) => `${cells.join(",")}\n`).join("");
}

export async function toParquet({ names, rows }: MetricTable): Promise<Uint8Array> {
  const { parquetWriteBuffer } = await import("hyparquet-writer");
  const columnData = [
    { name: "step", data: rows.map(({ step }) => step), type: "INT32" as const },
    { name: "time", data: rows.map(({ time }) => new Date(time)), type: "TIMESTAMP" as const },
    { name: "kind", data: rows.map(({ kind }) => kind), type: "STRING" as const },
    ...names.map((name) => ({
      name,
      data: rows.map(({ metrics }) => metrics[name] ?? null),
      type: "DOUBLE" as const,
      nullable: true,
    })),
  ];
  return new Uint8Array(parquetWriteBuffer({ columnData }));
}
