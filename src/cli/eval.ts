/**
 * `saccade eval`: any model on any environment. Progress goes to stderr, the report to stdout. Ctrl-C keeps what was played; the same
 * command again plays the rest.
 */
import { Command, Option } from "commander";
import { ConfigError } from "../core/index.ts";
import { printable, printableJson } from "../core/printable.ts";
import type { EngineConfig } from "../engine/index.ts";
import type { Source } from "../envs/index.ts";
import {
  type EvaluationOptions,
  type EvaluationPresetName,
  evaluateModel,
  evaluationPresets,
  type Price,
} from "../evaluate/index.ts";
import { failureLines } from "../run/index.ts";
import { collect, EXIT, envOptions, wholeNumber } from "./common.ts";
import { ENGINE_FLAG } from "./engine.ts";
import { EvalProgress, episodeNote } from "./eval-progress.ts";

/** The hosted tool may ask for several actions at once. */
const COMPUTER_PROTOCOL = { name: "tool-call", form: "computer_use", maxActions: 8 };

export type EvalFlags = {
  env: string[];
  tickets: string[];
  plan: string[];
  records?: string;
  seeds?: number[];
  preset?: EvaluationPresetName;
  repeats: number;
  engine?: EngineConfig;
  history?: number;
  maxTurns?: number;
  concurrency: number;
  rate?: number;
  temperature?: number;
  greedy?: boolean;
  maxTokens?: number;
  observation?: "image" | "text";
  finalGoal?: boolean;
  protocol?: string;
  set: string[];
  price?: Price;
  baseUrl?: string;
  keyVariable?: string;
  computerUse?: boolean;
  timeout: number;
  out?: string;
  json?: boolean;
};

export function evalCommand(): Command {
  return new Command("eval")
    .description("measure any model on any environment")
    .argument(
      "<model>",
      "a run, a model folder, provider:name (openai, anthropic, google), url#name (OpenAI-compatible server), agent:oracle, agent:random or agent:stop",
    )
    .option("--env <id>", "environment id or path (repeat)", collect, [])
    .option("--tickets <file>", "file of tickets, JSON lines or Parquet (repeat)", collect, [])
    .option("--plan <file>", "VAGEN seed plan, YAML or JSON (repeat)", collect, [])
    .option("--records <file>", "file of records for the --env, JSON lines or Parquet")
    .option("--seeds <seeds>", "seeds to play, both ends included: 0..69, or 1,5,10..20", parseSeeds)
    .addOption(new Option("--preset <name>", "settings of a published evaluation").choices(evaluationPresets))
    .option("--repeats <n>", "episodes per seed, for pass@k", wholeNumber("--repeats", 1), 1)
    .option("--history <k>", "show only the first turn, the last k and the current one", wholeNumber("--history"))
    .option("--max-turns <n>", "turn limit", wholeNumber("--max-turns", 1))
    .option("--concurrency <n>", "episodes at a time", wholeNumber("--concurrency", 1), 8)
    .option("--rate <n>", "maximum number of requests per minute", positive("--rate"))
    .option(
      "--temperature <t>",
      "sampling temperature (default: the provider's, or from generation_config.json)",
      atLeastZero("--temperature"),
    )
    .option("--greedy", "decode greedily (temperature 0)")
    .option("--max-tokens <n>", "maximum length of a reply, in tokens", wholeNumber("--max-tokens", 1))
    .addOption(new Option("--observation <mode>", "what the model sees").choices(["image", "text"]))
    .option("--final-goal", "show the solved state in the first message")
    .option("--protocol <name>", "tuple, keyword, think, world-model or tool-call")
    .option(
      "--set <key=value>",
      "set an option of the environments (repeat), for example --set feedback=false",
      collect,
      [],
    )
    .option("--price <in/out>", "dollars per million tokens, for example 2.5/10; adds cost to the report", parsePrice)
    .option("--base-url <url>", "address to use instead of the provider's")
    .option("--key-variable <name>", "environment variable with the key for a url#name server")
    .option("--computer-use", "for openai:name on web pages: act through the model's own computer tool")
    .option("--timeout <s>", "time limit of one answer, in seconds", positive("--timeout"), 600)
    .option(...ENGINE_FLAG)
    .option("--out <folder>", "run folder (default: a folder under evals/ for this model and these settings)")
    .option("--json", "print the report as JSON")
    .action(async (model: string, flags: EvalFlags) => {
      process.exitCode = await runEval(model, flags);
    });
}

