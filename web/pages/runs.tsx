/**
 * All runs of the folder in one table: search, sort by any column, choose the columns, star, tag, note, archive, delete; open one, or choose
 * several and compare. Order, columns and search stand in the link.
 */
import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { RunListItem, RunNotes } from "../../src/viewer/api.ts";
import { ago, bytes, count, duration, isNumber, percent, signed } from "../format.ts";
import { useKeys } from "../keys.tsx";
import { Commands, RunNotesForm, Star } from "../notes.tsx";
import { Empty, Missing, marksOf, Scroll, Show, Status, Success } from "../parts.tsx";
import { go, href, type Route, setQuery } from "../route.ts";
import { remember, remembered, useInterval, useLoad, useSource, wordsOf } from "../use.ts";

const REFRESH_MS = 4000;

type Column = {
  readonly name: string;
  readonly words: string;
  /** What the column is sorted by; rows without one come last. */
  readonly value: (run: RunListItem) => number | string | undefined;
  readonly cell: (run: RunListItem) => preact.ComponentChildren;
  /** Words sort from A on, numbers from the highest. */
  readonly rising?: boolean;
};

const success = ({ metrics }: RunListItem) => metrics["eval/success"] ?? metrics["train/success"] ?? undefined;

const COLUMNS: readonly Column[] = [
  { name: "name", words: "Run", value: ({ name }) => name, cell: () => null, rising: true },
  {
    name: "status",
    words: "Status",
    value: ({ status }) => status,
    cell: ({ status, step }) => (
      <>
        <Status status={status} /> <small class="faint">step {step}</small>
      </>
    ),
    rising: true,
  },
  { name: "success", words: "Success", value: success, cell: (run) => <SuccessCell run={run} /> },
  { name: "best", words: "Best", value: ({ best }) => best, cell: ({ best }) => percent(best) },
  {
    name: "sight",
    words: "Sight",
    value: ({ metrics }) => metrics["sight/gap"] ?? undefined,
    cell: (run) => <SightCell run={run} />,
  },
  {
    name: "env",
    words: "Environment",
    value: ({ envs }) => envs[0],
    cell: ({ envs }) =>
      envs.length > 1 ? (
        <span title={envs.join(", ")}>
          {envs[0]} + {envs.length - 1}
        </span>
      ) : (
        envs[0]
      ),
    rising: true,
  },
  { name: "model", words: "Model", value: ({ model }) => model, cell: ({ model }) => model, rising: true },
  { name: "recipe", words: "Recipe", value: ({ recipe }) => recipe, cell: ({ recipe }) => recipe, rising: true },
  { name: "time", words: "Duration", value: ({ ms }) => ms, cell: ({ ms }) => ms !== undefined && duration(ms) },
  {
    name: "size",
    words: "Size",
    value: (run) => run.bytes,
    cell: (run) => run.bytes !== undefined && bytes(run.bytes),
  },
  { name: "updated", words: "Updated", value: ({ updated }) => updated, cell: ({ updated }) => ago(updated) },
];
const USUAL = ["name", "status", "success", "best", "sight", "env", "model", "time", "updated"];
const COLUMNS_KEY = "saccade-run-columns";

