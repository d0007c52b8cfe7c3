/**
 * The store's boundary. A request may name weights in the store and nothing else: neither by a path that leaves it, nor by a link in a folder of it, nor by
 * the base model that an adapter names, which is the served model or lies in the store as well.
 */
import { readdir, readFile, realpath } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { ApiError } from "../wire/errors.ts";

/** The real place of a folder with weights, all of whose files lie in the store. `base`: the served model. */
export async function inside(store: string | undefined, path: string, base: string): Promise<string> {
  if (store === undefined) {
    throw new ApiError(403, "This server can't load weights: start it with --store and the folder that holds them.");
  }
  const root = await realpath(store);
  const named = resolve(root, path);
  const real = await realpath(named).catch(() => undefined);
  const way = relative(root, real ?? named);
  if (leaves(root, real ?? named)) throw new ApiError(403, "That path leaves the server's store.");
  if (real === undefined) throw new ApiError(404, `There is no ${way} in the server's store.`);
  await checkLinks(root, real);
  const under = await baseOf(real);
  if (under !== undefined && under !== (await realpath(base))) {
    if (leaves(root, under))
      throw new ApiError(403, `The base model of ${way} is neither the served model nor in the server's store.`);
    await checkLinks(root, under);
  }
  return real;
}

async function checkLinks(root: string, folder: string): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => []);
  for (const entry of entries.filter((one) => one.isSymbolicLink())) {
    const place = join(entry.parentPath, entry.name);
    const target = await realpath(place).catch(() => undefined);
    if (target === undefined || leaves(root, target))
      throw new ApiError(403, `${relative(root, place)} is a link that leaves the server's store.`);
  }
}

function leaves(root: string, place: string): boolean {
  const way = relative(root, place);
  return way === ".." || way.startsWith(`..${sep}`) || resolve(way) === way;
}

/** Of an adapter: the real place of what it names. */
async function baseOf(folder: string): Promise<string | undefined> {
  try {
    const text = await readFile(join(folder, "adapter_config.json"), "utf8");
    const { base_model_name_or_path: base } = JSON.parse(text) as { base_model_name_or_path?: unknown };
    if (typeof base !== "string") return undefined;
    return await realpath(base).catch(() => resolve(base));
  } catch {
    // None, or one that the engine will complain about.
    return undefined;
  }
}
