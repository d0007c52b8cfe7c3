/** `saccade lab`: the page that learns, as one file. `saccade view` shows the same at /lab, with threads. */
import { Command } from "commander";
import { exportLab } from "../viewer/lab.ts";
import { checkWritable } from "./common.ts";

export function labCommand(): Command {
  return new Command("lab")
    .description("write a web page in which a small model learns to cross lakes")
    .requiredOption("--out <file>", "HTML file to write")
    .action(async ({ out }: { out: string }) => {
      checkWritable(out, "--out");
      const bytes = await exportLab(out);
      process.stdout.write(`${out}: ${(bytes / 1024 / 1024).toFixed(1)} MB; open it in a browser\n`);
    });
}
