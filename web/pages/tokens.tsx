/**
 * Every token of an episode: its kind, both log-probabilities, ratio, advantage, clipped or not; an image stands as its thumbnail with
 * its token count. As running text coloured by one measure, or as a table. One token is chosen and spelled out; arrow keys move it.
 */
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { TrajectoryReply } from "../../src/viewer/api.ts";
import type { RunPageProps } from "../app.tsx";
import { count, number, signed } from "../format.ts";
import { useKeys } from "../keys.tsx";
import { WindowedList } from "../list.tsx";
import { Choice, Empty, Frame, Outcome, Show, strength } from "../parts.tsx";
import { go, href, setQuery } from "../route.ts";
import { KIND_WORDS, mostSurprising, type Token, tokensOf, worstDrift } from "../tokens.ts";
import { useLoad, useSource } from "../use.ts";

type Measure = "kind" | "drift" | "advantage" | "surprise";

export function TokensPage(props: RunPageProps) {
  const source = useSource();
  const key = props.route.path[3] ?? "";
  const reply = useLoad(() => source.trajectory(props.run, key), [props.run, key]);
  return (
    <Show of={reply}>
      {(value) =>
        value.record.tokens === undefined || value.record.tokens.length === 0 ? (
          <Empty title="No tokens were logged for this episode">
            <p>Set “log.tokens” in the recipe to keep them.</p>
          </Empty>
        ) : (
          <Tokens {...props} reply={value} />
        )
      }
    </Show>
  );
}

function Tokens({ run, route, reply }: RunPageProps & { reply: TrajectoryReply }) {
  const { row, record } = reply;
  const sequences = record.tokens ?? [];
  const part = Math.min(sequences.length - 1, Number(route.query.get("part") ?? 0) || 0);
  const tokens = useMemo(() => (sequences[part] ? tokensOf(sequences[part]) : []), [reply, part]);
  const measure = MEASURES.find(([name]) => name === route.query.get("colour"))?.[0] ?? "surprise";
  const setMeasure = (name: Measure) => setQuery({ colour: name === "surprise" ? undefined : name });
  // What the colours show is what is listed; drift where they show something else that has no order.
  const bySurprise = measure === "surprise";
  const listed = useMemo(
    () => (bySurprise ? mostSurprising(tokens, MOST_LISTED) : worstDrift(tokens, MOST_LISTED)),
    [tokens, bySurprise],
  );
  const drift = useMemo(() => worstDrift(tokens, 1)[0]?.drift ?? 0, [tokens]);
  const table = route.query.get("view") === "table";
  const asked = route.query.get("at");
  const chosen = asked === null ? (listed[0]?.index ?? 0) : Math.min(tokens.length - 1, Number(asked) || 0);
  const choose = (index: number) => setQuery({ at: Math.max(0, Math.min(tokens.length - 1, index)) });
  const move = (by: 1 | -1) => {
    // An image is one stop, however many tokens it has.
    let to = chosen + by;
    while (tokens[to]?.kind === "i" && tokens[to]?.image === tokens[chosen]?.image) to += by;
    choose(to);
  };
  useKeys("Tokens", [
    { keys: ["ArrowRight", "j"], does: "next token", run: () => move(1) },
    { keys: ["ArrowLeft", "k"], does: "previous token", run: () => move(-1) },
    { keys: ["w"], does: "next of those listed", run: () => choose(nextOf(listed, chosen)) },
    { keys: ["v"], does: "text or table", run: () => setQuery({ view: table ? undefined : "table" }) },
    { keys: ["Escape", "o"], does: "back to the episode", run: () => go(href(["run", run, "episode", row.key])) },
  ]);
  const token = tokens[chosen];
  const moved = sequences[part]?.updatesBefore ?? 0;
  return (
    <div class="page tokens-page">
      <div class="page-head">
        <h2>
          {record.env} <span class="faint">seed {record.seed}</span>
        </h2>
        <Outcome row={row} />
        <span class="faint">
          step {record.step} · sibling {record.sibling} · {summary(tokens)}
        </span>
        <span class="space" />
        <span class="buttons">
          {sequences.length > 1 && (
            <label class="inline">
              Turn
              <select value={part} onChange={(event) => setQuery({ part: event.currentTarget.value, at: undefined })}>
                {sequences.map((_, i) => (
                  <option key={i} value={i}>
                    {i}
                  </option>
                ))}
              </select>
            </label>
          )}
          <Choice label="Colour by" value={measure} options={MEASURES} choose={setMeasure} />
          <Choice
            label="View"
            value={table ? "table" : "text"}
            options={[
              ["text", "Text"],
              ["table", "Table"],
            ]}
            choose={(view) => setQuery({ view: view === "table" ? view : undefined })}
          />
          <a class="button" href={href(["run", run, "episode", row.key])}>
            Episode
          </a>
        </span>
      </div>
      {!table && <Legend measure={measure} />}
      <div class="token-columns">
        {table ? (
          <TokenTable run={run} tokens={tokens} chosen={chosen} choose={choose} />
        ) : (
          <TokenText run={run} tokens={tokens} chosen={chosen} choose={choose} measure={measure} />
        )}
        <aside class="token-side">
          {token && <Spelled run={run} token={token} />}
          <h3>{bySurprise ? "Most surprising" : moved > 0 ? "Moved most" : "Worst drift"}</h3>
          {!bySurprise && moved > 0 && (
            <p class="faint">
              The step had made {count(moved, "update")} before the learner saw this episode: what differs is what they
              changed, not drift.
            </p>
          )}
          <ol class="worst">
            {listed.map((one) => (
              <li key={one.index}>
                <button type="button" aria-pressed={one.index === chosen} onClick={() => choose(one.index)}>
                  <code>{visible(one.text)}</code>
                  <span>{bySurprise ? number(-(one.sampler ?? 0)) : signed(one.drift)}</span>
                </button>
              </li>
            ))}
            {listed.length === 0 && (
              <li class="faint">No {bySurprise ? "sampler" : "learner"} log-probabilities here.</li>
            )}
          </ol>
          {bySurprise && drift !== 0 && (
            <button type="button" class="quiet" onClick={() => setMeasure("drift")}>
              {moved > 0 ? "Moved by up to" : "Drift of up to"} {number(Math.abs(drift))} nats
            </button>
          )}
        </aside>
      </div>
    </div>
  );
}

