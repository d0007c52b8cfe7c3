/**
 * Watch it learn: one evaluation seed at every evaluation, side by side. All films run together, turn by turn, so that the eye can
 * see what the policy at step 40 does where the one at step 0 went wrong.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Episode, EvaluatedSeed, PinnedReply } from "../../src/viewer/api.ts";
import type { RunPageProps } from "../app.tsx";
import { count, number, temperatureWord } from "../format.ts";
import { useKeys } from "../keys.tsx";
import { Actions, Empty, Frame, Outcome, Reply, Show } from "../parts.tsx";
import { href, setQuery } from "../route.ts";
import { useInterval, useLoad, useSource } from "../use.ts";

const PLAY_MS = 700;

export function LearnPage({ run, route, live }: RunPageProps) {
  const source = useSource();
  const seeds = useLoad(() => source.evaluations(run), [run, live.trajectories]);
  return (
    <Show of={seeds}>
      {(value) => {
        if (value.seeds.length === 0) {
          return (
            <Empty title="No evaluation was kept yet">
              <p>Each evaluation plays the same seeds; they appear here after the first one.</p>
            </Empty>
          );
        }
        const asked = value.seeds.findIndex((seed) => idOf(seed) === route.query.get("pin"));
        const index = asked >= 0 ? asked : mostTelling(value.seeds);
        return (
          <Pinned
            run={run}
            seeds={value.seeds}
            index={index}
            search={route.query.get("q") ?? ""}
            fresh={live.trajectories}
          />
        );
      }}
    </Show>
  );
}

/** The seed that was failed longest and is solved now. */
function mostTelling(seeds: readonly EvaluatedSeed[]): number {
  const firsts = seeds.map(({ successes }) => (successes.at(-1) ? successes.indexOf(true) : -1));
  return firsts.indexOf(Math.max(...firsts));
}

function idOf({ env, seed, temperature }: EvaluatedSeed): string {
  return `${env} ${seed} ${temperature}`;
}

function Pinned(props: { run: string; seeds: readonly EvaluatedSeed[]; index: number; search: string; fresh: number }) {
  const { run, seeds, index, search, fresh } = props;
  const source = useSource();
  const pin = seeds[index] as EvaluatedSeed;
  const pinned = useLoad(() => source.pinned(run, pin.env, pin.seed, pin.temperature), [run, idOf(pin), fresh]);
  const choose = (wanted: number) => {
    const seed = seeds[(wanted + seeds.length) % seeds.length];
    if (seed !== undefined) setQuery({ pin: idOf(seed) });
  };
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => showChosen(list.current), [idOf(pin)]);
  useKeys("Watch it learn", [
    { keys: ["ArrowDown", "j"], does: "next seed", run: () => choose(index + 1) },
    { keys: ["ArrowUp", "k"], does: "previous seed", run: () => choose(index - 1) },
  ]);
  return (
    <div class="page learn-page">
      <section class="seeds" aria-label="Evaluation seeds">
        <h2>Seeds</h2>
        <input
          type="search"
          placeholder="Environment or seed"
          aria-label="Search seeds"
          value={search}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
        />
        <ul ref={list}>
          {seeds.map((seed, i) => (
            <li key={idOf(seed)} hidden={!idOf(seed).includes(search.trim())}>
              <button type="button" aria-pressed={i === index} onClick={() => choose(i)}>
                <span class="names">
                  <strong>{seed.env}</strong>
                  <small>
                    seed {seed.seed} · {seed.temperature === 0 ? "greedy" : "sampled"}
                  </small>
                </span>
                <span
                  class="dots"
                  role="img"
                  aria-label={`solved at ${seed.successes.filter(Boolean).length} of ${seed.steps.length} evaluations`}
                >
                  {seed.successes.map((success, place) => (
                    <i key={seed.steps[place]} class={success ? "yes" : "no"} title={`step ${seed.steps[place]}`} />
                  ))}
                </span>
              </button>
            </li>
          ))}
        </ul>
      </section>
      <Show of={pinned}>{(value) => <Films run={run} pinned={value} />}</Show>
    </div>
  );
}

/** Scrolls the list alone: the page stays where it is. */
function showChosen(list: HTMLElement | null): void {
  const chosen = list?.querySelector('[aria-pressed="true"]');
  if (!list || !chosen) return;
  const [seen, place] = [list.getBoundingClientRect(), chosen.getBoundingClientRect()];
  list.scrollTop += Math.min(0, place.top - seen.top) + Math.max(0, place.bottom - seen.bottom);
  list.scrollLeft += Math.min(0, place.left - seen.left) + Math.max(0, place.right - seen.right);
}

function Films({ run, pinned }: { run: string; pinned: PinnedReply }) {
  const last = Math.max(1, ...pinned.episodes.map(({ record }) => record.turns.length));
  const [turn, setTurn] = useState(0);
  const [playing, setPlaying] = useState(false);
  useEffect(() => setTurn(0), [pinned.env, pinned.seed, pinned.temperature]);
  const to = (wanted: number) => setTurn(Math.max(0, Math.min(last, wanted)));
  const play = () => {
    if (!playing && turn >= last) setTurn(0);
    setPlaying(!playing);
  };
  useInterval(() => (turn >= last ? setPlaying(false) : to(turn + 1)), PLAY_MS, playing);
  useKeys("Films", [
    { keys: ["ArrowRight"], does: "next turn in all films", run: () => to(turn + 1) },
    { keys: ["ArrowLeft"], does: "previous turn in all films", run: () => to(turn - 1) },
    { keys: [" "], does: "play or pause", run: play },
  ]);
  return (
    <section class="films" aria-label="Episodes of this seed">
      <div class="page-head">
        <h2>
          {pinned.env}{" "}
          <span class="faint">
            seed {pinned.seed}, {temperatureWord(pinned.temperature)}
          </span>
        </h2>
      </div>
      <div class="scrub">
        <button type="button" class="primary" onClick={play} aria-label={playing ? "Pause" : "Play"}>
          {playing ? "❚❚" : "▶"}
        </button>
        <input
          type="range"
          min="0"
          max={last}
          value={turn}
          aria-label="Turn"
          onInput={(event) => to(Number(event.currentTarget.value))}
        />
        <output>{turn >= last ? "end" : `turn ${turn}`}</output>
      </div>
      <ol class="film-grid">
        {pinned.episodes.map((episode) => (
          <Film key={episode.row.key} run={run} episode={episode} turn={turn} />
        ))}
      </ol>
    </section>
  );
}

function Film({ run, episode, turn }: { run: string; episode: Episode; turn: number }) {
  const { row, record } = episode;
  const played = record.turns[turn];
  const over = played === undefined;
  const frame = over ? (record.final?.frames[0] ?? row.lastFrame) : played.frames[0];
  return (
    <li class={`film ${over ? "over" : ""} ${row.success ? "solved" : ""}`}>
      <a href={href(["run", run, "episode", row.key, Math.min(turn, record.turns.length)])}>
        <header>
          <strong>step {row.step}</strong>
          <Outcome row={row} />
        </header>
        <Frame run={run} hash={frame} alt={`step ${row.step}, turn ${turn}`} class="film-frame" />
        <div class="film-said">
          {played === undefined ? (
            <p class="faint">
              {row.success ? "Solved" : "Over"} after {count(record.turns.length, "turn")}, reward {number(row.reward)}
            </p>
          ) : (
            <>
              <p class="read">
                <Actions turn={played} />
              </p>
              <Reply turn={played} />
            </>
          )}
        </div>
      </a>
    </li>
  );
}
