/**
 * A list of any length that draws only the rows in view. Rows have one height; they may be given (`rows`) or fetched page by page as
 * they come into view (`usePages`). It scrolls with the page, and keeps the chosen row in sight.
 */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { wordsOf } from "./use.ts";

const MARGIN_ROWS = 8;

export function WindowedList(props: {
  readonly count: number;
  readonly rowHeight: number;
  readonly label: string;
  readonly chosen?: number;
  readonly row: (index: number) => ComponentChildren;
  /** Told which rows are drawn. */
  readonly onView?: (from: number, to: number) => void;
}) {
  const { count, rowHeight, chosen } = props;
  const box = useRef<HTMLDivElement>(null);
  const [[from, to], setView] = useState<readonly [number, number]>([0, 40]);

  useEffect(() => {
    const look = () => {
      const top = box.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / rowHeight) - MARGIN_ROWS);
      const last = Math.min(count, Math.ceil((innerHeight - top) / rowHeight) + MARGIN_ROWS);
      setView((now) => (now[0] === first && now[1] === last ? now : [first, Math.max(first, last)]));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [count, rowHeight]);

  useEffect(() => props.onView?.(from, to), [from, to, count]);

  useEffect(() => {
    if (chosen === undefined || chosen < 0 || box.current === null) return;
    const top = box.current.getBoundingClientRect().top + chosen * rowHeight;
    const room = 140; // the sticky bars
    if (top < room) scrollBy({ top: top - room });
    else if (top + rowHeight > innerHeight) scrollBy({ top: top + rowHeight - innerHeight + 12 });
  }, [chosen]);

  const rows = [];
  for (let i = from; i < Math.min(to, count); i++) {
    rows.push(
      <li
        key={i}
        class={i === chosen ? "chosen" : ""}
        aria-setsize={count}
        aria-posinset={i + 1}
        style={{ top: `${i * rowHeight}px`, height: `${rowHeight}px` }}
      >
        {props.row(i)}
      </li>,
    );
  }
  return (
    <div ref={box} class="windowed" style={{ height: `${count * rowHeight}px` }}>
      <ul aria-label={props.label}>{rows}</ul>
    </div>
  );
}

/**
 * Rows of a long list, fetched in pages when they come into view. When `deps` change all are fetched again; until the new ones are
 * there the old ones stay, so that a live list does not flicker. `newest` is the last page that came, `error` why the last did not;
 * answers to what was asked before `deps` changed count for neither.
 */
export function usePages<P extends { readonly rows: readonly unknown[] }>(
  fetchPage: (offset: number, limit: number) => Promise<P>,
  deps: readonly unknown[],
) {
  const pages = useRef(new Map<number, { rows: P["rows"]; generation: number }>());
  const view = useRef<readonly [number, number]>([0, PAGE]);
  const generation = useRef(0);
  const [answer, setAnswer] = useState<{ readonly newest?: P; readonly error?: string }>({});
  const want = (from: number, to: number) => {
    view.current = [from, to];
    const asked = generation.current;
    for (let page = Math.floor(from / PAGE); page * PAGE < Math.max(1, to); page++) {
      const known = pages.current.get(page);
      if (known?.generation === asked) continue;
      const old = known?.rows ?? [];
      pages.current.set(page, { rows: old, generation: asked });
      fetchPage(page * PAGE, PAGE).then(
        (newest) => {
          if (asked !== generation.current) return;
          pages.current.set(page, { rows: newest.rows, generation: asked });
          setAnswer({ newest });
        },
        (error: unknown) => {
          if (asked !== generation.current) return;
          // Asked again when the page next comes into view.
          pages.current.set(page, { rows: old, generation: -1 });
          setAnswer((before) => ({ ...before, error: wordsOf(error) }));
        },
      );
    }
  };
  useEffect(() => {
    generation.current++;
    want(...view.current);
  }, deps);
  return {
    ...answer,
    want,
    row: (index: number): P["rows"][number] | undefined =>
      pages.current.get(Math.floor(index / PAGE))?.rows[index % PAGE],
  };
}

const PAGE = 60;
