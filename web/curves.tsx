/**
 * Curves as every page draws them: what the link says of smoothing, axis, logarithm, zoom, search and the chart on the whole screen; the
 * bar that sets it; and a chart of logged series that obeys. A zoom is a stretch of the axis, so a run that grows does not move it.
 */
import { useMemo } from "preact/hooks";
import type { Maybe, MetricInfo, RunClock, Series } from "../src/viewer/api.ts";
import { type Band, Chart, type Line, type Mark, type Zoom } from "./chart.tsx";
import { number, withUnit } from "./format.ts";
import { useKeys } from "./keys.tsx";
import { type Route, setQuery } from "./route.ts";
import { autoWeight, meanOf, smooth } from "./series.ts";

export const AXES = [
  ["rl", "RL step"],
  ["step", "Step"],
  ["episodes", "Episodes"],
  ["tokens", "Tokens"],
  ["time", "Time"],
] as const;
export type Axis = (typeof AXES)[number][0];

export type CurveView = {
  /** Undefined: as each chart needs it. */
  readonly weight: number | undefined;
  readonly axis: Axis;
  readonly log: boolean;
  readonly zoom: Zoom | undefined;
  /** The title of the chart that has the whole screen. */
  readonly full: string | undefined;
  readonly search: string;
};

const MOST = 0.99;
const clampWeight = (weight: number) => Math.min(MOST, Math.max(0, weight));

/** What the link says, and its keys. */
export function useCurveView({ query }: Route, usual: Axis): CurveView {
  const asked = query.get("smooth");
  const [from, to] = (query.get("zoom") ?? "").split("~").map(Number);
  const zoomed = from !== undefined && to !== undefined && from < to;
  const view: CurveView = {
    weight: asked === null ? undefined : clampWeight(Number(asked) || 0),
    axis: AXES.find(([name]) => name === query.get("x"))?.[0] ?? usual,
    log: query.get("log") === "y",
    zoom: zoomed ? [from, to] : undefined,
    full: query.get("full") ?? undefined,
    search: query.get("q") ?? "",
  };
  const turn = (by: number) => setQuery({ smooth: clampWeight((view.weight ?? 0) + by).toFixed(2) });
  useKeys("Curves", [
    { keys: ["+", "="], does: "smooth more", run: () => turn(0.1) },
    { keys: ["-"], does: "smooth less", run: () => turn(-0.1) },
    { keys: ["a"], does: "another axis", run: () => setAxis(nextAxis(view.axis)) },
    { keys: ["l"], does: "logarithmic or not", run: () => setQuery({ log: view.log ? undefined : "y" }) },
    { keys: ["z"], does: "the whole axis again", run: () => setQuery({ zoom: undefined }) },
    ...(view.full === undefined
      ? []
      : [{ keys: ["Escape"], does: "back from the whole screen", run: () => setQuery({ full: undefined }) }]),
  ]);
  return view;
}

/** A stretch of one axis is none of another. */
const setAxis = (x: Axis) => setQuery({ x, zoom: undefined });

function nextAxis(axis: Axis): Axis {
  const place = AXES.findIndex(([name]) => name === axis);
  return (AXES[(place + 1) % AXES.length] ?? AXES[0])[0];
}

export function CurveTools({ view }: { view: CurveView }) {
  return (
    <div class="curve-tools">
      <input
        type="search"
        placeholder="Search metrics"
        aria-label="Search metrics"
        value={view.search}
        onInput={(event) => setQuery({ q: event.currentTarget.value })}
      />
      <label class="slider">
        Smoothing
        <input
          type="range"
          min="0"
          max={MOST}
          step="0.01"
          value={view.weight ?? 0}
          aria-valuetext={view.weight === undefined ? "as each chart needs" : view.weight.toFixed(2)}
          onInput={(event) => setQuery({ smooth: event.currentTarget.value })}
        />
        <output>{view.weight === undefined ? "auto" : view.weight.toFixed(2)}</output>
      </label>
      <label class="inline">
        Axis
        <select value={view.axis} onChange={(event) => setAxis(event.currentTarget.value as Axis)}>
          {AXES.map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </label>
      <button
        type="button"
        aria-pressed={view.log}
        class={view.log ? "on" : ""}
        onClick={() => setQuery({ log: view.log ? undefined : "y" })}
      >
        log
      </button>
      {view.zoom !== undefined && (
        <button type="button" onClick={() => setQuery({ zoom: undefined })}>
          Whole axis
        </button>
      )}
    </div>
  );
}

/** How a place on an axis is said. */
export function sayerOf(axis: Axis): (x: number, short?: boolean) => string {
  const words = { rl: "RL step", step: "step" } as const;
  return (x, short = false) => {
    if (axis === "time") return withUnit(x, "s");
    if (short) return number(x);
    return axis === "rl" || axis === "step" ? `${words[axis]} ${number(x)}` : `${number(x)} ${axis}`;
  };
}

/** Where a series' points stand on an axis. */
export function placesOf(series: Series, clock: RunClock, axis: Axis): readonly number[] {
  switch (axis) {
    case "step":
      return series.steps;
    case "rl":
      return series.steps.map((step) => step - (clock.warm ?? 0));
    case "time":
      return series.times.map((time) => Math.max(0, Math.round((time - clock.began) / 1000)));
    default:
      return series.steps.map((step) => readOff(clock.steps, clock[axis], step));
  }
}

/** Between two points of the clock in proportion; before the first it is 0. */
function readOff(steps: readonly number[], values: readonly number[], step: number): number {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((steps[middle] as number) <= step) low = middle + 1;
    else high = middle;
  }
  const [before, after] = [values[low - 1] ?? 0, values[low]];
  const [from, to] = [steps[low - 1] ?? 0, steps[low]];
  if (after === undefined || to === undefined || low === 0) return before;
  return Math.round(before + ((after - before) * (step - from)) / (to - from));
}

