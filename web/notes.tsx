/** What a person says of a run and does with it: star, tags, note, archive, delete with a question, and commands to copy. */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Command, RunListItem, RunNotes } from "../src/viewer/api.ts";
import { bytes } from "./format.ts";
import { useSource, wordsOf } from "./use.ts";

type Change = (change: Partial<RunNotes>) => void;

export function Star({ on, name, change }: { on: boolean; name: string; change: Change | undefined }) {
  return (
    <button
      type="button"
      class={`quiet star ${on ? "lit" : ""}`}
      aria-pressed={on}
      aria-label={`Star ${name}`}
      disabled={change === undefined}
      onClick={() => change?.({ star: !on })}
    >
      {on ? "★" : "☆"}
    </button>
  );
}

export function RunNotesForm(props: { run: RunListItem; change: Change | undefined; removed: () => void }) {
  const { run, change, removed } = props;
  const { notes } = run;
  const source = useSource();
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const remove = async () => {
    try {
      await source.write?.remove(run.id);
      setAsking(false);
      removed();
    } catch (error) {
      setAsking(false);
      setProblem(wordsOf(error));
    }
  };
  if (change === undefined) {
    const said = [...notes.tags, notes.note].filter(Boolean).join(" · ");
    return said === "" ? null : <p class="faint">{said}</p>;
  }
  return (
    <div class="notes-form">
      <Field
        label="Tags"
        value={notes.tags.join(" ")}
        placeholder="words, with a space between"
        save={(text) => change({ tags: text.split(/[\s,]+/).filter(Boolean) })}
      />
      <Field
        label="Note"
        value={notes.note}
        placeholder="what you tried, what you saw"
        save={(note) => change({ note })}
        long
      />
      <span class="buttons">
        <button type="button" onClick={() => change({ archived: !notes.archived })}>
          {notes.archived ? "Unarchive" : "Archive"}
        </button>
        <button type="button" class="danger" disabled={run.status === "running"} onClick={() => setAsking(true)}>
          Delete…
        </button>
      </span>
      {problem !== undefined && (
        <p class="alarm" role="alert">
          {problem}
        </p>
      )}
      <Question
        open={asking}
        close={() => setAsking(false)}
        title={`Delete ${run.name}?`}
        words={`Its folder ${run.id} goes with everything in it${run.bytes === undefined ? "" : `, ${bytes(run.bytes)}`}: checkpoints, episodes, curves. This can't be undone.`}
        yes="Delete"
        act={remove}
      />
    </div>
  );
}

/** Saved when it is left, or with Enter. */
function Field(props: {
  label: string;
  value: string;
  placeholder: string;
  save: (text: string) => void;
  long?: boolean;
}) {
  const { label, value, placeholder, save, long = false } = props;
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const shared = {
    value: text,
    placeholder,
    onInput: (event: { currentTarget: { value: string } }) => setText(event.currentTarget.value),
    onBlur: () => text !== value && save(text),
  };
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {long ? (
        <textarea id={id} rows={2} {...shared} />
      ) : (
        <input
          id={id}
          type="text"
          {...shared}
          onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()}
        />
      )}
    </div>
  );
}

export function Question(props: {
  open: boolean;
  close: () => void;
  title: string;
  words: string;
  yes: string;
  act: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (props.open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [props.open]);
  return (
    <dialog class="help" ref={dialog} onClose={props.close} aria-label={props.title}>
      <h2>{props.title}</h2>
      <p>{props.words}</p>
      <p class="buttons">
        <button type="button" onClick={props.close}>
          Cancel
        </button>
        <button type="button" class="danger" onClick={props.act}>
          {props.yes}
        </button>
      </p>
    </dialog>
  );
}

export function Commands({ commands }: { commands: readonly Command[] }) {
  if (commands.length === 0) return null;
  return (
    <dl class="copy-list">
      {commands.map(({ what, command, note }) => (
        <div key={what}>
          <dt>{what}</dt>
          <dd>
            <code>{command}</code>
            <Copy text={command} what={what} />
            {note !== undefined && <small>{note}</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function Copy({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    // Only pages of this machine, and secure ones, may write to the clipboard; elsewhere the text can be marked.
    await navigator.clipboard?.writeText(text).then(
      () => setDone(true),
      () => undefined,
    );
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" class="quiet" aria-label={`Copy: ${what}`} onClick={copy}>
      {done ? "copied" : "copy"}
    </button>
  );
}