const MOST_LISTED = 12;

const MEASURES = [
  ["surprise", "Surprise"],
  ["drift", "Drift"],
  ["advantage", "Advantage"],
  ["kind", "Kind"],
] as const;

/** What the colours say: at which value they are half and full. */
const SCALES = {
  surprise: { full: 3, words: "how unlikely the token was when it was drawn", unit: " nats" },
  drift: { full: 0.3, words: "how far learner and sampler disagree", unit: " nats" },
  advantage: { full: 2, words: "better (blue) or worse (orange) than its group", unit: "" },
} as const;

function Legend({ measure }: { measure: Measure }) {
  if (measure === "kind") {
    return (
      <p class="token-legend by-kind">
        {Object.entries(KIND_WORDS).map(([kind, words]) => (
          <span key={kind} class={`token kind-${kind}`}>
            {words}
          </span>
        ))}
      </p>
    );
  }
  const { full, words, unit } = SCALES[measure];
  const steps = measure === "advantage" ? [-1, -0.5, 0, 0.5, 1] : [0, 0.25, 0.5, 1];
  return (
    <p class={`token-legend by-${measure}`}>
      <span class="faint">{words}:</span>
      {steps.map((share) => (
        <span
          key={share}
          class={`token kind-s ${measure === "advantage" ? (share < 0 ? "minus" : "plus") : ""}`}
          style={{ "--strength": Math.abs(share).toFixed(2) }}
        >
          {number(share * full)}
          {share === 1 && `${unit} or more`}
        </span>
      ))}
      <span class="faint">only sampled tokens are coloured</span>
    </p>
  );
}

type View = { run: string; tokens: readonly Token[]; chosen: number; choose: (index: number) => void };