export type Curve = {
  readonly label: string;
  readonly series: Series;
  readonly clock: RunClock;
  readonly colour: number;
};

type CurveChartProps = {
  readonly title: string;
  readonly info: MetricInfo | undefined;
  readonly curves: readonly Curve[];
  readonly view: CurveView;
  /** The ends of an interval around the first curve. */
  readonly interval?: readonly [Series, Series] | undefined;
  /** Curves of one number become their mean with its interval; in the order of `curves`. */
  readonly groups?: readonly { readonly group: number; readonly label: string; readonly colour: number }[];
  readonly marks?: readonly Mark[];
  readonly range?: readonly [number, number];
  /** Values of one small batch each: smoothed unless the link says otherwise. */
  readonly noisy?: boolean;
  readonly sync: string;
  readonly height?: number;
};

export function CurveChart(props: CurveChartProps) {
  const { title, info, curves, view, interval, groups, marks = [], range, noisy = false, sync, height } = props;
  const { axis, weight, log } = view;
  const { lines, bands } = useMemo(() => {
    const placed = curves.map((curve) => ({ ...curve, x: placesOf(curve.series, curve.clock, axis) }));
    if (groups !== undefined) return means(placed, groups, weight ?? 0, range);
    const edges = interval?.map((edge) => ({ x: placesOf(edge, curves[0]?.clock ?? NO_CLOCK, axis), y: edge.values }));
    return plain(placed, edges, weight, noisy);
  }, [curves, interval, JSON.stringify(groups), axis, weight, noisy]);
  const sayX = useMemo(() => sayerOf(axis), [axis]);
  return (
    <Chart
      title={title}
      {...(info && { meaning: info.meaning })}
      unit={info?.unit ?? "number"}
      lines={lines}
      bands={bands}
      marks={marks}
      {...(range && !log && { range })}
      log={log}
      sync={sync}
      sayX={sayX}
      zoom={view.zoom}
      onZoom={(zoom) => setQuery({ zoom: zoom && `${rounded(zoom[0])}~${rounded(zoom[1])}` })}
      full={view.full === title}
      onFull={(full) => setQuery({ full: full ? title : undefined })}
      {...(height !== undefined && { height })}
    />
  );
}

const NO_CLOCK: RunClock = { began: 0, steps: [], episodes: [], tokens: [] };
const rounded = (x: number) => Number(x.toPrecision(6));

type Placed = Curve & { readonly x: readonly number[] };
type Drawn = { readonly lines: Line[]; readonly bands: Band[] };

function plain(
  curves: readonly Placed[],
  [low, high]: readonly Pick<Line, "x" | "y">[] = [],
  asked: number | undefined = undefined,
  noisy = false,
): Drawn {
  const [lines, bands]: [Line[], Band[]] = [[], []];
  const line = ({ label, x, colour }: Placed, y: readonly Maybe[]): Line => ({ label, x, y, colour });
  for (const [i, curve] of curves.entries()) {
    const { values, low: lowest, high: highest, total } = curve.series;
    const weight = asked ?? (noisy ? autoWeight(total) : 0);
    const raw = line(curve, values);
    if (i === 0 && low !== undefined && high !== undefined) {
      bands.push({ low: { ...raw, ...low, label: "low" }, high: { ...raw, ...high, label: "high" } });
    } else if (curves.length === 1 && lowest !== undefined && highest !== undefined) {
      bands.push({ low: { ...raw, label: "lowest", y: lowest }, high: { ...raw, label: "highest", y: highest } });
    }
    if (weight === 0) lines.push(raw);
    // Many noisy curves over each other would be a block of colour.
    else if (curves.length > 2 && noisy) lines.push({ ...raw, y: smooth(values, weight) });
    // The caption tells what was logged.
    else {
      lines.push(
        { ...raw, faint: true },
        { ...raw, label: `${raw.label} smoothed`, y: smooth(values, weight), silent: true },
      );
    }
  }
  return { lines, bands };
}

function means(
  curves: readonly Placed[],
  groups: NonNullable<CurveChartProps["groups"]>,
  weight: number,
  range: readonly [number, number] | undefined,
): Drawn {
  const [lines, bands]: [Line[], Band[]] = [[], []];
  for (const group of new Set(groups.map((one) => one.group))) {
    const members = curves.filter((_, i) => groups[i]?.group === group);
    const named = groups.find((one) => one.group === group);
    if (members.length === 0 || named === undefined) continue;
    const { x, mean, low, high } = meanOf(
      members.map((member) => ({ x: member.x, y: smooth(member.series.values, weight) })),
      range,
    );
    const line: Line = { label: named.label, x, y: mean, colour: named.colour };
    lines.push(line);
    if (members.length > 1)
      bands.push({
        low: { ...line, label: `${named.label} low`, y: low },
        high: { ...line, label: `${named.label} high`, y: high },
      });
  }
  return { lines, bands };
}
