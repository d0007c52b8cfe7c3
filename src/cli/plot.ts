/** `saccade run plot`: curves of runs as a PNG, for reports and reviews; `saccade view` shows the same in a browser. */
import { writeFile } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { type Curve, drawChart, encodePng, type Level } from "../images/index.ts";
import { isRun, loadEvents, type RunEvent, series } from "../run/index.ts";

const DEFAULT_METRICS = "eval/success,eval/success_greedy";
/** Level lines, where a run has them. */
const LEVELS = ["eval/floor", "eval/random", "eval/ceiling"];

export function plotCommand(): Command {
  return new Command("plot")
    .description("draw curves of runs as a PNG")
    .argument("<runs...>", "run folders")
    .option("--metrics <names>", "metrics to draw, comma-separated", DEFAULT_METRICS)
    .option("--title <text>", "title of the chart (default: the runs' names)")
    .option("--out <file>", "PNG file to write", "curve.png")
    .action(async (folders: string[], flags: { metrics: string; title?: string; out: string }) => {
      const names = flags.metrics.split(",").map((name) => name.trim());
      const curves: Curve[] = [];
      const levels = new Map<string, Level>();
      for (const folder of folders) {
        if (!(await isRun(folder)))
          throw new ConfigError(`${folder} is not a run folder; saccade runs lists your runs.`);
        const { events } = await loadEvents(folder);
        const found = names
          .map((name) => ({ name, points: pointsOf(events, name) }))
          .filter(({ points }) => points.length > 0);
        if (found.length === 0)
          throw new ConfigError(`${folder} has no ${names.join(" or ")}. It has: ${metricsOf(events)}.`);
        const prefix = folders.length > 1 ? `${basename(resolve(folder))} ` : "";
        curves.push(...found.map(({ name, points }) => ({ name: prefix + name, points })));
        for (const name of LEVELS) {
          const value = series(events, name).at(-1)?.value;
          if (value !== undefined && names.some((metric) => metric.startsWith("eval/success"))) {
            levels.set(name, { name: name.replace("eval/", ""), y: value });
          }
        }
      }
      const title = flags.title ?? folders.map((folder) => basename(resolve(folder))).join(", ");
      await writeFile(flags.out, encodePng(drawChart({ title, curves, levels: [...levels.values()] })));
      process.stdout.write(`${flags.out}\n`);
    });
}

function pointsOf(events: readonly RunEvent[], name: string): [number, number][] {
  return series(events, name).map(({ step, value }) => [step, value]);
}

function metricsOf(events: readonly RunEvent[]): string {
  const names = new Set(events.flatMap(({ metrics }) => Object.keys(metrics)));
  return names.size === 0 ? "nothing yet" : [...names].sort().join(", ");
}
