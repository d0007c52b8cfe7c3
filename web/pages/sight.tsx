/**
 * Does the model look? The gap between its own frames and another episode's, with its interval, over steps and by turn; what it can do
 * with grey frames; whether the image drawn, sampled from and trained on was the same; and the episodes in which it looked past it.
 */
import { useMemo } from "preact/hooks";
import type { Maybe, SightProbe, SightReply } from "../../src/viewer/api.ts";
import { facetsOf, matches } from "../../src/viewer/query.ts";
import type { RunPageProps } from "../app.tsx";
import { Chart, type Line } from "../chart.tsx";
import { Filters, filtersOf } from "../filters.tsx";
import { count, isNumber, number, percent, signed } from "../format.ts";
import { WindowedList } from "../list.tsx";
import { Choice, Empty, marksOf, Scroll, Show } from "../parts.tsx";
import { setQuery } from "../route.ts";
import { useLoad, useMedia, useSource } from "../use.ts";
import { EpisodeRow } from "./episodes.tsx";

export function SightPage(props: RunPageProps) {
  const source = useSource();
  const sight = useLoad(() => source.sight(props.run), [props.run, props.live.events]);
  return <Show of={sight}>{(value) => <Sight {...props} sight={value} />}</Show>;
}

function Sight({ run, overview, route, sight }: RunPageProps & { sight: SightReply }) {
  const { probes, frames, probed, blind, mismatched } = sight;
  const gaps = useMemo(() => probes.filter(({ gap }) => isNumber(gap)), [probes]);
  const last = gaps.at(-1);
  const charts = useMemo(() => linesOf(gaps), [gaps]);
  const narrow = useMedia("(max-width: 700px)");
  const tab = route.query.get("show") === "mismatched" ? "mismatched" : "probed";
  const all = tab === "mismatched" ? mismatched.map((row) => ({ row, looked: undefined })) : probed;
  const query = filtersOf(route.query);
  const text = (query.text ?? "").toLowerCase();
  const rows = all.filter(({ row }) => matches(row, query) && row.id.toLowerCase().includes(text));
  return (
    <div class="page">
      <div class={`verdict ${last === undefined ? "" : isBlind(last) || frames.mismatched > 0 ? "bad" : "good"}`}>
        <h2>{verdict(last)}</h2>
        <p>
          {frames.checked === 0
            ? "No frame hashes were compared: tokens are not logged."
            : frames.mismatched === 0
              ? `${count(frames.checked, "frame")} compared between render, sampling and training: all the same.`
              : `${frames.mismatched} of ${count(frames.checked, "frame")} are not the same image at render, sampling and training.`}
        </p>
      </div>
      {gaps.length > 0 && (
        <div class="charts pair">
          <Chart
            title="Own frames over another episode's"
            meaning="Mean of log p(reply | own frames) − log p(reply | another episode's frames), with its 95 % interval."
            unit="nats"
            lines={charts.gap}
            bands={charts.bands}
            marks={[{ label: "blind", value: 0 }]}
            height={220}
            sync="sight"
          />
          {charts.success.length > 0 && (
            <Chart
              title="Success: seeing against grey frames"
              meaning="On the same seeds; grey shows what can be done blind."
              unit="share"
              lines={charts.success}
              range={[0, 1]}
              marks={marksOf(overview.metrics)}
              height={220}
              sync="sight"
            />
          )}
        </div>
      )}
      {gaps.length > 0 && <Turns probes={gaps} />}
      <section class="stack">
        <div class="list-head">
          <h2>{headline(tab, probed.length, blind)}</h2>
          <span class="space" />
          <Choice
            label="Show"
            value={tab}
            options={[
              ["probed", "Least looking"],
              ["mismatched", `Frames that differ (${mismatched.length})`],
            ]}
            choose={(show) => setQuery({ show: show === "mismatched" ? show : undefined })}
          />
        </div>
        <Filters query={route.query} facets={facetsOf(all.map(({ row }) => row))} searches="Search ids" />
        {rows.length === 0 ? (
          <Empty
            title={all.length > 0 ? "No episode matches" : tab === "probed" ? "No kept episode was probed" : "None"}
          />
        ) : (
          <WindowedList
            count={rows.length}
            rowHeight={narrow ? 92 : 64}
            label="Episodes"
            row={(i) => <EpisodeRow run={run} row={rows[i]?.row} note={noteOf(rows[i])} />}
          />
        )}
      </section>
    </div>
  );
}

