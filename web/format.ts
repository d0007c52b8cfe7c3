/** Numbers, times and names as people read them. */
import type { Maybe, MetricInfo, RunListItem, TrajectoryRow } from "../src/viewer/api.ts";

export function percent(share: Maybe | undefined, digits = 0): string {
  return isNumber(share) ? `${(share * 100).toFixed(digits)} %` : "–";
}

/** About three digits, whatever the size. */
export function number(value: Maybe | undefined): string {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${short(value / 1e9)} G`;
  if (size >= 1e6) return `${short(value / 1e6)} M`;
  if (size >= 10_000) return `${short(value / 1e3)} k`;
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return short(value);
}

export function withUnit(value: Maybe | undefined, unit: MetricInfo["unit"]): string {
  if (!isNumber(value)) return "–";
  switch (unit) {
    case "share":
      return Math.abs(value) < 0.1 ? `${Number((value * 100).toFixed(1))} %` : percent(value);
    case "s":
      return duration(value * 1000);
    case "bytes":
      return bytes(value);
    case "per s":
      return `${number(value)}/s`;
    case "nats":
      return `${number(value)} nats`;
    default:
      return number(value);
  }
}

export function signed(value: Maybe | undefined): string {
  return isNumber(value) ? `${value > 0 ? "+" : ""}${number(value)}` : "–";
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${short(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

export function bytes(count: number): string {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${short(count / 1024 ** power)} ${["B", "KB", "MB", "GB", "TB"][power]}`;
}

export function ago(time: number, now = Date.now()): string {
  const seconds = Math.max(0, (now - time) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 86_400 * 14) return `${Math.floor(seconds / 86_400)} d ago`;
  return new Date(time).toISOString().slice(0, 10);
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

export const STATUS_WORDS: Readonly<Record<RunListItem["status"], string>> = {
  running: "running",
  finished: "finished",
  stopped: "stopped",
  failed: "failed",
  interrupted: "interrupted",
};

export function splitWord(split: TrajectoryRow["split"]): string {
  return { train: "training", eval: "evaluation", sight: "sight probe" }[split];
}

export function temperatureWord(temperature: number): string {
  return temperature === 0 ? "greedy" : `temperature ${temperature}`;
}

export function isNumber(value: Maybe | undefined): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function short(value: number): string {
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  const text = value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
