/** Links of the docs that lead out of `docs/`: to examples and other files of the repository. */
import { dirname, posix } from "node:path";

/** The path in the repository of a link that leads out of `docs/`; undefined: it does not. `page`: below `docs/`. */
export function outside(link: string, page: string): string | undefined {
  if (/^([a-z]+:|#|\/)/.test(link)) return undefined;
  const target = posix.join("docs", dirname(page), link);
  return target.startsWith("docs/") ? undefined : target;
}
