/** The filter bar over a list of episodes. What is chosen stands in the link, so a filtered list can be sent to someone. */
import { useEffect, useState } from "preact/hooks";
import type { Facets, TrajectoryQuery } from "../src/viewer/api.ts";
import { endWords } from "./parts.tsx";
import { setQuery } from "./route.ts";

const RANGES = ["step", "reward", "turns", "advantage", "drift"] as const;
const NUMBERS = ["seed", "sibling", ...RANGES.flatMap((name) => [`${name}Min`, `${name}Max`])];
const YES_NO = ["success", "parseFailure", "greedy"] as const;
const WORDS = ["env", "group", "end", "split", "label", "text", "sort", "order"] as const;

/** The filters of a link. */
export function filtersOf(query: URLSearchParams): TrajectoryQuery {
  const found: Record<string, string | number | boolean> = {};
  for (const name of NUMBERS) {
    const value = query.get(name);
    if (value !== null && value !== "" && Number.isFinite(Number(value))) found[name] = Number(value);
  }
  for (const name of YES_NO) if (query.has(name)) found[name] = query.get(name) === "true";
  for (const name of WORDS) {
    const value = query.get(name);
    if (value) found[name] = value;
  }
  return found as TrajectoryQuery;
}

const NO_FILTERS = Object.fromEntries([...NUMBERS, ...YES_NO, ...WORDS].map((name) => [name, undefined]));

export function Filters(props: { query: URLSearchParams; facets: Facets | undefined; searches?: string }) {
  const { query, facets, searches = "Search replies, actions, feedback" } = props;
  const active = [...NUMBERS, ...YES_NO, ...WORDS].filter(
    (name) => query.has(name) && name !== "sort" && name !== "order",
  );
  const [open, setOpen] = useState(active.some((name) => name !== "text"));
  return (
    <search class="filters">
      <div class="filter-row">
        <SearchBox value={query.get("text") ?? ""} searches={searches} />
        <button type="button" aria-expanded={open} aria-controls="filters" onClick={() => setOpen(!open)}>
          Filters{active.length > 0 ? ` · ${active.length}` : ""}
        </button>
        {active.length > 0 && (
          <button type="button" class="quiet" onClick={() => setQuery(NO_FILTERS)}>
            Clear
          </button>
        )}
      </div>
      {open && (
        <div id="filters" class="filter-grid">
          <Pick name="env" label="Environment" query={query} options={(facets?.envs ?? []).map((env) => [env, env])} />
          <Pick
            name="split"
            label="Split"
            query={query}
            options={[
              ["train", "training"],
              ["eval", "evaluation"],
              ["sight", "sight probe"],
            ]}
          />
          <Pick
            name="success"
            label="Success"
            query={query}
            options={[
              ["true", "solved"],
              ["false", "not solved"],
            ]}
          />
          <Pick
            name="end"
            label="End"
            query={query}
            options={(facets?.ends ?? []).map((end) => [end, endWords(end)])}
          />
          {(facets?.labels ?? []).length > 0 && (
            <Pick
              name="label"
              label="Label"
              query={query}
              options={(facets?.labels ?? []).map((label) => [label, label])}
            />
          )}
          <Pick
            name="greedy"
            label="Sampling"
            query={query}
            options={[
              ["true", "greedy"],
              ["false", "sampled"],
            ]}
          />
          <Pick
            name="parseFailure"
            label="Replies"
            query={query}
            options={[
              ["true", "some not understood"],
              ["false", "all understood"],
            ]}
          />
          <Amount name="seed" label="Seed" query={query} />
          <Amount name="sibling" label="Sibling" query={query} />
          <Range label="Step" low="stepMin" high="stepMax" query={query} hint={facets?.steps} />
          <Range label="Reward" low="rewardMin" high="rewardMax" query={query} hint={facets?.rewards} />
          <Range label="Turns" low="turnsMin" high="turnsMax" query={query} hint={undefined} />
          <Range label="Advantage" low="advantageMin" high="advantageMax" query={query} hint={undefined} />
          <Range label="Drift" low="driftMin" high="driftMax" query={query} hint={undefined} />
        </div>
      )}
    </search>
  );
}

/** Waits for a pause in typing, so that every letter is not a question to the server. */
function SearchBox({ value, searches }: { value: string; searches: string }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => setQuery({ text }), 150);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <input
      type="search"
      placeholder={searches}
      aria-label={searches}
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
    />
  );
}

type Field = { readonly name: string; readonly label: string; readonly query: URLSearchParams };

function Pick({ name, label, query, options }: Field & { options: readonly (readonly [string, string])[] }) {
  return (
    <label>
      <span>{label}</span>
      <select value={query.get(name) ?? ""} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
        <option value="">any</option>
        {options.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

function Amount({ name, label, query, placeholder = "any" }: Field & { placeholder?: string }) {
  return (
    <label>
      <span>{label}</span>
      <input
        type="number"
        step="any"
        placeholder={placeholder}
        value={query.get(name) ?? ""}
        onChange={(event) => setQuery({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}

function Range(props: {
  label: string;
  low: string;
  high: string;
  query: URLSearchParams;
  hint: readonly [number, number] | undefined;
}) {
  const { label, low, high, query, hint } = props;
  return (
    <fieldset class="range">
      <legend class="unseen">{label}</legend>
      <Amount name={low} label={`${label} from`} query={query} placeholder={String(hint?.[0] ?? "")} />
      <Amount name={high} label="to" query={query} placeholder={String(hint?.[1] ?? "")} />
    </fieldset>
  );
}
