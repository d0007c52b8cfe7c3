/**
 * One chart: curves drawn by uPlot, with the value under the cursor in the caption, horizontal marks (floor, random, ceiling, zero) and
 * shaded intervals. Charts with the same `sync` share their cursor. Colours come from the style sheet. New data goes into the plot that is
 * there, so that zoom and cursor stay; a chart out of sight waits until it is seen. Takes itself away as CSV or PNG.
 */
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Maybe, MetricInfo } from "../src/viewer/api.ts";
import { csvOf, download, fileName, pngOf } from "./download.ts";
import { isNumber, withUnit } from "./format.ts";
import { freest } from "./marks.ts";
import { DarkContext } from "./use.ts";

export type Line = {
  readonly label: string;
  readonly x: readonly number[];
  readonly y: readonly Maybe[];
  /** From 1; the palette of the style sheet has six, then they come again, dashed. */
  readonly colour: number;
  readonly faint?: boolean;
  /** Not in the caption. */
  readonly silent?: boolean;
};
/** Shaded between two lines. */
export type Band = { readonly low: Line; readonly high: Line };
export type Mark = { readonly label: string; readonly value: number };
export type Zoom = readonly [from: number, to: number];

export type ChartProps = {
  readonly title: string;
  readonly meaning?: string;
  readonly unit: MetricInfo["unit"];
  readonly lines: readonly Line[];
  readonly bands?: readonly Band[];
  readonly marks?: readonly Mark[];
  /** Fixed ends of the y axis. */
  readonly range?: readonly [number, number];
  readonly log?: boolean;
  readonly sync?: string;
  readonly height?: number;
  /** How a place on the x axis is said, under the cursor and (shorter) at the axis. */
  readonly sayX?: (x: number, short?: boolean) => string;
  /** The part of the x axis that is shown, and what to do when another is dragged over. */
  readonly zoom?: Zoom | undefined;
  readonly onZoom?: (zoom: Zoom | undefined) => void;
  readonly full?: boolean;
  readonly onFull?: (full: boolean) => void;
};

const NO_BANDS: readonly Band[] = [];
const NO_MARKS: readonly Mark[] = [];
const PALETTE = 6;
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]] as const;

const paletteOf = (colour: number) => ((colour - 1) % PALETTE) + 1;
const dashOf = (colour: number) => Math.floor((colour - 1) / PALETTE) % DASHES.length;

/** What makes an element's mark look like the line of a series. */
export function markOf(colour: number): { class: string; style: { "--series": string } } {
  return { class: `dash${dashOf(colour)}`, style: { "--series": `var(--s${paletteOf(colour)})` } };
}