function headline(tab: "probed" | "mismatched", probed: number, blind: number): string {
  if (tab === "mismatched") return "Episodes with frames that differ";
  return probed === 0 ? "Which episodes looked" : `${count(blind, "probed episode")} looked past the image`;
}

function noteOf(one: { looked?: number | undefined; row: { frames: { mismatched: number } } } | undefined): string {
  if (one === undefined) return "";
  return one.looked === undefined ? `${one.row.frames.mismatched} differ` : `${signed(one.looked)} nats`;
}

function isBlind({ low }: SightProbe): boolean {
  return isNumber(low) && low <= 0;
}

function verdict(last: SightProbe | undefined): string {
  if (last === undefined) return "Sight was not probed yet.";
  const interval = `interval ${number(last.low)} to ${number(last.high)}`;
  if (isBlind(last))
    return `At step ${last.step} the model is blind: another episode's frames do as well as its own (gap ${signed(last.gap)} nats, ${interval}).`;
  return `At step ${last.step} the model looks: its own frames make its replies ${number(last.gap)} nats more likely (${interval}).`;
}

function linesOf(probes: readonly SightProbe[]) {
  const x = probes.map(({ step }) => step);
  const line = (label: string, colour: number, read: (probe: SightProbe) => Maybe | undefined): Line => ({
    label,
    x,
    y: probes.map((probe) => read(probe) ?? null),
    colour,
  });
  return {
    gap: [line("gap", 1, ({ gap }) => gap)],
    bands: [{ low: line("low", 1, ({ low }) => low), high: line("high", 1, ({ high }) => high) }],
    // Runs without the grey control have no second chart.
    success: probes.some(({ success }) => isNumber(success))
      ? [line("seeing", 1, ({ success }) => success), line("grey", 2, ({ successGrey }) => successGrey)]
      : [],
  };
}

/** A row for each probe, a cell for each turn; the darker, the more the image mattered. */
function Turns({ probes }: { probes: readonly SightProbe[] }) {
  const recent = probes.slice(-12).toReversed();
  const turns = Math.max(0, ...recent.map((probe) => probe.turns.length));
  const most = Math.max(0.01, ...recent.flatMap((probe) => probe.turns.filter(isNumber)));
  const hasGrey = recent.some(({ successGrey }) => isNumber(successGrey));
  if (turns === 0) return null;
  return (
    <section class="panel">
      <h2>By turn</h2>
      <Scroll label="Gap by turn">
        <table class="heat">
          <thead>
            <tr>
              <th scope="col">step</th>
              {Array.from({ length: turns }, (_, turn) => (
                <th key={turn} scope="col">
                  turn {turn}
                </th>
              ))}
              {hasGrey && <th scope="col">grey</th>}
            </tr>
          </thead>
          <tbody>
            {recent.map((probe) => (
              <tr key={probe.step}>
                <th scope="row">{probe.step}</th>
                {Array.from({ length: turns }, (_, turn) => {
                  const gap = probe.turns[turn];
                  const style = { "--strength": isNumber(gap) ? Math.max(0, gap / most).toFixed(3) : "0" };
                  return (
                    <td key={turn} class={isNumber(gap) && gap <= 0 ? "blind" : ""} style={style}>
                      {isNumber(gap) ? gap.toFixed(2).replace(/^-0\.00$/, "0.00") : ""}
                    </td>
                  );
                })}
                {hasGrey && <td class="grey">{percent(probe.successGrey)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
