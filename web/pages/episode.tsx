/**
 * One episode as a film strip: a row for each turn with the frame the model saw, what it said (the action marked), what it was told and
 * what it earned; beside it the current frame, large. The link holds run, trajectory and turn.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import type { TrajectoryReply, TurnRecord } from "../../src/viewer/api.ts";
import type { RunPageProps } from "../app.tsx";
import { count, duration, number, signed, splitWord, temperatureWord } from "../format.ts";
import { useKeys } from "../keys.tsx";
import { Commands } from "../notes.tsx";
import { Actions, Advantage, Choice, Frame, Outcome, partsOf, Reply, Show } from "../parts.tsx";
import { go, href, replace, setQuery } from "../route.ts";
import { useInterval, useLoad, useMedia, useSource, wordsOf } from "../use.ts";
import { Pointed } from "./click.tsx";

const PLAY_MS = 600;

export function EpisodePage(props: RunPageProps) {
  const source = useSource();
  const key = props.route.path[3] ?? "";
  const reply = useLoad(() => source.trajectory(props.run, key), [props.run, key]);
  return <Show of={reply}>{(value) => <FilmStrip {...props} reply={value} />}</Show>;
}

function FilmStrip({ run, route, reply }: RunPageProps & { reply: TrajectoryReply }) {
  const source = useSource();
  const { row, record, siblings, previous, next, missingFrames } = reply;
  const shots = shotsOf(record);
  const last = shots.length - 1;
  // Conversations of a program stand side by side.
  const columns = Math.max(1, ...record.turns.map(({ request }) => (request?.conversation ?? 0) + 1));
  const turn = Math.max(0, Math.min(last, Number(route.path[4] ?? 0) || 0));
  const drawn = route.query.get("frames") === "env" ? "env" : "model";
  const [playing, setPlaying] = useState(false);
  const differs = record.turns.some(
    ({ frames, modelFrames }) => modelFrames !== undefined && modelFrames.join() !== frames.join(),
  );
  const to = (wanted: number) => {
    // While the next episode loads, the old one is still shown; its turns are not those of the link.
    if (row.key !== route.path[3]) return;
    replace(
      href(["run", run, "episode", row.key, Math.max(0, Math.min(last, wanted))], Object.fromEntries(route.query)),
    );
  };
  const toEpisode = (other: string | undefined) =>
    other !== undefined && go(href(["run", run, "episode", other], Object.fromEntries(route.query)));
  useInterval(() => (turn >= last ? setPlaying(false) : to(turn + 1)), PLAY_MS, playing);
  const play = () => {
    if (!playing && turn >= last) to(0);
    setPlaying(!playing);
  };
  const toggle = () => setQuery({ frames: drawn === "env" ? undefined : "env" });
  const links = {
    group: href(["run", run, "group", row.key]),
    tokens: href(["run", run, "tokens", row.key]),
    play: href(["play"], { run, key: row.key, turn }),
    // Evaluations play it again and again: films side by side. Of others, the list.
    seed:
      row.split === "eval"
        ? href(["run", run, "learn"], { pin: `${row.env} ${row.seed} ${row.temperature}` })
        : href(["run", run, "episodes"], { env: row.env, seed: row.seed }),
  };
  useKeys("Episode", [
    { keys: ["ArrowRight", "ArrowDown", "j"], does: "next turn", run: () => to(turn + 1) },
    { keys: ["ArrowLeft", "ArrowUp", "k"], does: "previous turn", run: () => to(turn - 1) },
    { keys: ["Home"], does: "first turn", run: () => to(0) },
    { keys: ["End"], does: "after the last turn", run: () => to(last) },
    { keys: [" "], does: "play or pause", run: play },
    { keys: ["f"], does: "frames: what the model saw, or what the environment drew", run: toggle },
    { keys: ["n"], does: "next episode", run: () => toEpisode(next) },
    { keys: ["p"], does: "previous episode", run: () => toEpisode(previous) },
    { keys: ["g"], does: "its group", run: () => go(links.group) },
    { keys: ["o"], does: "its tokens", run: () => row.hasTokens && go(links.tokens) },
    ...(source.play ? [{ keys: ["x"], does: "take over from this turn", run: () => go(links.play) }] : []),
  ]);
  const gif = source.gifUrl(run, row.key, drawn);
  const now = shots[turn];
  return (
    <div class="page episode-page">
      <div class="page-head">
        <h2>
          {record.env} <span class="faint">seed {record.seed}</span>
        </h2>
        <Outcome row={row} />
        <span class="chip plain">
          reward {number(record.reward)}
          {record.program?.paidBy !== undefined && `, ${PAID_BY[record.program.paidBy] ?? record.program.paidBy}`}
        </span>
        <Advantage value={record.advantage?.mean} />
        <span class="faint">
          step {record.step} · sibling {record.sibling} · {splitWord(record.split)},{" "}
          {temperatureWord(record.temperature)} · {count(record.turns.length, "turn")}
        </span>
        <span class="space" />
        <span class="buttons">
          <button
            type="button"
            disabled={previous === undefined}
            onClick={() => toEpisode(previous)}
            aria-label="Previous episode"
            title="Previous episode (p)"
          >
            ←
          </button>
          <button
            type="button"
            disabled={next === undefined}
            onClick={() => toEpisode(next)}
            aria-label="Next episode"
            title="Next episode (n)"
          >
            →
          </button>
          <a class="button" href={links.group}>
            Group{siblings.length > 1 ? ` of ${siblings.length}` : ""}
          </a>
          {row.hasTokens && (
            <a class="button" href={links.tokens}>
              Tokens
            </a>
          )}
          <a class="button" href={links.seed} title="What the policy did with this seed at other steps">
            Same seed
          </a>
          {source.play && record.program === undefined && (
            <a class="button" href={links.play}>
              Take over
            </a>
          )}
          {gif !== undefined && (
            <a class="button" href={gif} download={`${record.env.replaceAll("/", "-")}-${record.seed}.gif`}>
              GIF
            </a>
          )}
        </span>
      </div>
      {record.error !== undefined && <p class="alarm stop">{record.error}</p>}
      {record.judge?.error !== undefined && <p class="alarm">The judge paid nothing: {record.judge.error}</p>}
      {missingFrames.length > 0 && (
        <p class="faint">{count(missingFrames.length, "frame is", "frames are")} not stored.</p>
      )}
      <div class="strip">
        <div class="screen">
          <Pointed marks={now?.turn?.marks} from={shots[turn - 1]?.turn?.marks}>
            <Frame run={run} hash={imageOf(now, drawn)} alt={`turn ${turn}`} class="large" />
          </Pointed>
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
              aria-valuetext={turn === last && shots[last]?.turn === undefined ? "after the last turn" : `turn ${turn}`}
              onInput={(event) => to(Number(event.currentTarget.value))}
            />
            <output>
              {Math.min(turn + 1, record.turns.length)}/{record.turns.length}
            </output>
          </div>
          <Notches shots={shots} turn={turn} to={to} />
          {differs && (
            <Choice
              label="Frames"
              value={drawn}
              options={[
                ["model", "What the model saw"],
                ["env", "What was drawn"],
              ]}
              choose={(value) => setQuery({ frames: value === "env" ? value : undefined })}
            />
          )}
        </div>
        <ol
          class={columns > 1 ? "turns columns" : "turns"}
          aria-label="Turns"
          style={columns > 1 ? { gridTemplateColumns: `repeat(${columns}, minmax(18rem, 1fr))` } : {}}
        >
          {shots.map((shot, i) => (
            <Shot
              key={shot.key}
              run={run}
              shot={shot}
              index={i}
              current={i === turn}
              drawn={drawn}
              choose={() => to(i)}
            />
          ))}
        </ol>
      </div>
      <EpisodeNotes run={run} row={row} />
      <Commands commands={[reply.command]} />
      {record.program !== undefined && record.program.log.length > 0 && (
        <details class="log" open={record.error !== undefined}>
          <summary>{count(record.program.log.length, "line")} of the program</summary>
          <pre>{record.program.log.join("\n")}</pre>
        </details>
      )}
    </div>
  );
}

/** A label to filter by and a comment to read, saved when a field is left. */
function EpisodeNotes({ run, row }: { run: string; row: TrajectoryReply["row"] }) {
  const { write } = useSource();
  const [note, setNote] = useState({ label: row.label ?? "", comment: row.comment ?? "" });
  const [saved, setSaved] = useState<string | undefined>(undefined);
  useEffect(() => {
    setNote({ label: row.label ?? "", comment: row.comment ?? "" });
    setSaved(undefined);
  }, [row.key]);
  if (write === undefined) {
    return note.label === "" && note.comment === "" ? null : (
      <p>
        {note.label !== "" && <span class="chip plain">{note.label}</span>} {note.comment}
      </p>
    );
  }
  const save = () =>
    write.label(run, row.key, note).then(
      () => setSaved("saved"),
      (error: unknown) => setSaved(wordsOf(error)),
    );
  return (
    <div class="episode-note">
      <label>
        <span>Label</span>
        <input
          type="text"
          value={note.label}
          maxLength={40}
          placeholder="a word to filter by"
          onInput={(event) => setNote({ ...note, label: event.currentTarget.value })}
          onBlur={save}
          onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()}
        />
      </label>
      <label>
        <span>Comment</span>
        <textarea
          rows={2}
          value={note.comment}
          maxLength={4000}
          onInput={(event) => setNote({ ...note, comment: event.currentTarget.value })}
          onBlur={save}
        />
      </label>
      <span role="status" class="faint">
        {saved}
      </span>
    </div>
  );
}

