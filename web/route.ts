/**
 * Where we are: everything behind `#`, so that links work the same on a server and in an exported file. A place is a path and a query
 * (`#/run/lake/episode/<key>/3?frames=env`); pages keep what a link should restore in the query and nothing else in it.
 */
import { useEffect, useState } from "preact/hooks";

export type Route = { readonly path: readonly string[]; readonly query: URLSearchParams };
/** A list stands as one parameter for each of its values. */
export type QueryValue = string | number | boolean | readonly string[] | undefined;

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

export function href(path: readonly (string | number)[], query: Readonly<Record<string, QueryValue>> = {}): string {
  const pairs = Object.entries(query).flatMap(([key, value]) =>
    [value].flat().flatMap((one) => (one === undefined || one === "" ? [] : [[key, String(one)]])),
  );
  const search = pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
  return `#/${path.map(encodeURIComponent).join("/")}${search}`;
}

export function go(to: string): void {
  location.hash = to;
}

/** Goes there without a new entry in the browser's history: turns, filters, zoom. */
export function replace(to: string): void {
  history.replaceState(null, "", to);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Changes some of the query, keeps the rest. */
export function setQuery(changes: Readonly<Record<string, QueryValue>>): void {
  const { path, query } = parseRoute(location.hash);
  const now = Object.fromEntries([...query.keys()].map((key) => [key, query.getAll(key)]));
  replace(href(path, { ...now, ...changes }));
}

/** The address that the page on the screen was drawn for. */
let drawn = "";

/** Whether the page on the screen is that of the address. For a moment after a link was followed it is still the one before. */
export function isDrawn(): boolean {
  return drawn === location.hash;
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  drawn = hash;
  useEffect(() => {
    const onChange = () => setHash(location.hash);
    addEventListener("hashchange", onChange);
    return () => removeEventListener("hashchange", onChange);
  }, []);
  return parseRoute(hash);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
