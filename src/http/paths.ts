/** The path of an address, read strictly: nothing in it may look like a way up or carry a hidden separator. */

/**
 * Whether a raw request target is a plain path. It is looked at before any URL is made of it, because that would quietly resolve dots and turn
 * backslashes into slashes.
 */
export function isPlainTarget(target: string): boolean {
  const path = target.split("?", 1)[0] as string;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
  if (!path.startsWith("/") || /[\\\x00-\x1f\x7f#]/.test(path)) return false;
  return !path.split("/").some((part) => /^(\.|%2e){1,2}$/i.test(part));
}

/** The decoded parts of a path; undefined when one holds an encoded separator, dots alone, or a control character. */
export function segmentsOf(pathname: string): string[] | undefined {
  const segments: string[] = [];
  for (const part of pathname.slice(1).split("/")) {
    let name: string;
    try {
      name = decodeURIComponent(part);
    } catch {
      return undefined;
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
    if (name === "." || name === ".." || /[/\\\x00-\x1f]/.test(name)) return undefined;
    segments.push(name);
  }
  return segments;
}
