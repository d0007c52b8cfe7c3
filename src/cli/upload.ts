/** `saccade run upload`: a trained model to the Hugging Face hub. */
import { Command } from "commander";
import { uploadModel } from "../train/hub.ts";
import { chosenModel } from "./chosen-model.ts";

type Flags = { private?: boolean; title?: string };

export function uploadCommand(): Command {
  return new Command("upload")
    .description("upload a trained model to the Hugging Face hub, with the token in HF_TOKEN")
    .argument("<run>", "a run (its best checkpoint, else its latest), a checkpoint, or a model folder")
    .argument("<repo>", "<user or organization>/<name>; created if it does not exist")
    .option("--private", "make a new repository private")
    .option("--title <text>", "commit message")
    .action(async (folder: string, repo: string, flags: Flags) => {
      const { url, files, commit } = await uploadModel({ folder: await chosenModel(folder), repo, ...flags });
      const count = `${files.length} file${files.length === 1 ? "" : "s"}`;
      process.stdout.write(`${count} in commit ${commit.slice(0, 12)}: ${url}\n`);
    });
}
