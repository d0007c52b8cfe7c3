/**
 * A list of any length that draws only the rows in view. Rows have one height; they may be given (`rows`) or fetched page by page as
 * they come into view (`usePages`). It scrolls with the page, and keeps the chosen row in sight.
 */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

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
 * there the old ones stay, so that a live list does not flicker.
 */
export function usePages<T>(
  fetchPage: (offset: number, limit: number) => Promise<readonly T[]>,
  deps: readonly unknown[],
) {
  const pages = useRef(new Map<number, { rows: readonly T[]; generation: number }>());
  const view = useRef<readonly [number, number]>([0, PAGE]);
  const generation = useRef(0);
  const [, redraw] = useState(0);
  const want = (from: number, to: number) => {
    view.current = [from, to];
    const asked = generation.current;
    for (let page = Math.floor(from / PAGE); page * PAGE < Math.max(1, to); page++) {
      const known = pages.current.get(page);
      if (known?.generation === asked) continue;
      const old = known?.rows ?? [];
      pages.current.set(page, { rows: old, generation: asked });
      fetchPage(page * PAGE, PAGE).then(
        (rows) => {
          if (asked !== generation.current) return;
          pages.current.set(page, { rows, generation: asked });
          redraw((n) => n + 1);
        },
        // Asked again when the page next comes into view.
        () => pages.current.set(page, { rows: old, generation: -1 }),
      );
    }
  };
  useEffect(() => {
    generation.current++;
    want(...view.current);
  }, deps);
  return {
    want,
    row: (index: number): T | undefined => pages.current.get(Math.floor(index / PAGE))?.rows[index % PAGE],
  };
}

const PAGE = 60;
