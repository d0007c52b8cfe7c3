/** `saccade envs`: every environment there is. */
import { Command } from "commander";
import { listEnvs } from "../envs/index.ts";

const MAX_SHOWN = 12;

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
      for (const [index, env] of envs.entries()) {
        const family = env.id.split("/")[0];
        const before = envs.slice(0, index).filter(({ id }) => id.split("/")[0] === family).length;
        const all = envs.filter(({ id }) => id.split("/")[0] === family).length;
        // A world of many tasks would push the others off the screen.
        if (all > MAX_SHOWN && before > 0) {
          if (before === 1) process.stdout.write(`${" ".repeat(width)}  … and ${all - 1} more: saccade envs --json\n`);
          continue;
        }
        const limits = `${env.protocol ?? "own protocol"}, ${env.maxTurns ?? "?"} turns`;
        process.stdout.write(`${env.id.padEnd(width)}  ${env.summary} (${limits})\n`);
      }
      process.stdout.write(`\n${envs.length} ids. A file works too: saccade play ./my-world.ts\n`);
    });
}
