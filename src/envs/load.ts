/**
 * Loads a user's TypeScript file. `jiti` compiles it on the fly; `import … from "saccade"` inside it gives this very
 * copy of Saccade, wherever the file lies and however Saccade was installed.
 */
import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { createJiti } from "jiti";
import { compiledScripts } from "../core/cache-folder.ts";
import { ConfigError, errorMessage } from "../core/errors.ts";
import { missingFile } from "../core/missing.ts";
import { didYouMean } from "../core/words.ts";

const shared: Record<string, unknown> = {};

/** Makes a module available to user files under an import name. */
export function shareModule(name: string, module: unknown): void {
  shared[name] = module;
}

/** The default export of a file (or the whole module when it has none). */
export function loadFile(path: string): unknown {
  const file = resolve(path);
  if (!existsSync(file)) throw new ConfigError(missingFile(file));
  if (statSync(file).isDirectory()) throw new ConfigError(`${path} is a folder: name a .ts or .js file in it.`);
  let module: unknown;
  try {
    const options = { interopDefault: true, moduleCache: false, virtualModules: shared, fsCache: compiledScripts() };
    module = createJiti(import.meta.url, options)(file);
  } catch (error) {
    // One line: the parser puts the place on a second one, the loader lists who asked.
    const why = errorMessage(error)
      .replace(/\nRequire stack:[\s\S]*$/, "")
      .split(/\s*\n\s*/)
      .join(", ");
    throw new ConfigError(`${path} could not be loaded: ${missingExport(why) ?? why}`, { cause: error });
  }
  return (module as { default?: unknown } | undefined)?.default ?? module;
}

/** Compiled, an import that is not there is called by a name that nobody wrote: `(0 , _saccade.defineWrld) is not a function`. */
function missingExport(why: string): string | undefined {
  const name = /\(0 , _saccade(?:\w*)\.(\w+)\) is not a/.exec(why)?.[1];
  if (name === undefined) return undefined;
  const known = Object.values(shared).flatMap((module) => Object.keys(module as object));
  return known.includes(name)
    ? `${why.replace(/\(0 , _saccade\w*\.(\w+)\)/, "$1")}: it is in another part of Saccade than it is imported from.`
    : `"saccade" has no export "${name}".${didYouMean(name, known)}`;
}

/** Names of files start with `./`, `../` or `/`, or end like one. */
export function isPath(name: string): boolean {
  return /^(\.{1,2}[/\\]|\/|[a-zA-Z]:[/\\])/.test(name) || /\.[mc]?[jt]s(#|$)/.test(name);
}