export function Chart(props: ChartProps) {
  const { title, meaning, unit, lines, bands = NO_BANDS, marks = NO_MARKS, range, log = false, sync } = props;
  const { sayX = sayStep, zoom, onZoom, full = false, onFull } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const drawn = useRef<{ data: uPlot.AlignedData; zoom?: Zoom | undefined } | undefined>(undefined);
  const [at, setAt] = useState<number | undefined>(undefined);
  const dark = useContext(DarkContext);
  const all = useMemo(() => [...bands.flatMap(({ low, high }) => [low, high]), ...lines], [lines, bands]);
  const data = useMemo(() => align(all, log), [all, log]);
  const height = full ? Math.max(200, innerHeight - 150) : (props.height ?? 168);
  // What the plot asks for while it lives.
  const now = useRef({ zoom, onZoom, data, marks });
  now.current = { zoom, onZoom, data, marks };
  const shape = JSON.stringify([
    all.map(({ label, colour, faint }) => [label, colour, faint]),
    bands.length,
    (data[0]?.length ?? 0) < FEW,
    range,
    log,
    sync,
    unit,
    sayX(1, true),
  ]);

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const edges = bands.length * 2;
    const options: uPlot.Options = {
      width: element.clientWidth,
      height,
      // Half of the last step's label stands to the right of its place.
      padding: [8, 22, 0, 0],
      legend: { show: false },
      cursor: {
        points: { size: 6 },
        drag: { x: true, y: false, setScale: false },
        bind: {
          dblclick: () => () => {
            now.current.onZoom?.(undefined);
            return null;
          },
        },
        ...(sync && { sync: { key: sync, setSeries: false } }),
      },
      scales: {
        x: { time: false, range: (_, low, high) => xRange(now.current.zoom, low, high) },
        y: log
          ? { distr: 3 }
          : { range: (_, low, high) => yRange(low, high, range, range === undefined ? now.current.marks : []) },
      },
      axes: axes(unit, sayX),
      series: [{}, ...all.map((line, i) => seriesOf(line, i < edges, now.current.data))],
      bands: bands.map(({ low }, i) => ({
        series: [i * 2 + 2, i * 2 + 1],
        fill: `${colour(`--s${paletteOf(low.colour)}`)}22`,
      })),
      hooks: {
        // Before the curves, so that no name covers one.
        drawAxes: [(one) => drawMarks(one, now.current.marks, unit)],
        setCursor: [({ cursor }) => setAt(cursor.idx ?? undefined)],
        setSelect: [
          (one) => {
            const { left, width } = one.select;
            // Of charts that share a cursor only the one under the pointer says so.
            if (width < 4 || !element.matches(":hover")) return;
            now.current.onZoom?.([one.posToVal(left, "x"), one.posToVal(left + width, "x")]);
            one.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
      },
    };
    const made = new uPlot(options, now.current.data, element);
    plot.current = made;
    drawn.current = now.current;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [shape, dark, height]);

  useEffect(() => {
    const element = box.current;
    if (element === null || drawn.current === now.current) return;
    const draw = () => {
      plot.current?.setData(now.current.data);
      drawn.current = now.current;
    };
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      seen.disconnect();
      draw();
    });
    seen.observe(element);
    return () => seen.disconnect();
  }, [data, zoom?.[0], zoom?.[1], JSON.stringify(marks)]);

  const shown = all.flatMap((line, i) =>
    line.silent || i < bands.length * 2 ? [] : [{ line, row: data[i + 1] ?? [] }],
  );
  const x = at === undefined ? undefined : data[0]?.[at];
  const csv = () => download(new Blob([csvOf(sayX, all, data)], { type: "text/csv" }), fileName(title, "csv"));
  const png = async () => {
    const legend = shown.map(({ line }) => ({ label: line.label, colour: colour(`--s${paletteOf(line.colour)}`) }));
    const canvas = box.current?.querySelector("canvas");
    if (canvas) download(await pngOf(canvas, title, legend, colour), fileName(title, "png"));
  };
  return (
    <figure class={full ? "chart full" : "chart"}>
      <figcaption>
        <h3 title={meaning}>{title}</h3>
        <span class="x">{x === undefined ? "" : sayX(x)}</span>
        <span class="chart-tools">
          {onFull !== undefined && (
            <button
              type="button"
              class="quiet"
              aria-label={full ? `Close ${title}` : `${title} on the whole screen`}
              title={full ? "Back (esc)" : "Whole screen"}
              onClick={() => onFull(!full)}
            >
              {full ? "✕" : "⤢"}
            </button>
          )}
          <button type="button" class="quiet" aria-label={`${title} as CSV`} title="Download as CSV" onClick={csv}>
            csv
          </button>
          <button type="button" class="quiet" aria-label={`${title} as PNG`} title="Download as PNG" onClick={png}>
            png
          </button>
        </span>
        <ul>
          {shown.map(({ line, row }) => (
            <li key={line.label} {...markOf(line.colour)}>
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

const FEW = 24;
/** 1, 2, 5, 10, … */
const WHOLE = Array.from({ length: 16 }, (_, i) => [1, 2, 5].map((digit) => digit * 10 ** i)).flat();
const sayStep = (x: number, short = false) => (short ? withUnit(x, "number") : `step ${x}`);

function seriesOf(line: Line, edge: boolean, data: uPlot.AlignedData): uPlot.Series {
  const stroke = colour(`--s${paletteOf(line.colour)}`);
  const few = (data[0]?.length ?? 0) < FEW && !line.faint;
  return {
    label: line.label,
    stroke: line.faint ? `${stroke}40` : stroke,
    width: edge ? 0 : line.faint ? 1 : 1.75,
    dash: [...(DASHES[dashOf(line.colour)] ?? [])],
    spanGaps: true,
    points: edge ? { show: false } : { show: few, size: 4, fill: stroke },
  };
}

/** Every x that any line has, and each line's y there or null. */
function align(lines: readonly Line[], positive: boolean): [number[], ...(number | null)[][]] {
  const xs = [...new Set(lines.flatMap((line) => [...line.x]))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, i) => [x, i]));
  const rows = lines.map((line) => {
    const row: (number | null)[] = xs.map(() => null);
    line.x.forEach((x, i) => {
      const value = line.y[i];
      // A logarithm has no place for zero.
      if (isNumber(value) && (!positive || value > 0)) row[place.get(x) as number] = value;
    });
    return row;
  });
  return [xs, ...rows];
}

function xRange(zoom: Zoom | undefined, low: number | null, high: number | null): [number, number] {
  if (zoom !== undefined) return [zoom[0], zoom[1]];
  const [from, to] = [low ?? 0, high ?? 1];
  return from === to ? [from - 0.5, to + 0.5] : [from, to];
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

function axes(unit: MetricInfo["unit"], sayX: NonNullable<ChartProps["sayX"]>): uPlot.Axis[] {
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
      // Steps, episodes, tokens and seconds are whole.
      incrs: WHOLE,
      values: (_, ticks) => ticks.map((x) => sayX(x, true)),
    },
    {
      ...base,
      size: 52,
      gap: 6,
      space: 34,
      // A logarithmic axis leaves some ticks without a word.
      values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : withUnit(tick, plain))),
    },
  ];
}