function TokenText({ run, tokens, chosen, choose, measure }: View & { measure: Measure }) {
  const first = useRef(chosen);
  useEffect(() => {
    // A page opens at its top, where the legend is; from then on it follows what is chosen.
    if (chosen === first.current && !location.hash.includes("at=")) return;
    document.querySelector(".token-text [aria-current=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const blocks = useMemo(() => {
    const found: Token[][] = [];
    for (const token of tokens) {
      const block = found[token.block] ?? [];
      block.push(token);
      found[token.block] = block;
    }
    return found;
  }, [tokens]);
  // One listener for thousands of tokens.
  const onClick = (event: MouseEvent) => {
    const index = event.target instanceof Element ? event.target.closest("[data-i]")?.getAttribute("data-i") : null;
    if (index) choose(Number(index));
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the arrow keys move the chosen token
    // biome-ignore lint/a11y/noStaticElementInteractions: as above
    <div class={`token-text by-${measure}`} onClick={onClick}>
      {blocks.map((members, block) => (
        <section key={block} class={`token-block ${members.some(({ kind }) => kind === "s") ? "reply" : ""}`}>
          {members.map((token) =>
            token.kind !== "i" ? (
              <span
                key={token.index}
                data-i={token.index}
                class={tokenClass(token, measure)}
                style={tokenStyle(token, measure)}
                aria-current={token.index === chosen ? "true" : undefined}
              >
                {visible(token.text)}
              </span>
            ) : token.image && token.index === token.image.start ? (
              <span
                key={token.index}
                data-i={token.index}
                class="token-image"
                aria-current={tokens[chosen]?.image === token.image ? "true" : undefined}
              >
                <Frame run={run} hash={token.image.hash} alt="frame" class="thumb" />
                <small>{token.image.length} tokens</small>
              </span>
            ) : null,
          )}
        </section>
      ))}
    </div>
  );
}

const COLUMNS = ["", "token", "kind", "sampler", "learner", "ratio", "advantage", ""];

function TokenTable({ run, tokens, chosen, choose }: View) {
  // An image is one line.
  const lines = useMemo(
    () => tokens.filter(({ index, image }) => image === undefined || image.start === index),
    [tokens],
  );
  return (
    <div class="token-table">
      <div class="token-line head" aria-hidden="true">
        {COLUMNS.map((word, i) => (
          <span key={i}>{word}</span>
        ))}
      </div>
      <WindowedList
        count={lines.length}
        rowHeight={32}
        label="Tokens"
        chosen={lines.findLastIndex(({ index }) => index <= chosen)}
        row={(i) => lines[i] && <TokenLine run={run} token={lines[i]} choose={choose} />}
      />
    </div>
  );
}

function TokenLine({ run, token, choose }: Pick<View, "run" | "choose"> & { token: Token }) {
  const { index, kind, image } = token;
  const sampled = kind === "s";
  return (
    <button type="button" class={`token-line kind-${kind}`} onClick={() => choose(index)}>
      <span>{index}</span>
      {image ? (
        <span class="line-image">
          <Frame run={run} hash={image.hash} alt="frame" class="tiny" /> {image.length} tokens
        </span>
      ) : (
        <code>{visible(token.text)}</code>
      )}
      <span>{KIND_WORDS[kind]}</span>
      <span>{sampled && number(token.sampler)}</span>
      <span>{sampled && number(token.learner)}</span>
      <span>{sampled && number(token.ratio)}</span>
      <span>{sampled && signed(token.advantage)}</span>
      <span>{token.clipped && <span class="chip warn">clipped</span>}</span>
    </button>
  );
}

function Spelled({ run, token }: { run: string; token: Token }) {
  const pairs: [string, string][] = [
    ["place", String(token.index)],
    ["id", String(token.id)],
    ["kind", KIND_WORDS[token.kind]],
    ...(token.kind === "s"
      ? ([
          ["sampler", `${number(token.sampler)} nats`],
          ["learner", `${number(token.learner)} nats`],
          ["drift", signed(token.drift)],
          ["ratio", number(token.ratio)],
          ["advantage", signed(token.advantage)],
          ["clipped", token.clipped ? "yes" : "no"],
        ] satisfies [string, string][])
      : []),
    ...(token.image
      ? ([
          ["tokens", String(token.image.length)],
          ["frame", token.image.hash.slice(0, 12)],
          [
            "trained on",
            token.image.learnerHash === undefined
              ? "not checked"
              : token.image.learnerHash === token.image.hash
                ? "the same frame"
                : "ANOTHER FRAME",
          ],
        ] satisfies [string, string][])
      : []),
  ];
  return (
    <div class="spelled" aria-live="polite">
      {token.image ? (
        <Frame run={run} hash={token.image.hash} alt="frame" class="medium" />
      ) : (
        <code class="token-name">{visible(token.text)}</code>
      )}
      <dl>
        {pairs.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function tokenClass(token: Token, measure: Measure): string {
  const side = measure === "advantage" && token.kind === "s" ? ((token.advantage ?? 0) < 0 ? "minus" : "plus") : "";
  return `token kind-${token.kind} ${token.clipped ? "clipped" : ""} ${side}`;
}

function tokenStyle(token: Token, measure: Measure) {
  if (token.kind !== "s" || measure === "kind") return undefined;
  const values = { drift: token.drift, surprise: token.sampler, advantage: token.advantage };
  return strength(values[measure], SCALES[measure].full);
}

function summary(tokens: readonly Token[]): string {
  const sampled = tokens.filter(({ kind }) => kind === "s");
  const clipped = sampled.filter((token) => token.clipped).length;
  const images = new Set(tokens.map(({ image }) => image)).size - 1;
  return `${tokens.length} tokens, ${sampled.length} sampled, ${Math.max(0, images)} images, ${clipped} clipped`;
}

function nextOf(listed: readonly Token[], chosen: number): number {
  const place = listed.findIndex(({ index }) => index === chosen);
  return listed[(place + 1) % Math.max(1, listed.length)]?.index ?? chosen;
}

/** Newlines and lone spaces can be seen. */
function visible(text: string): string {
  return text.replaceAll("\n", "⏎").replace(/^ $/, "␣");
}
