/** What workers that run environments know: the built-in worlds, and files of the user. */
import { isPath, loadFile } from "../envs/load.ts";
import type { EnvSpec } from "./env-wire.ts";
import "../../worlds/register.ts";

const loaded = new Set<string>();

/** Loads the file that an environment comes from, once. What it imports from "saccade" is the whole package, as on the main thread. */
export async function loadModule({ id, module }: Pick<EnvSpec, "id" | "module">): Promise<void> {
  if (module !== undefined || isPath(id)) await import("../index.ts");
  if (module === undefined || loaded.has(module)) return;
  loadFile(module);
  loaded.add(module);
}
