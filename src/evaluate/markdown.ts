/** A report as people read it. */
import { canonicalJson, type Json, type JsonObject } from "../core/json.ts";
import type { SuccessRate } from "../rollout/scores.ts";
import { type Failure, failureLines } from "../run/failures.ts";
import type { EnvReport, MeanReport, Report } from "./report.ts";
import type { Training } from "./training.ts";

export function reportMarkdown(report: Report): string {
  return [
    `# ${report.model}`,
    settingLine(report),
    ...(report.training === undefined ? [] : [trainingLines(report.training)]),
    table(report),
    ...(report.repeats > 1 ? [passLines(report)] : []),
    ...(report.envs.some(({ decisions }) => decisions) ? [decisionLines(report)] : []),
    spentLine(report),
    ...(report.complete ? [] : [unfinished(report)]),
    ...(report.failure ? [firstFailed(report.failure)] : []),
    ...(report.notes.length > 0 ? [`Notes:\n${report.notes.map((note) => `- ${note}`).join("\n")}`] : []),
    "Success is what the environment says, with its 95 % Wilson interval; *stop*, *random* and *oracle* are agents that stop at once, play at " +
      "random and know the answer, on the same seeds under the same limits. *Failed* episodes failed for our reasons (a broken environment, a lost server): " +
      "they count against success, and are in no other number.",
  ]
    .join("\n\n")
    .concat("\n");
}

function settingLine({ preset, setting, seeds, repeats, envs }: Report): string {
  const { sampling, history } = setting;
  const options = envs.reduce((shared, { options: own }) => alike(shared, own), envs[0]?.options ?? {});
  const parts = [
    ...(preset === undefined ? [] : [`preset ${preset}`]),
    `${seeds} seeds${repeats > 1 ? ` × ${repeats} repeats` : ""}`,
    ...Object.entries(sampling).map(([name, value]) => `${name} ${JSON.stringify(value)}`),
    history === null ? "whole history" : `first turn and last ${history} turns`,
    ...Object.entries(options).map(([name, value]) => `${name} ${JSON.stringify(value)}`),
  ];
  return `${parts.join(" · ")}.`;
}

/** What all environments were given. */
function alike(some: JsonObject, others: JsonObject): JsonObject {
  const same = ([name, value]: [string, Json]) => canonicalJson(value) === canonicalJson(others[name] ?? null);
  return Object.fromEntries(Object.entries(some).filter(same));
}

function trainingLines({ recipe, differences }: Training): string {
  if (differences.length === 0) return `Trained by ${recipe}, and played as in training.`;
  const value = (given: Json | undefined) => (given === undefined ? "default" : JSON.stringify(given));
  const rows = differences.map(({ setting, training, here }) => `| ${setting} | ${value(training)} | ${value(here)} |`);
  return [
    `Trained by ${recipe}. What differs from training:`,
    "",
    "| | training | here |",
    "|---|---|---|",
    ...rows,
  ].join("\n");
}

function table(report: Report): string {
  const cost = report.price !== undefined;
  const head = [
    "environment",
    "success",
    "95 %",
    "stop",
    "random",
    "oracle",
    "asked",
    "played",
    "failed",
    "turns",
    "unparsed",
    "refused",
    "cut",
    "tokens in",
    "out",
    ...(cost ? ["cost"] : []),
  ];
  const rows = report.envs.map((env) => row(env, cost));
  const means = report.envs.length > 1 ? report.means.map((mean) => meanRow(mean, head.length)) : [];
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? "---" : "--:"))), ...[...rows, ...means].map(line)].join("\n");
}

function row(
  {
    env,
    success,
    against,
    turns,
    unparsed,
    refused,
    cut,
    inputTokens,
    outputTokens,
    asked,
    played,
    failed,
    spent,
  }: EnvReport,
  cost: boolean,
): string[] {
  return [
    env,
    percent(success.value),
    interval(success),
    yardstick(against.stop),
    yardstick(against.random),
    yardstick(against.oracle),
    String(asked),
    String(played),
    String(failed),
    number(turns, 1),
    percent(unparsed),
    percent(refused),
    percent(cut),
    number(inputTokens),
    number(outputTokens),
    ...(cost ? [number(spent.cost, 4)] : []),
  ];
}

