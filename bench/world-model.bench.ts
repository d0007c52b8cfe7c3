/**
 * Does world modelling help? VAGEN's comparison in small: six strategies × two worlds × three seeds, all with the same number of tokens through the learner, in the warm start and after
 * it. `npm run bench -- world-model [folder]` plays what the folder has not finished, BENCH_JOBS (1) at a time on BENCH_THREADS (2) threads each, and prints the table; `--plan` prints
 * the commands instead, `--table` the table of what is there.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const STRATEGIES = ["none", "free", "state", "transition", "both", "full"] as const;
const WORLDS = ["frozen-lake", "sokoban"] as const;
type Strategy = (typeof STRATEGIES)[number];
type World = (typeof WORLDS)[number];
const SEEDS = [0, 1, 2];
/** Tokens through the policy's learner, in each phase. */
const WARM_TOKENS = 1_200_000;
const REWARDED_TOKENS = 360_000;
const GROUPS = 64;
const NOISE = 0.2;
/** Mean tokens of a demonstration with that noise, prompt and images included. */
const EPISODE_TOKENS: Readonly<Record<World, Readonly<Record<Strategy, number>>>> = {
  "frozen-lake": { none: 107, free: 117, state: 188, transition: 188, both: 270, full: 270 },
  sokoban: { none: 127, free: 138, state: 190, transition: 190, both: 253, full: 253 },
};

type Job = { readonly world: World; readonly strategy: Strategy; readonly seed: number; readonly name: string };

const jobs: readonly Job[] = SEEDS.flatMap((seed) =>
  STRATEGIES.flatMap((strategy) =>
    WORLDS.map((world) => ({ world, strategy, seed, name: `${world}-${strategy}-${seed}` })),
  ),
);

function commandOf({ world, strategy, seed, name }: Job, folder: string, threads: string): string[] {
  const tokens = EPISODE_TOKENS[world][strategy];
  const set: Readonly<Record<string, unknown>> = {
    seed,
    steps: Math.round(REWARDED_TOKENS / (GROUPS * tokens)),
    groups: GROUPS,
    "warmStart.episodes": Math.round(WARM_TOKENS / tokens),
    "warmStart.noise": NOISE,
    "warmStart.batch": 8,
    "critic.warmupSteps": 3,
    "evaluate.every": 10_000,
    "evaluate.seeds": [1_000_000_000, 1_000_000_255],
    "evaluate.decisions": false,
    "checkpoint.every": 10_000,
    "sight.every": 0,
    "rollout.live": GROUPS,
  };
  const sets = Object.entries(set).flatMap(([key, value]) => ["--set", `${key}=${JSON.stringify(value)}`]);
  const engine = JSON.stringify({ name: "native", threads: Number(threads) });
  return ["train", `${world}-wm-${strategy}`, "--engine", engine, ...sets, "--out", join(folder, name)];
}

type Event = {
  readonly kind: string;
  readonly metrics: Readonly<Record<string, number>>;
  readonly data?: { status?: string };
};

function eventsOf(folder: string, { name }: Job): readonly Event[] {
  const file = join(folder, name, "events.jsonl");
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Event);
}

const isDone = (events: readonly Event[]) => events.at(-1)?.data?.status === "finished";
const mean = (list: readonly number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;
const share = (value: number | undefined) => (value === undefined || Number.isNaN(value) ? "–" : value.toFixed(3));
/** Of t with two degrees of freedom, three seeds: what 95 in a hundred lie within. */
const T = 4.303;

/** Mean over seeds, with the 95 % interval of that mean. */
function over(list: readonly number[]): string {
  if (list.length < 3) return share(list.length === 0 ? undefined : mean(list));
  const error = Math.sqrt(
    (mean(list.map((value) => (value - mean(list)) ** 2)) * (list.length / (list.length - 1))) / list.length,
  );
  return `${share(mean(list))} ± ${(T * error).toFixed(3)}`;
}

function printTable(folder: string): void {
  for (const world of WORLDS) {
    const lines = STRATEGIES.map((strategy) => {
      const runs = jobs
        .filter((job) => job.world === world && job.strategy === strategy)
        .map((job) => eventsOf(folder, job))
        .filter(isDone);
      const evals = runs.map((events) => events.filter(({ kind }) => kind === "eval").map(({ metrics }) => metrics));
      const at = (metric: string, when: 0 | -1) => evals.flatMap((list) => list.at(when)?.[metric] ?? []);
      const tokens = runs.map((events) => ({
        warm: events.reduce(
          (sum, { metrics }) =>
            sum + ("sft/nll" in metrics ? (metrics["speed/trained_tokens"] ?? 0) * (metrics["time/step"] ?? 0) : 0),
          0,
        ),
        rewarded: events.reduce(
          (sum, { kind, metrics }) => sum + (kind === "train" ? (metrics["train/episode_tokens"] ?? 0) * GROUPS : 0),
          0,
        ),
      }));
      const million = (key: "warm" | "rewarded") =>
        tokens.length === 0 ? "–" : (mean(tokens.map((one) => one[key])) / 1e6).toFixed(2);
      const parts = (name: string) =>
        share(
          mean(runs.flatMap((events) => events.filter(({ metrics }) => name in metrics).at(-1)?.metrics[name] ?? [])),
        );
      return `| ${strategy} | ${runs.length} | ${over(at("eval/success", 0))} | ${over(at("eval/success", -1))} | ${at("eval/success", -1).map(share).join(" ")} | ${over(at("eval/success_greedy", 0))} | ${over(at("eval/success_greedy", -1))} | ${parts("reward/state")} | ${parts("reward/transition")} | ${million("warm")} + ${million("rewarded")} |`;
    });
    const yardstick = jobs
      .filter((job) => job.world === world)
      .map((job) => eventsOf(folder, job))
      .filter(isDone)[0]
      ?.find(({ kind }) => kind === "eval")?.metrics;
    process.stdout.write(
      `\n${world}: floor (stopping) ${share(yardstick?.["eval/floor"])}, random play ${share(yardstick?.["eval/random"])}, ceiling (oracle) ${share(yardstick?.["eval/ceiling"])}\n\n` +
        "| strategy | seeds | warm start, sampled | end, sampled | each seed | warm start, greedy | end, greedy | state | transition | tokens (M) |\n|---|---|---|---|---|---|---|---|---|---|\n" +
        `${lines.join("\n")}\n`,
    );
  }
}

async function playAll(folder: string): Promise<void> {
  const waiting = jobs.filter((job) => !isDone(eventsOf(folder, job)));
  const cli = join(import.meta.dirname, "..", "dist", "cli.js");
  const worker = async () => {
    for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
      const args = commandOf(job, folder, process.env.BENCH_THREADS ?? "2");
      const code = await new Promise((done) =>
        spawn(process.execPath, [cli, ...args], { stdio: "ignore" }).on("exit", done),
      );
      process.stderr.write(`${job.name}: ${code === 0 ? "done" : `failed with ${code}`}\n`);
    }
  };
  await Promise.all(Array.from({ length: Number(process.env.BENCH_JOBS ?? 1) }, worker));
}

const given = process.argv.slice(3);
const [folder = "runs/world-model"] = given.filter((word) => !word.startsWith("--"));
if (given.includes("--plan")) {
  for (const job of jobs)
    process.stdout.write(
      `${commandOf(job, folder, process.env.BENCH_THREADS ?? "2")
        .map((word) => `'${word}'`)
        .join(" ")}\n`,
    );
} else {
  if (!given.includes("--table")) await playAll(folder);
  printTable(folder);
}
