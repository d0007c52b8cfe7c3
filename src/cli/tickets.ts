/** `saccade data tickets`: rows that name an environment and a seed, the data set of a run. */
import { writeFileSync } from "node:fs";
import { Command, Option } from "commander";
import { ConfigError } from "../core/index.ts";
import { makeEnv } from "../envs/index.ts";
import { makeTickets, ticketLines } from "../envs/tickets.ts";
import { checkWritable, collect, envOptions, wholeNumber } from "./common.ts";

type Flags = { rows: number; split: "train" | "val"; out: string; seed: number; set: string[]; protocol?: string };

export function ticketsCommand(): Command {
  return new Command("tickets")
    .description("write tickets: rows that name an environment and, for validation, a seed")
    .argument("<env>", "environment id or path")
    .requiredOption("--rows <n>", "how many rows", wholeNumber("--rows", 1))
    .addOption(
      new Option("--split <split>", "`val` rows have fixed seeds; `train` rows get theirs from the run")
        .choices(["train", "val"])
        .makeOptionMandatory(),
    )
    .requiredOption("--out <file>", "file to write, JSON lines")
    .option("--seed <n>", "first seed of a validation split", wholeNumber("--seed"), 0)
    .option("--protocol <name>", "protocol of the environment")
    .option("--set <key=value>", "option of the environment (repeat)", collect, [])
    .action(async (env: string, flags: Flags) => {
      const options = envOptions(flags);
      checkWritable(flags.out, "--out");
      const made = await makeEnv(env, options); // a wrong id or option fails here, before anything is written
      await made.close?.();
      const tickets = makeTickets(env, { rows: flags.rows, split: flags.split, firstSeed: flags.seed, options });
      try {
        writeFileSync(flags.out, ticketLines(tickets), { flag: "wx" });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
        throw new ConfigError(`${flags.out} exists already: choose another --out, or remove it.`);
      }
      process.stderr.write(`${tickets.length} rows in ${flags.out}\n`);
    });
}
