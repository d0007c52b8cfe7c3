/** Where the time goes: the work of each step on lanes (sampling, environment, encoding, learning, waiting), to scale. */
import type { TimelineReply } from "../../src/viewer/api.ts";
import type { RunPageProps } from "../app.tsx";
import { duration, percent } from "../format.ts";
import { useKeys } from "../keys.tsx";
import { Choice, Empty, Scroll, Show } from "../parts.tsx";
import { setQuery } from "../route.ts";
import { sharesOf } from "../shares.ts";
import { useLoad, useSource } from "../use.ts";

const WIDTHS = ["1", "3", "10", "40"] as const;
type Width = (typeof WIDTHS)[number];

export function TimelinePage({ run, route, live }: RunPageProps) {
  const source = useSource();
  const width = (WIDTHS.find((one) => one === route.query.get("steps")) ?? "3") as Width;
  const asked = route.query.get("to");
  const to = asked === null ? undefined : Number(asked);
  // Without an end in the link it follows the run.
  const timeline = useLoad(async () => {
    if (to !== undefined) return source.timeline(run, to - Number(width) + 1, to);
    const newest = await source.timeline(run);
    const end = newest.range?.[1];
    return end === undefined ? newest : source.timeline(run, end - Number(width) + 1, end);
  }, [run, width, to, live.events]);
  const [first, last] = timeline.value?.range ?? [0, 0];
  const end = to ?? last;
  const move = (by: number) => setQuery({ to: Math.max(first, Math.min(last, end + by)) });
  useKeys("Timeline", [
    { keys: ["ArrowRight", "j"], does: "later steps", run: () => move(Number(width)) },
    { keys: ["ArrowLeft", "k"], does: "earlier steps", run: () => move(-Number(width)) },
    { keys: ["+", "="], does: "fewer steps, closer", run: () => zoom(width, -1) },
    { keys: ["-"], does: "more steps", run: () => zoom(width, 1) },
  ]);
  const trace = source.perfettoUrl(run);
  return (
    <Show of={timeline}>
      {(value) =>
        value.range === undefined ? (
          <Empty title="No work was timed yet">
            <p>Each training step logs what it spent its time on.</p>
          </Empty>
        ) : (
          <div class="page">
            <div class="page-head">
              <h2>
                {value.steps.length === 1
                  ? `Step ${value.steps[0]?.step}`
                  : `Steps ${value.steps[0]?.step ?? "–"} to ${value.steps.at(-1)?.step ?? "–"}`}
                <span class="faint"> of {last}</span>
              </h2>
              <span class="space" />
              <span class="buttons">
                <button
                  type="button"
                  disabled={end <= first}
                  onClick={() => move(-Number(width))}
                  aria-label="Earlier steps"
                >
                  ←
                </button>
                <button
                  type="button"
                  disabled={end >= last}
                  onClick={() => move(Number(width))}
                  aria-label="Later steps"
                >
                  →
                </button>
                <Choice
                  label="Steps shown"
                  value={width}
                  options={WIDTHS.map((one) => [one, one === "1" ? "1 step" : one] as const)}
                  choose={(steps) => setQuery({ steps })}
                />
                {trace !== undefined && (
                  <a
                    class="button"
                    href={trace}
                    download={`${run}-trace.json`}
                    title="Open the file in ui.perfetto.dev"
                  >
                    Perfetto trace
                  </a>
                )}
              </span>
            </div>
            <Lanes timeline={value} />
            <Shares timeline={value} />
          </div>
        )
      }
    </Show>
  );
}

function zoom(width: Width, by: number): void {
  const place = WIDTHS.indexOf(width) + by;
  const steps = WIDTHS[Math.max(0, Math.min(WIDTHS.length - 1, place))];
  setQuery({ steps });
}

/** Time left out between steps (evaluations, pauses) is not drawn: each step starts where the last one ended. */
function Lanes({ timeline }: { timeline: TimelineReply }) {
  const { lanes, steps } = timeline;
  const total = Math.max(
    1,
    steps.reduce((sum, { ms }) => sum + ms, 0),
  );
  let before = 0;
  const placed = steps.map((step) => {
    const offset = before;
    before += step.ms;
    return { ...step, offset };
  });
  const x = (ms: number) => `${((ms / total) * 100).toFixed(4)}%`;
  return (
    <section class="lanes" aria-label="Timeline">
      <div class="lane ruler">
        <span class="lane-name" />
        <span class="lane-track">
          {placed.map(({ step, offset, ms, kind }) => (
            <span key={`${kind} ${step}`} class="lane-step" style={{ left: x(offset), width: x(ms) }}>
              {ms / total > 0.04 ? `${step} · ${duration(ms)}` : ""}
            </span>
          ))}
        </span>
      </div>
      {lanes.map((lane) => (
        <div key={lane} class="lane" style={laneOf(lane)}>
          <span class="lane-name">{lane}</span>
          <span class="lane-track">
            {placed.map(({ step, offset, ms, kind }) => (
              <span key={`${kind} ${step}`} class="lane-step" style={{ left: x(offset), width: x(ms) }} />
            ))}
            {placed.flatMap(({ step, offset, start, spans }) =>
              spans
                .filter((span) => span.lane === lane)
                .map((span) => (
                  <span
                    key={`${step} ${span.start}`}
                    class="work"
                    style={{ left: x(offset + span.start - start), width: x(span.ms) }}
                    title={`step ${step}, ${lane}: ${duration(span.ms)}`}
                  />
                )),
            )}
          </span>
        </div>
      ))}
    </section>
  );
}

/** The colour of a lane; lanes that have none of their own share one. */
const laneOf = (lane: string) => ({ "--lane": `var(--lane-${lane})` });

function Shares({ timeline }: { timeline: TimelineReply }) {
  const { total, rows, idle } = sharesOf(timeline.steps);
  const share = (ms: number) => ms / Math.max(1, total);
  const line = (lane: string, ms: number, busy: number | undefined) => (
    <tr key={lane} style={laneOf(lane)}>
      <th scope="row">
        <i aria-hidden="true" /> {lane}
      </th>
      <td class="bar">
        <span style={{ width: percent(share(ms), 1).replace(" ", "") }} />
      </td>
      <td>{percent(share(ms), 1)}</td>
      <td>{duration(ms)}</td>
      <td class="faint">{busy !== undefined && `at work ${percent(share(busy))} of the time`}</td>
    </tr>
  );
  return (
    <section class="panel shares">
      <h2>Share of the time</h2>
      <p class="faint">
        A moment in which several lanes work is divided among them, so the shares add up to all of it.
      </p>
      <Scroll label="Share of the time">
        <table>
          <tbody>
            {rows.map(({ lane, ms, busy }) => line(lane, ms, busy))}
            {idle > 0 && line("nothing timed", idle, undefined)}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