function meanRow({ of, envs, success, stop, random, oracle }: MeanReport, width: number): string[] {
  const cells = [
    `**mean ${of}** (${envs})`,
    `**${percent(success.value)}**`,
    interval(success),
    percent(stop),
    percent(random),
    percent(oracle),
  ];
  return [...cells, ...Array.from({ length: width - cells.length }, () => "")];
}

function passLines({ envs }: Report): string {
  const lines = envs.map(
    ({ env, passAtK }) =>
      `- ${env}: ${passAtK.map(({ k, value, seeds }) => `pass@${k} ${percent(value)} (${seeds} seeds)`).join(", ")}`,
  );
  return `Solved by at least one of k tries:\n${lines.join("\n")}`;
}

function decisionLines({ envs }: Report): string {
  const list = (shares: Readonly<Record<string, number>>) =>
    Object.entries(shares)
      .map(([bucket, share]) => `${bucket}: ${percent(share)}`)
      .join(", ");
  const lines = envs.flatMap(({ env, decisions }) => {
    if (decisions === undefined) return [];
    const { value, count, byDistance, byTurn, byWays } = decisions;
    const ways = Object.keys(byWays).length > 0 ? `; by ways to go ${list(byWays)}` : "";
    return [
      `- ${env}: ${percent(value)} of ${count}; by actions to the goal ${list(byDistance)}; by turn ${list(byTurn)}${ways}`,
    ];
  });
  return `Turns that were as good as the oracle's:\n${lines.join("\n")}`;
}

function spentLine({ spent, price }: Report): string {
  const cost =
    price === undefined
      ? ""
      : `; cost ${number(spent.cost, 4)} at ${price.input} in and ${price.output} out per million tokens`;
  const unmetered = spent.unmetered > 0 ? ` (${spent.unmetered} answers came without a count)` : "";
  const cached = spent.cachedTokens > 0 ? `, ${number(spent.cachedTokens)} of them cached` : "";
  const reasoning = spent.reasoningTokens > 0 ? `, ${number(spent.reasoningTokens)} of them reasoning` : "";
  return (
    `Spent, failed attempts included: ${number(spent.requests)} requests (${number(spent.retries)} sent again), ` +
    `${number(spent.inputTokens)} tokens in${cached}, ${number(spent.outputTokens)} out${reasoning}${unmetered}${cost}.`
  );
}

function unfinished({ envs, errors }: Report): string {
  const sum = (value: (env: EnvReport) => number) => envs.reduce((total, env) => total + value(env), 0);
  const head = `**Not complete**: of ${sum((env) => env.asked)} episodes ${sum((env) => env.failed)} failed for our reasons and ${sum((env) => env.missing)} were not played. Run the same command again to play them.`;
  return [
    head,
    ...errors.slice(0, 10).map(({ message, count }) => `- ${count} × ${message.replace(/\s+/g, " ")}`),
  ].join("\n");
}

function firstFailed(failure: Failure): string {
  return ["The first failure:", "", "```", ...failureLines(failure), "```"].join("\n");
}

/** A floor or a ceiling; failed episodes of its agent count against it and are told. */
function yardstick(rate: SuccessRate | undefined): string {
  const failed = rate === undefined || rate.failed === 0 ? "" : ` (${rate.failed} of ${rate.total} failed)`;
  return `${percent(rate?.value)}${failed}`;
}

const isNumber = (value: number | undefined): value is number => value !== undefined && Number.isFinite(value);

function percent(share: number | undefined): string {
  return isNumber(share) ? `${(100 * share).toFixed(1)} %` : "–";
}

function interval({ value, low, high }: { value: number; low: number; high: number }): string {
  return isNumber(value) ? `${(100 * low).toFixed(1)}–${(100 * high).toFixed(1)}` : "–";
}

function number(value: number | undefined, digits = 0): string {
  return isNumber(value) ? value.toLocaleString("en-US", { maximumFractionDigits: digits }) : "–";
}
