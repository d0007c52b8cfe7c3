/** Keys and typed text as DevTools' key events. A text is typed letter by letter, as pages that watch the keyboard expect. */
import type { KeyName } from "./actions.ts";
import type { PageSession } from "./session.ts";

type Key = {
  key: string;
  code: string;
  windowsVirtualKeyCode: number;
  text?: string;
  modifiers?: number;
  commands?: string[];
};

const CONTROL = 2;
const SHIFT = 8;

/** `copy` and `paste` are the world's own: the browser's clipboard is shared by all of its pages. */
const TABLE: Readonly<Record<Exclude<KeyName, "copy" | "paste">, Key>> = {
  enter: { key: "Enter", code: "Enter", windowsVirtualKeyCode: 13, text: "\r" },
  tab: { key: "Tab", code: "Tab", windowsVirtualKeyCode: 9 },
  shift_tab: { key: "Tab", code: "Tab", windowsVirtualKeyCode: 9, modifiers: SHIFT },
  escape: { key: "Escape", code: "Escape", windowsVirtualKeyCode: 27 },
  backspace: { key: "Backspace", code: "Backspace", windowsVirtualKeyCode: 8 },
  delete: { key: "Delete", code: "Delete", windowsVirtualKeyCode: 46 },
  space: { key: " ", code: "Space", windowsVirtualKeyCode: 32, text: " " },
  up: { key: "ArrowUp", code: "ArrowUp", windowsVirtualKeyCode: 38 },
  down: { key: "ArrowDown", code: "ArrowDown", windowsVirtualKeyCode: 40 },
  left: { key: "ArrowLeft", code: "ArrowLeft", windowsVirtualKeyCode: 37 },
  right: { key: "ArrowRight", code: "ArrowRight", windowsVirtualKeyCode: 39 },
  home: { key: "Home", code: "Home", windowsVirtualKeyCode: 36 },
  end: { key: "End", code: "End", windowsVirtualKeyCode: 35 },
  page_up: { key: "PageUp", code: "PageUp", windowsVirtualKeyCode: 33 },
  page_down: { key: "PageDown", code: "PageDown", windowsVirtualKeyCode: 34 },
  select_all: { key: "a", code: "KeyA", windowsVirtualKeyCode: 65, modifiers: CONTROL, commands: ["selectAll"] },
};

async function press(session: PageSession, { commands, ...key }: Key): Promise<void> {
  const down = { type: key.text === undefined ? "rawKeyDown" : "keyDown", ...key, ...(commands && { commands }) };
  await Promise.all([
    session.input("Input.dispatchKeyEvent", down),
    session.input("Input.dispatchKeyEvent", { type: "keyUp", ...key, text: undefined }),
  ]);
}

export async function pressKey(session: PageSession, name: KeyName, clipboard: string): Promise<void> {
  if (name === "copy") return;
  if (name === "paste") await session.input("Input.insertText", { text: clipboard });
  else await press(session, TABLE[name]);
}

export async function typeText(session: PageSession, text: string): Promise<void> {
  for (const letter of text) {
    if (letter === "\n") await press(session, TABLE.enter);
    else if (/^[ -~]$/.test(letter)) {
      const code = letter.toUpperCase().charCodeAt(0);
      await press(session, {
        key: letter,
        code: "",
        windowsVirtualKeyCode: /[A-Z0-9 ]/i.test(letter) ? code : 0,
        text: letter,
      });
    } else await session.input("Input.insertText", { text: letter });
  }
}