/** Who said what a program earned. */
const PAID_BY: Readonly<Record<string, string>> = {
  run: "returned by the agent",
  post: "posted by the program",
  output: "the program's last line",
  reward: "by its reward function",
};

/** A turn, or (without `turn`) what was shown after the last reply. */
type ShotData = {
  readonly key: number;
  readonly turn?: TurnRecord;
  readonly frames: readonly string[];
  readonly modelFrames: readonly string[];
  readonly observation: string;
};

function shotsOf({ turns, final }: TrajectoryReply["record"]): ShotData[] {
  const shots = turns.map(
    (turn, key): ShotData => ({
      key,
      turn,
      frames: turn.frames,
      modelFrames: turn.modelFrames ?? turn.frames,
      observation: turn.observation,
    }),
  );
  if (final !== undefined && (final.frames.length > 0 || final.observation !== "")) {
    shots.push({ key: turns.length, frames: final.frames, modelFrames: final.frames, observation: final.observation });
  }
  return shots.length > 0 ? shots : [{ key: 0, frames: [], modelFrames: [], observation: "No turn was played." }];
}

function imageOf(shot: ShotData | undefined, drawn: "model" | "env"): string | undefined {
  return (drawn === "env" ? shot?.frames : shot?.modelFrames)?.at(0);
}

