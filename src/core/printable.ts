/**
 * Text of a server, a model or an environment on its way to a terminal. Control characters could move the cursor, rewrite what was printed, set the
 * window's title or the clipboard, so they are shown instead of obeyed; characters that turn the order of writing around could hide what a line says.
 */

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is shown
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Lines and tabs stay; ESC becomes ␛, and so on. */
export function printable(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(CONTROL, (one) => {
    const code = one.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "␡" : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** JSON that a terminal can show: what `JSON.stringify` leaves as it is, escaped. */
export function printableJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    CONTROL,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
