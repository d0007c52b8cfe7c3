/** From events to what the pages draw: curves of metrics, and the probes of sight. */
import type { RunEvent } from "../run/events.ts";
import { METRICS, type MetricInfo, metricInfo } from "../run/metrics.ts";
import type { RunClock, Series, SightProbe } from "./api.ts";

/** Every metric that was logged: a value per step, the last one written where a step has several. In the order they are shown in. */
export function curvesOf(events: readonly RunEvent[]): Map<string, Series> {
  const points = new Map<string, Map<number, { value: number; time: number }>>();
  for (const { step, time, metrics } of events) {
    for (const name in metrics) {
      const curve = points.get(name) ?? new Map<number, { value: number; time: number }>();
      if (curve.size === 0) points.set(name, curve);
      curve.set(step, { value: metrics[name] as number, time });
    }
  }
  const order = new Map(METRICS.map(({ name }, i) => [name, i]));
  const curves = [...points].map(([name, curve]): Series => {
    const sorted = [...curve].sort(([a], [b]) => a - b);
    return {
      name,
      info: metricInfo(name) ?? UNKNOWN,
      steps: sorted.map(([step]) => step),
      values: sorted.map(([, { value }]) => (Number.isFinite(value) ? value : null)),
      times: sorted.map(([, { time }]) => time),
      total: sorted.length,
    };
  });
  const rank = ({ info }: Series) => order.get(info.name) ?? METRICS.length;
  return new Map(curves.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1)).map((one) => [one.name, one]));
}

const UNKNOWN: MetricInfo = { name: "?", group: "learning", unit: "number", meaning: "Not a metric of this version." };

/** Points of the clock; between them it is read off in proportion. */
const CLOCK_POINTS = 1000;

/** What was learned by when. A step that was logged twice counts once, as its last event says. */
export function clockOf(events: readonly RunEvent[]): RunClock {
  const done = new Map<number, { episodes: number; tokens: number }>();
  let warm: number | undefined;
  for (const { kind, step, metrics } of events) {
    if (kind === "train") {
      const episodes = metrics["train/episodes"] ?? 0;
      done.set(step, { episodes, tokens: episodes * (metrics["train/episode_tokens"] ?? 0) });
      warm = Math.min(warm ?? step - 1, step - 1);
    } else if (kind === "sft") done.set(step, { episodes: 0, tokens: metrics["sft/tokens"] ?? 0 });
  }
  const [steps, episodes, tokens]: [number[], number[], number[]] = [[], [], []];
  const sum = { episodes: 0, tokens: 0 };
  const all = [...done].sort(([a], [b]) => a - b);
  const every = Math.ceil(all.length / CLOCK_POINTS);
  for (const [i, [step, made]] of all.entries()) {
    sum.episodes += made.episodes;
    sum.tokens += made.tokens;
    if ((i + 1) % every !== 0 && i < all.length - 1) continue;
    steps.push(step);
    episodes.push(sum.episodes);
    tokens.push(sum.tokens);
  }
  return { began: events[0]?.time ?? 0, ...(warm !== undefined && { warm }), steps, episodes, tokens };
}

const SIGHT_FIELDS = {
  gap: "sight/gap",
  low: "sight/gap_low",
  high: "sight/gap_high",
  replies: "sight/replies",
  success: "sight/success",
  successGrey: "sight/success_grey",
  mismatches: "sight/hash_mismatches",
} as const;

/** What an event says of sight, if anything. */
export function probeOf({ step, metrics }: RunEvent): SightProbe | undefined {
  const probe: Record<string, number> = {};
  for (const [field, name] of Object.entries(SIGHT_FIELDS)) {
    const value = metrics[name];
    if (value !== undefined) probe[field] = value;
  }
  if (Object.keys(probe).length === 0) return undefined;
  const turns: (number | null)[] = [];
  for (let t = 0; t < 1000; t++) {
    const value = metrics[`sight/gap_turn/${t}`];
    if (value !== undefined) {
      while (turns.length < t) turns.push(null);
      turns.push(value);
    }
  }
  return { step, ...probe, turns };
}
