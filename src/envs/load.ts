/**
 * Loads a user's TypeScript file. `jiti` compiles it on the fly; `import … from "saccade"` inside it gives this very
 * copy of Saccade, wherever the file lies and however Saccade was installed.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { createJiti } from "jiti";
import { ConfigError, errorMessage } from "../core/errors.ts";

const shared: Record<string, unknown> = {};

/** Makes a module available to user files under an import name. */
export function shareModule(name: string, module: unknown): void {
  shared[name] = module;
}

/** The default export of a file (or the whole module when it has none). */
export function loadFile(path: string): unknown {
  const file = resolve(path);
  if (!existsSync(file)) throw new ConfigError(`There is no file ${file}; check the path.`);
  let module: unknown;
  try {
    module = createJiti(import.meta.url, { interopDefault: true, moduleCache: false, virtualModules: shared })(file);
  } catch (error) {
    // One line: the parser puts the place on a second one, the loader lists who asked.
    const why = errorMessage(error)
      .replace(/\nRequire stack:[\s\S]*$/, "")
      .split(/\s*\n\s*/)
      .join(", ");
    throw new ConfigError(`${path} could not be loaded: ${why}`, { cause: error });
  }
  return (module as { default?: unknown } | undefined)?.default ?? module;
}

/** Names of files start with `./`, `../` or `/`, or end like one. */
export function isPath(name: string): boolean {
  return /^(\.{1,2}[/\\]|\/|[a-zA-Z]:\\)/.test(name) || /\.[mc]?[jt]s(#|$)/.test(name);
}
