/**
 * The rows of the training panel, of what is known of a run: a pure function, so that every size can be tested. No row is wider than the terminal, and together
 * they are fewer than it has, or the panel could not be redrawn: the frame takes the rows that are left, then curves go, alarms last.
 */
import type { Image } from "../core/index.ts";
import { rangeOf } from "../core/numbers.ts";
import { halfBlocks, shades } from "../images/index.ts";
import type { Phase } from "../train/index.ts";

export type PanelState = {
  readonly name: string;
  /** Updates of the warm start and steps of reinforcement learning: made, and in all. */
  readonly warm: readonly [done: number, total: number];
  readonly steps: readonly [done: number, total: number];
  readonly phase?: Phase;
  /** Milliseconds that the phase has taken so far, and those of the one like it before. */
  readonly phaseMs: number;
  readonly usualMs?: number;
  /** How much of the run's time is over. */
  readonly share: number;
  /** Milliseconds until the end of the run, where it can be told. */
  readonly leftMs?: number;
  readonly series: ReadonlyMap<string, readonly number[]>;
  /** Words about failed episodes and alarms, whole. */
  readonly warnings: readonly string[];
  readonly frame?: Image;
  /** What Ctrl-C came to, from the moment it was pressed. */
  readonly stopping?: string;
};

/** `rows`: of the terminal, default 24. */
export type PanelStyle = { readonly columns: number; readonly rows?: number; readonly color: boolean };

const BARS = "▁▂▃▄▅▆▇█";
const LABEL = 15;
const VALUE = 7;
const MAX_SPARK = 40;
const MAX_BAR = 24;
const FRAME_COLUMNS = 24;
/** Below this a frame shows nothing. */
const MIN_FRAME_ROWS = 4;

/** What is drawn as a curve, in this order, under the words that a plain line uses too. */
export const CURVES: readonly (readonly [label: string, metric: string])[] = [
  ["loss", "sft/nll"],
  ["success", "train/success"],
  ["reward", "train/reward"],
  ["entropy", "policy/entropy"],
  ["evaluation", "eval/success"],
  ["greedy", "eval/success_greedy"],
  ["sight gap", "sight/gap"],
];

export function panelRows(state: PanelState, { columns, rows: height = 24, color }: PanelStyle): string[] {
  const width = columns - 1;
  const [warmed, warmTotal] = state.warm;
  const [step, steps] = state.steps;
  const phase = phaseOf(state);
  // Evaluations are no steps: while one goes on, the run takes at least as long.
  const leftMs = state.leftMs === undefined ? undefined : Math.max(state.leftMs, phase?.leftMs ?? 0);
  const left = leftMs === undefined || state.share >= 1 ? "" : `  about ${duration(leftMs)} left`;
  const where = warmed < warmTotal ? `warm start ${warmed} of ${warmTotal}` : `step ${step} of ${steps}`;
  const bar = (label: string, share: number, note: string) => {
    const size = Math.max(4, Math.min(MAX_BAR, width - LABEL - note.length - 2));
    const filled = Math.round(Math.min(1, Math.max(0, share)) * size);
    return `${label.padEnd(LABEL)}${"█".repeat(filled)}${"░".repeat(size - filled)}  ${note}`;
  };
  const curves = CURVES.flatMap(([label, metric]) => {
    const values = state.series.get(metric);
    return values === undefined || values.length === 0 ? [] : [{ label, values, newest: short(values.at(-1)) }];
  });
  // Values are whole, so a long one takes its room from the curves.
  const figure = Math.max(VALUE, ...curves.map(({ newest }) => newest.length));
  const spark = Math.min(MAX_SPARK, width - LABEL - figure - 1);
  const rows = [
    `${state.name} · ${where}`,
    bar("run", state.share, `${Math.floor(100 * state.share)} %${left}`),
    ...(phase === undefined ? [] : [bar(phase.name, phase.share, phase.note)]),
    ...curves.map(
      ({ label, values, newest }) =>
        `${label.padEnd(LABEL)}${sparkline(values, spark).padEnd(spark)} ${newest.padStart(figure)}`,
    ),
    ...stepTimes(state.series),
  ].map((row) => row.slice(0, width));
  const red = (row: string) => (color ? `\x1b[31m${row}\x1b[0m` : row);
  const warnings = state.warnings.flatMap((words) => wrapText(`! ${words}`, width).map(red));
  const stopping = state.stopping === undefined ? [] : wrapText(state.stopping, width);
  const kept = rows.slice(0, Math.max(1, height - 1 - warnings.length - stopping.length));
  const panel = [...kept, ...warnings, ...stopping].slice(0, height - 1);
  const frame = state.frame ? frameRows(state.frame, height - 1 - panel.length, width, color) : [];
  return [...panel, ...frame];
}

