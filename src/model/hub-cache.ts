/** `hf:Qwen/Qwen3-VL-8B-Instruct`: a model that `hf download` has put into the Hugging Face cache. Nothing is downloaded here. */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";

export const HUB_PREFIX = "hf:";

/** The folder of a model that is named by its path or by its name on the hub. */
export function modelPath(named: string): string {
  if (!named.startsWith(HUB_PREFIX)) return named;
  const name = named.slice(HUB_PREFIX.length);
  const repository = join(hubCache(), `models--${name.replaceAll("/", "--")}`);
  const main = join(repository, "refs", "main");
  const folder = existsSync(main) ? join(repository, "snapshots", readFileSync(main, "utf8").trim()) : undefined;
  if (folder !== undefined && existsSync(join(folder, "config.json"))) return folder;
  throw new ConfigError(
    `${name} is not in the Hugging Face cache (${hubCache()}): run \`hf download ${name}\`, or name a folder that has it with --set model=FOLDER.`,
  );
}

/** Where huggingface_hub keeps what it downloads. */
function hubCache(): string {
  const { HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME } = process.env;
  return HF_HUB_CACHE || join(HF_HOME || join(XDG_CACHE_HOME || join(homedir(), ".cache"), "huggingface"), "hub");
}