export function RunsPage({ route }: { route: Route }) {
  const source = useSource();
  const [tick, setTick] = useState(0);
  const runs = useLoad(() => source.runs(), [tick]);
  const [chosen, setChosen] = useState(0);
  const [picked, setPicked] = useState<readonly string[]>([]);
  const [open, setOpen] = useState<string | undefined>(undefined);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const again = () => setTick((now) => now + 1);
  useInterval(again, REFRESH_MS, source.kind === "http");
  useEffect(() => {
    document.title = "Runs · Saccade";
  }, []);

  const { query } = route;
  const search = query.get("q") ?? "";
  const archive = query.get("archived") === "true";
  const sort = COLUMNS.find(({ name }) => name === query.get("sort")) ?? COLUMNS.at(-1);
  const rising = query.has("order") ? query.get("order") === "asc" : sort?.rising === true;
  const names = (query.get("columns") ?? remembered(COLUMNS_KEY))?.split(",") ?? USUAL;
  const columns = COLUMNS.filter(({ name }) => name === "name" || names.includes(name));
  const all = runs.value?.runs ?? [];
  const away = all.filter(({ notes }) => notes.archived).length;
  const shown = sorted(
    all.filter((run) => run.notes.archived === archive && matches(run, search)),
    sort,
    rising,
  );
  const current = shown[Math.min(chosen, shown.length - 1)];
  const pick = (id: string) =>
    setPicked((now) => (now.includes(id) ? now.filter((other) => other !== id) : [...now, id]));
  const compare = () => picked.length > 0 && go(compareLink(picked));
  const write = source.write;
  const writable = runs.value?.writable === true && write !== undefined;
  const changing = (id: string) => async (change: Partial<RunNotes>) => {
    try {
      await write?.notes(id, change);
      setProblem(undefined);
    } catch (error) {
      setProblem(wordsOf(error));
    }
    again();
  };
  const setColumns = (next: readonly string[]) => {
    remember(COLUMNS_KEY, next.join(","));
    setQuery({ columns: next.join(",") });
  };
  useKeys("Runs", [
    { keys: ["ArrowDown", "j"], does: "next run", run: () => setChosen(Math.min(shown.length - 1, chosen + 1)) },
    { keys: ["ArrowUp", "k"], does: "previous run", run: () => setChosen(Math.max(0, chosen - 1)) },
    { keys: ["Enter"], does: "open it", run: () => current && go(href(["run", current.id])) },
    { keys: ["x"], does: "choose it for comparison", run: () => current && pick(current.id) },
    { keys: ["c"], does: "compare the chosen runs", run: compare },
    { keys: ["e"], does: "its notes and commands", run: () => setOpen(open === current?.id ? undefined : current?.id) },
    ...(writable
      ? [
          {
            keys: ["s"],
            does: "star it",
            run: () => current && changing(current.id)({ star: !current.notes.star }),
          },
        ]
      : []),
  ]);

  return (
    <Show of={runs}>
      {(value) => (
        <div class="page runs-page">
          <div class="page-head">
            <h1>Runs</h1>
            <span class="faint">{value.folder}</span>
            <span class="space" />
            <input
              type="search"
              placeholder="Search runs"
              aria-label="Search runs"
              value={search}
              onInput={(event) => setQuery({ q: event.currentTarget.value })}
            />
            {(away > 0 || archive) && (
              <button
                type="button"
                aria-pressed={archive}
                class={archive ? "on" : ""}
                onClick={() => setQuery({ archived: archive ? undefined : true })}
              >
                Archive · {away}
              </button>
            )}
            <Columns chosen={columns.map(({ name }) => name)} choose={setColumns} />
            <button type="button" class="primary" disabled={picked.length < 2} onClick={compare}>
              Compare{picked.length > 1 ? ` ${picked.length}` : ""}
            </button>
          </div>
          <Missing notes={value.missing} />
          {problem !== undefined && (
            <p class="alarm" role="alert">
              {problem}
            </p>
          )}
          {shown.length === 0 ? (
            <Empty title={all.length === 0 ? "No runs here yet" : archive ? "Nothing is archived" : "No run matches"}>
              <p>
                {all.length === 0
                  ? `Start one with “saccade train”, or point the viewer at another folder than ${value.folder}.`
                  : "Clear the search to see all."}
              </p>
            </Empty>
          ) : (
            <Scroll label="Runs">
              <table class="run-table">
                <thead>
                  <tr>
                    <th scope="col">
                      <span class="unseen">Choose</span>
                    </th>
                    {columns.map((column) => (
                      <SortHead key={column.name} column={column} on={column === sort} rising={rising} />
                    ))}
                    <th scope="col">
                      <span class="unseen">More</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {shown.map((run) => (
                    <RunRow
                      key={run.id}
                      run={run}
                      columns={columns}
                      chosen={run === current}
                      picked={picked.includes(run.id)}
                      pick={() => pick(run.id)}
                      open={open === run.id}
                      toggle={() => setOpen(open === run.id ? undefined : run.id)}
                      change={writable ? changing(run.id) : undefined}
                      removed={() => {
                        setPicked((now) => now.filter((id) => id !== run.id));
                        setOpen(undefined);
                        again();
                      }}
                    />
                  ))}
                </tbody>
              </table>
            </Scroll>
          )}
        </div>
      )}
    </Show>
  );
}

function SortHead({ column, on, rising }: { column: Column; on: boolean; rising: boolean }) {
  const turn = () =>
    setQuery(on ? { sort: column.name, order: rising ? "desc" : "asc" } : { sort: column.name, order: undefined });
  return (
    <th scope="col" aria-sort={on ? (rising ? "ascending" : "descending") : undefined}>
      <button type="button" class="quiet" onClick={turn}>
        {column.words}
        {on && <span aria-hidden="true">{rising ? "↑" : "↓"}</span>}
      </button>
    </th>
  );
}

