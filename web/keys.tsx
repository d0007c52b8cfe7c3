/**
 * The keyboard. A page says which keys it knows (`useKeys`); the `?` overlay lists whatever is bound at that moment, so it never lies.
 * Keys typed into a field belong to the field, except Escape, which leaves it.
 */
import { useEffect, useRef } from "preact/hooks";
import { isDrawn } from "./route.ts";

export type Binding = {
  /** As in `KeyboardEvent.key`; several mean the same. */
  readonly keys: readonly string[];
  readonly does: string;
  readonly run: () => void;
};
type Group = { readonly title: string; readonly bindings: { current: readonly Binding[] } };

/** The latest registered wins: a page's keys go before the app's. */
const groups: Group[] = [];

export function useKeys(title: string, bindings: readonly Binding[]): void {
  const newest = useRef(bindings);
  newest.current = bindings;
  useEffect(() => {
    const group = { title, bindings: newest };
    groups.push(group);
    return () => {
      groups.splice(groups.indexOf(group), 1);
    };
  }, [title]);
}

export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    // A page that is about to go would lead back to where it was.
    if (event.ctrlKey || event.metaKey || event.altKey || !isDrawn()) return;
    const target = event.target instanceof HTMLElement ? event.target : document.body;
    if (target.matches("input:not([type=range]):not([type=checkbox]), textarea, select")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    // Enter and Space work buttons and links that have the focus.
    if (target.matches("button, a, summary, [role=option]") && (event.key === "Enter" || event.key === " ")) return;
    if (document.querySelector("dialog[open]") !== null && event.key !== "?") return;
    for (const { bindings } of groups.toReversed()) {
      const binding = bindings.current.find(({ keys }) => keys.includes(event.key));
      if (binding === undefined) continue;
      event.preventDefault();
      binding.run();
      return;
    }
  });
}

export function Help({ open, close }: { open: boolean; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog class="help" ref={dialog} onClose={close} aria-label="Keyboard">
      <header>
        <h2>Keyboard</h2>
        <button type="button" class="quiet" onClick={close} aria-label="Close">
          ✕
        </button>
      </header>
      {open &&
        groups.toReversed().map(({ title, bindings }) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {bindings.current.map(({ keys, does }) => (
                <div key={does}>
                  <dt>
                    {keys.map((key) => (
                      <kbd key={key}>{NAMES[key] ?? key}</kbd>
                    ))}
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
    </dialog>
  );
}

const NAMES: Readonly<Record<string, string>> = {
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  " ": "space",
  Escape: "esc",
};
