/** docs/reference/metrics.md, from the table of metrics that every part of Saccade logs by. */
import { METRICS, type MetricGroup } from "../../src/run/index.ts";
import { MADE, page, table } from "./page.ts";

const GROUPS: Readonly<Record<MetricGroup, string>> = {
  learning: "Learning",
  evaluation: "Evaluation",
  stability: "Stability",
  performance: "Performance",
};

export function metricsPage(): string {
  const groups = Object.keys(GROUPS) as MetricGroup[];
  return page(
    MADE,
    "# Metrics",
    "A run logs these metrics to `events.jsonl`. The terminal, reports and the viewer use the same names. A name that ends in `/*` is a family: one metric for each environment, reason or turn. Log your own metrics as `custom/…`; other unknown names are refused.",
    'Units: `share` is from 0 to 1, `nats` are units of log-probability. "Better" says which direction is good, where there is one.',
    ...groups.flatMap((group) => [`## ${GROUPS[group]}`, groupTable(group)]),
  );
}

function groupTable(group: MetricGroup): string {
  const rows = METRICS.filter((metric) => metric.group === group);
  return table(
    ["metric", "unit", "better", "meaning"],
    rows.map(({ name, unit, better, meaning }) => [`\`${name}\``, unit, better ?? "", meaning]),
  );
}
