/** `saccade data record`: a person clicks through a web page; the episodes become demonstrations to train on. */
import { appendFileSync, writeFileSync } from "node:fs";
import { Command } from "commander";
import { ConfigError } from "../core/index.ts";
import { DemoWriter, makeEnv } from "../envs/index.ts";
import { isSite, registerSite } from "../envs/pages/site.ts";
import { startRecorder } from "../serve/recorder.ts";
import { checkWritable, collect, envOptions, onInterrupt, wholeNumber } from "./common.ts";

type Flags = {
  out: string;
  seed: number;
  episodes?: number;
  port?: number;
  goal?: string;
  allowNetwork?: boolean;
  append?: boolean;
  protocol?: string;
  maxTurns?: number;
  set: string[];
};

export function recordCommand(): Command {
  return new Command("record")
    .description("record what a person does on a web page, as demonstrations")
    .argument("<env>", "environment id or path, or the address of a site: http://localhost:3000")
    .requiredOption("--out <file>", "file to write, JSON lines; frames go to a folder next to it")
    .option("--goal <text>", "for a site: the task, in words")
    .option("--allow-network", "for a site: allow other machines and any requests of the page")
    .option("--seed <n>", "seed of the first episode; later episodes count up", wholeNumber("--seed"), 0)
    .option("--episodes <n>", "stop after this many episodes (default: at Ctrl-C)", wholeNumber("--episodes", 1))
    .option("--append", "add to an existing file")
    .option("--port <n>", "port of the page to click on (default: any free one)", wholeNumber("--port"))
    .option("--protocol <name>", "reply format of the demonstrations")
    .option("--max-turns <n>", "turn limit", wholeNumber("--max-turns", 1))
    .option("--set <key=value>", "option of the environment (repeat)", collect, [])
    .action(runRecord);
}

async function runRecord(named: string, flags: Flags): Promise<void> {
  checkWritable(flags.out, "--out");
  const site = isSite(named);
  if (!site && (flags.goal !== undefined || flags.allowNetwork === true)) {
    throw new ConfigError(
      `--goal and --allow-network are for a site: name one by its address, http://…; got "${named}".`,
    );
  }
  if (site && flags.goal === undefined) throw new ConfigError("A site needs --goal: what the clicks are meant to do.");
  const id = site ? registerSite(named, flags.goal ?? "", flags.allowNetwork === true) : named;
  const options = envOptions(flags);
  const env = await makeEnv(id, options);
  try {
    if (flags.append !== true) writeFileSync(flags.out, "", { flag: "wx" });
    const writer = new DemoWriter(flags.out, false);
    let kept = 0;
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    onInterrupt(() => end());
    const server = await startRecorder({
      env,
      name: named,
      options,
      seed: flags.seed,
      judged: !site,
      ...(flags.port !== undefined && { port: flags.port }),
      onDemo: (demo) => {
        appendFileSync(flags.out, `${writer.row(demo)}\n`);
        kept += 1;
        process.stderr.write(`${kept} kept: seed ${demo.seed}, ${demo.turns} actions, reward ${demo.reward}\n`);
        return kept === flags.episodes;
      },
      onDone: end,
    });
    process.stderr.write(`Open ${server.url} and show how it is done. Ctrl-C ends.\n`);
    await ended;
    await server.close();
    process.stderr.write(`${kept} episodes in ${flags.out}\n`);
  } finally {
    await env.close?.();
  }
}