function drawMarks(plot: uPlot, marks: readonly Mark[], unit: MetricInfo["unit"]): void {
  if (marks.length === 0) return;
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = colour("--ink-2");
  ctx.fillStyle = colour("--ink-2");
  ctx.lineWidth = ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.font = `${10 * ratio}px ${FONT}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.lineJoin = "round";
  const named: { y: number; left: boolean; width: number }[] = [];
  const curves = curvesOf(plot);
  for (const { label, value } of marks) {
    const y = Math.round(plot.valToPos(value, "y", true));
    if (y < bbox.top - 1 || y > bbox.top + bbox.height + 1) continue;
    ctx.globalAlpha = 0.55;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.globalAlpha = 1;
    if (label === "") continue;
    const text = `${label} ${withUnit(value, unit)}`;
    const { width } = ctx.measureText(text);
    // Curves of a run that learns go from low left to high right: high marks are named on the left, low ones on the right.
    const usual = value > ((plot.scales.y?.min ?? 0) + (plot.scales.y?.max ?? 1)) / 2;
    const places = [y - 3 * ratio, y + 11 * ratio]
      .filter((baseline) => baseline > bbox.top + 10 * ratio && baseline < bbox.top + bbox.height)
      .flatMap((baseline) =>
        [usual, !usual].map((left) => {
          // Names at almost the same height stand next to each other.
          const beside = named
            .filter((one) => one.left === left && Math.abs(one.y - baseline) < 11 * ratio)
            .reduce((sum, one) => sum + one.width + 8 * ratio, 0);
          const start = left ? bbox.left + 4 * ratio + beside : bbox.left + bbox.width - 2 * ratio - beside - width;
          return {
            left,
            baseline,
            start,
            box: { left: start, right: start + width, top: baseline - 9 * ratio, bottom: baseline + 2 * ratio },
          };
        }),
      );
    const place = freest(places, curves);
    if (place === undefined) continue;
    named.push({ y: place.baseline, left: place.left, width });
    // A rim in the panel's colour keeps lines out of the words.
    ctx.save();
    ctx.setLineDash([]);
    ctx.strokeStyle = colour("--panel");
    ctx.lineWidth = 4 * ratio;
    ctx.strokeText(text, place.start, place.baseline);
    ctx.restore();
    ctx.fillText(text, place.start, place.baseline);
  }
  ctx.restore();
}

/** What is drawn, in pixels of the canvas. */
function curvesOf(plot: uPlot): [number, number][][] {
  const [xs, ...rows] = plot.data;
  return rows.map((row) =>
    [...row].flatMap((value, i): [number, number][] =>
      isNumber(value) ? [[plot.valToPos(xs?.[i] ?? 0, "x", true), plot.valToPos(value, "y", true)]] : [],
    ),
  );
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
