/**
 * Play an environment yourself: the same image, the same words, the same limits as the model has. Start a fresh episode from any seed,
 * or take over a saved one from a turn (`#/play?run=…&key=…&turn=…`). Arrow keys and letters work where the environment has such moves.
 * Or let a model move (`&model=…`): what it would do stands beside the board, and at any turn the person takes over or hands back.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import type {
  ActRequest,
  EnvChoice,
  PlayPart,
  PlayRequest,
  PlaySource,
  PlayState,
  Thought,
} from "../../src/viewer/api.ts";
import { count, duration, number, percent, signed } from "../format.ts";
import { useKeys } from "../keys.tsx";
import { Choice, Empty, Show } from "../parts.tsx";
import { type Route, setQuery } from "../route.ts";
import { useLoad, useSource, wordsOf } from "../use.ts";

/** Between two moves of a model that plays on, so that an eye can follow. */
const MOVE_MS = 500;
const MOST_LIKELY = 12;
const PROTOCOLS = ["tuple", "keyword", "think", "world-model", "tool-call"];
const ARROWS = { left: "ArrowLeft", right: "ArrowRight", up: "ArrowUp", down: "ArrowDown" } as const;

export function PlayPage({ route }: { route: Route }) {
  const source = useSource();
  useEffect(() => {
    document.title = "Play · Saccade";
  }, []);
  if (source.play === undefined) {
    return (
      <Empty title="An exported page can't play">
        <p>Run “saccade view” to play environments.</p>
      </Empty>
    );
  }
  return <Table play={source.play} route={route} />;
}

function Table({ play, route }: { play: PlaySource; route: Route }) {
  const envs = useLoad(() => play.envs(), []);
  const [state, setState] = useState<PlayState | undefined>(undefined);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const busy = useRef(false);
  const session = useRef<string | undefined>(undefined);
  const generation = useRef(0);
  const stop = (old: string) => play.stop(old).catch(() => undefined);
  /** Ends the session; answers to what was asked before no longer count. */
  const end = async () => {
    generation.current++;
    busy.current = false;
    const old = session.current;
    session.current = undefined;
    if (old !== undefined) await stop(old);
  };
  const ask = async (question: () => Promise<PlayState>, late?: (answer: PlayState) => void) => {
    const asked = generation.current;
    busy.current = true;
    try {
      const next = await question();
      if (asked !== generation.current) return late?.(next);
      session.current = next.session;
      setState(next);
      setProblem(undefined);
    } catch (error) {
      if (asked !== generation.current) return;
      setProblem(wordsOf(error));
      // What is shown was ended for a start that failed.
      if (session.current === undefined) setState(undefined);
    }
    busy.current = false;
  };
  const start = (request: PlayRequest) => {
    const ended = end();
    ask(
      async () => {
        await ended;
        return play.start(request);
      },
      (answer) => stop(answer.session),
    );
  };
  const saved = savedOf(route.query);
  useEffect(() => {
    if (saved !== undefined) start(saved);
    else if (route.query.has("env")) start(freshOf(route.query));
    return () => {
      end();
      setState(undefined);
    };
  }, [JSON.stringify(saved)]);
  const act = (request: ActRequest) => {
    if (state !== undefined && !busy.current) ask(() => play.act(state.session, request));
  };
  const startChosen = () => {
    // From a saved episode the new link starts the chosen one already.
    if (saved === undefined) start(freshOf(parse()));
  };
  return (
    <div class="page play-page">
      <h1 class="unseen">Play</h1>
      <Show of={envs}>{(value) => <Setup envs={value.envs} query={route.query} start={startChosen} />}</Show>
      {problem !== undefined && (
        <p class="alarm" role="alert">
          {problem}
        </p>
      )}
      {state?.warning !== undefined && <p class="alarm">{state.warning}</p>}
      {state === undefined ? (
        <Empty title="Choose an environment and start">
          <p>You see what a model sees, and may do what it may do.</p>
        </Empty>
      ) : (
        <Board
          play={play}
          state={state}
          act={act}
          failed={problem !== undefined}
          model={route.query.get("model") ?? undefined}
          greedy={route.query.get("greedy") !== "false"}
          again={() => start(saved ?? { env: state.env, seed: state.seed, options: state.options })}
        />
      )}
    </div>
  );
}

function parse(): URLSearchParams {
  return new URLSearchParams(location.hash.split("?")[1] ?? "");
}

