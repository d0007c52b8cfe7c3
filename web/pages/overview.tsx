/** One run at a glance: what is wrong, the figures that count, at most twenty charts in five sections, what happened, the manifest. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { RunClock, RunNotes, RunOverview, Series } from "../../src/viewer/api.ts";
import type { RunPageProps } from "../app.tsx";
import type { Mark } from "../chart.tsx";
import { CurveChart, CurveTools, type CurveView, useCurveView } from "../curves.tsx";
import { ago, duration, isNumber, number, signed, withUnit } from "../format.ts";
import { Commands, RunNotesForm } from "../notes.tsx";
import { Episodes, Missing, marksOf, Scroll, Show, Success } from "../parts.tsx";
import { go, href } from "../route.ts";
import { CHARTS_A_SECTION, type ChartPlan, SECTIONS, seriesFor, shortName } from "../series.ts";
import { useLoad, useSource } from "../use.ts";

export function OverviewPage({ run, overview, live, route }: RunPageProps) {
  const source = useSource();
  const view = useCurveView(route, "step");
  const series = useLoad(() => source.series(run), [run, live.events]);
  return (
    <div class="page">
      <Alarms overview={overview} />
      <Missing notes={overview.missing} />
      <Figures overview={overview} />
      <Environments overview={overview} />
      <CurveTools view={view} />
      <Show of={series}>{(value) => <Sections {...value} overview={overview} view={view} />}</Show>
      <section class="panel">
        <h2>Notes and commands</h2>
        <Notes overview={overview} />
        <PlayLink overview={overview} />
        <Commands commands={overview.commands} />
      </section>
      <div class="two">
        <Log overview={overview} />
        <AllMetrics overview={overview} run={run} />
      </div>
      <ManifestView overview={overview} />
    </div>
  );
}

/** Straight from a run to its model at the board. */
function PlayLink({ overview }: { overview: RunOverview }) {
  const source = useSource();
  const [step, env] = [overview.checkpoints.at(-1), overview.envs[0]];
  // Environments of files are played where the viewer was started with their names.
  if (source.play === undefined || step === undefined || env === undefined || /^[./]/.test(env)) return null;
  return (
    <p class="buttons">
      <a class="button" href={href(["play"], { env, model: `run:${overview.id}@${step}` })}>
        Let the model of step {step} play
      </a>
    </p>
  );
}

function Alarms({ overview }: { overview: RunOverview }) {
  const { alarms, status, message = "", failure } = overview;
  // The failed episode that it quotes, indented, stands below.
  const why = failure === undefined ? message : message.replace(/\n {2}.*/g, "").replace(/ The first:/, "");
  return (
    <div class="alarms" aria-live="polite">
      {status === "failed" && (
        <article class="alarm stop">
          <h2>The run failed</h2>
          <p class="lines">{why}</p>
        </article>
      )}
      {failure !== undefined && <FirstFailure failure={failure} />}
      {status === "interrupted" && (
        <article class="alarm">
          <h2>The run was interrupted</h2>
          <p>It says it runs, but no process writes to it. Resume it to go on from its last checkpoint.</p>
        </article>
      )}
      {alarms.map((alarm) => (
        <article key={alarm.kind} class={`alarm ${alarm.level}`}>
          <h2>{alarm.message}</h2>
          <p>{alarm.advice}</p>
          <small>since step {alarm.step}</small>
        </article>
      ))}
    </div>
  );
}

function FirstFailure({ failure }: { failure: NonNullable<RunOverview["failure"]> }) {
  const { env, seed, error, agent, reply, stack, step } = failure;
  return (
    <article class="alarm stop">
      <h2>The first episode that failed</h2>
      <p class="lines">{error}</p>
      {stack !== undefined && <pre>{stack}</pre>}
      <p>
        {env}, seed {seed}
        {agent !== undefined && `, played by the ${agent} agent`}
        {reply !== undefined && (
          <>
            , reply <q>{reply}</q>
          </>
        )}
      </p>
      <small>
        step {step}. It counts against success and is never trained; the run stops when too many fail
        (rollout.maxFailed).
      </small>
    </article>
  );
}

