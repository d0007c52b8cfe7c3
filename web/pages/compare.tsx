/**
 * Several runs over each other, as many as are named: curves of any metric, aligned where reinforcement learning begins and followed while
 * they train; runs that differ only in their seed as one mean with its interval; and where their settings differ. One run works too.
 */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { CompareReply, Json, MetricInfo, RunClock, RunOverview, Series } from "../../src/viewer/api.ts";
import { markOf } from "../chart.tsx";
import { type Curve, CurveChart, CurveTools, type CurveView, useCurveView } from "../curves.tsx";
import { isNumber } from "../format.ts";
import { Empty, marksOf, Scroll, Show, Status } from "../parts.tsx";
import { href, type Route, setQuery } from "../route.ts";
import { useInterval, useLoad, useSource } from "../use.ts";

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
/** Stands in the link for no metric at all: a link that names none shows the usual ones. */
const NO_METRIC = "none";
/** How often running runs are asked for news: one question for all, then only those that have some. */
const NEWS_MS = 3000;
const MOST_FOUND = 24;

/** A run's curves as they were last fetched. */
type Fetched = {
  readonly updated: number;
  readonly series: ReadonlyMap<string, Series>;
  readonly clock: RunClock;
};
/** Runs of one experiment. */
type Group = { readonly group: number; readonly label: string; readonly colour: number };

export function ComparePage({ route }: { route: Route }) {
  const source = useSource();
  const ids = route.query.getAll("run");
  const asked = JSON.stringify(ids);
  const overviews = useLoad(async () => toldApart(await Promise.all(ids.map((id) => source.overview(id)))), [asked]);
  const settings = useLoad(() => source.compare(ids), [asked]);
  const view = useCurveView(route, "rl");
  useEffect(() => {
    document.title = "Compare · Saccade";
  }, []);
  if (ids.length === 0) {
    return (
      <Empty title="Nothing to compare">
        <p>
          Choose two or more <a href={href([])}>runs</a>.
        </p>
      </Empty>
    );
  }
  const grouped = route.query.get("seeds") === "mean";
  return (
    <Show of={overviews}>
      {(runs) => {
        const groups = grouped && settings.value ? groupsOf(runs, settings.value.groups) : undefined;
        const several = settings.value !== undefined && new Set(settings.value.groups).size < runs.length;
        return (
          <div class="page">
            <div class="page-head">
              <h1>{runs.length === 1 ? runs[0]?.name : `${runs.length} runs`}</h1>
              <span class="space" />
              {several && (
                <button
                  type="button"
                  aria-pressed={grouped}
                  class={grouped ? "on" : ""}
                  title="Runs that differ only in their seed: their mean and its 95 % interval (Student's t)"
                  onClick={() => setQuery({ seeds: grouped ? undefined : "mean" })}
                >
                  Seeds as mean
                </button>
              )}
            </div>
            <Legend runs={runs} ids={ids} groups={groups} />
            <CurveTools view={view} />
            <Curves
              key={asked}
              runs={runs}
              ids={ids}
              wanted={route.query.getAll("metric")}
              view={view}
              groups={groups}
            />
            {runs.length > 1 && (
              <Show of={settings}>
                {(value) => <Settings runs={runs} value={value} all={route.query.get("settings") === "all"} />}
              </Show>
            )}
          </div>
        );
      }}
    </Show>
  );
}

/** Runs of one recipe have one name: then their folders' names, which are numbered, tell them apart. */
function toldApart(runs: readonly RunOverview[]): RunOverview[] {
  return runs.map((run) => (runs.filter(({ name }) => name === run.name).length > 1 ? { ...run, name: run.id } : run));
}

function groupsOf(runs: readonly RunOverview[], groups: readonly number[]): Group[] {
  const order = [...new Set(groups)];
  return groups.map((group) => {
    const members = runs.filter((_, i) => groups[i] === group);
    const first = runs[group]?.name ?? "";
    const label = members.length === 1 ? first : `${stem(members.map(({ name }) => name))}, ${members.length} seeds`;
    return { group, label, colour: order.indexOf(group) + 1 };
  });
}