/** Returns the exit code: 0 when every episode is scored. */
export async function runEval(model: string, flags: EvalFlags): Promise<number> {
  const interrupt = new AbortController();
  const onSignal = () => {
    if (interrupt.signal.aborted) process.exit(EXIT.interrupted);
    process.stderr.write("\nStopping; what was played is kept. Once more ends at once.\n");
    interrupt.abort(new Error("interrupted"));
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  const progress = new EvalProgress();
  try {
    const { report, markdown, folder } = await evaluateModel({
      ...evaluationOptions(model, flags),
      signal: interrupt.signal,
      onTrouble: (reason) => process.stderr.write(`${model}: ${printable(reason)}; trying again\n`),
      onProgress: (phase, done, total) => progress.see(phase, done, total),
      onEpisode: (result, { done, total }) => progress.see("play", done, total, episodeNote(result)),
    });
    progress.close();
    if (report.failure !== undefined)
      process.stderr.write(`An episode failed. ${printable(failureLines(report.failure).join("\n"))}\n`);
    process.stdout.write(flags.json ? `${printableJson({ ...report, folder }, 2)}\n` : printable(markdown));
    process.stderr.write(`Report and episodes: ${folder} (saccade view ${folder})\n`);
    if (interrupt.signal.aborted) return EXIT.interrupted;
    return report.complete ? EXIT.ok : EXIT.failed;
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
    return EXIT.interrupted;
  } finally {
    progress.close();
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
}

export function evaluationOptions(model: string, flags: EvalFlags): EvaluationOptions {
  const {
    env,
    greedy,
    observation,
    finalGoal,
    rate,
    timeout,
    json: _json,
    set,
    protocol,
    temperature,
    tickets,
    plan,
    records,
    ...rest
  } = flags;
  const [only] = env;
  if (records !== undefined && (only === undefined || env.length > 1)) {
    throw new ConfigError("--records takes exactly one --env, which says what its rows ask and what a reply earns.");
  }
  const sources: Source[] = [
    ...tickets.map((file) => ({ tickets: file })),
    ...plan.map((file) => ({ plan: file })),
    ...(records === undefined || only === undefined ? [] : [{ records, env: only }]),
  ];
  if (flags.computerUse && protocol !== undefined)
    throw new ConfigError("--computer-use brings its own protocol: leave --protocol out.");
  if (greedy && temperature !== undefined) throw new ConfigError("Choose one of --greedy and --temperature.");
  const sampled = greedy ? 0 : temperature;
  return {
    ...rest,
    model,
    ...(env.length > 0 && records === undefined && { envs: env }),
    ...(sources.length > 0 && { sources }),
    options: {
      ...envOptions({ set, ...(protocol !== undefined && { protocol }) }),
      ...(flags.computerUse && { protocol: COMPUTER_PROTOCOL }),
      ...(observation && { observation }),
      ...(finalGoal && { finalGoal }),
    },
    timeoutMs: timeout * 1000,
    ...(rate !== undefined && { ratePerMinute: rate }),
    ...(sampled !== undefined && { temperature: sampled }),
  };
}

/** `0..69`, `7`, `1,5,10..20`. */
export function parseSeeds(text: string): number[] {
  const seeds = text.split(",").flatMap((part) => {
    const [, first, last = first] = /^(\d+)(?:\.\.(\d+))?$/.exec(part.trim()) ?? [];
    const [low, high] = [Number(first), Number(last)];
    if (first === undefined || !Number.isSafeInteger(high) || high < low || high - low >= 1e6) {
      throw new ConfigError(`--seeds takes numbers and ranges such as 0..69 or 1,5,10..20, got "${text}".`);
    }
    return Array.from({ length: high - low + 1 }, (_, i) => low + i);
  });
  return [...new Set(seeds)];
}

export function parsePrice(text: string): Price {
  const [input, output, ...more] = text.split("/").map((part) => (part.trim() === "" ? Number.NaN : Number(part)));
  if (input === undefined || output === undefined || more.length > 0 || !(input >= 0) || !(output >= 0)) {
    throw new ConfigError(`--price takes what a million tokens cost, in/out, for example 2.5/10; got "${text}".`);
  }
  return { input, output };
}

function positive(flag: string): (value: string) => number {
  return (value) => {
    const number = Number(value);
    if (value.trim() === "" || !Number.isFinite(number) || number <= 0) {
      throw new ConfigError(`${flag} takes a number above 0, got "${value}".`);
    }
    return number;
  };
}

function atLeastZero(flag: string): (value: string) => number {
  return (value) => {
    const number = Number(value);
    if (value.trim() === "" || !Number.isFinite(number) || number < 0) {
      throw new ConfigError(`${flag} takes a number of at least 0, got "${value}".`);
    }
    return number;
  };
}