function Figures({ overview }: { overview: RunOverview }) {
  const { metrics, manifest, updated, steps } = overview;
  const marks = marksOf(metrics);
  const took = manifest === undefined ? undefined : updated - Date.parse(manifest.started);
  return (
    <dl class="figures">
      {isNumber(metrics["eval/success"]) && (
        <div class="wide">
          <dt>Evaluation success</dt>
          <dd>
            <Success
              label="Evaluation success"
              value={metrics["eval/success"]}
              low={metrics["eval/success_low"] ?? null}
              high={metrics["eval/success_high"] ?? null}
              marks={marks}
            />
            <Episodes metrics={metrics} of="eval" />
          </dd>
        </div>
      )}
      {isNumber(metrics["train/success"]) && (
        <div class="wide">
          <dt>Training success</dt>
          <dd>
            <Success label="Training success" value={metrics["train/success"]} marks={marks} />
            <Episodes metrics={metrics} of="train" />
          </dd>
        </div>
      )}
      {isNumber(metrics["sight/gap"]) && <Figure name="Sight gap" value={`${signed(metrics["sight/gap"])} nats`} />}
      {isNumber(metrics["policy/entropy"]) && (
        <Figure name="Entropy" value={withUnit(metrics["policy/entropy"], "nats")} />
      )}
      <Figure name="Training steps" value={number(steps)} />
      {took !== undefined && took > 0 && <Figure name="Time" value={duration(took)} />}
    </dl>
  );
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <b>{value}</b>
      </dd>
    </div>
  );
}

const ENVIRONMENT_COLUMNS = [
  ["random", "eval/random"],
  ["sampled", "eval/success"],
  ["greedy", "eval/success_greedy"],
  ["oracle", "eval/ceiling"],
  ["share of episodes", "mixture"],
] as const;

