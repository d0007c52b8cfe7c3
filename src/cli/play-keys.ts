/** Which key plays which command of a world, and what a terminal sends for a key. Directions are on the arrows; every other command has a letter of its name, or a digit. */
export type Binding = { readonly key: string; readonly command: string };

/** Keys that mean the same in every world. */
export const FIXED_KEYS = {
  u: "undo",
  h: "hint",
  o: "oracle plays on",
  r: "restart",
  n: "next seed",
  ":": "type an action",
  q: "quit",
} as const;

const ARROWS: Readonly<Record<string, string>> = {
  up: "↑",
  down: "↓",
  left: "←",
  right: "→",
  north: "↑",
  south: "↓",
  west: "←",
  east: "→",
};

export function bindKeys(commands: readonly string[]): Binding[] {
  const taken = new Set<string>(Object.keys(FIXED_KEYS));
  const bound = new Map<string, string>();
  const bind = (command: string, key: string | undefined) => {
    if (key === undefined || taken.has(key) || bound.has(command)) return;
    taken.add(key);
    bound.set(command, key);
  };
  for (const command of commands) bind(command, ARROWS[command.toLowerCase()]);
  // `forward`, `turn_left`: what only one command says of a direction is on its arrow, too.
  for (const [word, key] of [
    ["forward", "↑"],
    ["backward", "↓"],
    ["back", "↓"],
    ["left", "←"],
    ["right", "→"],
    ["up", "↑"],
    ["down", "↓"],
  ] as const) {
    const said = commands.filter((command) => command.toLowerCase().split(/[_ -]/).includes(word));
    if (said.length === 1) bind(said[0] as string, key);
  }
  for (const command of commands) {
    const letters = [...command.toLowerCase()].filter((letter) => /[a-z0-9]/.test(letter));
    bind(
      command,
      letters.find((letter) => !taken.has(letter)),
    );
  }
  const digits = [..."1234567890"];
  for (const command of commands)
    bind(
      command,
      digits.find((digit) => !taken.has(digit)),
    );
  return commands.flatMap((command) => {
    const key = bound.get(command);
    return key === undefined ? [] : [{ key, command }];
  });
}

const SEQUENCES: Readonly<Record<string, string>> = {
  "\x1b[A": "↑",
  "\x1b[B": "↓",
  "\x1b[C": "→",
  "\x1b[D": "←",
  "\x1bOA": "↑",
  "\x1bOB": "↓",
  "\x1bOC": "→",
  "\x1bOD": "←",
  "\r": "enter",
  "\n": "enter",
  "\x7f": "backspace",
  "\b": "backspace",
  "\x03": "ctrl-c",
  "\x04": "ctrl-c",
  "\x1b": "escape",
};

/** The keys in what a terminal sent at once; sequences that mean nothing here are left out. */
export function keysIn(sent: string): string[] {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: keys are control sequences
  const pieces = sent.match(/\x1b[[O][0-9;]*[A-Za-z~]|\x1b[_P\]][^\x1b\x07]*(?:\x07|\x1b\\)|[\s\S]/gu) ?? [];
  return pieces.flatMap((piece) => {
    const known = SEQUENCES[piece];
    if (known !== undefined) return [known];
    return piece.length <= 2 && piece >= " " ? [piece] : [];
  });
}
