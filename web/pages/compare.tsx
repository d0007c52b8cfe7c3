/** Several runs over each other: curves of any metric with smoothing, and where their configurations differ. One run works too. */
import { useEffect, useMemo } from "preact/hooks";
import type { MetricInfo, RunOverview, Series } from "../../src/viewer/api.ts";
import { Chart, type Line } from "../chart.tsx";
import { isNumber } from "../format.ts";
import { useKeys } from "../keys.tsx";
import { Choice, Empty, marksOf, Show } from "../parts.tsx";
import { href, type Route, setQuery } from "../route.ts";
import { smooth } from "../series.ts";
import { useLoad, useSource } from "../use.ts";

const USUAL = [
  "eval/success",
  "train/success",
  "train/reward",
  "sight/gap",
  "policy/entropy",
  "drift/mean",
  "sft/nll",
  "time/step",
];
/** As many as there are colours. */
export const MAX_RUNS = 6;
/** Stands in the link for no metric at all: a link that names none shows the usual ones. */
const NO_METRIC = "none";

type Loaded = { readonly overview: RunOverview; readonly series: ReadonlyMap<string, Series> };

export function ComparePage({ route }: { route: Route }) {
  const source = useSource();
  const all = route.query.getAll("run");
  const ids = all.slice(0, MAX_RUNS);
  const asked = JSON.stringify(ids);
  const weight = Math.min(0.98, Math.max(0, Number(route.query.get("smooth") ?? 0) || 0));
  const clock = route.query.get("x") === "time";
  const runs = useLoad(async () => {
    return Promise.all(
      ids.map(async (id): Promise<Loaded> => {
        const [overview, { series }] = await Promise.all([source.overview(id), source.series(id)]);
        return { overview, series: new Map(series.map((one) => [one.name, one])) };
      }),
    );
  }, [asked]);
  const differences = useLoad(() => source.compare(ids), [asked]);
  useEffect(() => {
    document.title = "Compare · Saccade";
  }, []);
  const turn = (by: number) => setQuery({ smooth: Math.min(0.98, Math.max(0, weight + by)).toFixed(2) });
  useKeys("Compare", [
    { keys: ["+", "="], does: "smooth more", run: () => turn(0.1) },
    { keys: ["-"], does: "smooth less", run: () => turn(-0.1) },
  ]);
  if (ids.length === 0) {
    return (
      <Empty title="Nothing to compare">
        <p>
          Choose two or more <a href={href([])}>runs</a>.
        </p>
      </Empty>
    );
  }
  return (
    <Show of={runs}>
      {(loaded) => (
        <div class="page">
          <div class="page-head">
            <h1>{loaded.length === 1 ? loaded[0]?.overview.name : `${loaded.length} runs`}</h1>
            {all.length > MAX_RUNS && <span class="faint">the first of {all.length}</span>}
            <span class="space" />
            <label class="slider">
              Smoothing
              <input
                type="range"
                min="0"
                max="0.98"
                step="0.02"
                value={weight}
                onInput={(event) => setQuery({ smooth: event.currentTarget.value })}
              />
            </label>
            <Choice
              label="Axis"
              value={clock ? "time" : "step"}
              options={[
                ["step", "Steps"],
                ["time", "Time"],
              ]}
              choose={(x) => setQuery({ x: x === "time" ? x : undefined })}
            />
          </div>
          <ul class="legend" aria-label="Runs">
            {loaded.map(({ overview }, i) => (
              <li key={overview.id} class={`s${i + 1}`}>
                <i aria-hidden="true" />
                <a href={href(["run", overview.id])}>{overview.name}</a>
                <button
                  type="button"
                  class="quiet"
                  aria-label={`Take ${overview.name} away`}
                  onClick={() => setQuery({ run: all.filter((id) => id !== overview.id) })}
                >
                  ✕
                </button>
              </li>
            ))}
          </ul>
          <Curves loaded={loaded} wanted={route.query.getAll("metric")} weight={weight} clock={clock} />
          {loaded.length > 1 && (
            <section class="panel">
              <h2>Where the configurations differ</h2>
              <Show of={differences}>
                {({ rows }) =>
                  rows.length === 0 ? (
                    <p class="faint">Nowhere: the runs have the same configuration.</p>
                  ) : (
                    <div class="scroll-x">
                      <table class="differences">
                        <thead>
                          <tr>
                            <th scope="col">Field</th>
                            {loaded.map(({ overview }, i) => (
                              <th key={overview.id} scope="col" class={`s${i + 1}`}>
                                <i aria-hidden="true" /> {overview.name}
                              </th>
                            ))}
                          </tr>
                        </thead>
                        <tbody>
                          {rows.map(({ key, values }) => (
                            <tr key={key}>
                              <th scope="row">{key}</th>
                              {values.map((value, i) => (
                                <td key={ids[i]}>{value === null ? "–" : JSON.stringify(value)}</td>
                              ))}
                            </tr>
                          ))}
                        </tbody>
                      </table>
                    </div>
                  )
                }
              </Show>
            </section>
          )}
        </div>
      )}
    </Show>
  );
}

