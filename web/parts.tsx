/** Small pieces that every page uses: frames, replies, figures of success, chips, and what is shown while or instead of loading. */
import type { ComponentChildren } from "preact";
import type { Maybe, NewestMetrics, RunListItem, TrajectoryRow, TurnRecord } from "../src/viewer/api.ts";
import type { Mark } from "./chart.tsx";
import { isNumber, number, percent, STATUS_WORDS, signed } from "./format.ts";
import { type Loaded, useSource } from "./use.ts";

/** An image by its hash, drawn with hard pixels. Says so where there is none, or where it is not stored. */
export function Frame(props: { run: string; hash: string | undefined; alt: string; class?: string }) {
  const source = useSource();
  const url = props.hash === undefined ? undefined : source.frameUrl(props.run, props.hash);
  const name = `frame ${props.class ?? ""}`;
  if (url === undefined) {
    const why = props.hash === undefined ? "no image" : "not stored";
    return (
      <span class={`${name} none`} role="img" aria-label={`${props.alt}: ${why}`}>
        {why}
      </span>
    );
  }
  return <img class={name} src={url} alt={props.alt} loading="lazy" decoding="async" onError={replaceBroken} />;
}

function replaceBroken(event: Event): void {
  if (event.currentTarget instanceof HTMLImageElement) event.currentTarget.classList.add("broken");
}

/** What the model said, as text only; the part that was read as the action is marked, and what was found right or wrong in it. */
export function Reply({ turn }: { turn: Pick<TurnRecord, "reply" | "actionSpan" | "rewards"> }) {
  const { reply, actionSpan, rewards = [] } = turn;
  if (reply === "") return <p class="reply empty">(an empty reply)</p>;
  const claims = rewards.flatMap(({ name, claims = [] }) => claims.map((claim) => ({ ...claim, name })));
  const marks = [
    ...(actionSpan ? [{ span: actionSpan, kind: "", title: "the action" }] : []),
    ...claims.map(({ span, right, name }) => ({
      span,
      kind: right ? "right" : "wrong",
      title: `${name}: ${right ? "so it is" : "not so"}`,
    })),
  ].sort((a, b) => a.span[0] - b.span[0]);
  const pieces: ComponentChildren[] = [];
  let at = 0;
  for (const { span, kind, title } of marks) {
    const start = Math.max(at, span[0]);
    if (span[1] <= start) continue;
    pieces.push(
      reply.slice(at, start),
      <mark key={start} class={kind} title={title}>
        {reply.slice(start, span[1])}
      </mark>,
    );
    at = span[1];
  }
  return (
    <p class="reply">
      {pieces}
      {reply.slice(at)}
    </p>
  );
}

/** What each part of a turn's reward was, where there is more than one; parts of one name are added. */
export function partsOf(rewards: TurnRecord["rewards"] = []): [name: string, value: number][] {
  const sums = new Map<string, number>();
  for (const { name, value } of rewards) sums.set(name, (sums.get(name) ?? 0) + value);
  return sums.size > 1 ? [...sums] : [];
}

export function Actions({ turn }: { turn: Pick<TurnRecord, "actions" | "parsed" | "valid"> }) {
  if (!turn.parsed) return <span class="chip bad">no action read</span>;
  return (
    <>
      {turn.actions.map((action, i) => (
        <span key={i} class="chip action">
          {action}
        </span>
      ))}
      {!turn.valid && <span class="chip warn">refused</span>}
    </>
  );
}

/** How it ended, in the words of its world where it says so. */
export function Outcome({ row }: { row: Pick<TrajectoryRow, "success" | "end" | "ending" | "error"> }) {
  if (row.error !== undefined) return <span class="chip bad">error</span>;
  const words = row.success ? "✓ solved" : `✗ ${row.ending ?? endWords(row.end)}`;
  return (
    <span class={`chip outcome ${row.success ? "good" : "plain"}`} title={row.ending}>
      {words}
    </span>
  );
}

export function endWords(end: string): string {
  return { done: "ended", max_turns: "out of turns", max_tokens: "out of tokens" }[end] ?? end.replaceAll("_", " ");
}

export function Status({ status }: { status: RunListItem["status"] }) {
  return <span class={`status ${status}`}>{STATUS_WORDS[status]}</span>;
}

