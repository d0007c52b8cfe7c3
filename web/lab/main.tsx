/** The page of `/lab`. It only shows: all learning is in workers, so that no task here lasts. */
import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Chart, type Line } from "../chart.tsx";
import { percent, withUnit } from "../format.ts";
import { Logo } from "../logo.tsx";
import { DarkContext, useTheme } from "../use.ts";
import { Boards } from "./boards.tsx";
import { DEFAULTS, HELD_OUT, type LabSettings, SHOWN, SIZES } from "./messages.ts";
import { type Evaluation, type LabState, NEW, Session } from "./session.ts";
import "../style.css";
import "./lab.css";

function App() {
  const { theme, dark, next } = useTheme();
  const [state, setState] = useState<LabState>(NEW);
  const [settings, setSettings] = useState<LabSettings>(DEFAULTS);
  const session = useMemo(() => new Session(setState), []);
  const change = (changed: Partial<LabSettings>) => {
    const now = { ...settings, ...changed };
    setSettings(now);
    if (changed.size !== undefined) session.reset();
    else session.change(now);
  };
  // Updates come several times a second; these change only with an evaluation.
  const boards = useMemo(() => <Boards lakes={state.lakes} count={SHOWN} />, [state.lakes]);
  const random = state.ready?.random;
  const curve = useMemo(() => <Curve evaluations={state.evaluations} random={random} />, [state.evaluations, random]);
  return (
    <DarkContext.Provider value={dark}>
      <header class="top">
        <span class="brand">
          <Logo />
          <span>Saccade</span>
        </span>
        <nav aria-label="Viewer">
          {location.protocol !== "file:" && <a href="./">Runs</a>}
          <a href="#main" aria-current="page">
            Lab
          </a>
        </nav>
        <span class="space" />
        <button type="button" class="quiet" onClick={next} aria-label={`Theme: ${theme}`} title={`Theme: ${theme}`}>
          {{ auto: "◐", light: "☀", dark: "☾" }[theme]}
        </button>
      </header>
      <main id="main" class="page lab" data-updates={state.update?.updates ?? 0}>
        <div class="page-head">
          <h1>A tab that learns</h1>
        </div>
        <p class="lead">
          A small vision-language model learns to cross frozen lakes, here, in this tab. It sees only the frames below
          and answers in words. First it imitates a player who moves at random in 40 % of turns. Then reward alone
          teaches it. Nothing leaves the tab.
        </p>
        <Controls state={state} settings={settings} change={change} session={session} />
        {state.problem !== undefined && (
          <section class="alarm stop" role="alert">
            <h2>Learning stopped</h2>
            <p>{state.problem}</p>
          </section>
        )}
        <div class="lab-grid">
          <section class="panel">
            <h2>Lakes it never trained on</h2>
            {boards}
            <p class="faint lake-note">
              {SHOWN} of {HELD_OUT.count} held-out lakes, as it played them at the last point of the curve.
            </p>
          </section>
          {curve}
        </div>
        <Sight evaluation={state.evaluations.at(-1)} />
        <Figures evaluations={state.evaluations} />
      </main>
    </DarkContext.Provider>
  );
}

type ControlProps = {
  readonly state: LabState;
  readonly settings: LabSettings;
  readonly change: (changed: Partial<LabSettings>) => void;
  readonly session: Session;
};

function Controls({ state, settings, change, session }: ControlProps) {
  const learning = state.running === "learning";
  return (
    <section class="panel controls" aria-label="Controls">
      <div class="buttons">
        <button
          type="button"
          class="primary"
          onClick={() => (learning ? session.pause() : session.start(settings))}
          disabled={state.running === "failed"}
        >
          {learning ? "Pause" : state.running === "paused" ? "Go on" : "Start"}
        </button>
        <button type="button" onClick={() => session.reset()} disabled={state.running === "new"}>
          Reset
        </button>
      </div>
      <Slider
        label="Lake size"
        shown={`${settings.size} × ${settings.size}`}
        range={[SIZES[0], SIZES.at(-1) ?? SIZES[0], 1]}
        value={settings.size}
        set={(size) => change({ size })}
        hint="A new size starts a new agent."
      />
      <Slider
        label="Temperature"
        shown={settings.temperature.toFixed(1)}
        range={[0.4, 2, 0.1]}
        value={settings.temperature}
        set={(temperature) => change({ temperature })}
        hint="How freely it plays while it learns."
      />
      <Slider
        label="Learning rate"
        shown={settings.learningRate.toPrecision(2)}
        range={[-4, -2, 0.05]}
        value={Math.log10(settings.learningRate)}
        set={(power) => change({ learningRate: 10 ** power })}
        hint="From the next update on."
      />
      <Status state={state} session={session} />
    </section>
  );
}

