/**
 * The episodes of a run that were kept: filter, search, sort, open. With `byDrift` it is the way into the tokens: the episodes of a
 * step in which learner and sampler disagree most come first.
 */
import { useEffect, useState } from "preact/hooks";
import { SORTS, type TrajectoryRow, type TrajectorySort } from "../../src/viewer/api.ts";
import type { RunPageProps } from "../app.tsx";
import { download } from "../download.ts";
import { Filters, filtersOf } from "../filters.tsx";
import { count, number, percent, splitWord, temperatureWord } from "../format.ts";
import { useKeys } from "../keys.tsx";
import { usePages, WindowedList } from "../list.tsx";
import { Advantage, Empty, Frame, Missing, Outcome } from "../parts.tsx";
import { go, href, setQuery } from "../route.ts";
import { useMedia, useSource, wordsOf } from "../use.ts";

const INDEXING_MS = 500;

export function EpisodesPage({ run, route, live, byDrift = false }: RunPageProps & { byDrift?: boolean }) {
  const source = useSource();
  const narrow = useMedia("(max-width: 700px)");
  const [again, setAgain] = useState(0);
  const [chosen, setChosen] = useState(0);
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const wanted = filtersOf(route.query);
  const query = byDrift ? { sort: "drift" as const, ...wanted } : wanted;
  const asked = JSON.stringify(query);
  const {
    newest: info,
    error,
    want,
    row,
  } = usePages(
    (offset, limit) => source.trajectories(run, { ...query, offset, limit }),
    [run, asked, live.trajectories, again],
  );
  useEffect(() => setChosen(0), [asked]);
  useEffect(() => {
    if (info?.indexing === undefined) return;
    const timer = setTimeout(() => setAgain(again + 1), INDEXING_MS);
    return () => clearTimeout(timer);
  }, [info]);

  const total = info?.total ?? 0;
  const toggle = (key: string | undefined) => {
    if (key === undefined) return;
    const next = new Set(picked);
    if (!next.delete(key)) next.add(key);
    setPicked(next);
  };
  const open = (one: TrajectoryRow | undefined) => one && go(linkTo(run, one, byDrift));
  const move = (by: number) => setChosen(Math.max(0, Math.min(total - 1, chosen + by)));
  useKeys("Episodes", [
    { keys: ["ArrowDown", "j"], does: "next episode", run: () => move(1) },
    { keys: ["ArrowUp", "k"], does: "previous episode", run: () => move(-1) },
    { keys: ["Enter"], does: "open it", run: () => open(row(chosen)) },
    { keys: ["s"], does: "sort by another column", run: () => setQuery({ sort: nextSort(query.sort ?? "step") }) },
    { keys: ["x"], does: "choose it", run: () => toggle(row(chosen)?.key) },
  ]);

  if (error !== undefined && info === undefined) {
    return (
      <Empty title="This can't be shown">
        <p>{error}</p>
      </Empty>
    );
  }
  return (
    <div class="page">
      {byDrift && (
        <p class="lead">
          Where learner and sampler disagree most. Open an episode to see each of its tokens; narrow it to one step with
          the filters.
        </p>
      )}
      <Filters query={route.query} facets={info?.facets} />
      <div class="list-head">
        <span role="status">
          {info === undefined
            ? ""
            : info.total === info.all
              ? count(info.all, "episode")
              : `${info.total.toLocaleString("en")} of ${count(info.all, "episode")}`}
          {info?.indexing && ` · reading the run, ${percent(info.indexing.done / Math.max(1, info.indexing.total))}`}
        </span>
        <span class="space" />
        <label class="inline">
          Sort by
          <select value={query.sort ?? "step"} onChange={(event) => setQuery({ sort: event.currentTarget.value })}>
            {SORTS.map((sort) => (
              <option key={sort}>{sort}</option>
            ))}
          </select>
        </label>
        <button
          type="button"
          class="quiet"
          aria-label={query.order === "asc" ? "Lowest first; turn around" : "Highest first; turn around"}
          onClick={() => setQuery({ order: query.order === "asc" ? undefined : "asc" })}
        >
          {query.order === "asc" ? "↑" : "↓"}
        </button>
      </div>
      <Missing notes={info?.missing ?? []} />
      {picked.size > 0 && <Chosen run={run} keys={[...picked]} clear={() => setPicked(new Set())} />}
      {total > 0 && <Heads sort={query.sort ?? "step"} rising={query.order === "asc"} byDrift={byDrift} />}
      {info === undefined ? (
        <div class="loading" role="status" aria-label="Loading" />
      ) : total === 0 ? (
        <Empty title={info.all === 0 ? "No episodes were kept yet" : "No episode matches"}>
          <p>{info.all === 0 ? "They appear here as the run plays." : "Loosen the filters."}</p>
        </Empty>
      ) : (
        <WindowedList
          count={total}
          rowHeight={narrow ? 92 : 64}
          label="Episodes"
          chosen={chosen}
          onView={want}
          row={(i) => (
            <div class="pick-row">
              <input
                type="checkbox"
                checked={picked.has(row(i)?.key ?? "")}
                onChange={() => toggle(row(i)?.key)}
                aria-label={`Choose ${row(i)?.id ?? "this episode"}`}
              />
              <EpisodeRow run={run} row={row(i)} byDrift={byDrift} />
            </div>
          )}
        />
      )}
    </div>
  );
}

