/**
 * The frame around every page: the bar with the run's name, its state and its tabs, the theme, the help, and which page a link means.
 * A run is followed live from here; its pages only hear that something is new.
 */
import { useEffect, useState } from "preact/hooks";
import type { RunOverview, Source } from "../src/viewer/api.ts";
import { Help, useKeys } from "./keys.tsx";
import { Logo } from "./logo.tsx";
import { ComparePage } from "./pages/compare.tsx";
import { EpisodePage } from "./pages/episode.tsx";
import { EpisodesPage } from "./pages/episodes.tsx";
import { GroupPage } from "./pages/group.tsx";
import { LearnPage } from "./pages/learn.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { PlayPage } from "./pages/play.tsx";
import { RunsPage } from "./pages/runs.tsx";
import { SightPage } from "./pages/sight.tsx";
import { TimelinePage } from "./pages/timeline.tsx";
import { TokensPage } from "./pages/tokens.tsx";
import { Empty, Show, Status } from "./parts.tsx";
import { go, href, type Route, useRoute } from "./route.ts";
import { DarkContext, type Live, SourceContext, useLive, useLoad, useSource, useTheme } from "./use.ts";

/** What every page of a run gets. */
export type RunPageProps = {
  readonly run: string;
  readonly overview: RunOverview;
  readonly route: Route;
  readonly live: Live;
};

const TABS = [
  ["overview", "Overview"],
  ["episodes", "Episodes"],
  ["learn", "Watch it learn"],
  ["sight", "Sight"],
  ["tokens", "Tokens"],
  ["timeline", "Timeline"],
] as const;

/** Pages without a tab of their own light up this one. */
const TAB_OF: Readonly<Record<string, string>> = { episode: "episodes", group: "episodes" };

export function App({ source }: { source: Source }) {
  const route = useRoute();
  const { theme, dark, next } = useTheme();
  const [help, setHelp] = useState(false);
  const run = route.path[0] === "run" ? route.path[1] : undefined;
  useKeys("Everywhere", [
    { keys: ["?"], does: "show or hide this help", run: () => setHelp((open) => !open) },
    { keys: ["t"], does: "theme: as the system, light, dark", run: next },
    { keys: ["r"], does: "all runs", run: () => go(href([])) },
    ...(source.play === undefined ? [] : [{ keys: ["y"], does: "play yourself", run: () => go(href(["play"])) }]),
    { keys: ["/"], does: "search", run: () => document.querySelector<HTMLInputElement>("input[type=search]")?.focus() },
  ]);
  useEffect(() => {
    document.querySelector("main")?.scrollIntoView?.();
    scrollTo(0, 0);
  }, [route.path[0], route.path[1], route.path[2]]);
  return (
    <SourceContext.Provider value={source}>
      <DarkContext.Provider value={dark}>
        <button type="button" class="skip" onClick={focusMain}>
          To the content
        </button>
        <header class="top">
          <a class="brand" href={href([])} aria-label="Saccade, all runs">
            <Logo />
            <span>Saccade</span>
          </a>
          <nav aria-label="Viewer">
            <a href={href([])} aria-current={run === undefined && route.path[0] !== "play" ? "page" : undefined}>
              Runs
            </a>
            {source.play !== undefined && (
              <a href={href(["play"])} aria-current={route.path[0] === "play" ? "page" : undefined}>
                Play
              </a>
            )}
            {source.kind === "http" && <a href="./lab">Lab</a>}
          </nav>
          <span class="space" />
          <button type="button" class="quiet" onClick={next} aria-label={`Theme: ${theme}`} title={`Theme: ${theme}`}>
            {{ auto: "◐", light: "☀", dark: "☾" }[theme]}
          </button>
          <button
            type="button"
            class="quiet"
            onClick={() => setHelp(true)}
            aria-label="Keyboard help"
            title="Keyboard help"
          >
            ?
          </button>
        </header>
        {run === undefined ? (
          <main id="main" tabIndex={-1}>
            <LeftOut notes={source.leftOut} />
            <OutsideRun route={route} />
          </main>
        ) : (
          <RunPages key={run} run={run} route={route} />
        )}
        <Help open={help} close={() => setHelp(false)} />
      </DarkContext.Provider>
    </SourceContext.Provider>
  );
}

function OutsideRun({ route }: { route: Route }) {
  switch (route.path[0]) {
    case undefined:
      return <RunsPage route={route} />;
    case "compare":
      return <ComparePage route={route} />;
    case "play":
      return <PlayPage route={route} />;
    default:
      return <NoSuchPage />;
  }
}

function RunPages({ run, route }: { run: string; route: Route }) {
  const source = useSource();
  const [seen, setSeen] = useState(0);
  const overview = useLoad(() => source.overview(run), [run, seen]);
  const status = overview.value?.status;
  const live = useLive(run, overview.value?.position, source.kind === "http");
  useEffect(() => setSeen(live.events), [live.events]);
  const page = route.path[2] ?? "overview";
  const tab = TAB_OF[page] ?? page;
  useEffect(() => {
    // On a phone the tabs are wider than the screen.
    document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    const word = TABS.find(([name]) => name === tab)?.[1] ?? "Run";
    document.title = `${overview.value?.name ?? run} · ${word} · Saccade`;
  }, [overview.value?.name, tab]);
  useKeys(
    "In a run",
    TABS.map(([name, words], i) => ({ keys: [String(i + 1)], does: words, run: () => go(href(["run", run, name])) })),
  );
  return (
    <>
      <div class="run-bar">
        <div class="run-name">
          <h1>{overview.value?.name ?? run}</h1>
          {status && <Status status={status} />}
          {overview.value && <span class="step">step {overview.value.step}</span>}
          {status === "running" && live.connected && <span class="live">live</span>}
        </div>
        <nav class="tabs" aria-label="Run">
          {TABS.map(([name, words]) => (
            <a key={name} href={href(["run", run, name])} aria-current={tab === name ? "page" : undefined}>
              {words}
            </a>
          ))}
        </nav>
      </div>
      <main id="main" tabIndex={-1}>
        <LeftOut notes={source.leftOut} />
        <Show of={overview}>
          {(value) => <RunPage page={page} run={run} overview={value} route={route} live={live} />}
        </Show>
      </main>
    </>
  );
}

function RunPage({ page, ...props }: RunPageProps & { page: string }) {
  switch (page) {
    case "overview":
      return <OverviewPage {...props} />;
    case "episodes":
      return <EpisodesPage {...props} />;
    case "episode":
      return <EpisodePage {...props} />;
    case "group":
      return <GroupPage {...props} />;
    case "learn":
      return <LearnPage {...props} />;
    case "sight":
      return <SightPage {...props} />;
    case "tokens":
      return props.route.path[3] === undefined ? <EpisodesPage {...props} byDrift /> : <TokensPage {...props} />;
    case "timeline":
      return <TimelinePage {...props} />;
    default:
      return <NoSuchPage />;
  }
}

function NoSuchPage() {
  return (
    <Empty title="Page not found">
      <p>
        Go to <a href={href([])}>all runs</a>.
      </p>
    </Empty>
  );
}

function LeftOut({ notes }: { notes: readonly string[] }) {
  if (notes.length === 0) return null;
  return (
    <details class="missing">
      <summary>This is an exported page: a selection of the run</summary>
      <ul>
        {notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </details>
  );
}

function focusMain(): void {
  document.getElementById("main")?.focus();
}
