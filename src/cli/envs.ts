/** `saccade envs`: every environment there is. */
import { Command } from "commander";
import { listEnvs } from "../envs/index.ts";

export function envsCommand(): Command {
  return new Command("envs")
    .description("list the environments")
    .option("--json", "one JSON array with options and defaults")
    .action(async (flags: { json?: boolean }) => {
      const envs = await listEnvs();
      if (flags.json) {
        process.stdout.write(`${JSON.stringify(envs, null, 2)}\n`);
        return;
      }
      const width = Math.max(...envs.map((env) => env.id.length));
      for (const env of envs) {
        const limits = `${env.protocol ?? "own protocol"}, ${env.maxTurns ?? "?"} turns`;
        process.stdout.write(`${env.id.padEnd(width)}  ${env.summary} (${limits})\n`);
      }
      process.stdout.write(`\n${envs.length} ids. A file works too: saccade play ./my-world.ts\n`);
    });
}
