/** `saccade data export` and `saccade data import`: demonstrations in the formats of others. */
import { appendFileSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { Command, Option } from "commander";
import { ConfigError } from "../core/errors.ts";
import { AtifWriter, DemoWriter, readAtif, readDemos } from "../envs/index.ts";

const FORMATS = ["atif"] as const;
const format = () => new Option("--format <name>", "the other format").choices(FORMATS).default("atif");

export function exportDataCommand(): Command {
  return new Command("export")
    .description("convert demonstrations to another trajectory format (Harbor's ATIF)")
    .argument("<file>", "demonstrations, JSON lines")
    .requiredOption("--out <folder>", "folder to write the trajectories and their images to")
    .addOption(format())
    .action(async (file: string, { out }: { out: string }) => {
      if (existsSync(out) && readdirSync(out).length > 0)
        throw new ConfigError(`${out} is not empty: choose another --out.`);
      const writer = new AtifWriter(out);
      let count = 0;
      for await (const demo of readDemos(file)) {
        writer.write(demo);
        count += 1;
      }
      process.stdout.write(`${count} trajectories with ${writer.images} images in ${out}\n`);
    });
}

export function importDataCommand(): Command {
  return new Command("import")
    .description("convert trajectories of another format (Harbor's ATIF) to demonstrations")
    .argument("<path>", "a folder of trajectories, or one file")
    .requiredOption("--out <file>", "file to write, JSON lines")
    .addOption(format())
    .action(async (path: string, { out }: { out: string }) => {
      if (!existsSync(path)) throw new ConfigError(`There is no file or folder ${path}.`);
      if (existsSync(out)) throw new ConfigError(`${out} exists: choose another --out.`);
      const writer = new DemoWriter(out, false);
      writeFileSync(out, "");
      let count = 0;
      for await (const demo of readAtif(path)) {
        appendFileSync(out, `${writer.row(demo)}\n`);
        count += 1;
      }
      process.stdout.write(`${count} demonstrations with ${writer.frames} images in ${out}\n`);
    });
}
