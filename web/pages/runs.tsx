/** All runs of the folder: search them, open one, or choose several and compare. */
import { useEffect, useState } from "preact/hooks";
import type { RunListItem } from "../../src/viewer/api.ts";
import { ago, count, isNumber, signed } from "../format.ts";
import { useKeys } from "../keys.tsx";
import { Empty, Missing, marksOf, Show, Status, Success } from "../parts.tsx";
import { go, href, type Route, setQuery } from "../route.ts";
import { useInterval, useLoad, useSource } from "../use.ts";
import { MAX_RUNS } from "./compare.tsx";

const REFRESH_MS = 4000;

export function RunsPage({ route }: { route: Route }) {
  const source = useSource();
  const [tick, setTick] = useState(0);
  const runs = useLoad(() => source.runs(), [tick]);
  const [chosen, setChosen] = useState(0);
  const [picked, setPicked] = useState<readonly string[]>([]);
  useInterval(() => setTick(tick + 1), REFRESH_MS, source.kind === "http");
  useEffect(() => {
    document.title = "Runs · Saccade";
  }, []);

  const search = route.query.get("q") ?? "";
  const shown = (runs.value?.runs ?? []).filter((run) => matches(run, search));
  const current = shown[Math.min(chosen, shown.length - 1)];
  const pick = (id: string) =>
    setPicked((now) => (now.includes(id) ? now.filter((other) => other !== id) : [...now, id].slice(0, MAX_RUNS)));
  const compare = () => picked.length > 0 && go(compareLink(picked));
  useKeys("Runs", [
    { keys: ["ArrowDown", "j"], does: "next run", run: () => setChosen(Math.min(shown.length - 1, chosen + 1)) },
    { keys: ["ArrowUp", "k"], does: "previous run", run: () => setChosen(Math.max(0, chosen - 1)) },
    { keys: ["Enter"], does: "open it", run: () => current && go(href(["run", current.id])) },
    { keys: ["x"], does: "choose it for comparison", run: () => current && pick(current.id) },
    { keys: ["c"], does: "compare the chosen runs", run: compare },
  ]);

  return (
    <Show of={runs}>
      {(value) => (
        <div class="page runs-page">
          <div class="page-head">
            <h1>Runs</h1>
            <span class="faint">{value.folder}</span>
            <span class="space" />
            <input
              type="search"
              placeholder="Search runs"
              aria-label="Search runs"
              value={search}
              onInput={(event) => setQuery({ q: event.currentTarget.value })}
            />
            <button type="button" class="primary" disabled={picked.length < 2} onClick={compare}>
              Compare{picked.length > 1 ? ` ${picked.length}` : ""}
            </button>
          </div>
          <Missing notes={value.missing} />
          {shown.length === 0 ? (
            <Empty title={value.runs.length === 0 ? "No runs here yet" : "No run matches"}>
              <p>
                {value.runs.length === 0
                  ? `Start one with “saccade train”, or point the viewer at another folder than ${value.folder}.`
                  : "Clear the search to see all."}
              </p>
            </Empty>
          ) : (
            <ul class="run-list" aria-label="Runs">
              {shown.map((run) => (
                <RunCard
                  key={run.id}
                  run={run}
                  chosen={run === current}
                  picked={picked.includes(run.id)}
                  full={picked.length >= MAX_RUNS}
                  pick={() => pick(run.id)}
                />
              ))}
            </ul>
          )}
        </div>
      )}
    </Show>
  );
}

function RunCard(props: { run: RunListItem; chosen: boolean; picked: boolean; full: boolean; pick: () => void }) {
  const { run, chosen, picked, full } = props;
  const { metrics } = run;
  const evaluated = isNumber(metrics["eval/success"]);
  const failed = metrics["eval/failed"] ?? 0;
  const gap = metrics["sight/gap"];
  const blind = isNumber(gap) && (metrics["sight/gap_low"] ?? 1) <= 0;
  return (
    <li class={`run-card ${chosen ? "chosen" : ""}`}>
      <label class="pick" title={full && !picked ? `At most ${MAX_RUNS} are compared` : "Choose for comparison"}>
        <input
          type="checkbox"
          checked={picked}
          disabled={full && !picked}
          onChange={props.pick}
          aria-label={`Compare ${run.name}`}
        />
      </label>
      <a href={href(["run", run.id])}>
        <span class="names">
          <strong>{run.name}</strong>
          <small>{run.id === run.name ? "" : run.id}</small>
        </span>
        <Status status={run.status} />
        <span class="when">
          step {run.step} · {ago(run.updated)}
        </span>
        <Success
          label={evaluated ? "Evaluation success" : "Training success"}
          value={evaluated ? metrics["eval/success"] : metrics["train/success"]}
          low={metrics["eval/success_low"] ?? null}
          high={metrics["eval/success_high"] ?? null}
          marks={marksOf(metrics)}
        />
        <span class="sight-word">
          {failed > 0 && (
            <span class="chip bad">
              {failed} of {metrics["eval/asked"]} failed
            </span>
          )}
          {isNumber(gap) && (
            <span class={`chip ${blind ? "bad" : "plain"}`}>{blind ? "blind" : `sight ${signed(gap)}`}</span>
          )}
        </span>
      </a>
      {(run.message || run.missing.length > 0) && (
        <p class="run-note">{run.message ?? count(run.missing.length, "thing is missing", "things are missing")}</p>
      )}
    </li>
  );
}

function matches(run: RunListItem, search: string): boolean {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${run.name} ${run.id} ${run.status} ${run.message ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

export function compareLink(runs: readonly string[]): string {
  return href(["compare"], { run: runs });
}
