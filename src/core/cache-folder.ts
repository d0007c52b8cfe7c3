/**
 * Where compiled kernels and other things lie that are made once and run later. Whoever can write there decides what this process runs, so a folder counts
 * only when it belongs to this user or to root and nobody else can write to it. Windows has no user ids: there the folders are in the user's own profile, whose
 * access lists keep others out, and nothing is checked.
 */
import { chmodSync, constants, lstatSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { homedir, tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { ConfigError, errorMessage } from "./errors.ts";

const GROUP_WRITES = 0o020;
const OTHERS_WRITE = 0o002;

/** $SACCADE_CACHE, else $XDG_CACHE_HOME/saccade or ~/.cache/saccade, else the user's own folder in the temporary one: the first that can be used. */
export function cacheFolder(): string {
  const { SACCADE_CACHE, XDG_CACHE_HOME } = process.env;
  const wanted =
    SACCADE_CACHE || (XDG_CACHE_HOME ? join(XDG_CACHE_HOME, "saccade") : join(homedir(), ".cache", "saccade"));
  const problems: string[] = [];
  for (const folder of [wanted, join(tmpdir(), `saccade-${process.getuid?.() ?? userInfo().username}`)]) {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const problem = mistrust(folder);
      if (problem === undefined) {
        rmSync(mkdtempSync(join(folder, "probe-")), { recursive: true });
        return folder;
      }
      problems.push(`${folder} ${problem}`);
      // Who names a folder means that one.
      if (SACCADE_CACHE) break;
    } catch (error) {
      problems.push(errorMessage(error));
    }
  }
  throw new ConfigError(
    `Saccade found no folder for compiled files: ${problems.join("; ")}. Set SACCADE_CACHE to a folder that only you can write to.`,
  );
}

/** Where `jiti` keeps what it compiled, which is run later: its own choice would be a folder in the temporary one that anybody can make first. */
export function compiledScripts(): string | false {
  try {
    const folder = join(cacheFolder(), "jiti");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return mistrust(folder) === undefined && folder;
  } catch {
    return false;
  }
}

/** Why what lies at a path must not be run, if so. A folder of our own that our group could write to is closed to it. */
export function mistrust(path: string): string | undefined {
  const user = process.getuid?.();
  if (user === undefined) return undefined;
  const { uid, mode } = lstatSync(path);
  if (uid !== user && uid !== 0) return `belongs to another user (${uid})`;
  // Whoever made a link may turn it; that was us or root.
  if ((mode & constants.S_IFMT) === constants.S_IFLNK) return mistrust(realpathSync(path));
  if (mode & OTHERS_WRITE) return "can be written to by everybody (chmod go-w would change that)";
  if (!(mode & GROUP_WRITES)) return undefined;
  if (uid !== user) return "can be written to by a group";
  chmodSync(path, mode & 0o7755);
  return undefined;
}
