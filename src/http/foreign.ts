/** What somebody else's options may not do. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Json } from "../core/json.ts";
import { HttpError } from "./errors.ts";

/** They may say what is played, not which files of this machine are read. */
export function refuseFiles(value: Json, path: string): void {
  if (typeof value === "object" && value !== null) {
    for (const [key, inner] of Object.entries(value)) refuseFiles(inner, `${path}.${key}`);
  } else if (typeof value === "string" && (/[/\\]/.test(value) || (value !== "" && existsSync(resolve(value))))) {
    throw new HttpError(403, `${path} names a file, and files are chosen where the server is started.`);
  }
}