function Columns({ chosen, choose }: { chosen: readonly string[]; choose: (names: readonly string[]) => void }) {
  const menu = useRef<HTMLDetailsElement>(null);
  // Open, it lies over the table: a click elsewhere or Escape closes it.
  useEffect(() => {
    const close = (event: Event) => {
      const inside = event.target instanceof Node && menu.current?.contains(event.target);
      const left = event instanceof KeyboardEvent ? event.key === "Escape" : !inside;
      if (left && menu.current !== null) menu.current.open = false;
    };
    for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, close);
    return () => {
      for (const kind of ["pointerdown", "keydown"]) removeEventListener(kind, close);
    };
  }, []);
  return (
    <details class="menu" ref={menu}>
      <summary class="button">Columns</summary>
      <div>
        {COLUMNS.slice(1).map(({ name, words }) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={chosen.includes(name)}
              onChange={() =>
                choose(chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name])
              }
            />
            {words}
          </label>
        ))}
      </div>
    </details>
  );
}

function RunRow(props: {
  run: RunListItem;
  columns: readonly Column[];
  chosen: boolean;
  picked: boolean;
  pick: () => void;
  open: boolean;
  toggle: () => void;
  change: ((change: Partial<RunNotes>) => void) | undefined;
  removed: () => void;
}) {
  const { run, columns, chosen, picked, pick, open, toggle, change, removed } = props;
  const { notes } = run;
  return (
    <Fragment>
      <tr class={`run-row ${chosen ? "chosen" : ""}`}>
        <td class="pick">
          <input type="checkbox" checked={picked} onChange={pick} aria-label={`Compare ${run.name}`} />
          <Star on={notes.star} name={run.name} change={change} />
        </td>
        {columns.map(({ name, cell }) =>
          name === "name" ? (
            <th key={name} scope="row">
              <a href={href(["run", run.id])}>{run.name}</a>
              {run.id !== run.name && <small>{run.id}</small>}
              {notes.tags.map((tag) => (
                <span key={tag} class="chip plain">
                  {tag}
                </span>
              ))}
              {notes.note !== "" && <small class="run-note">{notes.note}</small>}
              {(run.message || run.missing.length > 0) && (
                <small class="run-note">
                  {run.message ?? count(run.missing.length, "thing is missing", "things are missing")}
                </small>
              )}
            </th>
          ) : (
            <td key={name} class={`col-${name}`}>
              {cell(run)}
            </td>
          ),
        )}
        <td>
          <button type="button" class="quiet" aria-expanded={open} aria-label={`More of ${run.name}`} onClick={toggle}>
            ⋯
          </button>
        </td>
      </tr>
      {open && (
        <tr class="run-more">
          <td colSpan={columns.length + 2}>
            <RunNotesForm run={run} change={change} removed={removed} />
            <RunCommands run={run.id} />
          </td>
        </tr>
      )}
    </Fragment>
  );
}

function RunCommands({ run }: { run: string }) {
  const source = useSource();
  const overview = useLoad(() => source.overview(run), [run]);
  return <Show of={overview}>{({ commands }) => <Commands commands={commands} />}</Show>;
}

function SuccessCell({ run }: { run: RunListItem }) {
  const { metrics } = run;
  const evaluated = isNumber(metrics["eval/success"]);
  const failed = metrics["eval/failed"] ?? 0;
  return (
    <>
      <Success
        label={evaluated ? "Evaluation success" : "Training success"}
        value={evaluated ? metrics["eval/success"] : metrics["train/success"]}
        low={metrics["eval/success_low"] ?? null}
        high={metrics["eval/success_high"] ?? null}
        marks={marksOf(metrics)}
      />
      {failed > 0 && (
        <span class="chip bad">
          {failed} of {metrics["eval/asked"]} failed
        </span>
      )}
    </>
  );
}

function SightCell({ run: { metrics } }: { run: RunListItem }) {
  const gap = metrics["sight/gap"];
  const blind = isNumber(gap) && (metrics["sight/gap_low"] ?? 1) <= 0;
  if (!isNumber(gap)) return null;
  return <span class={`chip ${blind ? "bad" : "plain"}`}>{blind ? "blind" : signed(gap)}</span>;
}

/** Starred ones first, whatever the order. */
function sorted(runs: readonly RunListItem[], column: Column | undefined, rising: boolean): RunListItem[] {
  const sign = rising ? 1 : -1;
  return runs.toSorted((a, b) => {
    const [x, y] = [column?.value(a), column?.value(b)];
    const star = Number(b.notes.star) - Number(a.notes.star);
    if (star !== 0) return star;
    if (x === undefined || y === undefined) return Number(x === undefined) - Number(y === undefined);
    return x === y ? 0 : x < y ? -sign : sign;
  });
}

function matches(run: RunListItem, search: string): boolean {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const { notes } = run;
  const said = [
    run.name,
    run.id,
    run.status,
    run.message,
    ...run.envs,
    run.model,
    run.recipe,
    ...notes.tags,
    notes.note,
  ];
  const text = said.filter(Boolean).join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

export function compareLink(runs: readonly string[]): string {
  return href(["compare"], { run: runs });
}