/** How many episodes the newest figures asked for, and what became of them; runs of older versions do not say. */
export function Episodes({ metrics, of }: { metrics: NewestMetrics; of: "eval" | "train" }) {
  const [asked, played, failed] = [metrics[`${of}/asked`], metrics[`${of}/episodes`], metrics[`${of}/failed`] ?? 0];
  if (!isNumber(asked) || !isNumber(played)) return null;
  const lost = (["greedy", "floor", "random", "ceiling"] as const).flatMap((name) => {
    const count = metrics[name === "greedy" ? "eval/failed_greedy" : `eval/${name}_failed`] ?? 0;
    return of === "eval" && count > 0 ? [`, ${name}: ${number(count)} failed`] : [];
  });
  return (
    <small class={failed > 0 || lost.length > 0 ? "episodes bad" : "episodes"}>
      {number(asked)} episodes asked, {number(played)} played, {number(failed)} failed
      {lost}
    </small>
  );
}

/** Floor, random play and ceiling, where they were measured. */
export function marksOf(metrics: NewestMetrics): Mark[] {
  return (["floor", "random", "ceiling"] as const).flatMap((label) => {
    const value = metrics[`eval/${label}`];
    return isNumber(value) ? [{ label, value }] : [];
  });
}

/** A share of success on a line from 0 to 1, with its interval and what floor, random play and the oracle reach. */
export function Success(props: {
  value: Maybe | undefined;
  low?: Maybe;
  high?: Maybe;
  marks: readonly Mark[];
  label: string;
}) {
  const { value, low, high, marks, label } = props;
  const beside = marks.map((mark) => `${mark.label} ${percent(mark.value)}`).join(", ");
  return (
    <div class="success" role="img" aria-label={`${label} ${percent(value)}${beside && `; ${beside}`}`}>
      <b>{percent(value)}</b>
      <span class="scale" title={beside}>
        {isNumber(low) && isNumber(high) && <span class="interval" style={{ left: at(low), width: at(high - low) }} />}
        {marks.map((mark) => (
          <span key={mark.label} class={`tick ${mark.label}`} style={{ left: at(mark.value) }} />
        ))}
        {isNumber(value) && <span class="point" style={{ left: at(value) }} />}
      </span>
      <small>{beside}</small>
    </div>
  );
}

function at(share: number): string {
  return `${(Math.min(1, Math.max(0, share)) * 100).toFixed(2)}%`;
}

/** Blue above zero, orange below; `--strength` is 0 to 1. */
export function Advantage({ value }: { value: Maybe | undefined }) {
  if (!isNumber(value)) return null;
  return (
    <span class={`chip advantage ${value < 0 ? "minus" : "plus"}`} style={strength(value)} title="advantage">
      {signed(value)}
    </span>
  );
}

export function strength(value: Maybe | undefined, full = 2): { "--strength": string } {
  return { "--strength": Math.min(1, Math.abs(value ?? 0) / full).toFixed(3) };
}

/** What was loaded, or why there is nothing yet. */
export function Show<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  if (of.error !== undefined) {
    return (
      <div class="empty-page" role="alert">
        <h2>This can't be shown</h2>
        <p>{of.error}</p>
      </div>
    );
  }
  if (of.value === undefined) return <div class="loading" role="status" aria-label="Loading" />;
  return <>{children(of.value)}</>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty-page">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** What can't be read of a folder, in words. */
export function Missing({ notes }: { notes: readonly string[] }) {
  if (notes.length === 0) return null;
  return (
    <details class="missing">
      <summary>{notes.length === 1 ? "Something is missing here" : `${notes.length} things are missing here`}</summary>
      <ul>
        {notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </details>
  );
}

/** What may be wider than a phone scrolls by itself, with the keyboard, too. */
export function Scroll({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: only what has the focus can be scrolled by keys
    <section class="scroll-x" aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}

export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  choose: (value: T) => void;
}) {
  return (
    <fieldset class="choice">
      <legend class="unseen">{props.label}</legend>
      {props.options.map(([value, words]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.choose(value)}>
          {words}
        </button>
      ))}
    </fieldset>
  );
}
