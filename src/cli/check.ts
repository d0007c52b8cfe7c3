/** `saccade check`: what is wrong with an environment, before a training run spends its time on it. */
import { Command } from "commander";
import { printable } from "../core/printable.ts";
import { isDriven } from "../envs/registry.ts";
import { checkEnv, type Finding } from "../train/index.ts";
import { collect, EXIT, envOptions, textColumns, wholeNumber } from "./common.ts";
import { hanging } from "./panel.ts";

type Flags = { set: string[]; protocol?: string; maxTurns?: number; seeds: number; json?: boolean };

const SIGNS = { good: "✓", note: "·", bad: "✗" } as const;

export function checkCommand(): Command {
  return new Command("check")
    .description("check an environment for mistakes before you train on it")
    .argument("<env>", "an id that `saccade envs` lists, or a file such as ./my-world.ts")
    .option("--set <key=value>", "an option of the environment (repeat)", collect, [])
    .option("--protocol <name>", "reply format: tuple, keyword, think, world-model or tool-call")
    .option("--max-turns <n>", "turn limit", wholeNumber("--max-turns", 1))
    .option("--seeds <n>", "number of seeds that the built-in agents play", wholeNumber("--seeds", 1), 32)
    .option("--json", "print the findings as a JSON array")
    .addHelpText("after", "\nExit code 1 means that something is wrong (✗). Notes (·) are for you to judge.")
    .action(async (env: string, flags: Flags) => {
      const findings: Finding[] = [];
      for await (const finding of checkEnv(env, { options: envOptions(flags), seeds: flags.seeds })) {
        findings.push(finding);
        if (!flags.json) process.stdout.write(line(finding, textColumns(process.stdout)));
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

/** Where findings begin, and their advice. */
const [TEXT, ADVICE] = [28, 30];

export function line({ about, verdict, text, advice }: Finding, width = Number.MAX_SAFE_INTEGER): string {
  return [
    ...hanging(`${SIGNS[verdict]} ${about} `, printable(text), TEXT, width),
    ...(advice === undefined ? [] : hanging(`${" ".repeat(TEXT)}→`, advice, ADVICE, width)),
    "",
  ].join("\n");
}
