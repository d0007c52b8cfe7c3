/** `saccade data demos`: oracle conversations for supervised training. Interrupted, it goes on where it stopped. */
import { appendFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { Command, Option } from "commander";
import { ConfigError } from "../core/index.ts";
import { countDemos, DemoWriter, type Env, LABELS, type Labels, makeEnv, playDemo, WorldEnv } from "../envs/index.ts";
import { checkWritable, collect, EXIT, envOptions, onInterrupt, Progress, wholeNumber } from "./common.ts";

type Flags = {
  episodes: number;
  out: string;
  seed: number;
  embed?: boolean;
  resume?: boolean;
  noise: number;
  labels: Labels;
  set: string[];
  protocol?: string;
  maxTurns?: number;
};

export function demosCommand(): Command {
  return new Command("demos")
    .description("write oracle conversations for supervised training")
    .argument("<env>", "environment id or path")
    .requiredOption("--episodes <n>", "how many episodes", wholeNumber("--episodes", 1))
    .requiredOption("--out <file>", "file to write, JSON lines; frames go to a folder next to it")
    .option("--seed <n>", "seed of the first episode; later episodes count up", wholeNumber("--seed"), 0)
    .option("--protocol <name>", "reply format of the demonstrations")
    .option("--max-turns <n>", "turn limit", wholeNumber("--max-turns", 1))
    .option(
      "--noise <p>",
      "probability of a random action instead of the oracle's; never one that ends the episode",
      share,
      0,
    )
    .addOption(new Option("--labels <what>", "what a noisy turn teaches").choices(LABELS).default("played"))
    .option("--embed", "put frames into the rows as data URIs")
    .option("--resume", "continue an interrupted file")
    .option("--set <key=value>", "option of the environment (repeat)", collect, [])
    .action(runDemos);
}

async function runDemos(name: string, flags: Flags): Promise<void> {
  const options = envOptions(flags);
  checkWritable(flags.out, "--out");
  const env = await makeEnv(name, options);
  try {
    await writeDemos(name, env, options, flags);
  } finally {
    await env.close?.();
  }
}

async function writeDemos(name: string, env: Env, options: Record<string, unknown>, flags: Flags): Promise<void> {
  const mostTurns = env instanceof WorldEnv ? env.options.maxTurns : Number.POSITIVE_INFINITY;
  const noise = { probability: flags.noise, labels: flags.labels };
  const given = Object.keys(options).length > 0 ? { options } : {};
  startFile(flags.out, flags.resume === true);
  const done = await countDemos(flags.out, {
    env: name,
    seed: flags.seed,
    ...given,
    ...(noise.probability > 0 && { noise }),
  });
  const writer = new DemoWriter(flags.out, flags.embed === true);
  const progress = new Progress(`demos ${name}`, flags.episodes, { before: done });
  const state = onInterrupt();
  let outOfTurns = 0;
  let failed = 0;
  for (let episode = done; episode < flags.episodes; episode++) {
    if (state.interrupted) {
      process.stderr.write(
        `\nStopped after ${episode} of ${flags.episodes}; the same command with --resume goes on.\n`,
      );
      process.exitCode = EXIT.interrupted;
      return;
    }
    const demo = await playDemo(name, env, flags.seed + episode, given.options, noise);
    if (!demo.success && demo.turns >= mostTurns) outOfTurns += 1;
    else if (!demo.success) failed += 1;
    appendFileSync(flags.out, `${writer.row(demo)}\n`);
    progress.update(episode + 1);
    // Gives Ctrl-C a chance between episodes.
    if (episode % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  process.stderr.write(`${flags.episodes} episodes, ${writer.frames} distinct frames, in ${flags.out}\n`);
  if (outOfTurns > 0) hint(outOfTurns, "ran out of turns", "--max-turns gives more of them");
  if (failed > 0) hint(failed, "failed", "a random move could not be mended, so try less --noise");
}

function hint(count: number, what: string, advice: string): void {
  process.stderr.write(`${count} of them ${what} (rows say "success": false): ${advice}.\n`);
}

function share(value: string): number {
  const number = Number(value);
  if (!(number >= 0 && number <= 1)) throw new ConfigError(`--noise takes a number from 0 to 1, got "${value}".`);
  return number;
}

/** Makes the file, or drops a last line that a kill cut in half. */
function startFile(file: string, resume: boolean): void {
  if (!existsSync(file)) {
    writeFileSync(file, "");
    return;
  }
  if (!resume) throw new ConfigError(`${file} exists already: add --resume to go on with it, or choose another --out.`);
  const bytes = readFileSync(file);
  const end = bytes.lastIndexOf(0x0a) + 1;
  if (end < bytes.length) truncateSync(file, end);
}