function savedOf(query: URLSearchParams): PlayRequest | undefined {
  const [run, key] = [query.get("run"), query.get("key")];
  return run === null || key === null ? undefined : { run, key, turn: Number(query.get("turn") ?? 0) || 0 };
}

function freshOf(query: URLSearchParams): PlayRequest {
  const protocol = query.get("protocol");
  const model = query.get("model");
  return {
    ...(model && { model }),
    env: query.get("env") ?? "frozen_lake",
    seed: Number(query.get("seed") ?? 1) || 0,
    ...(protocol && { options: { protocol } }),
  };
}

function Setup({ envs, query, start }: { envs: readonly EnvChoice[]; query: URLSearchParams; start: () => void }) {
  const env = query.get("env") ?? envs.find(({ id }) => id.startsWith("frozen_lake"))?.id ?? envs[0]?.id ?? "";
  const taken = query.has("run") ? { run: undefined, key: undefined, turn: undefined } : {};
  const onSubmit = (event: Event) => {
    event.preventDefault();
    setQuery({ env, ...taken });
    start();
  };
  return (
    <form class="setup" onSubmit={onSubmit}>
      <label>
        <span>Environment</span>
        <select value={env} onChange={(event) => setQuery({ env: event.currentTarget.value, ...taken })}>
          {envs.map(({ id }) => (
            <option key={id}>{id}</option>
          ))}
        </select>
      </label>
      <label>
        <span>Seed</span>
        <input
          type="number"
          min="0"
          value={query.get("seed") ?? "1"}
          onChange={(event) => setQuery({ seed: event.currentTarget.value, ...taken })}
        />
      </label>
      <label>
        <span>Protocol</span>
        <select
          value={query.get("protocol") ?? ""}
          onChange={(event) => setQuery({ protocol: event.currentTarget.value, ...taken })}
        >
          <option value="">its own</option>
          {PROTOCOLS.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <ModelPick query={query} />
      <button type="submit" class="primary">
        Start
      </button>
      <p class="faint">{envs.find(({ id }) => id === env)?.summary}</p>
    </form>
  );
}

/** Who else may move. Chosen before the start, the environment gets the options that the model was trained with. */
function ModelPick({ query }: { query: URLSearchParams }) {
  const source = useSource();
  const models = useLoad(async () => (await source.play?.models())?.models ?? [], []);
  const chosen = query.get("model") ?? "";
  const known = models.value ?? [];
  return (
    <>
      <label>
        <span>Model</span>
        <select value={chosen} onChange={(event) => setQuery({ model: event.currentTarget.value })}>
          <option value="">nobody but me</option>
          {chosen !== "" && !known.some(({ id }) => id === chosen) && <option value={chosen}>{chosen}</option>}
          {known.map(({ id, name, about }) => (
            <option key={id} value={id}>
              {name}
              {about !== undefined && ` (${about})`}
            </option>
          ))}
        </select>
      </label>
      {chosen !== "" && (
        <Choice
          label="How it chooses"
          value={query.get("greedy") === "false" ? "sampled" : "greedy"}
          options={[
            ["greedy", "Likeliest"],
            ["sampled", "Sampled"],
          ]}
          choose={(how) => setQuery({ greedy: how === "sampled" ? false : undefined })}
        />
      )}
    </>
  );
}

type BoardProps = {
  play: PlaySource;
  state: PlayState;
  act: (request: ActRequest) => void;
  /** The last move failed: its reason stands above the board. */
  failed: boolean;
  again: () => void;
  model: string | undefined;
  greedy: boolean;
};

function Board(props: BoardProps) {
  const { play, state, act, failed, again, model, greedy } = props;
  const [playing, setPlaying] = useState(false);
  const [looks, setLooks] = useState(false);
  const turn = `${state.session} ${state.turns.length}`;
  const thought = useLoad(async () => {
    if (model === undefined || state.over) return undefined;
    return { turn, ...(await play.think(state.session, { model, greedy, look: looks })) };
  }, [turn, model, greedy, looks, state.over]);
  // What it thought of another board says nothing about this one.
  const now = thought.value?.turn === turn ? thought.value : undefined;
  const modelMoves = () => model !== undefined && act({ model, greedy });
  useEffect(() => {
    if (state.over || model === undefined || failed) setPlaying(false);
  }, [state.over, model, failed]);
  useEffect(() => {
    if (!playing || thought.loading || (now === undefined && thought.error === undefined)) return;
    const timer = setTimeout(modelMoves, MOVE_MS);
    return () => clearTimeout(timer);
  }, [playing, turn, now, thought.loading]);
  const [mode, setMode] = useState<"command" | "reply">("command");
  const [text, setText] = useState("");
  useEffect(() => setText(""), [state.turns.length]);
  const hasCommands = state.commands.length > 0 || state.actions.length > 0;
  const arrows = Object.entries(ARROWS).flatMap(([word, key]) => {
    const command = state.commands.find((one) => one === word || one.endsWith(` ${word}`));
    return command === undefined ? [] : [{ keys: [key], does: command, run: () => act({ command }) }];
  });
  useKeys("Play", [
    ...arrows,
    ...(state.hasOracle ? [{ keys: ["o"], does: "let the oracle move", run: () => act({ auto: "oracle" }) }] : []),
    { keys: ["m"], does: "move at random", run: () => act({ auto: "random" }) },
    ...(model === undefined
      ? []
      : [
          { keys: ["n"], does: "let the model move once", run: () => !state.over && modelMoves() },
          { keys: [" "], does: "let the model play, or take over", run: () => setPlaying(!playing && !state.over) },
          { keys: ["l"], does: "where it looks", run: () => setLooks(!looks) },
        ]),
    { keys: ["Backspace"], does: "start again", run: again },
  ]);
  const say = (event: Event) => {
    event.preventDefault();
    if (text.trim() !== "") act(mode === "command" && hasCommands ? { command: text.trim() } : { reply: text });
  };
  return (
    <div class="board">
      <div class="screen">
        <div class="seen">
          <Parts
            play={play}
            session={state.session}
            parts={state.observation.filter(({ type }) => type === "image")}
            large
          />
          {looks && now?.look !== undefined && <LookMap look={now.look} />}
        </div>
        {looks && now?.look !== undefined && (
          <p class="faint">
            Blue: greying this patch makes “{now.actions.join(", ") || now.reply}” less likely, orange: more. The
            strongest changes its log-probability by {number(Math.max(...now.look.values.map(Math.abs)))} nats.
          </p>
        )}
        {state.over && (
          <p class={`verdict ${state.success ? "good" : "bad"}`} role="status">
            {state.success ? "Solved" : state.end === "truncated" ? "Out of turns" : "Over, not solved"}
            {state.ending !== undefined && !state.success && ` (${state.ending})`} after{" "}
            {count(state.turns.length, "turn")}, reward {number(state.reward)}.{" "}
            <button type="button" onClick={again}>
              Again
            </button>
          </p>
        )}
      </div>
      <div class="controls">
        <div class="page-head">
          <h2>
            {state.env} <span class="faint">seed {state.seed}</span>
          </h2>
          <span class="faint">
            turn {state.turns.length}
            {state.maxTurns !== undefined && ` of ${state.maxTurns}`} · reward {number(state.reward)}
          </span>
        </div>
        <Parts play={play} session={state.session} parts={state.observation.filter(({ type }) => type === "text")} />
        <div class="commands">
          {state.commands.map((command) => (
            <button key={command} type="button" disabled={state.over} onClick={() => act({ command })}>
              {command}
            </button>
          ))}
          {state.hasOracle && (
            <button type="button" class="quiet" disabled={state.over} onClick={() => act({ auto: "oracle" })}>
              oracle
            </button>
          )}
          <button type="button" class="quiet" disabled={state.over} onClick={() => act({ auto: "random" })}>
            random
          </button>
        </div>
        {model !== undefined && (
          <div class="model-bar">
            <span class="buttons">
              <button type="button" disabled={state.over || thought.loading} onClick={modelMoves}>
                Model moves
              </button>
              <button
                type="button"
                class={playing ? "on" : ""}
                aria-pressed={playing}
                disabled={state.over}
                onClick={() => setPlaying(!playing)}
              >
                {playing ? "Take over" : "Let it play"}
              </button>
              <button type="button" aria-pressed={looks} class={looks ? "on" : ""} onClick={() => setLooks(!looks)}>
                Where it looks
              </button>
            </span>
            {thought.error !== undefined ? (
              <p class="alarm" role="alert">
                {thought.error}
              </p>
            ) : (
              <Likely thought={now} over={state.over} />
            )}
          </div>
        )}
        <form class="say" onSubmit={say}>
          {hasCommands && (
            <Choice
              label="What you type"
              value={mode}
              options={[
                ["command", "Command"],
                ["reply", "Whole reply"],
              ]}
              choose={setMode}
            />
          )}
          <input
            type="text"
            value={text}
            disabled={state.over}
            placeholder={mode === "command" && hasCommands ? state.actions[0]?.example : "Write as the model would"}
            aria-label="Your move"
            autocomplete="off"
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <button type="submit" disabled={state.over || text.trim() === ""}>
            Send
          </button>
        </form>
        {state.actions.length > 0 && (
          <details class="moves">
            <summary>All moves</summary>
            <dl>
              {state.actions.map(({ name, description, example }) => (
                <div key={name}>
                  <dt>
                    <code>{example}</code>
                  </dt>
                  <dd>{description}</dd>
                </div>
              ))}
            </dl>
          </details>
        )}
        <History state={state} />
        {state.turns.length > 0 && (
          <p class="buttons">
            <a class="button" href={play.demonstrationUrl(state.session)} download>
              Save as a demonstration
            </a>
            <span class="faint">a JSON line for “saccade sft”</span>
          </p>
        )}
      </div>
    </div>
  );
}

/** What the model would do, and how likely it finds everything it could. */
function Likely({ thought, over }: { thought: Thought | undefined; over: boolean }) {
  if (over) return null;
  if (thought === undefined) return <p class="faint">It thinks…</p>;
  const known = thought.likely.reduce((sum, { probability }) => sum + probability, 0);
  const rest = { command: "anything else", probability: Math.max(0, 1 - known) };
  const rows = thought.likely.length === 0 ? [] : [...thought.likely.slice(0, MOST_LIKELY), rest];
  return (
    <>
      {thought.reply !== undefined && (
        <p>
          It would say <q class="would">{thought.reply}</q> <span class="faint">in {duration(thought.ms)}</span>
        </p>
      )}
      {thought.reply === undefined && <p class="faint">What a hosted model will say is known when it moves.</p>}
      {rows.length > 0 && (
        <table class="likely" aria-label="Probability of each action">
          <tbody>
            {rows.map(({ command, probability }) => (
              <tr key={command} class={thought.actions.includes(command) ? "its-move" : ""}>
                <th scope="row">{command}</th>
                <td class="bar">
                  <span style={{ width: `${(probability * 100).toFixed(2)}%` }} />
                </td>
                <td>{percent(probability, 1)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

/** Patches over the frame, as strong as they matter. */
function LookMap({ look }: { look: NonNullable<Thought["look"]> }) {
  const most = Math.max(1e-6, ...look.values.map(Math.abs));
  return (
    <div
      class="look-map"
      role="img"
      aria-label="How much each part of the frame matters to its action"
      style={{ gridTemplateColumns: `repeat(${look.columns}, 1fr)`, gridTemplateRows: `repeat(${look.rows}, 1fr)` }}
    >
      {look.values.map((value, i) => (
        <i
          key={i}
          class={value < 0 ? "minus" : "plus"}
          style={{ "--strength": (Math.abs(value) / most).toFixed(3) }}
          title={`${signed(value)} nats`}
        />
      ))}
    </div>
  );
}

function History({ state }: { state: PlayState }) {
  return (
    <ol class="history" aria-label="Turns played" reversed>
      {state.turns
        .map((turn, i) => (
          <li key={i}>
            <span class="turn-number">{i}</span>
            <span>
              {turn.parsed ? (
                turn.actions.map((action) => (
                  <span key={action} class="chip action">
                    {action}
                  </span>
                ))
              ) : (
                <code>{turn.reply}</code>
              )}
              {turn.by !== "you" && <small class="faint"> {turn.by}</small>}
              {turn.feedback !== undefined && <span class="feedback"> {turn.feedback}</span>}
            </span>
            {turn.reward !== 0 && <b>{signed(turn.reward)}</b>}
          </li>
        ))
        .toReversed()}
    </ol>
  );
}

function Parts(props: { play: PlaySource; session: string; parts: readonly PlayPart[]; large?: boolean }) {
  return (
    <>
      {props.parts.map((part, i) =>
        part.type === "image" ? (
          <img
            key={i}
            class={`frame ${props.large ? "large" : "medium"}`}
            src={props.play.frameUrl(props.session, part.hash)}
            alt="what you see now"
          />
        ) : (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a long instruction scrolls, with the keyboard, too
          <p key={i} class="told-now" tabIndex={0}>
            {part.text}
          </p>
        ),
      )}
    </>
  );
}
