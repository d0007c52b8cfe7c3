/** `saccade upload`: a trained model to the Hugging Face hub. */
import { Command } from "commander";
import { uploadModel } from "../train/hub.ts";
import { chosenModel } from "./chosen-model.ts";

type Flags = { token?: string; private?: boolean; title?: string };

export function uploadCommand(): Command {
  return new Command("upload")
    .description("upload a trained model to the Hugging Face hub")
    .argument("<folder>", "a model folder, a checkpoint, or a run (its best checkpoint, else the latest)")
    .argument("<repo>", "<user or organization>/<name>; made when it is not there")
    .option("--token <token>", "a token with the right to write (default: HF_TOKEN of the environment)")
    .option("--private", "make a new repository private")
    .option("--title <text>", "title of the commit")
    .action(async (folder: string, repo: string, flags: Flags) => {
      const { url, files, commit } = await uploadModel({ folder: await chosenModel(folder), repo, ...flags });
      const count = `${files.length} file${files.length === 1 ? "" : "s"}`;
      process.stdout.write(`${count} in commit ${commit.slice(0, 12)}: ${url}\n`);
    });
}
