/** `saccade data episodes`: the recorded episodes of agents that bring their own loop, as demonstrations for `saccade sft`. */
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { DemoWriter } from "../envs/index.ts";
import { recordedDemos } from "../rollout/index.ts";
import { isRun, readFrame, readTrajectories, trajectorySteps } from "../run/index.ts";

type Flags = { readonly out: string; readonly minReward: number };

export function episodesCommand(): Command {
  return new Command("episodes")
    .description("write recorded episodes of an agent as demonstrations")
    .argument("<run>", "run folder of `saccade serve --record`, `eval` or `train`")
    .requiredOption("--out <file>", "file to write, JSON lines")
    .option("--min-reward <number>", "leave out episodes that earned less", readReward, 1)
    .action(writeEpisodes);
}

async function writeEpisodes(run: string, { out, minReward }: Flags): Promise<void> {
  if (!(await isRun(run))) throw new ConfigError(`${run} is not a run folder; saccade runs lists your runs.`);
  if (existsSync(out)) throw new ConfigError(`${out} exists: choose another --out.`);
  const writer = new DemoWriter(out, false);
  writeFileSync(out, "");
  const count = { rows: 0, episodes: 0, left: 0 };
  for (const step of await trajectorySteps(run)) {
    for (const record of await readTrajectories(run, step)) {
      if (record.error !== undefined || record.reward < minReward) {
        count.left += 1;
        continue;
      }
      const demos = await recordedDemos(record, (hash) => readFrame(run, hash));
      for (const demo of demos) appendFileSync(out, `${writer.row(demo)}\n`);
      count.rows += demos.length;
      count.episodes += 1;
    }
  }
  process.stdout.write(
    `${count.rows} conversations of ${count.episodes} episodes with ${writer.frames} images in ${out}; ${count.left} episodes earned less than ${minReward} or failed\n`,
  );
}

function readReward(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value)) return value;
  throw new ConfigError(`--min-reward takes a number, got "${text}".`);
}
