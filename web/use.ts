/** Hooks the pages share: loading through the source, following a live run, the theme, the size of the window. */
import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import type { Source } from "../src/viewer/api.ts";

export const SourceContext = createContext<Source | undefined>(undefined);

export function useSource(): Source {
  const source = useContext(SourceContext);
  if (source === undefined) throw new Error("No source of data.");
  return source;
}

export type Loaded<T> = { readonly value?: T; readonly error?: string; readonly loading: boolean };

/** Loads when `deps` change. The old value stays until the new one is there, so nothing flickers; only the last answer counts. */
export function useLoad<T>(load: () => Promise<T>, deps: readonly unknown[]): Loaded<T> {
  const [state, setState] = useState<Loaded<T>>({ loading: true });
  useEffect(() => {
    let current = true;
    setState((before) => ({ ...before, loading: true }));
    load().then(
      (value) => current && setState({ value, loading: false }),
      (error: unknown) => current && setState({ error: wordsOf(error), loading: false }),
    );
    return () => {
      current = false;
    };
  }, deps);
  return state;
}

export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export type Live = {
  /** Goes up when metrics (or trajectories) have changed; put it into the `deps` of `useLoad`. */
  readonly events: number;
  readonly trajectories: number;
  readonly connected: boolean;
};

/** Follows a run. A busy run says many things a second; pages hear of them at most once in `QUIET_MS`. */
export function useLive(run: string, position: number | undefined, active: boolean): Live {
  const source = useSource();
  const [live, setLive] = useState<Live>({ events: 0, trajectories: 0, connected: false });
  useEffect(() => {
    if (position === undefined || !active) return;
    let pending = { events: 0, trajectories: 0 };
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      const { events, trajectories } = pending;
      [timer, pending] = [undefined, { events: 0, trajectories: 0 }];
      setLive((now) => ({
        ...now,
        events: now.events + events,
        trajectories: now.trajectories + trajectories,
      }));
    };
    const stop = source.live(run, position, {
      onMessage: ({ type }) => {
        if (type === "trajectories") pending.trajectories++;
        else pending.events++;
        timer ??= setTimeout(flush, QUIET_MS);
      },
      onConnected: (connected) => setLive((now) => ({ ...now, connected })),
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [run, position !== undefined, active]);
  return live;
}

const QUIET_MS = 700;

export type Theme = "auto" | "light" | "dark";
const THEMES: readonly Theme[] = ["auto", "light", "dark"];
const THEME_KEY = "saccade-theme";

/** The chosen theme, how to go on to the next, and whether it comes out dark. */
export function useTheme(): { theme: Theme; dark: boolean; next: () => void } {
  const [theme, setTheme] = useState<Theme>(() => {
    const kept = remembered(THEME_KEY) as Theme;
    return THEMES.includes(kept) ? kept : "auto";
  });
  const system = useMedia("(prefers-color-scheme: dark)");
  // While rendering, not after: charts read colours as soon as they are drawn.
  document.documentElement.dataset.theme = theme;
  const next = () => {
    const chosen = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] as Theme;
    remember(THEME_KEY, chosen);
    setTheme(chosen);
  };
  return { theme, dark: theme === "auto" ? system : theme === "dark", next };
}

export const DarkContext = createContext(false);

export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const onChange = () => setMatches(list.matches);
    list.addEventListener("change", onChange);
    return () => list.removeEventListener("change", onChange);
  }, [query]);
  return matches;
}

/** Calls `tick` every `ms` while `on`; always the newest `tick`. */
export function useInterval(tick: () => void, ms: number, on: boolean): void {
  const newest = useRef(tick);
  newest.current = tick;
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(() => newest.current(), ms);
    return () => clearInterval(timer);
  }, [ms, on]);
}

// A page opened from disk may have no storage; then nothing is remembered.
export function remembered(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // see above
  }
}