/** A frame in at most so many rows; two of its pixels share a cell, so a cell is as high as it is wide twice. */
function frameRows(frame: Image, most: number, width: number, color: boolean): string[] {
  if (most < MIN_FRAME_ROWS) return [];
  const columns = Math.max(1, Math.min(FRAME_COLUMNS, width, Math.floor((2 * most * frame.width) / frame.height)));
  return (color ? halfBlocks(frame, { columns }) : shades(frame, columns)).split("\n").slice(0, most);
}

/** How far the phase is: counted, or by the time that the one before took. */
function phaseOf({
  phase,
  phaseMs,
  usualMs,
}: PanelState): { name: string; share: number; leftMs?: number; note: string } | undefined {
  if (phase === undefined) return undefined;
  const counted = phase.total > 1;
  // Groups are played side by side, so for a while none of them is over.
  const share =
    counted && phase.done > 0
      ? phase.done / phase.total
      : usualMs === undefined
        ? 0
        : Math.min(0.99, phaseMs / usualMs);
  const count = counted ? `${phase.done}/${phase.total}  ` : "";
  if (share === 0 || share >= 1) return { name: phase.name, share, note: `${count}${duration(phaseMs)}` };
  const leftMs = (phaseMs / share) * (1 - share);
  return { name: phase.name, share, leftMs, note: `${count}${duration(leftMs)} left` };
}

function stepTimes(series: PanelState["series"]): string[] {
  const last = (name: string) => series.get(name)?.at(-1);
  const step = last("time/step");
  if (step === undefined) return [];
  const parts = (
    [
      ["playing", "time/wait"],
      ["learning", "time/learn"],
    ] as const
  ).flatMap(([word, metric]) => {
    const value = last(metric) ?? 0;
    return value < 0.05 ? [] : [`${word} ${seconds(value)}`];
  });
  return [`${"step time".padEnd(LABEL)}${seconds(step)}${parts.length === 0 ? "" : ` (${parts.join(", ")})`}`];
}

const seconds = (value: number) => `${value < 10 ? value.toFixed(1) : value.toFixed(0)} s`;

/** `8 s`, `4 min`, `2 h 10 min`. */
export function duration(ms: number): string {
  const total = Math.max(0, Math.round(ms / 1000));
  if (total < 90) return `${total} s`;
  const minutes = Math.round(total / 60);
  if (minutes < 90) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** The course of a series in so many characters. */
export function sparkline(values: readonly number[], width: number): string {
  const finite = values.filter(Number.isFinite);
  const { min: low, max: high } = rangeOf(finite);
  const span = high - low || 1;
  const size = Math.max(1, Math.ceil(finite.length / width));
  const means: number[] = [];
  for (let i = 0; i < finite.length; i += size) {
    const part = finite.slice(i, i + size);
    means.push(part.reduce((sum, value) => sum + value, 0) / part.length);
  }
  return means.map((value) => BARS[Math.min(7, Math.floor(((value - low) / span) * 8))]).join("");
}

export function short(value: number | undefined): string {
  if (value === undefined) return "–";
  return Math.abs(value) >= 1000 ? value.toFixed(0) : Number(value.toPrecision(3)).toString();
}

/** A word, and what is said of it in a column of its own, whose lines are kept, and broken where they are wider than there is room. */
export function hanging(label: string, text: string, indent: number, width: number): string[] {
  const room = Math.max(16, width - indent);
  return text
    .split("\n")
    .flatMap((line) => (line.length <= room ? [line] : wrapText(line, room)))
    .map((line, i) => `${(i === 0 ? label : "").padEnd(indent)}${line}`.trimEnd());
}

/** Lines of at most `width` characters, broken between words; a longer word is cut. */
export function wrapText(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/).flatMap((word) => word.match(new RegExp(`.{1,${width}}`, "gu")) ?? [])) {
    const line = lines.at(-1);
    if (line === undefined || line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}
