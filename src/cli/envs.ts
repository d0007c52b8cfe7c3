/** `saccade envs`: every environment there is. */
import { Command } from "commander";
import { listEnvs } from "../envs/index.ts";
import { textColumns } from "./common.ts";
import { hanging } from "./panel.ts";

const MAX_SHOWN = 12;

export function envsCommand(): Command {
  return new Command("envs")
    .description("list the environments")
    .option("--json", "print ids, options and defaults as a JSON array")
    .action(async (flags: { json?: boolean }) => {
      const envs = await listEnvs();
      if (flags.json) {
        process.stdout.write(`${JSON.stringify(envs, null, 2)}\n`);
        return;
      }
      const columns = textColumns(process.stdout);
      const width = Math.max(...envs.map((env) => env.id.length)) + 2;
      const write = (id: string, text: string) =>
        process.stdout.write(`${hanging(id, text, width, columns).join("\n")}\n`);
      for (const [index, env] of envs.entries()) {
        const family = env.id.split("/")[0];
        const before = envs.slice(0, index).filter(({ id }) => id.split("/")[0] === family).length;
        const all = envs.filter(({ id }) => id.split("/")[0] === family).length;
        // A world of many tasks would push the others off the screen.
        if (all > MAX_SHOWN && before > 0) {
          if (before === 1) write("", `… and ${all - 1} more: saccade envs --json`);
          continue;
        }
        const limits = `${env.protocol ?? "own protocol"}, ${env.maxTurns ?? "?"} turns`;
        write(env.id, `${env.summary} (${limits})`);
      }
      process.stdout.write(`\n${envs.length} ids. A file works too: saccade play ./my-world.ts\n`);
    });
}
