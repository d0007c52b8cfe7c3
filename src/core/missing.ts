/** A file that is not there, in words: the nearest name in its folder may be the one that was meant. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname } from "node:path";
import { didYouMean } from "./words.ts";

/** `There is no file a/row.jsonl. Did you mean "rows.jsonl"?` */
export function missingFile(path: string): string {
  const folder = dirname(path);
  if (!existsSync(folder)) return `There is no file ${path}: there is no folder ${folder}.`;
  const names = statSync(folder).isDirectory() ? readdirSync(folder) : [];
  return `There is no file ${path}.${didYouMean(basename(path), names) || " Check the path."}`;
}