/** What names of one experiment have in common: `lake-s0`, `lake-s1` → `lake`. */
function stem(names: readonly string[]): string {
  const [first = ""] = names;
  let length = first.length;
  while (!names.every((name) => name.startsWith(first.slice(0, length)))) length--;
  return first.slice(0, length).replace(/[-_ ]*(s|seed)?[-_ ]*\d*$/, "") || first;
}

function Legend({
  runs,
  ids,
  groups,
}: {
  runs: readonly RunOverview[];
  ids: readonly string[];
  groups?: Group[] | undefined;
}) {
  return (
    <ul class="legend" aria-label="Runs">
      {runs.map(({ id, name, status }, i) => {
        const colour = groups?.[i]?.colour ?? i + 1;
        return (
          <li key={id} {...markOf(colour)}>
            <i aria-hidden="true" />
            <a href={href(["run", id])}>{name}</a>
            {status === "running" && <Status status={status} />}
            <button
              type="button"
              class="quiet"
              aria-label={`Take ${name} away`}
              onClick={() => setQuery({ run: ids.filter((other) => other !== id) })}
            >
              ✕
            </button>
          </li>
        );
      })}
    </ul>
  );
}

function Curves(props: {
  runs: readonly RunOverview[];
  ids: readonly string[];
  wanted: readonly string[];
  view: CurveView;
  groups?: Group[] | undefined;
}) {
  const { runs, ids, wanted, view, groups } = props;
  const known = useMemo(() => {
    const infos = new Map<string, MetricInfo>();
    for (const { metricNames } of runs) for (const { name, info } of metricNames) infos.set(name, info);
    return infos;
  }, [runs]);
  const chosen = (wanted.length === 0 ? USUAL : wanted).filter((name) => wanted.length === 0 || known.has(name));
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...known]
    .filter(([name, { meaning }]) => words.every((word) => `${name} ${meaning}`.toLowerCase().includes(word)))
    .map(([name]) => name);
  const names = words.length === 0 ? chosen : found.slice(0, MOST_FOUND);
  const fetched = useFetched(runs, names);
  const set = (next: readonly string[]) => setQuery({ metric: next.length === 0 ? NO_METRIC : next, q: undefined });
  return (
    <>
      {words.length > 0 && (
        <p class="faint" role="status">
          {found.length} metrics match{found.length > MOST_FOUND && `, the first ${MOST_FOUND} are shown`}
        </p>
      )}
      <Show of={fetched}>
        {(curves) => (
          <div class="charts big">
            {names
              .filter((name) => curves.some(({ series }) => series.has(name)))
              .map((name) => (
                <div key={name} class="removable">
                  <MetricChart name={name} runs={runs} curves={curves} view={view} groups={groups} />
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
        )}
      </Show>
      <label class="add">
        Add a metric
        <select value="" onChange={(event) => set([...chosen, event.currentTarget.value])}>
          <option value="">choose…</option>
          {[...known.keys()]
            .filter((name) => !chosen.includes(name))
            .map((name) => (
              <option key={name}>{name}</option>
            ))}
        </select>
      </label>
      {ids.length > runs.length && <p class="faint">Some runs are gone.</p>}
    </>
  );
}

/** The curves of `names` of each run, in the order of `runs`; those of a run that has news are fetched again. */
function useFetched(runs: readonly RunOverview[], names: readonly string[]) {
  const source = useSource();
  const kept = useRef(new Map<string, Fetched & { names: string }>());
  const [tick, setTick] = useState(0);
  const [live, setLive] = useState(runs.some(({ status }) => status === "running"));
  useInterval(() => setTick((now) => now + 1), NEWS_MS, live && source.kind === "http");
  const wanted = names.join("\n");
  return useLoad(async () => {
    const news = tick === 0 ? undefined : new Map((await source.runs()).runs.map((one) => [one.id, one]));
    if (news !== undefined) setLive(runs.some(({ id }) => news.get(id)?.status === "running"));
    return Promise.all(
      runs.map(async ({ id, updated: first }): Promise<Fetched> => {
        const updated = news?.get(id)?.updated ?? kept.current.get(id)?.updated ?? first;
        const old = kept.current.get(id);
        if (old !== undefined && old.updated === updated && old.names === wanted) return old;
        const { series, clock } = names.length === 0 ? NOTHING : await source.series(id, names);
        const fresh = { updated, series: new Map(series.map((one) => [one.name, one])), clock, names: wanted };
        kept.current.set(id, fresh);
        return fresh;
      }),
    );
  }, [runs, wanted, tick]);
}

const NOTHING = { series: [], clock: { began: 0, steps: [], episodes: [], tokens: [] } };

function MetricChart(props: {
  name: string;
  runs: readonly RunOverview[];
  curves: readonly Fetched[];
  view: CurveView;
  groups?: Group[] | undefined;
}) {
  const { name, runs, curves, view, groups } = props;
  const there = useMemo(
    () =>
      curves.flatMap(({ series, clock }, i) => {
        const one = series.get(name);
        return one === undefined ? [] : [{ at: i, series: one, clock }];
      }),
    // A run without news keeps its series, and a chart none of whose runs has any is left alone.
    curves.map(({ series }) => series.get(name)),
  );
  const drawn = useMemo(
    () => there.map(({ at, series, clock }): Curve => ({ label: runs[at]?.name ?? "", series, clock, colour: at + 1 })),
    [there, runs],
  );
  const info = drawn[0]?.series.info;
  const success = /(^|\/)success/.test(name) && info?.unit === "share";
  const marks = success ? marksOf(runs.find(({ metrics }) => isNumber(metrics["eval/ceiling"]))?.metrics ?? {}) : [];
  return (
    <CurveChart
      title={name}
      info={info}
      curves={drawn}
      view={view}
      {...(groups && { groups: there.map(({ at }) => groups[at] as Group) })}
      marks={name === "sight/gap" ? [{ label: "blind", value: 0 }] : marks}
      {...(success && { range: UNIT })}
      height={220}
      sync="compare"
    />
  );
}

const UNIT = [0, 1] as const;

function Settings({ runs, value, all }: { runs: readonly RunOverview[]; value: CompareReply; all: boolean }) {
  const { rows, same } = value;
  return (
    <section class="panel">
      <div class="page-head">
        <h2>Where the configurations differ</h2>
        <span class="space" />
        <button
          type="button"
          class="quiet"
          aria-pressed={all}
          onClick={() => setQuery({ settings: all ? undefined : "all" })}
        >
          {all ? "Only what differs" : `And the ${same.length} in which they agree`}
        </button>
      </div>
      {rows.length === 0 && <p class="faint">Nowhere: the runs have the same configuration.</p>}
      {(rows.length > 0 || all) && (
        <Scroll label="Settings">
          <table class="differences">
            <thead>
              <tr>
                <th scope="col">Field</th>
                {runs.map(({ id, name }, i) => (
                  <th key={id} scope="col" {...markOf(i + 1)}>
                    <i aria-hidden="true" /> {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ key, values }) => (
                <tr key={key} class="differs">
                  <th scope="row">{key}</th>
                  {values.map((one, i) => (
                    <td key={runs[i]?.id} class={say(one) === usual(values) ? "" : "odd"}>
                      {say(one)}
                    </td>
                  ))}
                </tr>
              ))}
              {all &&
                same.map(({ key, value: one }) => (
                  <tr key={key}>
                    <th scope="row">{key}</th>
                    <td colSpan={runs.length}>{say(one)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </section>
  );
}

const say = (value: Json) => (value === null ? "–" : JSON.stringify(value));

/** The value that most have; the first where none is more frequent. */
function usual(values: readonly Json[]): string {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(say(value), (counts.get(say(value)) ?? 0) + 1);
  const most = Math.max(...counts.values());
  return [...counts].find(([, count]) => count === most)?.[0] ?? "";
}