/** What is made of the chosen episodes. */
function Chosen({ run, keys, clear }: { run: string; keys: readonly string[]; clear: () => void }) {
  const { write } = useSource();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const make = async (what: () => Promise<Blob>, name: string) => {
    setBusy(true);
    try {
      download(await what(), name);
      setProblem(undefined);
    } catch (error) {
      setProblem(wordsOf(error));
    }
    setBusy(false);
  };
  return (
    <div class="panel chosen-bar">
      <strong>{count(keys.length, "episode")} chosen</strong>
      {write !== undefined && (
        <span class="buttons">
          <button
            type="button"
            disabled={busy}
            onClick={() => make(() => write.demonstrations(run, keys), `${run}-demonstrations.jsonl`)}
          >
            As demonstrations
          </button>
          <button type="button" disabled={busy} onClick={() => make(() => write.film(run, keys), `${run}.gif`)}>
            As a film
          </button>
        </span>
      )}
      <button type="button" class="quiet" onClick={clear}>
        Clear
      </button>
      {problem !== undefined && <span role="alert">{problem}</span>}
    </div>
  );
}

const HEADS: readonly (readonly [TrajectorySort, string])[] = [
  ["env", "Environment"],
  ["step", "Step"],
  ["outcome", "Outcome"],
  ["reward", "Reward"],
  ["turns", "Turns"],
];

/** Over the columns of the rows: a click sorts, another turns it around. */
function Heads({ sort, rising, byDrift }: { sort: TrajectorySort; rising: boolean; byDrift: boolean }) {
  return (
    <fieldset class="episode-heads">
      <legend class="unseen">Sort by</legend>
      <span />
      {[...HEADS, byDrift ? (["drift", "Drift"] as const) : (["advantage", "Advantage"] as const)].map(
        ([name, words]) => (
          <button
            key={name}
            type="button"
            class="quiet"
            aria-pressed={sort === name}
            onClick={() => setQuery({ sort: name, order: sort === name && !rising ? "asc" : undefined })}
          >
            {words}
            {sort === name && <span aria-hidden="true">{rising ? "↑" : "↓"}</span>}
          </button>
        ),
      )}
    </fieldset>
  );
}

function nextSort(sort: TrajectorySort): TrajectorySort {
  return SORTS[(SORTS.indexOf(sort) + 1) % SORTS.length] as TrajectorySort;
}

export function linkTo(run: string, row: Pick<TrajectoryRow, "key">, tokens = false): string {
  return href(["run", run, tokens ? "tokens" : "episode", row.key]);
}

export function EpisodeRow(props: { run: string; row: TrajectoryRow | undefined; byDrift?: boolean; note?: string }) {
  const { run, row, byDrift = false, note } = props;
  if (row === undefined) return <span class="episode-row waiting" />;
  return (
    <a class="episode-row" href={linkTo(run, row, byDrift)}>
      <Frame run={run} hash={row.firstFrame} alt="first frame" class="thumb" />
      <Frame run={run} hash={row.lastFrame} alt="last frame" class="thumb" />
      <span class="names">
        <strong>{row.env}</strong>
        <small>
          seed {row.seed} · sibling {row.sibling}
          {row.label && ` · ${row.label}`}
          {row.comment && " · ✎"}
          {row.split !== "train" && ` · ${splitWord(row.split)}, ${temperatureWord(row.temperature)}`}
        </small>
      </span>
      <span class="cell step">step {row.step}</span>
      <Outcome row={row} />
      <span class="cell" title="reward">
        {number(row.reward)}
      </span>
      <span class="cell turn-count">
        {count(row.turns, "turn")}
        {row.parseFailures > 0 && <em title="replies not understood"> · {row.parseFailures} unread</em>}
      </span>
      <span class="cell last">
        {note ??
          (byDrift ? (
            `drift ${number(row.drift)}`
          ) : row.advantage === undefined ? (
            ""
          ) : (
            <Advantage value={row.advantage} />
          ))}
      </span>
    </a>
  );
}
