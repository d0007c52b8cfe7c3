/** What stands on the terminal when a run is over: before and after beside floor and ceiling, whether it looks, one episode as an animation, and what to run next. */
import { writeFileSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { inEachEnvironment, loadEvents, type RunEvent } from "../run/index.ts";
import { episodeGif } from "../train/film.ts";
import { sizeOf } from "./common.ts";
import { wrapText } from "./panel.ts";
import { RUNS_FOLDER } from "./runs.ts";
import { textTable } from "./table.ts";

export async function printReport(folder: string, model: string): Promise<void> {
  const { events } = await loadEvents(folder);
  const evaluations = events.filter((event) => event.kind === "eval");
  // One that failed and was made up when the run went on is in the file twice.
  const first = evaluations.findLast(({ step }) => step === evaluations[0]?.step);
  const last = evaluations.at(-1);
  // A pipe has no width.
  const width = process.stdout.isTTY ? sizeOf(process.stdout).columns - 1 : undefined;
  if (first !== undefined && last !== undefined) process.stdout.write(`\n${table(first, last, width)}\n`);
  const sights = events.filter((event) => event.kind === "sight").at(-1)?.metrics;
  const sight = sights && sightWords(sights);
  if (sight !== undefined) process.stdout.write(`\n${width ? wrapText(sight, width).join("\n") : sight}\n`);
  const film = last && (await episodeGif(folder, last.step));
  const gif = join(folder, "episode.gif");
  if (film !== undefined) writeFileSync(gif, film);
  process.stdout.write(`\nmodel: ${model}\n${film ? `episode: ${gif}\n` : ""}`);
  const env = Object.keys(last?.metrics ?? {}).flatMap((name) => /^eval\/success\/(.+)$/.exec(name)?.[1] ?? [])[0];
  process.stdout.write(["\nNext:", ...nextCommands(folder, env, width), ""].join("\n"));
}

/** Commands that work from here, each with what it is for where there is room. */
export function nextCommands(folder: string, env: string | undefined, width = Number.MAX_SAFE_INTEGER): string[] {
  const run = relative(process.cwd(), folder) || ".";
  // Without a name the viewer shows the runs of this folder.
  const listed = dirname(folder) === resolve(RUNS_FOLDER);
  const world = env !== undefined && isAbsolute(env) ? fileHere(env) : env;
  const commands = [
    [listed ? "saccade view" : `saccade view ${run}`, "look at the run in a browser"],
    ...(world === undefined ? [] : [[`saccade play ${world} --agent ${run}`, "watch the model play"]]),
    [`saccade eval ${run}`, "measure it again"],
  ] as [string, string][];
  const longest = Math.max(...commands.map(([command]) => command.length));
  return commands.map(([command, what]) => {
    const line = `  ${command.padEnd(longest)}   ${what}`;
    return line.length <= width ? line : `  ${command}`;
  });
}

/** As a person here would write it. */
function fileHere(path: string): string {
  const here = relative(process.cwd(), path);
  return here.startsWith("..") ? path : `./${here}`;
}

function sightWords(metrics: Readonly<Record<string, number>>): string | undefined {
  const of = (name: string) => metrics[`sight/${name}`]?.toFixed(3);
  const [gap, low, high] = ["gap", "gap_low", "gap_high"].map(of);
  if (gap === undefined) return undefined;
  const [seeing, grey] = ["success", "success_grey"].map(of);
  const blind = grey === undefined ? "" : `; success ${seeing} with its frames, ${grey} with grey ones`;
  const interval = low === undefined ? "one episode, so no interval" : `95 % interval ${low} to ${high}`;
  return `sight: own frames make a reply ${gap} nats likelier than another episode's (${interval})${blind}`;
}

/** Aligned on a terminal, elsewhere in Markdown, for a page or a pull request. */
function table(first: RunEvent, last: RunEvent, width: number | undefined): string {
  // A supervised run is evaluated once, at its end.
  const events = first === last ? [last] : [first, last];
  const value = (name: string) => (event: RunEvent) => event.metrics[name]?.toFixed(3) ?? "–";
  const withFailed = (name: string, failed: string) => (event: RunEvent) =>
    `${value(name)(event)}${event.metrics[failed] ? ` (${event.metrics[failed]} failed)` : ""}`;
  const rows: readonly (readonly [string, (event: RunEvent) => string])[] = [
    [
      "asked, played, failed",
      (event) => ["asked", "episodes", "failed"].map((name) => event.metrics[`eval/${name}`] ?? "–").join(", "),
    ],
    ["success, sampled", value("eval/success")],
    ["95 % interval", (event) => `${value("eval/success_low")(event)}–${value("eval/success_high")(event)}`],
    ["success, greedy", withFailed("eval/success_greedy", "eval/failed_greedy")],
    ["floor: stop at once", withFailed("eval/floor", "eval/floor_failed")],
    ["floor: random play", withFailed("eval/random", "eval/random_failed")],
    ["ceiling: oracle", withFailed("eval/ceiling", "eval/ceiling_failed")],
    ...inEachEnvironment(last.metrics, "eval/success").map(([env]) => [env, value(`eval/success/${env}`)] as const),
  ];
  const head = `${last.metrics["eval/asked"] ?? ""} held-out episodes`.trim();
  const heads = events.map((event) => `${event === last ? "after" : "before"} (step ${event.step})`);
  if (width === undefined) {
    const lines = [
      [head, ...heads],
      ["---", ...heads.map(() => "---")],
    ];
    for (const [label, cell] of rows) lines.push([label, ...events.map(cell)]);
    return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
  }
  const columns = events.map((event, i) => ({
    head: heads[i] ?? "",
    cell: ([, cell]: (typeof rows)[number]) => cell(event),
    right: true,
    fixed: true,
  }));
  return textTable([{ head, cell: ([label]) => label }, ...columns], rows, width).join("\n");
}
