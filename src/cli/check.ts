/** `saccade check`: what is wrong with an environment, before a training run spends its time on it. */
import { Command } from "commander";
import { printable } from "../core/printable.ts";
import { isDriven } from "../envs/registry.ts";
import { checkEnv, type Finding } from "../train/index.ts";
import { collect, EXIT, envOptions, wholeNumber } from "./common.ts";

type Flags = { set: string[]; protocol?: string; maxTurns?: number; seeds: number; json?: boolean };

const SIGNS = { good: "✓", note: "·", bad: "✗" } as const;

export function checkCommand(): Command {
  return new Command("check")
    .description("find out what is wrong with an environment before you train on it")
    .argument("<env>", "an id that `saccade envs` lists, or a file such as ./my-world.ts")
    .option("--set <key=value>", "an option of the environment (repeat)", collect, [])
    .option("--protocol <name>", "how a model replies")
    .option("--max-turns <n>", "turn limit", wholeNumber("--max-turns", 1))
    .option("--seeds <n>", "how many seeds the built-in agents play", wholeNumber("--seeds", 1), 32)
    .option("--json", "one JSON array of findings")
    .addHelpText("after", "\nExit code 1 when something is wrong (✗); notes (·) are for you to judge.")
    .action(async (env: string, flags: Flags) => {
      const findings: Finding[] = [];
      for await (const finding of checkEnv(env, { options: envOptions(flags), seeds: flags.seeds })) {
        findings.push(finding);
        if (!flags.json) process.stdout.write(line(finding));
      }
      if (flags.json) process.stdout.write(`${JSON.stringify(findings, null, 2)}\n`);
      const wrong = findings.filter(({ verdict }) => verdict === "bad").length;
      if (wrong > 0) process.exitCode = EXIT.failed;
      else if (!flags.json) {
        const next = (await isDriven(env)) ? `saccade eval agent:oracle --env ${env}` : `saccade play ${env}`;
        process.stdout.write(`\nNothing is wrong. See it play: ${next}\n`);
      }
    });
}

function line({ about, verdict, text, advice }: Finding): string {
  const hint = advice === undefined ? "" : `\n${" ".repeat(28)}→ ${advice}`;
  return `${SIGNS[verdict]} ${about.padEnd(25)} ${printable(text)}${hint}\n`;
}
