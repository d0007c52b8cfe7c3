/**
 * One chart: curves over steps (or time) drawn by uPlot, with the value under the cursor in the caption, horizontal marks (floor, random,
 * ceiling, zero) and a shaded interval. Charts with the same `sync` share their cursor. Colours come from the style sheet.
 */
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Maybe, MetricInfo } from "../src/viewer/api.ts";
import { isNumber, withUnit } from "./format.ts";
import { DarkContext } from "./use.ts";

export type Line = {
  readonly label: string;
  readonly x: readonly number[];
  readonly y: readonly Maybe[];
  /** 1 to 6, the palette of the style sheet. */
  readonly colour: number;
  readonly faint?: boolean;
  /** Not in the caption. */
  readonly silent?: boolean;
};
export type Mark = { readonly label: string; readonly value: number };

export type ChartProps = {
  readonly title: string;
  readonly meaning?: string;
  readonly unit: MetricInfo["unit"];
  readonly lines: readonly Line[];
  /** Shaded between these two. */
  readonly interval?: { readonly low: Line; readonly high: Line };
  readonly marks?: readonly Mark[];
  /** Fixed ends of the y axis. */
  readonly range?: readonly [number, number];
  readonly sync?: string;
  readonly height?: number;
  /** The x axis is milliseconds since the start instead of steps. */
  readonly clock?: boolean;
};

export function Chart(props: ChartProps) {
  const { title, meaning, unit, lines, interval, marks = [], range, sync, height = 168, clock = false } = props;
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | undefined>(undefined);
  const dark = useContext(DarkContext);
  const all = useMemo(() => (interval ? [interval.low, interval.high, ...lines] : lines), [lines, interval]);
  const data = useMemo(() => align(all), [all]);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const shade = interval ? 1 : 0;
    const options: uPlot.Options = {
      width: element.clientWidth,
      height,
      // Half of the last step's label stands to the right of its place.
      padding: [8, 22, 0, 0],
      legend: { show: false },
      cursor: {
        points: { size: 6 },
        drag: { x: true, y: false },
        ...(sync && { sync: { key: sync, setSeries: false } }),
      },
      scales: { x: { time: false }, y: { range: (_, low, high) => yRange(low, high, range, marks) } },
      axes: axes(unit, clock),
      series: [{}, ...all.map((line, i) => seriesOf(line, i < shade * 2, data))],
      ...(interval && { bands: [{ series: [2, 1], fill: `${colour(`--s${lines[0]?.colour ?? 1}`)}22` }] }),
      hooks: {
        draw: [(plot) => drawMarks(plot, marks, unit)],
        setCursor: [({ cursor }) => setAt(cursor.idx ?? undefined)],
      },
    };
    const plot = new uPlot(options, data, element);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [data, dark, height, sync, clock, JSON.stringify(marks), JSON.stringify(range)]);

  const shown = all.flatMap((line, i) =>
    line.silent || (interval && i < 2) ? [] : [{ line, row: data[i + 1] ?? [] }],
  );
  const x = at === undefined ? undefined : data[0]?.[at];
  return (
    <figure class="chart">
      <figcaption>
        <h3 title={meaning}>{title}</h3>
        <span class="x">{x === undefined ? "" : clock ? `${withUnit(x, "s")}` : `step ${x}`}</span>
        <ul>
          {shown.map(({ line, row }) => (
            <li key={line.label} class={`s${line.colour}`}>
              {shown.length > 1 && <i aria-hidden="true" />}
              {shown.length > 1 && <span>{line.label}</span>}
              <b>{withUnit(at === undefined ? lastOf(row) : near(row, at), unit)}</b>
            </li>
          ))}
        </ul>
      </figcaption>
      <div
        ref={box}
        class="plot"
        role="img"
        aria-label={describe(title, shown, unit)}
        style={{ height: `${height}px` }}
      />
    </figure>
  );
}

function seriesOf(line: Line, edge: boolean, data: uPlot.AlignedData): uPlot.Series {
  const stroke = colour(`--s${line.colour}`);
  const few = (data[0]?.length ?? 0) < 24 && !line.faint;
  return {
    label: line.label,
    stroke: line.faint ? `${stroke}40` : stroke,
    width: edge ? 0 : line.faint ? 1 : 1.75,
    spanGaps: true,
    points: edge ? { show: false } : { show: few, size: 4, fill: stroke },
  };
}