type SliderProps = {
  readonly label: string;
  readonly shown: string;
  readonly hint: string;
  readonly range: readonly [min: number, max: number, step: number];
  readonly value: number;
  readonly set: (value: number) => void;
};

function Slider({ label, shown, hint, range: [min, max, step], value, set }: SliderProps) {
  return (
    <label class="lab-slider" title={hint}>
      <span>
        {label} <b>{shown}</b>
      </span>
      <input
        type="range"
        min={min}
        max={max}
        step={step}
        value={value}
        onInput={({ currentTarget }) => set(Number(currentTarget.value))}
      />
    </label>
  );
}

function Status({ state, session }: { state: LabState; session: Session }) {
  const [, setSecond] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSecond((now) => now + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  const { update, ready, running } = state;
  const doing =
    running === "new"
      ? "ready to start"
      : running !== "learning"
        ? running
        : update === undefined
          ? "making the agent"
          : update.phase === "imitate"
            ? `imitating noisy play, update ${update.phaseUpdates}`
            : `learning from reward, step ${update.phaseUpdates}`;
  const seconds = Math.floor(session.seconds);
  return (
    <p class="lab-status" role="status">
      <span class={`status ${running === "learning" ? "running" : running === "failed" ? "failed" : ""}`}>{doing}</span>
      {update && <span>{update.episodes.toLocaleString("en")} episodes</span>}
      {running !== "new" && (
        <span>
          {Math.floor(seconds / 60)}:{String(seconds % 60).padStart(2, "0")}
        </span>
      )}
      {ready && (
        <span>
          {Math.round(ready.parameters / 1000)} thousand parameters, {ready.threads}{" "}
          {ready.threads === 1 ? "thread" : "threads"}
        </span>
      )}
    </p>
  );
}

function Curve({ evaluations, random }: { evaluations: readonly Evaluation[]; random: number | undefined }) {
  const [lines, bands] = useMemo(() => {
    const line = (label: string, colour: number, y: (one: Evaluation) => number | null): Line => ({
      label,
      colour,
      x: evaluations.map(({ seconds }) => Math.round(seconds)),
      y: evaluations.map(y),
    });
    const low = line("low", 1, (one) => one.low);
    const high = line("high", 1, (one) => one.high);
    const begun = evaluations.findIndex(({ phase }) => phase === "reinforce");
    const last = begun < 0 ? evaluations.length : begun;
    // The second line goes on where the first ends.
    const imitating = line("imitating", 2, (one) => (evaluations.indexOf(one) < last ? one.success : null));
    const rewarded = line("learning from reward", 1, (one) =>
      evaluations.indexOf(one) >= last - (begun < 0 ? 0 : 1) ? one.success : null,
    );
    return [[rewarded, imitating, line("with grey frames", 6, (one) => one.grey)], [{ low, high }]] as const;
  }, [evaluations]);
  const marks = random === undefined ? [] : [{ label: "random moves", value: random }];
  return (
    <Chart
      title={`Success on ${HELD_OUT.count} held-out lakes`}
      meaning="Sampled at temperature 1; the band is the 95 % interval."
      unit="share"
      lines={lines}
      bands={bands}
      marks={marks}
      range={[0, 1]}
      height={260}
      sayX={seconds}
    />
  );
}

const seconds = (x: number) => withUnit(x, "s");

function Sight({ evaluation }: { evaluation: Evaluation | undefined }) {
  if (evaluation === undefined) return null;
  const { success, grey, gap } = evaluation;
  const sees = gap > 0.1;
  return (
    <section class={`verdict ${sees ? "good" : ""}`}>
      <h2>{sees ? "It looks at the lake" : "It does not see yet"}</h2>
      <p>
        Its own frames make its replies {gap.toFixed(2)} nats likelier than the frames of another lake. It crosses{" "}
        {percent(success)} of the lakes, and {percent(grey)} when every frame is grey.
      </p>
    </section>
  );
}

/** The curve in figures, for readers of screens and for tests. */
function Figures({ evaluations }: { evaluations: readonly Evaluation[] }) {
  return (
    <div class="unseen">
      <table>
        <caption>Success on held-out lakes</caption>
        <thead>
          <tr>
            {["seconds", "updates", "phase", "success", "grey", "gap"].map((name) => (
              <th key={name}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {evaluations.map(({ seconds, updates, phase, success, grey, gap }) => (
            <tr key={`${updates} ${seconds}`}>
              {[seconds.toFixed(1), updates, phase, success, grey, gap].map((value, i) => (
                <td key={i}>{value}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const root = document.getElementById("app");
// A task of its own: this one has compiled the script and made its modules.
if (root !== null) setTimeout(() => render(<App />, root));