/** The newest evaluation, a row for each environment, where there are several. */
function Environments({ overview: { metrics } }: { overview: RunOverview }) {
  const prefix = "eval/success/";
  const names = Object.keys(metrics)
    .flatMap((name) => (name.startsWith(prefix) ? name.slice(prefix.length) : []))
    .sort();
  if (names.length < 2) return null;
  const columns = ENVIRONMENT_COLUMNS.filter(([, metric]) =>
    names.some((env) => isNumber(metrics[`${metric}/${env}`])),
  );
  return (
    <section class="panel">
      <h2>Environments</h2>
      <Scroll label="Evaluation success of each environment">
        <table class="metrics">
          <thead>
            <tr>
              <th scope="col">Evaluation success</th>
              {columns.map(([title]) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {names.map((env) => (
              <tr key={env}>
                <th scope="row">{env}</th>
                {columns.map(([title, metric]) => {
                  const value = metrics[`${metric}/${env}`];
                  return <td key={title}>{isNumber(value) ? number(value) : "–"}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

type Drawn = { clock: RunClock; all: ReadonlyMap<string, Series>; marks: readonly Mark[]; view: CurveView };

/** Charts that a search may add, of metrics without a place of their own. */
const MOST_FOUND = 24;

function Sections(props: { series: readonly Series[]; clock: RunClock; overview: RunOverview; view: CurveView }) {
  const { series, clock, overview, view } = props;
  const all = useMemo(() => new Map(series.map((one) => [one.name, one])), [series]);
  const shared = { clock, all, marks: marksOf(overview.metrics), view };
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (text: string) => words.every((word) => text.toLowerCase().includes(word));
  const found = words.length === 0 ? [] : series.filter(({ name, info }) => fits(`${name} ${info.meaning}`));
  const sections = SECTIONS.map(({ title, charts }) => {
    const there = charts.filter((plan) => seriesFor(plan, all).length > 0);
    const drawn = words.length === 0 ? there.slice(0, CHARTS_A_SECTION) : there.filter((plan) => fits(plan.title));
    return { title, drawn };
  }).filter(({ drawn }) => drawn.length > 0);
  return (
    <>
      {sections.map(({ title, drawn }) => (
        <section key={title} class="chart-section">
          <h2>{title}</h2>
          <div class="charts">
            {drawn.map((plan) => (
              <PlannedChart key={plan.title} plan={plan} {...shared} />
            ))}
          </div>
        </section>
      ))}
      {words.length > 0 && (
        <section class="chart-section">
          <h2>
            Metrics that match <span class="faint">{found.length}</span>
          </h2>
          <div class="charts">
            {found.slice(0, MOST_FOUND).map(({ name }) => (
              <PlannedChart key={name} plan={planOf(name)} {...shared} />
            ))}
          </div>
        </section>
      )}
      {series.length === 0 && <p class="faint">Nothing has been measured yet; the first step will appear here.</p>}
    </>
  );
}

/** One plan for a name, so that a chart is drawn anew only for new data. */
function planOf(name: string): ChartPlan {
  const plan = plans.get(name) ?? { title: name, metrics: [name] };
  plans.set(name, plan);
  return plan;
}
const plans = new Map<string, ChartPlan>();

function PlannedChart({ plan, clock, all, marks, view }: Drawn & { plan: ChartPlan }) {
  const { curves, interval, info } = useMemo(() => {
    const found = seriesFor(plan, all);
    const [low, high] = plan.interval?.map((name) => all.get(name)) ?? [];
    return {
      info: found[0]?.info,
      curves: found.map((series, i) => ({ label: shortName(series.name), series, clock, colour: i + 1 })),
      interval: low && high && ([low, high] as const),
    };
  }, [plan, all, clock]);
  return (
    <CurveChart
      title={plan.title}
      info={info}
      curves={curves}
      view={view}
      interval={interval}
      marks={plan.success ? marks : plan.zero ? BLIND : []}
      {...((plan.success || plan.share) && { range: UNIT })}
      noisy={plan.noisy === true}
      sync="overview"
    />
  );
}

const UNIT = [0, 1] as const;
const BLIND: readonly Mark[] = [{ label: "blind", value: 0 }];

function Notes({ overview }: { overview: RunOverview }) {
  const { write } = useSource();
  const [notes, setNotes] = useState(overview.notes);
  useEffect(() => setNotes(overview.notes), [JSON.stringify(overview.notes)]);
  const change = async (wanted: Partial<RunNotes>) => {
    if (write !== undefined) setNotes(await write.notes(overview.id, wanted).catch(() => notes));
  };
  const may = overview.writable && write !== undefined;
  return <RunNotesForm run={{ ...overview, notes }} change={may ? change : undefined} removed={() => go(href([]))} />;
}

function Log({ overview }: { overview: RunOverview }) {
  const lines = overview.log.filter(({ message, kind }) => message !== undefined || kind !== "note").toReversed();
  return (
    <section class="panel">
      <h2>What happened</h2>
      {lines.length === 0 && <p class="faint">Nothing yet.</p>}
      <ol class="log">
        {lines.map((line) => (
          <li key={`${line.time} ${line.kind}`} class={line.kind}>
            <span class="log-step">{line.step}</span>
            <span>
              {line.kind}
              {line.message !== undefined && `: ${line.message}`}
            </span>
            <time>{ago(line.time)}</time>
          </li>
        ))}
      </ol>
    </section>
  );
}

function AllMetrics({ overview, run }: { overview: RunOverview; run: string }) {
  return (
    <details class="panel">
      <summary>
        <h2>All metrics ({overview.metricNames.length})</h2>
      </summary>
      <table class="metrics">
        <tbody>
          {overview.metricNames.map(({ name, info }) => (
            <tr key={name}>
              <th scope="row">
                <a href={href(["compare"], { run, metric: name })}>{name}</a>
                <small>{info.meaning}</small>
              </th>
              <td>{withUnit(overview.metrics[name], info.unit)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

function ManifestView({ overview }: { overview: RunOverview }) {
  const { manifest } = overview;
  if (manifest === undefined) return null;
  const { config, versions, seeds, resumes, history = [] } = manifest;
  // One configuration from the first step on is the one above.
  const earlier = history.length > 1 ? { history } : {};
  return (
    <details class="panel">
      <summary>
        <h2>Manifest</h2>
      </summary>
      <div class="manifest">
        {Object.entries({ ...config, versions, seeds, resumes, ...earlier }).map(([key, value]) => (
          <div key={key}>
            <h3>{key}</h3>
            <pre>{typeof value === "object" ? JSON.stringify(value, null, 2) : String(value)}</pre>
          </div>
        ))}
      </div>
    </details>
  );
}