/** Every x that any line has, and each line's y there or null. */
function align(lines: readonly Line[]): [number[], ...(number | null)[][]] {
  const xs = [...new Set(lines.flatMap((line) => [...line.x]))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, i) => [x, i]));
  const rows = lines.map((line) => {
    const row: (number | null)[] = xs.map(() => null);
    line.x.forEach((x, i) => {
      const value = line.y[i];
      if (isNumber(value)) row[place.get(x) as number] = value;
    });
    return row;
  });
  return [xs, ...rows];
}

function yRange(
  low: number | null,
  high: number | null,
  fixed: ChartProps["range"],
  marks: readonly Mark[],
): [number, number] {
  if (fixed) return [fixed[0], fixed[1]];
  const values = marks.map(({ value }) => value);
  const [bottom, top] = [Math.min(low ?? 0, ...values), Math.max(high ?? 1, ...values)];
  const room = (top - bottom || Math.abs(top) || 1) * 0.08;
  // A quantity that is never negative keeps zero as its floor when it comes near.
  return [bottom >= 0 && bottom < top * 0.5 ? 0 : bottom - room, top + room];
}

function axes(unit: MetricInfo["unit"], clock: boolean): uPlot.Axis[] {
  const base: uPlot.Axis = {
    stroke: colour("--ink-2"),
    font: `11px ${FONT}`,
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const plain = unit === "nats" ? "number" : unit;
  return [
    {
      ...base,
      size: 26,
      gap: 4,
      grid: { show: false },
      space: 60,
      ...(clock && { values: (_, ticks) => ticks.map((s) => withUnit(s, "s")) }),
    },
    { ...base, size: 52, gap: 6, space: 34, values: (_, ticks) => ticks.map((tick) => withUnit(tick, plain)) },
  ];
}

function drawMarks(plot: uPlot, marks: readonly Mark[], unit: MetricInfo["unit"]): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = colour("--ink-2");
  ctx.fillStyle = colour("--ink-2");
  ctx.lineWidth = ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.font = `${10 * ratio}px ${FONT}`;
  for (const { label, value } of marks) {
    const y = Math.round(plot.valToPos(value, "y", true));
    if (y < bbox.top - 1 || y > bbox.top + bbox.height + 1) continue;
    ctx.globalAlpha = 0.55;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.globalAlpha = 1;
    // Curves of a run that learns go from low left to high right: high marks are named on the left, low ones on the right.
    const left = value > ((plot.scales.y?.min ?? 0) + (plot.scales.y?.max ?? 1)) / 2;
    ctx.textAlign = left ? "left" : "right";
    // Above the line, or below it where there is no room above.
    const above = y - 3 * ratio > bbox.top + 10 * ratio;
    const text = label === "" ? "" : `${label} ${withUnit(value, unit)}`;
    ctx.fillText(
      text,
      left ? bbox.left + 4 * ratio : bbox.left + bbox.width - 2 * ratio,
      above ? y - 3 * ratio : y + 11 * ratio,
    );
  }
  ctx.restore();
}

type Row = readonly (number | null | undefined)[];

function lastOf(row: Row): number | undefined {
  return row.findLast(isNumber) ?? undefined;
}

/** The value at a place, or the last one before it. */
function near(row: Row, at: number): number | undefined {
  return lastOf(row.slice(0, at + 1));
}

function describe(title: string, shown: readonly { line: Line; row: Row }[], unit: MetricInfo["unit"]): string {
  return `${title}: ${shown.map(({ line, row }) => `${line.label} ${withUnit(lastOf(row), unit)}`).join(", ")}`;
}

/** A colour of the style sheet as the canvas wants it. `light-dark()` is resolved only on an element. */
function colour(name: string): string {
  probe ??= document.body.appendChild(Object.assign(document.createElement("i"), { hidden: true }));
  probe.style.color = `var(${name})`;
  const parts =
    getComputedStyle(probe)
      .color.match(/[\d.]+/g)
      ?.slice(0, 3) ?? [];
  return `#${parts.map((part) => Math.round(Number(part)).toString(16).padStart(2, "0")).join("")}`;
}
let probe: HTMLElement | undefined;

const FONT = '-apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';