/** One mark a turn under the scrub bar: reward, unread replies, refused actions. */
function Notches({ shots, turn, to }: { shots: readonly ShotData[]; turn: number; to: (turn: number) => void }) {
  return (
    <div class="notches" aria-hidden="true">
      {shots.map((shot, i) => {
        const kind = !shot.turn
          ? "end"
          : !shot.turn.parsed
            ? "bad"
            : shot.turn.reward > 0
              ? "good"
              : shot.turn.valid
                ? ""
                : "warn";
        return (
          <button
            key={shot.key}
            type="button"
            tabIndex={-1}
            class={`${kind} ${i === turn ? "now" : ""}`}
            onClick={() => to(i)}
          />
        );
      })}
    </div>
  );
}

function Shot(props: {
  run: string;
  shot: ShotData;
  index: number;
  current: boolean;
  drawn: "model" | "env";
  choose: () => void;
}) {
  const { run, shot, index, current, drawn } = props;
  const { turn } = shot;
  const element = useRef<HTMLLIElement>(null);
  const first = useRef(true);
  // On a phone the large frame is above the strip and must stay in view.
  const narrow = useMedia("(max-width: 700px)");
  useEffect(() => {
    if (current && !narrow && !(first.current && index === 0)) element.current?.scrollIntoView({ block: "nearest" });
    first.current = false;
  }, [current]);
  const told = shot.observation.replaceAll("<image>", "").trim();
  return (
    <li
      ref={element}
      class={`shot ${current ? "current" : ""}`}
      aria-current={current ? "step" : undefined}
      style={{ gridColumn: String((turn?.request?.conversation ?? 0) + 1) }}
    >
      <button
        type="button"
        class="pick-shot"
        onClick={props.choose}
        aria-label={turn ? `Turn ${index}` : "end, after the last turn"}
      >
        <Frame run={run} hash={imageOf(shot, drawn)} alt="" class="medium" />
        <span class="turn-number">{turn ? index : "end"}</span>
      </button>
      <div class="said">
        {turn?.request === undefined ? <Told text={told} /> : <Sent request={turn.request} run={run} />}
        {turn && <Reply turn={turn} />}
        {turn && (
          <p class="read">
            <Actions turn={turn} />
            {!turn.wellFormed && turn.parsed && <span class="chip warn">not well formed</span>}
            {turn.stopReason === "length" && <span class="chip warn">cut off</span>}
          </p>
        )}
        {turn?.feedback !== undefined && <p class="feedback">{turn.feedback}</p>}
      </div>
      {turn && (
        <dl class="earned">
          <Pair name="reward" value={signed(turn.reward)} strong={turn.reward !== 0} />
          {partsOf(turn.rewards).map(([name, value]) => (
            <Pair key={name} name={name} value={signed(value)} part />
          ))}
          <Pair name="return" value={number(turn.return)} />
          <Pair name="version" value={turn.version < 0 ? "–" : String(turn.version)} />
          {turn.sight !== undefined && <Pair name="sight" value={signed(turn.sight)} />}
          <Pair name="sampled in" value={duration(turn.sampleMs)} />
        </dl>
      )}
    </li>
  );
}

/** What a program sent, message by message, with images where they were. */
function Sent({ request, run }: { request: NonNullable<TurnRecord["request"]>; run: string }) {
  return (
    <>
      {request.messages.map(({ role, text, frames }, i) => (
        <div key={i} class="sent">
          <span class="chip plain">{role}</span>
          <Told text={text.replaceAll("<image>", "").trim()} />
          {frames.map((hash) => (
            <Frame key={hash} run={run} hash={hash} alt={`image of the ${role}`} class="thumb" />
          ))}
        </div>
      ))}
      <p class="faint">
        conversation {request.conversation + 1}, {request.wire}
      </p>
    </>
  );
}

/** What the agent was told before its reply; a long prompt is folded. */
function Told({ text }: { text: string }) {
  if (text === "") return null;
  if (text.length < 160) return <p class="told">{text}</p>;
  return (
    <details class="told">
      <summary>{text.split("\n")[0]}</summary>
      <p>{text}</p>
    </details>
  );
}

function Pair(props: { name: string; value: string; strong?: boolean; part?: boolean }) {
  const { name, value, strong = false, part = false } = props;
  return (
    <div class={strong ? "strong" : part ? "part" : ""}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