function Curves(props: { loaded: readonly Loaded[]; wanted: readonly string[]; weight: number; clock: boolean }) {
  const { loaded, wanted, weight, clock } = props;
  const known = useMemo(() => {
    const infos = new Map<string, MetricInfo>();
    for (const { overview } of loaded) for (const { name, info } of overview.metricNames) infos.set(name, info);
    return infos;
  }, [loaded]);
  const names = (wanted.length === 0 ? USUAL : wanted).filter((name) => known.has(name));
  const set = (next: readonly string[]) => setQuery({ metric: next.length === 0 ? NO_METRIC : next });
  return (
    <>
      <div class="charts big">
        {names.map((name) => (
          <div key={name} class="removable">
            <CurveChart
              name={name}
              info={known.get(name) as MetricInfo}
              loaded={loaded}
              weight={weight}
              clock={clock}
            />
            <button
              type="button"
              class="quiet"
              aria-label={`Take ${name} away`}
              onClick={() => set(names.filter((other) => other !== name))}
            >
              ✕
            </button>
          </div>
        ))}
      </div>
      <label class="add">
        Add a metric
        <select value="" onChange={(event) => set([...names, event.currentTarget.value])}>
          <option value="">choose…</option>
          {[...known.keys()]
            .filter((name) => !names.includes(name))
            .map((name) => (
              <option key={name}>{name}</option>
            ))}
        </select>
      </label>
    </>
  );
}

function CurveChart(props: {
  name: string;
  info: MetricInfo;
  loaded: readonly Loaded[];
  weight: number;
  clock: boolean;
}) {
  const { name, info, loaded, weight, clock } = props;
  const lines = useMemo(
    () =>
      loaded.flatMap(({ overview, series }, i): Line[] => {
        const one = series.get(name);
        if (one === undefined) return [];
        const first = one.times[0] ?? 0;
        const x = clock ? one.times.map((time) => Math.round((time - first) / 1000)) : one.steps;
        const raw: Line = { label: overview.name, x, y: one.values, colour: i + 1 };
        if (weight === 0) return [raw];
        return [
          // The caption tells what was logged.
          { ...raw, faint: true },
          { ...raw, label: `${overview.name} smoothed`, y: smooth(one.values, weight), silent: true },
        ];
      }),
    [loaded, name, weight, clock],
  );
  const success = /(^|\/)success/.test(name) && info.unit === "share";
  const marks = success
    ? marksOf(loaded.find(({ overview }) => isNumber(overview.metrics["eval/ceiling"]))?.overview.metrics ?? {})
    : [];
  return (
    <Chart
      title={name}
      meaning={info.meaning}
      unit={info.unit}
      lines={lines}
      marks={name === "sight/gap" ? [{ label: "blind", value: 0 }] : marks}
      {...(success && { range: [0, 1] as const })}
      height={220}
      clock={clock}
      sync="compare"
    />
  );
}
